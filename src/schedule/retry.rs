//! Retrying what has failed.

use std::convert::Infallible;
use std::time::Duration;

use super::budget::RetryBudget;
use super::delay::Delay;
use super::jitter::Jitter;
use crate::task::{self, Cancelled};
use crate::time;

/// A policy: how often to retry what has failed, and how long to pause before each retry. By
/// default there is no limit and no pause.
///
/// # What is not retried
/// - A panic is not retried. It continues in the caller.
/// - A failure because of a cancellation is not retried. Once the running code
///   [has been cancelled](crate::is_cancelled), a failure is returned as it is. A time limit
///   *inside* the closure does not count: once it has ended, the running code is no longer
///   cancelled.
///
/// # Examples
/// ```
/// use ecru::Retry;
/// use ecru::schedule::{Delay, Jitter};
/// use std::io;
/// use std::time::Duration;
///
/// let mut tries = 0;
/// let answer: io::Result<u32> = Retry::new()
///     .max_failures(5)
///     .delay(Delay::Backoff {
///         start: Duration::from_micros(50),
///         max: Duration::from_millis(1),
///         mult: 2,
///     })
///     .jitter(Jitter::Equal)
///     .until_ok(|| {
///         tries += 1;
///         if tries < 3 { Err(io::ErrorKind::ConnectionRefused.into()) } else { Ok(tries) }
///     });
/// assert_eq!(answer.unwrap(), 3);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "nothing runs before `until_ok` or `repeat`"]
pub struct Retry {
    /// The number of consecutive failures that are retried. `None` if there is no limit.
    max_failures: Option<u32>,
    delay: Delay,
    jitter: Jitter,
    /// `None` if the number of retries is not limited by a budget.
    budget: Option<RetryBudget>,
}

impl Retry {
    /// Creates a retry policy without a limit and without pauses.
    pub fn new() -> Retry {
        Retry::default()
    }

    /// Sets the number of consecutive failures that are retried. The failure after these is
    /// returned. With 0 nothing is retried.
    ///
    /// # Examples
    /// ```
    /// use ecru::{Cancelled, Retry};
    ///
    /// #[derive(Debug, PartialEq)]
    /// struct Failure(u32);
    /// impl From<Cancelled> for Failure {
    ///     fn from(_: Cancelled) -> Self {
    ///         Failure(0)
    ///     }
    /// }
    ///
    /// let mut tries = 0;
    /// let result: Result<(), _> = Retry::new().max_failures(2).until_ok(|| {
    ///     tries += 1;
    ///     Err(Failure(tries))
    /// });
    /// assert_eq!(result, Err(Failure(3)));
    /// ```
    pub fn max_failures(mut self, failures: u32) -> Retry {
        self.max_failures = Some(failures);
        self
    }

    /// Sets how long to pause after a failure.
    ///
    /// # Panics
    /// Panics if `mult` is 0, because the second pause and all later ones would be zero.
    #[track_caller]
    pub fn delay(mut self, delay: Delay) -> Retry {
        assert!(
            delay.factor() != Some(0),
            "a delay whose `mult` is 0 would not pause after the second failure; pass at least 1, or use `Delay::None`"
        );
        self.delay = delay;
        self
    }

    /// Sets the jitter of each pause; see [`Delay::pause_after`].
    pub fn jitter(mut self, jitter: Jitter) -> Retry {
        self.jitter = jitter;
        self
    }

    /// Sets a budget of retries, which other policies may share. A failure for which the budget has
    /// no retry left is returned. Successes add to the budget.
    ///
    /// # Examples
    /// ```
    /// use ecru::Retry;
    /// use ecru::schedule::RetryBudget;
    /// use std::io;
    ///
    /// // Two retries in reserve, and one more for every ten successes.
    /// let budget = RetryBudget::new(2, 10);
    /// let retry = Retry::new().budget(&budget);
    /// let mut tries = 0;
    /// let broken = retry.until_ok(|| {
    ///     tries += 1;
    ///     Err::<(), io::Error>(io::ErrorKind::ConnectionRefused.into())
    /// });
    /// assert!(broken.is_err());
    /// assert_eq!((tries, budget.retries()), (3, 0));
    /// ```
    pub fn budget(mut self, budget: &RetryBudget) -> Retry {
        self.budget = Some(budget.clone());
        self
    }

