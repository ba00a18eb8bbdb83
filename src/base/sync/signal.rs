//! The object that a parked OS thread sleeps on: a flag and a futex.

use std::time::Instant;

use super::atomic::{AtomicU32, Ordering};
use super::futex;

/// A flag that is raised once, and that its owner can sleep on.
///
/// It usually lives on the sleeper's stack, and the sleeper may return as soon as the flag is
/// raised. The wake-up that follows uses only the flag's address. The kernel looks up the address
/// in its table of sleepers and never reads the memory. At worst, another thread that sleeps at the
/// same address wakes spuriously, which every user of futexes must expect.
#[derive(Debug)]
pub(crate) struct Signal {
    raised: AtomicU32,
}

const LOWERED: u32 = 0;
const RAISED: u32 = 1;
/// Lowered, and the owner sleeps or is about to.
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

    /// Returns whether the flag is raised. Acquire pairs with the Release in [`Signal::raise`].
    #[inline]
    pub(crate) fn is_raised(&self) -> bool {
        self.raised.load(Ordering::Acquire) == RAISED
    }

    /// Raises the flag, and wakes the sleeper if there is one. The exchange is the last access to
    /// the flag.
    pub(crate) fn raise(&self) {
        let word = std::ptr::from_ref(&self.raised);
        // Release pairs with the sleeper's Acquire. A sleeper has set SLEPT_ON in the same word
        // before it sleeps, so no sleeper is missed.
        if self.raised.swap(RAISED, Ordering::Release) == SLEPT_ON {
            futex::wake(word);
        }
    }

    /// Creates a flag with a listener, which looks at the flag for a while and then leaves. After
    /// that it must be woken in another way.
    pub(crate) fn with_listener() -> Signal {
        Signal { raised: AtomicU32::new(LISTENED_TO) }
    }

    /// Returns whether the flag has a listener, or had one that left before the flag was raised.
    #[inline]
    pub(crate) fn had_listener(&self) -> bool {
        matches!(self.raised.load(Ordering::Relaxed), LISTENED_TO | LEFT)
    }

    /// Raises a flag that has a listener. Returns false if the listener had left. If it returns
    /// true, this was the last access to the flag.
    #[inline]
    pub(crate) fn raise_if_heard(&self) -> bool {
        // Release: pairs with `is_raised`. Acquire: pairs with `leave`.
        self.raised
            .compare_exchange(LISTENED_TO, RAISED, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }

    /// Ends the listening. Returns false if the flag has been raised.
    #[inline]
    pub(crate) fn leave(&self) -> bool {
        // Acquire: pairs with `raise_if_heard`. Release: a claimer that finds that the listener has
        // left wakes it.
        self.raised.compare_exchange(LISTENED_TO, LEFT, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }

    /// Checks the end of the flag's memory: loom reports an error if an access is not ordered
    /// before this.
    #[cfg(all(test, loom))]
    pub(crate) fn gone(&mut self) {
        self.raised.with_mut(|_| ());
    }

    /// Sleeps until the flag is raised or the deadline has passed. Returns whether the flag is
    /// raised.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> bool {
        // The flag may already be SLEPT_ON, if an earlier sleep has timed out.
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
