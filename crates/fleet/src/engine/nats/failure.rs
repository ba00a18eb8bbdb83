//! What the engine's callers learn about the client's errors.

use std::io;
use std::time::Duration;

use ecru::channel::RecvError;
use ecru_nats::{Error, ErrorKind};

use crate::errors::disconnected;

/// The pauses before a read is repeated.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// For how long a read is repeated. Servers elect a leader in less, and start again in less.
const PATIENCE: Duration = Duration::from_secs(30);

/// JetStream's codes.
pub(super) const LIMIT_REACHED: u32 = 10077;
pub(super) const NOT_AVAILABLE: u32 = 10008;
pub(super) const NO_CONSUMER: u32 = 10014;
/// Consumers of a stream of jobs would hand out the same ones.
const OVERLAP: [u32; 2] = [10099, 10100];
/// A message that is to be deleted is not there, or another request has just deleted it.
pub(super) const NO_MESSAGE: [u32; 2] = [10057, 10043];
pub(super) const ON_ITS_WAY: u32 = 10158;
pub(super) const NO_STREAM: u32 = 10059;
pub(super) const NO_BATCHES: u32 = 10174;
/// A message of a batch was stored before, or is being stored.
pub(super) const STORED_BATCH: u32 = 10201;
/// A header is not permitted in a batch.
pub(super) const NO_HEADER: u32 = 10177;
/// Too many batches are unfinished, or a message of one was lost.
pub(super) const UNFINISHED: [u32; 2] = [10210, 10176];
pub(super) const OTHER_CONSUMER: u32 = 10148;
pub(super) const OTHER_STREAM: u32 = 10058;
/// The last message of a subject is another one, or is being stored.
pub(super) const OTHER_SEQUENCE: [u32; 2] = [10071, 10164];
/// None in the account, in the cluster, in memory, in files.
const NO_ROOM: [u32; 4] = [10002, 10023, 10028, 10047];

/// Which limit of a stream refused a message.
pub(super) enum Limit {
    /// There is a message with the subject.
    Subject,
    /// As many messages or bytes as the stream's limit are stored.
    Stream,
}

/// Returns the limit that refused a message, if it was one.
pub(super) fn limit(error: &Error) -> Option<Limit> {
    if error.code() != Some(LIMIT_REACHED) {
        return None;
    }
    match error.description()? {
        words if words.contains("per subject") => Some(Limit::Subject),
        words if words.contains("maximum messages") || words.contains("maximum bytes") => {
            Some(Limit::Stream)
        }
        _ => None,
    }
}

/// Returns whether the servers refuse a message because they have no room for it.
pub(super) fn is_full(error: &Error) -> bool {
    match error.code() {
        // A disk without space has this code and the words of its operating system.
        Some(LIMIT_REACHED) => limit(error).is_none(),
        Some(code) => NO_ROOM.contains(&code),
        None => false,
    }
}

/// Returns whether a consumer is refused because another one hands out the same jobs.
pub(super) fn is_overlap(error: &Error) -> bool {
    error.code().is_some_and(|code| OVERLAP.contains(&code))
}

/// Returns an error of the engine: see [`engine`](crate::engine) for the kinds.
pub(super) fn failed(error: Error) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::Closed => return disconnected(),
        ErrorKind::TimedOut => io::ErrorKind::TimedOut,
        ErrorKind::Disconnected => io::ErrorKind::ConnectionAborted,
        _ if error.code() == Some(NOT_AVAILABLE) => io::ErrorKind::ResourceBusy,
        _ if is_full(&error) => io::ErrorKind::StorageFull,
        // The engine's callers repeat what has failed with some kinds, which stand for other failures
        // than in the client's own conversion.
        ErrorKind::JetStream => io::ErrorKind::Other,
        _ => return error.into(),
    };
    io::Error::new(kind, error)
}

/// Returns why a channel that the client fills has no item.
pub(super) fn no_item(error: RecvError) -> io::Error {
    match error {
        RecvError::Disconnected => disconnected(),
        RecvError::Cancelled => error.into(),
    }
}

/// Returns whether a repetition may succeed: the connection was lost, or there is no leader.
pub(super) fn is_passing(error: &Error) -> bool {
    use ErrorKind::{Disconnected, NoResponders, TimedOut};
    matches!(error.kind(), Disconnected | NoResponders | TimedOut)
        || error.code() == Some(NOT_AVAILABLE)
}

/// Repeats a read while its failures may pass, for 30 seconds at most.
pub(super) fn repeated<T>(mut read: impl FnMut() -> Result<T, Error>) -> io::Result<T> {
    begun(|| read().map_err(failed))
}

/// Repeats several reads together in the same way.
pub(super) fn begun<T>(begin: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    repeated_if(is_passing, begin)
}

/// Repeats what has failed with an error that may pass, for 30 seconds at most.
pub(super) fn repeated_if<T>(
    may_pass: impl Fn(&Error) -> bool,
    mut begin: impl FnMut() -> io::Result<T>,
) -> io::Result<T> {
    let until = ecru::time::now() + PATIENCE;
    let (mut pause, longest) = PAUSES;
    let may_pass = |error: &io::Error| {
        let error = error.get_ref().and_then(|error| error.downcast_ref::<Error>());
        error.is_some_and(&may_pass)
    };
    loop {
        match begin() {
            Err(error) if may_pass(&error) && ecru::time::now() < until => {}
            result => return result,
        }
        ecru::sleep(pause)?;
        pause = (2 * pause).min(longest);
    }
}
