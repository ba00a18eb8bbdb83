//! Random numbers. In a simulation its seed decides them, so that a run with a client can be
//! repeated. That needs the feature `sim`.

use std::hash::{BuildHasher as _, RandomState};

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

/// Turns numbers into numbers that only their owner can predict. In a simulation its seed decides
/// them.
#[derive(Debug)]
pub(crate) struct Salts {
    keys: RandomState,
    #[cfg(feature = "sim")]
    seed: Option<u64>,
}

impl Salts {
    pub(crate) fn new() -> Salts {
        Salts {
            keys: RandomState::new(),
            #[cfg(feature = "sim")]
            seed: ecru::sim::is_simulated().then(ecru::sim::random_u64),
        }
    }

    pub(crate) fn of(&self, number: u64) -> u64 {
        #[cfg(feature = "sim")]
        if let Some(seed) = self.seed {
            return Rng::with_seed(seed ^ number).u64(..);
        }
        self.keys.hash_one(number)
    }
}
