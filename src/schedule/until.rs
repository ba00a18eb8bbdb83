//! Running something again until it succeeds, or until it fails.

use std::time::Duration;

use super::jitter::Jitter;
use super::pauses::{Growth, Pauses};
use super::repeat::Schedule;
use crate::task::Cancelled;

/// A schedule that looks at what each run returns: see [`Schedule::until_ok`] and [`Schedule::until_err`].
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

impl Until {
    pub(super) fn new(pause: Duration, ends_with_ok: bool) -> Until {
        Until { schedule: Schedule::new(pause, Growth::Constant), ends_with_ok }
    }

    /// At most so many runs, the first one included. 0, as from the start: no bound.
    pub fn max_runs(mut self, runs: u32) -> Until {
        self.schedule = self.schedule.max_runs(runs);
        self
    }

    /// What chance does to each pause.
    pub fn jitter(mut self, jitter: Jitter) -> Until {
        self.schedule = self.schedule.jitter(jitter);
        self
    }

    /// The pauses that lie between the runs if none of them ends it, before jitter.
    #[must_use]
    pub fn pauses(&self) -> Pauses {
        self.schedule.pauses()
    }

    /// Runs `body` at once, then again after each pause, until it returns what this schedule waits for, or has been run
    /// [`max_runs`](Until::max_runs) times. Returns what the last run returned.
    ///
    /// # Errors
    /// [`Cancelled`] when a pause is. What `body` returned is inside the `Ok`.
    ///
    /// # Panics
    /// As [`Schedule::run`].
    ///
    /// # Cancellation
    /// As [`Schedule::run`].
    #[track_caller]
    pub fn run<T, E, F>(&self, body: F) -> Result<Result<T, E>, Cancelled>
    where
        F: FnMut() -> Result<T, E>,
    {
        self.schedule.run_until(body, |result| result.is_ok() == self.ends_with_ok)
    }
}
