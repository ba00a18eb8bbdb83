//! The error of a join.

use std::any::Any;
use std::sync::{Mutex, PoisonError};
use std::{error, fmt, io};

use super::deadline::Elapsed;
use crate::task::{self, Cancelled, UNEXPLAINED};

/// The error of a [`join`](crate::JoinHandle::join) that returns no value.
///
/// # Examples
/// ```
/// use ecru::JoinError;
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let task = s.spawn(|| 7);
///         task.join().unwrap();
///         match task.join() {
///             Err(JoinError::Taken) => println!("the first join has taken the result"),
///             Err(error) => panic!("{error}"),
///             Ok(_) => unreachable!(),
///         }
///     });
/// });
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum JoinError {
    /// The task was cancelled before it began, and its body never ran. Or its work was a future,
    /// which was dropped while it was pending.
    Cancelled,
    /// The task panicked.
    Panicked(PanicPayload),
    /// The task failed in a [`try_scope`](crate::try_scope), which has its error.
    Failed,
    /// The caller was cancelled while it waited. The handle can be joined again.
    CallerCancelled,
    /// The result has already been taken.
    Taken,
    /// A combinator was given no task to wait for.
    Empty,
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JoinError::Cancelled => f.write_str("the task was cancelled before it began"),
            JoinError::Panicked(payload) => match payload.message() {
                Some(message) => write!(f, "the task panicked: {message}"),
                None => f.write_str("the task panicked"),
            },
            JoinError::Failed => f.write_str("the task failed; its scope returns the error"),
            JoinError::CallerCancelled => f.write_str("cancelled while waiting for a task"),
            JoinError::Taken => f.write_str("the task's result has been taken before"),
            JoinError::Empty => f.write_str("there was no task to wait for"),
        }
    }
}

impl error::Error for JoinError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        matches!(self, JoinError::CallerCancelled).then_some(&UNEXPLAINED as _)
    }
}

impl From<JoinError> for io::Error {
    fn from(error: JoinError) -> io::Error {
        match (&error, crate::task::cancelled()) {
            (JoinError::CallerCancelled, Some(cancelled)) => cancelled.into(),
            _ => io::Error::other(error),
        }
    }
}

/// An error type that implements `From<JoinError>`. It exists for the compiler's message about types
/// that do not.
#[expect(unnameable_types, reason = "programs implement `From<JoinError>`")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot say that a task has no result",
    label = "the error of these tasks has no `From<ecru::JoinError>`",
    note = "implement `From<ecru::JoinError>` for `{Self}`, or let the tasks return an error that has it, such as `std::io::Error` or `Box<dyn std::error::Error + Send + Sync>`",
    note = "`ecru::join_all` keeps the two errors apart: it returns a `Result<Result<_, {Self}>, ecru::JoinError>` for each task"
)]
pub trait FromJoinError {
    #[doc(hidden)]
    fn from_join_error(error: JoinError) -> Self;
}

#[diagnostic::do_not_recommend]
impl<E: From<JoinError>> FromJoinError for E {
    fn from_join_error(error: JoinError) -> E {
        E::from(error)
    }
}

impl From<Cancelled> for JoinError {
    fn from(_: Cancelled) -> JoinError {
        JoinError::CallerCancelled
    }
}

impl From<Elapsed> for JoinError {
    fn from(_: Elapsed) -> JoinError {
        JoinError::CallerCancelled
    }
}

/// The payload of a task's panic.
///
/// # Examples
/// ```
/// use ecru::JoinError;
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let task = s.spawn(|| panic!("out of {}", "paper"));
///         let Err(JoinError::Panicked(payload)) = task.join() else { unreachable!() };
///         assert_eq!(payload.message(), Some("out of paper"));
///     });
/// });
/// ```
pub struct PanicPayload {
    /// In a mutex, because a payload is `Send` but not `Sync`, and errors are both. The message is
    /// stored separately so that it can be borrowed.
    payload: Mutex<Box<dyn Any + Send>>,
    message: Option<String>,
    /// Where it was thrown, and in which task, if the message does not say it.
    #[cfg(feature = "sim")]
    origin: Option<String>,
}

impl PanicPayload {
    pub(crate) fn new(payload: Box<dyn Any + Send>) -> PanicPayload {
        let message = task::text_of(&*payload).map(String::from);
        PanicPayload {
            payload: Mutex::new(payload),
            message,
            #[cfg(feature = "sim")]
            origin: None,
        }
    }

    /// Keeps a payload together with where it was thrown.
    #[cfg(feature = "sim")]
    pub(crate) fn thrown(
        payload: Box<dyn Any + Send>,
        origin: impl Into<Option<String>>,
    ) -> PanicPayload {
        PanicPayload { origin: origin.into(), ..PanicPayload::new(payload) }
    }

    /// Returns where the panic was thrown, and in which task, if the message does not say it.
    #[cfg(feature = "sim")]
    pub(crate) fn origin(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    /// Returns the panic's message, if the payload is a string.
    #[must_use]
    pub fn message(&self) -> Option<&str> {
        self.message.as_deref()
    }

    /// Returns the payload itself, for [`std::panic::resume_unwind`].
    #[must_use]
    pub fn into_inner(self) -> Box<dyn Any + Send> {
        self.payload.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keeps the payload of a panic that was caught elsewhere, by [`std::panic::catch_unwind`] or
/// [`std::thread::JoinHandle::join`].
///
/// # Examples
/// ```
/// use ecru::PanicPayload;
///
/// let payload = std::panic::catch_unwind(|| panic!("no answer")).unwrap_err();
/// assert_eq!(PanicPayload::from(payload).message(), Some("no answer"));
/// ```
impl From<Box<dyn Any + Send>> for PanicPayload {
    fn from(payload: Box<dyn Any + Send>) -> PanicPayload {
        PanicPayload::new(payload)
    }
}

impl fmt::Debug for PanicPayload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PanicPayload").field("message", &self.message).finish_non_exhaustive()
    }
}
