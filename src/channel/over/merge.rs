//! Several receivers as one.
//!
//! Who has ended is left out from then on: `next` says for each place where the next receiver is that has not, in the manner of a
//! union-find forest. Its numbers only grow, so readers need no lock.

use std::borrow::Borrow;
use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;

use crate::base::random;
use crate::base::sync::atomic::{AtomicUsize, Ordering};
use crate::channel::{Receiver, RecvError, TryRecvError};
use crate::park::WaitList;
use crate::source::{Arms, Source, Won};

/// From [`merge`]: a [`Source`] of `Result<T, RecvError>`, as a receiver is.
pub struct Merge<T> {
    receivers: Box<[Receiver<T>]>,
    /// At each place, the same one, or, if that receiver has ended, a later one before which all have.
    next: Box<[AtomicUsize]>,
}

/// A view of several channels as one: whichever has a value; if several have, chance picks one. Values of one channel keep their
/// order. A channel that ends is not looked at any more, and when all have ended, so has the view; one of none has from the start.
///
/// # Examples
/// ```
/// use ecru::channel;
///
/// let both = channel::merge([channel::from_iter(1..=2), channel::from_iter(11..=12)]);
/// let mut values: Vec<_> = both.iter().collect();
/// values.sort();
/// assert_eq!(values, [1, 2, 11, 12]);
/// assert!(both.recv().is_err());
/// ```
#[must_use]
pub fn merge<T>(receivers: impl IntoIterator<Item: Borrow<Receiver<T>>>) -> Merge<T> {
    let receivers: Box<[_]> =
        receivers.into_iter().map(|receiver| receiver.borrow().clone()).collect();
    let next = (0..receivers.len()).map(AtomicUsize::new).collect();
    Merge { receivers, next }
}

impl<T> Merge<T> {
    /// Waits for a value of any of the channels.
    ///
    /// # Errors
    /// [`RecvError::Disconnected`] when all of them have ended, [`RecvError::Cancelled`] when the wait was cancelled.
    ///
    /// # Cancellation
    /// A cancel point. Nothing has been received then.
    ///
    /// # Examples
    /// ```
    /// let both = ecru::channel::merge([ecru::channel::from_iter([1]), ecru::channel::from_iter([])]);
    /// assert_eq!(both.recv(), Ok(1));
    /// assert!(both.recv().unwrap_err().is_disconnected());
    /// ```
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.wait().unwrap_or_else(|cancelled| Err(cancelled.into()))
    }

    /// Receives a value if that needs no wait.
    ///
    /// # Errors
    /// [`TryRecvError::Empty`]; [`TryRecvError::Disconnected`] when all channels have ended.
    ///
    /// # Cancellation
    /// No cancel point.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel;
    ///
    /// let (sender, receiver) = channel::unbounded();
    /// let merged = channel::merge([receiver]);
    /// assert!(merged.try_recv().unwrap_err().is_empty());
    /// sender.send(7).unwrap();
    /// assert_eq!(merged.try_recv(), Ok(7));
    /// ```
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        match self.try_take() {
            Some(value) => value.map_err(TryRecvError::from),
            None => Err(TryRecvError::Empty),
        }
    }

    /// Values until all channels have ended, waiting for each. Ends when the wait is cancelled, too.
    #[must_use]
    pub fn iter(&self) -> MergeIter<T, &Merge<T>> {
        MergeIter::new(self)
    }

    /// The first place from `at` on whose receiver has not ended.
    fn live(&self, mut at: usize) -> usize {
        let end = self.next.len();
        while at < end {
            let next = self.next[at].load(Ordering::Relaxed);
            if next == at {
                break;
            }
            let further = if next < end { self.next[next].load(Ordering::Relaxed) } else { end };
            // Halves the way for those who come later. What a race stores instead is as true.
            self.next[at].store(further, Ordering::Relaxed);
            at = further;
        }
        at
    }

    /// The places from `from` to before `to` whose receivers have not ended.
    fn among(&self, from: usize, to: usize) -> impl Iterator<Item = usize> {
        let first = self.live(from);
        std::iter::successors(Some(first), |at| Some(self.live(at + 1)))
            .take_while(move |at| *at < to)
    }

    fn retire(&self, at: usize) {
        self.next[at].store(at + 1, Ordering::Relaxed);
    }

    fn has_ended(&self) -> bool {
        self.live(0) == self.receivers.len()
    }
}

impl<T> Source for Merge<T> {
    type Item = Result<T, RecvError>;

    fn try_take(&self) -> Option<Self::Item> {
        let count = self.receivers.len();
        let start = if count < 2 { 0 } else { random::below(count) };
        for at in self.among(start, count).chain(self.among(0, start)) {
            match self.receivers[at].try_take() {
                Some(Ok(value)) => return Some(Ok(value)),
                Some(Err(_)) => self.retire(at),
                None => {}
            }
        }
        self.has_ended().then_some(Err(RecvError::Disconnected))
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        self.among(0, self.receivers.len()).for_each(|at| self.receivers[at].waiters(each));
    }

    fn __register<'a>(&'a self, arms: &mut Arms<'a>) {
        for at in self.among(0, self.receivers.len()) {
            if arms.is_ready() {
                return;
            }
            self.receivers[at].__register(arms);
        }
    }

    fn __finish(&self, won: &Won<'_>) -> Option<Self::Item> {
        let finish = |at: usize| Some((at, self.receivers[at].__finish(won)?));
        match self.among(0, self.receivers.len()).find_map(finish)? {
            (_, Ok(value)) => Some(Ok(value)),
            (at, Err(error)) => {
                self.retire(at);
                self.has_ended().then_some(Err(error))
            }
        }
    }
}

impl<T> fmt::Debug for Merge<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merge").field("receivers", &self.receivers.len()).finish()
    }
}

impl<T> IntoIterator for Merge<T> {
    type Item = T;
    type IntoIter = MergeIter<T, Merge<T>>;

    fn into_iter(self) -> Self::IntoIter {
        MergeIter::new(self)
    }
}

impl<'a, T> IntoIterator for &'a Merge<T> {
    type Item = T;
    type IntoIter = MergeIter<T, &'a Merge<T>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// From [`Merge::iter`].
#[derive(Debug)]
pub struct MergeIter<T, M> {
    merge: M,
    over: bool,
    _values: PhantomData<fn() -> T>,
}

impl<T, M> MergeIter<T, M> {
    fn new(merge: M) -> MergeIter<T, M> {
        MergeIter { merge, over: false, _values: PhantomData }
    }
}

impl<T, M: Borrow<Merge<T>>> Iterator for MergeIter<T, M> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if self.over {
            return None;
        }
        let value = self.merge.borrow().recv().ok();
        self.over = value.is_none();
        value
    }
}

impl<T, M: Borrow<Merge<T>>> FusedIterator for MergeIter<T, M> {}
