//! Waiting for what somebody changes under a lock.

use std::fmt;
use std::time::{Duration, Instant};

use super::line::{self, Ended, Wait};
use super::mutex::MutexGuard;
use crate::base::clock;
use crate::park::{Mode, Role, WaitList};
use crate::task::{self, Cancelled};

/// A line of those who have given a [`Mutex`](super::Mutex) back until somebody says that its value has changed.
///
/// As `std::sync::Condvar`, except that a wait borrows the guard, and is a cancel point. It has the lock again when it returns,
/// however it ended. It may end without a notification: look at the value, or use [`wait_while`](Condvar::wait_while).
///
/// # Examples
/// ```
/// use ecru::sync::{Condvar, Mutex};
///
/// let (letters, news) = (Mutex::new(Vec::new()), Condvar::new());
/// ecru::run(|| {
///     ecru::scope(|s| {
///         s.spawn(|| {
///             let mut letters = letters.lock();
///             news.wait_while(&mut letters, |letters| letters.is_empty()).unwrap();
///             assert_eq!(letters.pop(), Some("dear reader"));
///         });
///         letters.lock().push("dear reader");
///         news.notify_one();
///     });
/// });
/// ```
pub struct Condvar {
    line: WaitList,
}

/// Whether a wait with a time limit came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult {
    pub(super) timed_out: bool,
}

impl WaitTimeoutResult {
    /// Whether the time was up.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.timed_out
    }
}

impl Condvar {
    /// One that nobody waits for.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> Condvar {
        Condvar { line: WaitList::new() }
    }

    /// One that nobody waits for.
    #[must_use]
    #[cfg(loom)]
    pub fn new() -> Condvar {
        Condvar { line: WaitList::new() }
    }

    /// Gives the lock back, waits for a notification, and takes the lock again. No notification is missed from the moment on in which
    /// others can have the lock.
    ///
    /// # Errors
    /// [`Cancelled`] when the wait is cancelled; the lock has been taken again.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// A cancel point, up to the notification; taking the lock again is none. A notification that had come already wins, so none is
    /// lost on one that has been cancelled.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::{Condvar, Mutex};
    ///
    /// let (open, news) = (Mutex::new(false), Condvar::new());
    /// std::thread::scope(|s| {
    ///     s.spawn(|| {
    ///         *open.lock() = true;
    ///         news.notify_one();
    ///     });
    ///     let mut guard = open.lock();
    ///     while !*guard {
    ///         news.wait(&mut guard).unwrap();
    ///     }
    /// });
    /// ```
    #[track_caller]
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) -> Result<(), Cancelled> {
        self.wait_until(guard, None, Mode::Cancellable).map(drop)
    }

    /// [`wait`](Condvar::wait), for at most `timeout`. Taking the lock again may take longer.
    ///
    /// # Errors
    /// As `wait`.
    ///
    /// # Panics
    /// As `wait`.
    ///
    /// # Cancellation
    /// As `wait`.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::{Condvar, Mutex};
    /// use std::time::Duration;
    ///
    /// let (value, news) = (Mutex::new(()), Condvar::new());
    /// let nothing = news.wait_timeout(&mut value.lock(), Duration::from_millis(1)).unwrap();
    /// assert!(nothing.timed_out());
    /// ```
    #[track_caller]
    pub fn wait_timeout<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        timeout: Duration,
    ) -> Result<WaitTimeoutResult, Cancelled> {
        // A duration that leads past the end of time is none at all.
        self.wait_until(guard, clock::now().checked_add(timeout), Mode::Cancellable)
    }

    /// Waits as long as `condition` holds. It is asked with the lock held.
    ///
    /// # Errors
    /// As [`wait`](Condvar::wait).
    ///
    /// # Panics
    /// As `wait`, and when `condition` does.
    ///
    /// # Cancellation
    /// As `wait`; no cancel point if the condition does not hold.
    #[track_caller]
    pub fn wait_while<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> Result<(), Cancelled> {
        while condition(guard) {
            self.wait(guard)?;
        }
        Ok(())
    }

    /// [`wait_while`](Condvar::wait_while), for at most `timeout`; timed out: the time is up, and the condition still holds.
    ///
    /// # Errors
    /// As [`wait`](Condvar::wait).
    ///
    /// # Panics
    /// As `wait_while`.
    ///
    /// # Cancellation
    /// As `wait_while`.
    #[track_caller]
    pub fn wait_timeout_while<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        timeout: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> Result<WaitTimeoutResult, Cancelled> {
        let deadline = clock::now().checked_add(timeout);
        let mut timed_out = false;
        loop {
            if !condition(guard) {
                return Ok(WaitTimeoutResult { timed_out: false });
            }
            if timed_out {
                return Ok(WaitTimeoutResult { timed_out });
            }
            timed_out = self.wait_until(guard, deadline, Mode::Cancellable)?.timed_out;
        }
    }

    #[track_caller]
    pub(super) fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Option<Instant>,
        mode: Mode,
    ) -> Result<WaitTimeoutResult, Cancelled> {
        line::begin(mode)?;
        let mutex = guard.raw();
        let wait = Wait { deadline, ..Wait::new("a notification", Role::Notify, mode) };
        // The line is entered before the lock is given back: who changes the value after that finds this wait in it.
        let ended =
            wait.in_line(self.line.lock(), |line| line, || mutex.unlock(), || self.line.lock());
        let timed_out = matches!(ended, Ended::TimedOut(_));
        let cancelled = matches!(ended, Ended::Cancelled(_));
        // The line's lock goes before the mutex is taken again.
        drop(ended);
        mutex.lock_again();
        if cancelled { Err(task::cancelled_wait()) } else { Ok(WaitTimeoutResult { timed_out }) }
    }

    /// Lets the one go on who has waited longest.
    ///
    /// # Examples
    /// ```
    /// ecru::sync::Condvar::new().notify_one(); // nobody waits: nothing happens, nothing is remembered
    /// ```
    pub fn notify_one(&self) {
        self.line.notify_one();
    }

    /// Lets everybody go on who waits.
    ///
    /// # Examples
    /// ```
    /// ecru::sync::Condvar::new().notify_all();
    /// ```
    pub fn notify_all(&self) {
        self.line.notify_all();
    }
}

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar::new()
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Condvar").finish_non_exhaustive()
    }
}
