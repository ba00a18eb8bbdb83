//! The end of a thread, after which its suspended coroutines must not run any more.
//!
//! A coroutine that is suspended inside `LocalKey::with` has a reference to a thread-local. When
//! the thread ends, its thread-locals are destroyed one by one. A coroutine that is kept in one of
//! them may outlive the one that it refers to. Then neither its code nor the destructors of its
//! frames may run.
//!
//! # Protocol
//! Thread-locals are destroyed in the reverse order of their first uses. A thread's first coroutine
//! therefore registers a thread-local of its own, the **sentinel**. Thread-locals that were used
//! earlier are destroyed after it. When it is destroyed, it changes the gates of the thread's
//! coroutines, which a **ring** connects ([`Local::coroutines`](crate::base::local::Local)). So
//! `resume` and `suspend` compare the gate only with what they would compare it with anyway.
//!
//! | coroutine | gate at the thread's end | effect |
//! |---|---|---|
//! | suspended | [`STRANDED`] | `resume` panics, and dropping it leaks its stack |
//! | about to be suspended (`suspend_with`) | `STRANDED` follows | the same |
//! | running | [`OVERTAKEN`] | `suspend` panics |
//! | not started | `OVERTAKEN` follows at its start | the same |
//! | complete, or being unwound | unchanged | none |
//! | borrowing (`scoped`) | unchanged | none |
//! | made later | unchanged, as the sentinel is destroyed once | none |
//!
//! A coroutine that borrows needs no change: the frame that lends to it is alive. If that frame is
//! suspended, it belongs to another coroutine, which is stranded. A coroutine runs at its thread's
//! end only if it calls `std::process::exit`, which destroys the calling thread's thread-locals.
//!
//! A thread-local that is first used after the sentinel was made is destroyed before it. A
//! coroutine that is kept there is therefore not refused: see the assumptions in `SOUNDNESS.md`.
//!
//! # The ring
//! A control block enters its thread's ring when its coroutine is created, and leaves it when the
//! coroutine is dropped or gives its stack back (L3). A coroutine never changes thread, so one
//! thread uses the ring and the links. A coroutine that is forgotten stays in the ring: its stack,
//! where the block lies, is never freed (C1).
//!
//! The links of the last block and of the first one lead to the ring's head, which lies in the
//! thread's block of thread-locals. That block has no destructor, so it is there in the destructor
//! of each thread-local. A stranded coroutine may outlive its thread, but nothing follows its links
//! afterwards.
//!
//! A node leaves without access to the head. On the baton backend this is necessary. When a
//! coroutine ends, destructors of thread-locals run on its OS thread. They drop coroutines that are
//! in the ring of the resuming thread, which waits meanwhile (B1). That backend has no sentinel: a
//! suspended coroutine there uses the thread-locals of its own OS thread.

use std::ptr::{self, NonNull};

use super::control::{Control, OVERTAKEN, STRANDED};
use crate::base::list::Ring;
use crate::base::local;

/// Puts a coroutine into its thread's ring. Registers the thread's sentinel if this is its first
/// coroutine.
///
/// # Safety
/// L3: the control block is in no ring, and does not move or end before [`leave`].
#[inline]
pub(super) unsafe fn enter(control: NonNull<Control>) {
    if !local::with(|local| local.has_coroutines.get()) {
        begin();
    }
    // SAFETY: L3: the ring is closed. The caller promises the rest. The link is the first field.
    local::with(|local| unsafe { local.coroutines.push(control.as_ptr().cast()) });
}

/// Called when a coroutine starts.
#[inline]
pub(super) fn on_start(control: &Control) {
    if control.rest.get() == STRANDED {
        control.gate.set(OVERTAKEN);
    }
}

/// Takes a coroutine out of its thread's ring.
///
/// # Safety
/// L3: it is in a ring.
#[inline]
pub(super) unsafe fn leave(control: &Control) {
    // SAFETY: L3, the caller's promise. The link is the first field.
    unsafe { Ring::remove(ptr::from_ref(control).cast()) };
}

#[cold]
fn begin() {
    local::with(|local| {
        local.has_coroutines.set(true);
        // SAFETY: L3: a thread's block of thread-locals does not move.
        unsafe { local.coroutines.close() };
    });
    register();
}

// A coroutine of the other backend runs on a thread of its own, which has its own thread-locals.
#[cfg(any(ecru_baton, miri, loom))]
fn register() {}

#[cfg(not(any(ecru_baton, miri, loom)))]
fn register() {
    struct Sentinel;
    impl Drop for Sentinel {
        fn drop(&mut self) {
            strand_all();
        }
    }
    thread_local! {
        static SENTINEL: Sentinel = const { Sentinel };
    }
    // The first access registers the destructor.
    SENTINEL.with(|_| ());
}

/// Changes the gates of the thread's coroutines, as the module's table says.
#[cfg(not(any(ecru_baton, miri, loom)))]
fn strand_all() {
    local::with(|local| {
        local.coroutines.for_each(|link| {
            // SAFETY: L3: a block is alive while it is in the ring, and begins with its link.
            strand(unsafe { &*link.cast::<Control>() });
        });
    });
}

#[cfg(not(any(ecru_baton, miri, loom)))]
fn strand(control: &Control) {
    use super::control::{COMPLETE, PANICKING, SUSPENDED, SUSPENDING, UNSTARTED, UNWINDING};
    if control.scoped.get() {
        return;
    }
    match control.gate.get() {
        SUSPENDED | PANICKING => control.gate.set(STRANDED),
        SUSPENDING | UNSTARTED => control.rest.set(STRANDED),
        UNWINDING | STRANDED | OVERTAKEN | COMPLETE => {}
        _running => control.gate.set(OVERTAKEN),
    }
}

#[cfg(all(test, not(any(ecru_baton, miri, loom))))]
mod tests;
