//! A wait that one other party ends, to which the owner gives a pointer.
#![expect(unsafe_code, reason = "reaches a waiter in the frame of another stack")]

use super::super::waiter::{WOKEN, Waiter};

/// A wait that only one other party can end. That party has a pointer to it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Single<T> {
    pub(super) waiter: Waiter,
    /// What the owner and the claimer share.
    pub(crate) shared: T,
}

impl<T> Single<T> {
    /// Ends the wait.
    ///
    /// # Safety
    /// S4: the wait has not been ended before, and the caller does not touch it afterwards.
    #[inline]
    pub(crate) unsafe fn wake(this: *const Single<T>) {
        // SAFETY: S4: the owner's frame stays until the unpark below.
        let waiter = unsafe { &raw const (*this).waiter };
        // SAFETY: S4: the owner's frame stays until the unpark below.
        let claimed = unsafe { &*waiter }.claim(WOKEN);
        debug_assert!(claimed, "a wait with a single claimer was claimed before");
        // SAFETY: S4: this call has just won the claim.
        unsafe { Waiter::unpark(waiter) };
    }

    /// Returns the wait that this waiter belongs to, for the hook of a
    /// [`Mode::Hook`](super::Mode::Hook).
    ///
    /// # Safety
    /// S4: the waiter is that of a `Single` with this type.
    pub(crate) unsafe fn of<'a>(waiter: *const Waiter) -> &'a Single<T> {
        // SAFETY: S4, the caller's promise. The waiter is the first field.
        unsafe { &*waiter.cast() }
    }
}
