//! Shows the rows of `doc/behaviour/libc.md`.
#![cfg(all(target_os = "linux", target_env = "gnu", target_pointer_width = "64"))]

use ecru_sim_libc as _;

mod clocks;
#[path = "../../../../tests/common/mod.rs"]
mod common;
mod crates;
mod processes;
mod random;
mod refused;
mod threads;

use ecru::sim::Simulation;

/// Runs a program with this seed, and returns its value.
#[track_caller]
fn simulated<T: Send>(seed: u64, program: impl FnOnce() -> T + Send) -> T {
    Simulation::new(seed).max_time(24 * common::HOUR).run(program).unwrap()
}

/// Runs a program in a simulation that it does not depend on the seed of.
#[track_caller]
fn with_any_seed(program: impl Fn() + Send + Sync) {
    for seed in 0..3 {
        simulated(seed, &program);
    }
}
