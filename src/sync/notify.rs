//! One notification, which waits for whoever comes for it.

use std::fmt;

use super::permits::Permits;
use crate::park::WaitList;
use crate::source::{Arms, Source, Won};
use crate::task::Cancelled;

/// Tells a task or thread that something has happened.
///
/// A notification that finds nobody waiting is remembered, and the next wait returns at once; more of them are remembered as one. So
/// whoever changes something, then notifies, and whoever looks, then waits, do not miss each other. Those who wait are notified in the
/// order in which they came.
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
    // One permit is a notification.
    permits: Permits,
}

impl Notify {
    /// One without a notification.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new() -> Notify {
        Notify { permits: Permits::new(0) }
    }

    /// One without a notification.
    #[must_use]
    #[cfg(loom)]
    pub fn new() -> Notify {
        Notify { permits: Permits::new(0) }
    }

    /// Waits for a notification, and takes it.
    ///
    /// # Errors
    /// [`Cancelled`] when the wait is cancelled.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// A cancel point. No notification has been taken then; one that had come to this wait already wins over the cancellation.
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
        self.permits.acquire(1)
    }

    /// Notifies the one who has waited longest, or whoever waits next.
    pub fn notify_one(&self) {
        self.permits.release_one_at_most();
    }

    /// Notifies everybody who waits now. Nothing is remembered.
    ///
    /// # Examples
    /// ```
    /// let news = ecru::sync::Notify::new();
    /// news.notify_all();
    /// assert!(ecru::Source::try_take(&news).is_none());
    /// ```
    #[doc(alias = "notify_waiters")]
    pub fn notify_all(&self) {
        self.permits.admit_all();
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

    fn __give_back(&self, won: &Won<'_>) {
        if self.__finish(won).is_some() {
            self.notify_one();
        }
    }
}
