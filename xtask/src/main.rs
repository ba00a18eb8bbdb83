//! The project's own checks: `cargo xtask`.
fn main() {}
