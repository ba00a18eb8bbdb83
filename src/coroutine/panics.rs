//! Whose panic it is that the thread counts.
//!
//! `std` counts panics by thread, where no one can write to it. A task or a coroutine that is switched away from while it unwinds leaves its
//! panic in that count, and whatever runs next on the thread looks as if it panicked. So those stacks are counted, and while there is one,
//! a panic that the thread counts is taken to be theirs: the answer may be "no" for code that panics, but is never "yes" for code that does
//! not. A coroutine looks at its own frames first and is counted only if it does unwind. A task is counted whenever the thread panics.
//!
//! A coroutine that is dropped is unwound, which `std` counts as a panic as well. It is none.

use std::marker::PhantomData;
use std::thread;

use crate::base::local;

/// The running stack, which unwinds, is about to be switched away from.
#[cold]
pub(crate) fn leave_behind() {
    if !cfg!(any(ecru_baton, miri, loom)) {
        local::with(|local| local.unwinding_at_rest.set(local.unwinding_at_rest.get() + 1));
    }
}

/// A stack for which [`leave_behind`] was called goes on.
#[cold]
pub(crate) fn take_up() {
    if !cfg!(any(ecru_baton, miri, loom)) {
        local::with(|local| local.unwinding_at_rest.set(local.unwinding_at_rest.get() - 1));
    }
}

/// Returns whether a stack of this thread is at rest in the middle of an unwinding.
#[inline]
pub(crate) fn some_at_rest() -> bool {
    local::with(|local| local.unwinding_at_rest.get()) != 0
}

/// Returns whether the running code panics: `std`'s answer, but "no" while some stack is at rest in the middle of an unwinding, and in the
/// destructors of a coroutine that code which does not panic has dropped.
#[inline]
pub(crate) fn is_panicking() -> bool {
    thread::panicking() && is_own()
}

#[cold]
fn is_own() -> bool {
    !some_at_rest() && local::with(|local| local.forced_unwindings.get()) == 0
}

/// The unwinding of a coroutine that was dropped.
///
/// It is not kept apart by stacks. Where such an unwinding waits, it is at rest in the middle of an unwinding, and that alone makes the answer
/// for everything else "no".
#[derive(Debug)]
pub(super) struct Forced {
    counted: bool,
    /// It counts for the thread that it was made on.
    not_send: PhantomData<*const ()>,
}

impl Forced {
    /// Begins it. If the code that drops the coroutine panics, its destructors are run by that panic.
    pub(super) fn begin() -> Forced {
        let counted = !is_panicking();
        if counted {
            local::with(|local| local.forced_unwindings.set(local.forced_unwindings.get() + 1));
        }
        Forced { counted, not_send: PhantomData }
    }
}

impl Drop for Forced {
    fn drop(&mut self) {
        if self.counted {
            local::with(|local| local.forced_unwindings.set(local.forced_unwindings.get() - 1));
        }
    }
}
