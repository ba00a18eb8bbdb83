//! `RwLock` with the signatures of `std`.

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::{Flag, LockResult, PoisonOnPanic, TryLockError, TryLockResult};
use crate::sync;

/// A lock for one writer or many readers, with poisoning: [`std::sync::RwLock`], except that a wait
/// parks the task.
///
/// # Examples
/// ```
/// use ecru::sync::poison::RwLock;
///
/// let lock = RwLock::new(5);
///
/// // many reader locks can be held at once
/// {
///     let r1 = lock.read().unwrap();
///     let r2 = lock.read().unwrap();
///     assert_eq!(*r1, 5);
///     assert_eq!(*r2, 5);
/// } // read locks are dropped at this point
///
/// // only one write lock may be held, however
/// {
///     let mut w = lock.write().unwrap();
///     *w += 1;
///     assert_eq!(*w, 6);
/// } // write lock is dropped here
/// ```
///
/// # Cancellation
/// Locking is not a cancellation point.
pub struct RwLock<T: ?Sized> {
    poison: Flag,
    inner: sync::RwLock<T>,
}

impl<T> RwLock<T> {
    /// Creates an unlocked lock.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::poison::RwLock;
    ///
    /// let lock = RwLock::new(0);
    /// # drop(lock);
    /// ```
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new(value: T) -> RwLock<T> {
        RwLock { poison: Flag::new(), inner: sync::RwLock::new(value) }
    }

    /// Creates an unlocked lock.
    #[must_use]
    #[cfg(loom)]
    pub fn new(value: T) -> RwLock<T> {
        RwLock { poison: Flag::new(), inner: sync::RwLock::new(value) }
    }

    /// Gives the lock a name, which [dumps](crate::diag) show. A lock that has a name keeps it.
    /// `std` has no such method.
    ///
    /// # Examples
    /// ```
    /// let book = ecru::sync::poison::RwLock::new(12).named("book");
    /// assert_eq!(*book.read().unwrap(), 12);
    /// ```
    #[must_use]
    pub fn named(self, name: impl AsRef<str>) -> RwLock<T> {
        RwLock { inner: self.inner.named(name), ..self }
    }

    /// Takes the value out of the lock.
    ///
    /// # Errors
    /// Returns [`PoisonError`](super::PoisonError) with the value if the lock is poisoned.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::poison::RwLock;
    ///
    /// let lock = RwLock::new(0);
    /// assert_eq!(lock.into_inner().unwrap(), 0);
    /// ```
    pub fn into_inner(self) -> LockResult<T> {
        let RwLock { poison, inner } = self;
        poison.around(inner.into_inner())
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Acquires a shared lock. Waits until it is available.
    ///
    /// # Errors
    /// Returns [`PoisonError`](super::PoisonError) with the guard if the lock is poisoned.
    ///
    /// # Panics
    /// Panics if called inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::poison::{Arc, RwLock};
    /// use std::thread;
    ///
    /// let lock = Arc::new(RwLock::new(1));
    /// let c_lock = Arc::clone(&lock);
    ///
    /// let n = lock.read().unwrap();
    /// assert_eq!(*n, 1);
    ///
    /// thread::spawn(move || {
    ///     let r = c_lock.read();
    ///     assert!(r.is_ok());
    /// })
    /// .join()
    /// .unwrap();
    /// ```
    #[track_caller]
    pub fn read(&self) -> LockResult<RwLockReadGuard<'_, T>> {
        self.poison.around(RwLockReadGuard { inner: self.inner.read() })
    }

