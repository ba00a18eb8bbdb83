//! Schedules as values: their pauses, their jitter, and the arguments that they refuse.

use super::{NONE, first};
use crate::support::{ms, panic_text};
use ecru::Schedule;
use ecru::schedule::Jitter;
use std::time::Duration;

/// - given: `every(d)`
/// - when: its pauses are inspected
/// - then: each is `d`
#[test]
fn schedule_01_every() {
    assert_eq!(first(4, &Schedule::every(ms(100))), [100; 4]);
    assert_eq!(first(9, &Schedule::every(ms(100)).max_runs(3)), [100, 100]);
}

/// - given: `exponential(d)`, with a base or without
/// - when: its pauses are inspected
/// - then: `d`, `d b`, `d b^2` ..; the default base is 2
#[test]
fn schedule_02_exponential() {
    assert_eq!(first(5, &Schedule::exponential(ms(50))), [50, 100, 200, 400, 800]);
    assert_eq!(first(4, &Schedule::exponential(ms(7)).base(3)), [7, 21, 63, 189]);
    assert_eq!(first(9, &Schedule::exponential(ms(1)).base(10).max_runs(4)), [1, 10, 100]);
}

/// - given: `fibonacci(d)`
/// - when: its pauses are inspected
/// - then: 1, 1, 2, 3, 5, 8 .. times `d`
#[test]
fn schedule_03_fibonacci() {
    assert_eq!(first(8, &Schedule::fibonacci(ms(10))), [10, 10, 20, 30, 50, 80, 130, 210]);
    assert_eq!(first(9, &Schedule::fibonacci(ms(1)).max_runs(6)), [1, 1, 2, 3, 5]);
}

/// - given: pauses that grow beyond the largest `Duration`
/// - when: they are inspected
/// - then: `Duration::MAX` from there on; nothing overflows
#[test]
fn schedule_04_longest_pause() {
    for schedule in [
        Schedule::exponential(ms(1)),
        Schedule::exponential(Duration::MAX).base(u32::MAX),
        Schedule::fibonacci(ms(1)),
        Schedule::fibonacci(Duration::MAX),
        Schedule::every(Duration::MAX),
    ] {
        let pauses: Vec<_> = schedule.pauses().take(300).collect();
        assert!(pauses.is_sorted());
        assert_eq!(pauses[250..], [Duration::MAX; 50], "{schedule:?}");
    }
}

/// - given: `Jitter::{None, Full, Equal}`
/// - when: it is applied to a pause
/// - then: the pause itself; 0 to the whole pause; half to the whole pause; both ends are included,
///   and nothing overflows
#[test]
fn schedule_18_jitter() {
    let spread = |jitter: Jitter, pause: u64| {
        let mut seen: Vec<_> =
            (0..500).map(|_| jitter.apply(Duration::from_nanos(pause)).as_nanos()).collect();
        seen.sort_unstable();
        seen.dedup();
        seen
    };
    assert_eq!(spread(Jitter::None, 7), [7]);
    // The probability that one of eight values is missing after 500 draws is 10^-28.
    assert_eq!(spread(Jitter::Full, 7), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(spread(Jitter::Equal, 7), [3, 4, 5, 6, 7]);
    assert_eq!(spread(Jitter::Equal, 8), [4, 5, 6, 7, 8]);
    for jitter in [Jitter::None, Jitter::Full, Jitter::Equal] {
        assert_eq!(spread(jitter, 0), [0]);
        assert!(jitter.apply(Duration::MAX) <= Duration::MAX);
    }
    assert!(Jitter::Equal.apply(Duration::MAX) >= Duration::MAX / 2);
    assert_eq!(Jitter::None.apply(Duration::MAX), Duration::MAX);
    assert_eq!(Jitter::default(), Jitter::None);
}

/// - given: a pause of zero
/// - when: `every`, `exponential` and `fibonacci` are called
/// - then: it panics, naming the kind and what to do
#[test]
fn schedule_20_zero_pause() {
    type Make = fn(Duration) -> Schedule;
    let kinds: [(&str, Make); 3] = [
        ("every", Schedule::every),
        ("exponential", Schedule::exponential),
        ("fibonacci", Schedule::fibonacci),
    ];
    for (kind, make) in kinds {
        let text = panic_text(|| make(NONE));
        assert!(text.contains(&format!("Schedule::{kind}")), "{text}");
        assert!(text.contains("pass a pause of at least"), "{text}");
        // The shortest there is will do.
        drop(make(Duration::from_nanos(1)));
    }
}

/// - given: a base under 2, or a base for another kind
/// - when: `base` is called
/// - then: it panics and says what to do
#[test]
fn schedule_21_base() {
    for base in [0, 1] {
        let text = panic_text(|| Schedule::exponential(ms(1)).base(base));
        assert!(text.contains(&format!("base of {base}")) && text.contains("at least 2"), "{text}");
    }
    for other in [Schedule::every(ms(1)), Schedule::fibonacci(ms(1))] {
        let text = panic_text(|| other.base(2));
        assert!(text.contains("Schedule::exponential"), "{text}");
    }
}
