//! Contenders that are programs of their own: members of the workspace, or packages beside it, each
//! built when it is first needed.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds a package with the profile that this program has. Returns its program.
///
/// # Errors
///
/// Returns the reason if it cannot be built.
pub(crate) fn build(package: &str) -> Result<PathBuf, String> {
    let mut command = cargo_build(Path::new(env!("CARGO_MANIFEST_DIR")));
    run(command.args(["--package", package]))?;
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(this.with_file_name(package))
}

/// Builds the program of a package that is no member of this workspace, in a build folder of its own.
/// `set` adds arguments.
///
/// # Errors
///
/// Returns the reason if it cannot be built.
pub(crate) fn build_apart(
    folder: &Path,
    package: &str,
    kind: &str,
    set: impl FnOnce(&mut Command),
) -> Result<PathBuf, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let profile = this.parent().ok_or("the program has no folder")?;
    let profile_name = profile.file_name().ok_or("the folder has no name")?;
    let target = profile.with_file_name(format!("{package}-{kind}"));
    let mut command = cargo_build(folder);
    set(command.arg("--locked").arg("--target-dir").arg(&target));
    run(&mut command)?;
    Ok(target.join(profile_name).join(package))
}

/// Returns a build with the profile that this program has.
fn cargo_build(folder: &Path) -> Command {
    let profile = match env!("ECRU_BENCH_PROFILE") {
        "debug" => "dev",
        profile => profile,
    };
    let mut command = Command::new("cargo");
    command.current_dir(folder).args(["build", "--quiet", "--profile", profile]);
    command
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo build failed: {}", said.trim()));
    }
    Ok(())
}
