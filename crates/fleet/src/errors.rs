//! What can go wrong.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use ecru::Cancelled;
use ecru::channel::RecvError;

use crate::id::JobId;

/// The error of every call after the scope of the fleet has ended.
pub(crate) fn disconnected() -> io::Error {
    io::Error::new(
        io::ErrorKind::NotConnected,
        "the fleet has ended with the scope that it was opened in; open it in a scope that lasts \
         longer",
    )
}

pub(crate) fn invalid(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, text.into())
}

/// A job that was not sent, or perhaps not.
#[non_exhaustive]
pub enum SendError<T> {
    /// The queue has as many jobs as its capacity. The job was not stored.
    Full(T),
    /// The fleet has ended. The job was not stored.
    Disconnected(T),
    /// The server has not answered, or the servers are still storing an earlier attempt. The job
    /// was perhaps stored. Sending it again [with this id](crate::Queue::send_again) stores it
    /// once.
    Unknown {
        /// The job.
        job: T,
        /// The id that it was sent with.
        id: JobId,
    },
    /// The wait was cancelled. The job was perhaps stored. Sending it again
    /// [with this id](crate::Queue::send_again) stores it once.
    Cancelled {
        /// The job.
        job: T,
        /// The id that it was sent with.
        id: JobId,
    },
    /// The job cannot be stored, for instance because it is too large. It was not. If the kind of
    /// the error is [`ResourceBusy`](io::ErrorKind::ResourceBusy), the servers are electing a
    /// leader: send it again later.
    Refused {
        /// The job.
        job: T,
        /// Why it cannot be stored.
        error: io::Error,
    },
}

impl<T> SendError<T> {
    /// Returns the job.
    #[must_use]
    pub fn into_inner(self) -> T {
        match self {
            SendError::Full(job)
            | SendError::Disconnected(job)
            | SendError::Unknown { job, .. }
            | SendError::Cancelled { job, .. }
            | SendError::Refused { job, .. } => job,
        }
    }

    fn kind(&self) -> io::ErrorKind {
        match self {
            SendError::Full(_) => io::ErrorKind::QuotaExceeded,
            SendError::Disconnected(_) => io::ErrorKind::NotConnected,
            SendError::Unknown { .. } => io::ErrorKind::TimedOut,
            SendError::Cancelled { .. } => io::ErrorKind::Other,
            SendError::Refused { error, .. } => error.kind(),
        }
    }
}

impl<T> fmt::Display for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SendError::Full(_) => {
                f.write_str("the queue is full; send again later, or raise its capacity")
            }
            SendError::Disconnected(_) => write!(f, "{}", disconnected()),
            SendError::Unknown { id, .. } => {
                write!(f, "there is no answer, so job {id} is perhaps stored; send it again by id")
            }
            SendError::Cancelled { id, .. } => write!(f, "cancelled; job {id} is perhaps stored"),
            SendError::Refused { error, .. } => write!(f, "the job cannot be stored: {error}"),
        }
    }
}

impl<T> fmt::Debug for SendError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            SendError::Full(_) => "Full",
            SendError::Disconnected(_) => "Disconnected",
            SendError::Unknown { .. } => "Unknown",
            SendError::Cancelled { .. } => "Cancelled",
            SendError::Refused { .. } => "Refused",
        };
        write!(f, "{name}({self})")
    }
}

impl<T> Error for SendError<T> {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            SendError::Cancelled { .. } => Some(&RecvError::Cancelled),
            _ => None,
        }
    }
}

impl<T> From<SendError<T>> for io::Error {
    fn from(error: SendError<T>) -> io::Error {
        match error {
            SendError::Refused { error, .. } => error,
            // `Cancelled::find` finds it, as it does in the errors of other waits.
            SendError::Cancelled { .. } => RecvError::Cancelled.into(),
            error => io::Error::new(error.kind(), error.to_string()),
        }
    }
}

/// An attempt at a job has ended before its holder was done, nearly always because its lease has.
/// Another holder may have the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LeaseLost {
    /// The lease was not renewed in time.
    Expired,
    /// The job was cancelled by [`Queue::cancel`](crate::Queue::cancel).
    Cancelled,
    /// The fleet has ended.
    Disconnected,
    /// The attempt took longer than the [time limit](crate::QueueBuilder::time_limit), and a wait
    /// of it was interrupted.
    TimeLimit,
    /// The attempt has not settled its job: [`Unsettled::Lost`](crate::Unsettled::Lost).
    Unsettled,
}

impl fmt::Display for LeaseLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LeaseLost::Expired => "the lease of the job was not renewed in time; it runs again",
            LeaseLost::Cancelled => "the job was cancelled",
            LeaseLost::Disconnected => "the fleet has ended, and the job runs again",
            LeaseLost::TimeLimit => "the attempt took longer than the time limit of the job",
            LeaseLost::Unsettled => {
                "the attempt has not settled its job; its lease was not renewed in time, or the job \
                 was cancelled"
            }
        })
    }
}

