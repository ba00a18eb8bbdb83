//! Parking: the task switches away, or the thread sleeps, until the wait is over.

use std::cell::Cell;
use std::thread;
use std::time::Instant;

use super::{Mode, Outcome};
#[cfg(feature = "sim")]
use crate::base::simulated;
use crate::coroutine::{hook, panics};
use crate::park::Waiter;
use crate::park::host::{host, limits, refuse_while_unwinding};
use crate::park::parker::{Parker, Switch};
use crate::park::waiter::CANCELLED;

/// Parks the current task or thread until the wait is over, or until `deadline`.
///
/// Always inlined, because each return between two switches is mispredicted. Without optimization,
/// an inlined function would only add its variables to the caller's frame, which stays on the stack
/// while the task is parked.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) fn park(waiter: &Waiter, deadline: Option<Instant>, mode: Mode) -> Outcome<()> {
    if let (Some(_), Some(parker)) = (deadline, Parker::current()) {
        return park_and_count(parker, waiter, deadline, mode);
    }
    match begin(waiter, deadline, mode) {
        Err(outcome) => outcome,
        Ok(switch) => {
            switch.go();
            end(waiter)
        }
    }
}

/// The first half of parking. A task has no deadline here. Returns an error, the outcome, if the
/// wait is over.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) fn begin(
    waiter: &Waiter,
    deadline: Option<Instant>,
    mode: Mode,
) -> Result<Switch, Outcome<()>> {
    let Some(parker) = Parker::current() else {
        return Err(block(waiter, deadline, mode));
    };
    if thread::panicking() {
        return Err(park_and_count(parker, waiter, deadline, mode));
    }
    if parker.is_cancelled(mode) && waiter.claim(CANCELLED) {
        return Err(Outcome::Cancelled(()));
    }
    parker.park_on(waiter);
    Ok(parker.switch())
}

/// The second half of parking.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(super) fn end(waiter: &Waiter) -> Outcome<()> {
    if let Some(parker) = Parker::current() {
        parker.resumed();
    }
    waiter.ended()
}

/// Parks a task with a deadline, which the host watches, or a task that unwinds, which
/// [`while_parked`] must count. In the panic hook, the task blocks its worker instead.
#[inline(never)]
fn park_and_count(
    parker: &Parker,
    waiter: &Waiter,
    deadline: Option<Instant>,
    mode: Mode,
) -> Outcome<()> {
    if parker.is_cancelled(mode) && waiter.claim(CANCELLED) {
        return Outcome::Cancelled(());
    }
    let unwinding = thread::panicking();
    let in_hook = unwinding && hook::is_running();
    if unwinding && !in_hook {
        refuse_while_unwinding();
    }
    parker.park_on(waiter);
    if in_hook && let Some(host) = host() {
        (host.hold)(waiter, deadline);
        parker.resumed();
        return waiter.ended();
    }
    begin_parked(unwinding);
    match (deadline, host()) {
        (Some(deadline), Some(host)) => {
            parker.set_deadline(true);
            (host.park_until)(parker, waiter, deadline);
            parker.set_deadline(false);
        }
        _ => parker.wait_out(),
    }
    end_parked(unwinding);
    parker.resumed();
    waiter.ended()
}

/// Switches away from the running task, or runs another task on top of it. If the thread is
/// panicking, the task counts as unwinding meanwhile: see [`panics`]. In the panic hook, nothing is
/// done.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) fn while_parked<T: Default>(switch: impl FnOnce() -> T) -> T {
    let unwinding = thread::panicking();
    if unwinding && hook::is_running() {
        return T::default();
    }
    begin_parked(unwinding);
    // The closure is called in one place only, so that it is inlined.
    let result = switch();
    end_parked(unwinding);
    result
}

/// The first half of [`while_parked`], for a switch that is too large to be inlined as a closure.
/// `unwinding` is whether the thread is panicking, for both halves.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) fn begin_parked(unwinding: bool) {
    if unwinding {
        panics::leave_behind();
    }
}

/// The second half of [`while_parked`].
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) fn end_parked(unwinding: bool) {
    if unwinding {
        panics::take_up();
    }
}

/// Blocks a plain thread, which takes the nearest enclosing limit as a deadline.
#[cold]
#[inline(never)]
fn block(waiter: &Waiter, deadline: Option<Instant>, mode: Mode) -> Outcome<()> {
    // This is a destructor that runs on a simulation's thread after its tasks have ended. Nothing
    // would end the wait.
    #[cfg(feature = "sim")]
    if simulated::is_simulated()
        && matches!(mode, Mode::Cancellable | Mode::Unfailing)
        && waiter.claim(CANCELLED)
    {
        return Outcome::Cancelled(());
    }
    let limits = limits().filter(|_| !matches!(mode, Mode::Uninterruptible | Mode::Unfailing));
    // The limit that ends the wait, if one is nearer than the wait's own deadline.
    let nearest = Cell::new(None);
    waiter.block(&|| {
        let limit = limits.and_then(|limits| (limits.nearest)());
        nearest.set(limit.filter(|(at, _)| deadline.is_none_or(|own| *at < own)));
        nearest.get().map_or(deadline, |(at, _)| Some(at))
    });
    match (waiter.ended(), limits, nearest.get()) {
        (Outcome::TimedOut(()), Some(limits), Some((_, limit))) => {
            // SAFETY: K1: the enclosing frames are open.
            unsafe { (limits.expire)(limit) };
            Outcome::Cancelled(())
        }
        (outcome, ..) => outcome,
    }
}
