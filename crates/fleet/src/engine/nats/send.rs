//! Sends jobs.

use std::io;
use std::time::Duration;

use bytes::Bytes;
use ecru::{Source, source};
use ecru_nats::jetstream::{JetStream, Published, Publishing};
use ecru_nats::{Error, ErrorKind, Message};

use super::failure::{Limit, NOT_AVAILABLE, ON_ITS_WAY, failed, limit};
use super::names::{AFTER, MESSAGE_ID, Names};
use crate::engine::{BoxSource, Sending};

/// What a message has beside its payload, at most: the headers of a dead job without its reason.
pub(super) const BESIDE: usize = 1024;

/// Begins to store a job.
pub(super) fn begin(
    js: &JetStream,
    names: &Names,
    id: &str,
    payload: Bytes,
    sending: Option<&str>,
    after: Duration,
) -> io::Result<BoxSource> {
    if let Some(error) = too_large(js, names, payload.len()) {
        return Ok(Box::new(source::ready(Sending::Refused(error))));
    }
    match publish(js, names, id, payload, sending, after) {
        Ok(publishing) => {
            let names = names.clone();
            Ok(Box::new(publishing.map(move |answer| outcome(&names, answer))))
        }
        Err(error) if error.kind() == ErrorKind::Cancelled => Err(failed(error)),
        Err(error) => {
            let sending = match error.kind() {
                // The call has sent nothing.
                ErrorKind::Closed => Sending::Disconnected,
                _ => Sending::Refused(failed(error)),
            };
            Ok(Box::new(source::ready(sending)))
        }
    }
}

fn publish(
    js: &JetStream,
    names: &Names,
    id: &str,
    payload: Bytes,
    sending: Option<&str>,
    after: Duration,
) -> Result<Publishing, Error> {
    let mut message = Message::new(&names.job(id), payload);
    if let Some(sending) = sending {
        message = message.with_header(MESSAGE_ID, sending)?;
    }
    if !after.is_zero() {
        // Not a moment earlier.
        let after = after.as_micros().div_ceil(1000);
        message = message.with_header(AFTER, &after.to_string())?;
    }
    js.begin_publish(&message)
}

/// Returns why the servers accept no payload of this size. Each job can be stored among the dead,
/// too, which takes more headers.
fn too_large(js: &JetStream, names: &Names, size: usize) -> Option<io::Error> {
    let info = js.client().server_info();
    let most = info.max_payload.saturating_sub(BESIDE);
    (size > most).then(|| {
        let text = format!(
            "a job of the queue {} has {size} bytes, and the server {} accepts {most}; store what \
             is large elsewhere and send its address, or raise max_payload in the server's \
             configuration",
            names.queue,
            js.client().server()
        );
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}

/// Returns what became of a job that was published.
fn outcome(names: &Names, answer: Result<Published, Error>) -> Sending {
    let error = match answer {
        Ok(Published { duplicate: true, .. }) => return Sending::Already,
        Ok(_) => return Sending::New,
        Err(error) => error,
    };
    match limit(&error) {
        Some(Limit::Subject) => return Sending::Already,
        Some(Limit::Stream) => return Sending::Full,
        None => {}
    }
    match error.kind() {
        // The end of the client answers what was sent, too.
        ErrorKind::Closed | ErrorKind::Protocol => Sending::Unknown,
        _ if error.is_outcome_unknown() => Sending::Unknown,
        // The servers have an earlier attempt. They store it, or lose it as they elect a leader.
        _ if error.code() == Some(ON_ITS_WAY) => Sending::Unknown,
        ErrorKind::NoResponders => Sending::Unavailable(unavailable(names, &error)),
        _ if error.code() == Some(NOT_AVAILABLE) => {
            Sending::Unavailable(unavailable(names, &error))
        }
        _ => Sending::Refused(failed(error)),
    }
}

fn unavailable(names: &Names, error: &Error) -> io::Error {
    let text = format!(
        "no server stores jobs of the queue {} now; the servers may be electing a leader, so send \
         it again later, or open the queue again if the stream {} was deleted ({error})",
        names.queue, names.jobs
    );
    io::Error::new(io::ErrorKind::ResourceBusy, text)
}
