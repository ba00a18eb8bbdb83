//! A future of a source's item, for any async runtime.
#![expect(unsafe_code, reason = "keeps its source on the heap, by raw pointer")]

use std::fmt;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker, ready};

use super::missed::Missed;
use super::standing::{Bell, SetUp, Standing, set_up};
use super::traits::Source;
use crate::base::sync::SpinLock;
use crate::task::{self, drop_quietly};

/// A future of an item of a source, returned by [`Source::to_future`]. After it was ready, it can
/// be polled again for the next item.
///
/// It needs no runtime of ecru, and may be polled and dropped on any thread if its source may. To
/// wait for it in direct style, use [`block_on`](crate::block_on), or better wait for the source
/// itself.
///
/// # Cancellation
/// Dropping the future loses no item: see [`Source::to_future`].
///
/// # Examples
/// ```
/// use ecru::{Source, channel};
///
/// let (sender, receiver) = channel::unbounded();
/// (1..=2).for_each(|n| sender.send(n).unwrap());
/// let mut items = receiver.to_future();
/// assert_eq!(ecru::block_on(&mut items), Ok(Ok(1)));
/// assert_eq!(ecru::block_on(items), Ok(Ok(2)));
/// ```
pub struct SourceFuture<S: Source> {
    /// The owned source. It is on the heap because registrations point to lists that may be inside
    /// it, and the future may move.
    source: NonNull<S>,
    standing: Option<Standing<Caller>>,
    missed: Missed,
}

// SAFETY: N1: only the owner of the future uses the source. Registrations are guarded by the locks
// of their lists.
unsafe impl<S: Source + Send> Send for SourceFuture<S> {}

/// The waker of the task that polls. It is reference-counted and never points to a stack.
struct Caller {
    waker: SpinLock<Option<Waker>>,
}

impl Caller {
    fn set(&self, waker: &Waker) {
        // The waker is cloned and dropped outside the lock, because both run user code.
        let fresh = waker.clone();
        let before = self.waker.lock().replace(fresh);
        drop(before);
    }
}

impl Bell for Caller {
    fn ring(&self) {
        let waker = self.waker.lock().take();
        if let Some(waker) = waker {
            // A waker that panics must not affect the code that rings, which may belong to another
            // runtime.
            let woken = panic::catch_unwind(AssertUnwindSafe(|| waker.wake()));
            drop_quietly(woken);
        }
    }
}

impl<S: Source> SourceFuture<S> {
    pub(super) fn new(source: S) -> SourceFuture<S> {
        let mut missed = Missed::new();
        let nothing = source.__missed(&mut missed);
        debug_assert!(nothing.is_none(), "numbers were only noted");
        let source = NonNull::from(Box::leak(Box::new(source)));
        SourceFuture { source, standing: None, missed }
    }

    /// Returns the source, for instance the handle of a task that is to be cancelled.
    ///
    /// # Examples
    /// ```
    /// ecru::run(|| {
    ///     let hour = std::time::Duration::from_secs(3600);
    ///     let ended = ecru::spawn(move || ecru::sleep(hour)).into_future();
    ///     ended.get_ref().cancel();
    ///     // It ends early, or has not begun.
    ///     assert!(!matches!(ecru::block_on(ended), Ok(Ok(Ok(())))));
    /// });
    /// ```
    #[must_use]
    pub fn get_ref(&self) -> &S {
        // SAFETY: N1: the source lives in its box until this future is dropped.
        unsafe { self.source.as_ref() }
    }

    /// Takes an event that came since the future was made, or was ready last.
    fn take_missed(&mut self) -> Option<S::Item> {
        // SAFETY: N1: the source lives in its box until this future is dropped.
        let source = unsafe { self.source.as_ref() };
        if self.missed.compare() { source.__missed(&mut self.missed) } else { None }
    }

    /// Returns an item. The wait for the next one begins now.
    fn ready(&mut self, item: S::Item) -> Poll<S::Item> {
        // SAFETY: N1: the source lives in its box until this future is dropped.
        let source = unsafe { self.source.as_ref() };
        task::spend_poll_budget(1);
        self.missed.note();
        let nothing = source.__missed(&mut self.missed);
        debug_assert!(nothing.is_none(), "numbers were only noted");
        Poll::Ready(item)
    }
}

impl<S: Source> Future for SourceFuture<S> {
    type Output = S::Item;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<S::Item> {
        ready!(task::poll_budget(context));
        let this = self.get_mut();
        // SAFETY: N1: the future owns the box, and shares it only with registrations.
        let source = unsafe { this.source.as_ref() };
        if let Some(standing) = &this.standing {
            // The waker is stored before `rung` is read. The ringing side sets `rung` before it
            // takes the waker. So no wake-up is lost.
            standing.bell().set(context.waker());
            if !standing.has_rung() {
                return Poll::Pending;
            }
            standing.refuse_in_predicate();
        }
        if let Some(item) = this.standing.take().and_then(|standing| standing.finish(source)) {
            return this.ready(item);
        }
        if let Some(item) = this.take_missed() {
            return this.ready(item);
        }
        let bell = || Caller { waker: SpinLock::new(Some(context.waker().clone())) };
        // SAFETY: N1: the source is on the heap, and is freed only in `drop`, after the wait has
        // been given up.
        match unsafe { set_up(source, true, bell) } {
            SetUp::Ready(item) => this.ready(item),
            SetUp::Waits(standing) => {
                // An event may have come before the wait was in its line.
                if let Some(item) = this.take_missed() {
                    standing.give_up(source);
                    return this.ready(item);
                }
                this.standing = Some(standing);
                Poll::Pending
            }
        }
    }
}

impl<S: Source> Drop for SourceFuture<S> {
    fn drop(&mut self) {
        // SAFETY: N1: the source lives in its box until this future is dropped.
        let source = unsafe { self.source.as_ref() };
        if let Some(standing) = self.standing.take() {
            standing.give_up(source);
        }
        // SAFETY: N1: the pointer comes from a box, and no registration is left.
        drop(unsafe { Box::from_raw(self.source.as_ptr()) });
    }
}

impl<S: Source> fmt::Debug for SourceFuture<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SourceFuture").field("waits", &self.standing.is_some()).finish()
    }
}

#[cfg(all(test, loom))]
mod loom_models;
