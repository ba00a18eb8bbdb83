//! A future of an item, for other people's runtimes.
#![expect(unsafe_code, reason = "keeps its source on the heap, by pointer")]

use std::fmt;
use std::future::Future;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll, Waker};

use super::standing::{Bell, SetUp, Standing, set_up};
use super::traits::Source;
use crate::base::sync::SpinLock;
use crate::task::drop_quietly;

/// A future of an item of a source: from [`Source::to_future`]. Polled again after it was ready it is a future of the next item.
///
/// It needs no runtime of ecru's, and may be polled and dropped on any thread if its source may. To wait for it in direct style use
/// [`block_on`](crate::block_on), or rather wait for the source.
///
/// # Cancellation
/// Dropping it loses nothing: see [`Source::to_future`].
pub struct SourceFuture<S: Source> {
    /// Owned, on the heap: registrations name lists that may be in it, and the future may move.
    source: NonNull<S>,
    standing: Option<Standing<Caller>>,
}

// SAFETY: N1: the source is used by whoever has the future only; registrations are guarded by the locks of their lists.
unsafe impl<S: Source + Send> Send for SourceFuture<S> {}

/// Who is to be woken: a counted waker, never anything on a stack.
struct Caller {
    waker: SpinLock<Option<Waker>>,
}

impl Caller {
    fn set(&self, waker: &Waker) {
        // Cloned and dropped without the lock: both are the user's code.
        let fresh = waker.clone();
        let before = self.waker.lock().replace(fresh);
        drop(before);
    }
}

impl Bell for Caller {
    fn ring(&self) {
        let waker = self.waker.lock().take();
        if let Some(waker) = waker {
            // Whoever rings has nothing to do with a runtime whose waker panics.
            let woken = panic::catch_unwind(AssertUnwindSafe(|| waker.wake()));
            drop_quietly(woken);
        }
    }
}

impl<S: Source> SourceFuture<S> {
    pub(super) fn new(source: S) -> SourceFuture<S> {
        let source = NonNull::from(Box::leak(Box::new(source)));
        SourceFuture { source, standing: None }
    }
}

impl<S: Source> Future for SourceFuture<S> {
    type Output = S::Item;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<S::Item> {
        let this = self.get_mut();
        // SAFETY: N1: the box is the future's, and shared with registrations at most.
        let source = unsafe { this.source.as_ref() };
        if let Some(standing) = &this.standing {
            // First the waker, then the look: who rings does it the other way round.
            standing.bell().set(context.waker());
            if !standing.has_rung() {
                return Poll::Pending;
            }
            standing.refuse_in_predicate();
        }
        if let Some(item) = this.standing.take().and_then(|standing| standing.finish(source)) {
            return Poll::Ready(item);
        }
        let bell = || Caller { waker: SpinLock::new(Some(context.waker().clone())) };
        // SAFETY: N1: the source is on the heap, and freed only in `drop`, after the wait has been given up.
        match unsafe { set_up(source, true, bell) } {
            SetUp::Ready(item) => Poll::Ready(item),
            SetUp::Waits(standing) => {
                this.standing = Some(standing);
                Poll::Pending
            }
        }
    }
}

impl<S: Source> Drop for SourceFuture<S> {
    fn drop(&mut self) {
        // SAFETY: N1: as in `poll`.
        let source = unsafe { self.source.as_ref() };
        if let Some(standing) = self.standing.take() {
            standing.give_up(source);
        }
        // SAFETY: N1: made of a box, and no registration is left.
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
