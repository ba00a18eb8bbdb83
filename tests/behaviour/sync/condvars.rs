//! Waiting for a condition, with the lock released meanwhile.

use super::{Log, cancelled};
use crate::support::{each_run, ms, run_on, settle, until};
use ecru::sync::{Condvar, Mutex};
use std::thread;

/// - given: tasks that wait for a `Condvar`
/// - when: `notify_one` is called, then `notify_all`
/// - then: the first continues, then the others; each has the lock
#[test]
fn sync_15_condvar_in_order() {
    run_on(1, || {
        let (lock, news, log) = (Mutex::new(()), Condvar::new(), Log::default());
        ecru::scope(|s| {
            let (lock, news, log) = (&lock, &news, &log);
            for name in ["first", "second", "third"] {
                s.spawn_local(move || {
                    let mut guard = lock.lock();
                    news.wait(&mut guard).unwrap();
                    assert!(lock.try_lock().is_err());
                    log.note(name);
                });
            }
            settle();
            assert!(lock.try_lock().is_ok());
            news.notify_one();
            settle();
            log.assert(&["first"]);
            news.notify_all();
        });
        log.assert(&["first", "second", "third"]);
    });
    // The same between threads and tasks.
    let (turn, news) = (Mutex::new(0), Condvar::new());
    let take_turns = |own: i32| {
        let mut turn = turn.lock();
        for _ in 0..50 {
            news.wait_while(&mut turn, |turn| *turn % 3 != own).unwrap();
            *turn += 1;
            news.notify_all();
        }
    };
    thread::scope(|t| {
        t.spawn(|| take_turns(0));
        run_on(2, || {
            ecru::scope(|s| {
                s.spawn(|| take_turns(1));
                s.spawn(|| take_turns(2));
            });
        });
    });
    assert_eq!(turn.into_inner(), 150);
}

/// - given: a task that waits for a `Condvar`
/// - when: it is cancelled while another holds the lock
/// - then: it gets `Cancelled` once it has the lock again
#[test]
fn sync_16_condvar_cancelled() {
    each_run(|| {
        let (lock, news) = (Mutex::new(0), Condvar::new());
        ecru::scope(|s| {
            let task = s.spawn(|| {
                let mut value = lock.lock();
                *value = 1;
                let answer = news.wait(&mut value);
                assert_eq!(*value, 2, "only with the lock");
                *value = 3;
                answer
            });
            until(|| *lock.lock() == 1);
            let mut value = lock.lock();
            task.cancel();
            settle();
            assert!(!task.is_finished());
            *value = 2;
            drop(value);
            assert!(task.join().unwrap().is_err());
            assert_eq!(*lock.lock(), 3);
        });
        cancelled(|| {
            let mut value = lock.lock();
            assert!(news.wait(&mut value).is_err());
            assert!(lock.try_lock().is_err());
        });
    });
}

/// - given: a wait with a time limit
/// - when: it is not notified, or it is notified
/// - then: `timed_out` is true, or false
#[test]
fn sync_17_condvar_timeout() {
    let body = || {
        let (lock, news) = (Mutex::new(()), Condvar::new());
        let mut guard = lock.lock();
        assert!(news.wait_timeout(&mut guard, ms(1)).unwrap().timed_out());
        assert!(lock.try_lock().is_err());
        let elapsed = ecru::timeout(ms(1), || news.wait(&mut guard));
        assert!(elapsed.is_err());
        drop(guard);
        thread::scope(|t| {
            let mut guard = lock.lock();
            t.spawn(|| {
                drop(lock.lock());
                news.notify_one();
            });
            assert!(!news.wait_timeout(&mut guard, crate::support::HOUR).unwrap().timed_out());
        });
    };
    body();
    each_run(body);
}

/// - given: `wait_while`, `wait_timeout_while`
/// - when: the condition becomes false; is false already; stays true too long
/// - then: the wait returns; returns at once; reports the timeout
#[test]
fn sync_18_condvar_while() {
    each_run(|| {
        let (left, news) = (Mutex::new(3), Condvar::new());
        ecru::scope(|s| {
            s.spawn(|| {
                for _ in 0..3 {
                    *left.lock() -= 1;
                    news.notify_all();
                    settle();
                }
            });
            let mut guard = left.lock();
            news.wait_while(&mut guard, |left| *left != 0).unwrap();
            assert_eq!(*guard, 0);
        });
        cancelled(|| news.wait_while(&mut left.lock(), |_| false)).unwrap();
        let mut guard = left.lock();
        let over = |guard: &mut _, limit, holds: bool| {
            news.wait_timeout_while(guard, limit, |_| holds).unwrap().timed_out()
        };
        assert!(over(&mut guard, ms(1), true));
        assert!(!over(&mut guard, ms(0), false));
    });
}

/// - given: a task that has been notified and has not run yet
/// - when: it is cancelled
/// - then: its wait returns `Ok`, and the notification is not lost
#[test]
fn sync_19_notification_wins() {
    run_on(1, || {
        let (lock, news) = (Mutex::new(()), Condvar::new());
        ecru::scope(|s| {
            let wait = || {
                let answer = news.wait(&mut lock.lock());
                (answer, ecru::checkpoint().is_err())
            };
            let first = s.spawn(wait);
            settle();
            let second = s.spawn(wait);
            settle();
            news.notify_one();
            first.cancel();
            assert_eq!(first.join().unwrap(), (Ok(()), true));
            assert!(!second.is_finished());
            second.cancel();
            news.notify_one();
            assert!(second.join().unwrap().0.is_err());
        });
    });
}
