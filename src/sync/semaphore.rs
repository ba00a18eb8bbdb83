//! A counting semaphore.

use std::error;
use std::fmt;
use std::sync::Arc;

use super::holder;
use super::permits::{self, A_PERMIT, A_POOLED, Permits, Refused};
use crate::park::{self, WaitList};
use crate::source::{Arms, Source, Won};
use crate::task::Cancelled;

/// A counting semaphore, which limits how many tasks or threads do something at the same time.
///
/// A semaphore is a handle: a clone shares the same permits. A [`Permit`] is given back when it is
/// dropped, on whatever task or thread that happens. Waiters are served in the order in which they
/// arrived, however many permits they want.
///
/// A semaphore is a [`Source`] of permits: it can be one arm of a race or a select.
///
/// # Examples
/// ```
/// use ecru::sync::Semaphore;
/// use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
///
/// let (at_once, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
/// ecru::run(|| {
///     let three = Semaphore::new(3);
///     ecru::scope(|s| {
///         for _ in 0..10 {
///             s.spawn(|| {
///                 let _permit = three.acquire().unwrap();
///                 most.fetch_max(at_once.fetch_add(1, SeqCst) + 1, SeqCst);
///                 ecru::yield_now().unwrap();
///                 at_once.fetch_sub(1, SeqCst);
///             });
///         }
///     });
/// });
/// assert!(most.into_inner() <= 3);
/// ```
#[derive(Clone)]
pub struct Semaphore {
    permits: Arc<Permits>,
}

impl Semaphore {
    /// The greatest number of permits of a semaphore.
    pub const MAX_PERMITS: usize = permits::MAX;

    /// Creates a semaphore with `permits` free permits.
    ///
    /// # Panics
    /// Panics if `permits` is greater than [`MAX_PERMITS`](Semaphore::MAX_PERMITS).
    #[must_use]
    #[track_caller]
    pub fn new(permits: usize) -> Semaphore {
        assert!(
            permits <= Semaphore::MAX_PERMITS,
            "a semaphore cannot have {permits} permits; the maximum is `Semaphore::MAX_PERMITS`"
        );
        Semaphore { permits: Arc::new(Permits::new(permits)) }
    }

