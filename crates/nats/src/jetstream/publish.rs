//! Publishing to streams.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use ecru::Source;
use ecru::source::WaitList;
use serde::Deserialize;

use super::JetStream;
use crate::error::{Error, ErrorKind};
use crate::message::{Message, check_subject};
use crate::request::Request;

/// How often a message is published again that no stream has received, for instance during the
/// election of a leader, and the pause before.
const RETRIES: (u32, Duration) = (2, Duration::from_millis(250));

/// What a stream says about a message that it has stored.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Published {
    /// The stream.
    pub stream: String,
    /// The sequence number in the stream.
    #[serde(rename = "seq")]
    pub sequence: u64,
    /// Whether the stream had a message with this id already, which has this sequence number.
    #[serde(default)]
    pub duplicate: bool,
}

/// A message that is being stored: a [`Source`] of one `Result<Published, Error>`.
///
/// # Examples
/// ```
/// use ecru::Source;
/// use ecru::source;
/// use ecru_nats::jetstream::{JetStream, Published};
/// use ecru_nats::{Error, Message};
///
/// /// Stores a message in two sites, and returns what the faster one says.
/// fn store(near: &JetStream, far: &JetStream, message: &Message) -> Result<Published, Error> {
///     let first = near.begin_publish(message)?;
///     let second = far.begin_publish(message)?;
///     source::race([&first, &second]).wait()?
/// }
///
/// /// Waits for one.
/// fn store_one(jetstream: &JetStream, message: &Message) -> Result<u64, Error> {
///     Ok(jetstream.begin_publish(message)?.get()?.sequence)
/// }
/// ```
#[must_use = "whether the message was stored is not known"]
pub struct Publishing {
    jetstream: JetStream,
    request: Request,
}

impl JetStream {
    /// Publishes a message and waits until a stream has stored it.
    ///
    /// # Errors
    /// Returns the errors of [`Publishing::get`] and [`Client::publish`](crate::Client::publish).
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled message may have been stored:
    /// [`Error::is_outcome_unknown`] tells.
    ///
    /// # Examples
    /// ```no_run
    /// # fn f(jetstream: &ecru_nats::jetstream::JetStream) -> Result<(), ecru_nats::Error> {
    /// let stored = jetstream.publish("jobs.bake", "one loaf")?;
    /// assert_eq!(stored.stream, "JOBS");
    /// # Ok(())
    /// # }
    /// ```
    pub fn publish(&self, subject: &str, payload: impl Into<Bytes>) -> Result<Published, Error> {
        self.publish_message(&Message::new(subject, payload))
    }

    /// Publishes a message with headers and waits until a stream has stored it. Headers can say
    /// more:
    ///
    /// | header | meaning |
    /// |---|---|
    /// | `Nats-Msg-Id` | the id by which a stream notices duplicates |
    /// | `Nats-Expected-Stream` | the stream that must store the message |
    /// | `Nats-Expected-Last-Subject-Sequence` | the sequence number of the subject's last message; 0 for none |
    /// | `Nats-TTL` | how long the message is kept, for instance `30s` |
    ///
    /// # Errors
    /// Returns the errors of [`publish`](JetStream::publish).
    ///
    /// # Cancellation
    /// Behaves like [`publish`](JetStream::publish).
    pub fn publish_message(&self, message: &Message) -> Result<Published, Error> {
        let (mut retries, pause) = RETRIES;
        loop {
            match self.begin_publish(message)?.get() {
                Err(error) if error.kind() == ErrorKind::NoResponders && retries > 0 => {
                    retries -= 1;
                    ecru::sleep(pause)?;
                }
                result => return result,
            }
        }
    }

    /// Publishes a message without waiting for the acknowledgement, which the result is a source
    /// of. Waits while [`Options::max_pending_acks`](crate::Options::max_pending_acks) messages
    /// have no acknowledgement. A message whose time limit has passed does not count any more.
    ///
    /// # Errors
    /// Returns the errors of [`Client::publish`](crate::Client::publish). In each case nothing was
    /// published.
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled call has published nothing.
    pub fn begin_publish(&self, message: &Message) -> Result<Publishing, Error> {
        check_subject(message.subject())?;
        let shared = self.client.shared();
        let permit = shared.place()?;
        let queued = shared.request(message, Some(permit), true)?;
        let request = self.wrap(message, queued);
        Ok(Publishing { jetstream: self.clone(), request })
    }
}

impl Publishing {
    /// Waits for the acknowledgement.
    ///
    /// # Errors
    /// Returns [`NoResponders`](ErrorKind::NoResponders) if no stream stores the subject,
    /// [`JetStream`](ErrorKind::JetStream) if the stream refused the message (code 10071: the
    /// expected sequence is another one; 10077: the stream is full), and the errors of a
    /// [request](Request::get). If [`Error::is_outcome_unknown`], the message may have been
    /// stored.
    ///
    /// # Cancellation
    /// This is a cancellation point. The message may be stored all the same.
    pub fn get(self) -> Result<Published, Error> {
        match self.wait() {
            Ok(result) => result,
            Err(cancelled) => Err(Error::from(cancelled).after_sending()),
        }
    }
}

impl Source for Publishing {
    type Item = Result<Published, Error>;

    fn try_take(&self) -> Option<Self::Item> {
        let answer = self.request.try_take()?;
        Some(answer.and_then(|message| {
            self.jetstream
                .read(&message, &format_args!("the message to {}", self.request.subject()))
        }))
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        self.request.waiters(each);
    }
}

impl fmt::Debug for Publishing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publishing")
            .field("subject", &self.request.subject())
            .finish_non_exhaustive()
    }
}
