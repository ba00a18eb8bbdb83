//! The ids of jobs.

use std::fmt;
use std::io;
use std::sync::Arc;

use crate::engine;

/// The id of a job: the key that it was sent with, or a random one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(Arc<str>);

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
        Ok(JobId(key.into()))
    }

    /// Creates an id that no other job has.
    pub(crate) fn generate() -> JobId {
        JobId(unique().into())
    }

    /// Returns the id that an engine calls `token`. What is not a token keeps its text.
    pub(crate) fn from_token(token: &str) -> JobId {
        JobId(engine::text(token).map_or_else(|| token.into(), Into::into))
    }

    /// Returns what an engine calls the job.
    pub(crate) fn token(&self) -> String {
        engine::token("key", &self.0).expect("it was checked when the id was made")
    }

    /// Returns the id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns any number. In a simulation its seed decides, if the feature `sim` is on.
pub(crate) fn any_number() -> u64 {
    #[cfg(feature = "sim")]
    return ecru::sim::random_u64();
    #[cfg(not(feature = "sim"))]
    fastrand::u64(..)
}

/// Returns 26 random characters, in practice different each time in the whole fleet. In a simulation
/// its seed decides them.
pub(crate) fn unique() -> String {
    let draw = |_| fastrand::Rng::with_seed(any_number()).alphanumeric();
    (0..26).map(draw).collect()
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "JobId({:?})", &*self.0)
    }
}