    /// Gives the semaphore a name, which [dumps](crate::diag) show. A semaphore that has a name
    /// keeps it.
    ///
    /// # Examples
    /// ```
    /// let uploads = ecru::sync::Semaphore::new(3).named("uploads");
    /// assert_eq!(uploads.available_permits(), 3);
    /// ```
    #[must_use]
    pub fn named(self, name: impl AsRef<str>) -> Semaphore {
        self.set_name(name.as_ref());
        self
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// Returns [`Cancelled`] if the wait is cancelled, or the semaphore is
    /// [closed](Semaphore::close).
    ///
    /// # Panics
    /// Panics if called inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled wait has taken no permit. If the permit was handed
    /// over before the cancellation, the call returns it.
    ///
    /// # Examples
    /// ```
    /// let one = ecru::sync::Semaphore::new(1);
    /// let permit = one.acquire().unwrap();
    /// assert!(one.try_acquire().is_err());
    /// drop(permit);
    /// assert!(one.try_acquire().is_ok());
    /// ```
    #[inline]
    #[track_caller]
    pub fn acquire(&self) -> Result<Permit, Cancelled> {
        self.acquire_many(1)
    }

    /// Waits for `count` permits and takes them together. If there are never that many, the call
    /// waits forever.
    ///
    /// # Errors
    /// Returns the same errors as [`acquire`](Semaphore::acquire).
    ///
    /// # Panics
    /// Panics in the same cases as `acquire`, and if `count` is greater than
    /// [`MAX_PERMITS`](Semaphore::MAX_PERMITS), because that many permits can never be free.
    ///
    /// # Cancellation
    /// This is a cancellation point, like `acquire`.
    ///
    /// # Examples
    /// ```
    /// let five = ecru::sync::Semaphore::new(5);
    /// let three = five.acquire_many(3).unwrap();
    /// assert_eq!((three.count(), five.available_permits()), (3, 2));
    /// ```
    #[inline]
    #[track_caller]
    pub fn acquire_many(&self, count: usize) -> Result<Permit, Cancelled> {
        assert!(
            count <= Semaphore::MAX_PERMITS,
            "{count} permits can never be free; the maximum is `Semaphore::MAX_PERMITS`"
        );
        self.permits.acquire(count, &A_PERMIT)?;
        Ok(self.permit(count))
    }

    /// Waits for a permit that stands for a value of a pool.
    #[track_caller]
    pub(super) fn acquire_pooled(&self) -> Result<Permit, Cancelled> {
        self.permits.acquire(1, &A_POOLED)?;
        Ok(self.permit(1))
    }

    /// Names the semaphore, unless it has a name.
    pub(super) fn set_name(&self, name: &str) {
        self.permits.tag.set_name(name);
    }

    /// Takes a permit if one is free. Never waits.
    ///
    /// # Errors
    /// Returns [`TryAcquireError`] if no permit is free, or the semaphore is closed.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    ///
    /// # Examples
    /// ```
    /// let none = ecru::sync::Semaphore::new(0);
    /// assert!(none.try_acquire().is_err());
    /// ```
    #[inline]
    #[track_caller]
    pub fn try_acquire(&self) -> Result<Permit, TryAcquireError> {
        self.try_acquire_many(1)
    }

    /// Takes `count` permits if they are free. Never waits.
    ///
    /// # Errors
    /// Returns [`TryAcquireError`] if fewer are free, or the semaphore is closed.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    ///
    /// # Examples
    /// ```
    /// let permits = ecru::sync::Semaphore::new(3);
    /// let two = permits.try_acquire_many(2).unwrap();
    /// assert!(permits.try_acquire_many(2).is_err());
    /// drop(two);
    /// assert!(permits.try_acquire_many(3).is_ok());
    /// ```
    #[track_caller]
    pub fn try_acquire_many(&self, count: usize) -> Result<Permit, TryAcquireError> {
        match self.permits.try_acquire(count) {
            Ok(()) => Ok(self.permit(count)),
            Err(Refused::TooFew) => Err(TryAcquireError::NoPermits),
            Err(Refused::Closed) => Err(TryAcquireError::Closed),
        }
    }

    /// Closes the semaphore for good: it grants no more permits. Present and later calls that wait
    /// for permits return [`Cancelled`] with the reason
    /// [`Explicit`](crate::CancelReason::Explicit), although their tasks are not cancelled. As a
    /// [`Source`] it never has an item again. Permits that have been granted stay valid.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::{Semaphore, TryAcquireError};
    ///
    /// let gate = Semaphore::new(0);
    /// std::thread::scope(|s| {
    ///     let waiting = s.spawn(|| gate.acquire().is_err());
    ///     gate.close();
    ///     assert!(waiting.join().unwrap());
    /// });
    /// assert_eq!(gate.try_acquire().unwrap_err(), TryAcquireError::Closed);
    /// ```
    pub fn close(&self) {
        self.permits.close();
    }

    /// Returns whether the semaphore has been [closed](Semaphore::close).
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.permits.is_closed()
    }

    /// Returns the number of free permits. Permits that are reserved for a waiter that wants more
    /// are not counted.
    #[must_use]
    pub fn available_permits(&self) -> usize {
        self.permits.free()
    }

    /// Adds `count` permits.
    ///
    /// # Panics
    /// Panics if there would be more than [`MAX_PERMITS`](Semaphore::MAX_PERMITS) permits.
    ///
    /// # Examples
    /// ```
    /// let gate = ecru::sync::Semaphore::new(0);
    /// gate.add_permits(2);
    /// assert_eq!(gate.available_permits(), 2);
    /// ```
    #[track_caller]
    pub fn add_permits(&self, count: usize) {
        self.permits.release(count);
    }

