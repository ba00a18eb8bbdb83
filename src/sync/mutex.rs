//! A lock.
//!
//! # State
//! A word of two bits. `LOCKED`: somebody has the lock. `WAITERS`: somebody may be in one of the two lines, and whoever unlocks looks.
//! The lines have a lock of their own (the *inner* lock); `WAITERS` changes under it only.
//!
//! # Protocol
//! ```text
//!   lock                                             unlock
//!   --------------------------------------------     ------------------------------------------------
//!   LOCKED: 0 -> 1, or else, under the inner lock:   word LOCKED -> 0, or else, under the inner lock:
//!     LOCKED: 0 -> 1, or set WAITERS and get in line   somebody in `passed_over`? claim it: the lock is its
//!   park                                               else LOCKED: 1 -> 0, and claim the first in `fresh`
//!   woken from `fresh`: from the top, but for
//!     `passed_over`; from there: has the lock
//! ```
//! So the one who is woken for the first time has to be faster than others who come by, which keeps the lock busy while it is
//! on its way; and if it is not, the next unlock is for it. Nobody waits for more than the holders before it and one more round.
#![expect(unsafe_code, reason = "hands out the guarded value")]

use std::cell::UnsafeCell;
use std::error;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

use super::line::{self, Ended, Wait};
use crate::base::sync::SpinLock;
use crate::base::sync::atomic::{AtomicU32, Ordering};
use crate::park::{Mode, Queue, Role, Woken};
use crate::task::{self, Cancelled};

const LOCKED: u32 = 1;
const WAITERS: u32 = 2;

/// The lock without the value.
pub(super) struct RawMutex {
    word: AtomicU32,
    lines: SpinLock<Lines>,
}

struct Lines {
    /// Those who have not been woken yet.
    fresh: Queue,
    /// Those who were woken once, and found that somebody else had been faster.
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

/// Looks before somebody gets in line: a holder on another worker may be done in a moment.
#[cfg(not(loom))]
const SPINS: u32 = 16;
#[cfg(loom)]
const SPINS: u32 = 0;

impl RawMutex {
    #[cfg(not(loom))]
    const fn new() -> RawMutex {
        RawMutex { word: AtomicU32::new(0), lines: SpinLock::new(Lines::new()) }
    }

    #[cfg(loom)]
    fn new() -> RawMutex {
        RawMutex { word: AtomicU32::new(0), lines: SpinLock::new(Lines::new()) }
    }

    #[inline]
    #[track_caller]
    fn lock(&self, mode: Mode) -> Result<(), Cancelled> {
        line::begin(mode)?;
        if self.try_lock() { Ok(()) } else { self.lock_slowly(mode) }
    }

    /// Without the first step of a wait: for a condition variable, which has made it.
    pub(super) fn lock_again(&self) {
        if !self.try_lock() {
            let locked = self.lock_slowly(Mode::Uninterruptible);
            debug_assert!(locked.is_ok(), "nobody cancels it");
        }
    }

    /// Acquire: pairs with the release in [`RawMutex::unlock`].
    #[inline]
    fn try_lock(&self) -> bool {
        let taken =
            self.word.compare_exchange(0, LOCKED, Ordering::Acquire, Ordering::Relaxed).is_ok();
        taken || self.try_lock_before_others()
    }

    /// Others are in line, perhaps, and nobody has the lock, perhaps.
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
    fn lock_slowly(&self, mode: Mode) -> Result<(), Cancelled> {
        for _ in 0..SPINS {
            std::hint::spin_loop();
            if self.word.load(Ordering::Relaxed) & LOCKED == 0 && self.try_lock() {
                return Ok(());
            }
        }
        let mut passed_over = false;
        loop {
            let lines = self.lines.lock();
            if self.try_lock_or_announce() {
                return Ok(());
            }
            let role = if passed_over { Role::Take } else { Role::Notify };
            let ended = Wait::new("a lock", role, mode).in_line(
                lines,
                |lines| lines.of(passed_over),
                || (),
                || self.lines.lock(),
            );
            match ended {
                Ended::Woken if passed_over || self.try_lock() => return Ok(()),
                Ended::Woken => passed_over = true,
                Ended::Cancelled(lines) => {
                    if lines.are_empty() {
                        self.word.fetch_and(!WAITERS, Ordering::Relaxed);
                    }
                    drop(lines);
                    return Err(task::cancelled_wait());
                }
                Ended::Again(_) | Ended::TimedOut(_) => {}
            }
        }
    }

    /// Under the inner lock: takes the lock, or makes sure that its holder looks into the lines.
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

