//! The calls of the last period, and how many of them failed.

use std::time::Duration;

/// The number of steps in which old calls are forgotten.
const STEPS: usize = 10;

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    calls: u64,
    failures: u64,
}

/// Counts of the calls of a period, in ten steps. Times are measured from its creation.
#[derive(Debug)]
pub(crate) struct FailureWindow {
    step: Duration,
    /// The counts of step `n` of time are at `n` modulo their number.
    counts: [Counts; STEPS],
    /// The number of the step in which the last call ended.
    now: u128,
}

impl FailureWindow {
    /// Creates a window of this length, which is not zero.
    pub(crate) fn new(length: Duration) -> FailureWindow {
        let step = (length / STEPS as u32).max(Duration::from_nanos(1));
        FailureWindow { step, counts: [Counts::default(); STEPS], now: 0 }
    }

    /// Counts a call that has ended `age` after the window's creation.
    pub(crate) fn count(&mut self, age: Duration, failed: bool) {
        let now = age.as_nanos() / self.step.as_nanos();
        let skipped = now.saturating_sub(self.now).min(STEPS as u128);
        // The steps in between have no calls. After a whole length, no step has.
        for step in 1..=skipped {
            self.counts[((self.now + step) % STEPS as u128) as usize] = Counts::default();
        }
        self.now = self.now.max(now);
        let counts = &mut self.counts[(self.now % STEPS as u128) as usize];
        counts.calls += 1;
        counts.failures += u64::from(failed);
    }

    /// Returns the numbers of calls and of failures in the window.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let calls = self.counts.iter().map(|counts| counts.calls).sum();
        let failures = self.counts.iter().map(|counts| counts.failures).sum();
        (calls, failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_calls_are_forgotten_step_by_step() {
        let second = Duration::from_secs(1);
        let mut window = FailureWindow::new(10 * second);
        for age in 0..10 {
            window.count(age * second, age % 2 == 0);
        }
        assert_eq!(window.totals(), (10, 5));
        // The failure of the first second leaves.
        window.count(10 * second, false);
        assert_eq!(window.totals(), (10, 4));
        // Those up to the fifth second leave.
        window.count(15 * second, false);
        assert_eq!(window.totals(), (6, 2));
        // A time that went backwards changes nothing.
        window.count(second, true);
        assert_eq!(window.totals(), (7, 3));
        window.count(Duration::MAX, true);
        assert_eq!(window.totals(), (1, 1));
        // So does a wait of exactly one length.
        let mut window = FailureWindow::new(Duration::from_nanos(1));
        window.count(Duration::ZERO, true);
        window.count(Duration::from_nanos(STEPS as u64), false);
        assert_eq!(window.totals(), (1, 0));
    }
}
