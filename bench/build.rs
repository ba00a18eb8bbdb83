//! Passes the compiler's version, its flags and Cargo's profile to the program, so that a result
//! names them.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    let compiler = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = Command::new(compiler).arg("--version").output();
    let version = version.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned());
    println!("cargo::rustc-env=ECRU_BENCH_RUSTC={}", version.unwrap_or_else(|_| "unknown".into()));
    println!("cargo::rustc-env=ECRU_BENCH_PROFILE={}", profile());
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    println!("cargo::rustc-env=ECRU_BENCH_RUSTFLAGS={}", flags.replace('\x1f', " "));
    println!("cargo::rerun-if-changed=build.rs");
}

/// Returns the name of Cargo's profile. `PROFILE` is only `debug` or `release`, but the build
/// folder contains the name itself: `target/fat/build/ecru-bench-0123/out`.
fn profile() -> String {
    let out = env::var("OUT_DIR").unwrap_or_default();
    let folder = Path::new(&out).ancestors().nth(3).and_then(Path::file_name);
    folder.map_or_else(|| "unknown".into(), |name| name.to_string_lossy().into_owned())
}
