//! Code that runs once.

use std::fmt;

use super::once_lock::OnceLock;

/// Runs a closure once, however many tasks and threads want that, and makes the others wait until it
/// has run.
///
/// It works like `std::sync::Once`, with these differences: a task that waits is parked, so the
/// closure may wait, and a closure that panics poisons nothing: the next caller runs its own. If the
/// closure makes a value, use a [`OnceLock`].
///
/// # Examples
/// ```
/// use ecru::sync::Once;
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
///
/// static PREPARED: Once = Once::new();
/// static RUNS: AtomicUsize = AtomicUsize::new(0);
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         for _ in 0..3 {
///             s.spawn(|| PREPARED.call_once(|| _ = RUNS.fetch_add(1, Relaxed)));
///         }
///     });
///     assert!(PREPARED.is_completed() && RUNS.load(Relaxed) == 1);
/// });
/// ```
#[derive(Default)]
pub struct Once {
    done: OnceLock<()>,
}

impl Once {
    /// Creates a `Once` whose closure has not run.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> Once {
        Once { done: OnceLock::new() }
    }

    /// Creates a `Once` whose closure has not run.
    #[must_use]
    #[cfg(loom)]
    pub fn new() -> Once {
        Once { done: OnceLock::new() }
    }

    /// Gives this object a name, which [dumps](crate::diag) show while tasks wait for its closure. An
    /// object that has a name keeps it.
    ///
    /// # Examples
    /// ```
    /// let prepared = ecru::sync::Once::new().named("prepared");
    /// prepared.call_once(|| ());
    /// ```
    #[must_use]
    pub fn named(self, name: impl AsRef<str>) -> Once {
        Once { done: self.done.named(name) }
    }

    /// Runs `f`, unless a closure has run to its end before. Waits if another caller is running one.
    /// Afterwards everything that the closure has done is visible.
    ///
    /// # Panics
    /// Propagates a panic of `f`. The next caller then runs its own closure. Panics if `f` calls this
    /// on the same `Once`. Panics inside [`no_suspend`](crate::no_suspend), unless a closure has run.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    #[track_caller]
    pub fn call_once(&self, f: impl FnOnce()) {
        self.done.get_or_init(f);
    }

    /// Waits until a closure has run, without running one.
    ///
    /// # Panics
    /// Panics inside [`no_suspend`](crate::no_suspend), unless a closure has run.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    ///
    /// # Examples
    /// ```
    /// let once = ecru::sync::Once::new();
    /// std::thread::scope(|s| {
    ///     s.spawn(|| once.wait());
    ///     once.call_once(|| ());
    /// });
    /// ```
    #[track_caller]
    pub fn wait(&self) {
        self.done.wait();
    }

    /// Returns whether a closure has run to its end.
    #[must_use]
    pub fn is_completed(&self) -> bool {
        self.done.get().is_some()
    }
}

impl fmt::Debug for Once {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Once").field("completed", &self.is_completed()).finish()
    }
}
