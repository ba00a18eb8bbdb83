//! Notifies wakers of news of an fd, for code that polls.
//!
//! An op is one wait. An [`Observer`] is told of all news of one fd, for as long as both exist, so a
//! wait needs neither a system call nor memory. The driver of a worker tells it, after
//! [`Observe::observe`]. On other threads, and in simulations, an [`FdAlarm`](super::FdAlarm) does.
//!
//! # Protocol
//! The word of an observer has a bit for each side that is *ready*, and a count of the news. A side
//! is ready until an attempt of it has been in vain, and ready again after news.
//!
//! ```text
//!   the code that polls                          the thread that has news
//!   ---------------------------------------      ----------------------------------------
//!   seen <- the word                             sets the bits of the sides, counts
//!   attempts the transfer                          (one exchange)
//!   in vain: clears the bit, unless the word     takes the wakers of these sides, under
//!     is another than `seen`                       their locks, and calls them later
//!   ..
//!   stores a waker, under its lock
//!   looks at the bit once more: is pending
//! ```
//! No news is lost. News between the attempt and the clearing has changed the word, so the bit
//! stays. News between the clearing and the storing of the waker has set the bit, which the last
//! look sees, because the two sides use the waker's lock in between. Later news finds the waker.
//!
//! An fd that is registered for the first time is reported at once if it is ready.
//!
//! # Drained
//! A read on a TCP connection that does not fill its buffer has left nothing behind, so it clears
//! the bit, and the next read is not attempted in vain. As in [`poll`](super::poll), this proves
//! nothing if something besides bytes may have come with the same news: the end of the stream,
//! urgent bytes, or an error. The bit `DOUBT` says so. It is set by such news, and at the
//! beginning, and by all news of what is no TCP connection: a read there may end early for other
//! reasons. An attempt in vain clears it.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::descriptor::OwnedDescriptor;
use super::op::Interest;
use crate::base::alarm::Ring;
use crate::base::sync::SpinLock;
use crate::base::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::park;
use crate::task::drop_quietly;

const READ: u32 = 1;
const WRITE: u32 = 2;
const DOUBT: u32 = 4;
/// One in the count of news. The count may wrap around: it only has to differ while an attempt is
/// made.
const NEWS: u32 = 8;

/// How often a waker is stored again that the destructor of the one before has replaced. Destructors
/// that do so for ever are not waited for.
const REPLACED_AGAIN: usize = 8;

/// The `place` of an observer that no driver tells.
const NOWHERE: usize = 0;

/// See the module.
#[derive(Debug)]
pub(crate) struct Observer {
    word: AtomicU32,
    reader: SpinLock<Option<Waker>>,
    writer: SpinLock<Option<Waker>>,
    /// The identity of the worker whose driver tells this observer.
    place: AtomicUsize,
    /// The count of observers of that driver, until this one has ended.
    counted: SpinLock<Option<Arc<AtomicUsize>>>,
}

/// The word before an attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen(u32);

/// What a driver has heard of an fd.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    pub(super) read: bool,
    pub(super) write: bool,
    /// Nothing but bytes may have come, on a TCP connection.
    pub(super) plain: bool,
}

impl Observer {
    /// Creates an observer of an fd about which nothing is known.
    pub(crate) fn new() -> Observer {
        Observer {
            word: AtomicU32::new(READ | WRITE | DOUBT),
            reader: SpinLock::new(None),
            writer: SpinLock::new(None),
            place: AtomicUsize::new(NOWHERE),
            counted: SpinLock::new(None),
        }
    }

    /// Returns what is known before an attempt.
    pub(crate) fn look(&self) -> Seen {
        Seen(self.word.load(Ordering::Acquire))
    }

    /// Notes that an attempt of the side has been in vain.
    pub(crate) fn note_in_vain(&self, seen: Seen, side: Interest) {
        let doubt = if side == Interest::Read { DOUBT } else { 0 };
        self.clear(seen, bit(side) | doubt);
    }

    /// Notes that a read has not filled its buffer, and was not the end. This changes nothing unless
    /// the last news was of a TCP connection and of bytes alone.
    pub(crate) fn note_drained(&self, seen: Seen) {
        if seen.0 & DOUBT == 0 {
            self.clear(seen, READ);
        }
    }

    fn clear(&self, seen: Seen, bits: u32) {
        let next = seen.0 & !bits;
        // If this fails there is news, and the next attempt is not in vain for certain.
        let _ = self.word.compare_exchange(seen.0, next, Ordering::AcqRel, Ordering::Relaxed);
    }

    fn is_ready(&self, side: Interest) -> bool {
        self.word.load(Ordering::Acquire) & bit(side) != 0
    }

    /// Returns whether a transfer in this direction is worth an attempt. If it is not, the waker is
    /// called after the next news. `tell` makes sure that there will be news.
    pub(crate) fn poll_ready(
        &self,
        side: Interest,
        cx: &Context<'_>,
        tell: impl FnOnce() -> io::Result<()>,
    ) -> Poll<io::Result<()>> {
        if self.is_ready(side) {
            return Poll::Ready(Ok(()));
        }
        self.keep(side, cx.waker());
        if let Err(error) = tell() {
            return Poll::Ready(Err(error));
        }
        if self.is_ready(side) { Poll::Ready(Ok(())) } else { Poll::Pending }
    }

