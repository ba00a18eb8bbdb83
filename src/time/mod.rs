//! Waiting for time to pass: sleeping, and timers and intervals, which are sources.

mod interval;
mod timer;

use std::time::{Duration, Instant};

use crate::base::clock;
use crate::park::{About, Mode, TIMED_OUT, Waiter};
use crate::task::{self, Cancelled};

pub use interval::{Interval, interval};
pub use timer::{Timer, TimerStartError, TimerState};

/// The current time.
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

/// Waits for `duration`: never less, and on an idle machine at most about 0.2 ms more. Zero lets the other tasks run that are
/// ready.
///
/// # Errors
/// [`Cancelled`] when the wait is cancelled.
///
/// # Panics
/// Inside [`no_suspend`](crate::no_suspend).
///
/// # Cancellation
/// A cancel point; there is nothing to lose.
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

/// Waits until `deadline`. For one that has passed it only lets the other tasks run that are ready, and is a cancel point still.
///
/// # Errors
/// [`Cancelled`] when the wait is cancelled.
///
/// # Panics
/// Inside [`no_suspend`](crate::no_suspend).
///
/// # Cancellation
/// A cancel point; there is nothing to lose.
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

/// None: past the end of time, for ever.
#[track_caller]
fn sleep_inner(deadline: Option<Instant>) -> Result<(), Cancelled> {
    task::look_at_the_clock();
    task::begin_wait()?;
    if deadline.is_some_and(|deadline| deadline <= clock::now()) {
        // A loop around it must not starve the others.
        yield_now()?;
        return Ok(());
    }
    let waiter = Waiter::new();
    waiter.set_purpose("time to pass", About::Nothing);
    match task::wait(&waiter, deadline, Mode::Cancellable) {
        TIMED_OUT => Ok(()),
        _ => Err(task::cancelled_wait()),
    }
}

/// Lets the other tasks of this worker that are ready run first. On a plain thread: lets other threads run.
///
/// A turn for others is not a meeting with one of them: a task that was spawned before may have begun elsewhere, or not at all, when
/// this returns. Who needs its work [joins](crate::JoinHandle::join) it, or waits for something that it does.
///
/// # Errors
/// [`Cancelled`] when the task has been cancelled; the others run in that case too.
///
/// # Panics
/// Inside [`no_suspend`](crate::no_suspend).
///
/// # Cancellation
/// A cancel point.
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
    crate::park::refuse_if_no_suspend();
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

/// The same on a thread that unwinds; the running task itself may not.
#[cold]
fn yield_unwinding() -> Result<(), Cancelled> {
    if task::is_unwinding() {
        // As every wait then: see `task::begin_wait`.
        return Err(task::cancelled_wait());
    }
    if !task::while_parked(crate::sched::try_yield) {
        std::thread::yield_now();
    }
    Ok(())
}