    /// Runs `op` until it succeeds, and returns its value.
    ///
    /// [`Schedule::until_ok`](crate::Schedule::until_ok), in contrast, makes a schedule with a limit
    /// of runs, which [`run`](crate::schedule::Until::run) runs.
    ///
    /// # Errors
    /// Returns the failure that exceeded the limit or the budget, or a failure that occurred after
    /// the caller had been cancelled. If a
    /// pause is cancelled, returns [`Cancelled`] converted to the error type.
    ///
    /// # Panics
    /// Panics if `op` panics; it is not retried then. Also panics if a pause is reached inside
    /// [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// Each pause is a cancellation point. A success is returned even if a cancellation came before
    /// it.
    ///
    /// # Examples
    /// ```
    /// use ecru::Retry;
    /// use ecru::schedule::Delay;
    /// use std::io::{Error, ErrorKind};
    /// use std::time::Duration;
    ///
    /// let mut answers = vec![Ok("ready"), Err(ErrorKind::ConnectionRefused)];
    /// let retry = Retry::new().max_failures(3).delay(Delay::Constant(Duration::from_micros(100)));
    /// let answer = retry.until_ok(|| answers.pop().unwrap().map_err(Error::from))?;
    /// assert_eq!(answer, "ready");
    /// # std::io::Result::Ok(())
    /// ```
    #[track_caller]
    pub fn until_ok<T, E, F>(&self, op: F) -> Result<T, E>
    where
        F: FnMut() -> Result<T, E>,
        E: From<Cancelled>,
    {
        self.run(op, Some, |_| true)
    }

    /// Runs `op` repeatedly, also after a success, until the consecutive failures exceed the limit.
    /// This is meant for what should go on forever, such as serving. A success resets the count of
    /// failures, and the pause after it is the one for zero failures. With `max_failures(0)` it
    /// runs until the first failure.
    ///
    /// Returns the failure that exceeded the limit, or a failure that occurred after the caller had
    /// been cancelled. If a pause is cancelled, returns [`Cancelled`] converted to the error type.
    ///
    /// # Panics
    /// Panics in the same cases as [`until_ok`](Retry::until_ok).
    ///
    /// # Cancellation
    /// Each pause is a cancellation point.
    ///
    /// # Examples
    /// ```
    /// use ecru::Retry;
    /// use std::io;
    ///
    /// let mut left = vec![3, 2, 1];
    /// let end: io::Error = Retry::new()
    ///     .max_failures(0)
    ///     .repeat(|| left.pop().ok_or(io::ErrorKind::UnexpectedEof.into()));
    /// assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    /// assert!(left.is_empty());
    /// ```
    #[track_caller]
    pub fn repeat<T, E, F>(&self, op: F) -> E
    where
        F: FnMut() -> Result<T, E>,
        E: From<Cancelled>,
    {
        let Err(error) = self.run(op, |_| None::<Infallible>, |_| true);
        error
    }

    /// Runs `op` until `keep` returns a value for a success, or until a failure is not retried.
    #[track_caller]
    pub(super) fn run<T, E: From<Cancelled>, K>(
        &self,
        mut op: impl FnMut() -> Result<T, E>,
        keep: impl Fn(T) -> Option<K>,
        retries: impl Fn(&E) -> bool,
    ) -> Result<K, E> {
        // The number of consecutive failures, and the length of the last pause.
        let (mut failures, mut pause) = (0_u32, Duration::ZERO);
        loop {
            match op() {
                Ok(value) => {
                    if let Some(budget) = &self.budget {
                        budget.succeeded();
                    }
                    match keep(value) {
                        Some(kept) => return Ok(kept),
                        None => failures = 0,
                    }
                }
                Err(error) => {
                    failures = failures.saturating_add(1);
                    let too_often = self.max_failures.is_some_and(|most| failures > most);
                    if too_often
                        || task::is_cancelled()
                        || !retries(&error)
                        || self.budget.as_ref().is_some_and(|budget| !budget.take())
                    {
                        return Err(error);
                    }
                }
            }
            pause = self.delay.pause_after(failures, pause, self.jitter);
            time::sleep(pause)?;
        }
    }
}
