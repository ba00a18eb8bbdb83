//! Running something repeatedly, whatever it returns.

use std::time::Duration;

use super::jitter::Jitter;
use super::pauses::{Growth, Pauses};
use crate::task::Cancelled;
use crate::time;

/// A schedule by which something is run at once, and then again after each pause.
///
/// A schedule is a value. It can be stored, cloned, and [run](Schedule::run) any number of times,
/// and each time it begins with the first pause again. It does not look at what a run returns. The
/// schedules made by [`Schedule::until_ok`] and [`Schedule::until_err`] do.
///
/// # Examples
/// ```
/// use ecru::Schedule;
/// use std::time::Duration;
///
/// let mut polls = 0;
/// let last = Schedule::every(Duration::from_micros(100)).max_runs(3).run(|| {
///     polls += 1;
///     polls * 10
/// });
/// assert_eq!(last, Ok(30));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "a schedule does nothing before it is run"]
pub struct Schedule {
    first: Duration,
    growth: Growth,
    max_runs: Option<u32>,
    jitter: Jitter,
}

impl Schedule {
    pub(super) fn new(first: Duration, growth: Growth) -> Schedule {
        Schedule { first, growth, max_runs: None, jitter: Jitter::None }
    }

    /// Creates a schedule with the same pause each time. The pause lies between the end of one run
    /// and the beginning of the next.
    ///
    /// # Panics
    /// Panics if `pause` is zero, because such a schedule would never rest.
    ///
    /// # Examples
    /// ```
    /// use ecru::Schedule;
    /// use std::time::Duration;
    ///
    /// let minute = Duration::from_secs(60);
    /// assert!(Schedule::every(minute).pauses().take(3).eq([minute; 3]));
    /// ```
    #[track_caller]
    pub fn every(pause: Duration) -> Schedule {
        refuse_zero("every", pause);
        Schedule::new(pause, Growth::Constant)
    }

    /// Creates a schedule whose pauses grow by a factor of 2, or of [`base`](Schedule::base):
    /// `first`, 2 `first`, 4 `first` .. A pause that is too long for a `Duration` becomes
    /// `Duration::MAX`.
    ///
    /// # Panics
    /// Panics if `first` is zero, because all pauses would be zero.
    ///
    /// # Examples
    /// ```
    /// use ecru::Schedule;
    /// use std::time::Duration;
    ///
    /// let pauses = Schedule::exponential(Duration::from_millis(50)).max_runs(5).pauses();
    /// assert!(pauses.eq([50, 100, 200, 400].map(Duration::from_millis)));
    /// ```
    #[track_caller]
    pub fn exponential(first: Duration) -> Schedule {
        refuse_zero("exponential", first);
        Schedule::new(first, Growth::Exponential { base: 2 })
    }

    /// Creates a schedule whose pauses grow like the Fibonacci numbers: 1, 1, 2, 3, 5, 8 .. times
    /// `unit`. A pause that is too long for a `Duration` becomes `Duration::MAX`.
    ///
    /// # Panics
    /// Panics if `unit` is zero, because all pauses would be zero.
    ///
    /// # Examples
    /// ```
    /// use ecru::Schedule;
    /// use std::time::Duration;
    ///
    /// let pauses = Schedule::fibonacci(Duration::from_millis(10)).max_runs(6).pauses();
    /// assert!(pauses.eq([10, 10, 20, 30, 50].map(Duration::from_millis)));
    /// ```
    #[track_caller]
    pub fn fibonacci(unit: Duration) -> Schedule {
        refuse_zero("fibonacci", unit);
        Schedule::new(unit, Growth::Fibonacci { after: unit })
    }