    /// Acquires a shared lock if that needs no wait.
    ///
    /// # Errors
    /// Returns [`WouldBlock`](TryLockError::WouldBlock) if it would have to wait, and
    /// [`Poisoned`](TryLockError::Poisoned) with the guard if the lock is poisoned.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::poison::RwLock;
    ///
    /// let lock = RwLock::new(1);
    ///
    /// match lock.try_read() {
    ///     Ok(n) => assert_eq!(*n, 1),
    ///     Err(_) => unreachable!(),
    /// };
    /// ```
    pub fn try_read(&self) -> TryLockResult<RwLockReadGuard<'_, T>> {
        match self.inner.try_read() {
            Ok(inner) => Ok(self.poison.around(RwLockReadGuard { inner })?),
            Err(_) => Err(TryLockError::WouldBlock),
        }
    }

    /// Acquires the exclusive lock. Waits until it is available.
    ///
    /// # Errors
    /// Returns [`PoisonError`](super::PoisonError) with the guard if the lock is poisoned.
    ///
    /// # Panics
    /// Panics if called inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::poison::RwLock;
    ///
    /// let lock = RwLock::new(1);
    ///
    /// let mut n = lock.write().unwrap();
    /// *n = 2;
    ///
    /// assert!(lock.try_read().is_err());
    /// ```
    #[track_caller]
    pub fn write(&self) -> LockResult<RwLockWriteGuard<'_, T>> {
        self.guard(self.inner.write())
    }

    /// Acquires the exclusive lock if that needs no wait.
    ///
    /// # Errors
    /// Returns [`WouldBlock`](TryLockError::WouldBlock) if it would have to wait, and
    /// [`Poisoned`](TryLockError::Poisoned) with the guard if the lock is poisoned.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::poison::RwLock;
    ///
    /// let lock = RwLock::new(1);
    ///
    /// let n = lock.read().unwrap();
    /// assert_eq!(*n, 1);
    ///
    /// assert!(lock.try_write().is_err());
    /// ```
    pub fn try_write(&self) -> TryLockResult<RwLockWriteGuard<'_, T>> {
        match self.inner.try_write() {
            Ok(inner) => Ok(self.guard(inner)?),
            Err(_) => Err(TryLockError::WouldBlock),
        }
    }

    /// Returns whether the lock is poisoned. Another task may poison it at any time.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::poison::{Arc, RwLock};
    /// use std::thread;
    ///
    /// let lock = Arc::new(RwLock::new(0));
    /// let c_lock = Arc::clone(&lock);
    ///
    /// let _ = thread::spawn(move || {
    ///     let _guard = c_lock.write().unwrap();
    ///     panic!(); // the lock gets poisoned
    /// })
    /// .join();
    /// assert_eq!(lock.is_poisoned(), true);
    /// ```
    pub fn is_poisoned(&self) -> bool {
        self.poison.is_set()
    }

    /// Clears the poisoned state. The caller should have made the value consistent before.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::poison::{Arc, RwLock};
    /// use std::thread;
    ///
    /// let lock = Arc::new(RwLock::new(0));
    /// let c_lock = Arc::clone(&lock);
    ///
    /// let _ = thread::spawn(move || {
    ///     let _guard = c_lock.write().unwrap();
    ///     panic!(); // the lock gets poisoned
    /// })
    /// .join();
    ///
    /// assert_eq!(lock.is_poisoned(), true);
    /// let x = lock.write().unwrap_or_else(|mut e| {
    ///     **e.get_mut() = 1;
    ///     lock.clear_poison();
    ///     e.into_inner()
    /// });
    /// assert_eq!(lock.is_poisoned(), false);
    /// assert_eq!(*x, 1);
    /// ```
    pub fn clear_poison(&self) {
        self.poison.clear();
    }

    /// Returns a mutable reference to the value. The lock is borrowed mutably, so no locking takes
    /// place.
    ///
    /// # Errors
    /// Returns [`PoisonError`](super::PoisonError) with the reference if the lock is poisoned.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::poison::RwLock;
    ///
    /// let mut lock = RwLock::new(0);
    /// *lock.get_mut().unwrap() = 10;
    /// assert_eq!(*lock.write().unwrap(), 10);
    /// ```
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.poison.around(self.inner.get_mut())
    }

    fn guard<'a>(
        &'a self,
        inner: sync::RwLockWriteGuard<'a, T>,
    ) -> LockResult<RwLockWriteGuard<'a, T>> {
        self.poison.around(RwLockWriteGuard { watch: self.poison.watch(), inner })
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> RwLock<T> {
        RwLock::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> RwLock<T> {
        RwLock::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("RwLock");
        match self.inner.try_read() {
            Ok(guard) => text.field("data", &&*guard),
            Err(_) => text.field("data", &format_args!("<locked>")),
        };
        text.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

/// A guard that gives read access to the value of a [`RwLock`]. Dropping it releases the shared
/// lock.
#[must_use = "if unused, the lock is released immediately"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    inner: sync::RwLockReadGuard<'a, T>,
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockReadGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

/// A guard that gives write access to the value of a [`RwLock`]. Dropping it unlocks.
#[must_use = "if unused, the lock is released immediately"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    watch: PoisonOnPanic<'a>,
    inner: sync::RwLockWriteGuard<'a, T>,
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for RwLockWriteGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Turns the exclusive lock into a shared one, without another writer in between.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::poison::{RwLock, RwLockWriteGuard};
    ///
    /// let rw = RwLock::new(0);
    ///
    /// let mut write_guard = rw.write().unwrap();
    /// *write_guard = 42;
    ///
    /// let read_guard = RwLockWriteGuard::downgrade(write_guard);
    /// assert_eq!(42, *read_guard);
    /// ```
    pub fn downgrade(s: RwLockWriteGuard<'a, T>) -> RwLockReadGuard<'a, T> {
        let RwLockWriteGuard { watch, inner } = s;
        watch.end();
        RwLockReadGuard { inner: sync::RwLockWriteGuard::downgrade(inner) }
    }
}
