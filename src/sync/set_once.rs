//! A value that is set once and can be waited for.
#![expect(unsafe_code, reason = "hands out the value, and describes the objects of waits")]

use std::cell::UnsafeCell;
use std::fmt;
use std::ptr;

use super::holder;
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::base::tag::Tag;
use crate::park::{About, Mode, Outcome, Wait, WaitList, What};
use crate::source::Source;
use crate::task::{self, Cancelled};

/// A cell whose value is set once, and for which any number of tasks and threads may wait.
///
/// Unlike [`OnceLock`](super::OnceLock) it does not compute its value, and its waits are
/// cancellation points. It is a [`Source`] of clones of the value. Once the value is set, the
/// source always has an item.
///
/// # Examples
/// ```
/// use ecru::sync::SetOnce;
///
/// ecru::run(|| {
///     let answer = SetOnce::new();
///     ecru::scope(|s| {
///         let readers = [(); 2].map(|()| s.spawn(|| *answer.wait().unwrap()));
///         answer.set(42).unwrap();
///         assert!(readers.iter().all(|reader| reader.join().unwrap() == 42));
///     });
///     assert_eq!(answer.set(43), Err(43));
/// });
/// ```
pub struct SetOnce<T> {
    /// Whether the value is set. It changes under the queue's lock.
    is_set: AtomicBool,
    value: UnsafeCell<Option<T>>,
    line: WaitList,
    tag: Tag,
}

/// A wait for the value of a [`SetOnce`].
// SAFETY: O1: the object is the tag of the cell, which the wait borrows.
static A_VALUE: What = unsafe { What::about("a value to be set", describe) };

/// # Safety
/// O1: `tag` is the [`Tag`] of a cell.
unsafe fn describe(tag: *const (), _: usize) -> (&'static str, About) {
    // SAFETY: O1, the caller's promise.
    let this = unsafe { &*tag.cast::<Tag>() };
    ("a value to be set", holder::about(tag, this, ""))
}

// SAFETY: Y2: the value is written once and only read after that, by any number of threads.
unsafe impl<T: Send + Sync> Sync for SetOnce<T> {}
// SAFETY: Y2: the cell owns its value.
unsafe impl<T: Send> Send for SetOnce<T> {}

impl<T> SetOnce<T> {
    /// Creates an empty cell.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> SetOnce<T> {
        SetOnce {
            is_set: AtomicBool::new(false),
            value: UnsafeCell::new(None),
            line: WaitList::new(),
            tag: Tag::new(),
        }
    }

    /// Creates an empty cell.
    #[must_use]
    #[cfg(loom)]
    pub fn new() -> SetOnce<T> {
        SetOnce {
            is_set: AtomicBool::new(false),
            value: UnsafeCell::new(None),
            line: WaitList::new(),
            tag: Tag::new(),
        }
    }

    /// Gives the cell a name, which [dumps](crate::diag) show. A cell that has a name keeps it.
    ///
    /// # Examples
    /// ```
    /// let answer = ecru::sync::SetOnce::new().named("answer");
    /// assert_eq!(answer.set(42), Ok(()));
    /// ```
    #[must_use]
    pub fn named(self, name: impl AsRef<str>) -> SetOnce<T> {
        self.tag.set_name(name.as_ref());
        self
    }

    /// Sets the value and wakes all waiters. Never waits.
    ///
    /// # Errors
    /// Returns `Err(value)` if the cell already has a value.
    pub fn set(&self, value: T) -> Result<(), T> {
        {
            let _line = self.line.lock();
            if self.is_set() {
                return Err(value);
            }
            // SAFETY: Y2: no thread reads the value before `is_set`, and the lock excludes other
            // writers.
            unsafe { *self.value.get() = Some(value) };
            // Release: pairs with the acquire in `is_set`.
            self.is_set.store(true, Ordering::Release);
        }
        self.line.notify_all();
        Ok(())
    }

    /// Returns the value if it is set.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        if !self.is_set() {
            return None;
        }
        // SAFETY: Y2: the value has been written and does not change any more.
        unsafe { &*self.value.get() }.as_ref()
    }

    #[inline]
    fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    /// Waits until the value is set.
    ///
    /// # Errors
    /// Returns [`Cancelled`] if the wait is cancelled.
    ///
    /// # Panics
    /// Panics if called inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled wait loses nothing.
    ///
    /// # Examples
    /// ```
    /// let answer = ecru::sync::SetOnce::new();
    /// std::thread::scope(|s| {
    ///     s.spawn(|| assert_eq!(answer.wait(), Ok(&42)));
    ///     answer.set(42).unwrap();
    /// });
    /// ```
    #[track_caller]
    pub fn wait(&self) -> Result<&T, Cancelled> {
        task::begin_wait()?;
        loop {
            if let Some(value) = self.get() {
                return Ok(value);
            }
            let line = self.line.lock();
            if self.is_set() {
                continue;
            }
            let object = ptr::from_ref(&self.tag).cast();
            let wait = Wait { object, ..Wait::new(&A_VALUE, Mode::Cancellable) };
            let ended = wait.in_line(line, |line| line, || (), || self.line.lock());
            if let Outcome::Cancelled(line) = ended {
                drop(line);
                return Err(task::cancelled_wait());
            }
        }
    }

    /// Returns the value if it is set.
    #[must_use]
    pub fn into_inner(self) -> Option<T> {
        self.value.into_inner()
    }
}

impl<T> Default for SetOnce<T> {
    fn default() -> SetOnce<T> {
        SetOnce::new()
    }
}

impl<T: fmt::Debug> fmt::Debug for SetOnce<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SetOnce").field(&self.get()).finish()
    }
}

impl<T: Clone> Source for SetOnce<T> {
    type Item = T;

    fn try_take(&self) -> Option<T> {
        self.get().cloned()
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.line);
    }
}
