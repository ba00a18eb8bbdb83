//! Test programs, and what they print.

use crate::process::cargo;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// What a line begins with in which a test says how many simulations it has made.
const LINE: &str = "ecru::sim: ";

/// Variables that change what the tests do.
const VARIABLES: [&str; 5] = [
    "ECRU_SIM_SEED",
    "ECRU_SIM_SEEDS",
    "ECRU_TEST_SEED",
    "ECRU_TEST_WORKERS",
    "ECRU_TEST_PLACEMENT",
];

/// A test program.
#[derive(Debug)]
pub(super) struct Program {
    /// The package, unless it is the library.
    package: Option<&'static str>,
    name: &'static str,
    path: PathBuf,
    root: PathBuf,
    profile: String,
}

/// What a test program has printed.
#[derive(Debug, Default)]
pub(super) struct Pass {
    /// The tests that made simulations, and how many.
    pub(super) made: BTreeMap<String, usize>,
    pub(super) passed: usize,
    pub(super) failed: Vec<String>,
    /// The program ended by itself and no test failed.
    succeeded: bool,
}

impl Program {
    /// Builds test programs.
    pub(super) fn build<const N: usize>(
        root: &Path,
        profile: &str,
        package: Option<&'static str>,
        names: [&'static str; N],
    ) -> Result<[Program; N], String> {
        let mut command = cargo(root, &["test", "--no-run", "--profile", profile]);
        command.args(["--message-format", "json-render-diagnostics"]);
        command.args(package.iter().flat_map(|package| ["--package", package]));
        command.args(names.iter().flat_map(|name| ["--test", name]));
        let output = run(command.stderr(Stdio::inherit()))?;
        if !output.status.success() {
            return Err(format!("{command:?} failed"));
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let paths = names.map(|name| text.lines().find_map(|line| executable(line, name)));
        if let Some(missing) = names.iter().zip(&paths).find(|(_, path)| path.is_none()) {
            return Err(format!("cargo names no program for {}", missing.0));
        }
        let mut names = names.into_iter();
        Ok(paths.map(|path| Program {
            package,
            name: names.next().unwrap_or_default(),
            path: path.unwrap_or_default(),
            root: root.to_owned(),
            profile: profile.to_owned(),
        }))
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.current_dir(&self.root);
        for variable in VARIABLES {
            command.env_remove(variable);
        }
        command
    }

    /// Returns the names of all tests.
    pub(super) fn tests(&self) -> Result<Vec<String>, String> {
        let mut command = self.command();
        let output = run(command.args(["--list", "--format", "terse"]))?;
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(String::from).collect())
    }

    /// Runs these tests, or all if there are none, and prints what those have written that failed.
    pub(super) fn pass(&self, tests: &[&str], variables: &[(&str, usize)]) -> Result<Pass, String> {
        let mut command = self.command();
        command.args(["--show-output", "--exact"]).args(tests);
        command.envs(variables.iter().map(|(name, value)| (name, value.to_string())));
        let output = run(&mut command)?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut pass = Pass::of(&text);
        pass.succeeded = output.status.success();
        let said: Vec<_> =
            variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        println!(
            "--- {}{} with {}: {} simulations, {} tests passed, {} failed",
            self.package.map_or_else(String::new, |package| format!("{package} ")),
            self.name,
            said.join(" "),
            pass.simulations(),
            pass.passed,
            pass.failed.len()
        );
        if !pass.succeeded {
            let failures = text.find("\nfailures:\n").map_or(&*text, |place| &text[place..]);
            println!("{failures}\n{}{}", String::from_utf8_lossy(&output.stderr), output.status);
        }
        Ok(pass)
    }
}

fn run(command: &mut Command) -> Result<Output, String> {
    command.stdin(Stdio::null());
    command.output().map_err(|error| format!("{command:?} could not be run: {error}"))
}

/// Returns the path of a test program if a line of cargo's messages names it.
fn executable(line: &str, name: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    let is_it = message["target"]["name"] == name && message["target"]["kind"][0] == "test";
    message["executable"].as_str().filter(|_| is_it).map(PathBuf::from)
}

impl Pass {
    /// Reads what a program has printed.
    fn of(text: &str) -> Pass {
        let mut pass = Pass::default();
        let mut shown = None;
        for line in text.lines() {
            if let Some(rest) = line.strip_prefix("test ") {
                if rest.ends_with(" ... ok") {
                    pass.passed += 1;
                } else if let Some(name) = rest.strip_suffix(" ... FAILED") {
                    pass.failed.push(name.to_owned());
                }
            }
            let header = line.strip_prefix("---- ");
            if let Some(name) = header.and_then(|rest| rest.strip_suffix(" stdout ----")) {
                shown = Some(name);
            }
            if let (Some(test), Some(rest)) = (shown, line.trim().strip_prefix(LINE))
                && let Some(count) =
                    rest.split(' ').next().and_then(|word| word.parse::<usize>().ok())
            {
                *pass.made.entry(test.to_owned()).or_default() += count;
            }
        }
        pass
    }

    pub(super) fn simulations(&self) -> usize {
        self.made.values().sum()
    }

    /// Describes what failed, with the command that repeats it.
    pub(super) fn problems(&self, program: &Program, variable: &str, value: usize) -> Vec<String> {
        let package =
            program.package.map_or_else(String::new, |package| format!(" --package {package}"));
        let begin = format!(
            "{variable}={value} cargo test --profile {}{package} --test {} --",
            program.profile, program.name
        );
        match &self.failed[..] {
            [] if self.succeeded => vec![],
            [] => vec![format!("the program was ended by a test: {begin} --nocapture")],
            failed => failed.iter().map(|test| format!("{begin} --exact {test}")).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Pass, executable};
    use std::path::PathBuf;

    const PRINTED: &str = "\
running 3 tests
test a::one ... ok
test a::two ... FAILED
test b::three ... ok

successes:

---- a::one stdout ----
ecru::sim: 1 runs
  ecru::sim: 304 runs
ecru::sim: no

failures:

---- a::two stdout ----
ecru::sim: 1 runs

failures:
    a::two
";

    #[test]
    fn simulations_belong_to_the_tests_that_made_them() {
        let pass = Pass::of(PRINTED);
        assert_eq!((pass.passed, &pass.failed[..]), (2, &["a::two".to_owned()][..]));
        assert_eq!((pass.made["a::one"], pass.made["a::two"], pass.simulations()), (305, 1, 306));
        assert!(!pass.made.contains_key("b::three"));
        assert_eq!(Pass::of("").simulations(), 0);
    }

    #[test]
    fn the_program_is_found_in_cargo_s_messages() {
        let line = r#"{"reason":"compiler-artifact","target":{"kind":["test"],"name":"net"},"executable":"/t/net-1"}"#;
        assert_eq!(executable(line, "net"), Some(PathBuf::from("/t/net-1")));
        assert_eq!(executable(line, "accept"), None);
        assert_eq!(executable("warning", "net"), None);
    }
}
