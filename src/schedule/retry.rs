//! Trying again what has failed.

use std::time::Duration;

use super::delay::Delay;
use super::jitter::Jitter;
use crate::task::{self, Cancelled};
use crate::time;

/// How often to try again what has failed, and how long to pause before. From the start: without end, and without pauses.
///
/// # What is not tried again
/// - A panic: it goes on to the caller.
/// - A failure because of a cancellation: once the running code [has been asked to stop](crate::is_cancelled), a failure is
///   returned as it is. A time limit *inside* the closure is no such thing: when it is over, nobody asks any more.
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
///     .delay(Delay::Backoff { start: Duration::from_micros(50), max: Duration::from_millis(1), mult: 2 })
///     .jitter(Jitter::Equal)
///     .until_ok(|| {
///         tries += 1;
///         if tries < 3 { Err(io::ErrorKind::ConnectionRefused.into()) } else { Ok(tries) }
///     });
/// assert_eq!(answer.unwrap(), 3);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use = "nothing is tried before `until_ok`"]
pub struct Retry {
    /// None: no bound.
    max_failures: Option<u32>,
    delay: Delay,
    jitter: Jitter,
}

impl Retry {
    /// Without end, and without pauses.
    pub fn new() -> Retry {
        Retry::default()
    }

    /// Puts up with so many failures in a row; one more is returned. So 0 means that nothing is tried again.
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

    /// How long to pause after a failure.
    ///
    /// # Panics
    /// When a factor is 0: the second pause, and all after it, would be zero.
    #[track_caller]
    pub fn delay(mut self, delay: Delay) -> Retry {
        assert!(
            delay.factor() != Some(0),
            "a delay whose `mult` is 0 would not pause after the second failure; ask for at least 1, or use `Delay::None`"
        );
        self.delay = delay;
        self
    }

    /// What chance does to each pause; see [`Delay::pause_after`].
    pub fn jitter(mut self, jitter: Jitter) -> Retry {
        self.jitter = jitter;
        self
    }

    /// Runs `op` until it succeeds, and returns its value.
    ///
    /// # Errors
    /// The failure that was one too many; the one that came after the caller had been asked to stop; or what the error type makes of
    /// [`Cancelled`] when a pause was cancelled.
    ///
    /// # Panics
    /// When `op` does: a panic is not tried again. When it comes to a pause inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// Each pause is a cancel point. A success stands, however late it comes.
    #[track_caller]
    pub fn until_ok<T, E, F>(&self, mut op: F) -> Result<T, E>
    where
        F: FnMut() -> Result<T, E>,
        E: From<Cancelled>,
    {
        let mut row = Row::default();
        loop {
            match op() {
                Ok(value) => return Ok(value),
                Err(error) => self.failed(&mut row, error)?,
            }
        }
    }

    /// Runs `op` again and again, after a success too, until it has failed once too often in a row: for what should go on for ever,
    /// such as serving. A success ends the row of failures, and the pause after it is the one after no failure.
    ///
    /// With `max_failures(0)` that means until the first failure.
    ///
    /// Returns the failure that was one too many; the one that came after the caller had been asked to stop; or what the error type
    /// makes of [`Cancelled`] when a pause was cancelled.
    ///
    /// # Panics
    /// As [`until_ok`](Retry::until_ok).
    ///
    /// # Cancellation
    /// Each pause is a cancel point.
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
    pub fn repeat<T, E, F>(&self, mut op: F) -> E
    where
        F: FnMut() -> Result<T, E>,
        E: From<Cancelled>,
    {
        let mut row = Row::default();
        loop {
            let next = match op() {
                Ok(value) => {
                    drop(value);
                    row.failures = 0;
                    self.pause(&mut row).map_err(E::from)
                }
                Err(error) => self.failed(&mut row, error),
            };
            if let Err(error) = next {
                return error;
            }
        }
    }

    /// Gives a failure back if it is the last one, or pauses.
    #[track_caller]
    fn failed<E: From<Cancelled>>(&self, row: &mut Row, error: E) -> Result<(), E> {
        row.failures = row.failures.saturating_add(1);
        let too_often = self.max_failures.is_some_and(|most| row.failures > most);
        if too_often || task::is_cancelled() {
            return Err(error);
        }
        drop(error);
        Ok(self.pause(row)?)
    }

    #[track_caller]
    fn pause(&self, row: &mut Row) -> Result<(), Cancelled> {
        row.last_pause = self.delay.pause_after(row.failures, row.last_pause, self.jitter);
        time::sleep(row.last_pause)
    }
}

/// Failures in a row, and the pause after the last of them.
#[derive(Debug, Default)]
struct Row {
    failures: u32,
    last_pause: Duration,
}
