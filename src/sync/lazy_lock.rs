//! A value that is computed on first use.

use std::fmt;
use std::ops::Deref;
use std::sync::{Mutex, PoisonError};

use super::once_lock::OnceLock;

/// A value that is initialized by a closure on first use.
///
/// It works like `std::sync::LazyLock`, for tasks and threads. The closure is called at most once.
/// If it panics, that use panics and so does every later one, because no closure is left to call.
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
    /// The closure, until it is called. This lock is held only for the moment in which the closure
    /// is moved out, so no wait for it is noticeable.
    make: Mutex<Option<F>>,
}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// Creates a lazy value that `make` initializes on first use.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new(make: F) -> LazyLock<T, F> {
        LazyLock { value: OnceLock::new(), make: Mutex::new(Some(make)) }
    }

    /// Creates a lazy value that `make` initializes on first use.
    #[must_use]
    #[cfg(loom)]
    pub fn new(make: F) -> LazyLock<T, F> {
        LazyLock { value: OnceLock::new(), make: Mutex::new(Some(make)) }
    }

    /// Gives the value a name, which [dumps](crate::diag) show while tasks wait for it. A value that
    /// has a name keeps it.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::LazyLock;
    ///
    /// let answer = LazyLock::new(|| 42).named("answer");
    /// assert_eq!(*answer, 42);
    /// ```
    #[must_use]
    pub fn named(self, name: impl AsRef<str>) -> LazyLock<T, F> {
        LazyLock { value: self.value.named(name), ..self }
    }

    /// Returns the value, and initializes it if that has not happened yet. Waits while another task
    /// or thread initializes it. Dereferencing does the same.
    ///
    /// # Panics
    /// Panics if the closure panics or has panicked before, or if the closure uses the value that
    /// it is computing. Also panics inside [`no_suspend`](crate::no_suspend) while there is no
    /// value.
    ///
    /// # Cancellation
    /// This is not a cancellation point. The closure may contain cancellation points.
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
        /// The error of a value whose closure has panicked before.
        struct Poisoned;
        let made = this.value.get_or_try_init(|| {
            let make = this.make.lock().unwrap_or_else(PoisonError::into_inner).take();
            make.map_or(Err(Poisoned), |make| Ok(make()))
        });
        match made {
            Ok(value) => value,
            // The message begins with std's words and then explains them. The panic is raised here
            // so that its location is the caller's.
            Err(Poisoned) => panic!(
                "LazyLock instance has previously been poisoned: its closure has panicked, so it has no value and never will"
            ),
        }
    }
}

impl<T, F> LazyLock<T, F> {
    /// Returns the value if it is initialized. Never waits and never calls the closure.
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

    /// Returns a mutable reference to the value if it is initialized.
    #[inline]
    pub fn get_mut(this: &mut LazyLock<T, F>) -> Option<&mut T> {
        this.value.get_mut()
    }
}

impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    /// Returns a mutable reference to the value, and initializes it if that has not happened yet.
    ///
    /// # Panics
    /// Panics in the same cases as [`LazyLock::force`].
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
        this.value.get_mut().expect("initialized just now")
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
