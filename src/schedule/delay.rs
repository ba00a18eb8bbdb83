//! The length of the pause after a failure.

use std::time::Duration;

use super::jitter::{self, Jitter};

/// The pause of a [`Retry`](super::Retry) after a failure.
///
/// # Examples
/// ```
/// use ecru::schedule::{Delay, Jitter};
/// use std::time::Duration;
///
/// let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
/// let delay = Delay::Backoff { start: second, max: minute, mult: 2 };
/// assert_eq!(delay.pause_after(3, 2 * second, Jitter::None), 4 * second);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Delay {
    /// No pause. Other tasks run, and a cancellation is noticed.
    #[default]
    None,
    /// The same pause each time.
    Constant(Duration),
    /// A pause that grows by a factor with each consecutive failure.
    Backoff {
        /// The pause after the first failure.
        start: Duration,
        /// The longest pause, jitter included.
        max: Duration,
        /// The factor; at least 1.
        mult: u32,
    },
    /// A random pause between the last pause and a multiple of it. Tasks that began together soon
    /// drift apart.
    Decorrelated {
        /// The longest pause after the first failure.
        start: Duration,
        /// The longest pause.
        max: Duration,
        /// The factor; at least 1.
        mult: u32,
    },
}

impl Delay {
    /// Returns the pause after `failures` consecutive failures, if the pause before it was `last`.
    /// Zero failures means that the pause follows a success.
    ///
    /// | | failures | pause |
    /// |---|---|---|
    /// | `None` | any | zero |
    /// | `Constant(d)` | any | `d`, with jitter |
    /// | `Backoff` | 0 or 1 | `start`, with jitter, but at most `max` |
    /// | | n > 1 | `start * mult^(n - 1)`, with jitter, but at most `max` |
    /// | `Decorrelated` | 0 or 1, or `last` is 0 | random from zero to `start`, but at most `max` |
    /// | | n > 1 | random from `last` to `last * mult`, but at most `max` |
    ///
    /// Jitter does not apply to `Decorrelated`, which is random already. A pause that is too long
    /// for a `Duration` becomes `Duration::MAX`.
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
            // Zero times any factor is zero. Without the second condition, a single random pause of
            // zero would end all pauses.
            Delay::Decorrelated { start, max, .. } if failures <= 1 || last.is_zero() => {
                jitter::between(Duration::ZERO, start.min(max))
            }
            Delay::Decorrelated { max, mult, .. } => {
                let least = last.min(max);
                jitter::between(least, last.saturating_mul(mult).clamp(least, max))
            }
        }
    }

    /// Returns the factor of a delay that grows.
    pub(super) fn factor(&self) -> Option<u32> {
        match *self {
            Delay::None | Delay::Constant(_) => None,
            Delay::Backoff { mult, .. } | Delay::Decorrelated { mult, .. } => Some(mult),
        }
    }
}
