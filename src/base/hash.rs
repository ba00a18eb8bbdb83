//! Hash tables for the library's own numbers: tokens, fds, ids.
//!
//! std's own tables take a seed from the operating system. These have no seed. So they are cheaper,
//! and their order is the same in each run.

use std::hash::{BuildHasherDefault, Hasher};

/// A map whose keys are numbers.
pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, BuildHasherDefault<Mixer>>;

/// A hasher that need not resist chosen collisions.
#[derive(Debug, Default)]
pub(crate) struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        // The golden ratio's bits. The upper half is the well mixed one, and the table uses both
        // ends.
        self.0 = (self.0 ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
