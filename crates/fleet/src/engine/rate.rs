//! How often jobs are handed out.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// In no period of this length are more jobs handed out.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rate {
    pub(crate) jobs: usize,
    pub(crate) per: Duration,
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per {:?}", self.jobs, self.per)
    }
}

/// When jobs were handed out lately, in milliseconds since 1970: the last ones, as many as the rate
/// permits in a period.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Starts(VecDeque<u64>);

impl Starts {
    /// Notes that a job is handed out now, if the rate permits that. Otherwise returns for how long
    /// it does not.
    pub(crate) fn take(&mut self, rate: Rate, now: Duration) -> Result<(), Duration> {
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let per = u64::try_from(rate.per.as_millis()).unwrap_or(u64::MAX);
        // The clock of another process may be ahead.
        self.0.iter_mut().for_each(|start| *start = now.min(*start));
        self.0.retain(|start| now - *start < per);
        if let Some(first) = self.0.len().checked_sub(rate.jobs) {
            return Err(Duration::from_millis(per - (now - self.0[first])));
        }
        self.0.push_back(now);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn no_period_has_more_than_the_rate() {
        let rate = Rate { jobs: 3, per: SECOND };
        let mut random = fastrand::Rng::with_seed(7);
        let (mut starts, mut now, mut taken) = (Starts::default(), 5 * SECOND, Vec::new());
        while taken.len() < 200 {
            match starts.take(rate, now) {
                Ok(()) => taken.push(now),
                // After the pause, and not before, there is a place.
                Err(pause) => {
                    let early = pause.saturating_sub(Duration::from_millis(1));
                    assert!(starts.clone().take(rate, now + early).is_err());
                    now += pause;
                    assert!(starts.clone().take(rate, now).is_ok());
                }
            }
            now += Duration::from_millis(random.u64(..400));
        }
        for four in taken.windows(4) {
            assert!(four[3] - four[0] >= SECOND, "{four:?}");
        }
        assert!(starts.0.len() <= 3);
    }

    #[test]
    fn a_clock_that_is_ahead_blocks_for_a_period() {
        let rate = Rate { jobs: 1, per: SECOND };
        let mut starts = Starts::default();
        starts.take(rate, 9000 * SECOND).unwrap();
        assert_eq!(starts.take(rate, 3 * SECOND), Err(SECOND));
        assert_eq!(starts.take(rate, 4 * SECOND), Ok(()));
    }

    #[test]
    fn a_lower_rate_waits_for_what_a_higher_one_has_taken() {
        let mut starts = Starts::default();
        for tenth in 0..4 {
            starts.take(Rate { jobs: 4, per: SECOND }, SECOND + tenth * SECOND / 10).unwrap();
        }
        let lower = Rate { jobs: 2, per: SECOND };
        // The two last ones are at 1.2 s and 1.3 s.
        assert_eq!(starts.take(lower, 2 * SECOND), Err(SECOND / 5));
        assert_eq!(starts.take(lower, 2 * SECOND + SECOND / 5), Ok(()));
    }
}
