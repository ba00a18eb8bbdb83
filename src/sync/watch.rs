//! A value that changes, for waiters that want the latest one.
//!
//! # State
//! `word` is twice the number of changes, plus [`ENDED`] once the [`Watch`] has been dropped. A
//! change is made, and counted, under the lock of `latest`. A value and its number are read together
//! under that lock. A [`Subscriber`] stores the number of the last value that it has taken.
//!
//! # User code
//! Values are shared by `Arc`. So clones are made, and old values are dropped, with no lock held.
//! The function of an update runs on a copy while its updater holds `updates`, and under
//! `no_suspend`: it can wait neither for the next update nor for anything else. [`Watch::set`] does
//! not take that lock. If it comes between the two ends of an update, the update counts as the
//! earlier of the two, so its result is dropped.

#![expect(unsafe_code, reason = "describes the objects of waits")]

use std::fmt;
use std::mem;
use std::ptr;
use std::sync::Arc;

use super::holder;
use super::mutex::Mutex;
use crate::base::sync::SpinLock;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::base::tag::Tag;
use crate::park::{About, Mode, Outcome, Wait, WaitList, What, no_suspend};
use crate::source::Source;
use crate::task::{self, Cancelled};

/// In `word`: the `Watch` has been dropped.
const ENDED: usize = 1;
/// One change, in `word`.
const CHANGE: usize = 2;

/// A value that changes, for tasks and threads that want the latest value and may skip those before
/// it. Settings and progress are examples.
///
/// Any number of tasks and threads may set the value through a shared reference. Each
/// [`Subscriber`] waits for the values that it has not seen. Subscribers that are slow, or are never
/// used again, delay neither `set` nor each other.
///
/// # Examples
/// ```
/// use ecru::Source;
/// use ecru::sync::Watch;
///
/// ecru::run(|| {
///     let progress = Watch::new(0);
///     let seen = progress.subscribe();
///     ecru::scope(|s| {
///         // The watch is dropped at the end of this task, which ends the other one's loop.
///         s.spawn(move || {
///             for percent in [20, 60, 100] {
///                 progress.set(percent);
///             }
///         });
///         let last = s.spawn(move || {
///             let mut last = None;
///             while let Some(percent) = seen.wait().unwrap() {
///                 last = Some(percent);
///             }
///             last
///         });
///         assert_eq!(last.join().unwrap(), Some(100));
///     });
/// });
/// ```
#[doc(alias = "watch")]
pub struct Watch<T> {
    shared: Arc<Shared<T>>,
}

struct Shared<T> {
    word: AtomicUsize,
    latest: SpinLock<Arc<T>>,
    /// Held by the one update that is being made.
    updates: Mutex<()>,
    line: WaitList,
    tag: Tag,
}

/// A wait for the next value of a [`Watch`].
// SAFETY: O1: the object is the tag of the watch, which the wait borrows.
static A_CHANGE: What = unsafe { What::about("a watched value to change", describe) };

/// `changes` is the number of the value that is waited behind.
///
/// # Safety
/// O1: `tag` is the [`Tag`] of a watch.
unsafe fn describe(tag: *const (), changes: usize) -> (&'static str, About) {
    // SAFETY: O1, the caller's promise.
    let this = unsafe { &*tag.cast::<Tag>() };
    let state = match changes / CHANGE {
        1 => String::from("1 change so far"),
        count => format!("{count} changes so far"),
    };
    ("a watched value to change", holder::about(tag, this, &state))
}

impl<T> Watch<T> {
    /// Creates a watch with a first value.
    #[must_use]
    pub fn new(value: T) -> Watch<T> {
        Watch {
            shared: Arc::new(Shared {
                word: AtomicUsize::new(0),
                latest: SpinLock::new(Arc::new(value)),
                updates: Mutex::new(()),
                line: WaitList::new(),
                tag: Tag::new(),
            }),
        }
    }

