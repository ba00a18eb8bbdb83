//! A value that is made when it is first used.

use std::fmt;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

use super::once_lock::OnceLock;

/// A value that `make` makes when it is first used, once, whoever comes first.
///
/// As `std::sync::LazyLock`, for tasks and threads. If the closure panics there is nobody left to make the value: that use panics, and
/// so does every later one.
///
/// # Examples
/// ```
/// use ecru::sync::LazyLock;
///
/// static WORDS: LazyLock<Vec<&str>> = LazyLock::new(|| "undyed cloth".split(' ').collect());
/// assert_eq!(WORDS.len(), 2);
/// ```
pub struct LazyLock<T, F = fn() -> T> {
    value: OnceLock<T>,
    /// The closure, until it is called. Nobody waits for this lock: it is held for a move.
    make: Mutex<Option<F>>,
}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// One whose value `make` will make.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new(make: F) -> LazyLock<T, F> {
        LazyLock { value: OnceLock::new(), make: Mutex::new(Some(make)) }
    }

    /// One whose value `make` will make.
    #[must_use]
    #[cfg(loom)]
    pub fn new(make: F) -> LazyLock<T, F> {
        LazyLock { value: OnceLock::new(), make: Mutex::new(Some(make)) }
    }

    /// The value, which is made now unless it has been. While somebody else is making it this waits. The same as dereferencing.
    ///
    /// # Panics
    /// When the closure panics, or has; when it uses the value that it is making; inside [`no_suspend`](crate::no_suspend) while there is
    /// no value.
    ///
    /// # Cancellation
    /// No cancel point, but the closure may have some.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::LazyLock;
    ///
    /// let answer = LazyLock::new(|| 42);
    /// assert_eq!(LazyLock::force(&answer), &42);
    /// ```
    #[inline]
    #[track_caller]
    pub fn force(this: &LazyLock<T, F>) -> &T {
        /// The closure has panicked.
        struct Poisoned;
        let made = this.value.get_or_try_init(|| {
            let make = this.make.lock().unwrap_or_else(PoisonError::into_inner).take();
            make.map_or(Err(Poisoned), |make| Ok(make()))
        });
        match made {
            Ok(value) => value,
            // std's words, and what they mean. Here, so that the place is the caller's.
            Err(Poisoned) => panic!(
                "LazyLock instance has previously been poisoned: its closure has panicked, so it has no value and never will"
            ),
        }
    }
}

impl<T, F> LazyLock<T, F> {
    /// The value, if it has been made. Never waits, and never makes it.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::LazyLock;
    ///
    /// let answer = LazyLock::new(|| 42);
    /// assert_eq!(LazyLock::get(&answer), None);
    /// LazyLock::force(&answer);
    /// assert_eq!(LazyLock::get(&answer), Some(&42));
    /// ```
    #[inline]
    pub fn get(this: &LazyLock<T, F>) -> Option<&T> {
        this.value.get()
    }

    /// The value, if it has been made, to change it.
    #[inline]
    pub fn get_mut(this: &mut LazyLock<T, F>) -> Option<&mut T> {
        this.value.get_mut()
    }
}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// The value, to change it; it is made now unless it has been.
    ///
    /// # Panics
    /// As [`LazyLock::force`].
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::LazyLock;
    ///
    /// let mut answer = LazyLock::new(|| 41);
    /// *LazyLock::force_mut(&mut answer) += 1;
    /// assert_eq!(*answer, 42);
    /// ```
    #[track_caller]
    pub fn force_mut(this: &mut LazyLock<T, F>) -> &mut T {
        LazyLock::force(this);
        this.value.get_mut().expect("made just now")
    }
}

impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;

    #[inline]
    #[track_caller]
    fn deref(&self) -> &T {
        LazyLock::force(self)
    }
}

impl<T: Default> Default for LazyLock<T> {
    fn default() -> LazyLock<T> {
        LazyLock::new(T::default)
    }
}

impl<T: fmt::Debug, F> fmt::Debug for LazyLock<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value.get() {
            Some(value) => f.debug_tuple("LazyLock").field(value).finish(),
            None => f.debug_tuple("LazyLock").field(&format_args!("<uninit>")).finish(),
        }
    }
}
