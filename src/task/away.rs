//! Waits in two halves, between which the function that waits switches away itself.
//!
//! The processor predicts each return by the last call that it saw. After a switch that was another task's, so the next return is
//! predicted wrong, and the switch back with it: together some forty nanoseconds, more than all else in a wait. So what tasks wait
//! in most often comes in two halves. Each is called and returns on its own side of the switch; the switch between them becomes a
//! part of the user's own function, which then goes on without a return (`doc/decisions/0011-waits-in-two-halves.md`).
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

/// The running task is to switch away now.
#[must_use]
pub(crate) struct Away {
    /// None: it is a root, on its thread's own stack.
    suspender: Option<NonNull<Suspender<(), Intent>>>,
}

/// The first half of a wait that can be cancelled and has no deadline. An error: the outcome; it is over already, having been done at
/// once where nothing is gained by halves.
#[inline]
pub(crate) fn begin(waiter: &Waiter) -> Result<Away, u32> {
    match current_header() {
        Some(header) if !thread::panicking() => leave(header, waiter, Mode::Cancellable),
        _ => Err(wait(waiter, None, Mode::Cancellable)),
    }
}

/// The same for the running task, which is not unwinding.
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
    /// Switches away until the wait is over. Where it is called, and in the functions around it, nothing returns until then.
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

/// The second half: the outcome.
#[inline]
pub(crate) fn end(waiter: &Waiter) -> u32 {
    if let Some(header) = current_header() {
        let running = header.running();
        // SAFETY: T6: it has just switched away.
        if !unsafe { running.entry() }.asked.get().is_null() {
            trace_and_park();
        }
        running.unpark();
    }
    waiter.outcome()
}

/// The task was resumed for its stack trace alone.
#[cold]
fn trace_and_park() {
    if let Some(host) = park::host() {
        (host.trace_and_park)();
    }
}
