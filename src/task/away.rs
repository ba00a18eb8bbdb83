//! Waits in two halves, between which the waiting function itself switches away.
//!
//! The processor predicts that a return goes back to its most recent call. After a switch, that
//! call was made by another task. So the next return is mispredicted, and so is the switch back.
//! Together this costs some forty nanoseconds, more than everything else in a wait. The most
//! frequent waits of tasks are therefore split into two halves. Each half is called and returns on
//! its own side of the switch. The switch between them is inlined into the user's own function,
//! which then goes on without a return (`doc/decisions/0011-waits-in-two-halves.md`).
//!
//! ```text
//!   match begin(&waiter) {              // the waiter has been registered
//!       Err(outcome) => outcome,        // it is over already
//!       Ok(away) => {
//!           away.go();                  // inlined
//!           end(&waiter)
//!       }
//!   }
//! ```
#![expect(unsafe_code, reason = "switches away from the task that is running")]

use std::ptr::NonNull;
use std::thread;

use super::current::{current_header, reach, wait};
use super::header::{Header, Intent};
use crate::coroutine::switch::Suspender;
use crate::park::{self, CANCELLED, Mode, Waiter};

/// The prepared switch of the running task, which must be made now.
#[must_use]
pub(crate) struct Away {
    /// `None` for a root task, which runs on its thread's own stack.
    suspender: Option<NonNull<Suspender<(), Intent>>>,
}

/// The first half of a cancellable wait without a deadline.
///
/// Returns `Err(outcome)` if the wait has already finished. The caller must not switch away then.
/// On a plain thread and during unwinding, the whole wait takes place in this call.
#[inline]
pub(crate) fn begin(waiter: &Waiter) -> Result<Away, u32> {
    match current_header() {
        Some(header) if !thread::panicking() => leave(header, waiter, Mode::Cancellable),
        _ => Err(wait(waiter, None, Mode::Cancellable)),
    }
}

/// The first half of a wait of the running task, which is not unwinding. The result is that of
/// [`begin`].
#[inline]
pub(crate) fn leave(header: &Header, waiter: &Waiter, mode: Mode) -> Result<Away, u32> {
    if mode == Mode::Cancellable && reach(header).is_some() && waiter.claim(CANCELLED) {
        return Err(CANCELLED);
    }
    let running = header.running();
    running.park_on(waiter, mode);
    Ok(Away { suspender: NonNull::new(running.suspender.get().cast_mut()) })
}

impl Away {
    /// Switches away until the wait is over. Neither this nor the functions around it return before
    /// that.
    #[inline(always)]
    pub(crate) fn go(&self) {
        match self.suspender {
            // SAFETY: T1: the running task's suspender is on its own stack.
            Some(suspender) => unsafe { suspender.as_ref() }.suspend(Intent::Park),
            None => leave_root(),
        }
    }
}

#[inline(never)]
fn leave_root() {
    if let Some(host) = park::host() {
        (host.leave)();
    }
}

/// The second half of a wait. Returns the outcome.
#[inline]
pub(crate) fn end(waiter: &Waiter) -> u32 {
    if let Some(header) = current_header() {
        let running = header.running();
        // SAFETY: T6: the task has just switched away.
        if !unsafe { running.entry() }.asked.get().is_null() {
            trace_and_park();
        }
        running.unpark();
    }
    waiter.outcome()
}

/// Captures a stack trace and parks again. The task was resumed only for that.
#[cold]
fn trace_and_park() {
    if let Some(host) = park::host() {
        (host.trace_and_park)();
    }
}
