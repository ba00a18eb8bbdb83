//! `Timer`: started, fired or cancelled, for all its waiters.

use crate::support::{HOUR, Watchdog, begin, each_run, forever, ms, now, settle, since};
use ecru::source::{Either, WaitList};
use ecru::time::{Timer, TimerState, interval};
use ecru::{Source, channel, source};
use std::time::Duration;

/// - given: a `Timer`
/// - when: it is started, fires, is cancelled
/// - then: its state is `Ready`, `Ticking`, `Rung`, `Cancelled`, in this order; before its start it
///   has no item
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

/// - given: a timer that is ticking, has fired, or was cancelled
/// - when: it is started
/// - then: an error says which of these
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

/// - given: several waiters for one timer, some from before it was started
/// - when: it fires
/// - then: each gets `true`, and so does every later waiter; none early
#[test]
fn timer_15_rings_for_all() {
    each_run(|| {
        ecru::scope(|s| {
            let timer = Timer::new(ms(3));
            let wait = || {
                let timer = timer.clone();
                s.spawn(move || (timer.wait(), now()))
            };
            let mut waiting = vec![wait(), wait()];
            settle();
            let start = now();
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

/// - given: several waiters for a timer, started or not
/// - when: it is cancelled
/// - then: each gets `false`, and so does every later waiter
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

/// - given: a timer that has fired
/// - when: it is cancelled
/// - then: its state is `Cancelled`, and it still returns `true`
#[test]
fn timer_17_rung_stays_rung() {
    let timer = Timer::new(ms(1));
    timer.start().unwrap();
    assert_eq!(timer.wait(), Ok(true));
    timer.cancel();
    timer.cancel();
    assert_eq!((timer.state(), timer.wait()), (TimerState::Cancelled, Ok(true)));
}

/// - given: a timer and a task
/// - when: they are raced, and either may be first
/// - then: the first wins, and the other loses nothing
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

/// - given: a timer of `Duration::MAX`
/// - when: it is started
/// - then: it ticks until it is cancelled
///
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

/// - given: a user's source that forwards nothing but `waiters` to a timer, an interval, or a
///   channel of `after` or `tick`
/// - when: it is waited on, in a task and on a thread
/// - then: it wakes when the time has come
#[test]
fn timer_24_wrapped() {
    fn all() {
        let later = now() + ms(2);
        assert!(Wrapped(channel::after(ms(2))).wait().is_ok());
        assert!(now() >= later);
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

/// - given: a timer in every state, and waits for it
/// - when: it is reset, once or again and again
/// - then: it rings a full duration after the last reset, for waits before and after
#[test]
fn timer_27_timer_reset() {
    each_run(|| {
        let (ready, cancelled, rung) = (Timer::new(ms(1)), Timer::new(ms(1)), Timer::new(ms(1)));
        cancelled.cancel();
        rung.start().unwrap();
        assert_eq!((cancelled.wait(), rung.wait()), (Ok(false), Ok(true)));
        for timer in [ready, cancelled, rung] {
            let start = now();
            timer.reset();
            assert!(timer.start().is_err());
            assert!(timer.wait() == Ok(true) && since(start) >= ms(1));
        }
    });
}
