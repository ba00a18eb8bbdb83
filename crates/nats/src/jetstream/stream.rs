//! Streams and the messages in them.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use data_encoding::BASE64;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{ClusterInfo, JetStream, OtherSettings, Success, limit, nanoseconds};
use crate::error::{Error, ErrorKind};
use crate::headers::Headers;
use crate::message::{check_name, check_pattern};
use crate::wire;

/// How long a stream keeps messages.
///
/// # Examples
/// ```
/// use ecru_nats::jetstream::{Retention, StreamConfig};
///
/// let queue = StreamConfig { retention: Retention::WorkQueue, ..StreamConfig::new("JOBS") };
/// assert_ne!(queue.retention, Retention::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Retention {
    /// Until a limit of the stream is reached.
    #[default]
    Limits,
    /// Until all consumers have acknowledged them.
    Interest,
    /// Until its consumer has acknowledged them: a queue.
    WorkQueue,
}

/// What happens when a limit of a stream is reached.
///
/// # Examples
/// ```
/// use ecru_nats::jetstream::{Discard, StreamConfig};
///
/// // A full queue refuses new jobs instead of forgetting old ones.
/// let queue = StreamConfig {
///     discard: Discard::New,
///     max_bytes: Some(1 << 30),
///     ..StreamConfig::new("JOBS")
/// };
/// assert_ne!(queue.discard, Discard::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Discard {
    /// The oldest message is deleted.
    #[default]
    Old,
    /// The new message is refused.
    New,
}

/// Where a stream is stored.
///
/// # Examples
/// ```
/// use ecru_nats::jetstream::{Storage, StreamConfig};
///
/// let volatile = StreamConfig { storage: Storage::Memory, ..StreamConfig::new("PRICES") };
/// assert_ne!(volatile.storage, Storage::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum Storage {
    /// In files.
    #[default]
    File,
    /// In memory.
    Memory,
}

/// The configuration of a stream.
///
/// # Examples
/// ```
/// use ecru_nats::jetstream::{Discard, Retention, StreamConfig};
///
/// let config = StreamConfig {
///     subjects: vec!["jobs.>".into()],
///     retention: Retention::WorkQueue,
///     discard: Discard::New,
///     max_messages: Some(100_000),
///     ..StreamConfig::new("JOBS")
/// };
/// assert_eq!(config.replicas, 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StreamConfig {
    /// The name.
    pub name: String,
    /// What the stream is for, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// The subjects whose messages are stored, with wildcards.
    pub subjects: Vec<String>,
    /// How long messages are kept.
    pub retention: Retention,
    /// What happens at a limit.
    pub discard: Discard,
    /// Whether `discard` also applies to `max_messages_per_subject`.
    pub discard_new_per_subject: bool,
    /// Where messages are stored.
    pub storage: Storage,
    /// On how many servers messages are stored.
    #[serde(rename = "num_replicas")]
    pub replicas: u32,
    /// The most messages.
    #[serde(rename = "max_msgs", with = "limit")]
    pub max_messages: Option<u64>,
    /// The most messages with the same subject.
    #[serde(rename = "max_msgs_per_subject", with = "limit")]
    pub max_messages_per_subject: Option<u64>,
    /// The most bytes.
    #[serde(with = "limit")]
    pub max_bytes: Option<u64>,
    /// The largest message, in bytes.
    #[serde(rename = "max_msg_size", with = "limit")]
    pub max_message_size: Option<u64>,
    /// How long a message is kept.
    #[serde(with = "nanoseconds")]
    pub max_age: Option<Duration>,
    /// How long message ids are remembered. The server's default is two minutes.
    #[serde(with = "nanoseconds")]
    pub duplicate_window: Option<Duration>,
    /// Whether a message may say how long it is kept.
    pub allow_msg_ttl: bool,
    /// Whether a message may replace those before it.
    #[serde(rename = "allow_rollup_hdrs")]
    pub allow_rollup: bool,
    /// Whether every replica answers reads of single messages.
    pub allow_direct: bool,
    /// Whether messages can be stored together: see [`JetStream::publish_batch`].
    #[serde(rename = "allow_atomic", skip_serializing_if = "std::ops::Not::not")]
    pub allow_batches: bool,
    /// Whether single messages cannot be deleted.
    pub deny_delete: bool,
    /// Settings that have no field here.
    #[serde(flatten)]
    pub other: OtherSettings,
}

