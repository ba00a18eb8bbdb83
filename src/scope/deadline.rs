//! Time limits for sections of code.
#![expect(unsafe_code, reason = "sets a timer on the stack")]

use std::time::{Duration, Instant};
use std::{error, fmt, io};

use super::frame::Opened;
use crate::base::clock;
use crate::sched::{self, Timer};
use crate::task::cancel::{self, DeadlineNode};
use crate::task::{self, CancelReason};

/// The error of a [`timeout`] whose body was interrupted because the time was up.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// let slow = ecru::timeout(Duration::from_millis(1), || ecru::sleep(Duration::from_secs(3600)));
/// assert_eq!(slow.unwrap_err().to_string(), "time limit reached");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Elapsed(());

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("time limit reached")
    }
}

impl error::Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(elapsed: Elapsed) -> io::Error {
        io::Error::new(io::ErrorKind::TimedOut, elapsed)
    }
}

/// Runs `body` in place, for at most `limit`. When the time is up, waits in `body` are cancelled
/// with the reason [`Deadline`](CancelReason::Deadline), and so are the tasks of scopes that `body`
/// has opened.
///
/// The body is awaited in any case: code that ignores the cancellation is not stopped. Limits nest,
/// and the earliest one applies. `limit` counts from the call.
///
/// [`is_cancelled`](crate::is_cancelled), [`checkpoint`](crate::checkpoint),
/// [`yield_now`](crate::yield_now) and sleeps notice at once that the time is up, even if the body
/// has only computed. Operations that need not wait, such as receiving a value that is already
/// there, may still succeed up to 128 times.
///
/// On a plain thread, each blocking call inside `body` takes the limit as its own timeout.
///
/// # Errors
/// Returns [`Elapsed`] if the expiry interrupted a wait of `body` or a task below it. A body in
/// which nothing was interrupted returns its value, even if it took longer. The expiry of an outer
/// limit is reported by the outer `timeout`, not by this one.
///
/// # Panics
/// Propagates a panic of `body`.
///
/// # Cancellation
/// The call itself is not a cancellation point.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// ecru::run(|| {
///     let quick = ecru::timeout(Duration::from_secs(3600), || 7);
///     assert_eq!(quick, Ok(7));
///
///     let slow = ecru::timeout(Duration::from_millis(2), || ecru::sleep(Duration::from_secs(3600)));
///     assert!(slow.is_err());
/// });
/// ```
pub fn timeout<T>(limit: Duration, body: impl FnOnce() -> T) -> Result<T, Elapsed> {
    match clock::now().checked_add(limit) {
        Some(deadline) => limited(deadline, limit.is_zero(), body),
        // The deadline is too late for an `Instant`, so there is no limit.
        None => Ok(body()),
    }
}

/// Runs `body` in place until `deadline` at the latest, as [`timeout`] does.
///
/// # Errors
/// The same as for [`timeout`].
///
/// # Panics
/// Propagates a panic of `body`.
///
/// # Examples
/// ```
/// use std::time::{Duration, Instant};
///
/// let deadline = Instant::now() + Duration::from_secs(3600);
/// assert_eq!(ecru::timeout_at(deadline, || "in time"), Ok("in time"));
/// ```
pub fn timeout_at<T>(deadline: Instant, body: impl FnOnce() -> T) -> Result<T, Elapsed> {
    limited(deadline, deadline <= clock::now(), body)
}

#[inline]
fn limited<T>(deadline: Instant, has_passed: bool, body: impl FnOnce() -> T) -> Result<T, Elapsed> {
    let limit = Limit::new(deadline);
    let value = {
        let _set = limit.set(deadline);
        let _opened = if task::current_header().is_some() {
            Opened::unlinked(&limit.node.node)
        } else {
            Opened::inside(&limit.node.node)
        };
        limit.node.node.become_limit();
        if has_passed {
            // Flags this limit, or one around it that has passed earlier.
            task::note_expired_limits();
        }
        body()
    };
    if limit.node.node.was_delivered() { Err(Elapsed(())) } else { Ok(value) }
}

/// Runs a body that returns a `Result` under a [`timeout`]. The two errors become one, so one `?`
/// is enough.
///
/// The error type is any that implements `From<Elapsed>`, such as [`io::Error`] and `Box<dyn Error>`.
/// If the body does not tell which one it is, name it: `Ok::<_, io::Error>(..)`.
///
/// # Errors
/// Returns the body's error, or an [`Elapsed`] converted into the body's error type.
///
/// # Panics
/// Propagates a panic of `body`.
///
/// # Examples
/// ```
/// use std::io;
/// use std::time::Duration;
///
/// fn answer() -> io::Result<u32> {
///     ecru::try_timeout(Duration::from_secs(3600), || Ok(42))
/// }
/// assert_eq!(answer().unwrap(), 42);
/// ```
pub fn try_timeout<T, E>(limit: Duration, body: impl FnOnce() -> Result<T, E>) -> Result<T, E>
where
    E: FromElapsed,
{
    match timeout(limit, body) {
        Ok(result) => result,
        Err(elapsed) => Err(E::from_elapsed(elapsed)),
    }
}

/// An error type that implements `From<Elapsed>`. It exists for the compiler's message about types
/// that do not.
#[expect(unnameable_types, reason = "programs implement `From<Elapsed>`")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot say that a time limit has passed",
    label = "the error of this body has no `From<ecru::Elapsed>`",
    note = "implement `From<ecru::Elapsed>` for `{Self}`, or convert the body's error with `map_err` to a type that has it, such as `std::io::Error` or `Box<dyn std::error::Error>`",
    note = "`ecru::timeout` keeps the two errors apart: it returns `Result<Result<_, {Self}>, ecru::Elapsed>`"
)]
pub trait FromElapsed {
    #[doc(hidden)]
    fn from_elapsed(elapsed: Elapsed) -> Self;
}

#[diagnostic::do_not_recommend]
impl<E: From<Elapsed>> FromElapsed for E {
    fn from_elapsed(elapsed: Elapsed) -> E {
        E::from(elapsed)
    }
}

/// A time limit: a node that its timer flags when the time is up.
#[repr(C)]
struct Limit {
    timer: Timer,
    node: DeadlineNode,
}

impl Limit {
    #[inline(always)]
    fn new(deadline: Instant) -> Limit {
        let owner = task::current_header().map_or(std::ptr::null(), std::ptr::from_ref);
        Limit {
            timer: Timer::new(ring),
            node: DeadlineNode::new(task::current_node(), owner, deadline),
        }
    }

    /// Sets the timer until the guard is dropped. On a plain thread there are no timers: waits read
    /// the deadline from the node.
    #[inline]
    fn set(&self, deadline: Instant) -> TimerGuard<'_> {
        // SAFETY: W1: the guard cancels the timer before the frame ends.
        unsafe { sched::set_timer(&self.timer, deadline) };
        TimerGuard(&self.timer)
    }
}

/// A guard that cancels a timer when it is dropped.
pub(super) struct TimerGuard<'t>(pub(super) &'t Timer);

impl Drop for TimerGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        sched::cancel_timer(self.0);
    }
}

unsafe fn ring(timer: *const Timer) {
    // SAFETY: W1: the timer is the first field of a limit, whose frame is still open.
    let limit = unsafe { &*timer.cast::<Limit>() };
    cancel::cancel(&limit.node.node, CancelReason::Deadline);
}