    /// Gives the watch a name, which [dumps](crate::diag) show of its subscribers. A watch that has
    /// a name keeps it.
    ///
    /// # Examples
    /// ```
    /// let level = ecru::sync::Watch::new(1).named("level");
    /// assert_eq!(level.get(), 1);
    /// ```
    #[must_use]
    pub fn named(self, name: impl AsRef<str>) -> Watch<T> {
        self.shared.tag.set_name(name.as_ref());
        self
    }

    /// Replaces the value, and wakes the subscribers that wait. Never waits.
    ///
    /// The old value is dropped here, unless it is being read.
    ///
    /// # Examples
    /// ```
    /// let level = ecru::sync::Watch::new(1);
    /// level.set(2);
    /// assert_eq!(level.get(), 2);
    /// ```
    #[doc(alias = "send")]
    pub fn set(&self, value: T) {
        let replaced = self.shared.replace(Arc::new(value), None);
        self.shared.line.notify_all();
        drop(replaced);
    }

    /// Changes the value by `f`, and wakes the subscribers that wait. Updates are made one after
    /// another, and each sees the result of the one before. Returns the result of `f`.
    ///
    /// `f` is called once, with a clone of the value, so it may run while the value is being read.
    /// If [`set`](Watch::set) replaces the value meanwhile, the update counts as made before that: the
    /// value that was set stays. The clone is made, and `f` runs, under [`no_suspend`]. In `f`, `get`
    /// and `set` may be called, and `update` panics.
    ///
    /// # Panics
    /// Panics inside [`no_suspend`]. Propagates a panic of `f` or of the clone.
    /// The value is unchanged then, and no subscriber is woken.
    ///
    /// # Cancellation
    /// This is not a cancellation point. It waits for other updates even if the caller has been
    /// cancelled.
    ///
    /// # Examples
    /// ```
    /// let scores = ecru::sync::Watch::new(vec![3]);
    /// let count = scores.update(|scores| {
    ///     scores.push(5);
    ///     scores.len()
    /// });
    /// assert_eq!((count, scores.get()), (2, vec![3, 5]));
    /// ```
    #[doc(alias = "send_modify")]
    #[track_caller]
    pub fn update<R>(&self, f: impl FnOnce(&mut T) -> R) -> R
    where
        T: Clone,
    {
        // Destructors of values are user code, too. They run after `updates` has been released,
        // because these variables are dropped after the guard.
        let mut new = None;
        let (old, replaced);
        let result = {
            let _turn = self.shared.updates.lock();
            let changes;
            (old, changes) = self.shared.latest();
            let result = no_suspend(|| f(new.insert(T::clone(&old))));
            replaced = new.take().map(|new| self.shared.replace(Arc::new(new), Some(changes)));
            result
        };
        self.shared.line.notify_all();
        drop((old, replaced));
        result
    }

    /// Returns a clone of the value. Never waits.
    #[doc(alias = "borrow")]
    #[must_use]
    pub fn get(&self) -> T
    where
        T: Clone,
    {
        self.with(T::clone)
    }

    /// Calls `f` with the value. The value may be replaced meanwhile, so `f` may do anything,
    /// including a wait.
    ///
    /// # Panics
    /// Propagates a panic of `f`.
    ///
    /// # Examples
    /// ```
    /// let names = ecru::sync::Watch::new(vec!["Ada", "Grace"]);
    /// assert_eq!(names.with(|names| names.len()), 2);
    /// ```
    pub fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        f(&self.shared.latest().0)
    }

    /// Creates a subscriber. It has seen the present value, and waits for later ones.
    #[must_use]
    pub fn subscribe(&self) -> Subscriber<T> {
        let (_, changes) = self.shared.latest();
        Subscriber { shared: Arc::clone(&self.shared), seen: AtomicUsize::new(changes) }
    }
}

