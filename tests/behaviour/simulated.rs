//! The tests' runs in simulations.
//!
//! With `ECRU_TEST_SEED=7`, a run that a test starts by [`run_on`], [`run_placed`] or [`each_run`]
//! is a simulation with the seed 7. `cargo xtask swarm` starts the tests with many seeds. Those that
//! cannot run in a simulation are in the list `not_simulated.md`, with their reasons. The tests of
//! `ecru-flow` use this file, too.

use std::panic::resume_unwind;
use std::sync::LazyLock;
use std::time::Duration;

use ecru::Placement;
use ecru::sim::{Failure, Simulation, Strategy};

use crate::common;

const SEED: &str = "ECRU_TEST_SEED";

/// Longer than the virtual time of any test.
const LONGEST: Duration = Duration::from_secs(1000 * 3600);

/// Returns whether the tests run in simulations. What they do on plain threads is left out then.
pub(crate) fn is_on() -> bool {
    seed().is_some()
}

/// Returns the seed of the tests' simulations, or `None` if the tests run for real.
fn seed() -> Option<u64> {
    static GIVEN: LazyLock<Option<u64>> = LazyLock::new(|| {
        let said = std::env::var(SEED).ok()?;
        Some(said.parse().unwrap_or_else(|_| panic!("{SEED} is `{said}`, which is not a number")))
    });
    *GIVEN
}

/// As [`common::run_on`], or a simulation.
#[track_caller]
pub(crate) fn run_on<T: Send>(workers: usize, body: impl FnOnce() -> T + Send) -> T {
    match seed() {
        Some(seed) => simulate(seed, body),
        None => common::run_on(workers, body),
    }
}

/// As [`common::run_placed`], or a simulation.
#[track_caller]
pub(crate) fn run_placed<T: Send>(
    workers: usize,
    placement: Placement,
    body: impl FnOnce() -> T + Send,
) -> T {
    match seed() {
        Some(seed) => simulate(seed, body),
        None => common::run_placed(workers, placement, body),
    }
}

/// As [`common::each_run`], or a simulation.
#[track_caller]
pub(crate) fn each_run(body: impl Fn() + Sync) {
    match seed() {
        Some(seed) => simulate::<()>(seed, &body as &(dyn Fn() + Sync)),
        None => common::each_run(body),
    }
}

/// Runs `body` in a simulation, and prints the line that `cargo xtask swarm` counts.
#[track_caller]
fn simulate<T: Send>(seed: u64, body: impl FnOnce() -> T + Send) -> T {
    let _watchdog = common::Watchdog::new();
    let strategy =
        if seed.is_multiple_of(2) { Strategy::Random } else { Strategy::Pct { depth: 3 } };
    // On a busy machine a step that computes may take long.
    let simulation = Simulation::new(seed).strategy(strategy).max_step_time(common::PATIENCE / 2);
    let report = simulation.max_time(LONGEST).run(body);
    println!("ecru::sim: 1 runs");
    let said = report.to_string();
    match report.result {
        Ok(value) => value,
        Err(failure) => {
            println!("{said}\nthe seed is repeated by {SEED}={seed}");
            match failure {
                // The test may expect it.
                Failure::Panicked(payload) => resume_unwind(payload.into_inner()),
                _ => panic!("{said}"),
            }
        }
    }
}
