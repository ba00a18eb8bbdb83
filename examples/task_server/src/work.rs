//! What the tasks do: their random streams, step by step, are those of the original, so that the same seeds give the same bytes.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha20Rng;
use rand_xoshiro::Xoshiro256StarStar;
use std::time::Duration;

/// The longest sleep of an IO task.
pub const LONGEST_MS: usize = 2000;

const TABLE: usize = 1 << 20;
const ROUNDS: usize = 4096;

/// Computes for a while: most seeds some ten microseconds, one in sixteen 256 times as long.
///
/// Each round reads what earlier ones wrote, so none can be left out. The table lies on the heap: it is larger than the stack of
/// a task, and need not be.
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

/// How long the IO task of this seed sleeps, and what it answers then.
pub fn sleep_of(seed: u64) -> (Duration, u8) {
    let mut random = ChaCha20Rng::seed_from_u64(seed);
    let milliseconds = random.gen_range(0..=LONGEST_MS);
    (Duration::from_millis(milliseconds as u64), random.r#gen())
}
