//! How often a schedule runs its closure, when, and what ends it.

use super::{Calls, Failure, NONE, first};
use crate::support::{
    Counted, HOUR, each_run, ms, now, payload_of, quiet_panic, run_on, since, text_of,
};
use ecru::schedule::Until;
use ecru::schedule::{Delay, Jitter};
use ecru::{CancelReason, Retry, Schedule};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// Returns schedules that ignore the result, with hardly any pause.
fn all_kinds() -> [Schedule; 3] {
    let shortest = Duration::from_nanos(1);
    [Schedule::every(shortest), Schedule::exponential(shortest), Schedule::fibonacci(shortest)]
}

/// - given: `max_runs(n)`, `max_runs(None)`, or `max_runs(0)`
/// - when: the schedule is run
/// - then: n runs, the first one included; `None` and 0 mean no bound
#[test]
fn schedule_05_max_runs() {
    each_run(|| {
        for schedule in all_kinds() {
            for n in 1..8 {
                let calls = Calls::default();
                assert_eq!(schedule.clone().max_runs(n).run(|| calls.next()), Ok(n));
            }
        }
        let calls = Calls::default();
        let every = Schedule::every(ms(1));
        for unbounded in [every.clone(), every.clone().max_runs(None), every.max_runs(0)] {
            assert_eq!(unbounded.pauses().size_hint(), (usize::MAX, None));
            let ended = ecru::cancel_scope(|c| {
                unbounded.run(|| {
                    if calls.next() % 4 == 0 {
                        c.cancel();
                    }
                })
            });
            assert!(ended.is_err());
        }
        assert_eq!(calls.0.get(), 12);
    });
}

/// - given: pauses of an hour
/// - when: one run is allowed
/// - then: no pause before it and none after it
#[test]
fn schedule_06_pauses_between_runs() {
    each_run(|| {
        let long = [
            Schedule::every(HOUR),
            Schedule::exponential(HOUR),
            Schedule::fibonacci(HOUR),
            // The second pause would take an hour.
            Schedule::exponential(ms(1)).base(3_600_000),
        ];
        for (schedule, runs) in long.into_iter().zip([1, 1, 1, 2]) {
            let start = now();
            let calls = Calls::default();
            assert_eq!(schedule.max_runs(runs).run(|| calls.next()), Ok(runs));
            assert!(since(start) < HOUR / 100);
        }
        let until = [Schedule::until_ok(HOUR), Schedule::until_err(HOUR)];
        for (schedule, result) in until.into_iter().zip([Ok(1), Err(2)]) {
            assert_eq!(schedule.run(|| result), Ok(result));
        }
    });
}

/// - given: runs that take time
/// - when: the schedule is run
/// - then: each pause begins at the end of a run
#[test]
fn schedule_07_from_end_to_beginning() {
    run_on(1, || {
        let times = RefCell::new(Vec::new());
        let runs = Schedule::fibonacci(ms(1)).max_runs(4).run(|| {
            let begun = now();
            ecru::sleep(ms(2)).unwrap();
            times.borrow_mut().push((begun, now()));
        });
        runs.unwrap();
        let times = times.into_inner();
        assert_eq!(times.len(), 4);
        for (pair, pause) in times.windows(2).zip([1, 1, 2]) {
            assert!(pair[1].0 - pair[0].1 >= ms(pause), "{pair:?}");
        }
    });
}

/// - given: runs that return different values
/// - when: the schedule is run
/// - then: it returns the last value; the others are dropped before the pause that follows them
#[test]
fn schedule_08_last_result() {
    run_on(1, || {
        let (drops, calls) = (AtomicUsize::new(0), Calls::default());
        let last = Schedule::every(ms(1)).max_runs(3).run(|| {
            // The earlier values have been dropped.
            let n = calls.next();
            assert_eq!(drops.load(SeqCst), n as usize - 1);
            (n, Counted(&drops))
        });
        assert_eq!(last.unwrap().0, 3);
        // They are dropped before the pause, not only before the next run.
        let held = ecru::cancel_scope(|c| {
            drops.store(0, SeqCst);
            Schedule::every(HOUR).run(|| {
                c.cancel();
                Counted(&drops)
            })
        });
        assert!(held.is_err());
        assert_eq!(drops.load(SeqCst), 1);
    });
}

