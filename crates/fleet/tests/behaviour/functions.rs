//! Functions over a fleet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ecru::schedule::Delay;
use ecru_fleet::{CallError, Function, JobError, Wire};

use crate::broker::each;

const SOON: Duration = Duration::from_millis(10);

/// Serves the function while `body` runs.
fn served<A: Wire, R: Wire>(function: &Function<'_, A, R>, window: usize, body: impl FnOnce()) {
    ecru::scope(|s| {
        s.spawn_daemon(|| function.serve(window).unwrap());
        body();
    });
}

/// - given: a function that is served in two places
/// - when: it is called many times at once
/// - then: each call gets its own result
#[test]
fn fleet_60_calls() {
    each(|_, fleet| {
        let double = fleet.function("double", |n: u32, run: &ecru_fleet::Run| {
            assert_eq!(run.attempt(), 1);
            Ok(2 * n)
        });
        let double = double.open()?;
        served(&double, 4, || {
            served(&double, 4, || {
                let results = ecru::par::map(0..20, |n| double.call(n).unwrap());
                assert_eq!(results, (0..20).map(|n| 2 * n).collect::<Vec<_>>());
            });
        });
        Ok(())
    });
}

/// - given: a function, and a task that is cancelled
/// - when: the task serves the function
/// - then: serving has not begun, and returns `Ok`, as after it has begun
#[test]
fn fleet_71_cancelled_before_it_serves() {
    each(|_, fleet| {
        let double = fleet.function("double", |n: u32, _: &ecru_fleet::Run| Ok(2 * n)).open()?;
        ecru::cancel_scope(|c| {
            c.cancel();
            double.serve(4)
        })
    });
}

/// - given: functions that fail, with `Retry`, `RetryAfter` and by a panic, and then succeed
/// - when: they are called
/// - then: they run again after a pause, and the callers get the results
#[test]
fn fleet_61_retries() {
    each(|_, fleet| {
        let begun = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&begun);
        let third_time = fleet.function("third_time", move |how: String, run: &ecru_fleet::Run| {
            counter.fetch_add(1, Ordering::Relaxed);
            if run.attempt() < 3 {
                return match how.as_str() {
                    "retry" => Err("x".parse::<u32>().unwrap_err().into()),
                    "later" => Err(JobError::RetryAfter(2 * SOON, "later".into())),
                    _ => std::panic::resume_unwind(Box::new("oh")),
                };
            }
            Ok(run.attempt())
        });
        let third_time = third_time.retry(Delay::Constant(SOON)).open()?;
        served(&third_time, 4, || {
            for how in ["retry", "later", "panic"] {
                assert_eq!(third_time.call(how.into()).unwrap(), 3);
            }
        });
        assert_eq!(begun.load(Ordering::Relaxed), 9);
        Ok(())
    });
}

/// - given: functions that fail for good: by `Fatal`, in each of two attempts, or with a result
///   that is too large
/// - when: they are called
/// - then: the callers get the texts of the last errors, and the number of attempts
#[test]
fn fleet_62_failures() {
    each(|_, fleet| {
        let fails =
            fleet.function("fails", |how: String, _: &ecru_fleet::Run| match how.as_str() {
                "fatal" => Err(JobError::Fatal("no such thing".into())),
                "large" => Ok("x".repeat(1 << 20)),
                "panic" => std::panic::resume_unwind(Box::new("oh")),
                _ => Err(JobError::Retry("not now".into())),
            });
        let fails = fails.attempts(2).retry(Delay::Constant(SOON)).open()?;
        served(&fails, 4, || {
            for (how, text, count) in [
                ("fatal", "no such thing", 1),
                ("large", "store it elsewhere", 1),
                ("retry", "not now", 2),
                ("panic", "the function panicked: oh", 2),
            ] {
                match fails.call(how.into()) {
                    Err(CallError::Failed { reason, attempts }) => {
                        assert!(reason.contains(text), "{reason}");
                        assert_eq!(attempts, count);
                    }
                    other => panic!("{other:?}"),
                }
            }
        });
        Ok(())
    });
}

