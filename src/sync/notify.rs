//! A notification that is stored until a waiter takes it.

use std::fmt;

use super::permits::{A_NOTIFICATION, Permits};
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::park::{WaitList, What};
use crate::source::{Arms, Missed, Source, Won};
use crate::task::Cancelled;

/// A notification for a task or thread that something has happened.
///
/// A notification that finds no waiter is stored, and the next wait returns at once. Several stored
/// notifications count as one. So a task that changes something and then notifies, and a task that
/// looks and then waits, do not miss each other. Waiters are notified in the order in which they
/// arrived.
///
/// It is a [`Source`] of notifications.
///
/// # Examples
/// ```
/// use ecru::sync::Notify;
///
/// let news = Notify::new();
/// news.notify_one();
/// news.notify_one();
/// news.wait().unwrap();
/// assert!(ecru::Source::try_take(&news).is_none());
/// ```
pub struct Notify {
    // A permit stands for a notification.
    permits: Permits,
    /// How often all waiters have been notified. It changes under the lock of the permits' queue.
    calls: AtomicUsize,
}

impl Notify {
    /// Creates a `Notify` without a stored notification.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> Notify {
        Notify { permits: Permits::new(0), calls: AtomicUsize::new(0) }
    }

    /// Creates a `Notify` without a stored notification.
    #[must_use]
    #[cfg(loom)]
    pub fn new() -> Notify {
        Notify { permits: Permits::new(0), calls: AtomicUsize::new(0) }
    }

    /// Gives this object a name, which [dumps](crate::diag) show. An object that has a name keeps it.
    ///
    /// # Examples
    /// ```
    /// let news = ecru::sync::Notify::new().named("news");
    /// news.notify_one();
    /// ```
    #[must_use]
    pub fn named(self, name: impl AsRef<str>) -> Notify {
        self.permits.tag.set_name(name.as_ref());
        self
    }

    /// Waits for a notification and takes it.
    ///
    /// # Errors
    /// Returns [`Cancelled`] if the wait is cancelled.
    ///
    /// # Panics
    /// Panics if called inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled wait has taken no notification. If this wait was
    /// notified before the cancellation, it returns `Ok`.
    ///
    /// # Examples
    /// ```
    /// let news = ecru::sync::Notify::new();
    /// std::thread::scope(|s| {
    ///     s.spawn(|| news.wait().unwrap());
    ///     news.notify_one();
    /// });
    /// ```
    #[inline]
    #[track_caller]
    pub fn wait(&self) -> Result<(), Cancelled> {
        self.wait_as(&A_NOTIFICATION)
    }

    /// Waits for a notification. Dumps describe the wait as one for `what`, which describes no object.
    #[inline]
    #[track_caller]
    pub(crate) fn wait_as(&self, what: &'static What) -> Result<(), Cancelled> {
        self.permits.acquire(1, what)
    }

    /// Notifies the waiter that has waited longest. If there is no waiter, the notification is
    /// stored for the next wait.
    pub fn notify_one(&self) {
        self.permits.release_one_at_most();
    }

    /// Notifies all current waiters, and the futures of this `Notify` that exist but have not been
    /// polled yet: see [`Source::to_future`]. No notification is stored. A notified future that is
    /// dropped passes nothing on.
    ///
    /// # Examples
    /// ```
    /// let news = ecru::sync::Notify::new();
    /// news.notify_all();
    /// assert!(ecru::Source::try_take(&news).is_none());
    /// ```
    #[doc(alias = "notify_waiters")]
    pub fn notify_all(&self) {
        // Release: a future that sees the call also sees what was done before it.
        self.permits.admit_all(|| {
            self.calls.fetch_add(1, Ordering::Release);
        });
    }
}

impl Default for Notify {
    fn default() -> Notify {
        Notify::new()
    }
}

impl fmt::Debug for Notify {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Notify").field("notified", &(self.permits.free() != 0)).finish()
    }
}

impl Source for Notify {
    type Item = ();

    fn try_take(&self) -> Option<()> {
        self.permits.try_take().then_some(())
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(self.permits.line());
    }

    fn __register<'a>(&'a self, arms: &mut Arms<'a>) {
        self.permits.register(arms);
    }

    fn __finish(&self, won: &Won<'_>) -> Option<()> {
        self.permits.finish(won).then_some(())
    }

    fn __missed(&self, missed: &mut Missed) -> Option<()> {
        missed.any_of(self.calls.load(Ordering::Acquire)).then_some(())
    }

    fn __give_back(&self, won: &Won<'_>) {
        if !self.permits.was_admitted(won) && self.__finish(won).is_some() {
            self.notify_one();
        }
    }
}
