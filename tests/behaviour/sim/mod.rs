//! Simulation.

mod disk;
mod drawn;
mod everywhere;
mod explore;
mod failures;
mod interleavings;
mod last_words;
mod limits;
mod messages;
mod own_faults;
mod pages;
mod panicked;
mod same;
mod sizeable;
mod time;
mod waits;

use ecru::sim::{Report, Simulation};

/// Runs `f` with this seed.
pub(super) fn simulate<T: Send + 'static>(
    seed: u64,
    f: impl FnOnce() -> T + Send + 'static,
) -> Report<T> {
    Simulation::new(seed).run(f)
}

/// Runs `f` with the first hundred seeds, until one run fails. Returns its report.
pub(super) fn first_failure<T: Send + 'static>(f: fn() -> T) -> Report<T> {
    (0..100)
        .map(|seed| simulate(seed, f))
        .find(|report| report.result.is_err())
        .expect("one of the first hundred seeds fails")
}
