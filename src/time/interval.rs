//! Ticks at regular distances.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::base::alarm::{Alarm, Ring};
use crate::base::clock;
use crate::park::WaitList;
use crate::source::{Arms, Pass, Source, Won};
use crate::task::Cancelled;

/// From [`interval`].
///
/// Each tick is taken by one of those who wait. A clone is the same interval.
#[derive(Clone)]
pub struct Interval {
    inner: Arc<Inner>,
}

struct Inner {
    period: Duration,
    schedule: Mutex<Schedule>,
    waiters: WaitList,
}

struct Schedule {
    /// None: past the end of time.
    next: Option<Instant>,
    /// For those who have got hold of the list.
    alarm: Option<Alarm>,
}

impl Ring for Inner {
    fn ring(&self) {
        // All: whoever finds nothing waits again, and so says that there is to be another alarm.
        self.waiters.notify_all();
    }
}

/// A tick that is taken so much later than it was due counts as missed (of a short period a quarter), as in tokio.
const LATE: Duration = Duration::from_millis(5);

/// Ticks every `period`, the first at once.
///
/// Ticks are `period` after one another, however long it takes to handle each, as long as they are taken in time. One that is taken
/// late (by more than 5 ms, or a quarter of a shorter period) moves those after it: the next comes a `period` later. So what was
/// missed is not made up for in a burst.
///
/// # Panics
/// If `period` is zero.
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
    assert!(!period.is_zero(), "an interval of zero would never let anybody wait; use `yield_now`");
    let schedule = Schedule { next: Some(clock::now()), alarm: None };
    let inner = Inner { period, schedule: Mutex::new(schedule), waiters: WaitList::new() };
    Interval { inner: Arc::new(inner) }
}

impl Interval {
    fn schedule(&self) -> MutexGuard<'_, Schedule> {
        self.inner.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next tick; returns when it was due.
    ///
    /// # Errors
    /// [`Cancelled`] when the wait is cancelled.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// A cancel point. The tick is still there for the next.
    #[track_caller]
    pub fn tick(&self) -> Result<Instant, Cancelled> {
        self.wait()
    }

    /// The distance of the ticks.
    #[must_use]
    pub fn period(&self) -> Duration {
        self.inner.period
    }
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
        let late = now.saturating_duration_since(due) > LATE.min(period / 4);
        schedule.next = if late { now } else { due }.checked_add(period);
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
