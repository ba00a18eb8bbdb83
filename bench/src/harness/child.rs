//! Both ends of a child process: the program that measures one contender once, and the code that
//! starts it.
//!
//! The child prints one line `metric value` for each metric on standard output, and nothing else
//! there.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::pin::{note_second_core, pin, second_core};
use super::row::{Contender, Measure, Row};

/// A child that takes longer than this has hung. The longest is `downloads`, with two minutes if it
/// must be built first.
const LONGEST: Duration = Duration::from_secs(300);

/// The outcome of one contender in one round.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// The metrics it printed, in the row's order.
    Measured(Vec<f64>),
    /// The contender cannot run here, for this reason.
    Skipped(String),
    /// The contender ended without a full sample, for this reason.
    Died(String),
}

/// The child's side: measures and prints. It does not return for a contender in Go or Java, whose
/// program replaces the process.
///
/// # Errors
///
/// Returns an error if the cores are not available, or if that program cannot be started.
pub(crate) fn child_main(row: &Row, contender: &Contender) -> Result<(), String> {
    note_second_core();
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
            let this = std::env::current_exe().map_err(|error| error.to_string())?;
            command.env("ECRU_BENCH_LOAD", this);
            command.env("ECRU_BENCH_SECOND_CORE", second_core().to_string());
            Err(format!("{}: {}", program.display(), command.exec()))
        }
        Measure::Jdk { arguments } => {
            let error = crate::jvm::program()?.command(arguments).exec();
            Err(format!("java: {error}"))
        }
    }
}

/// The parent's side: runs one round of one contender.
pub(crate) fn run_child(row: &Row, contender: &Contender) -> Outcome {
    let missing = match contender.measure {
        Measure::Here(_) => None,
        Measure::Go { .. } => crate::go::program().err(),
        Measure::Jdk { .. } => crate::jvm::program().err(),
    };
    let missing = missing.or_else(|| contender.needs.as_ref()?().err());
    if let Some(reason) = missing {
        return Outcome::Skipped(reason);
    }
    let this = std::env::current_exe().expect("the running program has a path");
    let mut command = Command::new(this);
    command.arg("--child").arg(format!("{}/{}", row.name(), contender.name));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = match command.spawn().and_then(output_in_time) {
        Ok(output) => output,
        Err(error) => return Outcome::Died(error.to_string()),
    };
    let printed = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last =
            said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it printed nothing");
        return Outcome::Died(format!("{}: {}", output.status, last.trim()));
    }
    match parse(row, &printed) {
        Some(values) => Outcome::Measured(values),
        None => Outcome::Died(format!("printed no full sample: {}", printed.trim())),
    }
}

/// Returns what the child printed, once it has ended. A child that hangs is killed.
///
/// A child prints a few lines, which fit into the pipes, so nothing has to be read meanwhile. This
/// process sleeps until the child ends, because polling would run on the measured cores.
fn output_in_time(mut child: Child) -> io::Result<Output> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let handle = pidfd_open(pid.expect("a child has an id"), PidfdFlags::empty())?;
    let limit = Timespec { tv_sec: LONGEST.as_secs() as i64, tv_nsec: 0 };
    if poll(&mut [PollFd::new(&handle, PollFlags::IN)], Some(&limit))? == 0 {
        child.kill()?;
        child.wait()?;
        let limit = LONGEST.as_secs();
        return Err(io::Error::other(format!("killed: did not end within {limit} s")));
    }
    child.wait_with_output()
}

/// Returns the values of the row's metrics, in its order, or `None` if one is missing.
fn parse(row: &Row, printed: &str) -> Option<Vec<f64>> {
    let value_of = |name: &str| {
        let lines = printed.lines().filter_map(|line| line.split_once(' '));
        lines.filter(|(metric, _)| *metric == name).find_map(|(_, value)| value.trim().parse().ok())
    };
    row.metrics.iter().map(|metric| value_of(metric.name)).collect()
}
