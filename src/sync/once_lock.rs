//! A value that is written once, by the first caller that provides it.
//!
//! # State
//! The state is `EMPTY`, `BUSY` (the task or thread in `making` is computing the value) or `DONE`.
//!
//! # Protocol
//! ```text
//!   EMPTY --(one CAS)--> BUSY --(the value is written)--> DONE   all waiters in both queues go on
//!     ^                   |
//!     +--(error, panic)---+                    the first of `makers` goes on, and tries to make it
//! ```
//! A caller that finds `BUSY` takes the lock of the queues, checks the state again, and enters a
//! queue. A maker that leaves `BUSY` changes the state first and takes that lock afterwards. So
//! either the waiter sees the new state, or the maker finds it in its queue.
#![expect(unsafe_code, reason = "hands out the value")]

use std::cell::UnsafeCell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::ptr;

use self::making::Making;
use super::line;
use crate::base::sync::SpinLock;
use crate::base::sync::atomic::{AtomicU32, Ordering};
use crate::park::{Mode, Outcome, Queue, Wait, Woken};
use crate::task::{self, Cancelled};

const EMPTY: u32 = 0;
const BUSY: u32 = 1;
const DONE: u32 = 2;

/// A cell that is written once, with a given or a computed value.
///
/// It works like `std::sync::OnceLock`, for tasks and threads. One caller at a time computes the
/// value, and the others wait for it. If that computation fails, panics, or gives up because it is
/// cancelled, the next waiter computes the value.
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
    making: Making,
    lines: SpinLock<Lines>,
    value: UnsafeCell<Option<T>>,
}

struct Lines {
    /// Waiters that would compute the value themselves.
    makers: Queue,
    /// Waiters that only need the value.
    readers: Queue,
}

// SAFETY: Y2: the value is written once and only read after that, by any number of threads.
unsafe impl<T: Send + Sync> Sync for OnceLock<T> {}
// SAFETY: Y2: the lock owns its value.
unsafe impl<T: Send> Send for OnceLock<T> {}

