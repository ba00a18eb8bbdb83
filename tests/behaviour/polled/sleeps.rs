//! Futures of times: `time::Sleep`.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Mutex;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use ecru::JoinError;
use ecru::time::{Sleep, now};

use crate::support::{HOUR, Watchdog, each_run, ms, run_on, settle};

/// Polls once, and returns the future. It is ready only if the poll came too late.
async fn polled_once(due: Instant) -> Sleep {
    let mut sleep = Sleep::until(due);
    poll_fn(|cx| {
        let is_ready = Pin::new(&mut sleep).poll(cx).is_ready();
        assert!(!is_ready || now() >= due);
        Poll::Ready(())
    })
    .await;
    sleep
}

/// - given: tasks of `spawn_future`, and one of `block_on`, that await a `Sleep` of different times
/// - when: the times come
/// - then: each ends at its time or later
#[test]
fn polled_32_sleeps() {
    each_run(|| {
        let ended = Mutex::new(Vec::new());
        let ended = &ended;
        ecru::scope(|s| {
            let begun = now();
            for length in [9, 3, 6, 0] {
                s.spawn_future(async move {
                    Sleep::until(begun + ms(length)).await;
                    assert!(now() >= begun + ms(length));
                    ended.lock().unwrap().push(length);
                });
            }
            ecru::block_on(Sleep::until(begun + ms(12))).unwrap();
            assert!(now() >= begun + ms(12));
        });
        let mut all = ended.lock().unwrap().clone();
        all.sort_unstable();
        assert_eq!(all, [0, 3, 6, 9]);
    });
}

/// - given: sleeps of an hour, and one whose time is not representable
/// - when: their tasks are cancelled, or the futures dropped after a poll, or never polled
/// - then: the scope ends at once
#[test]
fn polled_33_dropped_sleeps() {
    each_run(|| {
        ecru::scope(|s| {
            let tasks = [HOUR, Duration::MAX].map(|length| s.spawn_future(Sleep::new(length)));
            s.spawn_future(async { drop(polled_once(now() + HOUR).await) });
            drop(Sleep::new(HOUR));
            settle();
            for task in tasks {
                task.cancel();
                assert!(matches!(task.join(), Err(JoinError::Cancelled)));
            }
        });
    });
}

/// - given: a run whose only task awaits a `Sleep` without a stack
/// - when: nothing else happens
/// - then: it is no deadlock, and the sleep ends
#[test]
fn polled_34_lone_sleep() {
    each_run(|| {
        ecru::scope(|s| s.spawn_future(Sleep::new(ms(30))).join().unwrap());
    });
}

/// - given: sleeps that a worker has polled
/// - when: the run ends, and threads await or drop them
/// - then: they are ready at their times, and not earlier
#[test]
fn polled_35_sleep_outlives_its_run() {
    let _watchdog = Watchdog::new();
    for workers in [1, 2] {
        let due = now() + ms(30);
        let sleeps = run_on(workers, || {
            ecru::scope(|s| {
                let polled = [(); 3].map(|()| s.spawn_future(polled_once(due)));
                polled.map(|task| task.join().unwrap())
            })
        });
        let [awaited, dropped, later] = sleeps;
        drop(dropped);
        thread::spawn(move || {
            ecru::block_on(awaited).unwrap();
            assert!(now() >= due);
        })
        .join()
        .unwrap();
        run_on(workers, || ecru::block_on(later).unwrap());
        assert!(now() >= due);
    }
}

/// - given: a sleep that a worker has polled
/// - when: another thread drops it, or awaits it, while the worker goes on
/// - then: neither side is disturbed
#[test]
fn polled_36_sleep_moves_to_a_thread() {
    let _watchdog = Watchdog::new();
    run_on(1, || {
        ecru::scope(|s| {
            let due = now() + ms(10);
            let sleeps = [(); 2].map(|()| s.spawn_future(polled_once(due)));
            let [awaited, dropped] = sleeps.map(|task| task.join().unwrap());
            ecru::unblock(|| {
                thread::scope(|threads| {
                    threads.spawn(|| drop(dropped));
                    threads.spawn(|| ecru::block_on(awaited).unwrap());
                });
            });
            assert!(now() >= due);
            s.spawn_future(Sleep::new(ms(1)));
        });
    });
}

/// - given: a thread that runs no tasks
/// - when: it awaits a `Sleep`
/// - then: it waits that long
#[test]
fn polled_37_sleep_on_a_thread() {
    let _watchdog = Watchdog::new();
    let begun = now();
    ecru::block_on(Sleep::new(ms(5))).unwrap();
    assert!(now() >= begun + ms(5));
}
