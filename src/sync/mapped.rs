//! Guards of a part of the value that a lock guards.
//!
//! A mapped guard has a pointer to the part, and the lock that it unlocks as the guard would have
//! that it was made of.
#![expect(unsafe_code, reason = "points into the guarded value")]

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::mutex::{MutexGuard, RawMutex};
use super::rwlock::{Access, RawRwLock, RwLockReadGuard, RwLockWriteGuard};

/// Defines a mapped guard, and the functions that make one.
macro_rules! mapped {
    (
        $(#[$documentation:meta])*
        $mapped:ident of $guard:ident<$raw:ty> unlocked by $unlock:expr, with $($mutable:ident)?;
        $(#[$example:meta])*
    ) => {
        impl<'a, T: ?Sized> $guard<'a, T> {
            /// Makes a guard of a part of the value.
            ///
            /// # Panics
            /// Propagates a panic of `f`, after unlocking.
            ///
            /// # Examples
            $(#[$example])*
            pub fn map<U: ?Sized>(
                this: $guard<'a, T>,
                f: impl FnOnce(&$($mutable)? T) -> &$($mutable)? U,
            ) -> $mapped<'a, U> {
                match $guard::filter_map(this, |value| Some(f(value))) {
                    Ok(mapped) => mapped,
                    Err(_) => unreachable!("there is a part"),
                }
            }

            /// Makes a guard of a part of the value, if `f` returns one.
            ///
            /// # Errors
            /// Returns the guard if `f` returns `None`.
            ///
            /// # Panics
            /// Propagates a panic of `f`, after unlocking.
            pub fn filter_map<U: ?Sized>(
                this: $guard<'a, T>,
                f: impl FnOnce(&$($mutable)? T) -> Option<&$($mutable)? U>,
            ) -> Result<$mapped<'a, U>, $guard<'a, T>> {
                let $($mutable)? this = this;
                match f(&$($mutable)? this).map(NonNull::from) {
                    Some(part) => {
                        let raw = ManuallyDrop::new(this).raw();
                        Ok($mapped { part, raw, _value: PhantomData })
                    }
                    None => Err(this),
                }
            }
        }

        $(#[$documentation])*
        #[must_use = "if unused, the lock is released immediately"]
        pub struct $mapped<'a, T: ?Sized> {
            part: NonNull<T>,
            raw: &'a $raw,
            /// The guard has this access. Like std's guards, it is not `Send`.
            _value: PhantomData<(&'a $($mutable)? T, *const ())>,
        }

        // SAFETY: Y1: a shared guard gives only shared access to the value.
        unsafe impl<T: ?Sized + Sync> Sync for $mapped<'_, T> {}

        impl<T: ?Sized> Deref for $mapped<'_, T> {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                // SAFETY: Y1: the part is borrowed from the value, which this guard guards as the
                // one did that it was made of.
                unsafe { self.part.as_ref() }
            }
        }

        impl<T: ?Sized> Drop for $mapped<'_, T> {
            #[inline]
            fn drop(&mut self) {
                let unlock: fn(&$raw) = $unlock;
                unlock(self.raw);
            }
        }

        impl<T: ?Sized + fmt::Debug> fmt::Debug for $mapped<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }

        impl<T: ?Sized + fmt::Display> fmt::Display for $mapped<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                (**self).fmt(f)
            }
        }
    };
}

mapped! {
    /// A guard of a part of the value of a [`Mutex`](super::Mutex), made by [`MutexGuard::map`].
    /// Dropping it unlocks the mutex.
    MappedMutexGuard of MutexGuard<RawMutex> unlocked by |raw| raw.unlock(), with mut;
    /// ```
    /// use ecru::sync::{Mutex, MutexGuard};
    ///
    /// let pair = Mutex::new((1, "one"));
    /// let mut number = MutexGuard::map(pair.lock(), |pair| &mut pair.0);
    /// *number = 2;
    /// drop(number);
    /// assert_eq!(*pair.lock(), (2, "one"));
    /// ```
}

mapped! {
    /// A guard that gives read access to a part of the value of an [`RwLock`](super::RwLock), made
    /// by [`RwLockReadGuard::map`]. Dropping it releases the shared lock.
    MappedRwLockReadGuard of RwLockReadGuard<RawRwLock> unlocked by
        |raw| raw.unlock(Access::Read), with;
    /// ```
    /// use ecru::sync::{RwLock, RwLockReadGuard};
    ///
    /// let pair = RwLock::new((1, "one"));
    /// let name = RwLockReadGuard::map(pair.read(), |pair| pair.1);
    /// assert_eq!(&*name, "one");
    /// ```
}

mapped! {
    /// A guard that gives write access to a part of the value of an [`RwLock`](super::RwLock), made
    /// by [`RwLockWriteGuard::map`]. Dropping it unlocks.
    MappedRwLockWriteGuard of RwLockWriteGuard<RawRwLock> unlocked by
        |raw| raw.unlock(Access::Write), with mut;
    /// ```
    /// use ecru::sync::{RwLock, RwLockWriteGuard};
    ///
    /// let numbers = RwLock::new(vec![1, 2]);
    /// let mut last = RwLockWriteGuard::filter_map(numbers.write(), |all| all.last_mut()).unwrap();
    /// *last = 3;
    /// drop(last);
    /// assert_eq!(*numbers.read(), [1, 3]);
    /// ```
}

impl<T: ?Sized> DerefMut for MappedMutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: Y1: this guard is the only one, and it is borrowed mutably.
        unsafe { self.part.as_mut() }
    }
}

impl<T: ?Sized> DerefMut for MappedRwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: Y1: this guard is the only one, and it is borrowed mutably.
        unsafe { self.part.as_mut() }
    }
}
