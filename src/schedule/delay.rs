//! How long to pause after a failure.

use std::time::Duration;

use super::jitter::{self, Jitter};

/// How long a [`Retry`](super::Retry) pauses after a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Delay {
    /// Not at all. The other tasks have their turn, and a cancellation is seen.
    #[default]
    None,
    /// The same each time.
    Constant(Duration),
    /// Longer by a factor with each failure in a row.
    Backoff {
        /// After the first failure.
        start: Duration,
        /// Never longer than this, jitter included.
        max: Duration,
        /// The factor; at least 1.
        mult: u32,
    },
    /// Left to chance: at least as long as the last pause, at most that times a factor. So those who began together soon drift apart.
    Decorrelated {
        /// The longest pause after the first failure.
        start: Duration,
        /// Never longer than this.
        max: Duration,
        /// The factor; at least 1.
        mult: u32,
    },
}

impl Delay {
    /// How long to pause after so many failures in a row, when the pause before was `last`. No failure: after a success.
    ///
    /// | | failures | pause |
    /// |---|---|---|
    /// | `None` | any | zero |
    /// | `Constant(d)` | any | `d`, with jitter |
    /// | `Backoff` | 0 or 1 | `start`, with jitter, but at most `max` |
    /// | | n > 1 | `start * mult^(n - 1)`, with jitter, but at most `max` |
    /// | `Decorrelated` | 0 or 1, or `last` is zero | anything from zero to `start`, but at most `max` |
    /// | | n > 1 | anything from `last` to `last * mult`, but at most `max` |
    ///
    /// Jitter does not apply to `Decorrelated`, which is chance already. What is too long for a `Duration` is as long as it can be.
    ///
    /// # Examples
    /// ```
    /// use ecru::schedule::{Delay, Jitter};
    /// use std::time::Duration;
    ///
    /// let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
    /// let delay = Delay::Backoff { start: second, max: minute, mult: 5 };
    /// let pauses = [1, 2, 3, 4].map(|n| delay.pause_after(n, Duration::ZERO, Jitter::None));
    /// assert_eq!(pauses, [second, 5 * second, 25 * second, minute]);
    /// ```
    #[must_use]
    pub fn pause_after(&self, failures: u32, last: Duration, jitter: Jitter) -> Duration {
        match *self {
            Delay::None => Duration::ZERO,
            Delay::Constant(pause) => jitter.apply(pause),
            Delay::Backoff { start, max, mult } => {
                let factor = u128::from(mult).saturating_pow(failures.saturating_sub(1));
                let grown = jitter::saturating(start.as_nanos().saturating_mul(factor));
                jitter.apply(grown).min(max)
            }
            // A pause of zero times any factor is zero: without the second condition one unlucky draw would mean no pause ever again.
            Delay::Decorrelated { start, max, .. } if failures <= 1 || last.is_zero() => {
                jitter::between(Duration::ZERO, start.min(max))
            }
            Delay::Decorrelated { max, mult, .. } => {
                let least = last.min(max);
                jitter::between(least, last.saturating_mul(mult).clamp(least, max))
            }
        }
    }

    /// The factor, where there is one.
    pub(super) fn factor(&self) -> Option<u32> {
        match *self {
            Delay::None | Delay::Constant(_) => None,
            Delay::Backoff { mult, .. } | Delay::Decorrelated { mult, .. } => Some(mult),
        }
    }
}
