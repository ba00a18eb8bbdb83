//! Consumers: what hands out a stream's messages and remembers which have been settled.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::pull::{self, Deliveries};
use super::{ApiError, ClusterInfo, JetStream, OtherSettings, Success, nanoseconds, refused};
use crate::error::{Error, ErrorKind};
use crate::message::{check_name, check_pattern, check_subject};

/// A pause that is shorter than this may be over when the server answers.
const ROUND_TRIP: Duration = Duration::from_secs(1);

/// How messages are settled.
///
/// # Examples
/// ```
/// use ecru_nats::jetstream::{AckPolicy, ConsumerConfig};
///
/// // The readers of this log settle no messages.
/// let config = ConsumerConfig { ack_policy: AckPolicy::None, ..ConsumerConfig::new("readers") };
/// assert_ne!(config.ack_policy, AckPolicy::default());
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum AckPolicy {
    /// Each message by itself.
    #[default]
    Explicit,
    /// A message together with all before it.
    All,
    /// Not at all: a message that is sent is done.
    None,
}

/// Where a new consumer begins.
///
/// # Examples
/// ```
/// use ecru_nats::jetstream::{ConsumerConfig, DeliverPolicy};
///
/// // A consumer that goes on where another program has stopped.
/// let config = ConsumerConfig {
///     deliver_policy: DeliverPolicy::ByStartSequence,
///     start_sequence: Some(17),
///     ..ConsumerConfig::new("second")
/// };
/// assert_eq!(config.start_time, None);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DeliverPolicy {
    /// With the first message of the stream.
    #[default]
    All,
    /// With the last message.
    Last,
    /// With messages that are stored from now on.
    New,
    /// With the last message of each subject.
    LastPerSubject,
    /// With [`ConsumerConfig::start_sequence`], or the next message after it that is stored.
    ByStartSequence,
    /// With the first message that was stored at [`ConsumerConfig::start_time`] or later.
    ByStartTime,
}

/// The configuration of a durable pull consumer.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use ecru_nats::jetstream::ConsumerConfig;
///
/// let config = ConsumerConfig {
///     ack_wait: Some(Duration::from_secs(30)),
///     max_ack_pending: Some(40),
///     ..ConsumerConfig::new("bakers")
/// };
/// assert_eq!(config.max_deliver, None);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ConsumerConfig {
    /// The name.
    #[serde(rename = "durable_name")]
    pub name: String,
    /// What the consumer is for, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Only messages with this subject are handed out. Wildcards are possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filter_subject: Option<String>,
    /// Where the consumer begins.
    pub deliver_policy: DeliverPolicy,
    /// The stream's sequence number of the first message, for [`DeliverPolicy::ByStartSequence`].
    #[serde(rename = "opt_start_seq", skip_serializing_if = "Option::is_none")]
    pub start_sequence: Option<u64>,
    /// The time of the first message in the form of RFC 3339, for [`DeliverPolicy::ByStartTime`].
    #[serde(rename = "opt_start_time", skip_serializing_if = "Option::is_none")]
    pub start_time: Option<String>,
    /// How messages are settled.
    pub ack_policy: AckPolicy,
    /// After how long a message that is not settled is handed out again. The server's default is
    /// 30 s.
    #[serde(with = "nanoseconds")]
    pub ack_wait: Option<Duration>,
    /// The most messages handed out and not settled, over all programs. The server's default is
    /// 1000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_ack_pending: Option<i64>,
    /// How often a message is handed out, at most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_deliver: Option<i64>,
    /// The most pull requests at once, over all programs. The server's default is 512.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_waiting: Option<i64>,
    /// After how long without use the consumer is deleted.
    #[serde(with = "nanoseconds")]
    pub inactive_threshold: Option<Duration>,
    /// On how many servers the state is stored. 0 means as the stream.
    #[serde(rename = "num_replicas")]
    pub replicas: u32,
    /// Settings that have no field here.
    #[serde(flatten)]
    pub other: OtherSettings,
}

impl ConsumerConfig {
    /// Creates the configuration of a consumer of all messages, which are settled one by one.
    #[must_use]
    pub fn new(name: &str) -> ConsumerConfig {
        ConsumerConfig { name: name.to_owned(), ..ConsumerConfig::default() }
    }
}

/// A consumer's configuration and state.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct ConsumerInfo {
    /// The configuration. The server has filled in its defaults.
    pub config: ConsumerConfig,
    /// The last message that was handed out.
    #[serde(default)]
    pub delivered: Sequences,
    /// The last message up to which all are settled.
    #[serde(default)]
    pub ack_floor: Sequences,
    /// How many messages have not been handed out.
    #[serde(default)]
    pub num_pending: u64,
    /// How many messages have been handed out and not settled.
    #[serde(default)]
    pub num_ack_pending: u64,
    /// How many messages have been handed out more than once and not settled.
    #[serde(default)]
    pub num_redelivered: u64,
    /// How many pull requests wait.
    #[serde(default)]
    pub num_waiting: u64,
    /// Whether the consumer is paused: see [`Consumer::pause`].
    #[serde(default)]
    pub paused: bool,
    /// How long the pause lasts from now on.
    #[serde(with = "nanoseconds", default)]
    pub pause_remaining: Option<Duration>,
    /// On which servers the consumer is, unless the server is the only one.
    #[serde(default)]
    pub cluster: Option<ClusterInfo>,
    /// When the server wrote this, by its own clock, in the form of RFC 3339.
    #[serde(rename = "ts", default)]
    pub time: String,
}

