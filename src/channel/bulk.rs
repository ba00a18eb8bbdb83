//! Receives of many values at once.

use super::core::Channel;
use super::errors::RecvError;
use super::fast_path::TryRecv;
use super::receiver::Receiver;
use crate::task;

impl<T> Receiver<T> {
    /// Waits for a value like [`recv`](Receiver::recv), and then receives up to `limit` values that
    /// are there without waiting again. Appends them to `values` in the channel's order, and returns
    /// their number, which is 0 only if `limit` is.
    ///
    /// The channel is locked twice, however many values there are. On a channel without a buffer,
    /// the values are those of waiting senders.
    ///
    /// # Errors
    /// Returns the errors of `recv`. `values` is then unchanged.
    ///
    /// # Panics
    /// Panics inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled call has received nothing.
    ///
    /// # Examples
    /// ```
    /// let (sender, receiver) = ecru::channel::unbounded();
    /// (1..=5).for_each(|number| sender.send(number).unwrap());
    /// let mut numbers = Vec::new();
    /// assert_eq!(receiver.recv_many(&mut numbers, 3), Ok(3));
    /// assert_eq!(receiver.recv_many(&mut numbers, 3), Ok(2));
    /// assert_eq!(numbers, [1, 2, 3, 4, 5]);
    /// ```
    #[track_caller]
    pub fn recv_many(&self, values: &mut Vec<T>, limit: usize) -> Result<usize, RecvError> {
        let Some(more) = limit.checked_sub(1) else {
            return task::begin_wait().map(|()| 0).map_err(|_| RecvError::Cancelled);
        };
        values.push(self.recv()?);
        Ok(1 + self.channel().take_up_to(more, values))
    }

    /// Takes all values that are in the channel at one moment, and those of senders that wait, but not
    /// those of a [`select!`](crate::select), which are not made yet. Never waits. Returns no values
    /// if there are none, or if the channel is disconnected.
    ///
    /// [`try_iter`](Receiver::try_iter) takes values one by one, and goes on as long as there are
    /// new ones.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    ///
    /// # Examples
    /// ```
    /// let (sender, receiver) = ecru::channel::unbounded();
    /// (1..=3).for_each(|number| sender.send(number).unwrap());
    /// assert_eq!(receiver.drain(), [1, 2, 3]);
    /// assert_eq!(receiver.drain(), []);
    /// ```
    #[must_use = "the values would be dropped"]
    pub fn drain(&self) -> Vec<T> {
        let mut values = Vec::new();
        self.channel().take_up_to(usize::MAX, &mut values);
        values
    }
}

impl<T> Channel<T> {
    /// Takes up to `limit` values without waiting, at one moment. Returns their number.
    fn take_up_to(&self, limit: usize, values: &mut Vec<T>) -> usize {
        // As a rule, no memory is allocated while the channel is locked.
        values.reserve(self.len().min(limit));
        let mut locked = self.lock();
        // A clock whose period is zero always has a value.
        let limit = if locked.state.is_timed() { limit.min(1) } else { limit };
        let before = values.len();
        while values.len() - before < limit
            && let TryRecv::Value(value) = locked.try_recv()
        {
            values.push(value);
        }
        values.len() - before
    }
}
