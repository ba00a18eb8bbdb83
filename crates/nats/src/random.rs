//! Random numbers. In a simulation its seed decides them, so that a run with a client can be repeated.

use fastrand::Rng;

/// Returns a generator that differs each time.
pub(crate) fn generator() -> Rng {
    Rng::with_seed(ecru::sim::random_u64())
}

/// Returns random letters and digits. Each is drawn anew, so that the name has more randomness than
/// the seed of one generator.
pub(crate) fn name(length: usize) -> String {
    (0..length).map(|_| generator().alphanumeric()).collect()
}
