//! The lock of a queue of waiters, under which user code may run.
//!
//! It is a spin lock, as [`SpinLock`](super::SpinLock) is. It differs in two ways: a thread that
//! finds it taken may stay away for a while ([`QueueLock::for_bursts`]), and user code may run
//! under it.
//!
//! # User code under the lock
//! A channel's predicates are user code that runs under the channel's lock. They must not take that
//! lock again. But they may drop values whose destructors would take it. Therefore
//! [`QueueGuard::asking`] records each call of user code in a list while the call runs. A
//! destructor uses the list to find out whether its thread holds the lock
//! ([`QueueLock::is_asking`]). If so, it puts its work off by adding a call to the list
//! ([`QueueLock::put_off`]). The lock holder makes these calls after it has released the lock.
//!
//! [`put_off_until_unlocked`] does the same for work that may need any lock. That work is done
//! after the outermost of these locks has been released. So it never waits for one lock while it
//! holds another.
#![expect(unsafe_code, reason = "hands out the guarded value")]

use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::thread;
use std::time::Duration;

use super::lock::Flag;
use super::{keep_away, relax};
use crate::base::{clock, local};

/// A lock for critical sections of a few instructions: see the module.
pub(crate) struct QueueLock<T> {
    flag: Flag,
    /// Makes a thread that finds the lock taken stay away for a while: see
    /// [`QueueLock::for_bursts`].
    in_bursts: bool,
    value: UnsafeCell<T>,
}

/// How long a burst of operations lasts. Measured between two cores with a channel of capacity 128.
/// Threads on an Intel Xeon need 103 ns for a value with a burst of 0.4 µs, 73 ns with 0.7 µs, 61
/// ns with 1.5 µs, and 68 ns with 2.9 µs. [kanal](https://docs.rs/kanal) takes 60 ns. Tasks on an
/// AMD EPYC need 23 ns with 0.7 µs, 26 ns with 1 µs, and 31 ns with 1.5 µs. Go takes 29 ns.
const BURST: Duration = Duration::from_nanos(1000);

// SAFETY: L1: the flag gives one thread at a time access to the value.
unsafe impl<T: Send> Sync for QueueLock<T> {}
// SAFETY: L1: the lock owns its value.
unsafe impl<T: Send> Send for QueueLock<T> {}

impl<T> QueueLock<T> {
    #[cfg(not(loom))]
    pub(crate) const fn new(value: T) -> QueueLock<T> {
        QueueLock { flag: Flag::new(), in_bursts: false, value: UnsafeCell::new(value) }
    }

    #[cfg(loom)]
    pub(crate) fn new(value: T) -> QueueLock<T> {
        QueueLock { flag: Flag::new(), in_bursts: false, value: UnsafeCell::new(value) }
    }

    /// Creates a lock for data on which two threads may each perform many operations in a row
    /// without waiting for each other. If they contend for the lock at each single operation, the
    /// cache lines that it guards move between the cores each time. This takes ten times as long as
    /// the operation. So a thread that finds the lock taken leaves it to the other thread for a
    /// burst of operations.
    pub(crate) fn for_bursts(value: T) -> QueueLock<T> {
        QueueLock { in_bursts: true, ..QueueLock::new(value) }
    }

    /// Takes the lock.
    ///
    /// # Panics
    /// Panics if user code under the lock takes the lock again.
    #[inline(always)]
    #[track_caller]
    pub(crate) fn lock(&self) -> QueueGuard<'_, T> {
        if !self.flag.try_lock() {
            self.lock_slowly();
        }
        QueueGuard { lock: self, thread: PhantomData }
    }

    /// Takes the lock by the fast path. Returns `None` if the lock is not free.
    #[inline(always)]
    pub(crate) fn lock_at_once(&self) -> Option<QueueGuard<'_, T>> {
        self.flag.try_lock().then(|| QueueGuard { lock: self, thread: PhantomData })
    }

    /// Takes the flag after the fast path has found it taken.
    #[inline(never)]
    #[track_caller]
    fn lock_slowly(&self) {
        self.refuse_own_code();
        self.leave_alone();
        self.lock_contended();
    }

    /// Panics if this thread holds the lock and runs user code under it, which takes the lock
    /// again.
    #[cold]
    #[track_caller]
    fn refuse_own_code(&self) {
        assert!(!self.is_asking(), "{REENTERED}");
    }

    /// Returns whether this thread holds the lock and runs user code under it.
    #[inline]
    pub(crate) fn is_asking(&self) -> bool {
        // SAFETY: L4: the result is only compared.
        unsafe { self.innermost() }.is_some()
    }

    /// Returns the call of user code that this thread runs under the lock.
    ///
    /// # Safety
    /// L4: the result is not used after that call has returned.
    unsafe fn innermost<'a>(&self) -> Option<&'a Asking> {
        let mut at = local::with(|local| local.asking.get()).cast::<Asking>();
        // SAFETY: L4: the frames belong to calls that are still running.
        while let Some(asking) = unsafe { at.as_ref() } {
            if ptr::eq(asking.lock, ptr::from_ref(self).cast()) {
                return Some(asking);
            }
            at = asking.outer;
        }
        None
    }

    /// Makes `call` after this thread has released the lock, under which it runs user code. `call`
    /// must not panic.
    ///
    /// # Panics
    /// Panics if the thread does not run user code under the lock.
    ///
    /// # Safety
    /// L5: the data that `call` uses exists until the lock holder has made the call.
    pub(crate) unsafe fn put_off<'a>(&self, call: impl FnOnce() + 'a) {
        let call: Box<dyn FnOnce() + 'a> = Box::new(call);
        // SAFETY: L5, by this function's contract. Only the lifetime changes.
        let call = unsafe { mem::transmute::<Box<dyn FnOnce() + 'a>, Box<dyn FnOnce()>>(call) };
        // SAFETY: L4: the result is used only in this function.
        let asking = unsafe { self.innermost() };
        asking.expect("the thread runs user code under this lock").add(call);
    }

    /// Leaves the lock to the other thread for its burst. It does not look at the flag, because
    /// that would fetch the flag's cache line.
    #[cold]
    fn leave_alone(&self) {
        if self.in_bursts {
            keep_away(BURST);
        }
    }

    /// Waits for the flag. The wait is limited while user code runs under another lock of this
    /// thread: the holder of this lock may run user code that waits for that other lock.
    #[cold]
    #[track_caller]
    fn lock_contended(&self) {
        if local::with(|local| local.asking.get()).is_null() {
            return self.flag.lock_contended();
        }
        let give_up = clock::real_now() + PREDICATE_LIMIT;
        let mut round = 0;
        while !self.flag.try_lock() {
            relax(round);
            round = round.saturating_add(1);
            assert!(round % 64 != 0 || clock::real_now() < give_up, "{CIRCLE}");
        }
    }
}

