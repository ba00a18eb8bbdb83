//! Randomness in the length of a pause.

use std::time::Duration;

use crate::base::random;

/// The part of a pause that is random, so that tasks that failed at the same moment do not all
/// retry at the same moment.
///
/// # Examples
/// ```
/// use ecru::Schedule;
/// use ecru::schedule::Jitter;
/// use std::time::Duration;
///
/// // Pauses from five to ten microseconds.
/// let polls = Schedule::every(Duration::from_micros(10)).max_runs(3).jitter(Jitter::Equal);
/// assert_eq!(polls.run(|| "polled"), Ok("polled"));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Jitter {
    /// Nothing is random: each pause has its full length.
    #[default]
    None,
    /// The whole pause is random: any length from zero to the full length.
    Full,
    /// Half of the pause is random: any length from half to the full length.
    Equal,
}

impl Jitter {
    /// Returns `pause` with jitter. The result is never longer than `pause`, and all possible
    /// lengths are equally likely.
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

/// Returns a random duration from `least` to `most`, both included.
pub(super) fn between(least: Duration, most: Duration) -> Duration {
    let room = most.saturating_sub(least).as_nanos();
    saturating(least.as_nanos() + random::up_to(room))
}

/// Converts nanoseconds to a `Duration`, at most `Duration::MAX`.
pub(super) fn saturating(nanoseconds: u128) -> Duration {
    const SECOND: u128 = 1_000_000_000;
    // Both fit: the remainder is less than a second.
    match u64::try_from(nanoseconds / SECOND) {
        Ok(seconds) => Duration::new(seconds, (nanoseconds % SECOND) as u32),
        Err(_) => Duration::MAX,
    }
}