/// The numbers of a message that a consumer has handed out. Both are 0 if there was none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct Sequences {
    /// Its number among the deliveries of the consumer. A message that is handed out again has
    /// another one.
    #[serde(rename = "consumer_seq", default)]
    pub consumer: u64,
    /// Its number in the stream.
    #[serde(rename = "stream_seq", default)]
    pub stream: u64,
}

/// What a server says about a pause.
#[derive(Deserialize)]
struct Paused {
    #[serde(default)]
    paused: bool,
}

/// A consumer of a stream.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use ecru_nats::Error;
/// use ecru_nats::jetstream::{Consumer, JetStream};
///
/// /// Hands nothing out for an hour, or until the pause is ended.
/// fn lunch(bakers: &Consumer, finished: impl Fn() -> bool) -> Result<(), Error> {
///     bakers.pause(Duration::from_secs(3600))?;
///     if finished() {
///         bakers.resume()?;
///     }
///     let info = bakers.info()?;
///     println!("{} jobs wait, {} are being worked on", info.num_pending, info.num_ack_pending);
///     Ok(())
/// }
///
/// /// Deletes a consumer that is not needed any more. The messages of a queue stay.
/// fn dismiss(jetstream: &JetStream) -> Result<(), Error> {
///     jetstream.consumer("JOBS", "bakers")?.delete()
/// }
/// ```
#[derive(Clone)]
pub struct Consumer {
    pub(super) jetstream: JetStream,
    pub(super) stream: String,
    pub(super) name: String,
}

impl JetStream {
    /// Creates a consumer. If it exists with the same configuration, nothing happens.
    ///
    /// # Errors
    /// Returns [`JetStream`](crate::ErrorKind::JetStream), with the code 10148 if there is a
    /// consumer of the name with another configuration and 10059 if there is no such stream, and
    /// the errors of a [request](crate::Request::get).
    ///
    /// # Cancellation
    /// This is a cancellation point. The consumer may have been created all the same.
    pub fn create_consumer(
        &self,
        stream: &str,
        config: &ConsumerConfig,
    ) -> Result<Consumer, Error> {
        self.put_consumer(stream, config, "create")
    }

    /// Gives an existing consumer another configuration. Not all of it can be changed: the server
    /// refuses another `deliver_policy` or `ack_policy`. To change one setting and keep all others,
    /// change it in the configuration that [`info`](Consumer::info) has returned.
    ///
    /// # Errors
    /// Returns [`JetStream`](crate::ErrorKind::JetStream), with the code 10149 if there is no such
    /// consumer, and the errors of a [request](crate::Request::get).
    ///
    /// # Cancellation
    /// This is a cancellation point. The consumer may have been changed all the same.
    pub fn update_consumer(
        &self,
        stream: &str,
        config: &ConsumerConfig,
    ) -> Result<Consumer, Error> {
        self.put_consumer(stream, config, "update")
    }

    fn put_consumer(
        &self,
        stream: &str,
        config: &ConsumerConfig,
        action: &str,
    ) -> Result<Consumer, Error> {
        let consumer = self.consumer(stream, &config.name)?;
        let mut operation = format!("CONSUMER.CREATE.{stream}.{}", config.name);
        if let Some(filter) = &config.filter_subject {
            check_pattern(filter)?;
            // A server can permit this form for each filter by itself. A subject has no wildcards.
            if check_subject(filter).is_ok() {
                operation = format!("{operation}.{filter}");
            }
        }
        let mut body = json!({ "stream_name": stream, "config": config, "action": action });
        body["config"]["name"] = json!(config.name);
        let _: ConsumerInfo = self.ask(&operation, &body, &consumer.about())?;
        Ok(consumer)
    }

    /// Returns a consumer that exists. This is not checked.
    ///
    /// # Errors
    /// Returns [`InvalidInput`](crate::ErrorKind::InvalidInput) if a name is malformed.
    pub fn consumer(&self, stream: &str, name: &str) -> Result<Consumer, Error> {
        check_name("stream", stream)?;
        check_name("consumer", name)?;
        Ok(Consumer { jetstream: self.clone(), stream: stream.to_owned(), name: name.to_owned() })
    }
}

impl Consumer {
    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of the stream.
    #[must_use]
    pub fn stream(&self) -> &str {
        &self.stream
    }

    /// Returns how errors name the consumer.
    pub(super) fn about(&self) -> String {
        format!("the consumer {} of the stream {}", self.name, self.stream)
    }