/// Ends the loops of the subscribers: see [`Subscriber`].
impl<T> Drop for Watch<T> {
    fn drop(&mut self) {
        // Release: pairs with the acquire in `Shared::is_after`.
        self.shared.word.fetch_or(ENDED, Ordering::Release);
        self.shared.line.notify_all();
    }
}

impl<T: Default> Default for Watch<T> {
    fn default() -> Watch<T> {
        Watch::new(T::default())
    }
}

impl<T: fmt::Debug> fmt::Debug for Watch<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|value| f.debug_tuple("Watch").field(value).finish())
    }
}

impl<T> Shared<T> {
    /// Returns the value and its number.
    fn latest(&self) -> (Arc<T>, usize) {
        let latest = self.latest.lock();
        (Arc::clone(&latest), self.word.load(Ordering::Relaxed) & !ENDED)
    }

    /// Makes `value` the latest. If `after` is given, and is not the number of the latest value, it
    /// does nothing. Returns the value that is not wanted any more.
    fn replace(&self, mut value: Arc<T>, after: Option<usize>) -> Arc<T> {
        let mut latest = self.latest.lock();
        let now = self.word.load(Ordering::Relaxed);
        if after.is_none_or(|after| after == now & !ENDED) {
            mem::swap(&mut *latest, &mut value);
            // Release: pairs with the acquire in `is_after`.
            self.word.store(now + CHANGE, Ordering::Release);
        }
        value
    }

    /// Returns whether the value with the number `seen` has been replaced, or the watch has been
    /// dropped.
    fn is_after(&self, seen: usize) -> bool {
        self.word.load(Ordering::Acquire) != seen
    }

    fn has_ended(&self) -> bool {
        self.word.load(Ordering::Acquire) & ENDED != 0
    }

    /// Waits until [`is_after`](Shared::is_after) is true.
    #[track_caller]
    fn wait_after(&self, seen: usize) -> Result<(), Cancelled> {
        loop {
            let line = self.line.lock();
            // The word changes before the line is notified. So this sees the change, or the
            // notification finds this wait in the line.
            if self.is_after(seen) {
                return Ok(());
            }
            let wait = Wait {
                object: ptr::from_ref(&self.tag).cast(),
                detail: seen,
                ..Wait::new(&A_CHANGE, Mode::Cancellable)
            };
            let ended = wait.in_line(line, |line| line, || (), || self.line.lock());
            if let Outcome::Cancelled(line) = ended {
                drop(line);
                return Err(task::cancelled_wait());
            }
        }
    }
}

/// A subscriber of a [`Watch`], which receives the latest value whenever that is a new one.
///
/// It is a [`Source`]. Its items are `Some` of a clone of the latest value, if the subscriber has
/// not seen that value yet, and `None` if it has, and the [`Watch`] has been dropped. So the last
/// value before the end is still received. If several tasks wait with one subscriber, each value
/// goes to one of them. A value whose clone panics counts as seen. A clone of a subscriber has seen
/// the same values, and is independent from then on.
///
/// A subscriber keeps the latest value alive, even if the watch has been dropped. A subscriber that
/// is forgotten, as by [`mem::forget`], leaks it, and has no other effect.
///
/// # Examples
/// ```
/// use ecru::Source;
/// use ecru::sync::Watch;
///
/// let level = Watch::new(1);
/// let levels = level.subscribe();
/// assert_eq!(levels.try_take(), None);
/// level.set(2);
/// level.set(3);
/// assert_eq!(levels.wait(), Ok(Some(3)));
/// drop(level);
/// assert_eq!(levels.wait(), Ok(None));
/// ```
pub struct Subscriber<T> {
    shared: Arc<Shared<T>>,
    /// The number of the last value that was taken.
    seen: AtomicUsize,
}

impl<T> Subscriber<T> {
    /// Returns a clone of the latest value, which the subscriber may have seen or not. This does not
    /// count as seeing it. Never waits.
    #[must_use]
    pub fn get(&self) -> T
    where
        T: Clone,
    {
        self.with(T::clone)
    }