impl Error for LeaseLost {}

impl LeaseLost {
    /// Returns the loss in an error that was made from one, or from an
    /// [`Unsettled`](crate::Unsettled), at any depth of its sources.
    ///
    /// # Examples
    /// ```
    /// use std::io;
    ///
    /// use ecru_fleet::LeaseLost;
    ///
    /// let error: io::Error = LeaseLost::Cancelled.into();
    /// assert_eq!(LeaseLost::find(&error), Some(LeaseLost::Cancelled));
    /// assert_eq!(LeaseLost::find(&io::Error::other("disk on fire")), None);
    /// ```
    #[must_use]
    pub fn find(error: &io::Error) -> Option<LeaseLost> {
        let mut next: Option<&(dyn Error + 'static)> = error.get_ref().map(|inner| inner as _);
        while let Some(inner) = next {
            if let Some(lost) = inner.downcast_ref::<LeaseLost>() {
                return Some(*lost);
            }
            if let Some(nested) = inner.downcast_ref::<io::Error>() {
                return LeaseLost::find(nested);
            }
            next = inner.source();
        }
        None
    }
}

impl From<LeaseLost> for io::Error {
    fn from(lost: LeaseLost) -> io::Error {
        let kind = match lost {
            LeaseLost::Disconnected => io::ErrorKind::NotConnected,
            LeaseLost::TimeLimit => io::ErrorKind::TimedOut,
            LeaseLost::Expired | LeaseLost::Cancelled | LeaseLost::Unsettled => {
                io::ErrorKind::Other
            }
        };
        io::Error::new(kind, lost)
    }
}

/// Why a function has failed, and what happens next.
///
/// Any error becomes `Retry` by `?`. For that reason `JobError` is not an error itself.
///
/// # Examples
/// ```
/// use ecru_fleet::JobError;
///
/// fn parse(text: &str) -> Result<u32, JobError> {
///     if text.is_empty() {
///         return Err(JobError::Fatal("there is no text".into()));
///     }
///     Ok(text.parse()?)
/// }
/// assert!(matches!(parse("x"), Err(JobError::Retry(_))));
/// assert!(matches!(parse(""), Err(JobError::Fatal(_))));
/// ```
#[derive(Debug)]
pub enum JobError {
    /// It is tried again after the pause of the function's settings.
    Retry(Box<dyn Error + Send + Sync>),
    /// It is tried again after this pause.
    RetryAfter(Duration, Box<dyn Error + Send + Sync>),
    /// It is not tried again. The caller gets the error's text.
    Fatal(Box<dyn Error + Send + Sync>),
}

impl<E: Error + Send + Sync + 'static> From<E> for JobError {
    fn from(error: E) -> JobError {
        JobError::Retry(Box::new(error))
    }
}

/// Why a call has no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum CallError {
    /// The function has failed for good.
    Failed {
        /// The text of its last error.
        reason: String,
        /// How often it was begun.
        attempts: u32,
    },
    /// The function's queue is full. The call has not begun.
    Full,
    /// The fleet has ended.
    Disconnected,
    /// The wait was cancelled. A call that has no other caller is cancelled, too.
    Cancelled(Cancelled),
    /// The argument or the result cannot be sent, or the server has refused it.
    Io(io::Error),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CallError::Failed { reason, attempts: 1 } => write!(f, "{reason}"),
            CallError::Failed { reason, attempts } => {
                write!(f, "{reason} (after {attempts} attempts)")
            }
            CallError::Full => {
                f.write_str("the queue of the function is full; call again later, or raise it")
            }
            CallError::Disconnected => write!(f, "{}", disconnected()),
            CallError::Cancelled(cancelled) => write!(f, "{cancelled}"),
            CallError::Io(error) => write!(f, "{error}"),
        }
    }
}

impl Error for CallError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            CallError::Io(error) => Some(error),
            CallError::Cancelled(cancelled) => Some(cancelled),
            _ => None,
        }
    }
}

impl From<Cancelled> for CallError {
    fn from(cancelled: Cancelled) -> CallError {
        CallError::Cancelled(cancelled)
    }
}

impl From<io::Error> for CallError {
    fn from(error: io::Error) -> CallError {
        match Cancelled::find(&error) {
            Some(cancelled) => CallError::Cancelled(cancelled),
            None if error.kind() == io::ErrorKind::NotConnected => CallError::Disconnected,
            None => CallError::Io(error),
        }
    }
}

impl From<CallError> for io::Error {
    fn from(error: CallError) -> io::Error {
        match error {
            CallError::Io(error) => error,
            CallError::Cancelled(cancelled) => cancelled.into(),
            CallError::Disconnected => disconnected(),
            CallError::Full => io::Error::new(io::ErrorKind::QuotaExceeded, error),
            error @ CallError::Failed { .. } => io::Error::other(error),
        }
    }
}