    /// Returns the error of a request for messages that the server refuses.
    pub(super) fn refused(&self, code: u32, words: &str) -> Error {
        let error = ApiError { code, err_code: 0, description: words.to_owned() };
        let server = self.jetstream.client().server();
        refused(&error, &format!("messages of {}", self.about())).at(&server)
    }

    /// Returns the configuration and state.
    ///
    /// # Errors
    /// Returns [`JetStream`](crate::ErrorKind::JetStream), with the code 10014 if there is no such
    /// consumer, and the errors of a [request](crate::Request::get).
    ///
    /// # Cancellation
    /// This is a cancellation point.
    pub fn info(&self) -> Result<ConsumerInfo, Error> {
        let operation = format!("CONSUMER.INFO.{}.{}", self.stream, self.name);
        self.jetstream.ask(&operation, &json!({}), &self.about())
    }

    /// Deletes the consumer. In a work queue, its messages stay in the stream.
    ///
    /// # Errors
    /// Returns the errors of [`info`](Consumer::info).
    ///
    /// # Cancellation
    /// This is a cancellation point. The consumer may have been deleted all the same.
    pub fn delete(&self) -> Result<(), Error> {
        let operation = format!("CONSUMER.DELETE.{}.{}", self.stream, self.name);
        let done: Success = self.jetstream.ask(&operation, &json!({}), &self.about())?;
        done.check(&self.about())
    }

    /// Pauses the consumer: no message is handed out for `pause`, to any program. Those that have
    /// been handed out can be settled. Another pause replaces this one.
    ///
    /// # Errors
    /// Returns [`InvalidInput`](crate::ErrorKind::InvalidInput) if the end of the pause is after the
    /// year 9999, and the errors of [`info`](Consumer::info).
    ///
    /// # Cancellation
    /// This is a cancellation point. The consumer may have been paused all the same.
    pub fn pause(&self, pause: Duration) -> Result<(), Error> {
        let until = until(&self.info()?.time, pause);
        let until = until.ok_or_else(|| {
            let text = format!("{} cannot be paused for {pause:?}; pass less", self.about());
            Error::invalid(text)
        })?;
        let answer = self.set_pause(&json!({ "pause_until": until }))?;
        if answer.paused || pause < ROUND_TRIP {
            return Ok(());
        }
        let text = format!("JetStream did not pause {}, and does not say why", self.about());
        Err(Error::new(ErrorKind::JetStream, text).at(&self.jetstream.client().server()))
    }

    /// Ends a pause. If there is none, nothing happens.
    ///
    /// # Errors
    /// Returns the errors of [`info`](Consumer::info).
    ///
    /// # Cancellation
    /// This is a cancellation point. The pause may have been ended all the same.
    pub fn resume(&self) -> Result<(), Error> {
        self.set_pause(&json!({})).map(drop)
    }

    fn set_pause(&self, body: &serde_json::Value) -> Result<Paused, Error> {
        let operation = format!("CONSUMER.PAUSE.{}.{}", self.stream, self.name);
        self.jetstream.ask(&operation, body, &self.about())
    }

    /// Begins to receive messages. `window` bounds how many are with this program at a time:
    /// requested, in the channel, or received and not dropped. More than 1,048,576 count as that.
    ///
    /// # Errors
    /// Returns [`InvalidInput`](crate::ErrorKind::InvalidInput) if `window` is 0, and the errors of
    /// [`info`](Consumer::info). If the consumer is deleted later, [`Deliveries::ended_by`] says
    /// so.
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled call has requested nothing.
    ///
    /// # Examples
    /// ```no_run
    /// # fn f(consumer: &ecru_nats::jetstream::Consumer) -> Result<(), ecru_nats::Error> {
    /// let deliveries = consumer.messages(16)?;
    /// for delivery in &deliveries {
    ///     println!("{} bytes", delivery.payload().len());
    ///     delivery.ack()?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn messages(&self, window: usize) -> Result<Deliveries, Error> {
        if window == 0 {
            let text = format!("the window of {} is 0; pass 1 or more", self.about());
            return Err(Error::invalid(text));
        }
        self.info()?;
        pull::begin(self, window)
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Consumer");
        shown.field("stream", &self.stream).field("name", &self.name).finish()
    }
}

/// Returns the end of a pause that begins at this time, both in the form of RFC 3339.
fn until(now: &str, pause: Duration) -> Option<String> {
    let now = OffsetDateTime::parse(now, &Rfc3339).ok()?;
    now.checked_add(pause.try_into().ok()?)?.format(&Rfc3339).ok()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::until;

    #[test]
    fn the_end_of_a_pause() {
        let now = "2026-11-23T18:00:59.25Z";
        let end = until(now, Duration::from_millis(1500));
        assert_eq!(end.as_deref(), Some("2026-11-23T18:01:00.75Z"));
        assert_eq!(until(now, Duration::MAX), None);
        assert_eq!(until(now, Duration::from_secs(9000 * 366 * 24 * 3600)), None);
        assert_eq!(until("", Duration::from_secs(1)), None);
    }
}
