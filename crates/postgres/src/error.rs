//! The error of this crate.

use std::fmt;
use std::io;

use ecru::{Cancelled, Elapsed};
use tokio_postgres::error::SqlState;

/// The reason why a call has failed.
#[derive(Debug)]
pub enum Error {
    /// The server refused it, or the connection failed.
    Postgres(tokio_postgres::Error),
    /// It was cancelled.
    Cancelled(Cancelled),
    /// The connection could not be opened, or a reader or writer of a copy failed.
    Io(io::Error),
    /// The client is closed, because the server has not ended a query that was cancelled.
    Closed,
}

impl Error {
    /// Returns the code that the server sent, if it is an error of the server.
    #[must_use]
    pub fn code(&self) -> Option<&SqlState> {
        match self {
            Error::Postgres(error) => error.code(),
            _ => None,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Its own text is "db error".
            Error::Postgres(error) => match error.as_db_error() {
                Some(error) => error.fmt(f),
                None => error.fmt(f),
            },
            Error::Cancelled(cancelled) => cancelled.fmt(f),
            Error::Io(error) => error.fmt(f),
            Error::Closed => f.write_str(
                "the client is closed, because the server has not ended a query that was cancelled",
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Postgres(error) => error.source(),
            Error::Io(error) => error.source(),
            Error::Cancelled(cancelled) => Some(cancelled),
            Error::Closed => None,
        }
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Error {
        Error::Postgres(error)
    }
}

impl From<Cancelled> for Error {
    fn from(cancelled: Cancelled) -> Error {
        Error::Cancelled(cancelled)
    }
}

impl From<Elapsed> for Error {
    fn from(elapsed: Elapsed) -> Error {
        Error::from(io::Error::from(elapsed))
    }
}

/// A cancellation is found in the error.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        match Cancelled::find(&error) {
            Some(cancelled) => Error::Cancelled(cancelled),
            None => Error::Io(error),
        }
    }
}

/// The kind is `Other`, but that of an I/O error.
impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        match error {
            Error::Io(error) => error,
            Error::Cancelled(cancelled) => cancelled.into(),
            other => io::Error::other(other),
        }
    }
}
