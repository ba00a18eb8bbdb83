//! Random numbers that a seed determines, for simulations.

use super::draw;
use crate::base::local;
use fastrand::Rng;
use std::cell::Cell;

/// Seeds this thread's generator, so that all its later numbers are determined.
pub(crate) fn seed_thread(seed: u64) {
    // 0 means that the thread has not been seeded.
    local::with(|local| local.random.set(seed.max(1)));
}

/// Returns any number, and changes the state that decides it.
pub(crate) fn any_of(state: &Cell<u64>) -> u64 {
    let mut generator = Rng::with_seed(state.get());
    let number = generator.u64(..);
    state.set(generator.get_seed());
    number
}

/// A generator of its own, for a sequence of numbers that a seed determines.
#[derive(Clone, Debug)]
pub(crate) struct Generator {
    rng: Rng,
}

impl Generator {
    /// Creates the generator with this number of those that a seed has. They are independent of
    /// each other.
    pub(crate) fn new(seed: u64, number: u64) -> Generator {
        // One step of SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
        // generators", 2014) for each of the two numbers.
        Generator { rng: Rng::with_seed(mix(mix(seed).wrapping_add(number))) }
    }

    /// Returns any number.
    pub(crate) fn any(&mut self) -> u64 {
        self.rng.u64(..)
    }

    /// Returns a number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.rng.usize(..bound)
    }

    /// Returns `true` with this probability.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        self.rng.f64() < probability
    }
}

fn mix(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// Returns any number.
pub(crate) fn any() -> u64 {
    draw(|generator| generator.u64(..))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Generator;

    #[test]
    fn the_generators_of_a_seed_differ_and_are_the_same_each_time() {
        let drawn = |seed, number| {
            let mut generator = Generator::new(seed, number);
            std::array::from_fn::<_, 8, _>(|_| generator.any())
        };
        assert_eq!(drawn(7, 0), drawn(7, 0));
        assert!(drawn(7, 0) != drawn(7, 1) && drawn(7, 0) != drawn(8, 0));
        assert_ne!(drawn(7, 1), drawn(8, 0));
        let mut generator = Generator::new(7, 2);
        assert!((0..100).all(|_| generator.below(3) < 3 && !generator.chance(0.0)));
        let often = (0..1_000).filter(|_| generator.chance(0.25)).count();
        assert!((150..350).contains(&often), "{often}");
    }
}
