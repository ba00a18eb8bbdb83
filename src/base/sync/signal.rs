//! What a parked OS thread sleeps on: a flag and a futex.

use std::time::Instant;

use super::atomic::{AtomicU32, Ordering};
use super::futex;

/// A flag that is raised once, and can be slept on or listened to.
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
/// Lowered, and its owner looks at it.
const LISTENED_TO: u32 = 3;
/// Lowered, and its owner does not look any more.
const LEFT: u32 = 4;

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

    /// A flag with a listener: it looks at the flag for a while, and then leaves, to be woken some other way.
    pub(crate) fn with_listener() -> Signal {
        Signal { raised: AtomicU32::new(LISTENED_TO) }
    }

    /// Whether the flag has a listener, or had one which has left before the flag was raised.
    #[inline]
    pub(crate) fn had_listener(&self) -> bool {
        matches!(self.raised.load(Ordering::Relaxed), LISTENED_TO | LEFT)
    }

    /// Raises a flag that has a listener. Returns false if the listener had left. If true, this was the last access to the flag.
    #[inline]
    pub(crate) fn tell(&self) -> bool {
        // Release: pairs with `is_raised`. Acquire: pairs with `leave`.
        self.raised
            .compare_exchange(LISTENED_TO, RAISED, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// The listener leaves. Returns false if the flag has been raised.
    #[inline]
    pub(crate) fn leave(&self) -> bool {
        // Acquire: pairs with `tell`. Release: whoever finds that the listener has left wakes it.
        self.raised.compare_exchange(LISTENED_TO, LEFT, Ordering::AcqRel, Ordering::Acquire).is_ok()
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