    /// Stores the waker of the side. Wakers are cloned and dropped outside the lock, because both
    /// run user code.
    fn keep(&self, side: Interest, waker: &Waker) {
        let place = self.waker(side);
        // The destructor of a waker may poll this side, and leave another waker here. That call has
        // returned before this one, whose waker is to stay.
        for _ in 0..REPLACED_AGAIN {
            if place.lock().as_ref().is_some_and(|kept| kept.will_wake(waker)) {
                return;
            }
            let fresh = waker.clone();
            let before = place.lock().replace(fresh);
            if before.is_none() {
                return;
            }
            drop(before);
        }
    }

    fn waker(&self, side: Interest) -> &SpinLock<Option<Waker>> {
        match side {
            Interest::Read => &self.reader,
            Interest::Write => &self.writer,
        }
    }

    /// Returns whether a reader has left its waker.
    pub(crate) fn has_reader(&self) -> bool {
        self.reader.lock().is_some()
    }

    /// Returns whether a writer has left its waker.
    pub(crate) fn has_writer(&self) -> bool {
        self.writer.lock().is_some()
    }

    /// Drops the wakers that were kept. The driver may keep the observer for longer.
    pub(crate) fn forget_wakers(&self) {
        for place in [&self.reader, &self.writer] {
            let kept = place.lock().take();
            drop_quietly(kept);
        }
    }

    /// Notes news. Appends the wakers that are to be called.
    pub(super) fn hear(&self, heard: Heard, wakers: &mut Vec<Waker>) {
        let bits = if heard.read { READ } else { 0 }
            | if heard.write { WRITE } else { 0 }
            | if heard.read && !heard.plain { DOUBT } else { 0 };
        let news = |word: u32| Some((word | bits).wrapping_add(NEWS));
        let _ = self.word.fetch_update(Ordering::AcqRel, Ordering::Relaxed, news);
        for (side, comes) in [(Interest::Read, heard.read), (Interest::Write, heard.write)] {
            if comes {
                wakers.extend(self.waker(side).lock().take());
            }
        }
    }

    /// Returns whether the driver of this worker tells the observer.
    pub(crate) fn is_told_at(&self, place: usize) -> bool {
        self.place.load(Ordering::Relaxed) == place
    }

    /// Notes that the driver of a worker tells the observer from now on, and counts it there.
    pub(super) fn join(&self, place: usize, count: &Arc<AtomicUsize>) {
        count.fetch_add(1, Ordering::Relaxed);
        let before = self.counted.lock().replace(Arc::clone(count));
        self.place.store(place, Ordering::Relaxed);
        uncount(before);
    }

    /// Notes that no driver tells the observer any more. Everything is ready then, so that the code
    /// that polls finds out.
    pub(super) fn lose(&self, wakers: &mut Vec<Waker>) {
        self.end();
        self.hear(Heard { read: true, write: true, plain: false }, wakers);
    }

    /// Ends the observer's part in its driver. The driver may keep it until there is another file
    /// with this fd.
    pub(crate) fn end(&self) {
        self.place.store(NOWHERE, Ordering::Relaxed);
        let counted = self.counted.lock().take();
        uncount(counted);
    }
}

fn uncount(counted: Option<Arc<AtomicUsize>>) {
    if let Some(count) = counted {
        count.fetch_sub(1, Ordering::Relaxed);
    }
}

fn bit(side: Interest) -> u32 {
    match side {
        Interest::Read => READ,
        Interest::Write => WRITE,
    }
}

/// A watch tells only that something is ready.
impl Ring for Observer {
    fn ring(&self) {
        let mut wakers = Vec::new();
        self.hear(Heard { read: true, write: true, plain: false }, &mut wakers);
        wakers.into_iter().for_each(call_waker);
    }
}

/// Calls a waker, which is user code. Its panic must not affect the code that calls it.
pub(crate) fn call_waker(waker: Waker) {
    let called = panic::catch_unwind(AssertUnwindSafe(|| park::no_suspend(|| waker.wake())));
    drop_quietly(called);
}

/// A driver that tells observers.
pub(crate) trait Observe {
    /// Tells the observer of all news of the fd from now on, beginning with what is already there.
    /// `place` identifies the driver's worker.
    ///
    /// # Errors
    /// Returns the kernel's error. `Unsupported` if this kind of file has no news.
    fn observe(
        &mut self,
        fd: &OwnedDescriptor,
        observer: &Arc<Observer>,
        place: usize,
    ) -> io::Result<()>;

    /// Ends that, before the fd is closed.
    fn unobserve(&mut self, fd: &OwnedDescriptor, observer: &Arc<Observer>);

    /// Moves the wakers that are to be called to `to`.
    fn take_wakers(&mut self, to: &mut Vec<Waker>);
}
