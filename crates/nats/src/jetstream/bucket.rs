//! Key-value buckets: a stream with one message for each key.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;

use super::{Discard, JetStream, Storage, StreamConfig};
use crate::error::Error;
use crate::message::{Message, check_name, check_pattern};

/// The codes of an expected sequence number that is another one: it is stored, or a cluster is
/// storing it.
const WRONG_LAST_SEQUENCE: [u32; 2] = [10071, 10164];

/// The header that marks a value as deleted.
const OPERATION: &str = "KV-Operation";

/// The configuration of a bucket.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use ecru_nats::jetstream::{BucketConfig, Storage};
///
/// // A session's values are kept for an hour, and need not survive the server.
/// let sessions = BucketConfig {
///     max_age: Some(Duration::from_secs(3600)),
///     storage: Storage::Memory,
///     ..BucketConfig::new("sessions")
/// };
/// assert_eq!(sessions.history, 1);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BucketConfig {
    /// The name.
    pub name: String,
    /// How many values of a key are kept, at most 64.
    pub history: u64,
    /// How long a value is kept.
    pub max_age: Option<Duration>,
    /// The most bytes.
    pub max_bytes: Option<u64>,
    /// Where values are stored.
    pub storage: Storage,
    /// On how many servers values are stored.
    pub replicas: u32,
}

impl BucketConfig {
    /// Creates the configuration of a bucket that keeps the last value of each key in files of one
    /// server.
    #[must_use]
    pub fn new(name: &str) -> BucketConfig {
        BucketConfig {
            name: name.to_owned(),
            history: 1,
            max_age: None,
            max_bytes: None,
            storage: Storage::File,
            replicas: 1,
        }
    }
}

/// A value of a key.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The value.
    pub value: Bytes,
    /// The revision, which grows with each change in the bucket.
    pub revision: u64,
}

/// A key-value bucket. Other clients' buckets of the same name are the same.
///
/// # Examples
/// ```
/// use ecru_nats::Error;
/// use ecru_nats::jetstream::{BucketConfig, JetStream};
///
/// /// Adds one to a number that several programs count with.
/// fn count(jetstream: &JetStream, key: &str) -> Result<u64, Error> {
///     let numbers = jetstream.create_bucket(&BucketConfig::new("numbers"))?;
///     loop {
///         let Some(last) = numbers.get(key)? else {
///             // Another program may have created it first.
///             if numbers.create(key, "1")?.is_some() {
///                 return Ok(1);
///             }
///             continue;
///         };
///         let text = String::from_utf8_lossy(&last.value);
///         let next = text.parse::<u64>().unwrap_or(0) + 1;
///         // `None` says that another program has changed it since.
///         if numbers.update(key, next.to_string(), last.revision)?.is_some() {
///             return Ok(next);
///         }
///     }
/// }
///
/// /// Sets the number, whatever it is, or removes it.
/// fn set(jetstream: &JetStream, key: &str, number: Option<u64>) -> Result<(), Error> {
///     let numbers = jetstream.bucket("numbers")?;
///     match number {
///         Some(number) => numbers.put(key, number.to_string()).map(drop),
///         None => numbers.delete(key),
///     }
/// }
/// ```
#[derive(Clone)]
pub struct Bucket {
    jetstream: JetStream,
    name: String,
}

impl JetStream {
    /// Creates a bucket. If it exists with the same configuration, nothing happens.
    ///
    /// # Errors
    /// Returns the errors of [`create_stream`](JetStream::create_stream).
    ///
    /// # Cancellation
    /// This is a cancellation point. The bucket may have been created all the same.
    pub fn create_bucket(&self, config: &BucketConfig) -> Result<Bucket, Error> {
        let bucket = self.bucket(&config.name)?;
        self.create_stream(&StreamConfig {
            subjects: vec![format!("$KV.{}.>", config.name)],
            discard: Discard::New,
            storage: config.storage,
            replicas: config.replicas,
            max_messages_per_subject: Some(config.history),
            max_bytes: config.max_bytes,
            max_age: config.max_age,
            // As other clients do: not longer than values are kept.
            duplicate_window: config.max_age.map(|age| age.min(Duration::from_secs(120))),
            allow_rollup: true,
            allow_direct: true,
            deny_delete: true,
            ..StreamConfig::new(&bucket.stream())
        })?;
        Ok(bucket)
    }

    /// Returns a bucket that exists. This is not checked.
    ///
    /// # Errors
    /// Returns [`InvalidInput`](crate::ErrorKind::InvalidInput) if the name is malformed.
    pub fn bucket(&self, name: &str) -> Result<Bucket, Error> {
        check_name("bucket", name)?;
        Ok(Bucket { jetstream: self.clone(), name: name.to_owned() })
    }

