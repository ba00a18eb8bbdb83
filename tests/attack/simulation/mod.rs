//! Attacks on simulations: values that leave their run, calls at the worst moment, machines that
//! crash in the worst places, and plans that make no sense.

#![expect(
    dropping_copy_types,
    dropping_references,
    reason = "`drop` discards the results of calls that are only to return"
)]

mod callbacks;
mod crashes;
mod disk;
mod escapes;
mod failures;
mod forced;
mod hooks;
mod links;
mod plans;
mod races;
mod repeatable;
mod sockets;
mod threads;

use crate::common::Watchdog;
use ecru::sim::{Report, Simulation};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Runs `f` with this seed.
#[track_caller]
fn report<T: Send>(seed: u64, f: impl FnOnce() -> T + Send) -> Report<T> {
    let _watchdog = Watchdog::new();
    Simulation::new(seed).run(f)
}

/// Runs `f` with this seed, in which nothing must fail.
#[track_caller]
fn run<T: Send>(seed: u64, f: impl FnOnce() -> T + Send) -> T {
    report(seed, f).unwrap()
}
