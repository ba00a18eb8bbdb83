//! What a parked OS thread sleeps on: a flag and a futex.

use std::time::Instant;

use super::atomic::{AtomicU32, Ordering};
use super::futex;

/// A flag that is raised once and can be slept on.
///
/// It usually lives on the sleeper's stack, and the sleeper may return as soon as the flag is up. The wake-up that follows
/// names only its address: the kernel looks the address up in its table of sleepers and never reads it, so at worst a
/// stranger who sleeps at the same address wakes for nothing, as every futex user must expect.
#[derive(Debug)]
pub(crate) struct Signal {
    raised: AtomicU32,
}

const LOWERED: u32 = 0;
const RAISED: u32 = 1;
/// Lowered, and its owner sleeps or is about to.
const SLEPT_ON: u32 = 2;

impl Signal {
    #[cfg(not(loom))]
    pub(crate) const fn new() -> Signal {
        Signal { raised: AtomicU32::new(LOWERED) }
    }

    #[cfg(loom)]
    pub(crate) fn new() -> Signal {
        Signal { raised: AtomicU32::new(LOWERED) }
    }

    /// Whether the flag is up. Acquire: pairs with the release in [`Signal::raise`].
    #[inline]
    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire) == RAISED
    }

    /// Raises the flag and wakes the sleeper, if there is one. The exchange is the last access to the flag itself.
    pub(crate) fn raise(&self) {
        let word = std::ptr::from_ref(&self.raised);
        // Release: pairs with the sleeper's look. A sleeper said so before it slept, in the same word: none is missed.
        if self.raised.swap(RAISED, Ordering::Release) == SLEPT_ON {
            futex::wake(word);
        }
    }

    /// The flag's memory goes: loom objects if an access to it is not ordered before this.
    #[cfg(all(test, loom))]
    pub(crate) fn gone(&mut self) {
        self.raised.with_mut(|_| ());
    }

    /// Sleeps until the flag is up (`true`) or the deadline has passed (`false`).
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> bool {
        // It may be slept on already, if an earlier sleep has timed out.
        let _ =
            self.raised.compare_exchange(LOWERED, SLEPT_ON, Ordering::Relaxed, Ordering::Relaxed);
        while !self.is_raised() {
            if !futex::sleep(&self.raised, SLEPT_ON, deadline) {
                return self.is_raised();
            }
        }
        true
    }
}
