//! Cancelled waits take nothing; shields and time limits around them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use super::Letters;
use crate::support::{HOUR, begin, everywhere, ms, now, panic_text, run_on, settle, since};
use ecru::channel::{self, RecvError, TryRecvError};
use ecru::source::{self};
use ecru::{CancelReason, Source};

/// - given: a cancelled task, and items that are there
/// - when: it waits
/// - then: `Cancelled` at once, with its reason, before any source is looked at; `try_take` is no
///   cancellation point
#[test]
fn source_06_a_cancelled_wait_takes_nothing() {
    for workers in [1, 2] {
        run_on(workers, || {
            let letters = Letters::default();
            letters.post(1);
            let (sender, receiver) = channel::unbounded();
            sender.send(2).unwrap();
            ecru::cancel_scope(|scope| {
                scope.cancel();
                let before = letters.looks.load(SeqCst);
                assert_eq!(letters.wait().unwrap_err().reason(), CancelReason::Explicit);
                assert_eq!(letters.looks.load(SeqCst), before, "it has not even looked");
                assert!((&receiver).map(|_| panic!("taken")).wait().is_err());
                assert_eq!(receiver.recv(), Err(RecvError::Cancelled));
                // A call that never waits is no cancellation point.
                assert_eq!(receiver.try_take(), Some(Ok(2)));
            });
            assert_eq!(letters.wait(), Ok(1));
        });
    }
}

/// - given: waits of every kind
/// - when: their tasks are cancelled
/// - then: each ends with `Cancelled` and stays registered nowhere
#[test]
fn source_07_a_wait_in_progress_is_woken_by_a_cancellation() {
    for workers in [1, 2] {
        run_on(workers, || {
            let letters = Letters::default();
            let (_sender, receiver) = channel::bounded::<u32>(0);
            let (full, unread) = channel::bounded::<u32>(0);
            ecru::scope(|s| {
                let waits = [
                    begin(s, || letters.wait().is_err()),
                    begin(s, || receiver.wait().is_err()),
                    begin(s, || source::race([&receiver, &receiver]).wait().is_err()),
                    begin(s, || source::either(&letters, &receiver).wait().is_err()),
                    begin(s, || full.send(1).unwrap_err().is_cancelled()),
                ];
                ecru::sleep(ms(2)).unwrap();
                waits.iter().for_each(|task| task.cancel());
                assert!(waits.iter().all(|task| task.join().unwrap()));
            });
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty), "they have left no trace");
            assert_eq!(unread.try_recv(), Err(TryRecvError::Empty));
            letters.post(1);
            assert_eq!(letters.try_take(), Some(1));
        });
    }
}

/// - given: a wait that has been given its value, or a send whose value has been taken
/// - when: the task is cancelled before it continues
/// - then: the wait returns the value, and the send succeeds
#[test]
fn source_08_a_value_handed_over_wins_over_a_cancellation() {
    run_on(1, || {
        let (sender, receiver) = channel::bounded(0);
        ecru::scope(|s| {
            let plain = s.spawn_local(|| receiver.recv());
            settle();
            let racing = s.spawn_local(|| source::race([&receiver]).wait());
            settle();
            // On one worker nothing runs in between.
            sender.try_send(1).unwrap();
            sender.try_send(2).unwrap();
            plain.cancel();
            racing.cancel();
            assert_eq!(plain.join().unwrap(), Ok(1));
            assert_eq!(racing.join().unwrap(), Ok(Ok(2)));
            let sending = s.spawn_local(|| sender.send(3));
            settle();
            assert_eq!(receiver.try_recv(), Ok(3));
            sending.cancel();
            assert_eq!(sending.join().unwrap(), Ok(()));
        });
    });
}

/// - given: a value that is refused
/// - when: a time limit around the wait passes
/// - then: the wait ends, and the value is still there
#[test]
fn source_15_a_filter_that_never_agrees_waits_until_it_is_cancelled() {
    everywhere(|_| {
        let (sender, receiver) = channel::unbounded();
        sender.send(1).unwrap();
        let waited = ecru::timeout(ms(2), || (&receiver).filter(|_| false).wait().is_err());
        assert!(waited.is_err(), "{waited:?}");
        assert_eq!(receiver.recv(), Ok(1));
    });
}

