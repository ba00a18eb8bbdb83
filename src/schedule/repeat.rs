//! Running something again and again, whatever it returns.

use std::time::Duration;

use super::jitter::Jitter;
use super::pauses::{Growth, Pauses};
use super::until::Until;
use crate::task::Cancelled;
use crate::time;

/// When to run something again: the first time at once, then after a pause each.
///
/// A schedule is a value: it can be kept, cloned and [run](Schedule::run) as often as one likes, and each run of it begins with
/// the first pause again. `Ok` and `Err` are the same to it; for the kinds that look, see [`Schedule::until_ok`] and
/// [`Schedule::until_err`].
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
    max_runs: u32,
    jitter: Jitter,
}

impl Schedule {
    pub(super) fn new(first: Duration, growth: Growth) -> Schedule {
        Schedule { first, growth, max_runs: 0, jitter: Jitter::None }
    }

    /// The same pause each time. It lies between the end of one run and the beginning of the next.
    ///
    /// # Panics
    /// When `pause` is zero: such a schedule would never rest.
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

    /// Pauses that grow by a factor of 2, or the [`base`](Schedule::base): `first`, 2 `first`, 4 `first` .. A pause that would be
    /// longer than a `Duration` can say is as long as it can.
    ///
    /// # Panics
    /// When `first` is zero: all of them would be.
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

    /// Pauses that grow like Fibonacci's numbers: 1, 1, 2, 3, 5, 8 .. times `unit`. A pause that would be longer than a `Duration` can
    /// say is as long as it can.
    ///
    /// # Panics
    /// When `unit` is zero: all pauses would be.
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

    /// Runs something that returns a `Result` until it is `Ok`, with the same pause each time. The pause may be zero: then the other
    /// tasks have their turn between two runs, and no more.
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

    /// Runs something that returns a `Result` until it is `Err`; otherwise as [`until_ok`](Schedule::until_ok).
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

    /// The factor by which the pauses of an [`exponential`](Schedule::exponential) schedule grow.
    ///
    /// # Panics
    /// When it is less than 2, or the schedule is of another kind.
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
            panic!("only `Schedule::exponential` has a base")
        };
        assert!(
            base >= 2,
            "a base of {base} does not make the pauses grow; ask for at least 2, or use `Schedule::every`"
        );
        *mine = base;
        self
    }

    /// At most so many runs, the first one included. 0, as from the start: no bound.
    pub fn max_runs(mut self, runs: u32) -> Schedule {
        self.max_runs = runs;
        self
    }

    /// What chance does to each pause.
    pub fn jitter(mut self, jitter: Jitter) -> Schedule {
        self.jitter = jitter;
        self
    }

    /// The pauses that lie between the runs, before jitter. There are as many as [`max_runs`](Schedule::max_runs) says, less one; or
    /// they have no end.
    #[must_use]
    pub fn pauses(&self) -> Pauses {
        Pauses::new(self.first, self.growth.clone(), self.max_runs)
    }

    /// Runs `body` at once, then again after each pause, and returns what the last run returned. What the others returned is dropped
    /// before the pause that follows them.
    ///
    /// # Errors
    /// [`Cancelled`] when a pause is.
    ///
    /// # Panics
    /// When `body` does: there is no further run. When it comes to a pause inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// Each pause is a cancel point. What `body` does about a cancellation is its own affair: it is run at least once, and a run
    /// is never cut short from here.
    ///
    /// # Examples
    /// ```
    /// use ecru::Schedule;
    /// use std::time::Duration;
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         // Until somebody says stop.
    ///         let report = s.spawn(|| Schedule::every(Duration::from_secs(60)).run(|| println!("still here")));
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

    /// The same, but also over as soon as a result `ends` it.
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
            // It may hold a connection, say.
            drop(result);
            time::sleep(self.jitter.apply(pause))?;
        }
    }
}

#[track_caller]
fn refuse_zero(kind: &str, pause: Duration) {
    assert!(
        !pause.is_zero(),
        "`Schedule::{kind}` with a pause of zero would never rest; ask for at least a millisecond or so"
    );
}
