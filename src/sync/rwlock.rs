//! A lock for one who writes, or many who read.
//!
//! # State
//! A word: the number of readers, the bit `WRITER`, and the bit `WAITERS`: somebody may be in line. While that is set nobody gets in but
//! through the line, and of what others do to the word without the line's lock there is one thing only: readers who are not
//! the last leave.
//!
//! # Protocol
//! Who cannot get in sets `WAITERS` and gets in line. Who leaves last, if `WAITERS` is set, serves the line under its lock: the first in
//! it, and if that is a reader, the readers next to it too. Those are in when they wake. So it is first come, first served, and
//! neither writers nor readers starve.
#![expect(unsafe_code, reason = "hands out the guarded value")]

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};

use super::line::{self, Ended, Wait};
use super::mutex::TryLockError;
use crate::base::sync::SpinLock;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::park::{Mode, Queue, Role, Woken};
use crate::task::{self, Cancelled};

const WRITER: usize = 1;
const WAITERS: usize = 2;
const READER: usize = 4;

/// What somebody wants, and the number that its node in the line carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read = READER as isize,
    Write = WRITER as isize,
}

impl Access {
    /// Whether it goes together with what the word says.
    #[inline]
    fn fits(self, word: usize) -> bool {
        match self {
            Access::Read => word & WRITER == 0,
            Access::Write => word & !WAITERS == 0,
        }
    }
}

/// The lock without the value.
struct RawRwLock {
    word: AtomicUsize,
    line: SpinLock<Queue>,
}

impl RawRwLock {
    #[cfg(not(loom))]
    const fn new() -> RawRwLock {
        RawRwLock { word: AtomicUsize::new(0), line: SpinLock::new(Queue::new()) }
    }

    #[cfg(loom)]
    fn new() -> RawRwLock {
        RawRwLock { word: AtomicUsize::new(0), line: SpinLock::new(Queue::new()) }
    }

    #[inline]
    #[track_caller]
    fn lock(&self, access: Access, mode: Mode) -> Result<(), Cancelled> {
        line::begin(mode)?;
        if self.try_lock(access) { Ok(()) } else { self.lock_slowly(access, mode) }
    }

