//! `cargo xtask drivers` checks that the tests show the same on both drivers.
//!
//! The tests request no driver, so the environment decides. Where they alternate between one worker
//! and two, the environment picks one. Each combination must run as many tests as the others, and
//! ignore none.

use crate::outcome::Outcome;
use crate::process::{Said, cargo, run};
use std::path::Path;
use std::process::Command;

const DRIVERS: [&str; 2] = ["uring", "poll"];
const WORKERS: [&str; 2] = ["1", "2"];

/// The suites that are run on each driver.
const SUITES: [&str; 2] = ["behaviour", "net"];
/// Attacks that the ordinary run has tested on the best driver, and that are tested here on the
/// other.
const ATTACKS: [&str; 8] = [
    "attack",
    "attack_cancel",
    "attack_channel",
    "attack_net",
    "attack_std",
    "attack_sync",
    "channel_model",
    "stress",
];

const SYSCTL: &str = "/proc/sys/kernel/io_uring_disabled";

/// Runs the suites on both drivers.
pub(crate) fn check(root: &Path) -> Outcome {
    let mut counts = vec![];
    for driver in DRIVERS {
        for workers in WORKERS {
            println!("--- {driver}, with {workers} workers");
            let name = format!("{driver} with {workers}");
            let mut command = tests(root, &SUITES);
            command.env("ECRU_DRIVER", driver).env("ECRU_TEST_WORKERS", workers);
            counts.push((name, run(&mut command)));
        }
    }
    let (mut cases, mut problems) = compare(&counts);
    println!("--- poll under attack");
    match run(tests(root, &ATTACKS).env("ECRU_DRIVER", "poll")) {
        Ok(said) => cases += said.passed,
        Err(problem) => problems.push(problem),
    }
    println!("--- where {SYSCTL} forbids io_uring");
    match forbidden(root) {
        Ok(true) => cases += 1,
        Ok(false) => println!("skipped: it takes root, and ECRU_MAY_SET_SYSCTLS=1"),
        Err(problem) => problems.push(problem),
    }
    let each = counts.iter().filter_map(|(name, said)| {
        said.as_ref().ok().map(|said| format!("{name}: {}", said.passed))
    });
    let each = each.collect::<Vec<_>>().join(", ");
    Outcome { cases, summary: format!("{cases} tests ({each})"), problems }
}

fn tests(root: &Path, suites: &[&str]) -> Command {
    let mut command = cargo(root, &["test"]);
    command.args(suites.iter().flat_map(|suite| ["--test", suite]));
    command
}

/// Returns the number of tests of all runs, and the problems: a run that failed, or that ran fewer
/// tests than the first.
fn compare(counts: &[(String, Result<Said, String>)]) -> (usize, Vec<String>) {
    let (mut cases, mut problems, mut first) = (0, vec![], None);
    for (name, said) in counts {
        match said {
            Err(problem) => problems.push(format!("{name}: {problem}")),
            Ok(said) => {
                cases += said.passed;
                let expected = *first.get_or_insert(said.passed);
                if said.passed == 0 || said.passed != expected {
                    let text =
                        format!("{name}: {} tests passed instead of {expected}", said.passed);
                    problems.push(text);
                }
                if said.ignored > 0 {
                    problems.push(format!("{name}: {} tests were ignored", said.ignored));
                }
            }
        }
    }
    (cases, problems)
}

/// Runs one test while the kernel refuses io_uring to all processes, and looks for the line that
/// reports it. Returns false if this process may not change that setting.
fn forbidden(root: &Path) -> Result<bool, String> {
    if std::env::var_os("ECRU_MAY_SET_SYSCTLS").is_none_or(|value| value != "1") {
        return Ok(false);
    }
    let Ok(before) = std::fs::read_to_string(SYSCTL) else { return Ok(false) };
    if std::fs::write(SYSCTL, "2").is_err() {
        return Ok(false);
    }
    let mut command = tests(root, &["behaviour"]);
    command.args(["net_01_echo", "--", "--nocapture"]).env_remove("ECRU_DRIVER");
    let output = command.output();
    std::fs::write(SYSCTL, before.trim())
        .map_err(|error| format!("{SYSCTL} could not be set back to {before}: {error}"))?;
    let output = output.map_err(|error| format!("{command:?} could not be run: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().find(|line| line.contains("ecru: the driver is poll: "));
    match line {
        Some(line) if output.status.success() && line.contains("kernel.io_uring_disabled is 2") => {
            println!("{line}");
            Ok(true)
        }
        _ => Err(format!("with {SYSCTL} at 2 there is no line that says so: {said}")),
    }
}

#[cfg(test)]
mod tests {
    use super::compare;
    use crate::process::Said;

    fn said(passed: usize, ignored: usize) -> Result<Said, String> {
        Ok(Said { passed, ignored, ..Said::default() })
    }

    #[test]
    fn a_driver_that_shows_less_is_named() {
        let runs = |second| [("a".to_owned(), said(7, 0)), ("b".to_owned(), second)];
        assert_eq!(compare(&runs(said(7, 0))), (14, vec![]));
        let (cases, problems) = compare(&runs(said(6, 1)));
        assert_eq!((cases, problems.len()), (13, 2));
        assert!(problems[0].starts_with("b: 6 tests passed instead of 7"));
        assert_eq!(compare(&runs(Err("broken".into()))).1, ["b: broken"]);
        assert_eq!(compare(&[("a".to_owned(), said(0, 0))]).1.len(), 1);
    }
}
