//! `cargo xtask determinism` checks that a simulation is the same in each build: with debug
//! assertions, optimized, and with each task on a thread of its own.
//!
//! A test prints a line for each seed, with the hash and the result of a run. The lines of all
//! builds have to be equal, and there has to be at least one.

use crate::outcome::Outcome;
use crate::process::{Said, cargo, run, target_folder};
use std::path::Path;

/// The test that prints the lines.
const TEST: &str = "sim::same::sim_362_in_other_builds";

/// What each of its lines begins with.
const WORD: &str = "seed ";

/// Runs the test in each build.
pub(crate) fn check(root: &Path) -> Outcome {
    let build = |arguments: &[&str]| {
        let mut command = cargo(root, &["test", "--test", "behaviour"]);
        command.args(arguments).args(["--", "--exact", TEST, "--nocapture"]);
        command
    };
    let mut baton = build(&[]);
    baton.env("RUSTFLAGS", "--cfg ecru_baton");
    baton.env("CARGO_TARGET_DIR", target_folder(root, "baton"));
    let builds =
        [("debug", build(&[])), ("optimized", build(&["--profile", "quick"])), ("threads", baton)];
    let mut said = vec![];
    for (name, mut command) in builds {
        println!("--- {name}");
        match run(&mut command) {
            Ok(one) => said.push((name, one)),
            Err(problem) => return Outcome::broken(problem),
        }
    }
    compare(&said)
}

/// Compares the lines of all builds with those of the first one.
fn compare(said: &[(&str, Said)]) -> Outcome {
    let lines = |said: &Said| -> Vec<String> {
        said.lines.iter().filter(|line| line.starts_with(WORD)).cloned().collect()
    };
    let Some((first, rest)) = said.split_first() else {
        return Outcome::broken("no build was run".into());
    };
    let wanted = lines(&first.1);
    let mut problems = vec![];
    if wanted.is_empty() {
        problems.push(format!("{TEST} has printed no hash"));
    }
    for (name, said) in rest {
        let found = lines(said);
        if found.len() != wanted.len() {
            problems.push(format!(
                "{} hashes in the build '{name}', and {} in '{}'",
                found.len(),
                wanted.len(),
                first.0
            ));
        }
        let differ = wanted.iter().zip(&found).filter(|(one, other)| one != other);
        problems.extend(differ.map(|(one, other)| {
            format!("the run differs: `{one}` in '{}', `{other}` in '{name}'", first.0)
        }));
    }
    let cases = wanted.len() * said.len();
    let summary = format!("{} runs in {} builds", wanted.len(), said.len());
    Outcome { cases, summary, problems }
}

#[cfg(test)]
mod tests {
    use super::compare;
    use crate::process::Said;

    fn said(lines: &[&str]) -> Said {
        let lines = lines.iter().map(|line| (*line).to_owned()).collect();
        Said { lines, ..Said::default() }
    }

    #[test]
    fn equal_runs_are_counted_and_other_lines_ignored() {
        let one = ["running 1 test", "seed 0: a", "seed 1: b"];
        let outcome = compare(&[("x", said(&one)), ("y", said(&one[1..]))]);
        assert_eq!((outcome.cases, outcome.problems.len()), (4, 0));
        assert_eq!(outcome.summary, "2 runs in 2 builds");
    }

    #[test]
    fn runs_that_differ_are_shown() {
        let outcome = compare(&[("x", said(&["seed 0: a"])), ("y", said(&["seed 0: b"]))]);
        outcome.complains("the run differs: `seed 0: a` in 'x', `seed 0: b` in 'y'");
        let outcome = compare(&[("x", said(&["seed 0: a"])), ("y", said(&[]))]);
        outcome.complains("0 hashes in the build 'y', and 1 in 'x'");
    }

    #[test]
    fn a_test_that_prints_nothing_proves_nothing() {
        compare(&[("x", said(&[])), ("y", said(&[]))]).complains("has printed no hash");
    }
}
