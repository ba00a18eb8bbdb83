//! A latch: waiting until a number of events has happened.

#![expect(unsafe_code, reason = "describes the objects of waits")]

use std::fmt;
use std::ptr;

use super::holder;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::base::tag::Tag;
use crate::park::{About, Mode, Outcome, Wait, WaitList, What};
use crate::source::Source;
use crate::task::{self, Cancelled};

/// A count that goes down to zero. Waiters continue when it gets there, and from then on the latch
/// stays open.
///
/// It is a [`Source`] that always has an item once it is open.
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
    tag: Tag,
}

/// A wait for a latch.
// SAFETY: O1: the object is the latch, which the wait borrows.
static OPENING: What = unsafe { What::about("a latch to open", describe) };

/// # Safety
/// O1: `latch` is a [`Latch`].
unsafe fn describe(latch: *const (), _: usize) -> (&'static str, About) {
    // SAFETY: O1, the caller's promise.
    let this = unsafe { &*latch.cast::<Latch>() };
    let state = format!("{} to go", this.count());
    ("a latch to open", holder::about(latch, &this.tag, &state))
}

impl Latch {
    /// Creates a latch that opens after `count` calls of [`count_down`](Latch::count_down). If
    /// `count` is 0, it is open from the start.
    #[must_use]
    #[cfg(not(loom))]
    pub const fn new(count: usize) -> Latch {
        Latch { left: AtomicUsize::new(count), line: WaitList::new(), tag: Tag::new() }
    }

    /// Creates a latch that opens after `count` calls of [`count_down`](Latch::count_down). If
    /// `count` is 0, it is open from the start.
    #[must_use]
    #[cfg(loom)]
    pub fn new(count: usize) -> Latch {
        Latch { left: AtomicUsize::new(count), line: WaitList::new(), tag: Tag::new() }
    }

    /// Gives the latch a name, which [dumps](crate::diag) show. A latch that has a name keeps it.
    ///
    /// # Examples
    /// ```
    /// let ready = ecru::sync::Latch::new(0).named("ready");
    /// assert!(ready.is_open());
    /// ```
    #[must_use]
    pub fn named(self, name: impl AsRef<str>) -> Latch {
        self.tag.set_name(name.as_ref());
        self
    }

    /// Decrements the count, and wakes all waiters if it reaches zero. Does nothing if the latch is
    /// open already.
    ///
    /// # Examples
    /// ```
    /// let latch = ecru::sync::Latch::new(1);
    /// latch.count_down();
    /// latch.count_down();
    /// assert_eq!(latch.count(), 0);
    /// ```
    pub fn count_down(&self) {
        // Acquire and release: a waiter that sees the latch open sees everything that happened
        // before each of these calls.
        let down = |left: usize| left.checked_sub(1);
        let before = self.left.fetch_update(Ordering::AcqRel, Ordering::Relaxed, down);
        if before == Ok(1) {
            // A waiter checks the count again under the queue's lock. It either sees zero, or this
            // call finds it in the queue.
            self.line.notify_all();
        }
    }

    /// Returns how many more calls of [`count_down`](Latch::count_down) open the latch.
    #[must_use]
    pub fn count(&self) -> usize {
        self.left.load(Ordering::Acquire)
    }

    /// Returns whether the count has reached zero.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.count() == 0
    }

    /// Waits until the latch is open.
    ///
    /// # Errors
    /// Returns [`Cancelled`] if the wait is cancelled.
    ///
    /// # Panics
    /// Panics if called inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled wait loses nothing.
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
            let object = ptr::from_ref(self).cast();
            let wait = Wait { object, ..Wait::new(&OPENING, Mode::Cancellable) };
            let ended = wait.in_line(line, |line| line, || (), || self.line.lock());
            if let Outcome::Cancelled(line) = ended {
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
