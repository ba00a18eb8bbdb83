//! A lock for one writer or many readers.
//!
//! # State
//! The word holds the number of readers, the bit `WRITER`, and the bit `WAITERS`, which means that
//! there may be waiters in the queue. While `WAITERS` is set, the lock is only acquired through the
//! queue. Two changes are then still made to the word without the queue's lock: a reader that is
//! not the last one unlocks, and a writer becomes a reader.
//!
//! There is another bit, `NOTED`: some [`holder`]s are noted in the lock's tag. A holder sets it when
//! it has noted itself. The writer clears it. Readers leave it, and forget themselves.
//!
//! # Protocol
//! A caller that cannot acquire the lock sets `WAITERS` and enters the queue. If `WAITERS` is set,
//! the last holder to unlock serves the queue under the queue's lock. It claims the first waiter,
//! and if that is a reader, also the readers directly behind it. A claimed waiter holds the lock
//! when it wakes. So the order is first come, first served, and neither writers nor readers starve.
#![expect(unsafe_code, reason = "hands out the guarded value")]

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr;

use super::holder;
use super::line;
use super::mutex::TryLockError;
use crate::base::sync::SpinLock;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::base::tag::Tag;
use crate::park::{self, About, Mode, Object, Outcome, Queue, Role, Wait, What, Woken};
use crate::task::{self, Cancelled};

const WRITER: usize = 1;
const WAITERS: usize = 2;
const NOTED: usize = 4;
const READER: usize = 8;

/// The kind of access that a waiter wants. Its number is the data of the waiter's node in the
/// queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Read = READER as isize,
    Write = WRITER as isize,
}

impl Access {
    /// Returns whether this access is compatible with the current holders.
    #[inline]
    fn fits(self, word: usize) -> bool {
        match self {
            Access::Read => word & WRITER == 0,
            Access::Write => word & !(WAITERS | NOTED) == 0,
        }
    }
}

/// The lock without the value.
pub(super) struct RawRwLock {
    word: AtomicUsize,
    line: SpinLock<Queue>,
    tag: Tag,
}

impl RawRwLock {
    #[cfg(not(loom))]
    const fn new() -> RawRwLock {
        RawRwLock { word: AtomicUsize::new(0), line: SpinLock::new(Queue::new()), tag: Tag::new() }
    }

    #[cfg(loom)]
    fn new() -> RawRwLock {
        RawRwLock { word: AtomicUsize::new(0), line: SpinLock::new(Queue::new()), tag: Tag::new() }
    }

    #[inline]
    #[track_caller]
    fn lock(&self, access: Access) {
        if !park::is_unrestricted() {
            return self.lock_with_care(access);
        }
        task::spend_budget();
        if !self.try_lock(access) {
            self.lock_surely(access);
        }
        self.note();
    }

    /// Locks where a call that may wait needs a closer look: in a simulation, for example. Inside
    /// `no_suspend` the call is refused.
    #[cold]
    #[inline(never)]
    #[track_caller]
    fn lock_with_care(&self, access: Access) {
        line::begin_uninterruptible();
        if !self.try_lock(access) {
            self.lock_surely(access);
        }
        self.note();
    }

    #[inline]
    #[track_caller]
    fn lock_cancellable(&self, access: Access) -> Result<(), Cancelled> {
        task::begin_wait()?;
        if !self.try_lock(access) {
            self.lock_slowly(access, Mode::Cancellable)?;
        }
        self.note();
        Ok(())
    }

    /// Records that the caller has acquired the lock, where that is of use.
    #[inline]
    #[track_caller]
    fn note(&self) {
        if park::explains() {
            holder::note(&self.tag);
            // The caller holds the lock, so no writer clears the bit meanwhile.
            if self.word.load(Ordering::Relaxed) & NOTED == 0 {
                self.word.fetch_or(NOTED, Ordering::Relaxed);
            }
        }
    }

    fn address(&self) -> *const () {
        ptr::from_ref(self).cast()
    }

