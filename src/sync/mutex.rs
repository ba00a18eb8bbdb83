//! A mutual exclusion lock.
//!
//! # State
//! The state is a word with two bits. `LOCKED` means that the lock is held. `WAITERS` means that
//! there may be waiters in one of the two queues, so an unlock has to look. The queues have a lock
//! of their own, the *inner* lock. `WAITERS` changes only while the inner lock is held.
//!
//! There is a third bit, `NOTED`: the [`holder`] is noted in the lock's tag. The holder sets it, and
//! `unlock` clears it.
//!
//! # Protocol
//! ```text
//!   lock                                           unlock
//!   -------------------------------------------    -------------------------------------------
//!   LOCKED: 0 -> 1, or else, under the inner       word LOCKED -> 0, or else, under the inner
//!   lock:                                          lock:
//!     LOCKED: 0 -> 1, or set WAITERS and queue       claim the first in `passed_over`, which
//!     up                                             then holds the lock
//!   park                                             or else LOCKED: 1 -> 0, and claim the
//!   woken from `fresh`: start again, but queue       first in `fresh`
//!     up in `passed_over`
//!   woken from `passed_over`: holds the lock
//! ```
//! A waiter that is woken for the first time competes with newcomers for the lock. So the lock
//! stays in use while the woken waiter is on its way. If the waiter loses, the next unlock hands
//! the lock over to it. A waiter therefore waits for the holders before it and for at most one more
//! round.
#![expect(unsafe_code, reason = "hands out the guarded value")]

use std::cell::UnsafeCell;
use std::error;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::ptr;
use std::thread;

use super::holder;
use super::line;
use crate::base::sync::SpinLock;
use crate::base::sync::atomic::{AtomicU32, Ordering};
use crate::base::tag::Tag;
use crate::coroutine::hook;
use crate::park::{self, About, Mode, Object, Outcome, Queue, Role, Wait, What, Woken};
use crate::task::{self, Cancelled};

const LOCKED: u32 = 1;
const WAITERS: u32 = 2;
const NOTED: u32 = 4;

/// The lock without the value.
pub(super) struct RawMutex {
    word: AtomicU32,
    lines: SpinLock<Lines>,
    tag: Tag,
}

struct Lines {
    /// Waiters that have not been woken yet.
    fresh: Queue,
    /// Waiters that were woken once and found the lock taken by a newcomer.
    passed_over: Queue,
}

impl Lines {
    const fn new() -> Lines {
        Lines { fresh: Queue::new(), passed_over: Queue::new() }
    }

    fn of(&self, passed_over: bool) -> &Queue {
        if passed_over { &self.passed_over } else { &self.fresh }
    }

    fn are_empty(&self) -> bool {
        self.fresh.is_empty() && self.passed_over.is_empty()
    }
}

/// How often a waiter looks at the lock before it queues up. A holder on another worker may unlock
/// in a moment.
#[cfg(not(loom))]
const SPINS: u32 = 16;
#[cfg(loom)]
const SPINS: u32 = 0;

impl RawMutex {
    #[cfg(not(loom))]
    const fn new() -> RawMutex {
        RawMutex { word: AtomicU32::new(0), lines: SpinLock::new(Lines::new()), tag: Tag::new() }
    }

    #[cfg(loom)]
    fn new() -> RawMutex {
        RawMutex { word: AtomicU32::new(0), lines: SpinLock::new(Lines::new()), tag: Tag::new() }
    }

    #[inline]
    #[track_caller]
    fn lock(&self) {
        if !park::is_unrestricted() {
            return self.lock_with_care();
        }
        task::spend_budget();
        if !self.try_lock() {
            self.lock_surely();
        }
        self.note();
    }

