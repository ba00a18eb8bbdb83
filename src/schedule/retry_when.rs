//! Retrying only some failures.

use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;

use super::retry::Retry;
use crate::task::Cancelled;

/// A [`Retry`] of only some failures: see [`Retry::when`].
#[must_use = "nothing runs before `until_ok` or `repeat`"]
pub struct RetryWhen<E, P> {
    retry: Retry,
    retries: P,
    _error: PhantomData<fn(&E)>,
}

impl Retry {
    /// Retries only the failures for which `retries` returns true. Any other failure is returned at
    /// once. This is the last setting: what it returns has the methods that run something.
    ///
    /// # Examples
    /// ```
    /// use ecru::Retry;
    /// use std::io::{Error, ErrorKind};
    ///
    /// let retry = Retry::new().when(|error: &Error| error.kind() == ErrorKind::ConnectionRefused);
    /// let mut kinds = vec![ErrorKind::NotFound, ErrorKind::ConnectionRefused];
    /// let outcome = retry.until_ok(|| match kinds.pop() {
    ///     Some(kind) => Err(Error::from(kind)),
    ///     None => Ok(()),
    /// });
    /// assert_eq!(outcome.unwrap_err().kind(), ErrorKind::NotFound);
    /// ```
    pub fn when<E, P>(self, retries: P) -> RetryWhen<E, P>
    where
        P: Fn(&E) -> bool,
    {
        RetryWhen { retry: self, retries, _error: PhantomData }
    }
}

impl<E: From<Cancelled>, P: Fn(&E) -> bool> RetryWhen<E, P> {
    /// Runs `op` as [`Retry::until_ok`] does.
    ///
    /// # Errors
    /// Returns the errors of `Retry::until_ok`, and a failure that is not one to retry.
    ///
    /// # Panics
    /// Panics in the same cases as `Retry::until_ok`, and if the condition panics.
    ///
    /// # Cancellation
    /// Each pause is a cancellation point.
    ///
    /// # Examples
    /// ```
    /// use ecru::Retry;
    /// use std::io::{Error, ErrorKind};
    ///
    /// let interrupted = |error: &Error| error.kind() == ErrorKind::Interrupted;
    /// let mut answers = vec![Ok(7), Err(ErrorKind::Interrupted)];
    /// let answer = Retry::new().when(interrupted).until_ok(|| answers.pop().unwrap().map_err(Error::from));
    /// assert_eq!(answer.unwrap(), 7);
    /// ```
    #[track_caller]
    pub fn until_ok<T, F>(&self, op: F) -> Result<T, E>
    where
        F: FnMut() -> Result<T, E>,
    {
        self.retry.run(op, Some, &self.retries)
    }

    /// Runs `op` as [`Retry::repeat`] does. It also ends with a failure that is not one to retry.
    ///
    /// # Panics
    /// Panics in the same cases as `Retry::repeat`, and if the condition panics.
    ///
    /// # Cancellation
    /// Each pause is a cancellation point.
    ///
    /// # Examples
    /// ```
    /// use ecru::Retry;
    /// use std::io::{Error, ErrorKind};
    ///
    /// let serve = Retry::new().when(|error: &Error| error.kind() != ErrorKind::BrokenPipe);
    /// let mut requests = vec![Err(ErrorKind::BrokenPipe), Ok(2), Err(ErrorKind::TimedOut), Ok(1)];
    /// let end = serve.repeat(|| requests.pop().unwrap().map_err(Error::from));
    /// assert_eq!(end.kind(), ErrorKind::BrokenPipe);
    /// ```
    #[track_caller]
    pub fn repeat<T, F>(&self, op: F) -> E
    where
        F: FnMut() -> Result<T, E>,
    {
        let Err(error) = self.retry.run(op, |_| None::<Infallible>, &self.retries);
        error
    }
}

impl<E, P> fmt::Debug for RetryWhen<E, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RetryWhen").field("retry", &self.retry).finish_non_exhaustive()
    }
}
