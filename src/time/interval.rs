//! Ticks at regular intervals.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::base::alarm::{Alarm, Ring};
use crate::base::clock;
use crate::park::WaitList;
use crate::source::{Arms, Pass, Source, Won};
use crate::task::Cancelled;

/// A source of ticks at regular intervals, made by [`interval`].
///
/// Each tick is taken by one waiter. A clone is a handle to the same interval.
#[derive(Clone)]
pub struct Interval {
    inner: Arc<Inner>,
}

struct Inner {
    period: Duration,
    schedule: Mutex<Schedule>,
    waiters: WaitList,
}

/// What becomes of the ticks that were missed because a tick was taken late: see
/// [`Interval::missed`].
///
/// # Examples
/// ```
/// use ecru::Source;
/// use ecru::time::{self, Missed};
/// use std::time::{Duration, Instant};
///
/// let period = Duration::from_millis(10);
/// let second = |missed| {
///     let ticks = time::interval(period).missed(missed);
///     let start = ticks.wait().unwrap();
///     // Three periods are lost.
///     std::thread::sleep(3 * period + period / 2);
///     ticks.wait().unwrap();
///     ticks.wait().unwrap() - start
/// };
/// // The ticks that were missed come at once, or after the late one.
/// assert_eq!(second(Missed::Burst), 2 * period);
/// assert!(second(Missed::Delay) >= 4 * period);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Missed {
    /// They are made up for: ticks come without a pause until none is missing.
    Burst,
    /// They are left out, and the next tick comes a period after the late one was taken.
    #[default]
    Delay,
    /// They are left out, and the next tick comes at the next multiple of the period after the first
    /// one.
    Skip,
}

struct Schedule {
    missed: Missed,
    /// When the next tick is due. `None` if that time is not representable.
    next: Option<Instant>,
    /// Wakes waiters that are registered in the wait list itself and so have no deadline of their
    /// own.
    alarm: Option<Alarm>,
}

impl Ring for Inner {
    fn ring(&self) {
        // All waiters are notified. A waiter that finds no tick registers again, which sets the
        // next alarm.
        self.waiters.notify_all();
    }
}

/// How late a tick may be taken before it counts as missed, as in tokio. For periods below four
/// times this, a quarter of the period counts.
const LATE: Duration = Duration::from_millis(5);

/// Creates an interval that ticks every `period`. The first tick is due at once.
///
/// Ticks are due `period` after one another, however long it takes to handle each, as long as they
/// are taken in time. A tick is late if it is taken more than 5 ms after it was due, or more than a
/// quarter of the period if that is shorter. The tick after a late one comes a `period` after the
/// late one was taken. So missed ticks are not made up for in a burst. [`Interval::missed`] changes
/// that.
///
/// # Panics
/// Panics if `period` is zero.
///
/// # Examples
/// ```
/// use std::time::{Duration, Instant};
///
/// let start = Instant::now();
/// let ticks = ecru::time::interval(Duration::from_millis(1));
/// for _ in 0..3 {
///     ticks.tick().unwrap();
/// }
/// assert!(start.elapsed() >= Duration::from_millis(2));
/// ```
#[must_use]
#[track_caller]
pub fn interval(period: Duration) -> Interval {
    assert!(
        !period.is_zero(),
        "an interval with a period of zero would never wait; use `yield_now`"
    );
    let schedule = Schedule { missed: Missed::Delay, next: Some(clock::now()), alarm: None };
    let inner = Inner { period, schedule: Mutex::new(schedule), waiters: WaitList::new() };
    Interval { inner: Arc::new(inner) }
}

impl Interval {
    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.inner.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next tick and returns the time at which it was due.
    ///
    /// # Errors
    /// Returns [`Cancelled`] if the wait is cancelled.
    ///
    /// # Panics
    /// Panics if called inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled wait leaves the tick for the next waiter.
    #[track_caller]
    pub fn tick(&self) -> Result<Instant, Cancelled> {
        self.wait()
    }

    /// Sets what becomes of missed ticks, for all handles to this interval. The default is
    /// [`Missed::Delay`].
    ///
    /// # Examples
    /// ```
    /// use ecru::time::{Missed, interval};
    /// use std::time::Duration;
    ///
    /// let ticks = interval(Duration::from_millis(1)).missed(Missed::Burst);
    /// let first = ticks.tick().unwrap();
    /// ecru::sleep(Duration::from_millis(3)).unwrap();
    /// // Whatever the delay, the ticks are due at the multiples of the period.
    /// assert_eq!(ticks.tick().unwrap() - first, Duration::from_millis(1));
    /// assert_eq!(ticks.tick().unwrap() - first, Duration::from_millis(2));
    /// ```
    #[must_use = "the interval is returned"]
    pub fn missed(self, missed: Missed) -> Interval {
        self.schedule().missed = missed;
        self
    }

    /// Begins anew: the next tick comes a period after this call, and later ones are counted from
    /// that. This holds for all handles to this interval, and for those that wait.
    ///
    /// # Examples
    /// ```
    /// use ecru::Source;
    /// use std::time::Duration;
    ///
    /// let hourly = ecru::time::interval(Duration::from_secs(3600));
    /// hourly.reset();
    /// assert!(hourly.try_take().is_none());
    /// ```
    pub fn reset(&self) {
        let mut schedule = self.schedule();
        schedule.next = clock::now().checked_add(self.inner.period);
        let alarm = schedule.alarm.take();
        drop(schedule);
        drop(alarm);
        // The waiters learn the time of the next tick.
        self.inner.waiters.notify_all();
    }

    /// Returns the time between two ticks.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.inner.period
    }
}

/// Returns what is left of `time` after whole periods.
fn remainder(time: Duration, period: Duration) -> Duration {
    let nanos = time.as_nanos() % period.as_nanos();
    // The remainder is less than the time, which has passed since a tick.
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)).min(period)
}

impl Source for Interval {
    type Item = Instant;

    fn try_take(&self) -> Option<Instant> {
        let mut schedule = self.schedule();
        let (due, now) = (schedule.next?, clock::now());
        if now < due {
            return None;
        }
        let period = self.inner.period;
        let delay = now.saturating_duration_since(due);
        schedule.next = match schedule.missed {
            Missed::Delay if delay > LATE.min(period / 4) => now.checked_add(period),
            Missed::Skip => now.checked_add(period - remainder(delay, period)),
            Missed::Delay | Missed::Burst => due.checked_add(period),
        };
        Some(due)
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        let mut schedule = self.schedule();
        if let Some(next) = schedule.next
            && schedule.alarm.as_ref().is_none_or(|alarm| alarm.due() != next)
            && next > clock::now()
        {
            let inner = Arc::downgrade(&self.inner);
            schedule.alarm = Some(Alarm::set(next, inner));
        }
        drop(schedule);
        each(&self.inner.waiters);
    }

    fn __register<'a>(&'a self, arms: &mut Arms<'a>) {
        arms.notified_by(&self.inner.waiters);
        if arms.pass() == Pass::Notify
            && let Some(next) = self.schedule().next
        {
            arms.ends_at(next);
        }
    }

    fn __finish(&self, won: &Won<'_>) -> Option<Instant> {
        if won.is_of(&self.inner.waiters) { self.try_take() } else { None }
    }
}

impl fmt::Debug for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interval").field("period", &self.inner.period).finish_non_exhaustive()
    }
}
