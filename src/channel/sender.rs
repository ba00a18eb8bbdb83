//! The sending end.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::closer::Closer;
use super::core::{Channel, Offered};
use super::errors::{SendError, SendTimeoutError, TrySendError};
use super::reservation::Reservation;
use super::waits::NotSent;
use crate::base::clock;
use crate::base::sync::atomic::Ordering;
use crate::park::Node;

/// The sending end of a channel. Clones send to the same channel; when the last one has gone, receivers get what is left, and
/// then [`Disconnected`](super::RecvError::Disconnected).
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

    /// Sends a value. Waits until there is room, or, on a channel without a buffer, until a receiver takes the value.
    ///
    /// # Errors
    /// [`SendError::Disconnected`] if the channel has no receiver left, [`SendError::Cancelled`] if the wait is cancelled. Both hold
    /// the value.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled call has not sent the value and returns it. While its task unwinds from a panic,
    /// a call sends the value if that needs no wait, and returns `Cancelled` otherwise.
    ///
    /// # Examples
    /// ```
    /// let (sender, receiver) = ecru::channel::bounded(1);
    /// sender.send(7).unwrap();
    /// assert_eq!(receiver.recv(), Ok(7));
    /// drop(receiver);
    /// assert_eq!(sender.send(8).unwrap_err().into_inner(), 8);
    /// ```
    #[inline(always)] // as `channel::halves`
    #[track_caller]
    pub fn send(&self, value: T) -> Result<(), SendError<T>> {
        self.channel.send(value).map_err(send_error)
    }

    /// [`send`](Sender::send), for at most `timeout`.
    ///
    /// # Errors
    /// As `send`; and [`SendTimeoutError::Timeout`] when the time was up.
    ///
    /// # Panics
    /// As `send`.
    ///
    /// # Cancellation
    /// As `send`.
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
        // A duration that leads past the end of time is none at all.
        self.channel
            .send_until(value, clock::now().checked_add(timeout))
            .map_err(send_timeout_error)
    }

    /// [`send`](Sender::send), until `deadline` at the latest.
    ///
    /// # Errors
    /// As [`send_timeout`](Sender::send_timeout).
    ///
    /// # Panics
    /// As `send`.
    ///
    /// # Cancellation
    /// As `send`.
    #[track_caller]
    pub fn send_deadline(&self, value: T, deadline: Instant) -> Result<(), SendTimeoutError<T>> {
        self.channel.send_until(value, Some(deadline)).map_err(send_timeout_error)
    }

    /// Sends a value if that needs no wait: there is room, or somebody waits to receive.
    ///
    /// # Errors
    /// With the value: [`TrySendError::Full`], [`TrySendError::Disconnected`].
    ///
    /// # Cancellation
    /// No cancel point.
    ///
    /// # Examples
    /// ```
    /// let (sender, _receiver) = ecru::channel::bounded(1);
    /// sender.try_send(7).unwrap();
    /// assert!(sender.try_send(8).unwrap_err().is_full());
    /// ```
    #[inline]
    pub fn try_send(&self, value: T) -> Result<(), TrySendError<T>> {
        let offered = self.channel.lock().offer(value);
        match offered {
            Offered::Accepted | Offered::Evicted(_) => Ok(()),
            Offered::Full(value) => Err(TrySendError::Full(value)),
            Offered::Disconnected(value) => Err(TrySendError::Disconnected(value)),
        }
    }

    /// Sends a value without waiting, even if the channel is full.
    ///
    /// A full channel then holds more values than its capacity. It accepts no others by [`send`](Sender::send) until it holds fewer than its
    /// capacity again. A channel without a buffer keeps the value for the next receiver. The value comes before those of senders that wait.
    ///
    /// Use it for values that must go in and were not counted on, such as the last outputs of a stage that is closed.
    ///
    /// # Errors
    /// [`SendError::Disconnected`] with the value if the channel is closed or has no receiver left. So does a
    /// [`oneshot`](super::oneshot()) channel that has no room, because it never has again.
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
        let mut offered = locked.offer(value);
        if let Offered::Full(value) = offered {
            offered = if locked.state.once {
                Offered::Disconnected(value)
            } else {
                locked.keep_for_the_next(value);
                Offered::Accepted
            };
        }
        drop(locked);
        // What was evicted is dropped here, without the lock.
        match offered {
            Offered::Disconnected(value) => Err(SendError::Disconnected(value)),
            Offered::Accepted | Offered::Evicted(_) | Offered::Full(_) => Ok(()),
        }
    }

    /// Values in the channel.
    #[must_use]
    pub fn len(&self) -> usize {
        self.channel.len()
    }

    /// Whether there is no value in the channel. One without a buffer is always empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether there is no room in the channel. One without a buffer is always full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.channel.is_full()
    }

    /// Values that fit; none: any number.
    #[must_use]
    pub fn capacity(&self) -> Option<usize> {
        self.channel.capacity()
    }

    /// Whether both send to the same channel.
    #[must_use]
    pub fn same_channel(&self, other: &Sender<T>) -> bool {
        Arc::ptr_eq(&self.channel, &other.channel)
    }

    /// Ends the sending: nothing new is accepted. What is in the channel, and what those who wait to send have, is still delivered;
    /// after that, receivers get [`Disconnected`](super::RecvError::Disconnected). Closing again changes nothing.
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

    /// Ends everything: what is in the channel is dropped, those who wait to send get their values back, and receivers get
    /// [`Disconnected`](super::RecvError::Disconnected) at once.
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

    /// Whether the channel has been closed, or one side has gone.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.channel.is_closed()
    }

    /// An end that can only close the channel, whatever it carries.
    #[must_use]
    pub fn closer<'a>(&self) -> Closer<'a>
    where
        T: Send + 'a,
    {
        Closer::new(Arc::clone(&self.channel) as _)
    }

    pub(super) fn try_reserve(&self) -> Option<Reservation<'_, T>> {
        self.channel.try_reserve()
    }

    /// The same; not `picky`: without receivers that may refuse the value, so that sending it would have to wait.
    pub(super) fn try_reserve_from(&self, picky: bool) -> Option<Reservation<'_, T>> {
        self.channel.try_reserve_from(picky)
    }

    pub(super) fn reserved_for(&self, offer: &Node) -> Option<Reservation<'_, T>> {
        self.channel.reserved_for(offer)
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
