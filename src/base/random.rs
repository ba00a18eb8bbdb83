//! Random numbers. Each thread has one generator, and all of ecru's random choices come from it.
//! `cargo xtask layers` makes sure of that.
//!
//! The generator is wyrand. Its state is one word, in the thread's block of thread-locals. The word
//! decides all later numbers, so a thread is seeded by a write to it ([`seed_thread`]). A thread
//! that was not seeded seeds itself by [`seed`].

use super::local;
use fastrand::Rng;
use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};

/// Calls `f` with this thread's generator.
#[inline]
fn draw<T>(f: impl FnOnce(&mut Rng) -> T) -> T {
    local::with(|local| {
        let state = local.random.get();
        let mut generator = Rng::with_seed(if state == 0 { seed() } else { state });
        let value = f(&mut generator);
        local.random.set(generator.get_seed());
        value
    })
}

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

/// Asks the operating system for a seed. It differs between processes and threads, because
/// callers that fail together must not draw the same pauses.
#[cold]
fn seed() -> u64 {
    // std has no other way to the system's randomness.
    RandomState::new().hash_one(0)
}

/// Returns a number below `bound`, which is at most `u32::MAX`.
#[inline]
pub(crate) fn below(bound: usize) -> usize {
    if cfg!(loom) {
        // The runs of a model must be reproducible.
        return 0;
    }
    let number = draw(|generator| generator.u32(..));
    // Takes the high bits of the product, which needs no division (Lemire, "Fast random integer
    // generation in an interval", 2019).
    ((number as u64 * bound as u64) >> 32) as usize
}

/// An iterator over the numbers below a bound, each once. They come in ascending order, or in a
/// random order with every order equally likely.
#[derive(Debug)]
pub(crate) struct Order {
    left: Left,
}

#[derive(Debug)]
enum Left {
    /// The range from the first number to before the second.
    Ascending(usize, usize),
    /// The numbers that have not been drawn, as bits, and their count.
    Few(u64, usize),
    /// The numbers that have not been drawn, in memory of their own.
    Many(Vec<usize>),
}

impl Order {
    #[inline]
    pub(crate) fn ascending(bound: usize) -> Order {
        Order { left: Left::Ascending(0, bound) }
    }

    #[inline]
    pub(crate) fn random(bound: usize) -> Order {
        let left = match bound {
            0 | 1 => Left::Ascending(0, bound),
            2..=64 => Left::Few(u64::MAX >> (64 - bound), bound),
            _ => Left::Many((0..bound).collect()),
        };
        Order { left }
    }
}

impl Iterator for Order {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        match &mut self.left {
            Left::Ascending(next, end) => {
                let number = *next;
                *next += 1;
                (number < *end).then_some(number)
            }
            Left::Few(bits, count) => {
                // The last number needs no draw.
                let skipped = match *count {
                    0 => return None,
                    1 => 0,
                    count => below(count),
                };
                let mut rest = *bits;
                for _ in 0..skipped {
                    rest &= rest - 1;
                }
                let number = rest.trailing_zeros();
                *bits &= !(1 << number);
                *count -= 1;
                Some(number as usize)
            }
            Left::Many(numbers) => match numbers.len() {
                0 => None,
                // In a model, where `below` always returns 0, the order is ascending.
                _ if cfg!(loom) => Some(numbers.remove(0)),
                length => Some(numbers.swap_remove(below(length))),
            },
        }
    }
}

/// Returns any number.
pub(crate) fn any() -> u64 {
    draw(|generator| generator.u64(..))
}

/// Returns a number from 0 to `most`, both included.
pub(crate) fn up_to(most: u128) -> u128 {
    draw(|generator| generator.u128(..=most))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Generator, Order, below, up_to};
    use crate::base::local;
    use std::thread;

    /// Draws on a new thread, whose generator begins with this state.
    fn drawn(state: u64) -> (Vec<usize>, Vec<usize>, u128) {
        let draws = move || {
            local::with(|local| local.random.set(state));
            let few = (0..20).map(|_| below(1_000)).collect();
            (few, Order::random(200).collect(), up_to(u128::MAX))
        };
        thread::spawn(draws).join().unwrap()
    }

    #[test]
    fn a_threads_state_decides_all_its_numbers() {
        assert_eq!(drawn(7), drawn(7));
        let (one, other) = (drawn(7), drawn(8));
        assert!(one.0 != other.0 && one.1 != other.1 && one.2 != other.2);
    }

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

    #[test]
    fn threads_that_are_not_seeded_draw_different_numbers() {
        let (one, other) = (drawn(0), drawn(0));
        assert!(one.0 != other.0 && one.1 != other.1 && one.2 != other.2);
    }

    #[test]
    fn every_number_below_the_bound_comes_and_no_other() {
        let mut seen = [0_u32; 7];
        for _ in 0..7_000 {
            seen[below(7)] += 1;
        }
        assert!(seen.iter().all(|count| *count > 500), "{seen:?}");
    }
    #[test]
    fn every_order_is_as_likely_as_the_others() {
        for bound in [0, 1, 2, 3, 63, 64, 65, 200] {
            assert_eq!(Order::ascending(bound).collect::<Vec<_>>(), Vec::from_iter(0..bound));
            let mut drawn: Vec<_> = Order::random(bound).collect();
            drawn.sort_unstable();
            assert_eq!(drawn, Vec::from_iter(0..bound));
        }
        let mut seen = std::collections::BTreeMap::<Vec<usize>, u32>::new();
        for _ in 0..6_000 {
            *seen.entry(Order::random(3).collect()).or_default() += 1;
        }
        assert!(seen.len() == 6 && seen.values().all(|count| *count > 700), "{seen:?}");
    }
}