impl StreamConfig {
    /// Creates the configuration of a stream without subjects: one replica in files, no limits.
    #[must_use]
    pub fn new(name: &str) -> StreamConfig {
        StreamConfig { name: name.to_owned(), ..StreamConfig::default() }
    }
}

impl Default for StreamConfig {
    fn default() -> StreamConfig {
        StreamConfig {
            name: String::new(),
            description: String::new(),
            subjects: Vec::new(),
            retention: Retention::default(),
            discard: Discard::default(),
            discard_new_per_subject: false,
            storage: Storage::default(),
            replicas: 1,
            max_messages: None,
            max_messages_per_subject: None,
            max_bytes: None,
            max_message_size: None,
            max_age: None,
            duplicate_window: None,
            allow_msg_ttl: false,
            allow_rollup: false,
            allow_direct: false,
            allow_batches: false,
            deny_delete: false,
            other: OtherSettings::default(),
        }
    }
}

/// What is in a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct StreamState {
    /// The number of messages.
    pub messages: u64,
    /// Their size.
    pub bytes: u64,
    /// The sequence number of the first message.
    pub first_seq: u64,
    /// The sequence number of the last message, even if it is deleted.
    pub last_seq: u64,
    /// The number of consumers.
    pub consumer_count: u64,
    /// The number of different subjects.
    pub num_subjects: u64,
    /// The number of deleted messages between the first and the last.
    pub num_deleted: u64,
}

/// A stream's configuration and state.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct StreamInfo {
    /// The configuration. The server has filled in its defaults.
    pub config: StreamConfig,
    /// The state.
    #[serde(default)]
    pub state: StreamState,
    /// On which servers it is, unless the server is the only one.
    #[serde(default)]
    pub cluster: Option<ClusterInfo>,
}

/// The streams of an account: see [`JetStream::streams`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Streams {
    /// The streams that answered, by name.
    pub found: Vec<StreamInfo>,
    /// The names of those that did not, for instance because they have no leader.
    pub silent: Vec<String>,
}

/// A message as it is stored in a stream.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredMessage {
    /// The subject.
    pub subject: String,
    /// The sequence number in the stream.
    pub sequence: u64,
    /// The headers.
    pub headers: Headers,
    /// The payload.
    pub payload: Bytes,
    /// When it was stored, in the form of RFC 3339.
    pub time: String,
}

#[derive(Deserialize)]
struct Stored {
    message: StoredBody,
}

#[derive(Deserialize)]
struct StoredBody {
    subject: String,
    #[serde(rename = "seq")]
    sequence: u64,
    #[serde(default)]
    hdrs: String,
    #[serde(default)]
    data: String,
    #[serde(default)]
    time: String,
}

/// A part of the list of streams.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    total: usize,
    #[serde(default)]
    limit: usize,
    streams: Option<Vec<StreamInfo>>,
    missing: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct Purged {
    #[serde(default)]
    purged: u64,
}

impl JetStream {
    /// Creates a stream. If it exists with the same configuration, nothing happens.
    ///
    /// # Errors
    /// Returns [`JetStream`](ErrorKind::JetStream), with the code 10058 if there is a stream of the
    /// name with another configuration, and the errors of a [request](crate::Request::get).
    ///
    /// # Cancellation
    /// This is a cancellation point. The stream may have been created all the same.
    pub fn create_stream(&self, config: &StreamConfig) -> Result<StreamInfo, Error> {
        self.put_stream("CREATE", config)
    }

    /// Gives an existing stream another configuration. Not all of it can be changed: the server
    /// refuses another `storage` or `retention`. To change one setting and keep all others, change
    /// it in the configuration that [`stream_info`](JetStream::stream_info) has returned.
    ///
    /// # Errors
    /// Returns the errors of [`stream_info`](JetStream::stream_info).
    ///
    /// # Cancellation
    /// This is a cancellation point. The stream may have been changed all the same.
    pub fn update_stream(&self, config: &StreamConfig) -> Result<StreamInfo, Error> {
        self.put_stream("UPDATE", config)
    }

    fn put_stream(&self, operation: &str, config: &StreamConfig) -> Result<StreamInfo, Error> {
        check_name("stream", &config.name)?;
        for subject in &config.subjects {
            check_pattern(subject)?;
        }
        let name = &config.name;
        self.ask(&format!("STREAM.{operation}.{name}"), config, &format!("the stream {name}"))
    }