    /// Locks where a call that may wait needs a closer look: in a simulation, for example. Inside
    /// `no_suspend` the call is refused.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn lock_with_care(&self) {
        line::begin_uninterruptible();
        if !self.try_lock() {
            self.lock_surely();
        }
        self.note();
    }

    /// Records that the caller has acquired the lock, where that is of use.
    #[inline]
    #[track_caller]
    fn note(&self) {
        if park::explains() {
            holder::note(&self.tag);
            self.word.fetch_or(NOTED, Ordering::Relaxed);
        }
    }

    fn address(&self) -> *const () {
        ptr::from_ref(self).cast()
    }

    #[inline]
    #[track_caller]
    fn lock_cancellable(&self) -> Result<(), Cancelled> {
        task::begin_wait()?;
        if !self.try_lock() {
            self.lock_slowly(Mode::Cancellable)?;
        }
        self.note();
        Ok(())
    }

    /// Locks without the first step of a wait, for a condition variable, which has taken that step
    /// already.
    #[track_caller]
    pub(super) fn lock_again(&self) {
        if !self.try_lock() {
            let locked = self.lock_slowly(Mode::Uninterruptible);
            debug_assert!(locked.is_ok(), "an uninterruptible wait is never cancelled");
        }
        self.note();
    }

    /// Acquire: pairs with the release in [`RawMutex::unlock`].
    #[inline]
    fn try_lock(&self) -> bool {
        let taken =
            self.word.compare_exchange(0, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok();
        taken || self.try_lock_before_others()
    }

    /// Takes the lock if it is free, even if there are waiters in the queues.
    fn try_lock_before_others(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & LOCKED == 0 {
            let next = word | LOCKED;
            match self.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return true,
                Err(seen) => word = seen,
            }
        }
        false
    }

    #[cold]
    #[track_caller]
    fn lock_surely(&self) {
        if self.lock_slowly(Mode::Unfailing).is_err() {
            let _ = line::end_by_force(|mode| self.lock_slowly(mode));
        }
    }

    #[cold]
    #[track_caller]
    fn lock_slowly(&self, mode: Mode) -> Result<(), Cancelled> {
        for _ in 0..SPINS {
            std::hint::spin_loop();
            if self.word.load(Ordering::Relaxed) & LOCKED == 0 && self.try_lock() {
                return Ok(());
            }
        }
        // The panic hook blocks its worker. So it waits before the tasks that were not woken yet:
        // some of them may belong to that worker, and would keep the lock once they are woken.
        let mut passed_over = thread::panicking() && hook::is_running();
        loop {
            let lines = self.lines.lock();
            if self.try_lock_or_announce() {
                return Ok(());
            }
            let role = if passed_over { Role::Take } else { Role::Notify };
            let object = self.address();
            let ended = Wait { role, object, ..Wait::new(&A_LOCK, mode) }.in_line(
                lines,
                |lines| lines.of(passed_over),
                || (),
                || self.lines.lock(),
            );
            match ended {
                Outcome::Woken(_) if passed_over || self.try_lock() => return Ok(()),
                Outcome::Woken(_) => passed_over = true,
                Outcome::Cancelled(lines) => {
                    if lines.are_empty() {
                        self.word.fetch_and(!WAITERS, Ordering::Relaxed);
                    }
                    drop(lines);
                    return Err(task::cancelled_wait());
                }
                Outcome::Again(_) | Outcome::TimedOut(_) => {}
            }
        }
    }

    /// Takes the lock, or sets `WAITERS` so that the holder looks into the queues. The caller holds
    /// the inner lock.
    fn try_lock_or_announce(&self) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let free = word & LOCKED == 0;
            let next = if free { word | LOCKED } else { word | WAITERS };
            match self.word.compare_exchange_weak(word, next, Ordering::Acquire, Ordering::Relaxed)
            {
                Ok(_) => return free,
                Err(seen) => word = seen,
            }
        }
    }

    /// Release: pairs with the acquire of the next lock holder.
    #[inline]
    pub(super) fn unlock(&self) {
        let unlocked = self.word.compare_exchange(LOCKED, 0, Ordering::Release, Ordering::Relaxed);
        if unlocked.is_err() {
            self.unlock_slowly();
        }
    }

    #[cold]
    fn unlock_slowly(&self) {
        if self.word.load(Ordering::Relaxed) & NOTED != 0 {
            self.tag.release_all();
        }
        let mut woken = Woken::none();
        let lines = self.lines.lock();
        let handed_over = lines.passed_over.claim_first(&mut woken);
        if !handed_over {
            lines.fresh.claim_first(&mut woken);
        }
        // No other thread changes the word now: it is locked, and this thread holds the inner lock.
        let locked = if handed_over { LOCKED } else { 0 };
        let waiters = if lines.are_empty() { 0 } else { WAITERS };
        self.word.store(locked | waiters, Ordering::Release);
        drop(lines);
    }
}

/// A wait for a mutex.
// SAFETY: O1: the object is the mutex, which the wait borrows.
static A_LOCK: What = unsafe { What::about("a lock", describe) };

/// Describes a wait for a mutex.
///
/// # Safety
/// O1: `mutex` is a [`RawMutex`].
unsafe fn describe(mutex: *const (), _: usize) -> (&'static str, About) {
    // SAFETY: O1, the caller's promise.
    let raw = unsafe { &*mutex.cast::<RawMutex>() };
    let object = holder::describe(mutex, &raw.tag, "");
    let object = Object { holders: Some(1), needs_holders: true, ..object };
    ("a lock", About::Object(Box::new(Object { holds: raw.tag.holds(), ..object })))
}

/// A mutual exclusion lock around a value.
///
/// It works like `std::sync::Mutex`, with these differences:
/// - A task that waits for the lock is parked, so a guard may be held across other waits.
/// - There is no poisoning, so [`lock`](Mutex::lock) returns the guard itself.
/// - [`lock_cancellable`](Mutex::lock_cancellable) is a cancellation point.
///
/// Waiters are woken in the order in which they arrived. A newcomer may take the lock while a woken
/// waiter is on its way. This happens to a waiter at most once: then the lock is handed over to it.
///
/// A task or thread that locks a mutex which it has already locked waits forever.
///
/// # Examples
/// ```
/// use ecru::sync::Mutex;
///
/// let sum = Mutex::new(0);
/// ecru::run(|| {
///     ecru::scope(|s| {
///         for n in 1..=10 {
///             let sum = &sum;
///             s.spawn(move || *sum.lock() += n);
///         }
///     });
/// });
/// assert_eq!(sum.into_inner(), 55);
/// ```
pub struct Mutex<T: ?Sized> {
    raw: RawMutex,
    value: UnsafeCell<T>,
}

