//! Finding out that a run is stuck: no worker has anything to do, and nothing is under way that could change that.
//!
//! # Words
//! A worker is *at rest* while it sleeps for good (see `idle`) with no task ready or unstarted, no timer set, no operation
//! in flight, and no task waiting for a closure on the blocking pool, and no alarm is set in the process ([`crate::base::alarm`]), and nobody
//! in it listens to the outside ([`crate::base::outside`]). All but the last two are the worker's own, so it needs nobody to know them. What only the kernel, the clock or the pool's threads could
//! end therefore keeps a worker from being at rest. An alarm has told whom it wakes before it counts as over.
//!
//! # Protocol
//! One word: how many workers are at rest, and a *generation* that counts how often one has left.
//! ```text
//!   a worker                                      word
//!   announces its sleep, looks at its inboxes
//!   enter                                         count + 1                           (AcqRel)
//!     was it the last?  every inbox and queue empty?
//!     confirm                                     exchange for the same value         (AcqRel)
//!       it still is what `enter` made it: ALL AT REST
//!   sleeps
//!   leave, before it looks at anything            count - 1, generation + 1           (AcqRel)
//! ```
//! # Why there is no false alarm
//! Only workers that are awake send messages to workers; others (the blocking pool, the kernel, the clock) are excluded above,
//! and threads from outside are not this protocol's business. Let every worker have entered, the last by `enter` = W.
//! - A message that was sent before W, by a worker that has entered since: its push happens before W, so the last worker finds it in the
//!   inbox, unless the receiver has taken it out. That one has left before. If its `leave` comes before `confirm` in the word's
//!   order, the generation has changed and `confirm` fails. If it came after, `confirm` would happen before it, hence before the
//!   taking out, and the look before `confirm` would have found the message.
//! - A message sent after W comes from a worker that has left, and the same two cases hold for that `leave`.
//!
//! # Why none is lost
//! If `confirm` fails or a message is found, some worker is awake or about to be. It enters again, and the last one looks again.

use crate::base::sync::atomic::{AtomicU64, Ordering};

const GENERATION: u64 = 1 << 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Quiescence {
    word: AtomicU64,
}

/// All workers have come to rest; whether they still are is to be [confirmed](Quiescence::confirm).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct All(u64);

impl Quiescence {
    pub(super) fn new() -> Quiescence {
        Quiescence { word: AtomicU64::new(0) }
    }

    /// A worker comes to rest, one of so many. Some: the last one.
    pub(super) fn enter(&self, workers: usize) -> Option<All> {
        let now = self.word.fetch_add(1, Ordering::AcqRel).wrapping_add(1);
        (now % GENERATION == workers as u64).then_some(All(now))
    }

    /// Whether nobody has left since.
    pub(super) fn confirm(&self, all: All) -> bool {
        // A write, though of the same value: the next `leave` comes after it.
        self.word.compare_exchange(all.0, all.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// A worker is awake. Before it looks at anything.
    pub(super) fn leave(&self) {
        // The generation may wrap around: a worker would have to leave 2^48 times between `enter` and `confirm`.
        self.word.fetch_add(GENERATION - 1, Ordering::AcqRel);
    }
}

#[cfg(all(test, loom))]
mod loom_models;
