//! Tasks: in ecru a closure serves as one, and a schedule runs it.

use std::io;
use std::time::{Duration, Instant};

use ecru::schedule::Delay;
use ecru::schedule::{Pauses, Until};
use ecru::{Retry, Schedule};

use crate::Failure;
use crate::page::Page;

const MILLISECOND: Duration = Duration::from_millis(1);

pub(crate) fn write(page: &mut Page<'_>) -> io::Result<()> {
    page.heading("Tasks")?;
    let task = |n: u32| n + 1;
    page.line("val t = Task(n + 1); (t.run.value, t.run.value)", (task(1), task(1)), (2, 2))?;

    let every = Schedule::every(5 * MILLISECOND).max_runs(3);
    scheduled(page, "Every(5, maxRepetitions = 3)", &every, 3)?;
    let exponential = Schedule::exponential(MILLISECOND).base(3).max_runs(4);
    scheduled(page, "ExponentialBackoff(1, 3, maxRepetitions = 4)", &exponential, 4)?;
    let fibonacci = Schedule::fibonacci(MILLISECOND).max_runs(7);
    scheduled(page, "FibonacciBackoff(1, maxRepetitions = 7)", &fibonacci, 7)?;

    let succeeds = until(&Schedule::until_ok(MILLISECOND), |run| run == 4);
    page.line("RepeatUntilSuccess(1), the 4th run succeeds", succeeds, Ok(4))?;
    let fails = until(&Schedule::until_err(MILLISECOND), |run| run < 4);
    page.line("RepeatUntilFailure(1), the 4th run fails", fails, Err(4))?;
    let bounded = until(&Schedule::until_ok(MILLISECOND).max_runs(3), |_| false);
    page.line("RepeatUntilSuccess(1, maxRepetitions = 3), none does", bounded, Err(3))?;
    retried(page)
}

/// Runs a schedule over a counter, and shows the pauses between the runs.
fn scheduled(page: &mut Page<'_>, name: &str, schedule: &Schedule, runs: u32) -> io::Result<()> {
    let (began, mut counted) = (Instant::now(), 0);
    let last = schedule.run(|| {
        counted += 1;
        counted
    });
    assert_eq!(last, Ok(runs), "every run counts, the first one included");
    let took = began.elapsed();
    let pauses: Pauses = schedule.pauses();
    let pauses: Vec<u128> = pauses.map(|pause| pause.as_millis()).collect();
    let least: u128 = pauses.iter().sum();
    assert!(took.as_millis() >= least, "{name}: {took:?} is less than {least} ms");
    page.say(&format!("{name}.run"), &format!("{runs} runs, pauses of {pauses:?} ms"))
}

/// Returns the number of the run that ended the schedule.
fn until(schedule: &Until, mut succeeds: impl FnMut(u32) -> bool) -> Result<u32, u32> {
    let mut run = 0;
    let ended = schedule.run(|| {
        run += 1;
        if succeeds(run) { Ok(run) } else { Err(run) }
    });
    ended.expect("the page is never cancelled")
}

fn retried(page: &mut Page<'_>) -> io::Result<()> {
    let mut tries = 0;
    let delay = Delay::Backoff { start: MILLISECOND, max: 4 * MILLISECOND, mult: 2 };
    let value = Retry::new().max_failures(3).delay(delay).until_ok(|| {
        tries += 1;
        if tries < 4 { Err(Failure::new("not yet")) } else { Ok(tries) }
    });
    page.line("Retry.untilSuccess.withMaximumFailures(3)(..)", value, Ok(4))
}
