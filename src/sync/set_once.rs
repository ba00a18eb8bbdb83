//! A value that comes once.
#![expect(unsafe_code, reason = "hands out the value")]

use std::cell::UnsafeCell;
use std::fmt;

use super::line::{Ended, Wait};
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::park::{Mode, Role, WaitList};
use crate::source::Source;
use crate::task::{self, Cancelled};

/// A place for a value that somebody sets once, and for which any number may wait, for ever.
///
/// Unlike [`OnceLock`](super::OnceLock) it does not make its value, and its waits are cancel points. It is a [`Source`] of clones of
/// the value, which always has one once it is set.
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
    /// Whether the value is there. Set under the line's lock.
    is_set: AtomicBool,
    value: UnsafeCell<Option<T>>,
    line: WaitList,
}

// SAFETY: Y2: the value is written by one, and only read by any number after that.
unsafe impl<T: Send + Sync> Sync for SetOnce<T> {}
// SAFETY: Y2: it owns its value.
unsafe impl<T: Send> Send for SetOnce<T> {}

impl<T> SetOnce<T> {
    /// One without a value.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> SetOnce<T> {
        SetOnce {
            is_set: AtomicBool::new(false),
            value: UnsafeCell::new(None),
            line: WaitList::new(),
        }
    }

    /// One without a value.
    #[must_use]
    #[cfg(loom)]
    pub fn new() -> SetOnce<T> {
        SetOnce {
            is_set: AtomicBool::new(false),
            value: UnsafeCell::new(None),
            line: WaitList::new(),
        }
    }

    /// Sets the value, and lets everybody go on who waits for it. Never waits.
    ///
    /// # Errors
    /// With `value`, when there is one already.
    pub fn set(&self, value: T) -> Result<(), T> {
        {
            let _line = self.line.lock();
            if self.is_set() {
                return Err(value);
            }
            // SAFETY: Y2: nobody reads before `is_set`, and the lock keeps other writers out.
            unsafe { *self.value.get() = Some(value) };
            // Release: pairs with the acquire of whoever reads.
            self.is_set.store(true, Ordering::Release);
        }
        self.line.notify_all();
        Ok(())
    }

    /// The value, if it has been set.
    #[inline]
    #[must_use]
    pub fn get(&self) -> Option<&T> {
        if !self.is_set() {
            return None;
        }
        // SAFETY: Y2: written, and not changed any more.
        unsafe { &*self.value.get() }.as_ref()
    }

    #[inline]
    fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Acquire)
    }

    /// Waits until the value has been set.
    ///
    /// # Errors
    /// [`Cancelled`] when the wait is cancelled.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// A cancel point; there is nothing to lose.
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
            let wait = Wait::new("a value to be set", Role::Notify, Mode::Cancellable);
            let ended = wait.in_line(line, |line| line, || (), || self.line.lock());
            if let Ended::Cancelled(line) = ended {
                drop(line);
                return Err(task::cancelled_wait());
            }
        }
    }

    /// The value, if it has been set.
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
