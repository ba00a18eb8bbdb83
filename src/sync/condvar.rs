//! A condition variable.

#![expect(unsafe_code, reason = "describes the objects of waits")]

use std::fmt;
use std::ptr;
use std::time::{Duration, Instant};

use super::mutex::MutexGuard;
use super::{holder, line};
use crate::base::clock;
use crate::base::tag::Tag;
use crate::park::{About, Mode, Outcome, Wait, WaitList, What};
use crate::task::{self, Cancelled};

/// A condition variable for a [`Mutex`](super::Mutex): a waiter unlocks the mutex until it is
/// notified that the value may have changed.
///
/// It works like `std::sync::Condvar`, except that a wait borrows the guard and is a cancellation
/// point. The lock is held again when a wait returns, however the wait ended. A wait may return
/// without a notification, so check the value again or use [`wait_while`](Condvar::wait_while).
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
    tag: Tag,
}

/// A wait for a notification.
// SAFETY: O1: the object is the condition variable, which the wait borrows.
static A_NOTIFICATION: What = unsafe { What::about("a notification", describe) };

/// # Safety
/// O1: `condvar` is a [`Condvar`].
unsafe fn describe(condvar: *const (), _: usize) -> (&'static str, About) {
    // SAFETY: O1, the caller's promise.
    let this = unsafe { &*condvar.cast::<Condvar>() };
    ("a notification", holder::about(condvar, &this.tag, ""))
}

/// The result of a wait with a time limit: whether it timed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitTimeoutResult {
    pub(super) timed_out: bool,
}

impl WaitTimeoutResult {
    /// Returns whether the wait ended because its time limit had passed.
    #[must_use]
    pub fn timed_out(&self) -> bool {
        self.timed_out
    }
}

impl Condvar {
    /// Creates a condition variable without waiters.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> Condvar {
        Condvar { line: WaitList::new(), tag: Tag::new() }
    }

    /// Creates a condition variable without waiters.
    #[must_use]
    #[cfg(loom)]
    pub fn new() -> Condvar {
        Condvar { line: WaitList::new(), tag: Tag::new() }
    }

    /// Gives the condition variable a name, which [dumps](crate::diag) show. One that has a name
    /// keeps it.
    ///
    /// # Examples
    /// ```
    /// let letters = ecru::sync::Condvar::new().named("letters");
    /// letters.notify_all();
    /// ```
    #[must_use]
    pub fn named(self, name: impl AsRef<str>) -> Condvar {
        self.tag.set_name(name.as_ref());
        self
    }

    /// Unlocks the mutex, waits for a notification, and locks the mutex again. A notification that
    /// is sent after the mutex has been unlocked is not missed.
    ///
    /// # Errors
    /// Returns [`Cancelled`] if the wait is cancelled. The lock is held again in this case, too.
    ///
    /// # Panics
    /// Panics if called inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is a cancellation point until the notification arrives. Locking the mutex again is not.
    /// If a notification arrived before the cancellation, the wait returns `Ok`, so a cancelled
    /// wait never consumes a notification.
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

    /// Waits like [`wait`](Condvar::wait), for at most `timeout`. Locking the mutex again may take
    /// longer.
    ///
    /// # Errors
    /// Returns the same errors as `wait`.
    ///
    /// # Panics
    /// Panics in the same cases as `wait`.
    ///
    /// # Cancellation
    /// This is a cancellation point, like `wait`.
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
        // If the deadline is not representable, the wait has no time limit.
        self.wait_until(guard, clock::now().checked_add(timeout), Mode::Cancellable)
    }

    /// Waits while `condition` returns true. The lock is held during each call of `condition`.
    ///
    /// # Errors
    /// Returns the same errors as [`wait`](Condvar::wait).
    ///
    /// # Panics
    /// Panics in the same cases as `wait`, and if `condition` panics.
    ///
    /// # Cancellation
    /// This is a cancellation point, like `wait`, unless the first call of `condition` returns
    /// false.
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

    /// Waits like [`wait_while`](Condvar::wait_while), for at most `timeout`. The result is timed
    /// out if the time has passed and `condition` still returns true.
    ///
    /// # Errors
    /// Returns the same errors as [`wait`](Condvar::wait).
    ///
    /// # Panics
    /// Panics in the same cases as `wait_while`.
    ///
    /// # Cancellation
    /// This is a cancellation point, like `wait_while`.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::{Condvar, Mutex};
    /// use std::time::Duration;
    ///
    /// let (jobs, changed) = (Mutex::new(vec![7]), Condvar::new());
    /// ecru::run(|| {
    ///     let limit = Duration::from_millis(1);
    ///     let mut guard = jobs.lock();
    ///     let result = changed.wait_timeout_while(&mut guard, limit, |jobs| jobs.is_empty())?;
    ///     assert!(!result.timed_out());
    ///     assert_eq!(guard.pop(), Some(7));
    ///     let result = changed.wait_timeout_while(&mut guard, limit, |jobs| jobs.is_empty())?;
    ///     assert!(result.timed_out());
    ///     Ok::<_, ecru::Cancelled>(())
    /// })?;
    /// # Ok::<_, ecru::Cancelled>(())
    /// ```
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
        let object = ptr::from_ref(self).cast();
        let wait = Wait { deadline, object, ..Wait::new(&A_NOTIFICATION, mode) };
        // The waiter enters the queue before it unlocks the mutex. A change of the value after
        // that, and the notification that follows it, therefore find this waiter in the queue.
        let ended =
            wait.in_line(self.line.lock(), |line| line, || mutex.unlock(), || self.line.lock());
        let timed_out = matches!(ended, Outcome::TimedOut(_));
        let cancelled = matches!(ended, Outcome::Cancelled(_));
        // The queue's lock is released before the mutex is locked again.
        drop(ended);
        mutex.lock_again();
        if cancelled { Err(task::cancelled_wait()) } else { Ok(WaitTimeoutResult { timed_out }) }
    }

    /// Wakes the waiter that has waited longest. Does nothing if there is no waiter.
    ///
    /// # Examples
    /// ```
    /// ecru::sync::Condvar::new().notify_one(); // no waiter: nothing happens, nothing is stored
    /// ```
    pub fn notify_one(&self) {
        self.line.notify_one();
    }

    /// Wakes all waiters.
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
