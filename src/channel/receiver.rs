//! The receiving end of a channel.

use std::fmt;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::blocking::NotReceived;
use super::closer::Closer;
use super::core::Channel;
use super::errors::{RecvError, RecvTimeoutError, TryRecvError};
use super::fast_path::TryRecv;
use crate::base::clock;
use crate::base::sync::atomic::Ordering;

/// The receiving end of a channel. Clones compete for the values: each value goes to one of them.
/// When the last receiver is dropped, the values in the channel are dropped, and waiting senders
/// get their values back.
///
/// It is a [`Source`](crate::Source) of `Result<T, RecvError>`.
pub struct Receiver<T> {
    channel: Arc<Channel<T>>,
}

impl<T> UnwindSafe for Receiver<T> {}
impl<T> RefUnwindSafe for Receiver<T> {}

impl<T> Receiver<T> {
    pub(super) fn new(channel: Arc<Channel<T>>) -> Receiver<T> {
        Receiver { channel }
    }

    pub(super) fn channel(&self) -> &Channel<T> {
        &self.channel
    }

    /// Waits for a value.
    ///
    /// # Errors
    /// Returns [`RecvError::Disconnected`] if the channel is empty and disconnected, and
    /// [`RecvError::Cancelled`] if the wait is cancelled.
    ///
    /// # Panics
    /// Panics inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled call has received nothing. If a value was already
    /// handed over, the call returns the value.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel::{self, RecvError};
    ///
    /// let (sender, receiver) = channel::bounded(0);
    /// std::thread::scope(|s| {
    ///     s.spawn(move || sender.send(7).unwrap());
    ///     assert_eq!(receiver.recv(), Ok(7));
    ///     assert_eq!(receiver.recv(), Err(RecvError::Disconnected));
    /// });
    /// ```
    #[inline(always)] // for the same reason as in `channel::blocking`
    #[track_caller]
    pub fn recv(&self) -> Result<T, RecvError> {
        self.channel.recv().map_err(recv_error)
    }

    /// Waits for a value like [`recv`](Receiver::recv), for at most `timeout`.
    ///
    /// # Errors
    /// Returns the errors of `recv`, and [`RecvTimeoutError::Timeout`] if the time limit passes.
    ///
    /// # Panics
    /// Panics like `recv`.
    ///
    /// # Cancellation
    /// Behaves like `recv`.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// let (_sender, receiver) = ecru::channel::unbounded::<u32>();
    /// assert!(receiver.recv_timeout(Duration::from_millis(1)).unwrap_err().is_timeout());
    /// ```
    #[track_caller]
    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        // A duration past the end of time sets no limit.
        self.channel.recv_until(clock::now().checked_add(timeout)).map_err(recv_timeout_error)
    }

    /// Waits for a value like [`recv`](Receiver::recv), until `deadline` at the latest.
    ///
    /// # Errors
    /// Returns the errors of [`recv_timeout`](Receiver::recv_timeout).
    ///
    /// # Panics
    /// Panics like `recv`.
    ///
    /// # Cancellation
    /// Behaves like `recv`.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel::{self, RecvTimeoutError};
    /// use std::time::{Duration, Instant};
    ///
    /// let (sender, receiver) = channel::unbounded();
    /// sender.send(1).unwrap();
    /// // The same limit for all that comes.
    /// let deadline = Instant::now() + Duration::from_millis(1);
    /// assert_eq!(receiver.recv_deadline(deadline), Ok(1));
    /// assert_eq!(receiver.recv_deadline(deadline), Err(RecvTimeoutError::Timeout));
    /// ```
    #[track_caller]
    pub fn recv_deadline(&self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.channel.recv_until(Some(deadline)).map_err(recv_timeout_error)
    }

    /// Receives a value if one is in the channel, or if a sender waits with one. Does not wait for
    /// a sender to arrive.
    ///
    /// On a channel without a buffer, a waiting select with a `send` arm counts as a sender. Its
    /// value does not exist yet, so `try_recv` makes the select take that arm, and returns after
    /// the value expression has been evaluated. If the expression yields no value, because it
    /// panics or leaves by `?`, the result is as if the select had not been there. If it takes
    /// longer than 5 ms, for instance because it waits for the caller, `try_recv` returns
    /// [`TryRecvError::Empty`], and the value goes to the next receiver. Inside
    /// [`no_suspend`](crate::no_suspend), or while a task unwinds, waiting is not possible, and
    /// such a select does not count.
    ///
    /// A loop that repeats this call must contain a wait, see
    /// [Calls that do not wait](crate::channel#calls-that-do-not-wait).
    ///
    /// # Errors
    /// Returns [`TryRecvError::Empty`] if no value is there at the moment, and
    /// [`TryRecvError::Disconnected`] if the channel is empty and disconnected.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    ///
    /// # Examples
    /// ```
    /// let (sender, receiver) = ecru::channel::unbounded();
    /// assert!(receiver.try_recv().unwrap_err().is_empty());
    /// sender.send(7).unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(7));
    /// ```
    #[inline]
    #[track_caller]
    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        match self.channel.poll() {
            TryRecv::Value(value) => Ok(value),
            TryRecv::Empty => Err(TryRecvError::Empty),
            TryRecv::Disconnected => Err(TryRecvError::Disconnected),
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

    /// Returns whether both receive from the same channel. Any two receivers from
    /// [`never`](super::never()) count as such.
    #[must_use]
    pub fn same_channel(&self, other: &Receiver<T>) -> bool {
        Arc::ptr_eq(&self.channel, &other.channel)
            || (self.channel.is_never() && other.channel.is_never())
    }

    /// Closes the channel like [`Sender::close`](super::Sender::close).
    pub fn close(&self) {
        self.channel.close();
    }

    /// Closes the channel like [`Sender::close_now`](super::Sender::close_now).
    pub fn close_now(&self) {
        self.channel.close_now();
    }

    /// Returns whether the channel has been closed, or all senders or all receivers have been
    /// dropped. There may still be values in it.
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

pub(super) fn recv_error(error: NotReceived) -> RecvError {
    match error {
        NotReceived::Disconnected => RecvError::Disconnected,
        NotReceived::Cancelled => RecvError::Cancelled,
        NotReceived::TimedOut => unreachable!("there is no deadline"),
    }
}

fn recv_timeout_error(error: NotReceived) -> RecvTimeoutError {
    match error {
        NotReceived::Disconnected => RecvTimeoutError::Disconnected,
        NotReceived::Cancelled => RecvTimeoutError::Cancelled,
        NotReceived::TimedOut => RecvTimeoutError::Timeout,
    }
}

impl<T> Clone for Receiver<T> {
    fn clone(&self) -> Self {
        self.channel.receiver_count.fetch_add(1, Ordering::Relaxed);
        Receiver { channel: Arc::clone(&self.channel) }
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        if self.channel.receiver_count.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.channel.receivers_have_gone();
        }
    }
}

impl<T> fmt::Debug for Receiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Receiver").field(&self.channel).finish()
    }
}
