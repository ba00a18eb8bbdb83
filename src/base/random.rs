//! Random numbers: cheap ones for choices that must not favour anybody, and good ones for what others may see.

use super::local;

/// A number below `bound`, from a xorshift generator of this thread (Marsaglia, "Xorshift RNGs", 2003).
#[inline]
pub(crate) fn below(bound: usize) -> usize {
    if cfg!(loom) {
        // A model's runs must repeat each other.
        return 0;
    }
    let number = local::with(|local| {
        let mut state = local.random.get();
        if state == 0 {
            // Differs from thread to thread.
            state = std::ptr::from_ref(local).addr() as u32 | 1;
        }
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        local.random.set(state);
        state
    });
    // The high bits of the product: no division (Lemire, "Fast random integer generation in an interval", 2019).
    ((number as u64 * bound as u64) >> 32) as usize
}

/// A number from 0 to `most`, both included. Seeded for each thread and process, unlike [`below`]: those who fail together in many
/// processes must not draw the same pauses.
pub(crate) fn up_to(most: u128) -> u128 {
    fastrand::u128(..=most)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::below;

    #[test]
    fn every_number_below_the_bound_comes_and_no_other() {
        let mut seen = [0_u32; 7];
        for _ in 0..7_000 {
            seen[below(7)] += 1;
        }
        assert!(seen.iter().all(|count| *count > 500), "{seen:?}");
    }
}
