//! Clocks that run faster or slower than the virtual time of their simulation.

use std::time::{Duration, Instant};

/// What a clock with a rate of its own shows. It never runs backwards.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drift {
    /// The virtual time when the rate was set.
    since: Instant,
    /// What the clock showed then.
    shown: Instant,
    /// By how many microseconds the clock advances in a second of virtual time. Not 0.
    rate: u64,
}

/// The rate of a clock that shows the virtual time.
pub(crate) const EXACT: u64 = 1_000_000;

impl Drift {
    /// Returns a clock that shows the virtual time, so far.
    pub(crate) fn none(now: Instant) -> Drift {
        Drift { since: now, shown: now, rate: EXACT }
    }

    /// Returns the clock as it goes on when its rate is changed.
    pub(crate) fn at_rate(&self, now: Instant, rate: u64) -> Drift {
        Drift { since: now, shown: self.shown_at(now), rate }
    }

    /// Returns what the clock shows at a virtual time.
    pub(crate) fn shown_at(&self, time: Instant) -> Instant {
        let since = time.saturating_duration_since(self.since);
        after(self.shown, since.as_nanos() * u128::from(self.rate) / u128::from(EXACT))
    }

    /// Returns the first virtual time at which the clock shows this time or a later one, but no
    /// time before the rate was set.
    pub(crate) fn time_of(&self, shown: Instant) -> Instant {
        let left = shown.saturating_duration_since(self.shown).as_nanos();
        after(self.since, (left * u128::from(EXACT)).div_ceil(u128::from(self.rate)))
    }
}

/// Returns the time this number of nanoseconds later, or a time centuries later if that time is not
/// representable.
fn after(start: Instant, nanos: u128) -> Instant {
    const FAR: Duration = Duration::from_secs(1 << 35);
    let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
    let later = Duration::new(seconds, (nanos % 1_000_000_000) as u32);
    start.checked_add(later).unwrap_or_else(|| start + FAR)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Drift;
    use std::time::{Duration, Instant};

    #[test]
    fn a_time_is_shown_when_it_has_come_and_not_before() {
        let (start, nano) = (Instant::now(), Duration::from_nanos(1));
        let exact = Drift::none(start);
        for rate in [1, 3, 999_999, 1_000_000, 1_000_001, 1_999_999, 7_000_000, u64::from(u32::MAX)]
        {
            let clock = exact.at_rate(start + nano, rate);
            assert_eq!(clock.shown_at(start + nano), start + nano);
            for nanos in [0, 1, 2, 999, 1_000_003, 123_456_789_012_345] {
                let shown = start + nano + Duration::from_nanos(nanos);
                let time = clock.time_of(shown);
                assert!(clock.shown_at(time) >= shown, "{rate} {nanos}");
                assert!(nanos == 0 || clock.shown_at(time - nano) < shown, "{rate} {nanos}");
            }
            assert_eq!(clock.time_of(start), start + nano);
        }
        let slow = exact.at_rate(start, 1);
        assert!(slow.time_of(start + Duration::from_secs(1 << 32)) > start);
        let year = Duration::from_secs(365 * 24 * 3600);
        let (fast, late) = (exact.at_rate(start, 2_000_000), start + year);
        let again = fast.at_rate(late, 1_000_000);
        assert_eq!(again.shown_at(late + year), start + 3 * year);
    }
}
