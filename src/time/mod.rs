//! Waiting for time to pass: sleeping, and timers and intervals, which are sources.

#![expect(unsafe_code, reason = "describes the objects of waits")]

mod interval;
mod sleep;
mod timer;

use std::ptr;
use std::time::{Duration, Instant};

use crate::base::{clock, simulated};
use crate::park::{self, About, Mode, Outcome, Wait, What};
use crate::task::{self, Cancelled};

pub use interval::{Interval, Missed, interval};
pub use sleep::Sleep;
pub use timer::{Timer, TimerStartError, TimerState};

/// Returns the current time. In a [simulation](crate::sim), it is the virtual time.
///
/// # Examples
/// ```
/// let before = ecru::time::now();
/// assert!(ecru::time::now() >= before);
/// ```
#[must_use]
pub fn now() -> Instant {
    clock::now()
}

/// Waits for `duration`. The wait is never shorter, and on an idle machine at most about 0.2 ms
/// longer. A duration of zero only lets other tasks run that are ready.
///
/// # Errors
/// Returns [`Cancelled`] if the wait is cancelled.
///
/// # Panics
/// Panics if called inside [`no_suspend`](crate::no_suspend).
///
/// # Cancellation
/// This is a cancellation point. A cancelled wait loses nothing.
///
/// # Examples
/// ```
/// use std::time::{Duration, Instant};
///
/// let before = Instant::now();
/// ecru::sleep(Duration::from_millis(1)).unwrap();
/// assert!(before.elapsed() >= Duration::from_millis(1));
/// ```
#[track_caller]
pub fn sleep(duration: Duration) -> Result<(), Cancelled> {
    sleep_inner(clock::now().checked_add(duration))
}

/// Waits until `deadline`. If it has passed, the call only lets other tasks run that are ready. It
/// is a cancellation point in this case, too.
///
/// # Errors
/// Returns [`Cancelled`] if the wait is cancelled.
///
/// # Panics
/// Panics if called inside [`no_suspend`](crate::no_suspend).
///
/// # Cancellation
/// This is a cancellation point. A cancelled wait loses nothing.
///
/// # Examples
/// ```
/// use std::time::{Duration, Instant};
///
/// let deadline = Instant::now() + Duration::from_millis(1);
/// ecru::time::sleep_until(deadline).unwrap();
/// assert!(Instant::now() >= deadline);
/// ```
#[track_caller]
pub fn sleep_until(deadline: Instant) -> Result<(), Cancelled> {
    sleep_inner(Some(deadline))
}

/// Sleeps until `deadline`. `None` stands for a time that is not representable: the wait ends only
/// if it is cancelled.
#[track_caller]
fn sleep_inner(deadline: Option<Instant>) -> Result<(), Cancelled> {
    task::expire_limits();
    task::begin_wait()?;
    if deadline.is_some_and(|deadline| deadline <= clock::now()) {
        // A loop around an expired sleep must not starve the other tasks.
        yield_now()?;
        return Ok(());
    }
    let object = ptr::from_ref(&deadline).cast();
    let wait = Wait { object, deadline, ..Wait::new(&TIME, Mode::Cancellable) };
    match wait.alone() {
        Outcome::TimedOut(()) => Ok(()),
        _ => Err(task::cancelled_wait()),
    }
}

/// A wait for a point in time.
// SAFETY: O1: the object is the deadline, which is in a frame around the wait.
static TIME: What = unsafe { What::about("time to pass", describe) };

/// Describes a sleep.
///
/// # Safety
/// O1: `deadline` is the deadline of a sleep.
unsafe fn describe(deadline: *const (), _: usize) -> (&'static str, About) {
    // SAFETY: O1, the caller's promise.
    let deadline = unsafe { *deadline.cast::<Option<Instant>>() };
    ("time to pass", deadline.map_or(About::Nothing, About::Time))
}

/// Lets the other ready tasks of this worker run first. On a plain thread, lets other threads run.
///
/// Yielding does not wait for any particular task. A task that was spawned earlier may not have
/// begun when this returns, or may be running on another worker. Code that needs the work of a task
/// [joins](crate::JoinHandle::join) it, or waits for something that the task does.
///
/// # Errors
/// Returns [`Cancelled`] if the task has been cancelled. The other tasks run in this case, too.
///
/// # Panics
/// Panics if called inside [`no_suspend`](crate::no_suspend).
///
/// # Cancellation
/// This is a cancellation point.
///
/// # Examples
/// ```
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let other = s.spawn(|| ());
///         while !other.is_finished() {
///             ecru::yield_now().unwrap();
///         }
///     });
/// });
/// ```
#[inline(always)] // see `sched::try_yield`
#[track_caller]
pub fn yield_now() -> Result<(), Cancelled> {
    if park::is_unrestricted() { yield_once() } else { yield_with_care() }
}

/// Yields where a call that may wait needs a closer look: in a simulation, for example. Inside
/// `no_suspend` the call is refused.
#[cold]
#[track_caller]
fn yield_with_care() -> Result<(), Cancelled> {
    park::refuse_if_no_suspend();
    yield_once()?;
    // Without this, a task that yields for ever under fresh shields would not end with its run.
    task::unwind_by_force();
    // If the task's host has crashed, the turn that has just begun has cancelled the shield around
    // this call.
    match task::cancelled().filter(|_| simulated::is_cut_off()) {
        Some(cancelled) => Err(task::answer(cancelled)),
        None => Ok(()),
    }
}

#[inline(always)]
#[track_caller]
fn yield_once() -> Result<(), Cancelled> {
    if let Some(cancelled) = task::cancelled_by_now() {
        return Err(task::answer(cancelled));
    }
    if std::thread::panicking() {
        return yield_unwinding();
    }
    if !crate::sched::try_yield() {
        std::thread::yield_now();
    }
    Ok(())
}

/// Yields on a thread that is unwinding. The running task may not be the one that unwinds.
#[cold]
fn yield_unwinding() -> Result<(), Cancelled> {
    if task::is_unwinding() {
        // In a task that unwinds, every wait returns this: see `task::begin_wait`.
        return Err(task::cancelled_wait());
    }
    if !park::while_parked(crate::sched::try_yield) {
        std::thread::yield_now();
    }
    Ok(())
}
