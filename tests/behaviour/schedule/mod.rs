//! Rows of `doc/behaviour/schedule.md`.

mod delays;
mod pauses;
mod retries;
mod runs;

use ecru::{CancelReason, Cancelled, Elapsed, Schedule};
use std::cell::Cell;
use std::time::Duration;

const NONE: Duration = Duration::ZERO;

/// The failures of the attempts in these tests.
#[derive(Clone, Debug, PartialEq)]
enum Failure {
    Number(u32),
    Cancelled(CancelReason),
    Elapsed,
}

impl From<Cancelled> for Failure {
    fn from(cancelled: Cancelled) -> Failure {
        Failure::Cancelled(cancelled.reason())
    }
}

impl From<Elapsed> for Failure {
    fn from(_: Elapsed) -> Failure {
        Failure::Elapsed
    }
}

/// Counts its calls.
#[derive(Default)]
struct Calls(Cell<u32>);

impl Calls {
    fn next(&self) -> u32 {
        self.0.set(self.0.get() + 1);
        self.0.get()
    }
}

/// Returns the first `count` pauses, in milliseconds.
fn first(count: usize, schedule: &Schedule) -> Vec<u128> {
    schedule.pauses().take(count).map(|pause| pause.as_millis()).collect()
}