/// - given: a slow function
/// - when: it is called with one key by many callers at once, and later again
/// - then: it has run once, and all have its result
#[test]
fn fleet_63_single_flight() {
    each(|_, fleet| {
        let runs = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&runs);
        let slow = fleet.function("slow", move |n: u32, _: &ecru_fleet::Run| {
            counter.fetch_add(1, Ordering::Relaxed);
            ecru::sleep(SOON)?;
            Ok(n + 1)
        });
        let slow = slow.open()?;
        served(&slow, 4, || {
            let results = ecru::par::map(0..10, |_| slow.call_keyed("seven", 7).unwrap());
            assert_eq!(results, [8; 10]);
            assert_eq!(slow.call_keyed("seven", 7).unwrap(), 8);
            assert_eq!(runs.load(Ordering::Relaxed), 1);
            assert_eq!(slow.call_keyed("eight", 8).unwrap(), 9);
        });
        assert_eq!(runs.load(Ordering::Relaxed), 2);
        Ok(())
    });
}

/// - given: a function that fails for good the first time
/// - when: it is called twice with one key
/// - then: the first caller gets the failure, and the second one a result
#[test]
fn fleet_64_failures_are_not_cached() {
    each(|_, fleet| {
        let runs = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&runs);
        let second_time = fleet.function("second_time", move |n: u32, _: &ecru_fleet::Run| {
            match counter.fetch_add(1, Ordering::Relaxed) {
                0 => Err(JobError::Fatal("the first time".into())),
                _ => Ok(n),
            }
        });
        let second_time = second_time.open()?;
        served(&second_time, 4, || {
            assert!(second_time.call_keyed("k", 7).is_err());
            // The failed job may not be settled yet.
            let again = std::iter::repeat_with(|| second_time.call_keyed("k", 7));
            assert_eq!(again.take(20).find_map(Result::ok), Some(7));
        });
        Ok(())
    });
}

/// - given: more items than are sent ahead, and results that come in another order
/// - when: a function is mapped over them
/// - then: the iterator has the results in the order of the items
#[test]
fn fleet_65_map_in_order() {
    each(|_, fleet| {
        let jitter = fleet.function("jitter", |n: u64, _: &ecru_fleet::Run| {
            ecru::sleep(Duration::from_millis((n * 7) % 5))?;
            Ok(n * n)
        });
        let jitter = jitter.open()?;
        served(&jitter, 8, || {
            let squares: Result<Vec<u64>, _> = jitter.map("all", 0..30).unwrap().collect();
            assert_eq!(squares.unwrap(), (0..30).map(|n| n * n).collect::<Vec<_>>());
            let none: Vec<_> = jitter.map("none", 0..0).unwrap().collect();
            assert!(none.is_empty());
        });
        Ok(())
    });
}

/// - given: a map of which some results were taken
/// - when: it is dropped, and the items are mapped again under the name of the run
/// - then: all results are there, and each index was computed once
#[test]
fn fleet_66_map_goes_on() {
    each(|_, fleet| {
        let runs = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&runs);
        let count = fleet.function("count", move |n: u32, _: &ecru_fleet::Run| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok(n + 1)
        });
        let count = count.open()?;
        served(&count, 2, || {
            let first: Vec<_> = count.map("night", 0..20).unwrap().take(5).collect();
            assert_eq!(first.len(), 5);
            let all: Result<Vec<u32>, _> = count.map("night", 0..20).unwrap().collect();
            assert_eq!(all.unwrap(), (1..=20).collect::<Vec<_>>());
        });
        assert_eq!(runs.load(Ordering::Relaxed), 20);
        Ok(())
    });
}

/// - given: items of which one takes longest, one fails, and one is too large
/// - when: a function is mapped over them, and the results are received by completion
/// - then: each index comes once, with its result or error, the longest one last
#[test]
fn fleet_67_map_by_completion() {
    each(|_, fleet| {
        let others = Arc::new(AtomicU32::new(0));
        let length = fleet.function("length", move |text: String, _: &ecru_fleet::Run| {
            if text == "slow" {
                wait_for(&others, 3);
                ecru::sleep(100 * SOON)?;
            } else {
                others.fetch_add(1, Ordering::Relaxed);
            }
            if text == "bad" { Err(JobError::Fatal("bad".into())) } else { Ok(text.len()) }
        });
        let length = length.open()?;
        let items = ["slow".to_owned(), "a".into(), "bad".into(), "x".repeat(1 << 20), "b".into()];
        served(&length, 4, || {
            let results = length.map("texts", items).unwrap().results();
            let mut seen: Vec<_> = results.iter().collect();
            assert_eq!(seen.last().unwrap().0, 0);
            seen.sort_by_key(|(index, _)| *index);
            let shown = |(index, result): &(usize, Result<usize, CallError>)| {
                format!("{index} {}", result.as_ref().map_or("failed".into(), usize::to_string))
            };
            let shown: Vec<_> = seen.iter().map(shown).collect();
            assert_eq!(shown, ["0 4", "1 1", "2 failed", "3 failed", "4 1"]);
        });
        Ok(())
    });
}