    /// Release: pairs with the acquire of whoever locks next.
    #[inline]
    pub(super) fn unlock(&self) {
        if self.word.compare_exchange(LOCKED, 0, Ordering::Release, Ordering::Relaxed).is_err() {
            self.unlock_slowly();
        }
    }

    #[cold]
    fn unlock_slowly(&self) {
        let mut woken = Woken::none();
        let lines = self.lines.lock();
        let handed_over = lines.passed_over.claim_first(&mut woken);
        if !handed_over {
            lines.fresh.claim_first(&mut woken);
        }
        // Nobody else changes the word: it is locked, and this is the inner lock's holder.
        let locked = if handed_over { LOCKED } else { 0 };
        let waiters = if lines.are_empty() { 0 } else { WAITERS };
        self.word.store(locked | waiters, Ordering::Release);
        drop(lines);
    }
}

/// A lock around a value: one at a time reaches it.
///
/// As `std::sync::Mutex`, with these differences: a task that waits for it is parked, and so the guard may be held across other
/// waits; there is no poisoning, so [`lock`](Mutex::lock) gives the guard itself; and [`lock_cancellable`](Mutex::lock_cancellable)
/// is a cancel point.
///
/// Those who wait are woken in the order in which they came. One who comes by while somebody has been woken may be faster; but
/// nobody is overtaken so twice: the lock is then handed over.
///
/// Locking it again while having it waits for ever.
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

// SAFETY: Y1: one guard at a time reaches the value, from whichever thread.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}
// SAFETY: Y1: the lock owns its value.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}

impl<T> Mutex<T> {
    /// A lock around `value`, which nobody has.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new(value: T) -> Mutex<T> {
        Mutex { raw: RawMutex::new(), value: UnsafeCell::new(value) }
    }

    /// A lock around `value`, which nobody has.
    #[must_use]
    #[cfg(loom)]
    pub fn new(value: T) -> Mutex<T> {
        Mutex { raw: RawMutex::new(), value: UnsafeCell::new(value) }
    }

    /// The value.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Waits until nobody else has the lock, and takes it. Dropping the guard gives it back.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// No cancel point: it waits in a cancelled task, too, and in one that unwinds.
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
        let locked = self.raw.lock(Mode::Uninterruptible);
        debug_assert!(locked.is_ok(), "nobody cancels it");
        self.guard()
    }

    /// [`lock`](Mutex::lock), as a cancel point.
    ///
    /// # Errors
    /// [`Cancelled`] when the wait is cancelled.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// A cancel point, also while nobody has the lock. A lock that had been handed over already wins over the cancellation.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let number = ecru::sync::Mutex::new(6);
    /// let _guard = number.lock();
    /// let second = ecru::timeout(Duration::from_millis(1), || number.lock_cancellable().map(drop));
    /// assert!(second.is_err());
    /// ```
    #[inline]
    #[track_caller]
    pub fn lock_cancellable(&self) -> Result<MutexGuard<'_, T>, Cancelled> {
        self.raw.lock(Mode::Cancellable)?;
        Ok(self.guard())
    }

    /// Takes the lock if nobody has it. Never waits.
    ///
    /// # Errors
    /// [`TryLockError`] when somebody has it.
    ///
    /// # Cancellation
    /// No cancel point.
    ///
    /// # Examples
    /// ```
    /// let number = ecru::sync::Mutex::new(6);
    /// let guard = number.try_lock().unwrap();
    /// assert!(number.try_lock().is_err());
    /// # drop(guard);
    /// ```
    #[inline]
    pub fn try_lock(&self) -> Result<MutexGuard<'_, T>, TryLockError> {
        if self.raw.try_lock() { Ok(self.guard()) } else { Err(TryLockError::WouldBlock) }
    }

    /// The value, which nobody else can reach now.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// The lock has just been taken.
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

/// The right to the value of a [`Mutex`]; dropping it unlocks. It stays with the task or thread that locked.
#[must_use = "dropped at once, it unlocks at once"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    /// Not `Send`: as std's, and so that a guard says who is to unlock.
    _stays: PhantomData<*const ()>,
}

// SAFETY: Y1: a shared guard gives nothing but a shared value.
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

/// Why a `try_` call of a [`Mutex`] or an [`RwLock`](super::RwLock) came to nothing. Unlike std's there is nothing about poison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TryLockError {
    /// Somebody has the lock.
    WouldBlock,
}

impl fmt::Display for TryLockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("somebody else has the lock")
    }
}

impl error::Error for TryLockError {}

#[cfg(all(test, loom))]
mod loom_models;