    /// Returns a stream's configuration and state.
    ///
    /// # Errors
    /// Returns [`JetStream`](ErrorKind::JetStream), with the code 10059 if there is no such stream,
    /// and the errors of a [request](crate::Request::get).
    ///
    /// # Cancellation
    /// This is a cancellation point.
    pub fn stream_info(&self, stream: &str) -> Result<StreamInfo, Error> {
        check_name("stream", stream)?;
        self.ask(&format!("STREAM.INFO.{stream}"), &json!({}), &format!("the stream {stream}"))
    }

    /// Returns the streams of the account: all of them, or those that store messages with a
    /// subject, which may have wildcards.
    ///
    /// # Errors
    /// Returns [`JetStream`](ErrorKind::JetStream), and the errors of a
    /// [request](crate::Request::get).
    ///
    /// # Cancellation
    /// This is a cancellation point.
    ///
    /// # Examples
    /// ```no_run
    /// # fn f(jetstream: &ecru_nats::jetstream::JetStream) -> Result<(), ecru_nats::Error> {
    /// for stream in jetstream.streams(Some("jobs.>"))?.found {
    ///     println!("{}: {} messages", stream.config.name, stream.state.messages);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn streams(&self, subject: Option<&str>) -> Result<Streams, Error> {
        if let Some(subject) = subject {
            check_pattern(subject)?;
        }
        let (mut streams, mut offset) = (Streams::default(), 0);
        loop {
            let mut body = json!({ "offset": offset });
            if let Some(subject) = subject {
                body["subject"] = json!(subject);
            }
            let page: Page = self.ask("STREAM.LIST", &body, "the list of streams")?;
            streams.found.extend(page.streams.unwrap_or_default());
            streams.silent.extend(page.missing.unwrap_or_default());
            offset += page.limit;
            if page.limit == 0 || offset >= page.total {
                // Pages that were written at different times can have a stream twice.
                streams.found.sort_by(|one, other| one.config.name.cmp(&other.config.name));
                streams.found.dedup_by(|one, other| one.config.name == other.config.name);
                return Ok(streams);
            }
        }
    }

    /// Deletes a stream with its messages and consumers.
    ///
    /// # Errors
    /// Returns the errors of [`stream_info`](JetStream::stream_info).
    ///
    /// # Cancellation
    /// This is a cancellation point. The stream may have been deleted all the same.
    pub fn delete_stream(&self, stream: &str) -> Result<(), Error> {
        check_name("stream", stream)?;
        let about = format!("the stream {stream}");
        let done: Success = self.ask(&format!("STREAM.DELETE.{stream}"), &json!({}), &about)?;
        done.check(&about)
    }

    /// Deletes the messages of a stream, or those of a subject, which may have wildcards. Returns
    /// how many were deleted.
    ///
    /// # Errors
    /// Returns the errors of [`stream_info`](JetStream::stream_info).
    ///
    /// # Cancellation
    /// This is a cancellation point. The messages may have been deleted all the same.
    pub fn purge_stream(&self, stream: &str, subject: Option<&str>) -> Result<u64, Error> {
        check_name("stream", stream)?;
        let body = match subject {
            Some(subject) => {
                check_pattern(subject)?;
                json!({ "filter": subject })
            }
            None => json!({}),
        };
        let about = format!("the stream {stream}");
        let purged: Purged = self.ask(&format!("STREAM.PURGE.{stream}"), &body, &about)?;
        Ok(purged.purged)
    }

    /// Begins to delete the messages of a subject, which may have wildcards, up to a sequence
    /// number, and does not wait for an answer. May wait for room to send.
    ///
    /// A server that refuses it, or is not reached, says nothing. A later call with a higher number
    /// deletes those messages, too.
    ///
    /// # Errors
    /// Returns [`InvalidInput`](crate::ErrorKind::InvalidInput) for a malformed name or subject,
    /// and [`Closed`](crate::ErrorKind::Closed) after the end of the client.
    ///
    /// # Cancellation
    /// This is a cancellation point. If it is cancelled, nothing was sent.
    pub fn begin_purge(&self, stream: &str, subject: &str, through: u64) -> Result<(), Error> {
        check_name("stream", stream)?;
        check_pattern(subject)?;
        // The server keeps the message with the number that it is given.
        let body = json!({ "filter": subject, "seq": through.saturating_add(1) });
        self.client.publish(&self.subject(&format!("STREAM.PURGE.{stream}")), body.to_string())
    }

    /// Returns the message with a sequence number, or `None` if there is none.
    ///
    /// # Errors
    /// Returns the errors of [`stream_info`](JetStream::stream_info).
    ///
    /// # Cancellation
    /// This is a cancellation point.
    pub fn message(&self, stream: &str, sequence: u64) -> Result<Option<StoredMessage>, Error> {
        self.stored(stream, &json!({ "seq": sequence }))
    }

    /// Returns the last message with a subject, or `None` if there is none.
    ///
    /// # Errors
    /// Returns the errors of [`stream_info`](JetStream::stream_info).
    ///
    /// # Cancellation
    /// This is a cancellation point.
    pub fn last_message(
        &self,
        stream: &str,
        subject: &str,
    ) -> Result<Option<StoredMessage>, Error> {
        check_pattern(subject)?;
        self.stored(stream, &json!({ "last_by_subj": subject }))
    }

    /// Returns the first message with a subject, which may have wildcards, and at least this
    /// sequence number, or `None` if there is none.
    ///
    /// # Errors
    /// Returns the errors of [`stream_info`](JetStream::stream_info).
    ///
    /// # Cancellation
    /// This is a cancellation point.
    pub fn next_message(
        &self,
        stream: &str,
        sequence: u64,
        subject: &str,
    ) -> Result<Option<StoredMessage>, Error> {
        check_pattern(subject)?;
        self.stored(stream, &json!({ "seq": sequence, "next_by_subj": subject }))
    }

    fn stored(
        &self,
        stream: &str,
        which: &serde_json::Value,
    ) -> Result<Option<StoredMessage>, Error> {
        check_name("stream", stream)?;
        let about = format!("a message of the stream {stream}");
        match self.ask::<Stored>(&format!("STREAM.MSG.GET.{stream}"), which, &about) {
            Ok(stored) => stored.message.decode(&about).map(Some),
            // No message found.
            Err(error) if error.code() == Some(10037) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes a message. Its bytes stay in the file until they are overwritten.
    ///
    /// # Errors
    /// Returns [`JetStream`](ErrorKind::JetStream), with the code 10057 if there is no such
    /// message, and the errors of a [request](crate::Request::get).
    ///
    /// # Cancellation
    /// This is a cancellation point. The message may have been deleted all the same.
    pub fn delete_message(&self, stream: &str, sequence: u64) -> Result<(), Error> {
        check_name("stream", stream)?;
        let about = format!("the message {sequence} of the stream {stream}");
        let body = json!({ "seq": sequence, "no_erase": true });
        let done: Success = self.ask(&format!("STREAM.MSG.DELETE.{stream}"), &body, &about)?;
        done.check(&about)
    }
}

/// The headers and the payload are left out, as in the text of a [`Message`](crate::Message).
impl fmt::Debug for StoredMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("StoredMessage");
        shown.field("subject", &self.subject).field("sequence", &self.sequence);
        shown.field("payload", &format_args!("{} bytes", self.payload.len()));
        shown.field("time", &self.time).finish_non_exhaustive()
    }
}

impl StoredBody {
    fn decode(self, about: &str) -> Result<StoredMessage, Error> {
        let bytes = |text: &str| {
            BASE64.decode(text.as_bytes()).map_err(|error| {
                let text = format!("JetStream's answer about {about} is malformed: {error}");
                Error::new(ErrorKind::Protocol, text)
            })
        };
        let headers = match self.hdrs.as_str() {
            "" => Headers::new(),
            headers => {
                let block = wire::parse_headers(&bytes(headers)?.into());
                block.map_err(|error| Error::new(ErrorKind::Protocol, error.to_string()))?.1
            }
        };
        Ok(StoredMessage {
            headers,
            payload: bytes(&self.data)?.into(),
            subject: self.subject,
            sequence: self.sequence,
            time: self.time,
        })
    }
}

impl Success {
    pub(super) fn check(&self, about: &str) -> Result<(), Error> {
        if self.success {
            return Ok(());
        }
        let text = format!("JetStream did not delete {about}, and does not say why");
        Err(Error::new(ErrorKind::JetStream, text))
    }
}
