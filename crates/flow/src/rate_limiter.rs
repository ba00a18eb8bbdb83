//! Limits on how often something is done.
//!
//! Permits go to the waiters in the order of their arrival. The first of them holds the *turn*, and
//! sleeps until its permits are free. The others wait for the turn. While there are waiters, no
//! other call takes permits.

use std::sync::PoisonError;
use std::time::{Duration, Instant};
use std::{error, fmt, mem};

use ecru::Cancelled;
use ecru::sync::Semaphore;

use crate::base::{self, Mutex, MutexGuard};
use crate::meter::{Bucket, Meter, Window};

/// A limit on how often something is done: permits that become free as time passes.
///
/// | | the limit | after a time without calls |
/// |---|---|---|
/// | [`token_bucket`](RateLimiter::token_bucket) | a mean rate | a burst is possible |
/// | [`leaky_bucket`](RateLimiter::leaky_bucket) | a pause between two permits | nothing is saved |
/// | [`sliding_window`](RateLimiter::sliding_window) | a number in any period of a given length | all of that number at once |
///
/// Permits are not given back, unlike those of a [`Semaphore`]. Waiters get them in the order in
/// which they arrived. Tasks share a limiter by reference, or in an `Arc`.
///
/// # Examples
/// ```
/// use ecru_flow::RateLimiter;
/// use std::time::Duration;
///
/// let limiter = RateLimiter::token_bucket(1000, Duration::from_secs(1), 2);
/// ecru::run(|| {
///     let start = ecru::time::now();
///     ecru::scope(|s| {
///         for _ in 0..4 {
///             s.spawn(|| limiter.acquire().unwrap());
///         }
///     });
///     // Two were free at once, and the others came at intervals of a millisecond.
///     assert!(start.elapsed() >= Duration::from_millis(2));
/// });
/// ```
pub struct RateLimiter {
    state: Mutex<State>,
    /// Has one permit, which the first of the waiters holds.
    turn: Semaphore,
    most: u32,
}

struct State {
    meter: Meter,
    /// The time of the first use, from which the meter counts.
    origin: Option<Instant>,
    /// The number of permits that waiters want.
    wanted: u64,
}

impl State {
    /// Returns the time as the meter counts it.
    fn now(&mut self) -> u128 {
        let now = base::now();
        now.saturating_duration_since(*self.origin.get_or_insert(now)).as_nanos()
    }

    /// Takes permits, or returns how long it takes until they are free, after `others` other
    /// permits.
    fn take(&mut self, permits: u32, others: u64) -> Result<(), Duration> {
        let now = self.now();
        let ready_at = self.meter.ready_at(now, others + u64::from(permits));
        if others == 0 && ready_at <= now {
            self.meter.take(now, permits);
            return Ok(());
        }
        Err(duration(ready_at.saturating_sub(now)))
    }
}

/// Converts nanoseconds to a `Duration`, at most `Duration::MAX`.
fn duration(nanoseconds: u128) -> Duration {
    const SECOND: u128 = 1_000_000_000;
    // Both fit: the remainder is less than a second.
    match u64::try_from(nanoseconds / SECOND) {
        Ok(seconds) => Duration::new(seconds, (nanoseconds % SECOND) as u32),
        Err(_) => Duration::MAX,
    }
}

impl RateLimiter {
    #[track_caller]
    fn new(kind: &str, rate: u32, per: Duration, meter: impl FnOnce() -> Meter) -> RateLimiter {
        assert!(
            rate > 0 && !per.is_zero(),
            "`RateLimiter::{kind}` with {rate} permits per {per:?}; pass at least one permit, and a period longer than zero"
        );
        let meter = meter();
        let most = meter.most();
        let state = Mutex::new(State { meter, origin: None, wanted: 0 });
        RateLimiter { state, turn: Semaphore::new(1), most }
    }

