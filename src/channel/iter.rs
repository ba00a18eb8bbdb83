//! Iterators over received values.

use std::iter::FusedIterator;

use super::errors::RecvError;
use super::receiver::Receiver;
use crate::task::{CancelReason, Cancelled};

impl<T> Receiver<T> {
    /// Returns an iterator that waits for each value. It ends when the channel is empty and
    /// disconnected, or when a wait is cancelled. [`results`](Receiver::results) tells the two
    /// apart.
    #[must_use]
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { receiver: self, over: false }
    }

    /// Returns an iterator over the values that [`try_recv`](Receiver::try_recv) finds, which ends
    /// when it finds none.
    #[must_use]
    pub fn try_iter(&self) -> TryIter<'_, T> {
        TryIter { receiver: self }
    }

    /// Returns an iterator like [`iter`](Receiver::iter) that yields an `Err` as its last item if a
    /// wait was cancelled.
    #[must_use]
    pub fn results(&self) -> Results<'_, T> {
        Results { receiver: self, over: false }
    }
}

impl<T> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { receiver: self, over: false }
    }
}

impl<'a, T> IntoIterator for &'a Receiver<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

/// The iterator returned by [`Receiver::iter`].
#[derive(Debug)]
pub struct Iter<'a, T> {
    receiver: &'a Receiver<T>,
    over: bool,
}

impl<T> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if self.over {
            return None;
        }
        let value = self.receiver.recv().ok();
        self.over = value.is_none();
        value
    }
}

impl<T> FusedIterator for Iter<'_, T> {}

/// The iterator returned by [`Receiver::try_iter`].
///
/// # Examples
/// ```
/// let (sender, receiver) = ecru::channel::unbounded();
/// sender.send(1).unwrap();
/// sender.send(2).unwrap();
/// // The sender is still there, and the iterator does not wait for it.
/// let mut values = receiver.try_iter();
/// assert_eq!((values.next(), values.next(), values.next()), (Some(1), Some(2), None));
/// ```
#[derive(Debug)]
pub struct TryIter<'a, T> {
    receiver: &'a Receiver<T>,
}

impl<T> Iterator for TryIter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        self.receiver.try_recv().ok()
    }
}

/// The iterator returned by the `into_iter` of a [`Receiver`].
#[derive(Debug)]
pub struct IntoIter<T> {
    receiver: Receiver<T>,
    over: bool,
}

impl<T> Iterator for IntoIter<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if self.over {
            return None;
        }
        let value = self.receiver.recv().ok();
        self.over = value.is_none();
        value
    }
}

impl<T> FusedIterator for IntoIter<T> {}

/// The iterator returned by [`Receiver::results`].
///
/// # Examples
/// ```
/// use ecru::Cancelled;
/// use ecru::channel::{self, Receiver};
///
/// /// Returns the sum of all numbers, or `Cancelled`. `iter` would return a part of the sum then.
/// fn sum(numbers: &Receiver<u32>) -> Result<u32, Cancelled> {
///     numbers.results().sum()
/// }
///
/// let (sender, numbers) = channel::unbounded();
/// (1..=3).try_for_each(|number| sender.send(number)).unwrap();
/// drop(sender);
/// assert_eq!(sum(&numbers), Ok(6));
/// ```
#[derive(Debug)]
pub struct Results<'a, T> {
    receiver: &'a Receiver<T>,
    over: bool,
}

impl<T> Iterator for Results<'_, T> {
    type Item = Result<T, Cancelled>;

    fn next(&mut self) -> Option<Result<T, Cancelled>> {
        if self.over {
            return None;
        }
        match self.receiver.recv() {
            Ok(value) => Some(Ok(value)),
            Err(RecvError::Disconnected) => {
                self.over = true;
                None
            }
            Err(RecvError::Cancelled) => {
                self.over = true;
                let cancelled = crate::task::cancelled();
                Some(Err(cancelled.unwrap_or(Cancelled::new(CancelReason::Explicit))))
            }
        }
    }
}

impl<T> FusedIterator for Results<'_, T> {}
