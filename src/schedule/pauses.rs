//! The sequence of pauses of a schedule.

use std::iter::FusedIterator;
use std::time::Duration;

/// How a pause is computed from those before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    Constant,
    Exponential {
        base: u32,
    },
    Fibonacci {
        /// The pause after the next one.
        after: Duration,
    },
}

/// An iterator over the pauses of a schedule, before jitter: see
/// [`Schedule::pauses`](super::Schedule::pauses).
///
/// # Examples
/// ```
/// use ecru::Schedule;
/// use std::time::Duration;
///
/// let pauses = Schedule::exponential(Duration::from_secs(1)).max_runs(4).pauses();
/// assert_eq!(pauses.sum::<Duration>(), Duration::from_secs(1 + 2 + 4));
/// ```
#[derive(Clone, Debug)]
pub struct Pauses {
    next: Duration,
    growth: Growth,
    /// The number of pauses that are left, or `None` if there is no limit.
    left: Option<u32>,
}

impl Pauses {
    pub(super) fn new(first: Duration, growth: Growth, max_runs: Option<u32>) -> Pauses {
        // There is one pause less than runs, of which there is one at least.
        Pauses { next: first, growth, left: max_runs.map(|runs| runs - 1) }
    }
}

impl Iterator for Pauses {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(1)?;
        }
        let pause = self.next;
        self.next = match &mut self.growth {
            Growth::Constant => pause,
            Growth::Exponential { base } => pause.saturating_mul(*base),
            Growth::Fibonacci { after } => {
                let next = *after;
                *after = next.saturating_add(pause);
                next
            }
        };
        Some(pause)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        match self.left {
            Some(left) => (left as usize, Some(left as usize)),
            None => (usize::MAX, None),
        }
    }
}

impl FusedIterator for Pauses {}
