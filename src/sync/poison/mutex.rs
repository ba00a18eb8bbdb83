//! `Mutex` with the signatures of `std`.

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::{Flag, LockResult, PoisonOnPanic, TryLockError, TryLockResult};
use crate::sync;

/// A mutual exclusion lock with poisoning: [`std::sync::Mutex`], except that a wait parks the task.
///
/// # Examples
/// ```
/// use ecru::sync::poison::{Arc, Mutex};
/// use std::sync::mpsc::channel;
/// use std::thread;
///
/// const N: usize = 10;
///
/// let data = Arc::new(Mutex::new(0));
/// let (tx, rx) = channel();
/// for _ in 0..N {
///     let (data, tx) = (Arc::clone(&data), tx.clone());
///     thread::spawn(move || {
///         let mut data = data.lock().unwrap();
///         *data += 1;
///         if *data == N {
///             tx.send(()).unwrap();
///         }
///     });
/// }
/// rx.recv().unwrap();
/// ```
///
/// # Cancellation
/// Locking is not a cancellation point.
pub struct Mutex<T: ?Sized> {
    poison: Flag,
    inner: sync::Mutex<T>,
}

impl<T> Mutex<T> {
    /// Creates an unlocked mutex.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::poison::Mutex;
    ///
    /// let lock = Mutex::new(0);
    /// # drop(lock);
    /// ```
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Mutex<T> {
        Mutex { poison: Flag::new(), inner: sync::Mutex::new(value) }
    }

    /// Creates an unlocked mutex.
    #[must_use]
    #[cfg(loom)]
    pub fn new(value: T) -> Mutex<T> {
        Mutex { poison: Flag::new(), inner: sync::Mutex::new(value) }
    }

    /// Gives the mutex a name, which [dumps](crate::diag) show. A mutex that has a name keeps it.
    /// `std` has no such method.
    ///
    /// # Examples
    /// ```
    /// let stock = ecru::sync::poison::Mutex::new(12).named("stock");
    /// assert_eq!(*stock.lock().unwrap(), 12);
    /// ```
    #[must_use]
    pub fn named(self, name: impl AsRef<str>) -> Mutex<T> {
        Mutex { inner: self.inner.named(name), ..self }
    }

    /// Takes the value out of the lock.
    ///
    /// # Errors
    /// Returns [`PoisonError`](super::PoisonError) with the value if the lock is poisoned.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::poison::Mutex;
    ///
    /// let lock = Mutex::new(0);
    /// assert_eq!(lock.into_inner().unwrap(), 0);
    /// ```
    pub fn into_inner(self) -> LockResult<T> {
        let Mutex { poison, inner } = self;
        poison.around(inner.into_inner())
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Acquires the mutex. Waits until it is free.
    ///
    /// # Errors
    /// Returns [`PoisonError`](super::PoisonError) with the guard if the mutex is poisoned.
    ///
    /// # Panics
    /// Panics if called inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::poison::{Arc, Mutex};
    /// use std::thread;
    ///
    /// let mutex = Arc::new(Mutex::new(0));
    /// let c_mutex = Arc::clone(&mutex);
    ///
    /// thread::spawn(move || {
    ///     *c_mutex.lock().unwrap() = 10;
    /// })
    /// .join()
    /// .expect("thread::spawn failed");
    /// assert_eq!(*mutex.lock().unwrap(), 10);
    /// ```
    #[track_caller]
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        self.guard(self.inner.lock())
    }

    /// Acquires the mutex if it is free. Never waits.
    ///
    /// # Errors
    /// Returns [`WouldBlock`](TryLockError::WouldBlock) if the mutex is locked, and
    /// [`Poisoned`](TryLockError::Poisoned) with the guard if it is poisoned.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::poison::{Arc, Mutex};
    /// use std::thread;
    ///
    /// let mutex = Arc::new(Mutex::new(0));
    /// let c_mutex = Arc::clone(&mutex);
    ///
    /// thread::spawn(move || {
    ///     let mut lock = c_mutex.try_lock();
    ///     if let Ok(ref mut mutex) = lock {
    ///         **mutex = 10;
    ///     } else {
    ///         println!("try_lock failed");
    ///     }
    /// })
    /// .join()
    /// .expect("thread::spawn failed");
    /// assert_eq!(*mutex.lock().unwrap(), 10);
    /// ```
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        match self.inner.try_lock() {
            Ok(inner) => Ok(self.guard(inner)?),
            Err(_) => Err(TryLockError::WouldBlock),
        }
    }

    /// Returns whether the lock is poisoned. Another task may poison it at any time.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::poison::{Arc, Mutex};
    /// use std::thread;
    ///
    /// let lock = Arc::new(Mutex::new(0));
    /// let c_lock = Arc::clone(&lock);
    ///
    /// let _ = thread::spawn(move || {
    ///     let _guard = c_lock.lock().unwrap();
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
    /// use ecru::sync::poison::{Arc, Mutex};
    /// use std::thread;
    ///
    /// let lock = Arc::new(Mutex::new(0));
    /// let c_lock = Arc::clone(&lock);
    ///
    /// let _ = thread::spawn(move || {
    ///     let _guard = c_lock.lock().unwrap();
    ///     panic!(); // the lock gets poisoned
    /// })
    /// .join();
    ///
    /// assert_eq!(lock.is_poisoned(), true);
    /// let x = lock.lock().unwrap_or_else(|mut e| {
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
    /// use ecru::sync::poison::Mutex;
    ///
    /// let mut lock = Mutex::new(0);
    /// *lock.get_mut().unwrap() = 10;
    /// assert_eq!(*lock.lock().unwrap(), 10);
    /// ```
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.poison.around(self.inner.get_mut())
    }

    fn guard<'a>(&'a self, inner: sync::MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.poison.around(MutexGuard { watch: self.poison.watch(), inner })
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = f.debug_struct("Mutex");
        match self.inner.try_lock() {
            Ok(guard) => text.field("data", &&*guard),
            Err(_) => text.field("data", &format_args!("<locked>")),
        };
        text.field("poisoned", &self.is_poisoned()).finish_non_exhaustive()
    }
}

/// A guard of a [`Mutex`], which gives access to the value. Dropping it unlocks the mutex.
#[must_use = "if unused, the lock is released immediately"]
pub struct MutexGuard<'a, T: ?Sized> {
    watch: PoisonOnPanic<'a>,
    inner: sync::MutexGuard<'a, T>,
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// Returns the inner guard, for a wait that unlocks the mutex meanwhile.
    pub(super) fn inner(&mut self) -> &mut sync::MutexGuard<'a, T> {
        &mut self.inner
    }

    /// Returns the guard after such a wait. The mutex may have been poisoned during the wait.
    pub(super) fn again(self) -> LockResult<MutexGuard<'a, T>> {
        let flag = self.watch.flag;
        flag.around(self)
    }
}
