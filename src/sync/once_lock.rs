//! A value that is made once, by whoever comes first.
//!
//! # State
//! `EMPTY`, `BUSY` (somebody is making the value, whose name is in `maker`), `DONE`.
//!
//! # Protocol
//! ```text
//!   EMPTY --(one CAS)--> BUSY --(the value is written)--> DONE     everybody in both lines goes on
//!     ^                   |
//!     +--(error, panic)---+                                        the first of `makers` goes on, and tries
//! ```
//! Whoever finds `BUSY` gets in line under the lines' lock, having looked once more. Who leaves `BUSY` takes that lock after the state
//! has changed: so the one sees the other's state, or is seen in its line.
#![expect(unsafe_code, reason = "hands out the value")]

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::ManuallyDrop;

use super::line::{self, Ended, Wait};
use crate::base::sync::SpinLock;
use crate::base::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::park::{Mode, Queue, Role, Woken};
use crate::task::{self, Cancelled};

const EMPTY: u32 = 0;
const BUSY: u32 = 1;
const DONE: u32 = 2;

/// A place for a value that is set, or made, once.
///
/// As `std::sync::OnceLock`, for tasks and threads: those who want the value while somebody is making it wait, and there is one maker at
/// a time. If it fails, panics, or is cancelled and gives up, the next of those who wait is the maker.
///
/// # Examples
/// ```
/// use ecru::sync::OnceLock;
/// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
///
/// static ANSWER: OnceLock<u32> = OnceLock::new();
/// static MADE: AtomicU32 = AtomicU32::new(0);
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         for _ in 0..3 {
///             s.spawn(|| {
///                 ANSWER.get_or_init(|| {
///                     MADE.fetch_add(1, Relaxed);
///                     ecru::yield_now().unwrap();
///                     42
///                 })
///             });
///         }
///     });
/// });
/// assert_eq!((ANSWER.get(), MADE.load(Relaxed)), (Some(&42), 1));
/// ```
pub struct OnceLock<T> {
    state: AtomicU32,
    /// The task or thread that is making the value, by [`task::current_identity`]; 0: nobody.
    maker: AtomicU64,
    lines: SpinLock<Lines>,
    value: UnsafeCell<Option<T>>,
}

struct Lines {
    /// Those who would make the value themselves.
    makers: Queue,
    /// Those who wait for it only.
    readers: Queue,
}

// SAFETY: Y2: the value is written by one, and only read by any number after that.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}
// SAFETY: Y2: it owns its value.
unsafe impl<T: Send> Send for OnceLock<T> {}

impl<T> OnceLock<T> {
    /// One without a value.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> OnceLock<T> {
        OnceLock {
            state: AtomicU32::new(EMPTY),
            maker: AtomicU64::new(0),
            lines: SpinLock::new(Lines { makers: Queue::new(), readers: Queue::new() }),
            value: UnsafeCell::new(None),
        }
    }

    /// One without a value.
    #[must_use]
    #[cfg(loom)]
    pub fn new() -> OnceLock<T> {
        OnceLock {
            state: AtomicU32::new(EMPTY),
            maker: AtomicU64::new(0),
            lines: SpinLock::new(Lines { makers: Queue::new(), readers: Queue::new() }),
            value: UnsafeCell::new(None),
        }
    }

    /// One that has its value already.
    fn with_value(value: T) -> OnceLock<T> {
        let mut lock = OnceLock::new();
        lock.value = UnsafeCell::new(Some(value));
        lock.state = AtomicU32::new(DONE);
        lock
    }

    /// The value, if it is there. Never waits.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        // Acquire: pairs with the release in `Making`.
        if self.state.load(Ordering::Acquire) != DONE {
            return None;
        }
        // SAFETY: Y2: written, and not changed any more.
        unsafe { &*self.value.get() }.as_ref()
    }

    /// The value, if it is there.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut().as_mut()
    }

    /// Sets the value. Waits while somebody is making one.
    ///
    /// # Errors
    /// With `value`, when there is one already.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend) while there is no value, and where this very task or thread is making it.
    ///
    /// # Cancellation
    /// No cancel point.
    ///
    /// # Examples
    /// ```
    /// let once = ecru::sync::OnceLock::new();
    /// assert_eq!(once.set(1), Ok(()));
    /// assert_eq!(once.set(2), Err(2));
    /// ```
    #[track_caller]
    pub fn set(&self, value: T) -> Result<(), T> {
        let mut value = Some(value);
        self.get_or_init(|| value.take().expect("asked for it once"));
        value.map_or(Ok(()), Err)
    }

    /// The value. If there is none yet it is what `make` returns, or what somebody else is making already: for that this waits.
    ///
    /// # Panics
    /// When `make` does; then the next who wants it makes it. When `make` comes back here: it would wait for itself. Inside
    /// [`no_suspend`](crate::no_suspend) while there is no value.
    ///
    /// # Cancellation
    /// No cancel point, but `make` may have some. See [`get_or_try_init`](OnceLock::get_or_try_init).
    #[inline]
    #[track_caller]
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        enum Never {}
        match self.get_or_try_init(|| Ok::<T, Never>(make())) {
            Ok(value) => value,
            Err(never) => match never {},
        }
    }

    /// [`get_or_init`](OnceLock::get_or_init) for what may fail. An error goes to the caller whose `make` it was; the next one who waits
    /// tries with its own.
    ///
    /// # Errors
    /// What `make` returns.
    ///
    /// # Panics
    /// As `get_or_init`.
    ///
    /// # Cancellation
    /// No cancel point, but `make` may have some: return their errors, and the next one tries.
    ///
    /// # Examples
    /// ```
    /// let number = ecru::sync::OnceLock::new();
    /// assert!(number.get_or_try_init(|| "seven".parse::<u32>()).is_err());
    /// assert_eq!(number.get_or_try_init(|| "7".parse::<u32>()), Ok(&7));
    /// ```
    #[inline]
    #[track_caller]
    pub fn get_or_try_init<E>(&self, make: impl FnOnce() -> Result<T, E>) -> Result<&T, E> {
        // A value that is there stays: from then on this is no call that may wait, and a predicate may use it.
        if let Some(value) = self.get() {
            return Ok(value);
        }
        line::begin_uninterruptible();
        loop {
            if let Some(value) = self.get() {
                return Ok(value);
            }
            if let Some(making) = self.begin() {
                return Ok(making.finish(make()?));
            }
            self.wait_in(|lines| &lines.makers, Mode::Uninterruptible, true);
        }
    }

    /// Becomes the one who makes the value; none: somebody is, or has been.
    fn begin(&self) -> Option<Making<'_, T>> {
        let begun = self.state.compare_exchange(EMPTY, BUSY, Ordering::Acquire, Ordering::Relaxed);
        begun.ok()?;
        self.maker.store(task::current_identity(), Ordering::Relaxed);
        Some(Making { lock: self })
    }

    /// Waits until the state may have changed; false: cancelled.
    #[cold]
    #[track_caller]
    fn wait_in(&self, line: impl Fn(&Lines) -> &Queue, mode: Mode, would_make: bool) -> bool {
        let lines = self.lines.lock();
        match self.state.load(Ordering::Acquire) {
            DONE => return true,
            EMPTY if would_make => return true,
            // Only its own thread can have written that it is the maker.
            BUSY if self.maker.load(Ordering::Relaxed) == task::current_identity() => {
                drop(lines);
                panic!(
                    "a `OnceLock` or `LazyLock` was used by what is making its value; \
                     it would wait for itself: let the value be made without it"
                );
            }
            _ => {}
        }
        let wait = Wait::new("a value to be made", Role::Notify, mode);
        let ended = wait.in_line(lines, |lines| line(lines), || (), || self.lines.lock());
        !matches!(ended, Ended::Cancelled(_))
    }

    /// Waits until the value is there, without making it.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend) while there is no value, and where this very task or thread is making it.
    ///
    /// # Cancellation
    /// No cancel point, as std's has no way to say so; [`wait_cancellable`](OnceLock::wait_cancellable) is one, and
    /// [`SetOnce`](super::SetOnce) has it from the start.
    ///
    /// # Examples
    /// ```
    /// let once = ecru::sync::OnceLock::new();
    /// std::thread::scope(|s| {
    ///     s.spawn(|| assert_eq!(once.wait(), &7));
    ///     once.set(7).unwrap();
    /// });
    /// ```
    #[track_caller]
    pub fn wait(&self) -> &T {
        if let Some(value) = self.get() {
            return value;
        }
        line::begin_uninterruptible();
        loop {
            if let Some(value) = self.get() {
                return value;
            }
            self.wait_in(|lines| &lines.readers, Mode::Uninterruptible, false);
        }
    }

    /// [`wait`](OnceLock::wait), as a cancel point.
    ///
    /// # Errors
    /// [`Cancelled`] when the wait is cancelled.
    ///
    /// # Panics
    /// As `wait`.
    ///
    /// # Cancellation
    /// A cancel point; there is nothing to lose.
    #[track_caller]
    pub fn wait_cancellable(&self) -> Result<&T, Cancelled> {
        task::begin_wait()?;
        loop {
            if let Some(value) = self.get() {
                return Ok(value);
            }
            if !self.wait_in(|lines| &lines.readers, Mode::Cancellable, false) {
                return Err(task::cancelled_wait());
            }
        }
    }

    /// The value, if it is there.
    #[must_use]
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }

    /// Takes the value out, if it is there: there is none then, as at the beginning.
    pub fn take(&mut self) -> Option<T> {
        std::mem::take(self).into_inner()
    }
}

