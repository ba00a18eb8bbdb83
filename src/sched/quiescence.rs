//! Detection of a run that is stuck: no worker has anything to do, and nothing is under way that
//! could change that.
//!
//! # Words
//! A worker is *quiescent* while it sleeps for good (see `idle`) and all of the following hold:
//! - It has no task that is ready or unstarted.
//! - It has no timer set.
//! - It has no operation in flight.
//! - None of its tasks waits for a closure on the blocking pool.
//! - No alarm is set in the process ([`crate::base::alarm`]).
//! - Nothing in the process listens to the outside ([`crate::base::outside`]).
//!
//! All but the last two concern only the worker itself, so it can check them alone. A wait that
//! only the kernel, the clock or the pool's threads could end therefore keeps a worker from being
//! quiescent. An alarm has notified the waiter that it wakes before it counts as over.
//!
//! # Protocol
//! One word holds the number of quiescent workers, and a *generation* that counts how often a
//! worker has left.
//! ```text
//!   a worker                                      word
//!   announces its sleep, looks at its inboxes
//!   enter                                         count + 1                           (AcqRel)
//!     was it the last?  every inbox and queue empty?
//!     confirm                                     exchange for the same value         (AcqRel)
//!       it still is what `enter` made it: ALL WORKERS ARE QUIESCENT
//!   sleeps
//!   leave, before it looks at anything            count - 1, generation + 1           (AcqRel)
//! ```
//! # Why there is no false alarm
//! Only workers that are awake send messages to workers. Other senders (the blocking pool, the
//! kernel, the clock) are excluded above, and threads from outside are not part of this protocol.
//! Let every worker have entered, the last one by `enter` = W.
//! - The message was sent before W, by a worker that has entered since. Its push happens before W,
//!   so the last worker finds it in the inbox, unless the receiver has taken it out. In that case
//!   the receiver has left before. If its `leave` comes before `confirm` in the word's order, the
//!   generation has changed and `confirm` fails. If its `leave` came after `confirm`, then
//!   `confirm` would happen before that `leave`, hence before the receiver takes the message out.
//!   The look before `confirm` would have found the message.
//! - The message was sent after W. It comes from a worker that has left, and the same two cases
//!   hold for that worker's `leave`.
//!
//! # Why no deadlock is missed
//! If `confirm` fails or a message is found, some worker is awake or about to be. That worker
//! enters again, and the last worker to enter looks again.

use crate::base::sync::atomic::{AtomicU64, Ordering};

const GENERATION: u64 = 1 << 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Quiescence {
    word: AtomicU64,
}

/// Evidence that all workers have become quiescent. [`Quiescence::confirm`] tells whether they
/// still are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct All(u64);

impl Quiescence {
    pub(super) fn new() -> Quiescence {
        Quiescence { word: AtomicU64::new(0) }
    }

    /// Registers one of `workers` workers as quiescent. Returns `Some` if it is the last one.
    pub(super) fn enter(&self, workers: usize) -> Option<All> {
        let now = self.word.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        (now % GENERATION == workers as u64).then_some(All(now))
    }

    /// Returns whether no worker has left since.
    pub(super) fn confirm(&self, all: All) -> bool {
        // This is a write, although of the same value, so that the next `leave` comes after it.
        self.word.compare_exchange(all.0, all.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Unregisters a worker that is awake. It calls this before it looks at anything.
    pub(super) fn leave(&self) {
        // The generation may wrap around only if workers leave 2^48 times between `enter` and
        // `confirm`.
        self.word.fetch_add(GENERATION - 1, Ordering::AcqRel);
    }
}

#[cfg(all(test, loom))]
mod loom_models;
