//! The locks of `std` with the same signatures, including poisoning, except that a wait parks the
//! task.
//!
//! Code that was written for [`std::sync`] compiles with this module in its place. [`Mutex`],
//! [`RwLock`], [`Condvar`] and [`Barrier`] wrap the types of [`ecru::sync`](crate::sync), whose own
//! signatures are shorter. The other items are those of `std` itself: [`Arc`], [`Weak`] and the
//! errors of locking.
//!
//! ```
//! use ecru::sync::poison::{Arc, Condvar, Mutex};
//!
//! let pair = Arc::new((Mutex::new(false), Condvar::new()));
//! let started = ecru::run(|| {
//!     let setter = Arc::clone(&pair);
//!     ecru::spawn(move || {
//!         let (lock, condvar) = &*setter;
//!         *lock.lock().unwrap() = true;
//!         condvar.notify_one();
//!     });
//!     let (lock, condvar) = &*pair;
//!     *condvar.wait_while(lock.lock().unwrap(), |started| !*started).unwrap()
//! });
//! assert!(started);
//! ```
//!
//! # Poisoning
//! A lock is poisoned when a task or thread panics while it holds a guard that can write. Each
//! later call on that lock returns a [`PoisonError`], which holds the guard. A suspended
//! [`Coroutine`](crate::coroutine::Coroutine) that holds such a guard does not panic when it is
//! dropped. It poisons the lock only if the code that drops it panics.
//!
//! There is one exception. A panicking task or coroutine may wait in a destructor that its panic
//! has called. During that wait, other panics on the same thread do not poison locks, because they
//! cannot be told from the first one.
//!
//! # Cancellation
//! The signatures of `std` leave no room for a cancellation, so no wait here is a cancellation
//! point: a cancelled task continues to wait. Code that has to be cancelled while it waits for a
//! condition uses [`ecru::sync::Condvar`](crate::sync::Condvar).

mod barrier;
mod condvar;
mod mutex;
mod rwlock;

pub use super::{BarrierWaitResult, LazyLock, OnceLock, WaitTimeoutResult};
pub use barrier::Barrier;
pub use condvar::Condvar;
pub use mutex::{Mutex, MutexGuard};
pub use rwlock::{RwLock, RwLockReadGuard, RwLockWriteGuard};
pub use std::sync::{Arc, LockResult, PoisonError, TryLockError, TryLockResult, Weak};

use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::coroutine::panics;
use std::panic::{RefUnwindSafe, UnwindSafe};

/// Whether a lock is poisoned. All accesses are relaxed, because the lock itself orders what its
/// holders do.
struct Flag(AtomicBool);

impl Flag {
    #[cfg(not(loom))]
    const fn new() -> Flag {
        Flag(AtomicBool::new(false))
    }

    #[cfg(loom)]
    fn new() -> Flag {
        Flag(AtomicBool::new(false))
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Returns the result of locking: `locked`, inside an error if the lock is poisoned.
    fn around<T>(&self, locked: T) -> LockResult<T> {
        if self.is_set() { Err(PoisonError::new(locked)) } else { Ok(locked) }
    }

    /// Sets the flag if a panic begins before the returned value is dropped.
    fn watch(&self) -> PoisonOnPanic<'_> {
        PoisonOnPanic { flag: self, panicked_before: panics::is_panicking() }
    }
}

/// The part of a guard that poisons the lock. It is declared before the part that unlocks, so it is
/// dropped first.
struct PoisonOnPanic<'a> {
    flag: &'a Flag,
    panicked_before: bool,
}

impl PoisonOnPanic<'_> {
    /// Ends the watch without poisoning the lock.
    fn end(mut self) {
        self.panicked_before = true;
    }
}

impl Drop for PoisonOnPanic<'_> {
    fn drop(&mut self) {
        if !self.panicked_before && panics::is_panicking() {
            self.flag.0.store(true, Ordering::Relaxed);
        }
    }
}

impl<T: ?Sized> RefUnwindSafe for Mutex<T> {}
impl<T: ?Sized> UnwindSafe for Mutex<T> {}
impl<T: ?Sized> RefUnwindSafe for RwLock<T> {}
impl<T: ?Sized> UnwindSafe for RwLock<T> {}
