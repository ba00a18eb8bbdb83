//! The peer in Go: one program with a subcommand for each row, built when it is first needed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The folder of the sources.
const SOURCES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/go");

/// Returns the built program.
///
/// # Errors
///
/// Returns the reason if there is none: Go is not installed, or the program did not build.
pub(crate) fn program() -> Result<PathBuf, String> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let build = || build(SOURCES, "ecru-bench-go", &["main.go", "placement.go", "serve.go"]);
    PROGRAM.get_or_init(build).clone()
}

/// Builds the sources of a folder next to this program, as `target/release/ecru-bench-go` for
/// instance. Go's own cache makes a second build quick, and a child process finds its parent's
/// build.
///
/// # Errors
///
/// Returns the reason if there is no such program: Go is not installed, or it did not build.
pub(crate) fn build(folder: &str, name: &str, sources: &[&str]) -> Result<PathBuf, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let program = this.with_file_name(name);
    if sources.iter().all(|source| is_newer(&program, &Path::new(folder).join(source))) {
        return Ok(program);
    }
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(folder)
        .output();
    match built {
        Err(_) => Err("go not found: skipped".into()),
        Ok(output) if output.status.success() => Ok(program),
        Ok(output) => {
            Err(format!("go build failed: {}", String::from_utf8_lossy(&output.stderr).trim()))
        }
    }
}

/// Returns whether the program exists and was built after its source was written.
fn is_newer(program: &Path, source: &Path) -> bool {
    let written = |path: &Path| path.metadata().and_then(|file| file.modified()).ok();
    written(program).is_some_and(|built| written(source).is_some_and(|source| built > source))
}