    /// Deletes a bucket with its values.
    ///
    /// # Errors
    /// Returns the errors of [`delete_stream`](JetStream::delete_stream).
    ///
    /// # Cancellation
    /// This is a cancellation point. The bucket may have been deleted all the same.
    pub fn delete_bucket(&self, name: &str) -> Result<(), Error> {
        self.delete_stream(&self.bucket(name)?.stream())
    }
}

impl Bucket {
    fn stream(&self) -> String {
        format!("KV_{}", self.name)
    }

    fn subject(&self, key: &str) -> Result<String, Error> {
        let is_good =
            |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '/' | '_' | '=' | '.');
        check_pattern(key)?;
        if !key.chars().all(is_good) {
            let shown: String = key.chars().take(80).collect();
            return Err(Error::invalid(format!(
                "the key {shown:?} is malformed; use letters, digits, and any of -/_=."
            )));
        }
        Ok(format!("$KV.{}.{key}", self.name))
    }

    /// Returns the value of a key, or `None` if there is none.
    ///
    /// # Errors
    /// Returns the errors of [`JetStream::last_message`].
    ///
    /// # Cancellation
    /// This is a cancellation point.
    pub fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        let last = self.jetstream.last_message(&self.stream(), &self.subject(key)?)?;
        Ok(last
            .filter(|message| message.headers.get(OPERATION).is_none())
            .map(|message| Entry { value: message.payload, revision: message.sequence }))
    }

    /// Sets the value of a key. Returns its revision.
    ///
    /// # Errors
    /// Returns the errors of [`JetStream::publish`].
    ///
    /// # Cancellation
    /// This is a cancellation point. The value may have been set all the same.
    pub fn put(&self, key: &str, value: impl Into<Bytes>) -> Result<u64, Error> {
        let message = Message::new(&self.subject(key)?, value);
        Ok(self.jetstream.publish_message(&message)?.sequence)
    }

    /// Sets the value of a key that has none. Returns the revision, or `None` if the key has a
    /// value.
    ///
    /// # Errors
    /// Returns the errors of [`JetStream::publish`]. If
    /// [`Error::is_outcome_unknown`], the value may have been set.
    ///
    /// # Cancellation
    /// This is a cancellation point. The value may have been set all the same.
    pub fn create(&self, key: &str, value: impl Into<Bytes>) -> Result<Option<u64>, Error> {
        let value = value.into();
        if let Some(revision) = self.update(key, value.clone(), 0)? {
            return Ok(Some(revision));
        }
        // A deleted key has a message that says so.
        let last = self.jetstream.last_message(&self.stream(), &self.subject(key)?)?;
        match last {
            Some(last) if last.headers.get(OPERATION).is_some() => {
                self.update(key, value, last.sequence)
            }
            _ => Ok(None),
        }
    }

    /// Sets the value of a key whose value has this revision. Returns the new revision, or `None`
    /// if the key has another one. 0 stands for a key that never had a value.
    ///
    /// # Errors
    /// Returns the errors of [`create`](Bucket::create).
    ///
    /// # Cancellation
    /// This is a cancellation point. The value may have been set all the same.
    pub fn update(
        &self,
        key: &str,
        value: impl Into<Bytes>,
        revision: u64,
    ) -> Result<Option<u64>, Error> {
        let message = Message::new(&self.subject(key)?, value)
            .with_header("Nats-Expected-Last-Subject-Sequence", &revision.to_string())?;
        match self.jetstream.publish_message(&message) {
            Ok(published) => Ok(Some(published.sequence)),
            Err(error) if error.code().is_some_and(|code| WRONG_LAST_SEQUENCE.contains(&code)) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Deletes the value of a key.
    ///
    /// # Errors
    /// Returns the errors of [`JetStream::publish`].
    ///
    /// # Cancellation
    /// This is a cancellation point. The value may have been deleted all the same.
    pub fn delete(&self, key: &str) -> Result<(), Error> {
        let message = Message::new(&self.subject(key)?, "").with_header(OPERATION, "DEL")?;
        self.jetstream.publish_message(&message).map(drop)
    }
}

/// The value is left out, because it may be long or confidential.
impl fmt::Debug for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Entry");
        shown.field("value", &format_args!("{} bytes", self.value.len()));
        shown.field("revision", &self.revision).finish()
    }
}

impl fmt::Debug for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bucket").field("name", &self.name).finish_non_exhaustive()
    }
}
