//! Waiting for a number of things to have happened.

use std::fmt;

use super::line::{Ended, Wait};
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::park::{Mode, Role, WaitList};
use crate::source::Source;
use crate::task::{self, Cancelled};

/// A count that goes down to zero, and those who wait for that. Then it is open, for ever.
///
/// It is a [`Source`] that always has something once it is open.
///
/// # Examples
/// ```
/// use ecru::sync::Latch;
///
/// ecru::run(|| {
///     let ready = Latch::new(3);
///     ecru::scope(|s| {
///         for _ in 0..3 {
///             s.spawn(|| ready.count_down());
///         }
///         ready.wait().unwrap();
///         assert!(ready.is_open());
///     });
/// });
/// ```
pub struct Latch {
    left: AtomicUsize,
    line: WaitList,
}

impl Latch {
    /// One that opens after so many [`count_down`](Latch::count_down)s; after none: it is open.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new(count: usize) -> Latch {
        Latch { left: AtomicUsize::new(count), line: WaitList::new() }
    }

    /// One that opens after so many [`count_down`](Latch::count_down)s; after none: it is open.
    #[must_use]
    #[cfg(loom)]
    pub fn new(count: usize) -> Latch {
        Latch { left: AtomicUsize::new(count), line: WaitList::new() }
    }

    /// One less to wait for. If it is open already nothing happens.
    ///
    /// # Examples
    /// ```
    /// let latch = ecru::sync::Latch::new(1);
    /// latch.count_down();
    /// latch.count_down();
    /// assert_eq!(latch.count(), 0);
    /// ```
    pub fn count_down(&self) {
        // Release and acquire: who sees it open sees what was done before each call.
        let down = |left: usize| left.checked_sub(1);
        let before = self.left.fetch_update(Ordering::AcqRel, Ordering::Relaxed, down);
        if before == Ok(1) {
            // Who gets in line looks once more under its lock: it sees the zero, or is found here.
            self.line.notify_all();
        }
    }

    /// How many are left to wait for.
    #[must_use]
    pub fn count(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }

    /// Whether there is nothing left to wait for.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.count() == 0
    }

    /// Waits until it is open.
    ///
    /// # Errors
    /// [`Cancelled`] when the wait is cancelled.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// A cancel point; there is nothing to lose.
    #[inline]
    #[track_caller]
    pub fn wait(&self) -> Result<(), Cancelled> {
        task::begin_wait()?;
        if self.is_open() { Ok(()) } else { self.wait_slowly() }
    }

    #[cold]
    #[track_caller]
    fn wait_slowly(&self) -> Result<(), Cancelled> {
        loop {
            let line = self.line.lock();
            if self.is_open() {
                return Ok(());
            }
            let wait = Wait::new("a latch to open", Role::Notify, Mode::Cancellable);
            let ended = wait.in_line(line, |line| line, || (), || self.line.lock());
            if let Ended::Cancelled(line) = ended {
                drop(line);
                return Err(task::cancelled_wait());
            }
        }
    }
}

impl fmt::Debug for Latch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latch").field("count", &self.count()).finish()
    }
}

impl Source for Latch {
    type Item = ();

    fn try_take(&self) -> Option<()> {
        self.is_open().then_some(())
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.line);
    }
}
