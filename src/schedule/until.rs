//! Running something repeatedly until it succeeds, or until it fails.

use std::time::Duration;

use super::jitter::Jitter;
use super::pauses::{Growth, Pauses};
use super::repeat::Schedule;
use crate::task::Cancelled;

/// A schedule that ends when a run returns `Ok`, or when it returns `Err`: see
/// [`Schedule::until_ok`] and [`Schedule::until_err`].
///
/// # Examples
/// ```
/// use ecru::Schedule;
/// use std::time::Duration;
///
/// let mut runs = 0;
/// let result = Schedule::until_ok(Duration::ZERO).max_runs(3).run(|| {
///     runs += 1;
///     Err::<(), _>(format!("failure {runs}"))
/// });
/// assert_eq!(result, Ok(Err(String::from("failure 3"))));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a schedule does nothing before it is run"]
pub struct Until {
    schedule: Schedule,
    ends_with_ok: bool,
}

impl Schedule {
    /// Creates a schedule for something that returns a `Result`. It runs until that is `Ok`, with
    /// the same pause each time. If the pause is zero, it only lets other tasks run between two
    /// runs.
    ///
    /// This makes a schedule, and [`run`](Until::run) runs it. A cancelled pause is an error apart
    /// from the closure's. [`Retry::until_ok`](crate::Retry::until_ok), in contrast, runs its closure
    /// itself, makes one error of the two, and may pause longer after each failure.
    ///
    /// # Examples
    /// ```
    /// use ecru::Schedule;
    /// use std::time::Duration;
    ///
    /// let mut tries = 0;
    /// let found = Schedule::until_ok(Duration::ZERO).run(|| {
    ///     tries += 1;
    ///     if tries < 4 { Err("not yet") } else { Ok(tries) }
    /// });
    /// assert_eq!(found, Ok(Ok(4)));
    /// ```
    pub fn until_ok(pause: Duration) -> Until {
        Until::new(pause, true)
    }

    /// Creates a schedule for something that returns a `Result`. It runs until that is `Err`, and
    /// otherwise works like [`until_ok`](Schedule::until_ok).
    ///
    /// # Examples
    /// ```
    /// use ecru::Schedule;
    /// use std::time::Duration;
    ///
    /// let mut left = vec![3, 2, 1];
    /// let end = Schedule::until_err(Duration::ZERO).run(|| left.pop().ok_or("nothing left"));
    /// assert_eq!(end, Ok(Err("nothing left")));
    /// ```
    pub fn until_err(pause: Duration) -> Until {
        Until::new(pause, false)
    }
}

impl Until {
    fn new(pause: Duration, ends_with_ok: bool) -> Until {
        Until { schedule: Schedule::new(pause, Growth::Constant), ends_with_ok }
    }

    /// Sets the maximum number of runs, including the first one. `None`, the default, sets no limit,
    /// and so does 0: see [`Schedule::max_runs`].
    pub fn max_runs(mut self, runs: impl Into<Option<u32>>) -> Until {
        self.schedule = self.schedule.max_runs(runs);
        self
    }

    /// Sets the jitter of each pause.
    pub fn jitter(mut self, jitter: Jitter) -> Until {
        self.schedule = self.schedule.jitter(jitter);
        self
    }

    /// Returns the pauses between the runs if no run ends the schedule, before jitter.
    #[must_use]
    pub fn pauses(&self) -> Pauses {
        self.schedule.pauses()
    }

    /// Runs `body` at once, then again after each pause, until it returns a result that ends this
    /// schedule, or has been run [`max_runs`](Until::max_runs) times. Returns what the last run
    /// returned.
    ///
    /// # Errors
    /// Returns [`Cancelled`] if a pause is cancelled. The result of `body` is inside the `Ok`.
    ///
    /// # Panics
    /// Panics in the same cases as [`Schedule::run`].
    ///
    /// # Cancellation
    /// Each pause is a cancellation point, as in [`Schedule::run`].
    ///
    /// # Examples
    /// ```
    /// use ecru::Schedule;
    /// use std::time::Duration;
    ///
    /// let mut words = ["seven", "7"].iter();
    /// let parsed = Schedule::until_ok(Duration::ZERO).run(|| words.next().unwrap().parse::<u32>());
    /// // The outer result tells of a cancelled pause, and the inner one is the last run's.
    /// assert_eq!(parsed, Ok(Ok(7)));
    /// ```
    #[track_caller]
    pub fn run<T, E, F>(&self, body: F) -> Result<Result<T, E>, Cancelled>
    where
        F: FnMut() -> Result<T, E>,
    {
        self.schedule.run_until(body, |result| result.is_ok() == self.ends_with_ok)
    }
}
