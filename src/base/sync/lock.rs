//! A spin lock for critical sections of a few instructions.
#![expect(unsafe_code, reason = "hands out the guarded value")]

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

#[cfg(loom)]
pub(super) use self::model::Flag;
#[cfg(not(loom))]
use super::atomic::{AtomicBool, Ordering};
#[cfg(not(loom))]
use super::relax;

#[cfg(loom)]
mod model;

/// Guards `T` for a few instructions. Without contention, locking costs one atomic exchange and
/// unlocking one plain store. That is half the cost of a lock that can sleep.
pub(crate) struct SpinLock<T> {
    locked: Flag,
    value: UnsafeCell<T>,
}

// SAFETY: L1: the flag gives one thread at a time access to the value. The value may therefore move
// between threads, but two threads never share it.
unsafe impl<T: Send> Sync for SpinLock<T> {}
// SAFETY: L1: the lock owns its value.
unsafe impl<T: Send> Send for SpinLock<T> {}

impl<T> SpinLock<T> {
    #[cfg(not(loom))]
    pub(crate) const fn new(value: T) -> SpinLock<T> {
        SpinLock { locked: Flag::new(), value: UnsafeCell::new(value) }
    }

    #[cfg(loom)]
    pub(crate) fn new(value: T) -> SpinLock<T> {
        SpinLock { locked: Flag::new(), value: UnsafeCell::new(value) }
    }

    /// Takes the lock. Acquire pairs with the Release in [`SpinGuard::drop`].
    #[inline]
    pub(crate) fn lock(&self) -> SpinGuard<'_, T> {
        self.locked.lock();
        SpinGuard { lock: self }
    }

    /// Takes the lock if it is free.
    #[cfg(all(feature = "sim", not(loom)))]
    #[inline]
    pub(crate) fn try_lock(&self) -> Option<SpinGuard<'_, T>> {
        self.locked.try_lock().then(|| SpinGuard { lock: self })
    }

    /// Unlocks a lock whose guard was given up by [`SpinGuard::keep_locked`].
    ///
    /// # Safety
    /// L1: this thread holds the lock, and no guard of it exists.
    #[inline]
    pub(crate) unsafe fn force_unlock(&self) {
        self.locked.unlock();
    }
}

/// The state of a lock: true while it is held.
#[cfg(not(loom))]
pub(super) struct Flag(AtomicBool);

#[cfg(not(loom))]
impl Flag {
    pub(super) const fn new() -> Flag {
        Flag(AtomicBool::new(false))
    }

    #[inline]
    pub(super) fn lock(&self) {
        if !self.try_lock() {
            self.lock_contended();
        }
    }

    #[inline]
    pub(super) fn try_lock(&self) -> bool {
        !self.0.swap(true, Ordering::Acquire)
    }

    #[inline]
    pub(super) fn unlock(&self) {
        self.0.store(false, Ordering::Release);
    }

    #[cold]
    pub(super) fn lock_contended(&self) {
        let mut round = 0;
        loop {
            while self.0.load(Ordering::Relaxed) {
                relax(round);
                round = round.saturating_add(1);
            }
            if !self.0.swap(true, Ordering::Acquire) {
                return;
            }
        }
    }
}

impl<T> fmt::Debug for SpinLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SpinLock")
    }
}

/// A guard that gives access to the value of a [`SpinLock`].
#[derive(Debug)]
pub(crate) struct SpinGuard<'a, T> {
    lock: &'a SpinLock<T>,
}

impl<T> SpinGuard<'_, T> {
    /// Gives up the guard and leaves the lock locked, for [`SpinLock::force_unlock`].
    #[inline]
    pub(crate) fn keep_locked(self) {
        let _ = ManuallyDrop::new(self);
    }
}

impl<T> Deref for SpinGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: L1: this guard is the only one.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for SpinGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: L1: this guard is the only one, and it is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for SpinGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        // This is the last access to the lock. If the lock protects its own memory, that may be
        // freed from here on.
        self.lock.locked.unlock();
    }
}

#[cfg(all(test, loom))]
mod loom_models;
