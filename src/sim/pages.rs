//! The pages of failing seeds: where they are written.

use std::fmt::Write;
use std::panic::Location;
use std::path::{Path, PathBuf};

use crate::fs;

/// The variable of the environment that names the folder.
pub(super) const PAGES: &str = "ECRU_SIM_PAGES";

/// The size of the recorder of each run, if the program has set none.
pub(super) const BYTES: usize = 1 << 20;

/// Returns the folder that the environment asks for.
pub(super) fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os(PAGES).filter(|folder| !folder.is_empty())?;
    // A reader of the message may not know the working folder of the test.
    Some(std::path::absolute(&folder).unwrap_or_else(|_| folder.into()))
}

/// Returns the file for the page of a seed, for a search that is called here by the current thread.
/// Makes the folder, if it can. If it cannot, the write fails and says why.
pub(super) fn file(folder: &Path, at: &Location<'_>, seed: u64) -> PathBuf {
    let _ = fs::create_dir_all(folder);
    let thread = std::thread::current();
    // A thread that runs a test has the test's name.
    let test = thread.name().filter(|name| *name != "main");
    let source = || Path::new(at.file()).file_stem()?.to_str();
    folder.join(name(test.or_else(source).unwrap_or("main"), at.line(), seed))
}

/// Returns a name for each test, call and seed.
fn name(test: &str, line: u32, seed: u64) -> String {
    let mut name = String::new();
    for part in test.split("::") {
        let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
        name.extend(part.chars().map(|c| if is_plain(c) { c } else { '_' }));
        name.push('.');
    }
    let _ = write!(name, "line-{line}.seed-{seed}.html");
    name
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::name;

    #[test]
    fn each_test_and_seed_has_a_name_that_is_a_file() {
        assert_eq!(name("net::slow", 12, 7), "net.slow.line-12.seed-7.html");
        assert_eq!(
            name("../a b/\0", 1, u64::MAX),
            "___a_b__.line-1.seed-18446744073709551615.html"
        );
    }
}
