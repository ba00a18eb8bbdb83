//! A view of several receivers as one.
//!
//! Receivers that have ended are skipped. For each index, `next` leads to the next receiver that
//! has not ended, like the parent links of a union-find forest. The numbers in it only grow, so
//! readers need no lock.

use std::borrow::Borrow;
use std::fmt;
use std::iter::FusedIterator;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering};

use ecru::channel::{Receiver, RecvError, TryRecvError};
use ecru::source::{self, Source, WaitList};

use crate::pending::any_below;

/// A view of several channels as one, which [`merge`] returns. Like a receiver, it is a [`Source`]
/// of `Result<T, RecvError>`.
///
/// As one of several sources, for instance in a `select!`, it is notified and then tries to
/// receive. It has no place in the line of waiting receivers, unlike a call of
/// [`recv`](Merge::recv).
pub struct Merge<T> {
    receivers: Box<[Receiver<T>]>,
    /// For each index, the index itself if that receiver has not ended. Otherwise a later index:
    /// all receivers before that one have ended.
    next: Box<[AtomicUsize]>,
}

/// Returns a view of several channels as one.
///
/// The view receives values from all of them. If several channels have a value, one is picked at
/// random. The values of one channel keep their order.
///
/// A channel that has ended is skipped. The view ends when all channels have ended. A view of no
/// channels has ended from the start.
///
/// # Examples
/// ```
/// let both = ecru_flow::merge([ecru_flow::from_iter(1..=2), ecru_flow::from_iter(11..=12)]);
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
    /// Returns [`RecvError::Disconnected`] if all of them have ended, and [`RecvError::Cancelled`]
    /// if the wait is cancelled.
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled call has received nothing.
    ///
    /// # Examples
    /// ```
    /// let both = ecru_flow::merge([ecru_flow::from_iter([1]), ecru_flow::from_iter([])]);
    /// assert_eq!(both.recv(), Ok(1));
    /// assert!(both.recv().unwrap_err().is_disconnected());
    /// ```
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.recv_noting(|| ())
    }

    /// Does the same, and calls `noted` each time between the look at the channels and the wait.
    #[inline]
    #[track_caller]
    fn recv_noting(&self, noted: impl Fn()) -> Result<T, RecvError> {
        ecru::checkpoint()?;
        loop {
            let live = self.among(0, self.receivers.len()).map(|at| {
                let receiver = &self.receivers[at];
                receiver.map(move |received| (at, received))
            });
            // Another reader may retire the last channel at any time, and a race of none never
            // ends. So the same list tells whether there is a channel and which ones to wait for.
            let mut live = live.peekable();
            if live.peek().is_none() {
                return Err(RecvError::Disconnected);
            }
            noted();
            match source::race(live).wait()? {
                (_, Ok(value)) => return Ok(value),
                (at, Err(_)) => self.retire(at),
            }
        }
    }

    /// Receives a value if that needs no wait.
    ///
    /// # Errors
    /// Returns [`TryRecvError::Empty`] if there is none, and [`TryRecvError::Disconnected`] if all
    /// channels have ended.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    ///
    /// # Examples
    /// ```
    /// let (sender, receiver) = ecru::channel::unbounded();
    /// let merged = ecru_flow::merge([receiver]);
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

    /// Returns an iterator over the values. It waits for each, and ends when all channels have
    /// ended or a wait is cancelled.
    #[must_use]
    pub fn iter(&self) -> MergeIter<T, &Merge<T>> {
        MergeIter::new(self)
    }

    /// Returns the first index from `at` on whose receiver has not ended.
    fn live(&self, mut at: usize) -> usize {
        let end = self.next.len();
        while at < end {
            let next = self.next[at].load(Ordering::Relaxed);
            if next == at {
                break;
            }
            let further = if next < end { self.next[next].load(Ordering::Relaxed) } else { end };
            // This halves the path for later calls. A racing call may store another number, which
            // is correct too.
            self.next[at].store(further, Ordering::Relaxed);
            at = further;
        }
        at
    }

    /// Returns the indices in `from..to` whose receivers have not ended.
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
        let start = if count < 2 { 0 } else { any_below(count) };
        for at in self.among(start, count).chain(self.among(0, start)) {
            // Only `try_recv` finds a select that waits to send.
            match self.receivers[at].try_recv() {
                Ok(value) => return Some(Ok(value)),
                Err(TryRecvError::Disconnected) => self.retire(at),
                Err(TryRecvError::Empty) => {}
            }
        }
        self.has_ended().then_some(Err(RecvError::Disconnected))
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        self.among(0, self.receivers.len()).for_each(|at| self.receivers[at].waiters(each));
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

/// An iterator over the values of several channels, which [`Merge::iter`] returns.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{RecvError, merge};
    use crate::from_iter;

    /// Another reader finds the end of the last channels and marks them, after this reader has seen
    /// that there are channels to wait for.
    #[test]
    fn another_reader_retires_the_last_channels_before_the_wait() {
        for count in 1..4 {
            let ended = merge((0..count).map(|_| from_iter::<[u8; 0]>([])));
            let retire_all = || (0..count).for_each(|at| ended.retire(at));
            // A lost end would be waited for for ever.
            let received = ecru::timeout(Duration::from_secs(10), || ended.recv_noting(retire_all));
            assert_eq!(received.expect("it ends at once"), Err(RecvError::Disconnected));
        }
    }
}