// SAFETY: Y1: at most one guard at a time reaches the value, on any thread.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}
// SAFETY: Y1: the lock owns its value.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}

impl<T> Mutex<T> {
    /// Creates an unlocked mutex around `value`.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Mutex<T> {
        Mutex { raw: RawMutex::new(), value: UnsafeCell::new(value) }
    }

    /// Creates an unlocked mutex around `value`.
    #[must_use]
    #[cfg(loom)]
    pub fn new(value: T) -> Mutex<T> {
        Mutex { raw: RawMutex::new(), value: UnsafeCell::new(value) }
    }

    /// Gives the mutex a name, which [dumps](crate::diag) show. A mutex that has a name keeps it.
    ///
    /// # Examples
    /// ```
    /// let balance = ecru::sync::Mutex::new(0).named("balance");
    /// *balance.lock() += 1;
    /// ```
    #[must_use]
    pub fn named(self, name: impl AsRef<str>) -> Mutex<T> {
        self.raw.tag.set_name(name.as_ref());
        self
    }

    /// Returns the value.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Acquires the lock, and waits until it is free. Dropping the guard unlocks it.
    ///
    /// # Panics
    /// Panics if called inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is not a cancellation point. It waits also in a task that is cancelled or unwinding.
    ///
    /// # Examples
    /// ```
    /// let number = ecru::sync::Mutex::new(6);
    /// *number.lock() *= 7;
    /// assert_eq!(*number.lock(), 42);
    /// ```
    #[inline]
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.raw.lock();
        self.guard()
    }

    /// Acquires the lock like [`lock`](Mutex::lock), as a cancellation point.
    ///
    /// # Errors
    /// Returns [`Cancelled`] if the wait is cancelled.
    ///
    /// # Panics
    /// Panics if called inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is a cancellation point, even if the lock is free. If the lock was handed over before
    /// the cancellation, the call returns the guard.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let number = ecru::sync::Mutex::new(6);
    /// let _guard = number.lock();
    /// let second =
    ///     ecru::timeout(Duration::from_millis(1), || number.lock_cancellable().map(drop));
    /// assert!(second.is_err());
    /// ```
    #[inline]
    #[track_caller]
    pub fn lock_cancellable(&self) -> Result<MutexGuard<'_, T>, Cancelled> {
        self.raw.lock_cancellable()?;
        Ok(self.guard())
    }

    /// Acquires the lock if it is free. Never waits.
    ///
    /// # Errors
    /// Returns [`TryLockError`] if the lock is held.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    ///
    /// # Examples
    /// ```
    /// let number = ecru::sync::Mutex::new(6);
    /// let guard = number.try_lock().unwrap();
    /// assert!(number.try_lock().is_err());
    /// # drop(guard);
    /// ```
    #[inline]
    #[track_caller]
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError> {
        if !self.raw.try_lock() {
            return Err(TryLockError::WouldBlock);
        }
        self.raw.note();
        Ok(self.guard())
    }

    /// Returns a mutable reference to the value. The mutex is borrowed mutably, so no locking takes
    /// place.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    pub(super) fn raw(&self) -> &RawMutex {
        &self.raw
    }

    pub(super) fn value(&self) -> &UnsafeCell<T> {
        &self.value
    }

    /// Makes the guard after the lock has been taken.
    #[inline]
    fn guard(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, _stays: PhantomData }
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
        match self.try_lock() {
            Ok(guard) => text.field("data", &&*guard),
            Err(_) => text.field("data", &format_args!("<locked>")),
        };
        text.finish_non_exhaustive()
    }
}

/// A guard of a [`Mutex`], which gives access to the value. Dropping it unlocks the mutex. It stays
/// on the task or thread that locked.
#[must_use = "if unused, the lock is released immediately"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// Not `Send`, like std's guard, so the task or thread that locks also unlocks.
    _stays: PhantomData<*const ()>,
}

// SAFETY: Y1: a shared guard gives only shared access to the value.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    pub(super) fn raw(&self) -> &'a RawMutex {
        &self.mutex.raw
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: Y1: this guard is the only one.
        unsafe { &*self.mutex.value.get() }
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: Y1: this guard is the only one, and it is borrowed mutably.
        unsafe { &mut *self.mutex.value.get() }
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.raw.unlock();
    }
}

/// The error of a `try_` call of a [`Mutex`] or an [`RwLock`](super::RwLock). Unlike std's error it
/// has no variant for poisoning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TryLockError {
    /// The lock cannot be acquired without waiting.
    WouldBlock,
}

impl fmt::Display for TryLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the lock cannot be acquired without waiting")
    }
}

impl error::Error for TryLockError {}

#[cfg(all(test, loom))]
mod loom_models;
