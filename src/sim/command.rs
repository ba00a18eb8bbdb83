//! The command that repeats a run of a test.

use std::fmt::Write;

/// The variable of the environment that names the only seed of a test.
pub(super) const ONE: &str = "ECRU_SIM_SEED";

/// Adds the command that repeats the run.
pub(super) fn message(text: &str, seed: u64) -> String {
    format!("{text}\n{}", command(seed))
}

/// Returns the command that repeats the run of this seed.
pub(super) fn command(seed: u64) -> String {
    let mut text = format!("the command that repeats it: {ONE}={seed} cargo test");
    if let Some(package) = std::env::var("CARGO_PKG_NAME").ok().filter(|name| !name.is_empty()) {
        let _ = write!(text, " -p {package}");
    }
    // A thread that runs a test has the test's name.
    let thread = std::thread::current();
    if let Some(name) = thread.name().filter(|name| *name != "main") {
        let _ = write!(text, " -- --exact {name}");
    }
    text
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::message;

    #[test]
    fn the_message_has_the_command() {
        let text = message("it failed", 7);
        assert!(text.contains("ECRU_SIM_SEED=7 cargo test"), "{text}");
        assert!(text.contains("the_message_has_the_command") || text.ends_with("test"), "{text}");
    }
}
