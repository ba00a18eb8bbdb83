//! The first values of a channel.

use std::borrow::Borrow;
use std::iter::FusedIterator;

use ecru::channel::{Receiver, RecvError};

/// A view of the first values of a channel, which [`take`] returns.
#[derive(Debug)]
pub struct Take<T> {
    receiver: Receiver<T>,
    left: usize,
}

/// Returns a view of a channel that ends after `count` values, or with the channel.
///
/// The view receives a value only when it is read, and never more than `count` values.
///
/// # Examples
/// ```
/// let numbers = ecru_flow::from_iter(1..=100);
/// assert_eq!(ecru_flow::take(&numbers, 3).collect::<Vec<_>>(), [1, 2, 3]);
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
    /// Returns [`RecvError::Disconnected`] after the last value, and [`RecvError::Cancelled`] if
    /// the wait is cancelled.
    ///
    /// # Cancellation
    /// This is a cancellation point, except after the last value. A cancelled call has received
    /// nothing.
    ///
    /// # Examples
    /// ```
    /// let mut one = ecru_flow::take(ecru_flow::from_iter("ab".chars()), 1);
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

/// Ends after the last value, and when a wait is cancelled. [`Take::recv`] tells the two apart.
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