/// - given: `every`, `exponential`, `fibonacci` over a closure that returns `Ok` and `Err`
/// - when: they are run
/// - then: neither result ends them
#[test]
fn schedule_09_any_result() {
    for result in [Ok(1), Err(2)] {
        for schedule in all_kinds() {
            let calls = Calls::default();
            let run = schedule.max_runs(4).run(|| {
                calls.next();
                result
            });
            assert_eq!((run, calls.0.get()), (Ok(result), 4));
        }
    }
}

/// - given: a run that panics
/// - when: the schedule is run
/// - then: the panic goes to the caller, and there is no further run
#[test]
fn schedule_10_panic() {
    each_run(|| {
        let calls = Calls::default();
        let payload = payload_of(|| {
            Schedule::every(ms(1)).run(|| {
                if calls.next() == 2 {
                    quiet_panic("the second run");
                }
            })
        });
        assert_eq!((text_of(&*payload), calls.0.get()), ("the second run", 2));
    });
}

/// - given: runs that fail, then succeed
/// - when: `until_ok` is called
/// - then: it ends with the first `Ok` and returns it
#[test]
fn schedule_11_until_ok() {
    each_run(|| {
        let calls = Calls::default();
        let ended = Schedule::until_ok(ms(1)).run(|| match calls.next() {
            4 => Ok("four"),
            n => Err(n),
        });
        assert_eq!((ended, calls.0.get()), (Ok(Ok("four")), 4));
    });
}

/// - given: runs that succeed, then fail
/// - when: `until_err` is called
/// - then: it ends with the first `Err` and returns it
#[test]
fn schedule_12_until_err() {
    each_run(|| {
        let calls = Calls::default();
        let ended = Schedule::until_err(ms(1)).run(|| match calls.next() {
            4 => Err("four"),
            n => Ok(n),
        });
        assert_eq!((ended, calls.0.get()), (Ok(Err("four")), 4));
    });
}

/// - given: `until_ok`, `until_err` with `max_runs(n)`, for odd and even n
/// - when: no run ends it
/// - then: n runs, and the last result
#[test]
fn schedule_13_until_counts_each_run() {
    for n in 1..8 {
        let until: [fn(Duration) -> Until; 2] = [Schedule::until_ok, Schedule::until_err];
        for (until, fails) in until.into_iter().zip([true, false]) {
            let calls = Calls::default();
            let ended = until(NONE).max_runs(n).run(|| {
                let call = calls.next();
                if fails { Err(call) } else { Ok(call) }
            });
            assert_eq!(ended, Ok(if fails { Err(n) } else { Ok(n) }));
            assert_eq!(calls.0.get(), n);
        }
    }
}

/// - given: `until_ok(Duration::ZERO)`, or a retry without delay, that waits for a sibling on its
///   worker
/// - when: it is run
/// - then: the sibling gets its turn
#[test]
fn schedule_14_no_pause_is_a_turn() {
    run_on(1, || {
        for retry in [false, true] {
            let there = &AtomicBool::new(false);
            ecru::scope(|s| {
                let try_it = || if there.load(SeqCst) { Ok(()) } else { Err(Failure::Number(0)) };
                let waiting = s.spawn_local(move || {
                    if retry {
                        Retry::new().until_ok(try_it).unwrap();
                    } else {
                        Schedule::until_ok(NONE).run(try_it).unwrap().unwrap();
                    }
                });
                s.spawn_local(|| there.store(true, SeqCst));
                waiting.join().unwrap();
            });
        }
    });
}