/// - given: a function whose queue has a capacity of two
/// - when: it is mapped over more items
/// - then: sending waits, and all results are there
#[test]
fn fleet_68_map_over_a_small_queue() {
    each(|_, fleet| {
        let same = fleet.function("same", |n: u32, _: &ecru_fleet::Run| Ok(n));
        let same = same.capacity(2).open()?;
        served(&same, 2, || {
            let all: Result<Vec<u32>, _> = same.map("all", 0..10).unwrap().collect();
            assert_eq!(all.unwrap(), (0..10).collect::<Vec<_>>());
        });
        assert!(matches!(fill(&same), CallError::Full));
        Ok(())
    });
}

/// Calls the function until its queue is full.
fn fill(function: &Function<'_, u32, u32>) -> CallError {
    ecru::scope(|s| {
        let full = (0..3).map(|n| s.spawn(move || function.call(n).unwrap_err()));
        let full: Vec<_> = full.collect();
        let error = loop {
            let ended = full.iter().find(|handle| handle.is_finished());
            if let Some(handle) = ended {
                break handle.join().unwrap();
            }
            ecru::sleep(SOON).unwrap();
        };
        s.cancel();
        error
    })
}

/// Waits until a counter has this value.
fn wait_for(counter: &AtomicU32, value: u32) {
    while counter.load(Ordering::Relaxed) < value {
        ecru::sleep(SOON).unwrap();
    }
}

/// - given: a served function with running calls and waiting ones
/// - when: `serve` is cancelled
/// - then: it takes no more calls, the running ones end and have their results, and the others are
///   left for another place
#[test]
fn fleet_69_drain() {
    each(|_, fleet| {
        let counters = [(); 3].map(|()| Arc::new(AtomicU32::new(0)));
        let [started, open, finished] = counters.clone();
        let slow = fleet.function("slow", move |n: u32, _: &ecru_fleet::Run| {
            started.fetch_add(1, Ordering::Relaxed);
            wait_for(&open, 1);
            finished.fetch_add(1, Ordering::Relaxed);
            Ok(n)
        });
        let [started, open, finished] = counters;
        let slow = slow.open()?;
        ecru::scope(|s| {
            let first = s.spawn(|| slow.serve(2));
            let calls = s.spawn(|| ecru::par::map(0..5, |n| slow.call(n).unwrap()));
            wait_for(&started, 2);
            first.cancel();
            open.store(1, Ordering::Relaxed);
            first.join().unwrap().unwrap();
            assert_eq!(finished.load(Ordering::Relaxed), 2);
            s.spawn_daemon(|| slow.serve(5).unwrap());
            assert_eq!(calls.join().unwrap(), [0, 1, 2, 3, 4]);
        });
        assert_eq!(finished.load(Ordering::Relaxed), 5);
        Ok(())
    });
}

/// - given: a call of a function that is not served
/// - when: its caller is cancelled
/// - then: `Cancelled`, and the call is no longer queued
#[test]
fn fleet_70_a_cancelled_call() {
    each(|_, fleet| {
        let runs = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&runs);
        let count = fleet.function("count", move |n: u32, _: &ecru_fleet::Run| {
            counter.fetch_add(1, Ordering::Relaxed);
            Ok(n)
        });
        let count = count.capacity(1).open()?;
        let wait_until = |queued| {
            while count.stats().unwrap().queued != queued {
                ecru::sleep(SOON).unwrap();
            }
        };
        ecru::scope(|s| {
            let call = s.spawn(|| count.call(7));
            wait_until(1);
            call.cancel();
            let called = call.join().unwrap();
            assert!(called.is_err(), "{called:?}");
        });
        wait_until(0);
        served(&count, 1, || assert_eq!(count.call(8).unwrap(), 8));
        assert_eq!(runs.load(Ordering::Relaxed), 1);
        Ok(())
    });
}
