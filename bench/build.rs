//! Hands the compiler's own version to the program, so that a result names the compiler that made it.

use std::process::Command;

fn main() {
    let compiler = std::env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = Command::new(compiler).arg("--version").output();
    let version = version.map(|out| String::from_utf8_lossy(&out.stdout).trim().to_owned());
    println!("cargo::rustc-env=ECRU_BENCH_RUSTC={}", version.unwrap_or_else(|_| "unknown".into()));
    println!("cargo::rerun-if-changed=build.rs");
}
