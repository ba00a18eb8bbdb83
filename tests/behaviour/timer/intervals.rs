//! `interval`: ticks that do not come in bursts.

use crate::support::{HOUR, each_run, ms, now, panic_text};
use ecru::Source;
use ecru::time::interval;
use std::time::Duration;

/// - given: an interval
/// - when: its ticks are taken
/// - then: the first is there at once, the others a period apart, none early
#[test]
fn timer_20_interval() {
    each_run(|| {
        let start = now();
        let ticks = interval(ms(2));
        assert_eq!(ticks.period(), ms(2));
        let first = ticks.try_take().expect("the first is there at once");
        assert!(first >= start);
        let seldom = interval(HOUR);
        assert!(seldom.try_take().is_some() && seldom.try_take().is_none());
        let mut before = first;
        for _ in 0..5 {
            let due = ticks.tick().unwrap();
            assert!(due >= before + ms(2) && now() >= due);
            before = due;
        }
    });
}

/// - given: an interval of which several ticks were missed
/// - when: ticks are taken
/// - then: one is there at once; the next comes a full period later
#[test]
fn timer_21_interval_does_not_burst() {
    each_run(|| {
        let ticks = interval(ms(4));
        ticks.tick().unwrap();
        std::thread::sleep(ms(20));
        let late = now();
        assert!(ticks.try_take().is_some());
        assert!(ticks.try_take().is_none_or(|due| due >= late + ms(4)));
        assert!(ticks.tick().unwrap() >= late + ms(4));
    });
}

/// - given: several waiters for one interval
/// - when: it ticks
/// - then: each tick goes to one of them
#[test]
fn timer_22_interval_shared() {
    each_run(|| {
        ecru::scope(|s| {
            let ticks = interval(ms(1));
            let takers: Vec<_> = (0..3)
                .map(|_| {
                    let ticks = ticks.clone();
                    s.spawn(move || [ticks.tick().unwrap(), ticks.tick().unwrap()])
                })
                .collect();
            let mut all: Vec<_> = takers.iter().flat_map(|one| one.join().unwrap()).collect();
            all.sort();
            all.dedup();
            assert_eq!(all.len(), 6);
            assert!(all.windows(2).all(|pair| pair[1] >= pair[0] + ms(1)));
        });
    });
}

/// - given: no interval yet
/// - when: an interval of zero is made
/// - then: it panics and says what to use
///
/// An interval of zero would be a busy loop.
#[test]
fn timer_23_interval_of_zero() {
    assert!(panic_text(|| interval(Duration::ZERO)).contains("yield_now"));
}