/// The right to write the value. If it is dropped without, by an error or a panic, the next one gets it.
struct Making<'a, T> {
    lock: &'a OnceLock<T>,
}

impl<'a, T> Making<'a, T> {
    fn finish(self, value: T) -> &'a T {
        let lock = ManuallyDrop::new(self).lock;
        // SAFETY: Y2: the state is `BUSY`, and this one alone made it so; nobody reads before `DONE`.
        let place = unsafe { &mut *lock.value.get() };
        *place = Some(value);
        lock.maker.store(0, Ordering::Relaxed);
        // Release: pairs with the acquire in `get`.
        lock.state.store(DONE, Ordering::Release);
        let mut woken = Woken::none();
        let lines = lock.lines.lock();
        while lines.makers.claim_first(&mut woken) {}
        while lines.readers.claim_first(&mut woken) {}
        drop(lines);
        drop(woken);
        lock.get().expect("written just now")
    }
}

impl<T> Drop for Making<'_, T> {
    fn drop(&mut self) {
        let lock = self.lock;
        lock.maker.store(0, Ordering::Relaxed);
        lock.state.store(EMPTY, Ordering::Release);
        let mut woken = Woken::none();
        let lines = lock.lines.lock();
        lines.makers.claim_first(&mut woken);
        drop(lines);
    }
}

impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}

impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> OnceLock<T> {
        OnceLock::with_value(value)
    }
}

impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> OnceLock<T> {
        self.get().cloned().map_or_else(OnceLock::new, OnceLock::with_value)
    }
}

impl<T: PartialEq> PartialEq for OnceLock<T> {
    fn eq(&self, other: &OnceLock<T>) -> bool {
        self.get() == other.get()
    }
}

impl<T: Eq> Eq for OnceLock<T> {}

impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.get() {
            Some(value) => f.debug_tuple("OnceLock").field(value).finish(),
            None => f.debug_tuple("OnceLock").field(&format_args!("<uninit>")).finish(),
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models;
