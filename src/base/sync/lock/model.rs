//! The lock's flag under loom. It blocks, because loom cannot end a spinning loop. Loom's own mutex
//! provides the orderings that the real flag promises. This model does not prove that the real flag
//! keeps them.

use loom::sync::{Mutex, MutexGuard};
use std::cell::UnsafeCell;

/// Replaces the flag of a `SpinLock`.
pub(in super::super) struct Flag {
    mutex: Mutex<()>,
    held: UnsafeCell<Option<MutexGuard<'static, ()>>>,
}

impl Flag {
    pub(in super::super) fn new() -> Flag {
        Flag { mutex: Mutex::new(()), held: UnsafeCell::new(None) }
    }

    pub(in super::super) fn lock(&self) {
        let guard = self.mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        // SAFETY: L1: the guard is taken out of the slot before the lock is freed.
        let guard =
            unsafe { std::mem::transmute::<MutexGuard<'_, ()>, MutexGuard<'static, ()>>(guard) };
        // SAFETY: L1: this thread holds the lock.
        unsafe { *self.held.get() = Some(guard) };
    }

    pub(in super::super) fn try_lock(&self) -> bool {
        self.lock();
        true
    }

    pub(in super::super) fn lock_contended(&self) {
        self.lock();
    }

    pub(in super::super) fn unlock(&self) {
        // SAFETY: L1: this thread holds the lock.
        drop(unsafe { (*self.held.get()).take() });
    }
}
