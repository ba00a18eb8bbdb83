//! Random numbers. In a simulation its seed decides them, so that a run with a client can be
//! repeated. That needs the feature `sim`.

use fastrand::Rng;

/// Returns a generator that differs each time.
pub(crate) fn generator() -> Rng {
    #[cfg(feature = "sim")]
    return Rng::with_seed(ecru::sim::random_u64());
    #[cfg(not(feature = "sim"))]
    Rng::new()
}

/// Returns random letters and digits. Each is drawn anew, so that the name has more randomness than
/// the seed of one generator.
pub(crate) fn name(length: usize) -> String {
    (0..length).map(|_| generator().alphanumeric()).collect()
}