    /// Sets the factor by which the pauses of an [`exponential`](Schedule::exponential) schedule
    /// grow.
    ///
    /// # Panics
    /// Panics if `base` is less than 2, or if the schedule is of another kind.
    ///
    /// # Examples
    /// ```
    /// use ecru::Schedule;
    /// use std::time::Duration;
    ///
    /// let pauses = Schedule::exponential(Duration::from_secs(1)).base(10).pauses();
    /// assert!(pauses.take(3).eq([1, 10, 100].map(Duration::from_secs)));
    /// ```
    #[track_caller]
    pub fn base(mut self, base: u32) -> Schedule {
        let Growth::Exponential { base: mine } = &mut self.growth else {
            panic!(
                "`base` was called on a schedule that is not `Schedule::exponential`; only that one has a base"
            )
        };
        assert!(
            base >= 2,
            "a base of {base} does not make the pauses grow; pass at least 2, or use `Schedule::every`"
        );
        *mine = base;
        self
    }

    /// Sets the maximum number of runs, including the first one. `None`, the default, sets no limit.
    ///
    /// 0 sets no limit either, as in other libraries for schedules. A schedule returns the result of
    /// its last run, so there is always a first one. A program whose settings may ask for no runs
    /// tests for that before.
    ///
    /// # Examples
    /// ```
    /// use ecru::Schedule;
    /// use std::time::Duration;
    ///
    /// let twice = Schedule::every(Duration::from_millis(1)).max_runs(2);
    /// assert_eq!(twice.pauses().count(), 1);
    /// // A limit that a program's settings may have.
    /// let limit: Option<u32> = None;
    /// assert_eq!(twice.max_runs(limit).pauses().take(9).count(), 9);
    /// ```
    pub fn max_runs(mut self, runs: impl Into<Option<u32>>) -> Schedule {
        self.max_runs = runs.into().filter(|&runs| runs > 0);
        self
    }

    /// Sets the jitter of each pause.
    pub fn jitter(mut self, jitter: Jitter) -> Schedule {
        self.jitter = jitter;
        self
    }

    /// Returns the pauses between the runs, before jitter. Their number is
    /// [`max_runs`](Schedule::max_runs) minus one. Without a limit, the iterator has no end.
    #[must_use]
    pub fn pauses(&self) -> Pauses {
        Pauses::new(self.first, self.growth.clone(), self.max_runs)
    }

    /// Runs `body` at once, then again after each pause, and returns what the last run returned.
    /// The results of the other runs are dropped before the pause that follows them.
    ///
    /// # Errors
    /// Returns [`Cancelled`] if a pause is cancelled.
    ///
    /// # Panics
    /// Panics if `body` panics; there are no further runs then. Also panics if a pause is reached
    /// inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// Each pause is a cancellation point. The schedule never interrupts a run: `body` is run at
    /// least once, and decides itself how it reacts to a cancellation.
    ///
    /// # Examples
    /// ```
    /// use ecru::Schedule;
    /// use std::time::Duration;
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         // Until the sender says stop.
    ///         let report = s.spawn(|| {
    ///             Schedule::every(Duration::from_secs(60)).run(|| println!("still here"))
    ///         });
    ///         ecru::yield_now().unwrap();
    ///         report.cancel();
    ///     });
    /// });
    /// ```
    #[track_caller]
    pub fn run<R, F>(&self, body: F) -> Result<R, Cancelled>
    where
        F: FnMut() -> R,
    {
        self.run_until(body, |_| false)
    }

    /// Runs like [`Schedule::run`], but also ends with the first result for which `ends` returns
    /// true.
    #[track_caller]
    pub(super) fn run_until<R>(
        &self,
        mut body: impl FnMut() -> R,
        ends: impl Fn(&R) -> bool,
    ) -> Result<R, Cancelled> {
        let mut pauses = self.pauses();
        loop {
            let result = body();
            if ends(&result) {
                return Ok(result);
            }
            let Some(pause) = pauses.next() else { return Ok(result) };
            // The result is dropped before the pause because it may hold a resource such as a
            // connection.
            drop(result);
            time::sleep(self.jitter.apply(pause))?;
        }
    }
}

#[track_caller]
fn refuse_zero(kind: &str, pause: Duration) {
    assert!(
        !pause.is_zero(),
        "`Schedule::{kind}` with a pause of zero would never rest; pass a pause of at least a millisecond or so"
    );
}
