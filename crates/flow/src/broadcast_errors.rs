//! The errors of receivers of a broadcast.

use std::{error, fmt, io};

use ecru::Cancelled;
use ecru::channel::RecvError;

/// The error of [`BroadcastReceiver::recv`](crate::BroadcastReceiver::recv).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BroadcastRecvError {
    /// The receiver was too slow and has missed this number of values.
    Lagged(u64),
    /// No value can arrive: all senders have been dropped, or the receiver was disconnected because
    /// it was too slow.
    Disconnected,
    /// The wait was cancelled.
    Cancelled,
}

/// The error of [`BroadcastReceiver::try_recv`](crate::BroadcastReceiver::try_recv).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BroadcastTryRecvError {
    /// There is no value at the moment.
    Empty,
    /// The receiver was too slow and has missed this number of values.
    Lagged(u64),
    /// No value can arrive: all senders have been dropped, or the receiver was disconnected because
    /// it was too slow.
    Disconnected,
}

const DISCONNECTED: &str = "receiving from a broadcast that is disconnected";

fn lagged(f: &mut fmt::Formatter<'_>, missed: u64) -> fmt::Result {
    write!(f, "the receiver was too slow and has missed {missed} values")
}

impl fmt::Display for BroadcastRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            BroadcastRecvError::Lagged(missed) => lagged(f, missed),
            BroadcastRecvError::Disconnected => f.write_str(DISCONNECTED),
            BroadcastRecvError::Cancelled => RecvError::Cancelled.fmt(f),
        }
    }
}

impl fmt::Display for BroadcastTryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            BroadcastTryRecvError::Empty => f.write_str("the broadcast has no value yet"),
            BroadcastTryRecvError::Lagged(missed) => lagged(f, missed),
            BroadcastTryRecvError::Disconnected => f.write_str(DISCONNECTED),
        }
    }
}

impl error::Error for BroadcastRecvError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        matches!(self, BroadcastRecvError::Cancelled).then_some(&RecvError::Cancelled as _)
    }
}
impl error::Error for BroadcastTryRecvError {}

impl From<Cancelled> for BroadcastRecvError {
    fn from(_: Cancelled) -> BroadcastRecvError {
        BroadcastRecvError::Cancelled
    }
}

impl From<BroadcastRecvError> for io::Error {
    fn from(error: BroadcastRecvError) -> io::Error {
        match error {
            BroadcastRecvError::Lagged(_) => io::Error::other(error),
            BroadcastRecvError::Disconnected => RecvError::Disconnected.into(),
            BroadcastRecvError::Cancelled => RecvError::Cancelled.into(),
        }
    }
}
