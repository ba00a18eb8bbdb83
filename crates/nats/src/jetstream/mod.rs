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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OtherSettings(serde_json::Map<String, serde_json::Value>);

fn refused(error: &ApiError, about: &str) -> Error {
    let advice = match error.err_code {
        10058 => "; delete it, or ask for the configuration that it has",
        10059 => "; create the stream",
        10014 => "; create the consumer",
        10077 => "; wait until messages are consumed, or raise the limit",
        10039 => "; enable JetStream for the account",
        10023 | 10028 | 10047 => "; give JetStream more storage",
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