    /// Creates a limiter with a bucket that gets `rate` permits in each `per`, at equal intervals,
    /// and holds up to `burst`. It begins full.
    ///
    /// # Panics
    /// Panics if `rate`, `per` or `burst` is zero.
    ///
    /// # Examples
    /// ```
    /// use ecru_flow::RateLimiter;
    /// use std::time::Duration;
    ///
    /// let limiter = RateLimiter::token_bucket(1, Duration::from_secs(60), 3);
    /// assert!((0..3).all(|_| limiter.try_acquire().is_ok()));
    /// assert!(limiter.try_acquire().is_err());
    /// ```
    #[must_use]
    #[track_caller]
    pub fn token_bucket(rate: u32, per: Duration, burst: u32) -> RateLimiter {
        assert!(
            burst > 0,
            "a bucket that holds no permit never has one; pass a `burst` of at least 1"
        );
        RateLimiter::new("token_bucket", rate, per, || Meter::Bucket(Bucket::new(rate, per, burst)))
    }

    /// Creates a limiter that lets one permit through at a time. Two permits are at least `per /
    /// rate` apart.
    ///
    /// # Panics
    /// Panics if `rate` or `per` is zero.
    ///
    /// # Examples
    /// ```
    /// use ecru_flow::RateLimiter;
    /// use std::time::Duration;
    ///
    /// let limiter = RateLimiter::leaky_bucket(3, Duration::from_secs(60));
    /// limiter.try_acquire().unwrap();
    /// let wait = limiter.try_acquire().unwrap_err().ready_after;
    /// assert!(wait <= Duration::from_secs(20));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn leaky_bucket(rate: u32, per: Duration) -> RateLimiter {
        RateLimiter::new("leaky_bucket", rate, per, || Meter::Bucket(Bucket::new(rate, per, 1)))
    }

    /// Creates a limiter that gives at most `limit` permits in any period of the length `per`. It
    /// keeps the times of the permits of the last period.
    ///
    /// # Panics
    /// Panics if `limit` or `per` is zero.
    ///
    /// # Examples
    /// ```
    /// use ecru_flow::RateLimiter;
    /// use std::time::Duration;
    ///
    /// let limiter = RateLimiter::sliding_window(100, Duration::from_secs(60));
    /// limiter.try_acquire_many(100).unwrap();
    /// assert!(limiter.time_until_ready() > Duration::from_secs(50));
    /// ```
    #[must_use]
    #[track_caller]
    pub fn sliding_window(limit: u32, per: Duration) -> RateLimiter {
        RateLimiter::new("sliding_window", limit, per, || Meter::Window(Window::new(limit, per)))
    }

    /// Waits for a permit.
    ///
    /// # Errors
    /// Returns [`Cancelled`] if the wait is cancelled.
    ///
    /// # Panics
    /// Panics inside [`no_suspend`](ecru::no_suspend).
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled call has taken no permit.
    ///
    /// # Examples
    /// ```
    /// use ecru_flow::RateLimiter;
    /// use std::time::Duration;
    ///
    /// let limiter = RateLimiter::leaky_bucket(1, Duration::from_millis(1));
    /// let start = std::time::Instant::now();
    /// for _ in 0..3 {
    ///     limiter.acquire().unwrap();
    /// }
    /// assert!(start.elapsed() >= Duration::from_millis(2));
    /// ```
    #[track_caller]
    pub fn acquire(&self) -> Result<(), Cancelled> {
        self.acquire_many(1)
    }

    /// Waits until `permits` permits are free, and takes them together.
    ///
    /// # Errors
    /// Returns the same error as [`acquire`](RateLimiter::acquire).
    ///
    /// # Panics
    /// Panics in the same cases as `acquire`, and if so many permits are never free together. A
    /// token bucket holds at most `burst`, a leaky bucket 1, and a window `limit`.
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled call has taken no permit.
    ///
    /// # Examples
    /// ```
    /// use ecru_flow::RateLimiter;
    /// use std::time::Duration;
    ///
    /// ecru::run(|| {
    ///     // A megabyte at once, and a thousand bytes a millisecond.
    ///     let bytes = RateLimiter::token_bucket(1_000, Duration::from_millis(1), 1_000_000);
    ///     for block in [vec![0; 1_000], vec![0; 64_000]] {
    ///         bytes.acquire_many(block.len() as u32)?;
    ///         println!("{} bytes are sent", block.len());
    ///     }
    ///     Ok::<_, ecru::Cancelled>(())
    /// })?;
    /// # Ok::<_, ecru::Cancelled>(())
    /// ```
    #[track_caller]
    pub fn acquire_many(&self, permits: u32) -> Result<(), Cancelled> {
        self.refuse(permits);
        ecru::checkpoint()?;
        let mut waiting = match self.take_or_wait(permits) {
            Ok(()) => return Ok(()),
            Err(waiting) => waiting,
        };
        let _turn = self.turn.acquire()?;
        loop {
            match waiting.take() {
                Ok(()) => return Ok(()),
                Err(wait) => base::sleep(wait)?,
            }
        }
    }

    /// Takes a permit if one is free and no task waits for it.
    ///
    /// # Errors
    /// Returns [`RateLimited`], which has the time until a permit is free.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    pub fn try_acquire(&self) -> Result<(), RateLimited> {
        self.try_acquire_many(1)
    }

    /// Takes `permits` permits together if they are free and no task waits for them.
    ///
    /// # Errors
    /// Returns [`RateLimited`], which has the time until so many permits are free.
    ///
    /// # Panics
    /// Panics if so many permits are never free together, as
    /// [`acquire_many`](RateLimiter::acquire_many) does.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    #[track_caller]
    pub fn try_acquire_many(&self, permits: u32) -> Result<(), RateLimited> {
        self.refuse(permits);
        let mut state = self.lock();
        let others = state.wanted;
        state.take(permits, others).map_err(|ready_after| RateLimited { ready_after })
    }

    /// Returns the time until [`try_acquire`](RateLimiter::try_acquire) succeeds. It is zero if a
    /// permit is free now. The time is longer if other tasks take permits meanwhile, and shorter if
    /// the waits of other tasks are cancelled.
    #[must_use]
    pub fn time_until_ready(&self) -> Duration {
        let mut state = self.lock();
        let (now, permits) = (state.now(), state.wanted + 1);
        duration(state.meter.ready_at(now, permits).saturating_sub(now))
    }

    #[track_caller]
    fn refuse(&self, permits: u32) {
        assert!(
            permits <= self.most,
            "{permits} permits are never free together; this limiter has at most {}",
            self.most
        );
    }

    /// Takes permits, or joins the waiters.
    fn take_or_wait(&self, permits: u32) -> Result<(), Waiting<'_>> {
        let mut state = self.lock();
        if state.wanted == 0 && state.take(permits, 0).is_ok() {
            return Ok(());
        }
        state.wanted += u64::from(permits);
        Err(Waiting { limiter: self, permits })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of the waiters. Dropping it leaves the line.
struct Waiting<'a> {
    limiter: &'a RateLimiter,
    /// The number of permits that it wants, which is 0 after it has got them.
    permits: u32,
}

impl Waiting<'_> {
    /// Takes the permits, or returns how long it takes until they are free. Only the waiter that
    /// has the turn calls it.
    fn take(&mut self) -> Result<(), Duration> {
        let mut state = self.limiter.lock();
        state.take(self.permits, 0)?;
        // Under the same lock, so that no call finds free permits and a waiter that has got its own.
        state.wanted -= u64::from(mem::take(&mut self.permits));
        Ok(())
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.limiter.lock().wanted -= u64::from(self.permits);
    }
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiter").field("until_ready", &self.time_until_ready()).finish()
    }
}

/// The error of [`RateLimiter::try_acquire`]: the permits are not free yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RateLimited {
    /// The time until they are free, if no other task takes permits meanwhile. Tasks that wait
    /// already are taken into account.
    pub ready_after: Duration,
}

impl fmt::Display for RateLimited {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the rate limit is reached; try again after {:?}", self.ready_after)
    }
}

impl error::Error for RateLimited {}

#[cfg(all(test, loom))]
mod loom_models;
