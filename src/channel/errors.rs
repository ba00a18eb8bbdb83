//! The errors. Each of a send returns the value that was not sent.

use std::{error, fmt, io};

use crate::task::{Cancelled, UNEXPLAINED, cancelled_now};

/// The error of [`Sender::send`](super::Sender::send). It holds the value that was not sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendError<T> {
    /// The channel is disconnected: its last receiver was dropped, or it was closed.
    Disconnected(T),
    /// The wait was cancelled.
    Cancelled(T),
}

/// The error of [`Sender::try_send`](super::Sender::try_send). It holds the value that was not
/// sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// The channel is full, or it has no buffer and no receiver is waiting.
    Full(T),
    /// The channel is disconnected: its last receiver was dropped, or it was closed.
    Disconnected(T),
}

/// The error of [`Sender::send_timeout`](super::Sender::send_timeout). It holds the value that was
/// not sent.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// The time limit passed.
    Timeout(T),
    /// The channel is disconnected: its last receiver was dropped, or it was closed.
    Disconnected(T),
    /// The wait was cancelled.
    Cancelled(T),
}

/// The error of [`Receiver::recv`](super::Receiver::recv).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// The channel is empty and disconnected, so no value can arrive.
    Disconnected,
    /// The wait was cancelled.
    Cancelled,
}

/// The error of [`Receiver::try_recv`](super::Receiver::try_recv).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// The channel is empty at the moment.
    Empty,
    /// The channel is empty and disconnected, so no value can arrive.
    Disconnected,
}

/// The error of [`Receiver::recv_timeout`](super::Receiver::recv_timeout).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvTimeoutError {
    /// The time limit passed.
    Timeout,
    /// The channel is empty and disconnected, so no value can arrive.
    Disconnected,
    /// The wait was cancelled.
    Cancelled,
}

const DISCONNECTED_SEND: &str = "sending on a disconnected channel";
const DISCONNECTED_RECV: &str = "receiving on an empty and disconnected channel";

impl<T> SendError<T> {
    /// Returns the value that was not sent.
    pub fn into_inner(self) -> T {
        match self {
            SendError::Disconnected(value) | SendError::Cancelled(value) => value,
        }
    }

    /// Returns whether the channel is disconnected.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        matches!(self, SendError::Disconnected(_))
    }

    /// Returns whether the wait was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self, SendError::Cancelled(_))
    }
}

impl<T> TrySendError<T> {
    /// Returns the value that was not sent.
    pub fn into_inner(self) -> T {
        match self {
            TrySendError::Full(value) | TrySendError::Disconnected(value) => value,
        }
    }

    /// Returns whether the channel was full.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, TrySendError::Full(_))
    }

    /// Returns whether the channel is disconnected.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        matches!(self, TrySendError::Disconnected(_))
    }
}

impl<T> SendTimeoutError<T> {
    /// Returns the value that was not sent.
    pub fn into_inner(self) -> T {
        match self {
            SendTimeoutError::Timeout(value)
            | SendTimeoutError::Disconnected(value)
            | SendTimeoutError::Cancelled(value) => value,
        }
    }

    /// Returns whether the time limit passed.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, SendTimeoutError::Timeout(_))
    }

    /// Returns whether the channel is disconnected.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        matches!(self, SendTimeoutError::Disconnected(_))
    }

    /// Returns whether the wait was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self, SendTimeoutError::Cancelled(_))
    }
}

impl RecvError {
    /// Returns whether the channel is disconnected.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        matches!(self, RecvError::Disconnected)
    }

    /// Returns whether the wait was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self, RecvError::Cancelled)
    }
}

impl TryRecvError {
    /// Returns whether the channel was empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self, TryRecvError::Empty)
    }

    /// Returns whether the channel is disconnected.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        matches!(self, TryRecvError::Disconnected)
    }
}

impl RecvTimeoutError {
    /// Returns whether the time limit passed.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, RecvTimeoutError::Timeout)
    }

    /// Returns whether the channel is disconnected.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        matches!(self, RecvTimeoutError::Disconnected)
    }

    /// Returns whether the wait was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self, RecvTimeoutError::Cancelled)
    }
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::Disconnected(_) => "Disconnected(..)",
            SendError::Cancelled(_) => "Cancelled(..)",
        })
    }
}

impl<T> fmt::Debug for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrySendError::Full(_) => "Full(..)",
            TrySendError::Disconnected(_) => "Disconnected(..)",
        })
    }
}