    /// Calls `f` with the latest value, as [`Watch::with`] does. This does not count as seeing it.
    ///
    /// # Panics
    /// Propagates a panic of `f`.
    pub fn with<R>(&self, f: impl FnOnce(&T) -> R) -> R {
        f(&self.shared.latest().0)
    }

    /// Returns whether the latest value has not been seen. Never waits.
    #[must_use]
    pub fn has_changed(&self) -> bool {
        let changes = self.shared.word.load(Ordering::Acquire) & !ENDED;
        changes != self.seen.load(Ordering::Relaxed)
    }

    /// Waits until the latest value is one that `accepts` returns true for, and returns a clone of
    /// it. The first value that is examined is the present one, whether it has been seen or not. The
    /// returned value counts as seen. Values that are replaced quickly may be skipped.
    ///
    /// Returns `None` if the [`Watch`] has been dropped, and `accepts` refuses its last value.
    /// `accepts` runs on the calling task or thread, and may do anything, including a wait.
    ///
    /// # Errors
    /// Returns [`Cancelled`] if the wait is cancelled.
    ///
    /// # Panics
    /// Panics inside [`no_suspend`]. Propagates a panic of `accepts`.
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled call has seen nothing.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::Watch;
    ///
    /// let open = Watch::new(0);
    /// let connections = open.subscribe();
    /// std::thread::scope(|s| {
    ///     s.spawn(|| assert_eq!(connections.wait_for(|open| *open > 2), Ok(Some(3))));
    ///     for _ in 0..3 {
    ///         open.update(|open| *open += 1);
    ///     }
    /// });
    /// ```
    #[track_caller]
    pub fn wait_for(&self, mut accepts: impl FnMut(&T) -> bool) -> Result<Option<T>, Cancelled>
    where
        T: Clone,
    {
        loop {
            task::begin_wait()?;
            // The end comes after the last value.
            let has_ended = self.shared.has_ended();
            let (latest, changes) = self.shared.latest();
            if accepts(&latest) {
                self.note_seen(changes);
                return Ok(Some(T::clone(&latest)));
            }
            if has_ended {
                return Ok(None);
            }
            // A wait keeps no old value.
            drop(latest);
            self.shared.wait_after(changes)?;
        }
    }

    /// Notes that a value is being taken. Returns false if this value or a later one has been taken
    /// before.
    fn note_seen(&self, changes: usize) -> bool {
        self.seen.fetch_max(changes, Ordering::Relaxed) < changes
    }
}

impl<T: Clone> Source for Subscriber<T> {
    type Item = Option<T>;

    fn try_take(&self) -> Option<Option<T>> {
        // If another wait with this subscriber takes the value first, this looks again.
        while self.shared.is_after(self.seen.load(Ordering::Relaxed)) {
            // The end comes after the last value.
            let has_ended = self.shared.has_ended();
            let (latest, changes) = self.shared.latest();
            if self.note_seen(changes) {
                return Some(Some(T::clone(&latest)));
            }
            if has_ended {
                return Some(None);
            }
        }
        None
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.shared.line);
    }

    #[track_caller]
    fn wait(&self) -> Result<Option<T>, Cancelled> {
        loop {
            task::begin_wait()?;
            let seen = self.seen.load(Ordering::Relaxed);
            if let Some(item) = self.try_take() {
                return Ok(item);
            }
            self.shared.wait_after(seen)?;
        }
    }
}

impl<T> Clone for Subscriber<T> {
    fn clone(&self) -> Subscriber<T> {
        let seen = AtomicUsize::new(self.seen.load(Ordering::Relaxed));
        Subscriber { shared: Arc::clone(&self.shared), seen }
    }
}

impl<T: fmt::Debug> fmt::Debug for Subscriber<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.with(|value| {
            f.debug_struct("Subscriber")
                .field("latest", value)
                .field("has_changed", &self.has_changed())
                .finish()
        })
    }
}

#[cfg(all(test, loom))]
mod loom_models;