/// - given: a `no_suspend` section
/// - when: it waits for a source, ready or not
/// - then: it panics; calls that never wait work
#[test]
fn source_29_a_wait_inside_no_suspend_panics() {
    everywhere(|_| {
        let text = panic_text(|| ecru::no_suspend(|| source::ready(1).wait()));
        assert!(text.contains("no_suspend"), "ready or not: {text}");
        let (sender, receiver) = channel::unbounded();
        ecru::no_suspend(|| {
            sender.try_send(1).unwrap();
            assert_eq!((&receiver).map(|n| n).try_take(), Some(Ok(1)));
        });
        for refused in [
            panic_text(|| ecru::no_suspend(|| sender.send(1))),
            panic_text(|| ecru::no_suspend(|| receiver.recv())),
            panic_text(|| ecru::no_suspend(|| receiver.recv_timeout(ms(1)))),
        ] {
            assert!(refused.contains("no_suspend"), "{refused}");
        }
        assert!(receiver.is_empty());
    });
}

/// - given: a receive in a shield
/// - when: its task is cancelled, values come
/// - then: it receives one; the request stays pending for the next wait outside
#[test]
fn source_30_in_a_shield_a_wait_is_deaf_and_takes_exactly_one() {
    for workers in [1, 2] {
        run_on(workers, || {
            let (sender, receiver) = channel::unbounded();
            let begun = AtomicBool::new(false);
            ecru::scope(|s| {
                let reader = s.spawn(|| {
                    begun.store(true, SeqCst);
                    let value = ecru::shield(|| receiver.recv());
                    (value, ecru::checkpoint().is_err(), receiver.recv())
                });
                crate::support::until(|| begun.load(SeqCst));
                settle();
                reader.cancel();
                settle();
                sender.send(1).unwrap();
                sender.send(2).unwrap();
                let (value, cancelled, next) = reader.join().unwrap();
                assert_eq!((value, next), (Ok(1), Err(RecvError::Cancelled)));
                assert!(cancelled, "the request is kept");
            });
            assert_eq!(receiver.len(), 1);
        });
    }
}

/// - given: waits of every kind, in tasks and on threads
/// - when: the limit passes
/// - then: they end, never early, and stay registered nowhere
#[test]
fn source_31_a_time_limit_around_a_wait() {
    everywhere(|_| {
        let (sender, receiver) = channel::bounded::<u8>(0);
        let start = now();
        assert!(ecru::timeout(ms(3), || receiver.recv()).is_err());
        assert!(ecru::timeout(ms(3), || sender.send(1)).is_err());
        assert!(ecru::timeout(ms(3), || source::race([&receiver, &receiver]).wait()).is_err());
        assert!(ecru::timeout(ms(3), || Letters::default().wait()).is_err());
        assert!((ms(12)..HOUR / 100).contains(&since(start)), "never early");
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
    });
}

/// - given: a cancelled task that ignores every error
/// - when: it waits in a loop
/// - then: other tasks run
#[test]
fn source_35_a_cancelled_wait_lets_others_run() {
    run_on(1, || {
        let (_sender, receiver) = channel::bounded::<u8>(0);
        let others = AtomicUsize::new(0);
        ecru::scope(|s| {
            s.spawn_local(|| {
                for _ in 0..20 {
                    others.fetch_add(1, SeqCst);
                    let _ = ecru::yield_now();
                }
            });
            ecru::cancel_scope(|scope| {
                scope.cancel();
                // A loop that ignores every error.
                while others.load(SeqCst) < 20 {
                    let _ = receiver.recv();
                }
                others.store(0, SeqCst);
                s.spawn_local(|| others.store(100, SeqCst));
                while others.load(SeqCst) < 100 {
                    let _ = source::race([&receiver]).wait();
                }
            });
        });
    });
}
