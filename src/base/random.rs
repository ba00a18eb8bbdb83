//! Random numbers. Each thread has one generator, and all of ecru's random choices come from it.
//! `cargo xtask layers` makes sure of that.
//!
//! The generator is wyrand. Its state is one word, in the thread's block of thread-locals. The word
//! decides all later numbers, so a simulation seeds its thread by a write to it. Any other thread
//! seeds itself by [`seed`].

#[cfg(feature = "sim")]
mod seeded;
#[cfg(feature = "sim")]
pub(crate) use seeded::{Generator, any, any_of, seed_thread};

use super::local;
use fastrand::Rng;
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

/// Returns a number from 0 to `most`, both included.
pub(crate) fn up_to(most: u128) -> u128 {
    draw(|generator| generator.u128(..=most))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Order, below, up_to};
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