/// - given: a schedule in its pause
/// - when: its task is cancelled
/// - then: `Err(Cancelled)` at once
#[test]
fn schedule_15_cancelled_pause() {
    each_run(|| {
        let start = now();
        let calls = AtomicUsize::new(0);
        let call = || {
            calls.fetch_add(1, SeqCst);
        };
        ecru::scope(|s| {
            let children = [
                s.spawn(|| Schedule::every(HOUR).run(call)),
                s.spawn(|| Schedule::exponential(HOUR).run(call)),
                s.spawn(|| Schedule::fibonacci(Duration::MAX).run(call)),
                s.spawn(|| {
                    let failing = || {
                        call();
                        Err::<(), _>(())
                    };
                    Schedule::until_ok(HOUR).run(failing).map(drop)
                }),
            ];
            crate::support::until(|| calls.load(SeqCst) == children.len());
            for child in children {
                child.cancel();
                assert_eq!(child.join().unwrap().unwrap_err().reason(), CancelReason::Explicit);
            }
        });
        assert_eq!(calls.load(SeqCst), 4);
        assert!(since(start) < HOUR / 100);
    });
}

/// - given: a cancelled task
/// - when: it runs a schedule
/// - then: one run, then `Err(Cancelled)`; if only one run was allowed, its result
#[test]
fn schedule_16_cancelled_before() {
    each_run(|| {
        ecru::cancel_scope(|c| {
            c.cancel();
            let calls = Calls::default();
            assert!(Schedule::every(ms(1)).max_runs(5).run(|| calls.next()).is_err());
            assert_eq!(calls.0.get(), 1);
            assert_eq!(Schedule::every(ms(1)).max_runs(1).run(|| calls.next()), Ok(2));
        });
    });
}

/// - given: a plain thread
/// - when: it runs schedules and retries
/// - then: they work as in a task; a time limit around them ends a pause
#[test]
fn schedule_17_thread() {
    let calls = Calls::default();
    let start = now();
    assert_eq!(Schedule::every(ms(1)).max_runs(4).run(|| calls.next()), Ok(4));
    assert!(since(start) >= ms(3));
    let limit = ecru::timeout(ms(2), || Schedule::every(HOUR).run(|| ()));
    assert!(limit.is_err());
    let limit = ecru::timeout(ms(2), || {
        let hourly = Retry::new().delay(Delay::Constant(HOUR));
        assert_eq!(
            hourly.until_ok(|| Err::<(), _>(Failure::Number(1))),
            Err(Failure::Cancelled(CancelReason::Deadline))
        );
    });
    assert!(limit.is_err());
    assert!(since(start) < HOUR / 100);
}

/// - given: a schedule with full jitter
/// - when: it is run
/// - then: each pause is drawn separately: one of an hour stays long, and some of a millisecond are
///   shorter
#[test]
fn schedule_19_jittered_run() {
    // The jitter makes a pause this short only with a probability of 1 in 720,000.
    let schedule = Schedule::every(HOUR).jitter(Jitter::Full).max_runs(2);
    assert_eq!(schedule.pauses().collect::<Vec<_>>(), [HOUR]);
    run_on(1, || {
        let in_time = ecru::timeout(ms(5), || schedule.run(|| ()));
        assert!(in_time.is_err());
        // Of pauses of 5 ms, some are shorter.
        let gaps = RefCell::new(Vec::new());
        let last = Cell::new(None);
        let short = Schedule::until_err(ms(5)).jitter(Jitter::Full).max_runs(1_000);
        let record = || {
            if let Some(last) = last.replace(Some(now())) {
                gaps.borrow_mut().push(now() - last);
            }
            // A busy machine makes some longer.
            if gaps.borrow().iter().any(|gap| *gap < ms(5)) { Err(()) } else { Ok(()) }
        };
        assert!(short.run(record).unwrap().is_err(), "{:?}", gaps.borrow());
    });
}

/// - given: a schedule that has been run
/// - when: it is run again
/// - then: it acts as the first time, from the first pause
#[test]
fn schedule_22_again() {
    let schedule = Schedule::exponential(ms(1)).max_runs(3);
    for _ in 0..2 {
        let (start, calls) = (now(), Calls::default());
        assert_eq!(schedule.run(|| calls.next()), Ok(3));
        assert!(since(start) >= ms(3));
        assert_eq!(first(9, &schedule), [1, 2]);
    }
}
