//! `interval`: ticks that do not come in bursts.

use crate::support::{HOUR, each_run, ms, now, panic_text};
use ecru::Source;
use ecru::time::{Missed, interval};
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

/// - given: intervals of each kind of `Missed`, and a tick that is taken late
/// - when: further ticks are taken
/// - then: they are due a period after one another; a period after the late one was taken; at the
///   next multiple of the period
#[test]
fn timer_25_missed_ticks() {
    each_run(|| {
        let period = ms(10);
        let late = |missed| {
            let ticks = interval(period).missed(missed);
            let first = ticks.tick().unwrap();
            // Three ticks are due, and almost the fourth.
            let until = first + period * 3 + ms(7);
            while now() < until {
                ecru::sleep(ms(1)).unwrap();
            }
            let taken = now();
            assert_eq!(ticks.tick().unwrap(), first + period);
            let next = [ticks.tick().unwrap(), ticks.tick().unwrap()];
            (first, taken, next)
        };
        let (first, _, next) = late(Missed::Burst);
        assert_eq!(next, [first + period * 2, first + period * 3]);
        let (_, taken, next) = late(Missed::default());
        assert!(next[0] >= taken + period && next[1] >= next[0] + period);
        let (first, taken, next) = late(Missed::Skip);
        assert!(next[0] > taken && next[1] > next[0]);
        for due in next {
            assert_eq!((due - first).as_nanos() % period.as_nanos(), 0);
        }
    });
}

/// - given: an interval, and tasks that wait for its ticks, also through a wrapper
/// - when: it is reset while they wait, or before its first tick
/// - then: the next tick comes a period after that, and later ones are counted from it
#[test]
fn timer_26_interval_reset() {
    each_run(|| {
        let hourly = interval(HOUR);
        hourly.clone().reset();
        assert!(hourly.try_take().is_none());
        let ticks = interval(ms(2));
        ticks.tick().unwrap();
        let start = now();
        ticks.reset();
        assert!(ticks.tick().unwrap() >= start + ms(2) && now() >= start + ms(2));
    });
}
