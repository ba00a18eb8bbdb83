//! Chance in the length of a pause.

use std::time::Duration;

use crate::base::random;

/// How much of a pause is left to chance, so that many who failed at the same moment do not all come back at the same moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Jitter {
    /// Nothing: a pause is as long as it says.
    #[default]
    None,
    /// All of it: any length from none to the whole.
    Full,
    /// Half of it: any length from half to the whole.
    Equal,
}

impl Jitter {
    /// A pause of this length after chance has had its share: never longer, and each possible length as likely as any other.
    ///
    /// # Examples
    /// ```
    /// use ecru::schedule::Jitter;
    /// use std::time::Duration;
    ///
    /// let second = Duration::from_secs(1);
    /// assert_eq!(Jitter::None.apply(second), second);
    /// assert!(Jitter::Full.apply(second) <= second);
    /// assert!((second / 2..=second).contains(&Jitter::Equal.apply(second)));
    /// ```
    #[must_use]
    pub fn apply(self, pause: Duration) -> Duration {
        match self {
            Jitter::None => pause,
            Jitter::Full => between(Duration::ZERO, pause),
            Jitter::Equal => between(pause / 2, pause),
        }
    }
}

/// Any length from `least` to `most`, both included.
pub(super) fn between(least: Duration, most: Duration) -> Duration {
    let room = most.saturating_sub(least).as_nanos();
    saturating(least.as_nanos() + random::up_to(room))
}

/// As many nanoseconds, or as many as there can be.
pub(super) fn saturating(nanoseconds: u128) -> Duration {
    Duration::from_nanos_u128(nanoseconds.min(Duration::MAX.as_nanos()))
}
