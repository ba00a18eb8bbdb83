//! The contenders' programs: `bench/fleet` in Rust and `bench/fleet/go` in Go, each built when it is
//! first needed.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::{go, member};

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
            Program::Rust => member::build(PACKAGE),
            Program::Go => {
                go::build(GO, "ecru-bench-fleet-go", &["main.go", "asynq.go", "river.go"])
            }
        };
        PROGRAMS[self as usize].get_or_init(build).clone()
    }
}
