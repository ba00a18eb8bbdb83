//! Both ends of a child process: the program that measures one contender once, and the call that starts it.
//!
//! The child prints a line `metric value` for each metric, on standard output, and nothing else there.

use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use super::pin::pin;
use super::row::{Contender, Measure, Row};

/// What became of one contender in one round.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// The metrics it printed, in the row's order.
    Measured(Vec<f64>),
    /// It cannot run here, for this reason.
    Skipped(String),
    /// It ended without a full sample, for this reason.
    Died(String),
}

/// The child's side: measures and prints. Does not return for a contender in Go, whose program takes the process over.
///
/// # Errors
///
/// When the cores cannot be had, or the Go program cannot be started.
pub(crate) fn child_main(row: &Row, contender: &Contender) -> Result<(), String> {
    pin(row.cores)?;
    match &contender.measure {
        Measure::Here(measure) => {
            for (metric, value) in measure() {
                println!("{metric} {value}");
            }
            Ok(())
        }
        Measure::Go { arguments, processors } => {
            let program = crate::go::program()?;
            let mut command = Command::new(&program);
            command.args(arguments).env("GOMAXPROCS", processors.to_string());
            Err(format!("{}: {}", program.display(), command.exec()))
        }
    }
}

/// The parent's side: one round of one contender.
pub(crate) fn run_child(row: &Row, contender: &Contender) -> Outcome {
    if matches!(contender.measure, Measure::Go { .. })
        && let Err(reason) = crate::go::program()
    {
        return Outcome::Skipped(reason);
    }
    let this = std::env::current_exe().expect("the running program has a path");
    let mut command = Command::new(this);
    command.arg("--child").arg(format!("{}/{}", row.name(), contender.name));
    let output = match command.stdin(Stdio::null()).output() {
        Ok(output) => output,
        Err(error) => return Outcome::Died(format!("could not be started: {error}")),
    };
    let printed = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        return Outcome::Died(format!("{}: {}", output.status, last.trim()));
    }
    match parse(row, &printed) {
        Some(values) => Outcome::Measured(values),
        None => Outcome::Died(format!("printed no full sample: {}", printed.trim())),
    }
}

/// The values of the row's metrics, in its order; `None` if one is missing.
fn parse(row: &Row, printed: &str) -> Option<Vec<f64>> {
    let value_of = |name: &str| {
        let lines = printed.lines().filter_map(|line| line.split_once(' '));
        lines.filter(|(metric, _)| *metric == name).find_map(|(_, value)| value.trim().parse().ok())
    };
    row.metrics.iter().map(|metric| value_of(metric.name)).collect()
}
