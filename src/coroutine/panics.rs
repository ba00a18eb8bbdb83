//! The attribution of panics, which `std` counts per thread, to the stacks of that thread.
//!
//! `std` counts panics per thread, and this count cannot be changed from outside. If a task or
//! coroutine is switched away from while it unwinds, its panic stays in the count. The code that
//! runs next on the thread then seems to be panicking. This module therefore counts such stacks.
//! While there is one, a panic counted by the thread is assumed to be theirs. So the answer may be
//! "no" for code that is panicking, but it is never "yes" for code that is not.
//!
//! A coroutine examines its own frames first, and is counted only if it does unwind. A task is
//! counted whenever the thread panics.
//!
//! Dropping a suspended coroutine unwinds it, which `std` also counts as a panic, although it is
//! none.

use std::marker::PhantomData;
use std::thread;

use crate::base::local;

/// Records that the running stack, which unwinds, is about to be switched away from.
#[cold]
pub(crate) fn leave_behind() {
    if !cfg!(any(ecru_baton, miri, loom)) {
        local::with(|local| local.unwinding_at_rest.set(local.unwinding_at_rest.get() + 1));
    }
}

/// Records that a stack for which [`leave_behind`] was called runs again.
#[cold]
pub(crate) fn take_up() {
    if !cfg!(any(ecru_baton, miri, loom)) {
        local::with(|local| local.unwinding_at_rest.set(local.unwinding_at_rest.get() - 1));
    }
}

/// Returns whether a stack of this thread is suspended during unwinding.
#[inline]
pub(crate) fn some_at_rest() -> bool {
    local::with(|local| local.unwinding_at_rest.get()) != 0
}

/// Returns whether it is known that a stack of this thread is being unwound.
#[cfg(all(panic = "unwind", not(target_arch = "arm"), not(any(ecru_baton, miri, loom))))]
pub(super) fn is_unwinding_known() -> bool {
    !is_own()
}

/// Returns whether the running code is panicking. This is `std`'s answer, with two exceptions. It
/// is `false` while a stack of the thread is suspended during unwinding. It is also `false` in the
/// destructors of a coroutine that was dropped by code that is not panicking.
#[inline]
pub(crate) fn is_panicking() -> bool {
    thread::panicking() && is_own()
}

#[cold]
fn is_own() -> bool {
    !some_at_rest() && local::with(|local| local.forced_unwindings.get()) == 0
}

/// The forced unwinding of a coroutine that was dropped.
///
/// This is counted per thread and not per stack. If a destructor waits in such an unwinding, its
/// stack is suspended during unwinding. That alone makes [`is_panicking`] `false` for all other
/// code.
#[derive(Debug)]
pub(super) struct Forced {
    counted: bool,
    /// The count belongs to the thread that this was made on.
    not_send: PhantomData<*const ()>,
}

impl Forced {
    /// Begins a forced unwinding. It is not counted if the code that drops the coroutine is
    /// panicking: the destructors then run because of that panic.
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
