//! Sends jobs.

use std::io;

use bytes::Bytes;
use ecru::{Source, source};
use ecru_nats::jetstream::{JetStream, Published};
use ecru_nats::{Error, ErrorKind, Message};

use super::failure::{
    Limit, NO_BATCHES, NO_HEADER, NOT_AVAILABLE, ON_ITS_WAY, OTHER_SEQUENCE, STORED_BATCH,
    UNFINISHED, failed, is_passing, limit,
};
use super::names::{AFTER, EXPECTED, EXPECTED_OF, MESSAGE_ID, Names, TRACE};
use super::settings;
use crate::engine::{BoxSource, Sending, Terms};

/// What a message has beside its payload, at most: the headers of a dead job without its reason.
pub(super) const BESIDE: usize = 1024;

/// Begins to store a job.
pub(super) fn begin(
    js: &JetStream,
    names: &Names,
    id: &str,
    payload: Bytes,
    sending: Option<&str>,
    terms: &Terms,
    is_ranked: bool,
) -> io::Result<BoxSource> {
    if let Some(error) = too_large(js, names, payload.len()) {
        return Ok(Box::new(source::ready(Sending::Refused(error))));
    }
    match message(names, id, payload, sending, terms, is_ranked)
        .and_then(|message| js.begin_publish(&message))
    {
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

/// Returns the message of a job. In a queue with priorities, the server refuses it if a job with
/// its id is there, whatever the priority of that one is.
fn message(
    names: &Names,
    id: &str,
    payload: Bytes,
    sending: Option<&str>,
    terms: &Terms,
    is_ranked: bool,
) -> Result<Message, Error> {
    let Terms { after, priority, trace } = terms;
    let mut message = Message::new(&names.job(id, *priority), payload);
    if is_ranked || *priority > 0 {
        message = message
            .with_header(EXPECTED, "0")?
            .with_header(EXPECTED_OF, &names.job_of_any_priority(id))?;
    }
    if let Some(trace) = trace {
        message = message.with_header(TRACE, trace)?;
    }
    if let Some(sending) = sending {
        message = message.with_header(MESSAGE_ID, sending)?;
    }
    if !after.is_zero() {
        // Not a moment earlier.
        let after = after.as_micros().div_ceil(1000);
        message = message.with_header(AFTER, &after.to_string())?;
    }
    Ok(message)
}

/// Stores jobs together: see [`EngineQueue::send_all`](crate::engine::EngineQueue::send_all).
pub(super) fn all(
    js: &JetStream,
    names: &Names,
    jobs: &[(String, Bytes)],
    terms: &Terms,
) -> io::Result<Sending> {
    let largest = jobs.iter().map(|(_, payload)| payload.len()).max().unwrap_or_default();
    if let Some(error) = too_large(js, names, largest) {
        return Ok(Sending::Refused(error));
    }
    // Each job has an id that no other one ever has, so that is the name of its sending, too.
    let message = |(id, payload): &(String, Bytes)| {
        let message = Message::new(&names.job(id, terms.priority), payload.clone());
        let message = message.with_header(MESSAGE_ID, id)?;
        match &terms.trace {
            Some(trace) => message.with_header(TRACE, trace),
            None => Ok(message),
        }
    };
    let messages: Vec<Message> =
        jobs.iter().map(message).collect::<Result<_, _>>().map_err(failed)?;
    let mut answer = js.publish_batch(&messages);
    if answer.as_ref().is_err_and(|error| error.code() == Some(NO_BATCHES)) {
        // An earlier release has created the stream.
        let mut config = js.stream_info(&names.jobs).map_err(failed)?.config;
        config.allow_batches = true;
        js.update_stream(&config).map_err(failed)?;
        // Another process may have changed settings meanwhile, which this has undone.
        settings::mend(js, names)?;
        answer = js.publish_batch(&messages);
    }
    let error = match answer {
        Err(error) if error.kind() == ErrorKind::Cancelled => return Err(failed(error)),
        Err(error) => error,
        Ok(_) => return Ok(Sending::New),
    };
    Ok(match error.code() {
        Some(STORED_BATCH) => Sending::Already,
        Some(code) if UNFINISHED.contains(&code) => Sending::Unavailable(unfinished(names, &error)),
        Some(NO_HEADER) => {
            let text = format!(
                "the server {} cannot store a batch of jobs so that it can be sent again; update \
                 nats-server ({error})",
                js.client().server()
            );
            Sending::Refused(io::Error::new(io::ErrorKind::Unsupported, text))
        }
        _ if error.kind() == ErrorKind::Closed && !error.is_outcome_unknown() => {
            Sending::Disconnected
        }
        _ if !error.is_outcome_unknown() && is_passing(&error) => {
            Sending::Unavailable(unfinished(names, &error))
        }
        _ => outcome(names, Err(error)),
    })
}

fn unfinished(names: &Names, error: &Error) -> io::Error {
    let text = format!(
        "the batch of jobs of the queue {} did not reach the servers as a whole, and none of it was \
         stored; send it again later ({error})",
        names.queue
    );
    io::Error::new(io::ErrorKind::ResourceBusy, text)
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
    // A job with the id is there, or is being stored.
    if error.code().is_some_and(|code| OTHER_SEQUENCE.contains(&code)) {
        return Sending::Already;
    }
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