    /// Makes the handle of permits that have been taken.
    #[inline]
    #[track_caller]
    fn permit(&self, count: usize) -> Permit {
        let note = if park::explains() { holder::note(&self.permits.tag) } else { 0 };
        Permit { permits: Arc::clone(&self.permits), count, note }
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Semaphore").field("available_permits", &self.available_permits()).finish()
    }
}

impl Source for Semaphore {
    type Item = Permit;

    fn try_take(&self) -> Option<Permit> {
        self.permits.try_take().then(|| self.permit(1))
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(self.permits.line());
    }

    fn __register<'a>(&'a self, arms: &mut Arms<'a>) {
        self.permits.register(arms);
    }

    fn __finish(&self, won: &Won<'_>) -> Option<Permit> {
        self.permits.finish(won).then(|| self.permit(1))
    }
}

/// One or more permits of a [`Semaphore`]. Dropping it gives them back. That may happen on any task
/// or thread.
#[must_use = "if unused, the permits are given back immediately"]
pub struct Permit {
    permits: Arc<Permits>,
    count: usize,
    /// The number of the note about its holder, or 0.
    note: u32,
}

impl Permit {
    /// Returns the number of permits.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Consumes the permits without giving them back. The semaphore has fewer permits from then on.
    ///
    /// # Examples
    /// ```
    /// let two = ecru::sync::Semaphore::new(2);
    /// two.acquire().unwrap().forget();
    /// assert_eq!(two.available_permits(), 1);
    /// ```
    pub fn forget(mut self) {
        self.count = 0;
    }

    /// Adds the permits of `other` to these.
    ///
    /// # Panics
    /// Panics if `other` is of another semaphore, or if there would be more than
    /// [`MAX_PERMITS`](Semaphore::MAX_PERMITS) permits in one value. `other` is given back then.
    ///
    /// # Examples
    /// ```
    /// let five = ecru::sync::Semaphore::new(5);
    /// let mut all = five.acquire_many(3).unwrap();
    /// all.merge(five.acquire().unwrap());
    /// assert_eq!((all.count(), five.available_permits()), (4, 1));
    /// ```
    #[track_caller]
    pub fn merge(&mut self, mut other: Permit) {
        assert!(
            Arc::ptr_eq(&self.permits, &other.permits),
            "`Permit::merge`: the permits are of different semaphores"
        );
        let count = self.count.checked_add(other.count).filter(|&count| count <= permits::MAX);
        self.count = count.expect("`Permit::merge`: too many permits for a semaphore");
        other.count = 0;
    }

    /// Splits off `count` permits as a value of their own. Returns `None` if there are fewer than
    /// `count`.
    ///
    /// # Examples
    /// ```
    /// let five = ecru::sync::Semaphore::new(5);
    /// let mut all = five.acquire_many(5).unwrap();
    /// drop(all.split(2));
    /// assert_eq!((all.count(), five.available_permits()), (3, 2));
    /// assert!(all.split(4).is_none());
    /// ```
    pub fn split(&mut self, count: usize) -> Option<Permit> {
        self.count = self.count.checked_sub(count)?;
        Some(Permit { permits: Arc::clone(&self.permits), count, note: 0 })
    }
}

impl Drop for Permit {
    #[inline]
    fn drop(&mut self) {
        if self.note != 0 {
            self.permits.tag.release(self.note);
        }
        if self.count != 0 {
            self.permits.release(self.count);
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("count", &self.count).finish()
    }
}

/// The error of `try_acquire` and `try_acquire_many`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TryAcquireError {
    /// Too few permits are free.
    NoPermits,
    /// The semaphore has been closed.
    Closed,
}

impl fmt::Display for TryAcquireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryAcquireError::NoPermits => "too few permits are free",
            TryAcquireError::Closed => "the semaphore has been closed",
        })
    }
}

impl error::Error for TryAcquireError {}
