//! Rows of `doc/behaviour/timer.md`.

mod costs;
mod intervals;
mod sleeps;
mod timers;

use std::time::{Duration, Instant};

fn us(microseconds: u64) -> Duration {
    Duration::from_micros(microseconds)
}

/// Sleeps, and returns how late it woke. Panics if it was early.
fn lateness(duration: Duration) -> Duration {
    let deadline = Instant::now() + duration;
    ecru::sleep(duration).unwrap();
    let now = Instant::now();
    assert!(now >= deadline, "early by {:?} of {duration:?}", deadline - now);
    now - deadline
}
