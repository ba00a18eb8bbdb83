//! Guards that own a reference to their lock.
#![expect(unsafe_code, reason = "hands out the guarded value")]

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use super::mutex::{Mutex, TryLockError};
use super::rwlock::{Access, RwLock};

/// Defines an owned guard, and the methods of its lock that return one.
macro_rules! owned {
    (
        $(#[$documentation:meta])*
        $owned:ident of $lock:ident unlocked by $unlock:expr;
        $owning:ident, like $locking:ident and $locking_name:literal;
        $trying:ident, like $try_locking:ident and $try_locking_name:literal;
    ) => {
        impl<T: ?Sized> $lock<T> {
            #[doc = concat!("Acquires the lock like ", $locking_name, ". The guard owns a reference to the lock, so it")]
            /// may be stored in values that borrow nothing. Like every guard, it stays on its task or
            /// thread.
            ///
            /// # Panics
            /// Panics if called inside [`no_suspend`](crate::no_suspend).
            ///
            /// # Cancellation
            /// This is not a cancellation point.
            ///
            /// # Examples
            /// ```
            #[doc = concat!("use ecru::sync::", stringify!($lock), ";")]
            /// use std::sync::Arc;
            ///
            #[doc = concat!("let number = Arc::new(", stringify!($lock), "::new(6));")]
            #[doc = concat!("let guard = Arc::clone(&number).", stringify!($owning), "();")]
            /// assert_eq!(*guard, 6);
            /// ```
            #[track_caller]
            pub fn $owning(self: Arc<Self>) -> $owned<T> {
                let _ = ManuallyDrop::new(self.$locking());
                $owned { lock: self, _stays: PhantomData }
            }

            #[doc = concat!("Acquires the lock like ", $try_locking_name, ". The guard owns a reference to the lock.")]
            ///
            /// # Errors
            /// Returns [`TryLockError`] if the lock cannot be acquired without waiting.
            ///
            /// # Cancellation
            /// This is not a cancellation point.
            ///
            /// # Examples
            /// ```
            #[doc = concat!("use ecru::sync::", stringify!($lock), ";")]
            /// use std::sync::Arc;
            ///
            #[doc = concat!("let number = Arc::new(", stringify!($lock), "::new(6));")]
            #[doc = concat!("let guard = Arc::clone(&number).", stringify!($trying), "().unwrap();")]
            /// assert_eq!(*guard, 6);
            /// ```
            #[track_caller]
            pub fn $trying(self: Arc<Self>) -> Result<$owned<T>, TryLockError> {
                let _ = ManuallyDrop::new(self.$try_locking()?);
                Ok($owned { lock: self, _stays: PhantomData })
            }
        }

        $(#[$documentation])*
        #[must_use = "if unused, the lock is released immediately"]
        pub struct $owned<T: ?Sized> {
            /// The lock is held for this guard.
            lock: Arc<$lock<T>>,
            /// Not `Send`, like std's guards.
            _stays: PhantomData<*const ()>,
        }

        // SAFETY: Y1: a shared guard gives only shared access to the value.
        unsafe impl<T: ?Sized + Sync> Sync for $owned<T> {}

        impl<T: ?Sized> Deref for $owned<T> {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                // SAFETY: Y1: the lock is held for this guard.
                unsafe { &*self.lock.value().get() }
            }
        }

        impl<T: ?Sized> Drop for $owned<T> {
            #[inline]
            fn drop(&mut self) {
                let unlock: fn(&$lock<T>) = $unlock;
                unlock(&self.lock);
            }
        }

        impl<T: ?Sized + fmt::Debug> fmt::Debug for $owned<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<T: ?Sized + fmt::Display> fmt::Display for $owned<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }
    };
}

owned! {
    /// A guard of a [`Mutex`], made by [`Mutex::lock_owned`], which owns a reference to the mutex.
    OwnedMutexGuard of Mutex unlocked by |lock| lock.raw().unlock();
    lock_owned, like lock and "[`lock`](Mutex::lock)";
    try_lock_owned, like try_lock and "[`try_lock`](Mutex::try_lock)";
}

owned! {
    /// A guard that gives read access to the value of an [`RwLock`], made by
    /// [`RwLock::read_owned`]. It owns a reference to the lock.
    OwnedRwLockReadGuard of RwLock unlocked by |lock| lock.raw().unlock(Access::Read);
    read_owned, like read and "[`read`](RwLock::read)";
    try_read_owned, like try_read and "[`try_read`](RwLock::try_read)";
}

owned! {
    /// A guard that gives write access to the value of an [`RwLock`], made by
    /// [`RwLock::write_owned`]. It owns a reference to the lock.
    OwnedRwLockWriteGuard of RwLock unlocked by |lock| lock.raw().unlock(Access::Write);
    write_owned, like write and "[`write`](RwLock::write)";
    try_write_owned, like try_write and "[`try_write`](RwLock::try_write)";
}

impl<T: ?Sized> DerefMut for OwnedMutexGuard<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: Y1: this guard is the only one, and it is borrowed mutably.
        unsafe { &mut *self.lock.value().get() }
    }
}

impl<T: ?Sized> DerefMut for OwnedRwLockWriteGuard<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: Y1: this guard is the only one, and it is borrowed mutably.
        unsafe { &mut *self.lock.value().get() }
    }
}
