//! Contenders that are programs of their own: members of the workspace, each built when it is first
//! needed.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds a package with the profile that this program has. Returns its program.
///
/// # Errors
///
/// Returns the reason if it cannot be built.
pub(crate) fn build(package: &str) -> Result<PathBuf, String> {
    let profile = match env!("ECRU_BENCH_PROFILE") {
        "debug" => "dev",
        profile => profile,
    };
    let mut command = Command::new("cargo");
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")));
    command.args(["build", "--quiet", "--package", package, "--profile", profile]);
    let output = command.output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo build failed: {}", said.trim()));
    }
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(this.with_file_name(package))
}
