//! Runs cargo, and counts what its output reports.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, io};

/// The output of a command, and its counts of tests.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) lines: Vec<String>,
    pub(crate) passed: usize,
}

/// Returns a cargo command that runs in `root`.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(root);
    // Removes the variables that cargo has set for this program's own package. Some build scripts
    // would run again because of them.
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        }) {
            command.env_remove(name);
        }
    }
    command
}

/// Returns the target folder for builds with other compiler flags, which keeps the ordinary build
/// intact.
pub(crate) fn target_folder(root: &Path, name: &str) -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from).join(name)
}

/// Runs a command, prints its output and records it. A non-zero exit status is an error.
pub(crate) fn run(command: &mut Command) -> Result<Said, String> {
    let shown = format!("{command:?}");
    let said = listen(command).map_err(|error| format!("{shown} could not be run: {error}"))?;
    match said {
        (said, true) => Ok(said),
        (_, false) => Err(format!("{shown} failed")),
    }
}

fn listen(command: &mut Command) -> io::Result<(Said, bool)> {
    let mut child = command.stdout(Stdio::piped()).spawn()?;
    let mut said = Said::default();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let line = line?;
            writeln!(io::stdout(), "{line}")?;
            said.hear(line);
        }
    }
    let status = child.wait()?;
    Ok((said, status.success()))
}

impl Said {
    fn hear(&mut self, line: String) {
        if let Some(result) = line.trim().strip_prefix("test result: ") {
            self.passed += before(result, " passed").unwrap_or(0);
        }
        self.lines.push(line);
    }

    /// How many lines hold these words.
    pub(crate) fn lines_with(&self, words: &str) -> usize {
        self.lines.iter().filter(|line| line.contains(words)).count()
    }
}

/// Returns the number directly before `word`.
fn before(line: &str, word: &str) -> Option<usize> {
    let text = &line[..line.find(word)?];
    let digits = text.rsplit(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Said, run};
    use std::process::Command;

    #[test]
    fn results_are_summed() {
        let mut said = Said::default();
        said.hear(
            "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out".into(),
        );
        said.hear(
            "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out".into(),
        );
        said.hear("test a ... ok".into());
        assert_eq!(said.passed, 15);
    }

    #[test]
    fn a_bad_exit_status_is_an_error() {
        assert!(run(Command::new("sh").args(["-c", "echo 1 slopes; exit 3"])).is_err());
        assert!(run(&mut Command::new("no-such-program-anywhere")).is_err());
        let said = run(Command::new("sh").args(["-c", "echo 7 slopes"])).unwrap();
        assert_eq!((said.lines_with("slopes"), said.lines_with("loops")), (1, 0));
    }
}
