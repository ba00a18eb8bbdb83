//! The end of a thread, at which its suspended coroutines must not run any more.
//!
//! A coroutine that is suspended inside `LocalKey::with` has a reference to a thread-local. When
//! the thread ends, its thread-locals are destroyed one by one. A coroutine that is kept in one of
//! them may outlive the one that it refers to. Then neither its code nor the destructors of its
//! frames may run.
//!
//! # Protocol
//! Thread-locals are destroyed in the reverse order of their first uses. A thread's first coroutine
//! therefore registers a thread-local of its own, the **sentinel**. Thread-locals that were used
//! earlier are destroyed after it. When it has been destroyed, the suspended coroutines in them
//! must not run any more.
//!
//! `resume` compares the gate with the number [`Local::resumable`](crate::base::local::Local),
//! which changes with the thread's phase:
//!
//! ```text
//!   0 (no coroutine yet) --first coroutine--> SUSPENDED --sentinel destroyed--> ENDED
//! ```
//!
//! In the last phase, coroutines that are made by the destructors of other thread-locals still run.
//! They are marked as *late*. A thread-local that is first used after the sentinel was made is
//! destroyed before it. A coroutine that is kept there is therefore not refused: see the
//! assumptions in `SOUNDNESS.md`.

use super::control::{SUSPENDED, UNSTARTED};
use crate::base::local;

/// The thread's sentinel is destroyed. Only unstarted coroutines pass the comparison.
const ENDED: u32 = UNSTARTED;

/// The number that a gate must reach for `resume` to go on at once.
#[inline(always)]
pub(super) fn resumable() -> u32 {
    local::with(|local| local.resumable.get())
}

/// Returns whether this thread's sentinel has been destroyed.
#[inline]
pub(super) fn has_begun() -> bool {
    resumable() == ENDED
}

/// Registers the thread's sentinel, if this is its first coroutine. Returns whether the coroutine
/// that is about to be made is a late one.
#[inline]
pub(super) fn on_creation() -> bool {
    let now = resumable();
    now != SUSPENDED && on_unusual_creation(now)
}

#[cold]
fn on_unusual_creation(now: u32) -> bool {
    if now == ENDED {
        return true;
    }
    local::with(|local| local.resumable.set(SUSPENDED));
    register();
    false
}

// A coroutine of the other backend runs on a thread of its own, which has its own thread-locals.
#[cfg(any(ecru_baton, miri, loom))]
fn register() {}

#[cfg(not(any(ecru_baton, miri, loom)))]
fn register() {
    struct Sentinel;
    impl Drop for Sentinel {
        fn drop(&mut self) {
            local::with(|local| local.resumable.set(ENDED));
        }
    }
    thread_local! {
        static SENTINEL: Sentinel = const { Sentinel };
    }
    // The first access registers the destructor.
    SENTINEL.with(|_| ());
}
