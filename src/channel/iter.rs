//! Iterators over received values.

use std::iter::FusedIterator;

use super::errors::RecvError;
use super::receiver::Receiver;
use crate::task::{CancelReason, Cancelled};

/// The iterator returned by [`Receiver::iter`].
#[derive(Debug)]
pub struct Iter<'a, T> {
    receiver: &'a Receiver<T>,
    over: bool,
}

impl<'a, T> Iter<'a, T> {
    pub(super) fn new(receiver: &'a Receiver<T>) -> Iter<'a, T> {
        Iter { receiver, over: false }
    }
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
#[derive(Debug)]
pub struct TryIter<'a, T> {
    receiver: &'a Receiver<T>,
}

impl<'a, T> TryIter<'a, T> {
    pub(super) fn new(receiver: &'a Receiver<T>) -> TryIter<'a, T> {
        TryIter { receiver }
    }
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

impl<T> IntoIter<T> {
    pub(super) fn new(receiver: Receiver<T>) -> IntoIter<T> {
        IntoIter { receiver, over: false }
    }
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
#[derive(Debug)]
pub struct Results<'a, T> {
    receiver: &'a Receiver<T>,
    over: bool,
}

impl<'a, T> Results<'a, T> {
    pub(super) fn new(receiver: &'a Receiver<T>) -> Results<'a, T> {
        Results { receiver, over: false }
    }
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