    /// Forgets the writer, which is about to release the lock, if it has been recorded.
    #[cold]
    fn forget_if_noted(&self) {
        if self.word.load(Ordering::Relaxed) & NOTED != 0 {
            self.tag.release_all();
            self.word.fetch_and(!NOTED, Ordering::Relaxed);
        }
    }

    /// Acquire: pairs with the release in [`RawRwLock::unlock`].
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
    fn lock_surely(&self, access: Access) {
        if self.lock_slowly(access, Mode::Unfailing).is_err() {
            let _ = line::end_by_force(|mode| self.lock_slowly(access, mode));
        }
    }

    #[cold]
    #[track_caller]
    fn lock_slowly(&self, access: Access, mode: Mode) -> Result<(), Cancelled> {
        loop {
            let line = self.line.lock();
            let word = self.word.fetch_or(WAITERS, Ordering::Acquire);
            if line.is_empty() && access.fits(word) {
                // `WAITERS` is set, so no other caller acquires the lock until the bit is cleared.
                self.word.fetch_add(access as usize, Ordering::Relaxed);
                self.word.fetch_and(!WAITERS, Ordering::Relaxed);
                return Ok(());
            }
            let wait = Wait {
                role: Role::Take,
                tag: access as usize,
                object: self.address(),
                detail: access as usize,
                ..Wait::new(&A_LOCK, mode)
            };
            let ended = wait.in_line(line, |line| line, || (), || self.line.lock());
            match ended {
                Outcome::Woken(_) => return Ok(()),
                Outcome::Cancelled(line) => {
                    let mut woken = Woken::none();
                    // The waiters behind the cancelled one may be compatible with the current
                    // holders.
                    self.serve(&line, &mut woken);
                    drop(line);
                    drop(woken);
                    return Err(task::cancelled_wait());
                }
                Outcome::Again(_) | Outcome::TimedOut(_) => {}
            }
        }
    }

    /// Grants the lock to the waiters whose turn it is. The caller holds the queue's lock, and
    /// `WAITERS` is set.
    fn serve(&self, line: &Queue, woken: &mut Woken) {
        while let Some(node) = line.first() {
            // Acquire: the new holder sees what the previous holders did. Its unpark passes that
            // on.
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

    /// Release: pairs with the acquire of the next holder.
    #[inline]
    pub(super) fn unlock(&self, access: Access) {
        if access == Access::Write {
            // A writer is alone.
            let unlocked =
                self.word.compare_exchange(WRITER, 0, Ordering::Release, Ordering::Relaxed);
            if unlocked.is_err() {
                self.unlock_slowly(access);
            }
            return;
        }
        let mut word = self.word.load(Ordering::Relaxed);
        if word & NOTED != 0 {
            holder::forget_own(&self.tag);
        }
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
        if access == Access::Write {
            self.forget_if_noted();
        }
        let mut woken = Woken::none();
        let line = self.line.lock();
        // Acquire as well: the last reader sees what the other readers did, on behalf of the waiter
        // to which it grants the lock.
        self.word.fetch_sub(access as usize, Ordering::AcqRel);
        self.serve(&line, &mut woken);
        drop(line);
    }

    /// Turns the writer into a reader, and admits the waiting readers whose turn it is.
    fn downgrade(&self) {
        self.forget_if_noted();
        let before = self.word.fetch_add(READER - WRITER, Ordering::Release);
        if before & WAITERS != 0 {
            let mut woken = Woken::none();
            let line = self.line.lock();
            self.serve(&line, &mut woken);
            drop(line);
        }
    }
}

/// A wait for a readers-writer lock.
// SAFETY: O1: the object is the lock, which the wait borrows.
static A_LOCK: What = unsafe { What::about("a lock", describe) };

/// Describes a wait for a readers-writer lock.
///
/// # Safety
/// O1: `lock` is a [`RawRwLock`].
unsafe fn describe(lock: *const (), access: usize) -> (&'static str, About) {
    // SAFETY: O1, the caller's promise.
    let raw = unsafe { &*lock.cast::<RawRwLock>() };
    let word = raw.word.load(Ordering::Relaxed);
    let (state, holders) = match word / READER {
        0 if word & WRITER == 0 => (String::new(), 0),
        0 => (String::from("a writer has it"), 1),
        1 => (String::from("a reader has it"), 1),
        readers => (format!("{readers} readers have it"), readers),
    };
    let object = holder::describe(lock, &raw.tag, &state);
    let holds = if holders == 0 { Vec::new() } else { raw.tag.holds() };
    let needs_holders = access == Access::Write as usize || word & WRITER != 0;
    let object = Object { holds, holders: Some(holders), needs_holders, ..object };
    let what = if access == Access::Write as usize { "a write lock" } else { "a read lock" };
    (what, About::Object(Box::new(object)))
}

/// A lock around a value that allows one writer or any number of readers at a time.
///
/// It works like `std::sync::RwLock`, with the differences that [`Mutex`](super::Mutex) lists.
/// Waiters are served in the order in which they arrived, so a reader waits behind a writer that
/// arrived earlier. A task that holds a read lock must therefore not acquire another one while a
/// writer may be waiting.
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

// SAFETY: Y1: either one write guard or any number of read guards reach the value, on any thread.
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}
// SAFETY: Y1: the lock owns its value.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}

impl<T> RwLock<T> {
    /// Creates an unlocked lock around `value`.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new(value: T) -> RwLock<T> {
        RwLock { raw: RawRwLock::new(), value: UnsafeCell::new(value) }
    }

