//! `Timer`: started, fired or cancelled, for all its waiters.

use crate::support::{HOUR, Watchdog, begin, each_run, forever, ms, settle};
use ecru::source::{Either, WaitList};
use ecru::time::{Timer, TimerState, interval};
use ecru::{Source, channel, source};
use std::time::{Duration, Instant};

/// The four states.
#[test]
fn timer_13_states() {
    each_run(|| {
        let timer = Timer::new(ms(1));
        assert_eq!((timer.state(), timer.try_take()), (TimerState::Ready, None));
        timer.start().unwrap();
        let far = Timer::new(HOUR);
        far.start().unwrap();
        assert_eq!((far.state(), far.try_take()), (TimerState::Ticking, None));
        assert_eq!(timer.wait(), Ok(true));
        assert_eq!(timer.state(), TimerState::Rung);
        for timer in [timer, far, Timer::new(ms(1))] {
            timer.cancel();
            assert_eq!(timer.state(), TimerState::Cancelled);
        }
    });
}

/// A timer is started only once, and a second start says why it is refused.
#[test]
fn timer_14_started_twice() {
    let timer = Timer::new(HOUR);
    timer.start().unwrap();
    let refused = timer.start().unwrap_err();
    assert_eq!(refused.state(), TimerState::Ticking);
    assert!(refused.to_string().contains("ticking"));
    timer.cancel();
    let refused = timer.start().unwrap_err();
    assert!(refused.state() == TimerState::Cancelled && refused.to_string().contains("cancelled"));
    let timer = Timer::new(Duration::ZERO);
    timer.start().unwrap();
    let refused = timer.start().unwrap_err();
    assert!(refused.state() == TimerState::Rung && refused.to_string().contains("rung"));
    let never_started = Timer::new(HOUR);
    never_started.cancel();
    assert_eq!(never_started.start().unwrap_err().state(), TimerState::Cancelled);
}

/// All waiters get it, at any later time.
#[test]
fn timer_15_rings_for_all() {
    each_run(|| {
        ecru::scope(|s| {
            let timer = Timer::new(ms(3));
            let wait = || {
                let timer = timer.clone();
                s.spawn(move || (timer.wait(), Instant::now()))
            };
            let mut waiting = vec![wait(), wait()];
            settle();
            let start = Instant::now();
            timer.start().unwrap();
            waiting.push(wait());
            for one in waiting {
                let (rung, at) = one.join().unwrap();
                assert!(rung == Ok(true) && at >= start + ms(3));
            }
            assert_eq!((timer.wait(), timer.try_take()), (Ok(true), Some(true)));
        });
    });
}

/// Cancelling a timer ends all its waits.
#[test]
fn timer_16_cancelled_for_all() {
    each_run(|| {
        for started in [true, false] {
            ecru::scope(|s| {
                let timer = Timer::new(HOUR);
                if started {
                    timer.start().unwrap();
                }
                let waiting: Vec<_> = (0..3)
                    .map(|_| {
                        let timer = timer.clone();
                        s.spawn(move || timer.wait())
                    })
                    .collect();
                settle();
                timer.cancel();
                for one in waiting {
                    assert_eq!(one.join().unwrap(), Ok(false));
                }
                assert_eq!((timer.wait(), timer.try_take()), (Ok(false), Some(false)));
            });
        }
    });
}

/// A timer that has fired stays fired.
#[test]
fn timer_17_rung_stays_rung() {
    let timer = Timer::new(ms(1));
    timer.start().unwrap();
    assert_eq!(timer.wait(), Ok(true));
    timer.cancel();
    timer.cancel();
    assert_eq!((timer.state(), timer.wait()), (TimerState::Cancelled, Ok(true)));
}

/// A timer is a source like any other.
#[test]
fn timer_18_in_a_race() {
    each_run(|| {
        ecru::scope(|s| {
            let (short, long) = (Timer::new(ms(1)), Timer::new(HOUR));
            short.start().unwrap();
            long.start().unwrap();
            let task = begin(s, forever);
            assert!(matches!(source::either(&task, &short).wait(), Ok(Either::Right(true))));
            task.cancel();
            assert!(matches!(source::either(&task, &long).wait(), Ok(Either::Left(Ok(_)))));
            assert_eq!(long.state(), TimerState::Ticking);
        });
    });
}

/// Nothing overflows.
#[test]
fn timer_19_past_the_end_of_time() {
    each_run(|| {
        ecru::scope(|s| {
            let timer = Timer::new(Duration::MAX);
            timer.start().unwrap();
            let other = timer.clone();
            let waiting = s.spawn(move || other.wait());
            settle();
            assert_eq!(timer.state(), TimerState::Ticking);
            timer.cancel();
            assert_eq!(waiting.join().unwrap(), Ok(false));
        });
    });
}

/// A wrapper as a user would write it, without support for times.
struct Wrapped<S>(S);

impl<S: Source> Source for Wrapped<S> {
    type Item = S::Item;

    fn try_take(&self) -> Option<S::Item> {
        self.0.try_take()
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        self.0.waiters(each);
    }
}

/// Times also end the waits of wrappers.
#[test]
fn timer_24_wrapped() {
    fn all() {
        let later = Instant::now() + ms(2);
        assert!(Wrapped(channel::after(ms(2))).wait().is_ok());
        assert!(Instant::now() >= later);
        let ticks = Wrapped(channel::tick(ms(1)));
        let timed = Wrapped(interval(ms(1)));
        for _ in 0..3 {
            assert!(ticks.wait().is_ok() && timed.wait().is_ok());
        }
        let timer = Timer::new(ms(1));
        timer.start().unwrap();
        assert_eq!(Wrapped(&timer).wait(), Ok(true));
        // It is waited for before it is started.
        let timer = Timer::new(ms(1));
        let (wrapped, start) = (Wrapped(timer.clone()), timer);
        std::thread::scope(|s| {
            s.spawn(move || start.start().unwrap());
            assert_eq!(wrapped.wait(), Ok(true));
        });
    }
    let _watchdog = Watchdog::new();
    all();
    each_run(all);
}
