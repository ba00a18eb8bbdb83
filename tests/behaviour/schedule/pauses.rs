//! Schedules as values: their pauses, their jitter, and the arguments that they refuse.

use super::{NONE, first};
use crate::support::{ms, panic_text};
use ecru::Schedule;
use ecru::schedule::Jitter;
use std::time::Duration;

#[test]
fn schedule_01_every() {
    assert_eq!(first(4, &Schedule::every(ms(100))), [100; 4]);
    assert_eq!(first(9, &Schedule::every(ms(100)).max_runs(3)), [100, 100]);
}

#[test]
fn schedule_02_exponential() {
    assert_eq!(first(5, &Schedule::exponential(ms(50))), [50, 100, 200, 400, 800]);
    assert_eq!(first(4, &Schedule::exponential(ms(7)).base(3)), [7, 21, 63, 189]);
    assert_eq!(first(9, &Schedule::exponential(ms(1)).base(10).max_runs(4)), [1, 10, 100]);
}

#[test]
fn schedule_03_fibonacci() {
    assert_eq!(first(8, &Schedule::fibonacci(ms(10))), [10, 10, 20, 30, 50, 80, 130, 210]);
    assert_eq!(first(9, &Schedule::fibonacci(ms(1)).max_runs(6)), [1, 1, 2, 3, 5]);
}

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