    /// Creates an unlocked lock around `value`.
    #[must_use]
    #[cfg(loom)]
    pub fn new(value: T) -> RwLock<T> {
        RwLock { raw: RawRwLock::new(), value: UnsafeCell::new(value) }
    }

    /// Gives the lock a name, which [dumps](crate::diag) show. A lock that has a name keeps it.
    ///
    /// # Examples
    /// ```
    /// let settings = ecru::sync::RwLock::new(7).named("settings");
    /// assert_eq!(*settings.read(), 7);
    /// ```
    #[must_use]
    pub fn named(self, name: impl AsRef<str>) -> RwLock<T> {
        self.raw.tag.set_name(name.as_ref());
        self
    }

    /// Returns the value.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Acquires a shared lock. Waits behind writers that arrived earlier.
    ///
    /// # Panics
    /// Panics if called inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is not a cancellation point. It waits also in a task that is cancelled or unwinding.
    ///
    /// # Examples
    /// ```
    /// let number = ecru::sync::RwLock::new(7);
    /// assert_eq!(*number.read() + *number.read(), 14);
    /// ```
    #[inline]
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        self.raw.lock(Access::Read);
        self.read_guard()
    }

    /// Acquires a shared lock like [`read`](RwLock::read), as a cancellation point.
    ///
    /// # Errors
    /// Returns [`Cancelled`] if the wait is cancelled.
    ///
    /// # Panics
    /// Panics in the same cases as `read`.
    ///
    /// # Cancellation
    /// This is a cancellation point, even if the lock is free. If the lock was handed over before
    /// the cancellation, the call returns the guard.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::RwLock;
    /// use std::time::Duration;
    ///
    /// ecru::run(|| {
    ///     let price = RwLock::new(4);
    ///     assert_eq!(*price.read_cancellable()?, 4);
    ///     *price.write_cancellable()? += 1;
    ///     let held = price.write();
    ///     // The limit ends the wait for the lock, which `read` would not notice.
    ///     let read = || price.read_cancellable().map(|price| *price);
    ///     assert!(ecru::timeout(Duration::from_millis(1), read).is_err());
    ///     assert!(price.try_read().is_err());
    ///     drop(held);
    ///     assert_eq!(*price.try_read().unwrap(), 5);
    ///     Ok::<_, ecru::Cancelled>(())
    /// })?;
    /// # Ok::<_, ecru::Cancelled>(())
    /// ```
    #[inline]
    #[track_caller]
    pub fn read_cancellable(&self) -> Result<RwLockReadGuard<'_, T>, Cancelled> {
        self.raw.lock_cancellable(Access::Read)?;
        Ok(self.read_guard())
    }

    /// Acquires a shared lock if there is neither a writer nor a waiter. Never waits.
    ///
    /// # Errors
    /// Returns [`TryLockError`] if the lock cannot be acquired without waiting.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    #[inline]
    #[track_caller]
    pub fn try_read(&self) -> Result<RwLockReadGuard<'_, T>, TryLockError> {
        if !self.raw.try_lock(Access::Read) {
            return Err(TryLockError::WouldBlock);
        }
        self.raw.note();
        Ok(self.read_guard())
    }

    /// Acquires the exclusive lock. Waits for the current holders and behind waiters that arrived
    /// earlier.
    ///
    /// # Panics
    /// Panics if called inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is not a cancellation point, like [`read`](RwLock::read).
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
        self.raw.lock(Access::Write);
        self.write_guard()
    }

    /// Acquires the exclusive lock like [`write`](RwLock::write), as a cancellation point.
    ///
    /// # Errors
    /// Returns [`Cancelled`] if the wait is cancelled.
    ///
    /// # Panics
    /// Panics in the same cases as `write`.
    ///
    /// # Cancellation
    /// This is a cancellation point, like [`read_cancellable`](RwLock::read_cancellable).
    #[inline]
    #[track_caller]
    pub fn write_cancellable(&self) -> Result<RwLockWriteGuard<'_, T>, Cancelled> {
        self.raw.lock_cancellable(Access::Write)?;
        Ok(self.write_guard())
    }

    /// Acquires the exclusive lock if there is neither a holder nor a waiter. Never waits.
    ///
    /// # Errors
    /// Returns [`TryLockError`] if the lock cannot be acquired without waiting.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    ///
    /// # Examples
    /// ```
    /// let number = ecru::sync::RwLock::new(6);
    /// let reading = number.read();
    /// assert!(number.try_write().is_err());
    /// # drop(reading);
    /// ```
    #[inline]
    #[track_caller]
    pub fn try_write(&self) -> Result<RwLockWriteGuard<'_, T>, TryLockError> {
        if !self.raw.try_lock(Access::Write) {
            return Err(TryLockError::WouldBlock);
        }
        self.raw.note();
        Ok(self.write_guard())
    }

    /// Returns a mutable reference to the value. The lock is borrowed mutably, so no locking takes
    /// place.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }

    pub(super) fn raw(&self) -> &RawRwLock {
        &self.raw
    }

    pub(super) fn value(&self) -> &UnsafeCell<T> {
        &self.value
    }

    /// Makes the guard after a shared lock has been acquired.
    #[inline]
    fn read_guard(&self) -> RwLockReadGuard<'_, T> {
        RwLockReadGuard { lock: self, _stays: PhantomData }
    }

    /// Makes the guard after the exclusive lock has been acquired.
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

