//! JetStream: streams of stored messages, and consumers that hand them out.
//!
//! | purpose | see |
//! |---|---|
//! | store a message | [`JetStream::publish`], [`JetStream::begin_publish`] |
//! | store several messages or none | [`JetStream::publish_batch`] |
//! | manage streams and their messages | [`StreamConfig`], [`JetStream::create_stream`], [`JetStream::message`] |
//! | receive and settle messages | [`ConsumerConfig`], [`Consumer::messages`], [`Consumer::fetch`], [`Delivery`] |
//! | see what there is | [`JetStream::streams`], [`JetStream::account_info`] |
//! | keep values by key | [`JetStream::create_bucket`], [`Bucket`] |
//!
//! # What is left out
//! Push and ordered consumers, mirrors and sources, subject transforms, consumer groups, watching a
//! bucket, and the object store.

mod account;
mod batch;
mod bucket;
mod cluster;
mod consumer;
mod delivery;
mod fetch;
mod publish;
mod pull;
mod stream;

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use account::{AccountInfo, AccountLimits, AccountUsage};
pub use bucket::{Bucket, BucketConfig, Entry};
pub use cluster::{ClusterInfo, ReplicaInfo};
pub use consumer::{AckPolicy, Consumer, ConsumerConfig, ConsumerInfo, DeliverPolicy, Sequences};
pub use delivery::{Ack, Delivery};
pub use publish::{Published, Publishing};
pub use pull::{Deliveries, Slot};
pub use stream::{
    Discard, Retention, Storage, StoredMessage, StreamConfig, StreamInfo, StreamState, Streams,
};

use crate::client::Client;
use crate::error::{Error, ErrorKind, tame};
use crate::message::Message;
use crate::request::Request;

/// JetStream of a connection's account. Clones share the connection.
///
/// # Examples
/// ```
/// use ecru_nats::jetstream::{BucketConfig, ConsumerConfig, JetStream, Published, StreamConfig};
/// use ecru_nats::{Error, Message};
///
/// /// Creates a queue of jobs, and a consumer that hands them out.
/// fn set_up(jetstream: &JetStream) -> Result<(), Error> {
///     let subjects = vec!["jobs.>".to_owned()];
///     jetstream.create_stream(&StreamConfig { subjects, ..StreamConfig::new("JOBS") })?;
///     let bakers = jetstream.create_consumer("JOBS", &ConsumerConfig::new("bakers"))?;
///     assert_eq!(bakers.stream(), "JOBS");
///
///     // To change one setting, change it in what the server has.
///     let mut config = jetstream.stream_info("JOBS")?.config;
///     config.max_messages_per_subject = Some(1000);
///     jetstream.update_stream(&config)?;
///     let mut config = bakers.info()?.config;
///     config.max_ack_pending = Some(40);
///     jetstream.update_consumer("JOBS", &config)?;
///     Ok(())
/// }
///
/// /// Stores an order once, even if it is sent again.
/// fn order(jetstream: &JetStream, id: &str) -> Result<Published, Error> {
///     let message = Message::new("jobs.bake", "one loaf").with_header("Nats-Msg-Id", id)?;
///     jetstream.publish_message(&message)
/// }
///
/// /// Stores many messages without a round trip for each.
/// fn order_many(jetstream: &JetStream, loaves: usize) -> Result<(), Error> {
///     let message = Message::new("jobs.bake", "one loaf");
///     let stored: Result<Vec<_>, _> =
///         (0..loaves).map(|_| jetstream.begin_publish(&message)).collect();
///     stored?.into_iter().try_for_each(|publishing| publishing.get().map(drop))
/// }
///
/// /// Looks at messages without a consumer, and removes them.
/// fn tidy(jetstream: &JetStream) -> Result<(), Error> {
///     if let Some(first) = jetstream.next_message("JOBS", 1, "jobs.>")? {
///         println!("the oldest job, {}, is of {}", first.sequence, first.time);
///         jetstream.delete_message("JOBS", first.sequence)?;
///         assert_eq!(jetstream.message("JOBS", first.sequence)?, None);
///     }
///     if let Some(last) = jetstream.last_message("JOBS", "jobs.bake")? {
///         // Does not wait: these messages are not needed any more.
///         jetstream.begin_purge("JOBS", "jobs.bake", last.sequence)?;
///     }
///     let deleted = jetstream.purge_stream("JOBS", None)?;
///     println!("{deleted} messages have been deleted");
///     jetstream.delete_stream("JOBS")
/// }
///
/// /// Keeps a value by its key, and deletes the bucket with all of its values.
/// fn remember(jetstream: &JetStream) -> Result<(), Error> {
///     let prices = jetstream.create_bucket(&BucketConfig::new("prices"))?;
///     prices.put("rye", "4.20")?;
///     jetstream.delete_bucket("prices")
/// }
/// ```
#[derive(Clone)]
pub struct JetStream {
    client: Client,
    prefix: Arc<str>,
}

