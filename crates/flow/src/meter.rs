//! The arithmetic of rate limiters: when permits are free, given those that have been taken.
//!
//! Times are nanoseconds since the limiter was first used. Nothing here reads a clock.

use std::collections::VecDeque;
use std::time::Duration;

/// The permits of a limiter.
#[derive(Debug)]
pub(crate) enum Meter {
    Bucket(Bucket),
    Window(Window),
}

impl Meter {
    /// Returns the largest number of permits that can be free at once.
    pub(crate) fn most(&self) -> u32 {
        match self {
            Meter::Bucket(bucket) => bucket.burst,
            Meter::Window(window) => window.limit,
        }
    }

    /// Returns the time at which `permits` permits are free, if they are taken as soon as possible.
    /// It is not later than `now` if they are free now.
    pub(crate) fn ready_at(&mut self, now: u128, permits: u64) -> u128 {
        match self {
            Meter::Bucket(bucket) => bucket.ready_at(permits),
            Meter::Window(window) => window.ready_at(now, permits),
        }
    }

    /// Takes permits that are free.
    pub(crate) fn take(&mut self, now: u128, permits: u32) {
        match self {
            Meter::Bucket(bucket) => bucket.take(now, permits),
            Meter::Window(window) => window.take(now, permits),
        }
    }
}

/// A bucket that begins full. It counts in units, so that no rounding adds up: a permit has `cost`
/// units, and each nanosecond brings `rate` units.
#[derive(Debug)]
pub(crate) struct Bucket {
    cost: u128,
    rate: u128,
    burst: u32,
    /// The time at which the bucket is full if no more permits are taken, in nanoseconds times
    /// `rate`.
    full_at: u128,
}

impl Bucket {
    /// Creates a bucket that gets `rate` permits `per` time, and holds up to `burst`.
    pub(crate) fn new(rate: u32, per: Duration, burst: u32) -> Bucket {
        Bucket { cost: per.as_nanos(), rate: rate.into(), burst, full_at: 0 }
    }

    fn ready_at(&self, permits: u64) -> u128 {
        let with_permits = self.full_at.saturating_add(self.cost.saturating_mul(permits.into()));
        let full = self.cost.saturating_mul(self.burst.into());
        with_permits.saturating_sub(full).div_ceil(self.rate)
    }

    fn take(&mut self, now: u128, permits: u32) {
        let from = self.full_at.max(now.saturating_mul(self.rate));
        self.full_at = from.saturating_add(self.cost.saturating_mul(permits.into()));
    }
}

/// The permits that were taken in the last `per` nanoseconds.
#[derive(Debug)]
pub(crate) struct Window {
    per: u128,
    limit: u32,
    /// When permits were taken, and how many, in order.
    taken: VecDeque<(u128, u32)>,
    /// The sum of the numbers in `taken`.
    total: u64,
}

impl Window {
    /// Creates a window of the length `per`, in which at most `limit` permits are taken.
    pub(crate) fn new(limit: u32, per: Duration) -> Window {
        Window { per: per.as_nanos(), limit, taken: VecDeque::new(), total: 0 }
    }

    /// Forgets the permits that have left the window. A permit leaves it `per` after it was taken.
    fn forget(&mut self, now: u128) {
        while let Some(&(at, count)) = self.taken.front()
            && at.saturating_add(self.per) <= now
        {
            self.taken.pop_front();
            self.total -= u64::from(count);
        }
    }

    fn ready_at(&mut self, now: u128, permits: u64) -> u128 {
        self.forget(now);
        let limit = u64::from(self.limit);
        // The number of permits that have to leave the window before.
        let Some(leaving) = (self.total + permits).checked_sub(limit + 1) else { return now };
        // The last of them was taken at this time, or in a later round after others have left.
        let (round, mut place) = (leaving / limit, leaving % limit);
        let taken = self.taken.iter().find(|(_, count)| {
            let count = u64::from(*count);
            let found = place < count;
            place = place.saturating_sub(count);
            found
        });
        let from = taken.map_or(now, |(at, _)| *at);
        from.saturating_add(self.per.saturating_mul(u128::from(round) + 1))
    }

    fn take(&mut self, now: u128, permits: u32) {
        self.forget(now);
        self.total += u64::from(permits);
        match self.taken.back_mut() {
            Some((at, count)) if *at >= now => *count += permits,
            _ => self.taken.push_back((now, permits)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u128 = 1_000_000_000;

    fn drain(meter: &mut Meter, until: u128) -> Vec<u128> {
        let (mut now, mut times) = (0, Vec::new());
        loop {
            now = meter.ready_at(now, 1).max(now);
            if now >= until {
                return times;
            }
            meter.take(now, 1);
            times.push(now);
        }
    }

    #[test]
    fn a_rate_that_does_not_divide_a_second_is_exact() {
        let mut meter = Meter::Bucket(Bucket::new(7, Duration::from_secs(1), 1));
        assert_eq!(drain(&mut meter, 1_000 * SECOND).len(), 7_000);
        let mut meter = Meter::Bucket(Bucket::new(7, Duration::from_secs(1), 5));
        assert_eq!(drain(&mut meter, 1_000 * SECOND).len(), 7_004);
    }

    #[test]
    fn no_window_has_more_than_the_limit() {
        let mut meter = Meter::Window(Window::new(3, Duration::from_secs(1)));
        for (at, permits) in [(0, 1), (SECOND / 2, 2)] {
            assert!(meter.ready_at(at, permits) <= at);
            meter.take(at, permits as u32);
        }
        // The first leaves at one second, and the others at one and a half.
        let now = SECOND / 2;
        let ready = [1, 2, 3].map(|permits| meter.ready_at(now, permits));
        assert_eq!(ready, [SECOND, 3 * SECOND / 2, 3 * SECOND / 2]);
        // What other waiters take first comes a round later.
        let ready = [4, 5, 6, 7].map(|permits| meter.ready_at(now, permits));
        assert_eq!(ready, [2 * SECOND, 5 * SECOND / 2, 5 * SECOND / 2, 3 * SECOND]);
        meter.take(SECOND, 1);
        assert_eq!(meter.ready_at(SECOND, 1), 3 * SECOND / 2);
    }

    #[test]
    fn extreme_settings_do_not_overflow() {
        for mut meter in [
            Meter::Bucket(Bucket::new(1, Duration::MAX, u32::MAX)),
            Meter::Bucket(Bucket::new(u32::MAX, Duration::from_nanos(1), u32::MAX)),
            Meter::Window(Window::new(u32::MAX, Duration::MAX)),
        ] {
            let now = u128::from(u64::MAX);
            meter.take(now, u32::MAX);
            assert!(meter.ready_at(now, u64::from(u32::MAX) * 2) > now);
            assert_eq!(meter.most(), u32::MAX);
        }
    }
}