/// A guard that gives read access to the value of an [`RwLock`]. Dropping it releases the shared
/// lock. It stays on the task or thread that acquired it.
#[must_use = "if unused, the lock is released immediately"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    /// Not `Send`, like std's guard.
    _stays: PhantomData<*const ()>,
}

// SAFETY: Y1: a shared guard gives only shared access to the value.
unsafe impl<T: ?Sized + Sync> Sync for RwLockReadGuard<'_, T> {}

impl<'a, T: ?Sized> RwLockReadGuard<'a, T> {
    pub(super) fn raw(&self) -> &'a RawRwLock {
        &self.lock.raw
    }
}

impl<T: ?Sized> Deref for RwLockReadGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: Y1: while this guard exists there is no write guard.
        unsafe { &*self.lock.value.get() }
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.raw.unlock(Access::Read);
    }
}

/// A guard that gives write access to the value of an [`RwLock`]. Dropping it unlocks. It stays on
/// the task or thread that acquired it.
#[must_use = "if unused, the lock is released immediately"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    /// Not `Send`, like std's guard.
    _stays: PhantomData<*const ()>,
}

// SAFETY: Y1: a shared guard gives only shared access to the value.
unsafe impl<T: ?Sized + Sync> Sync for RwLockWriteGuard<'_, T> {}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    pub(super) fn raw(&self) -> &'a RawRwLock {
        &self.lock.raw
    }

    /// Turns the exclusive lock into a shared one, without another writer in between.
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