    /// Acquire: pairs with the release of those who leave.
    #[inline]
    fn try_lock(&self, access: Access) -> bool {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & WAITERS == 0 && access.fits(word) {
            assert!(word <= isize::MAX as usize, "too many readers of one `RwLock`");
            let next = word + access as usize;
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
    fn lock_slowly(&self, access: Access, mode: Mode) -> Result<(), Cancelled> {
        loop {
            let line = self.line.lock();
            let word = self.word.fetch_or(WAITERS, Ordering::Acquire);
            if line.is_empty() && access.fits(word) {
                // From here on, and until the bit is cleared, nobody else gets in.
                self.word.fetch_add(access as usize, Ordering::Relaxed);
                self.word.fetch_and(!WAITERS, Ordering::Relaxed);
                return Ok(());
            }
            let wait = Wait { tag: access as usize, ..Wait::new("a lock", Role::Take, mode) };
            let ended = wait.in_line(line, |line| line, || (), || self.line.lock());
            match ended {
                Ended::Woken => return Ok(()),
                Ended::Cancelled(line) => {
                    let mut woken = Woken::none();
                    // Who was behind it may go together with those who are in.
                    self.serve(&line, &mut woken);
                    drop(line);
                    drop(woken);
                    return Err(task::cancelled_wait());
                }
                Ended::Again(_) | Ended::TimedOut(_) => {}
            }
        }
    }

    /// Lets those in whose turn it is. Under the line's lock, with `WAITERS` set.
    fn serve(&self, line: &Queue, woken: &mut Woken) {
        while let Some(node) = line.first() {
            // Acquire: the one who gets in sees what those who left did; its unpark passes that on.
            let word = self.word.load(Ordering::Acquire);
            let access = if line::tag(node) == Access::Write as usize {
                Access::Write
            } else {
                Access::Read
            };
            let fits = access.fits(word);
            if !fits && !node.is_dead() {
                return;
            }
            line.remove(node);
            if fits && node.claim() {
                self.word.fetch_add(access as usize, Ordering::Relaxed);
                woken.push(node);
            }
        }
        self.word.fetch_and(!WAITERS, Ordering::Relaxed);
    }

    /// Release: pairs with the acquire of whoever gets in next.
    #[inline]
    fn unlock(&self, access: Access) {
        let mut word = self.word.load(Ordering::Relaxed);
        while word & WAITERS == 0 || word >= 2 * READER {
            let next = word - access as usize;
            match self.word.compare_exchange_weak(word, next, Ordering::Release, Ordering::Relaxed)
            {
                Ok(_) => return,
                Err(seen) => word = seen,
            }
        }
        self.unlock_slowly(access);
    }

    #[cold]
    fn unlock_slowly(&self, access: Access) {
        let mut woken = Woken::none();
        let line = self.line.lock();
        // Acquire as well: the last reader sees what the others did, for whoever it lets in.
        self.word.fetch_sub(access as usize, Ordering::AcqRel);
        self.serve(&line, &mut woken);
        drop(line);
    }

    /// The writer becomes a reader, and lets in the readers whose turn it is.
    fn downgrade(&self) {
        let before = self.word.fetch_add(READER - WRITER, Ordering::Release);
        if before & WAITERS != 0 {
            let mut woken = Woken::none();
            let line = self.line.lock();
            self.serve(&line, &mut woken);
            drop(line);
        }
    }
}

/// A lock around a value: one at a time reaches it to change it, or any number to read it.
///
/// As `std::sync::RwLock`, with the differences that [`Mutex`](super::Mutex) has. Who comes first is served first: a reader who comes
/// after a waiting writer waits for it. So whoever reads already must not read again while a writer may wait.
///
/// # Examples
/// ```
/// use ecru::sync::RwLock;
///
/// let names = RwLock::new(vec!["undyed"]);
/// {
///     let (one, other) = (names.read(), names.read());
///     assert_eq!(one.len(), other.len());
/// }
/// names.write().push("cloth");
/// assert_eq!(names.into_inner(), ["undyed", "cloth"]);
/// ```
pub struct RwLock<T: ?Sized> {
    raw: RawRwLock,
    value: UnsafeCell<T>,
}

// SAFETY: Y1: one guard that writes, or guards that read, reach the value, from whichever thread.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}
// SAFETY: Y1: the lock owns its value.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}

impl<T> RwLock<T> {
    /// A lock around `value`, which nobody has.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new(value: T) -> RwLock<T> {
        RwLock { raw: RawRwLock::new(), value: UnsafeCell::new(value) }
    }

    /// A lock around `value`, which nobody has.
    #[must_use]
    #[cfg(loom)]
    pub fn new(value: T) -> RwLock<T> {
        RwLock { raw: RawRwLock::new(), value: UnsafeCell::new(value) }
    }

    /// The value.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Waits until nobody writes, nor waits to write since before, and reads.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// No cancel point: it waits in a cancelled task, too, and in one that unwinds.
    ///
    /// # Examples
    /// ```
    /// let number = ecru::sync::RwLock::new(7);
    /// assert_eq!(*number.read() + *number.read(), 14);
    /// ```
    #[inline]
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        let locked = self.raw.lock(Access::Read, Mode::Uninterruptible);
        debug_assert!(locked.is_ok(), "nobody cancels it");
        self.read_guard()
    }