/// What JetStream says in place of an answer.
#[derive(Deserialize)]
struct ApiError {
    #[serde(default)]
    code: u32,
    #[serde(default)]
    err_code: u32,
    #[serde(default)]
    description: String,
}

/// The key of the error in an answer. An answer that has these bytes elsewhere is parsed twice.
const ERROR: &[u8] = b"\"error\"";

/// An answer that may be an error.
#[derive(Deserialize)]
struct Envelope {
    error: Option<ApiError>,
}

/// The answer of calls that only succeed.
#[derive(Deserialize)]
struct Success {
    #[serde(default)]
    success: bool,
}

impl JetStream {
    pub(crate) fn new(client: Client, domain: Option<&str>) -> JetStream {
        let prefix = match domain {
            Some(domain) => format!("$JS.{domain}.API"),
            None => "$JS.API".to_owned(),
        };
        JetStream { client, prefix: prefix.into() }
    }

    /// Returns the connection.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the subject of an operation.
    fn subject(&self, operation: &str) -> String {
        format!("{}.{operation}", self.prefix)
    }

    /// Sends a request of the administration and waits for the answer. `about` names the stream,
    /// consumer or bucket for errors.
    fn ask<A: DeserializeOwned>(
        &self,
        operation: &str,
        body: &impl Serialize,
        about: &str,
    ) -> Result<A, Error> {
        let body = serde_json::to_vec(body).map_err(|error| {
            Error::invalid(format!("{about} cannot be written as JSON: {error}"))
        })?;
        let answer = self.client.request(&self.subject(operation), body)?.get();
        let message = answer.map_err(|error| self.explain(error))?;
        self.read(&message, &about)
    }

    /// Reads an answer, which is an error or a value. `about` is only written if it is an error.
    fn read<A: DeserializeOwned>(
        &self,
        message: &Message,
        about: &dyn fmt::Display,
    ) -> Result<A, Error> {
        let payload = message.payload();
        let malformed = |error: serde_json::Error| {
            let why = tame(&error.to_string());
            let text = format!("JetStream's answer about {about} is malformed: {why}");
            Error::new(ErrorKind::Protocol, text).at(&self.client.server())
        };
        // Each acknowledgement comes here, so it is not parsed twice.
        if payload.windows(ERROR.len()).any(|text| text == ERROR) {
            let envelope: Envelope = serde_json::from_slice(payload).map_err(malformed)?;
            if let Some(error) = envelope.error {
                return Err(refused(&error, &about.to_string()).at(&self.client.server()));
            }
        }
        serde_json::from_slice(payload).map_err(malformed)
    }

    /// Says why an operation of JetStream has no responder.
    fn explain(&self, error: Error) -> Error {
        if error.kind() != ErrorKind::NoResponders {
            return error;
        }
        let text = "JetStream does not answer; enable it by `jetstream {}` in the server's \
                    configuration, and check that its cluster has a leader";
        Error::new(ErrorKind::NoResponders, text).at(&self.client.server())
    }

    /// Returns a request whose answer is an acknowledgement.
    fn wrap(&self, message: &Message, queued: crate::link::Queued) -> Request {
        Request::new(self.client.shared(), message.subject.clone(), queued)
    }
}

