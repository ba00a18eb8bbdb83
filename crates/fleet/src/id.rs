//! The ids of jobs.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::io;
use std::sync::Arc;

use crate::engine;

/// The id of a job: the key that it was sent with, or a random one.
///
/// Ids are equal if their texts are. The id of a job that was perhaps sent, which a
/// [`SendError`](crate::SendError) has, also names that one sending for
/// [`send_again`](crate::Queue::send_again).
#[derive(Clone)]
pub struct JobId {
    text: Arc<str>,
    /// Names the sending of one job for the server, which stores no second message with that name.
    sending: Option<Arc<str>>,
    /// What an engine calls the job, if that is not the token of the text.
    in_order: Option<Arc<str>>,
    /// The priority of the sending.
    priority: u8,
}

impl JobId {
    /// Returns the id of the job that is sent with this key.
    ///
    /// # Errors
    /// Returns `InvalidInput` if the key is empty or too long: at most 512 bytes, where each
    /// character other than letters, digits, `_` and `-` counts three times or more.
    ///
    /// # Examples
    /// ```
    /// use ecru_fleet::JobId;
    ///
    /// assert_eq!(JobId::from_key("user 7")?.as_str(), "user 7");
    /// assert!(JobId::from_key("").is_err());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn from_key(key: &str) -> io::Result<JobId> {
        engine::token("key", key)?;
        Ok(JobId { text: key.into(), sending: None, in_order: None, priority: 0 })
    }

    /// Returns the id of a job that is about to be sent with this key.
    pub(crate) fn keyed(key: &str) -> io::Result<JobId> {
        let token = engine::token("key", key)?;
        // Another job may be sent with the key soon.
        let sending = format!("{token}.{}", unique());
        let (text, sending) = (key.into(), Some(sending.into()));
        Ok(JobId { text, sending, in_order: None, priority: 0 })
    }

    /// Returns the id of a job that is about to be sent with this key, in order with others of it.
    pub(crate) fn in_order(key: &str) -> io::Result<JobId> {
        let id = engine::in_order(&engine::token("key", key)?, &unique());
        Ok(JobId { sending: Some(id.as_str().into()), ..JobId::from_token(&id) })
    }

    /// Returns the name of the sending, if the id is that of one.
    pub(crate) fn sending(&self) -> Option<&str> {
        self.sending.as_deref()
    }

    /// Returns the priority of the sending, if the id is that of one.
    pub(crate) fn priority(&self) -> Option<u8> {
        self.sending.is_some().then_some(self.priority)
    }

    /// Returns the id of a sending with this priority.
    pub(crate) fn with_priority(self, priority: u8) -> JobId {
        JobId { priority, ..self }
    }

    /// Creates an id that no other job has.
    pub(crate) fn generate() -> JobId {
        let text: Arc<str> = unique().into();
        JobId { sending: Some(Arc::clone(&text)), text, in_order: None, priority: 0 }
    }

    /// Returns the id that an engine calls `token`. What is not a token keeps its text.
    pub(crate) fn from_token(token: &str) -> JobId {
        if let Some((key, name)) = engine::key_of(token)
            && let Some(key) = engine::text(key)
        {
            let text = format!("{key}/{name}").into();
            return JobId { text, sending: None, in_order: Some(token.into()), priority: 0 };
        }
        let text = engine::text(token).map_or_else(|| token.into(), Into::into);
        JobId { text, sending: None, in_order: None, priority: 0 }
    }

    /// Returns what an engine calls the job.
    pub(crate) fn token(&self) -> String {
        if let Some(token) = &self.in_order {
            return token.to_string();
        }
        engine::token("key", &self.text).expect("it was checked when the id was made")
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// Returns any number. In a simulation its seed decides, if the feature `sim` is on.
pub(crate) fn any_number() -> u64 {
    #[cfg(feature = "sim")]
    return ecru::sim::random_u64();
    #[cfg(not(feature = "sim"))]
    fastrand::u64(..)
}

/// Returns 26 random characters, in practice different each time in the whole fleet. In a
/// simulation its seed decides them.
pub(crate) fn unique() -> String {
    let draw = |_| fastrand::Rng::with_seed(any_number()).alphanumeric();
    (0..26).map(draw).collect()
}

impl PartialEq for JobId {
    fn eq(&self, other: &JobId) -> bool {
        self.text == other.text
    }
}

impl Eq for JobId {}

impl PartialOrd for JobId {
    fn partial_cmp(&self, other: &JobId) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for JobId {
    fn cmp(&self, other: &JobId) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl Hash for JobId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobId({:?})", &*self.text)
    }
}
