//! The errors. Each gives back the value that did not go, where there is one.

use std::{error, fmt, io};

use crate::task::{CancelReason, Cancelled};

/// Why [`Sender::send`](super::Sender::send) failed, with the value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendError<T> {
    /// Nobody will ever receive: the last receiver has gone, or the channel has been closed.
    Disconnected(T),
    /// The wait was cancelled.
    Cancelled(T),
}

/// Why [`Sender::try_send`](super::Sender::try_send) failed, with the value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TrySendError<T> {
    /// There is no room, or nobody who waits where there is never any.
    Full(T),
    /// Nobody will ever receive.
    Disconnected(T),
}

/// Why [`Sender::send_timeout`](super::Sender::send_timeout) failed, with the value.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SendTimeoutError<T> {
    /// The time was up.
    Timeout(T),
    /// Nobody will ever receive.
    Disconnected(T),
    /// The wait was cancelled.
    Cancelled(T),
}

/// Why [`Receiver::recv`](super::Receiver::recv) gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvError {
    /// The channel is empty, and nobody will ever send.
    Disconnected,
    /// The wait was cancelled.
    Cancelled,
}

/// Why [`Receiver::try_recv`](super::Receiver::try_recv) gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// There is nothing now.
    Empty,
    /// There is nothing, and nobody will ever send.
    Disconnected,
}

/// Why [`Receiver::recv_timeout`](super::Receiver::recv_timeout) gave nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvTimeoutError {
    /// The time was up.
    Timeout,
    /// The channel is empty, and nobody will ever send.
    Disconnected,
    /// The wait was cancelled.
    Cancelled,
}

const DISCONNECTED_SEND: &str = "sending on a disconnected channel";
const DISCONNECTED_RECV: &str = "receiving on an empty and disconnected channel";

impl<T> SendError<T> {
    /// The value that was not sent.
    pub fn into_inner(self) -> T {
        match self {
            SendError::Disconnected(value) | SendError::Cancelled(value) => value,
        }
    }

    /// Whether nobody will ever receive.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        matches!(self, SendError::Disconnected(_))
    }

    /// Whether the wait was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self, SendError::Cancelled(_))
    }
}

impl<T> TrySendError<T> {
    /// The value that was not sent.
    pub fn into_inner(self) -> T {
        match self {
            TrySendError::Full(value) | TrySendError::Disconnected(value) => value,
        }
    }

    /// Whether there was no room.
    #[must_use]
    pub fn is_full(&self) -> bool {
        matches!(self, TrySendError::Full(_))
    }

    /// Whether nobody will ever receive.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        matches!(self, TrySendError::Disconnected(_))
    }
}

impl<T> SendTimeoutError<T> {
    /// The value that was not sent.
    pub fn into_inner(self) -> T {
        match self {
            SendTimeoutError::Timeout(value)
            | SendTimeoutError::Disconnected(value)
            | SendTimeoutError::Cancelled(value) => value,
        }
    }

    /// Whether the time was up.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, SendTimeoutError::Timeout(_))
    }

    /// Whether nobody will ever receive.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        matches!(self, SendTimeoutError::Disconnected(_))
    }

    /// Whether the wait was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self, SendTimeoutError::Cancelled(_))
    }
}

impl RecvError {
    /// Whether nobody will ever send.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        matches!(self, RecvError::Disconnected)
    }

    /// Whether the wait was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        matches!(self, RecvError::Cancelled)
    }
}

impl TryRecvError {
    /// Whether there was nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        matches!(self, TryRecvError::Empty)
    }

    /// Whether nobody will ever send.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        matches!(self, TryRecvError::Disconnected)
    }
}

impl RecvTimeoutError {
    /// Whether the time was up.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        matches!(self, RecvTimeoutError::Timeout)
    }

    /// Whether nobody will ever send.
    #[must_use]
    pub fn is_disconnected(&self) -> bool {
        matches!(self, RecvTimeoutError::Disconnected)
    }

    /// Whether the wait was cancelled.
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

impl<T> error::Error for SendError<T> {}
impl<T> error::Error for TrySendError<T> {}
impl<T> error::Error for SendTimeoutError<T> {}
impl error::Error for RecvError {}
impl error::Error for TryRecvError {}
impl error::Error for RecvTimeoutError {}

impl<T> From<SendError<T>> for TrySendError<T> {
    /// A send that was cancelled is one that would have had to wait.
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
    /// A receive that was cancelled is one that would have had to wait.
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

/// A cancellation stays one: [`Cancelled::find`] finds it, with the reason that the current task has been given.
impl From<RecvError> for io::Error {
    fn from(error: RecvError) -> io::Error {
        match error {
            RecvError::Disconnected => io::Error::new(io::ErrorKind::BrokenPipe, error),
            RecvError::Cancelled => cancelled_now().into(),
        }
    }
}

/// As for [`RecvError`]; the value is dropped.
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

/// What the current task has been told.
pub(super) fn cancelled_now() -> Cancelled {
    crate::task::cancelled().unwrap_or(Cancelled::new(CancelReason::Explicit))
}
