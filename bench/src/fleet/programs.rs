//! The contenders' programs: `bench/fleet` in Rust and `bench/fleet/go` in Go, each built when it is
//! first needed.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::go;

/// The folder of the sources in Go.
const GO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fleet/go");

/// The package in Rust.
const PACKAGE: &str = "ecru-bench-fleet";

/// A program that has the work of some contenders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Rust,
    Go,
}

impl Program {
    /// Returns the built program.
    ///
    /// # Errors
    ///
    /// Returns the reason if there is none.
    pub(super) fn path(self) -> Result<PathBuf, String> {
        static PROGRAMS: [OnceLock<Result<PathBuf, String>>; 2] = [const { OnceLock::new() }; 2];
        let build = || match self {
            Program::Rust => build(),
            Program::Go => {
                go::build(GO, "ecru-bench-fleet-go", &["main.go", "asynq.go", "river.go"])
            }
        };
        PROGRAMS[self as usize].get_or_init(build).clone()
    }
}

/// Builds the package in Rust with the profile that this program has.
fn build() -> Result<PathBuf, String> {
    let profile = match env!("ECRU_BENCH_PROFILE") {
        "debug" => "dev",
        profile => profile,
    };
    let mut command = Command::new("cargo");
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")));
    command.args(["build", "--quiet", "--package", PACKAGE, "--profile", profile]);
    let output = command.output().map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("cargo build failed: {}", said.trim()));
    }
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    Ok(this.with_file_name(PACKAGE))
}