impl<T> fmt::Debug for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendTimeoutError::Timeout(_) => "Timeout(..)",
            SendTimeoutError::Disconnected(_) => "Disconnected(..)",
            SendTimeoutError::Cancelled(_) => "Cancelled(..)",
        })
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::Disconnected(_) => DISCONNECTED_SEND,
            SendError::Cancelled(_) => "cancelled while waiting to send on a channel",
        })
    }
}

impl<T> fmt::Display for TrySendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TrySendError::Full(_) => "sending on a full channel",
            TrySendError::Disconnected(_) => DISCONNECTED_SEND,
        })
    }
}

impl<T> fmt::Display for SendTimeoutError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendTimeoutError::Timeout(_) => "timed out waiting to send on a channel",
            SendTimeoutError::Disconnected(_) => DISCONNECTED_SEND,
            SendTimeoutError::Cancelled(_) => "cancelled while waiting to send on a channel",
        })
    }
}

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecvError::Disconnected => DISCONNECTED_RECV,
            RecvError::Cancelled => "cancelled while waiting to receive on a channel",
        })
    }
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TryRecvError::Empty => "receiving on an empty channel",
            TryRecvError::Disconnected => DISCONNECTED_RECV,
        })
    }
}

impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RecvTimeoutError::Timeout => "timed out waiting to receive on a channel",
            RecvTimeoutError::Disconnected => DISCONNECTED_RECV,
            RecvTimeoutError::Cancelled => "cancelled while waiting to receive on a channel",
        })
    }
}

impl<T> error::Error for TrySendError<T> {}
impl error::Error for TryRecvError {}

/// Errors of waits: [`Cancelled::find_in`] finds a cancellation in them.
macro_rules! has_cancelled {
    ($($error:ident $(<$value:ident>)?),*) => {$(
        impl$(<$value>)? error::Error for $error$(<$value>)? {
            fn source(&self) -> Option<&(dyn error::Error + 'static)> {
                matches!(self, $error::Cancelled { .. }).then_some(&UNEXPLAINED as _)
            }
        }
    )*};
}
has_cancelled!(SendError<T>, SendTimeoutError<T>, RecvError, RecvTimeoutError);

impl<T> From<SendError<T>> for TrySendError<T> {
    /// Maps `Cancelled` to `Full`, because a cancelled send is one that would have had to wait.
    fn from(error: SendError<T>) -> TrySendError<T> {
        match error {
            SendError::Disconnected(value) => TrySendError::Disconnected(value),
            SendError::Cancelled(value) => TrySendError::Full(value),
        }
    }
}

impl<T> From<SendError<T>> for SendTimeoutError<T> {
    fn from(error: SendError<T>) -> SendTimeoutError<T> {
        match error {
            SendError::Disconnected(value) => SendTimeoutError::Disconnected(value),
            SendError::Cancelled(value) => SendTimeoutError::Cancelled(value),
        }
    }
}

impl From<RecvError> for TryRecvError {
    /// Maps `Cancelled` to `Empty`, because a cancelled receive is one that would have had to wait.
    fn from(error: RecvError) -> TryRecvError {
        match error {
            RecvError::Disconnected => TryRecvError::Disconnected,
            RecvError::Cancelled => TryRecvError::Empty,
        }
    }
}

impl From<RecvError> for RecvTimeoutError {
    fn from(error: RecvError) -> RecvTimeoutError {
        match error {
            RecvError::Disconnected => RecvTimeoutError::Disconnected,
            RecvError::Cancelled => RecvTimeoutError::Cancelled,
        }
    }
}

impl From<Cancelled> for RecvError {
    fn from(_: Cancelled) -> RecvError {
        RecvError::Cancelled
    }
}

/// A cancellation is kept: [`Cancelled::find`] finds it in the error, with the current task's
/// reason.
impl From<RecvError> for io::Error {
    fn from(error: RecvError) -> io::Error {
        match error {
            RecvError::Disconnected => io::Error::new(io::ErrorKind::BrokenPipe, error),
            RecvError::Cancelled => cancelled_now().into(),
        }
    }
}

/// Behaves like the conversion from [`RecvError`]. The value is dropped.
impl<T> From<SendError<T>> for io::Error {
    fn from(error: SendError<T>) -> io::Error {
        match error {
            SendError::Disconnected(_) => {
                io::Error::new(io::ErrorKind::BrokenPipe, DISCONNECTED_SEND)
            }
            SendError::Cancelled(_) => cancelled_now().into(),
        }
    }
}
