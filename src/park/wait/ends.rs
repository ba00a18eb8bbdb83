//! How a waiter's owner parks, gives the wait up or learns how it ended, and how its worker ends
//! it.
#![expect(unsafe_code, reason = "reaches waiters in frames of other stacks")]

use std::panic::Location;
use std::ptr::{self, NonNull};
use std::time::Instant;

use super::parking::park;
use super::{Mode, Outcome};
#[cfg(feature = "sim")]
use crate::base::simulated;
use crate::park::waiter::{ABORTED, CANCELLED, LOOK_AGAIN, PENDING, TIMED_OUT, WOKEN};
use crate::park::{Waiter, What};

impl Waiter {
    /// Calls `body` with a waiter whose wait is over from the start. Nothing is ever given through
    /// its nodes.
    pub(crate) fn over<R>(body: impl FnOnce(&Waiter) -> R) -> R {
        static WHAT: What = What::new("nothing");
        let waiter = Waiter::new(&WHAT, ptr::null(), 0, Location::caller(), None);
        waiter.claim(ABORTED);
        body(&waiter)
    }

    /// Parks until the wait is over. The caller then withdraws all registrations.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn park(&self, deadline: Option<Instant>, mode: Mode) -> Outcome<()> {
        park(self, deadline, mode)
    }

    /// Gives the wait up without parking. Returns false if the wait has already been decided.
    #[inline]
    pub(crate) fn abort(&self) -> bool {
        self.claim(ABORTED)
    }

    /// Gives the wait up, or waits until the claimer has finished with it. Returns `None` if the
    /// wait was given up.
    #[cold]
    pub(crate) fn abandon(&self) -> Option<Outcome<()>> {
        if self.outcome() == ABORTED || self.abort() {
            return None;
        }
        Some(park(self, None, Mode::Uninterruptible))
    }

    /// Ends a wait that a request has reached. Called on the worker of the parked task.
    ///
    /// # Safety
    /// S4: the task is parked on this waiter.
    pub(in crate::park) unsafe fn cancel(this: *const Waiter) {
        // SAFETY: S4, the caller's promise.
        unsafe { Waiter::end(this, CANCELLED) };
    }

    /// Ends a wait by [force](simulated::interrupts_by_force), and does nothing at other times.
    ///
    /// # Safety
    /// S4: as [`Waiter::cancel`].
    #[cfg(feature = "sim")]
    pub(in crate::park) unsafe fn cancel_by_force(this: *const Waiter) {
        if simulated::interrupts_by_force() {
            // SAFETY: S4, the caller's promise.
            unsafe { Waiter::end(this, CANCELLED) };
        }
    }

    /// Ends a wait whose deadline has passed, unless it has ended already.
    ///
    /// # Safety
    /// S4: the owner's frame stays during the call, if the waiter is not claimed meanwhile.
    pub(crate) unsafe fn time_out(this: *const Waiter) {
        // SAFETY: S4, the caller's promise.
        unsafe { Waiter::end(this, TIMED_OUT) };
    }

    /// # Safety
    /// S4: as [`Waiter::time_out`].
    unsafe fn end(this: *const Waiter, outcome: u32) {
        // SAFETY: S4: the frame stays until the wait has been claimed and unparked.
        if unsafe { &*this }.claim(outcome) {
            // SAFETY: S4: claimed just now.
            unsafe { Waiter::unpark(this) };
        }
    }

    /// Returns how the wait ended. It is over, and was not aborted.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(super) fn ended(&self) -> Outcome<()> {
        match self.outcome() {
            WOKEN => Outcome::Woken(0),
            CANCELLED => Outcome::Cancelled(()),
            TIMED_OUT => Outcome::TimedOut(()),
            LOOK_AGAIN => Outcome::Again(()),
            arm => {
                debug_assert!(arm > WOKEN && arm != ABORTED, "the wait is not over: {arm}");
                Outcome::Woken(arm - WOKEN)
            }
        }
    }

    /// Returns whether the wait has been decided.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.outcome() != PENDING
    }
}

/// A wait without a parked owner: that of a callback or a future. It lies in a frame on the heap.
#[derive(Debug)]
pub(crate) struct Unattended {
    waiter: Waiter,
}

impl Unattended {
    /// Creates a pending wait. The thread that ends it calls `ended` once, with `owner`.
    pub(crate) fn new(owner: NonNull<()>, ended: unsafe fn(*const ())) -> Unattended {
        Unattended { waiter: Waiter::with_owner(owner, ended) }
    }

    /// Returns the waiter, for registrations.
    pub(crate) fn waiter(&self) -> &Waiter {
        &self.waiter
    }

    /// Returns the outcome of a wait that was not aborted and is over.
    pub(crate) fn outcome(&self) -> Outcome<()> {
        self.waiter.ended()
    }

    /// Ends the wait because a deadline has passed, unless it has ended already.
    pub(crate) fn time_out(&self) {
        // SAFETY: S4: the frame is borrowed. Its last reference is released after this.
        unsafe { Waiter::time_out(&raw const self.waiter) };
    }
}
