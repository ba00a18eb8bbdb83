//! The first values only.

use std::borrow::Borrow;
use std::iter::FusedIterator;

use crate::channel::{Receiver, RecvError};

/// From [`take`].
#[derive(Debug)]
pub struct Take<T> {
    receiver: Receiver<T>,
    left: usize,
}

/// A view of a channel that ends after `count` values, or with the channel. No more than these are received, and none of them
/// before it is asked for.
///
/// # Examples
/// ```
/// use ecru::channel;
///
/// let numbers = channel::from_iter(1..=100);
/// assert_eq!(channel::take(&numbers, 3).collect::<Vec<_>>(), [1, 2, 3]);
/// assert_eq!(numbers.recv(), Ok(4));
/// ```
#[must_use]
pub fn take<T>(from: impl Borrow<Receiver<T>>, count: usize) -> Take<T> {
    Take { receiver: from.borrow().clone(), left: count }
}

impl<T> Take<T> {
    /// Waits for the next value.
    ///
    /// # Errors
    /// [`RecvError::Disconnected`] when there are no more of them, [`RecvError::Cancelled`] when the wait was cancelled.
    ///
    /// # Cancellation
    /// A cancel point, unless there are no more. Nothing has been received then.
    ///
    /// # Examples
    /// ```
    /// let mut one = ecru::channel::take(ecru::channel::from_iter("ab".chars()), 1);
    /// assert_eq!(one.recv(), Ok('a'));
    /// assert!(one.recv().unwrap_err().is_disconnected());
    /// ```
    #[track_caller]
    pub fn recv(&mut self) -> Result<T, RecvError> {
        let Some(left) = self.left.checked_sub(1) else { return Err(RecvError::Disconnected) };
        let value = self.receiver.recv();
        match value {
            Ok(_) => self.left = left,
            Err(RecvError::Disconnected) => self.left = 0,
            Err(RecvError::Cancelled) => {}
        }
        value
    }
}

/// Ends when a wait is cancelled, too; [`Take::recv`] tells.
impl<T> Iterator for Take<T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        let value = self.recv().ok();
        if value.is_none() {
            self.left = 0;
        }
        value
    }
}

impl<T> FusedIterator for Take<T> {}