    /// [`read`](RwLock::read), as a cancel point.
    ///
    /// # Errors
    /// [`Cancelled`] when the wait is cancelled.
    ///
    /// # Panics
    /// As `read`.
    ///
    /// # Cancellation
    /// A cancel point, also while nobody has the lock. A lock that had been handed over already wins over the cancellation.
    #[inline]
    #[track_caller]
    pub fn read_cancellable(&self) -> Result<RwLockReadGuard<'_, T>, Cancelled> {
        self.raw.lock(Access::Read, Mode::Cancellable)?;
        Ok(self.read_guard())
    }

    /// Reads if nobody writes, nor waits to. Never waits.
    ///
    /// # Errors
    /// [`TryLockError`] when somebody does.
    ///
    /// # Cancellation
    /// No cancel point.
    #[inline]
    pub fn try_read(&self) -> Result<RwLockReadGuard<'_, T>, TryLockError> {
        if self.raw.try_lock(Access::Read) {
            Ok(self.read_guard())
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// Waits until nobody else has the lock, and whoever waited before has had it, and writes.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// As [`read`](RwLock::read).
    ///
    /// # Examples
    /// ```
    /// let number = ecru::sync::RwLock::new(6);
    /// *number.write() += 1;
    /// assert_eq!(number.into_inner(), 7);
    /// ```
    #[inline]
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let locked = self.raw.lock(Access::Write, Mode::Uninterruptible);
        debug_assert!(locked.is_ok(), "nobody cancels it");
        self.write_guard()
    }

    /// [`write`](RwLock::write), as a cancel point.
    ///
    /// # Errors
    /// As [`read_cancellable`](RwLock::read_cancellable).
    ///
    /// # Panics
    /// As `write`.
    ///
    /// # Cancellation
    /// As [`read_cancellable`](RwLock::read_cancellable).
    #[inline]
    #[track_caller]
    pub fn write_cancellable(&self) -> Result<RwLockWriteGuard<'_, T>, Cancelled> {
        self.raw.lock(Access::Write, Mode::Cancellable)?;
        Ok(self.write_guard())
    }

    /// Writes if nobody has the lock. Never waits.
    ///
    /// # Errors
    /// [`TryLockError`] when somebody has.
    ///
    /// # Cancellation
    /// No cancel point.
    ///
    /// # Examples
    /// ```
    /// let number = ecru::sync::RwLock::new(6);
    /// let reading = number.read();
    /// assert!(number.try_write().is_err());
    /// # drop(reading);
    /// ```
    #[inline]
    pub fn try_write(&self) -> Result<RwLockWriteGuard<'_, T>, TryLockError> {
        if self.raw.try_lock(Access::Write) {
            Ok(self.write_guard())
        } else {
            Err(TryLockError::WouldBlock)
        }
    }

    /// The value, which nobody else can reach now.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    /// A reader has just got in.
    #[inline]
    fn read_guard(&self) -> RwLockReadGuard<'_, T> {
        RwLockReadGuard { lock: self, _stays: PhantomData }
    }

    /// A writer has.
    #[inline]
    fn write_guard(&self) -> RwLockWriteGuard<'_, T> {
        RwLockWriteGuard { lock: self, _stays: PhantomData }
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
        match self.try_read() {
            Ok(guard) => text.field("data", &&*guard),
            Err(_) => text.field("data", &format_args!("<locked>")),
        };
        text.finish_non_exhaustive()
    }
}

/// The right to read the value of an [`RwLock`]; dropping it gives it back. It stays with the task or thread that got it.
#[must_use = "dropped at once, it unlocks at once"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    /// Not `Send`, as std's.
    _stays: PhantomData<*const ()>,
}

// SAFETY: Y1: a shared guard gives nothing but a shared value.
unsafe impl<T: ?Sized + Sync> Sync for RwLockReadGuard<'_, T> {}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: Y1: while there is this guard there is none that writes.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.unlock(Access::Read);
    }
}

/// The right to change the value of an [`RwLock`]; dropping it gives it back. It stays with the task or thread that got it.
#[must_use = "dropped at once, it unlocks at once"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    /// Not `Send`, as std's.
    _stays: PhantomData<*const ()>,
}

// SAFETY: Y1: a shared guard gives nothing but a shared value.
unsafe impl<T: ?Sized + Sync> Sync for RwLockWriteGuard<'_, T> {}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    /// Goes on as a reader, without letting a writer in between.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::{RwLock, RwLockWriteGuard};
    ///
    /// let number = RwLock::new(6);
    /// let mut writing = number.write();
    /// *writing = 7;
    /// let reading = RwLockWriteGuard::downgrade(writing);
    /// assert_eq!((*reading, *number.read()), (7, 7));
    /// ```
    pub fn downgrade(this: RwLockWriteGuard<'a, T>) -> RwLockReadGuard<'a, T> {
        let lock = ManuallyDrop::new(this).lock;
        lock.raw.downgrade();
        lock.read_guard()
    }
}

impl<T: ?Sized> Deref for RwLockWriteGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: Y1: this guard is the only one.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: Y1: this guard is the only one, and it is borrowed mutably.
        unsafe { &mut *self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.unlock(Access::Write);
    }
}

#[cfg(all(test, loom))]
mod loom_models;