/// The settings of a stream or consumer that this client has no names for, for instance metadata and
/// compression of a stream, or the backoff of a consumer. They come with what a server tells, and
/// an update sends them back unchanged.
///
/// # Examples
/// ```
/// use ecru_nats::Error;
/// use ecru_nats::jetstream::JetStream;
///
/// /// Changes one setting. All others stay, also those that have no field here.
/// fn keep_more(jetstream: &JetStream) -> Result<(), Error> {
///     let mut config = jetstream.stream_info("JOBS")?.config;
///     config.max_bytes = Some(1 << 30);
///     let settings = config.other.clone();
///     assert_eq!(jetstream.update_stream(&config)?.config.other, settings);
///     Ok(())
/// }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OtherSettings(serde_json::Map<String, serde_json::Value>);

/// What the servers call the metadata of a stream and of a consumer.
const METADATA: &str = "metadata";

impl OtherSettings {
    /// Returns a value of the metadata, which programs attach to a stream or a consumer.
    ///
    /// # Examples
    /// ```
    /// use ecru_nats::jetstream::ConsumerConfig;
    ///
    /// let config: ConsumerConfig = serde_json::from_str(r#"{"metadata":{"owner":"mill"}}"#).unwrap();
    /// assert_eq!(config.other.metadata("owner"), Some("mill"));
    /// ```
    #[must_use]
    pub fn metadata(&self, key: &str) -> Option<&str> {
        self.0.get(METADATA)?.get(key)?.as_str()
    }

    /// Sets a value of the metadata. The servers keep keys that begin with `_nats.` for themselves.
    ///
    /// # Examples
    /// ```
    /// use ecru_nats::jetstream::StreamConfig;
    ///
    /// let mut config = StreamConfig::new("JOBS");
    /// config.other.set_metadata("owner", "mill");
    /// assert_eq!(config.other.metadata("owner"), Some("mill"));
    /// assert_eq!(config.other.metadata("other"), None);
    /// ```
    pub fn set_metadata(&mut self, key: &str, value: &str) {
        let metadata = self.0.entry(METADATA).or_insert_with(|| serde_json::Map::new().into());
        if !metadata.is_object() {
            *metadata = serde_json::Map::new().into();
        }
        metadata[key] = value.into();
    }
}

fn refused(error: &ApiError, about: &str) -> Error {
    let advice = match error.err_code {
        10058 => "; delete it, or ask for the configuration that it has",
        10059 => "; create the stream",
        10014 => "; create the consumer",
        10077 => "; wait until messages are consumed, or raise the limit",
        10039 => "; enable JetStream for the account",
        10002 | 10023 | 10028 | 10047 => "; give JetStream more storage",
        10174 => "; set `allow_batches` of the stream",
        10158 => "; publish it again to learn whether it was stored",
        _ => "",
    };
    let text = format!("JetStream refused {about}: {}{advice}", tame(&error.description));
    let code = if error.err_code == 0 { error.code } else { error.err_code };
    Error::new(ErrorKind::JetStream, text).with_code(code, &error.description)
}

impl fmt::Debug for JetStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JetStream").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// Durations as JetStream writes them: nanoseconds, 0 for none.
mod nanoseconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let nanoseconds = duration.map_or(0, |duration| duration.as_nanos());
        serializer.serialize_i64(i64::try_from(nanoseconds).unwrap_or(i64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        let nanoseconds = u64::try_from(i64::deserialize(deserializer)?).unwrap_or(0);
        Ok((nanoseconds > 0).then_some(Duration::from_nanos(nanoseconds)))
    }
}

/// Limits as JetStream writes them: -1 for none.
mod limit {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        limit: &Option<u64>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_i64(limit.map_or(-1, |limit| i64::try_from(limit).unwrap_or(i64::MAX)))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<u64>, D::Error> {
        let limit = i64::deserialize(deserializer)?;
        Ok(u64::try_from(limit).ok().filter(|limit| *limit > 0))
    }
}
