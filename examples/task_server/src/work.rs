//! The work of the tasks. Their random streams are those of the original, step by step, so that the
//! same seeds give the same bytes.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rand_xoshiro::Xoshiro256StarStar;
use std::time::Duration;

/// The longest sleep of an IO task.
pub const LONGEST_MS: usize = 2000;

const TABLE: usize = 1 << 20;
const ROUNDS: usize = 4096;

/// Computes for a while: most seeds take some ten microseconds, and one in sixteen takes 256 times
/// as long.
///
/// Each round reads what earlier rounds wrote, so no round can be optimized away. The table is on
/// the heap, because it is larger than the stack of a task.
pub fn compute(seed: u64) -> u8 {
    let mut table = vec![0_u8; TABLE];
    let mut random = Xoshiro256StarStar::seed_from_u64(seed);
    let rounds = match random.r#gen::<usize>() % 16 {
        12 => 4 * ROUNDS,
        13 => 16 * ROUNDS,
        14 => 64 * ROUNDS,
        15 => 256 * ROUNDS,
        _ => ROUNDS,
    };
    let mut carried = 0_u8;
    for _ in 0..rounds {
        let entry = &mut table[place(&mut random, carried)];
        *entry = entry.wrapping_add(random.r#gen());
        carried = carried.wrapping_add(*entry);
    }
    table[place(&mut random, carried)]
}

fn place(random: &mut Xoshiro256StarStar, carried: u8) -> usize {
    random.r#gen::<usize>().wrapping_add(usize::from(carried)) % TABLE
}

/// Returns how long the IO task of this seed sleeps, and its answer.
pub fn sleep_of(seed: u64) -> (Duration, u8) {
    let mut random = ChaCha20Rng::seed_from_u64(seed);
    let milliseconds = random.gen_range(0..=LONGEST_MS);
    (Duration::from_millis(milliseconds as u64), random.r#gen())
}
