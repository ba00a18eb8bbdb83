//! The computation in the jobs: a fixed number of steps of a pseudo-random number generator.
//!
//! A job is an amount of work and not a period of time. A thread that is descheduled in the middle
//! of a job has as much left to do as before.
//!
//! The number of steps is the same on every machine. If the number were derived from a measurement
//! of the machine's speed, the error of that measurement would be in every ratio.

use std::hint::black_box;

/// The steps of a job of one microsecond on a core of 3 GHz. A step is a chain of six operations.
pub(super) const STEPS_PER_MICROSECOND: u64 = 500;

/// Performs `steps` steps of Marsaglia's xorshift, beginning with this state.
///
/// Each step is linear over bits, so `spin(a ^ b, n) == spin(a, n) ^ spin(b, n)`. One more job can
/// therefore check the exclusive or of the results of many jobs.
pub(super) fn spin(mut state: u64, steps: u64) -> u64 {
    for _ in 0..steps {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    black_box(state)
}

/// Returns the exclusive or of the results of jobs that begin with each of these states.
pub(super) fn spin_all(seeds: impl Iterator<Item = u64>, steps: u64) -> u64 {
    spin(seeds.fold(0, |all, seed| all ^ seed), steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_job_checks_many() {
        let each = (1..=100).fold(0, |all, seed| all ^ spin(seed, 7));
        assert_eq!(each, spin_all(1..=100, 7));
        assert_ne!(each, spin_all(1..=99, 7));
    }
}
