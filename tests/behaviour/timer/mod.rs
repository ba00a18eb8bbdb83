//! Rows of `doc/behaviour/timer.md`.

mod costs;
mod intervals;
mod sleeps;
mod timers;

use crate::support::now;
use std::time::Duration;

fn us(microseconds: u64) -> Duration {
    Duration::from_micros(microseconds)
}

/// Sleeps, and returns how late it woke. Panics if it was early.
fn lateness(duration: Duration) -> Duration {
    let deadline = now() + duration;
    ecru::sleep(duration).unwrap();
    let now = now();
    assert!(now >= deadline, "early by {:?} of {duration:?}", deadline - now);
    now - deadline
}