/// How long user code under a lock may wait for another lock. Everything else that runs under a
/// lock takes less than a microsecond.
const PREDICATE_LIMIT: Duration = Duration::from_secs(1);

/// The panic message for a lock that does not become free, because predicates wait for each other's
/// locks.
const CIRCLE: &str = "a predicate used a channel whose own predicate uses a channel that waits for this one; look at the value only, and decide by that";

/// The panic message for a lock that is taken by user code which runs under it.
const REENTERED: &str =
    "a predicate used the channel that is asking it; look at the value only, and decide by that";

/// Calls to make after a lock has been released.
pub(crate) type PutOff = Vec<Box<dyn FnOnce()>>;

/// Returns whether this thread runs user code under any of these locks.
#[inline]
pub(crate) fn is_asking_anything() -> bool {
    !local::with(|local| local.asking.get()).is_null()
}

/// Makes `call` after this thread has released every lock under which it runs user code. `call`
/// must not panic.
///
/// # Panics
/// Panics if the thread does not run user code under a lock.
pub(crate) fn put_off_until_unlocked(call: impl FnOnce() + 'static) {
    let mut at = local::with(|local| local.asking.get()).cast::<Asking>();
    let mut outermost = None;
    // SAFETY: L4: the frames belong to calls that are still running.
    while let Some(asking) = unsafe { at.as_ref() } {
        outermost = Some(asking);
        at = asking.outer;
    }
    outermost.expect("the thread runs user code under a lock").add(Box::new(call));
}

/// A call of user code under a lock.
struct Asking {
    lock: *const (),
    outer: *const Asking,
    /// The calls that the lock holder makes after it has released the lock.
    put_off: Cell<PutOff>,
}

impl Asking {
    #[cold]
    fn add(&self, call: Box<dyn FnOnce()>) {
        let mut calls = self.put_off.take();
        calls.push(call);
        self.put_off.set(calls);
    }
}

impl<T> QueueGuard<'_, T> {
    /// Runs user code under the lock. If the code takes this lock, that panics. Returns the code's
    /// result, and the calls that the caller must make after it has released the lock.
    pub(crate) fn asking<R>(&self, code: impl FnOnce() -> R) -> (thread::Result<R>, PutOff) {
        struct Leave(*const Asking);
        impl Drop for Leave {
            fn drop(&mut self) {
                local::with(|local| local.asking.set(self.0.cast()));
            }
        }
        let outer = local::with(|local| local.asking.get()).cast();
        let lock = ptr::from_ref(self.lock).cast();
        let asking = Asking { lock, outer, put_off: Cell::new(PutOff::new()) };
        let leave = Leave(outer);
        local::with(|local| local.asking.set((&raw const asking).cast()));
        let result = panic::catch_unwind(AssertUnwindSafe(code));
        drop(leave);
        (result, asking.put_off.into_inner())
    }
}

/// A guard that gives access to the value of a [`QueueLock`].
pub(crate) struct QueueGuard<'a, T> {
    lock: &'a QueueLock<T>,
    /// Keeps the guard on its thread, where [`QueueGuard::asking`] lists its calls.
    thread: PhantomData<*const ()>,
}

impl<T> Deref for QueueGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: L1: this guard is the only one.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T> DerefMut for QueueGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: L1: this guard is the only one, and it is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T> Drop for QueueGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.flag.unlock();
    }
}

impl<T> fmt::Debug for QueueLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QueueLock")
    }
}

impl<T> fmt::Debug for QueueGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QueueGuard")
    }
}
