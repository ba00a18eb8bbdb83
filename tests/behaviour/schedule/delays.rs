//! `Delay`: pauses that grow with the number of failures.

use super::NONE;
use crate::support::{HOUR, ms, panic_text};
use ecru::Retry;
use ecru::schedule::{Delay, Jitter};
use std::time::Duration;

/// - given: `Delay::None`, `Delay::Constant(d)`
/// - when: the pause after any number of failures
/// - then: no pause; `d`
#[test]
fn schedule_31_plain_delays() {
    for failures in [0, 1, 2, 100, u32::MAX] {
        for last in [NONE, ms(3), Duration::MAX] {
            assert_eq!(Delay::None.pause_after(failures, last, Jitter::Full), NONE);
            assert_eq!(Delay::Constant(ms(9)).pause_after(failures, last, Jitter::None), ms(9));
            let jittered = Delay::Constant(ms(9)).pause_after(failures, last, Jitter::Equal);
            assert!((ms(9) / 2..=ms(9)).contains(&jittered));
        }
    }
    assert_eq!(Delay::default(), Delay::None);
}

/// - given: `Delay::Backoff`, factor 5, at most a minute
/// - when: two series of failures with a success between them
/// - then: `start * 5^(n - 1)` up to the minute, and from `start` again in the second series
#[test]
fn schedule_32_backoff() {
    let (start, max) = (Duration::from_secs(1), Duration::from_secs(60));
    let delay = Delay::Backoff { start, max, mult: 5 };
    let mut last = NONE;
    for wave in 0..2 {
        for (failures, pause) in [(0, 1), (1, 1), (2, 5), (3, 25), (4, 60), (5, 60), (6, 60)] {
            if wave == 0 && failures == 0 {
                continue; // a success comes between the series
            }
            last = delay.pause_after(failures, last, Jitter::None);
            assert_eq!(last, Duration::from_secs(pause), "after {failures} in row {wave}");
        }
    }
    let flat = Delay::Backoff { start, max, mult: 1 };
    assert_eq!(flat.pause_after(9, NONE, Jitter::None), start);
    let above = Delay::Backoff { start: 2 * max, max, mult: 2 };
    assert_eq!(above.pause_after(1, NONE, Jitter::None), max);
}

/// - given: `Delay::Backoff` with jitter
/// - when: its pauses are inspected
/// - then: the jitter is applied first, then the maximum
#[test]
fn schedule_33_backoff_jitter() {
    let delay = Delay::Backoff { start: ms(4), max: ms(10), mult: 4 };
    let mut equal = Vec::new();
    for _ in 0..500 {
        assert!(delay.pause_after(1, NONE, Jitter::Full) <= ms(4));
        equal.push(delay.pause_after(2, NONE, Jitter::Equal));
    }
    // The pauses are from 8 to 16 ms, cut off at 10. Most are at the maximum, which they would not
    // be if the jitter came last.
    assert!(equal.iter().all(|pause| (ms(8)..=ms(10)).contains(pause)));
    assert!(equal.iter().filter(|pause| **pause == ms(10)).count() > 250);
    assert!(equal.iter().any(|pause| *pause < ms(10)));
}

/// - given: `Delay::Backoff` and very many failures
/// - when: the pause after them is inspected
/// - then: the maximum, even if it is `Duration::MAX`
#[test]
fn schedule_34_backoff_overflow() {
    for mult in [2, 10, u32::MAX] {
        for max in [HOUR, Duration::MAX] {
            let delay = Delay::Backoff { start: Duration::from_nanos(1), max, mult };
            for failures in [200, 100_000, u32::MAX] {
                assert_eq!(delay.pause_after(failures, max, Jitter::None), max);
            }
            assert!(delay.pause_after(u32::MAX, max, Jitter::Equal) >= max / 2);
        }
    }
    // No factor is cut off before the product is too long: 10^20 nanoseconds.
    let delay = Delay::Backoff { start: Duration::from_nanos(1), max: Duration::MAX, mult: 10 };
    let pause = delay.pause_after(21, NONE, Jitter::None);
    assert_eq!(pause, Duration::from_secs(100_000_000_000));
}

/// - given: `Delay::Decorrelated`
/// - when: its pauses are inspected
/// - then: first 0 to `start`, then from the last pause to the last pause times the factor, at most
///   the maximum; both ends are reached
#[test]
fn schedule_35_decorrelated() {
    let ns = Duration::from_nanos;
    let delay = Delay::Decorrelated { start: ns(3), max: ns(12), mult: 3 };
    let spread = |failures, last| {
        // Jitter has no effect on it.
        let draw = |_| delay.pause_after(failures, ns(last), Jitter::Full).as_nanos();
        let mut seen: Vec<_> = (0..500).map(draw).collect();
        seen.sort_unstable();
        seen.dedup();
        seen
    };
    for failures in [0, 1] {
        assert_eq!(spread(failures, 9), [0, 1, 2, 3]);
    }
    assert_eq!(spread(2, 1), [1, 2, 3]);
    assert_eq!(spread(3, 2), [2, 3, 4, 5, 6]);
    assert_eq!(spread(4, 5), [5, 6, 7, 8, 9, 10, 11, 12]);
    assert_eq!(spread(5, 12), [12]);
    // Its own results play no part.
    assert_eq!(spread(6, 40), [12]);
    let long = Delay::Decorrelated { start: HOUR, max: Duration::MAX, mult: u32::MAX };
    assert!(long.pause_after(2, Duration::MAX / 2, Jitter::None) >= Duration::MAX / 2);
    let small = Delay::Decorrelated { start: HOUR, max: ns(1), mult: 3 };
    assert!(small.pause_after(1, NONE, Jitter::None) <= ns(1));
}

/// - given: `Delay::Decorrelated` whose last pause was zero
/// - when: the next pause is inspected
/// - then: 0 to `start` again, not zero for ever
#[test]
fn schedule_36_decorrelated_zero() {
    let delay = Delay::Decorrelated { start: ms(3), max: HOUR, mult: 3 };
    // A pause of zero 50 times in a row, out of 3,000,001 values, cannot be chance.
    assert!((0..50).any(|_| delay.pause_after(5, NONE, Jitter::None) > NONE));
}

/// - given: a factor of 0
/// - when: `Retry::delay` is called
/// - then: it panics and says what to do
#[test]
fn schedule_37_factor_of_none() {
    for delay in [
        Delay::Backoff { start: ms(1), max: HOUR, mult: 0 },
        Delay::Decorrelated { start: ms(1), max: HOUR, mult: 0 },
    ] {
        let text = panic_text(|| Retry::new().delay(delay));
        assert!(text.contains("`mult`") && text.contains("at least 1"), "{text}");
        // A direct call still returns a pause.
        assert!(delay.pause_after(3, ms(2), Jitter::Full) <= ms(2));
    }
}