impl<T> OnceLock<T> {
    /// Creates an empty cell.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> OnceLock<T> {
        OnceLock {
            state: AtomicU32::new(EMPTY),
            making: Making::new(),
            lines: SpinLock::new(Lines { makers: Queue::new(), readers: Queue::new() }),
            value: UnsafeCell::new(None),
        }
    }

    /// Creates an empty cell.
    #[must_use]
    #[cfg(loom)]
    pub fn new() -> OnceLock<T> {
        OnceLock {
            state: AtomicU32::new(EMPTY),
            making: Making::new(),
            lines: SpinLock::new(Lines { makers: Queue::new(), readers: Queue::new() }),
            value: UnsafeCell::new(None),
        }
    }

    /// Gives the cell a name, which [dumps](crate::diag) show while tasks wait for its value. A cell
    /// that has a name keeps it.
    ///
    /// # Examples
    /// ```
    /// let settings = ecru::sync::OnceLock::new().named("settings");
    /// assert_eq!(settings.get_or_init(|| 7), &7);
    /// ```
    #[must_use]
    pub fn named(self, name: impl AsRef<str>) -> OnceLock<T> {
        self.making.tag.set_name(name.as_ref());
        self
    }

    /// Creates a cell that already has its value.
    fn with_value(value: T) -> OnceLock<T> {
        let mut lock = OnceLock::new();
        lock.value = UnsafeCell::new(Some(value));
        lock.state = AtomicU32::new(DONE);
        lock
    }

    /// Returns the value if it is set. Never waits.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        // Acquire: pairs with the release in `Maker`.
        if self.state.load(Ordering::Acquire) != DONE {
            return None;
        }
        // SAFETY: Y2: the value has been written and does not change any more.
        unsafe { &*self.value.get() }.as_ref()
    }

    /// Returns a mutable reference to the value if it is set.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.value.get_mut().as_mut()
    }

    /// Sets the value. Waits while another task or thread computes one.
    ///
    /// # Errors
    /// Returns `Err(value)` if the cell already has a value.
    ///
    /// # Panics
    /// Panics inside [`no_suspend`](crate::no_suspend) while there is no value. Also panics if this
    /// very task or thread is computing the value.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
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
        self.get_or_init(|| value.take().expect("called once"));
        value.map_or(Ok(()), Err)
    }

    /// Returns the value. If there is none yet, calls `make` and stores the result. If another task
    /// or thread is already computing the value, waits for it.
    ///
    /// # Panics
    /// Panics if `make` panics; then the next waiter computes the value. Also panics if `make` uses
    /// this cell, because it would wait for itself, and inside [`no_suspend`](crate::no_suspend)
    /// while there is no value.
    ///
    /// # Cancellation
    /// This is not a cancellation point. `make` may contain cancellation points; see
    /// [`get_or_try_init`](OnceLock::get_or_try_init).
    #[inline]
    #[track_caller]
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        enum Never {}
        match self.get_or_try_init(|| Ok::<T, Never>(make())) {
            Ok(value) => value,
            Err(never) => match never {},
        }
    }

    /// Returns the value like [`get_or_init`](OnceLock::get_or_init), for a `make` that may fail.
    /// An error is returned to the caller whose `make` failed, and the next waiter tries with its
    /// own.
    ///
    /// # Errors
    /// Returns the error that `make` returned.
    ///
    /// # Panics
    /// Panics in the same cases as `get_or_init`.
    ///
    /// # Cancellation
    /// This is not a cancellation point. `make` may contain cancellation points: if it returns
    /// their errors, the next waiter tries.
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
        // A value that is set stays set. From then on this call never waits, so a predicate may use
        // it.
        if let Some(value) = self.get() {
            return Ok(value);
        }
        line::begin_uninterruptible();
        loop {
            if let Some(value) = self.get() {
                return Ok(value);
            }
            if let Some(maker) = self.begin(Location::caller()) {
                return Ok(maker.finish(make()?));
            }
            if !self.wait_in(|lines| &lines.makers, Mode::Unfailing, true) {
                line::end_by_force(|mode| self.wait_in(|lines| &lines.makers, mode, true));
            }
        }
    }

    /// Becomes the maker of the value. Returns `None` if there already is a maker or a value.
    fn begin(&self, at: &'static Location<'static>) -> Option<Maker<'_, T>> {
        let begun = self.state.compare_exchange(EMPTY, BUSY, Ordering::Acquire, Ordering::Relaxed);
        begun.ok()?;
        self.making.begin(at);
        Some(Maker { lock: self })
    }

    /// Waits until the state may have changed. Returns false if the wait was cancelled.
    #[cold]
    #[track_caller]
    fn wait_in(&self, line: impl Fn(&Lines) -> &Queue, mode: Mode, would_make: bool) -> bool {
        let lines = self.lines.lock();
        match self.state.load(Ordering::Acquire) {
            DONE => return true,
            EMPTY if would_make => return true,
            BUSY if self.making.is_by(task::current_identity()) => {
                drop(lines);
                panic!(
                    "a `OnceLock` or `LazyLock` was used by the closure that computes its value; \
                     it would wait for itself; compute the value without using it"
                );
            }
            _ => {}
        }
        let object = ptr::from_ref(&self.making).cast();
        let wait = Wait { object, ..Wait::new(&making::A_VALUE, mode) };
        let ended = wait.in_line(lines, |lines| line(lines), || (), || self.lines.lock());
        !matches!(ended, Outcome::Cancelled(_))
    }

    /// Waits until the value is set, without computing it.
    ///
    /// # Panics
    /// Panics inside [`no_suspend`](crate::no_suspend) while there is no value. Also panics if this
    /// very task or thread is computing the value.
    ///
    /// # Cancellation
    /// This is not a cancellation point, because std's signature has no room for an error.
    /// [`wait_cancellable`](OnceLock::wait_cancellable) is one, and so are the waits of
    /// [`SetOnce`](super::SetOnce).
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
            if !self.wait_in(|lines| &lines.readers, Mode::Unfailing, false) {
                line::end_by_force(|mode| self.wait_in(|lines| &lines.readers, mode, false));
            }
        }
    }

    /// Waits like [`wait`](OnceLock::wait), as a cancellation point.
    ///
    /// # Errors
    /// Returns [`Cancelled`] if the wait is cancelled.
    ///
    /// # Panics
    /// Panics in the same cases as `wait`.
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled wait loses nothing.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::OnceLock;
    /// use std::time::Duration;
    ///
    /// let settings: OnceLock<u32> = OnceLock::new();
    /// ecru::run(|| {
    ///     // The limit ends the wait.
    ///     let wait = || settings.wait_cancellable().map(|settings| *settings);
    ///     assert!(ecru::timeout(Duration::from_millis(1), wait).is_err());
    ///     settings.set(7).unwrap();
    ///     assert_eq!(settings.wait_cancellable(), Ok(&7));
    /// });
    /// ```
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

    /// Returns the value if it is set.
    #[must_use]
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }

    /// Takes the value out if it is set. The cell is empty after that, as if it were new.
    pub fn take(&mut self) -> Option<T> {
        std::mem::take(self).into_inner()
    }
}

/// The right to write the value. If an error or a panic drops it before the value is written, the
/// next waiter gets the right.
struct Maker<'a, T> {
    lock: &'a OnceLock<T>,
}

impl<'a, T> Maker<'a, T> {
    fn finish(self, value: T) -> &'a T {
        let lock = ManuallyDrop::new(self).lock;
        // SAFETY: Y2: the state is `BUSY`, which only this maker set, and no thread reads the value
        // before `DONE`.
        let place = unsafe { &mut *lock.value.get() };
        *place = Some(value);
        lock.making.end();
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

impl<T> Drop for Maker<'_, T> {
    fn drop(&mut self) {
        let lock = self.lock;
        lock.making.end();
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

mod making;

#[cfg(all(test, loom))]
mod loom_models;
