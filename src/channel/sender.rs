//! The sending end of a channel.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::blocking::NotSent;
use super::closer::Closer;
use super::core::Channel;
use super::errors::{SendError, SendTimeoutError, TrySendError};
use super::fast_path::TrySend;
use crate::base::clock;
use crate::base::sync::atomic::Ordering;

/// The sending end of a channel. Clones send to the same channel. When the last sender is dropped,
/// receivers get the remaining values and then [`Disconnected`](super::RecvError::Disconnected).
pub struct Sender<T> {
    channel: Arc<Channel<T>>,
}

impl<T> UnwindSafe for Sender<T> {}
impl<T> RefUnwindSafe for Sender<T> {}

impl<T> Sender<T> {
    pub(super) fn new(channel: Arc<Channel<T>>) -> Sender<T> {
        Sender { channel }
    }

    pub(super) fn channel(&self) -> &Channel<T> {
        &self.channel
    }

    pub(super) fn shared(&self) -> &Arc<Channel<T>> {
        &self.channel
    }

    /// Sends a value. Waits until there is space, or, on a channel without a buffer, until a
    /// receiver takes the value.
    ///
    /// # Errors
    /// Returns [`SendError::Disconnected`] if the channel has no receiver left or was closed, and
    /// [`SendError::Cancelled`] if the wait is cancelled. Both hold the value.
    ///
    /// # Panics
    /// Panics inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled call has not sent the value and returns it. While
    /// its task unwinds from a panic, a call sends the value if that needs no wait, and returns
    /// `Cancelled` otherwise.
    ///
    /// # Examples
    /// ```
    /// let (sender, receiver) = ecru::channel::bounded(1);
    /// sender.send(7).unwrap();
    /// assert_eq!(receiver.recv(), Ok(7));
    /// drop(receiver);
    /// assert_eq!(sender.send(8).unwrap_err().into_inner(), 8);
    /// ```
    #[inline(always)] // for the same reason as in `channel::blocking`
    #[track_caller]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.channel.send(value).map_err(send_error)
    }

    /// Sends a value like [`send`](Sender::send), but waits for at most `timeout`.
    ///
    /// # Errors
    /// Returns the errors of `send`, and [`SendTimeoutError::Timeout`] if the time limit passes.
    ///
    /// # Panics
    /// Panics like `send`.
    ///
    /// # Cancellation
    /// Behaves like `send`.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let (sender, _receiver) = ecru::channel::bounded(0);
    /// assert!(sender.send_timeout(7, Duration::from_millis(1)).unwrap_err().is_timeout());
    /// ```
    #[track_caller]
    pub fn send_timeout(&self, value: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        // A duration past the end of time sets no limit.
        self.channel
            .send_until(value, clock::now().checked_add(timeout))
            .map_err(send_timeout_error)
    }

    /// Sends a value like [`send`](Sender::send), but waits until `deadline` at the latest.
    ///
    /// # Errors
    /// Returns the errors of [`send_timeout`](Sender::send_timeout).
    ///
    /// # Panics
    /// Panics like `send`.
    ///
    /// # Cancellation
    /// Behaves like `send`.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel::{self, SendTimeoutError};
    /// use std::time::{Duration, Instant};
    ///
    /// let (sender, receiver) = channel::bounded(1);
    /// let deadline = Instant::now() + Duration::from_millis(1);
    /// assert_eq!(sender.send_deadline(1, deadline), Ok(()));
    /// assert_eq!(sender.send_deadline(2, deadline), Err(SendTimeoutError::Timeout(2)));
    /// assert_eq!(receiver.recv(), Ok(1));
    /// ```
    #[track_caller]
    pub fn send_deadline(&self, value: T, deadline: Instant) -> Result<(), SendTimeoutError<T>> {
        self.channel.send_until(value, Some(deadline)).map_err(send_timeout_error)
    }

    /// Sends a value if that needs no wait, because there is space or a receiver waits.
    ///
    /// A loop that repeats this call must contain a wait, see
    /// [Calls that do not wait](crate::channel#calls-that-do-not-wait).
    ///
    /// # Errors
    /// Returns [`TrySendError::Full`] if the send would wait, and [`TrySendError::Disconnected`] if
    /// the channel is disconnected. Both hold the value.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    ///
    /// # Examples
    /// ```
    /// let (sender, _receiver) = ecru::channel::bounded(1);
    /// sender.try_send(7).unwrap();
    /// assert!(sender.try_send(8).unwrap_err().is_full());
    /// ```
    #[inline]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let sent = self.channel.lock().try_send(value);
        match sent {
            TrySend::Accepted | TrySend::Evicted(_) => Ok(()),
            TrySend::Full(value) => Err(TrySendError::Full(value)),
            TrySend::Disconnected(value) => Err(TrySendError::Disconnected(value)),
        }
    }

    /// Sends a value without waiting, even if the channel is full.
    ///
    /// A full channel then holds more values than its capacity. A [`send`](Sender::send) must then
    /// wait until it holds fewer values than its capacity again. A channel without a buffer keeps
    /// the value for the next receiver. The value is received before those of waiting senders.
    ///
    /// Use it for unplanned values that must not be lost or wait, such as the last outputs of a
    /// stage that is closed.
    ///
    /// # Errors
    /// Returns [`SendError::Disconnected`] with the value if the channel is closed or has no
    /// receiver left. A [`oneshot`](super::oneshot()) channel without room returns it too, because
    /// it never has room again.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    ///
    /// # Examples
    /// ```
    /// let (sender, receiver) = ecru::channel::bounded(1);
    /// sender.send(1).unwrap();
    /// sender.overfill(2).unwrap();
    /// assert_eq!(receiver.len(), 2);
    /// assert_eq!(receiver.recv(), Ok(1));
    /// assert!(sender.try_send(3).unwrap_err().is_full());
    /// ```
    pub fn overfill(&self, value: T) -> Result<(), SendError<T>> {
        let mut locked = self.channel.lock();
        let mut sent = locked.try_send(value);
        if let TrySend::Full(value) = sent {
            sent = if locked.state.is_oneshot() {
                TrySend::Disconnected(value)
            } else {
                locked.overfill(value);
                TrySend::Accepted
            };
        }
        drop(locked);
        // What was evicted is dropped here, without the lock.
        match sent {
            TrySend::Disconnected(value) => Err(SendError::Disconnected(value)),
            TrySend::Accepted | TrySend::Evicted(_) | TrySend::Full(_) => Ok(()),
        }
    }

    /// Returns the number of values in the channel.
    #[must_use]
    pub fn len(&self) -> usize {
        self.channel.len()
    }

    /// Returns whether there is no value in the channel. A channel without a buffer is always
    /// empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the channel is full. A channel without a buffer is always full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.channel.is_full()
    }

    /// Returns how many values the channel can hold, or `None` if it is unbounded.
    #[must_use]
    pub fn capacity(&self) -> Option<usize> {
        self.channel.capacity()
    }

    /// Returns whether both send to the same channel.
    #[must_use]
    pub fn same_channel(&self, other: &Sender<T>) -> bool {
        Arc::ptr_eq(&self.channel, &other.channel)
    }

    /// Closes the channel: new sends are refused. Values in the channel, and those of senders that
    /// already wait, are still delivered. After that, receivers get
    /// [`Disconnected`](super::RecvError::Disconnected). Closing a closed channel has no effect.
    ///
    /// # Examples
    /// ```
    /// let (sender, receiver) = ecru::channel::unbounded();
    /// sender.send(7).unwrap();
    /// sender.close();
    /// assert!(sender.send(8).is_err());
    /// assert_eq!(receiver.iter().collect::<Vec<_>>(), [7]);
    /// ```
    pub fn close(&self) {
        self.channel.close();
    }

    /// Closes the channel at once: values in it are dropped, waiting senders get their values back,
    /// and receivers get [`Disconnected`](super::RecvError::Disconnected).
    ///
    /// # Examples
    /// ```
    /// let (sender, receiver) = ecru::channel::unbounded();
    /// sender.send(7).unwrap();
    /// sender.close_now();
    /// assert!(receiver.recv().is_err());
    /// ```
    pub fn close_now(&self) {
        self.channel.close_now();
    }

    /// Returns whether the channel has been closed, or all senders or all receivers have been
    /// dropped.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.channel.is_closed()
    }

    /// Returns a handle that can only close the channel, whatever the type of its values.
    #[must_use]
    pub fn closer<'a>(&self) -> Closer<'a>
    where
        T: Send + 'a,
    {
        Closer::new(Arc::clone(&self.channel) as _)
    }
}

pub(super) fn send_error<T>(error: NotSent<T>) -> SendError<T> {
    match error {
        NotSent::Disconnected(value) => SendError::Disconnected(value),
        NotSent::Cancelled(value) => SendError::Cancelled(value),
        NotSent::TimedOut(_) => unreachable!("there is no deadline"),
    }
}

fn send_timeout_error<T>(error: NotSent<T>) -> SendTimeoutError<T> {
    match error {
        NotSent::Disconnected(value) => SendTimeoutError::Disconnected(value),
        NotSent::Cancelled(value) => SendTimeoutError::Cancelled(value),
        NotSent::TimedOut(value) => SendTimeoutError::Timeout(value),
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.channel.sender_count.fetch_add(1, Ordering::Relaxed);
        Sender { channel: Arc::clone(&self.channel) }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.channel.sender_count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.channel.senders_have_gone();
        }
    }
}

impl<T> fmt::Debug for Sender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Sender").field(&self.channel).finish()
    }
}
