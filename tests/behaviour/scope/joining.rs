//! Joins: when they wait, what they take, and handles that are elsewhere or forgotten.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;

use ecru::{CancelReason, JoinError};

use crate::support::{Counted, HOUR, each_run, forever, ms, now, run_on, settle, since, until};

/// - given: a started child that was cancelled and nevertheless returns a value
/// - when: it is joined
/// - then: `join` returns the value
#[test]
fn scope_13_join_after_cancel_gives_the_value() {
    each_run(|| {
        let started = AtomicBool::new(false);
        ecru::scope(|s| {
            let child = s.spawn(|| {
                started.store(true, SeqCst);
                forever().reason()
            });
            until(|| started.load(SeqCst));
            child.cancel();
            assert_eq!(child.join().unwrap(), CancelReason::Explicit);
        });
    });
}

/// - given: a child cancelled before it first ran
/// - when: it is joined
/// - then: `JoinError::Cancelled`, and its body never began
#[test]
fn scope_14_join_of_an_unstarted_child() {
    run_on(1, || {
        ecru::scope(|s| {
            let child = s.spawn(|| unreachable!());
            child.cancel();
            assert!(matches!(child.join(), Err::<(), _>(JoinError::Cancelled)));
        });
    });
}

/// - given: a joined handle
/// - when: it is joined again
/// - then: `JoinError::Taken`
#[test]
fn scope_15_join_takes_once() {
    each_run(|| {
        ecru::scope(|s| {
            let child = s.spawn(|| String::from("value"));
            assert_eq!(child.join().unwrap(), "value");
            assert!(matches!(child.join(), Err(JoinError::Taken)));
            assert!(matches!(child.join_timeout(HOUR), Some(Err(JoinError::Taken))));
        });
    });
}

/// - given: a task that waits in `join`
/// - when: it is cancelled
/// - then: it gets `CallerCancelled`, and another join of the handle returns the value
#[test]
fn scope_16_join_is_a_cancel_point() {
    each_run(|| {
        let (release, joining) = (AtomicBool::new(false), AtomicBool::new(false));
        ecru::scope(|s| {
            let slow = s.spawn(|| {
                until(|| release.load(SeqCst));
                5
            });
            ecru::scope(|inner| {
                let joiner = inner.spawn(|| {
                    joining.store(true, SeqCst);
                    slow.join()
                });
                until(|| joining.load(SeqCst));
                settle();
                joiner.cancel();
                assert!(matches!(joiner.join().unwrap(), Err(JoinError::CallerCancelled)));
            });
            release.store(true, SeqCst);
            assert_eq!(slow.join().unwrap(), 5);
        });
    });
}

/// - given: a cancelled task whose shielded child is still working
/// - when: it reaches the end of its scope
/// - then: it waits for the child
#[test]
fn scope_17_end_is_no_cancel_point() {
    each_run(|| {
        let (release, shielded) = (AtomicBool::new(false), AtomicBool::new(false));
        let child_ended = AtomicBool::new(false);
        ecru::scope(|s| {
            let task = s.spawn(|| {
                ecru::scope(|inner| {
                    inner.spawn(|| {
                        ecru::shield(|| {
                            shielded.store(true, SeqCst);
                            until(|| release.load(SeqCst));
                        });
                        child_ended.store(true, SeqCst);
                    });
                    until(|| shielded.load(SeqCst));
                });
                child_ended.load(SeqCst)
            });
            until(|| shielded.load(SeqCst));
            settle();
            task.cancel();
            settle();
            assert!(!task.is_finished());
            release.store(true, SeqCst);
            assert!(task.join().unwrap());
        });
    });
}

/// - given: a parked child
/// - when: `join_timeout` expires
/// - then: it returns `None`; after the child has ended it returns the value
#[test]
fn scope_18_join_timeout() {
    each_run(|| {
        let release = AtomicBool::new(false);
        ecru::scope(|s| {
            let child = s.spawn(|| {
                until(|| release.load(SeqCst));
                "value"
            });
            let before = now();
            assert!(child.join_timeout(ms(2)).is_none());
            assert!(since(before) >= ms(2));
            release.store(true, SeqCst);
            assert_eq!(child.join_timeout(HOUR).unwrap().unwrap(), "value");
        });
    });
}

/// - given: a parked child, and its shared handle
/// - when: `join_deadline` is called with a deadline that has passed, and with one to come
/// - then: it returns `None`, and the handle stays usable; after the child has ended it returns the
///   value, even if the deadline has passed
#[test]
fn scope_61_join_deadline() {
    each_run(|| {
        let release = AtomicBool::new(false);
        let past = now();
        ecru::scope(|s| {
            let wait = || {
                until(|| release.load(SeqCst));
                "value"
            };
            let (child, shared) = (s.spawn(wait), s.spawn(wait).shared());
            assert!(child.join_deadline(past).is_none());
            assert!(shared.join_deadline(past).is_none());
            let soon = now() + ms(2);
            assert!(child.join_deadline(soon).is_none());
            assert!(shared.join_deadline(soon).is_none());
            assert!(now() >= soon);
            release.store(true, SeqCst);
            let late = now() + HOUR;
            assert_eq!(shared.join_deadline(late).unwrap().unwrap(), "value");
            assert_eq!(shared.join_deadline(past).unwrap().unwrap(), "value");
            until(|| child.is_finished());
            assert_eq!(child.join_deadline(past).unwrap().unwrap(), "value");
            ecru::cancel_scope(|c| {
                let child = s.spawn(|| ());
                c.cancel();
                let cancelled = child.join_deadline(late);
                assert!(matches!(cancelled, Some(Err(JoinError::CallerCancelled))));
            });
        });
    });
}

/// - given: a child
/// - when: it is parked, then ends
/// - then: `is_finished` is false, then true
#[test]
fn scope_19_is_finished() {
    each_run(|| {
        let (parked, release) = (AtomicBool::new(false), AtomicBool::new(false));
        ecru::scope(|s| {
            let child = s.spawn(|| {
                parked.store(true, SeqCst);
                until(|| release.load(SeqCst));
            });
            assert!(!child.is_finished());
            until(|| parked.load(SeqCst));
            assert!(!child.is_finished());
            release.store(true, SeqCst);
            until(|| child.is_finished());
            child.join().unwrap();
            assert!(child.is_finished());
        });
    });
}

/// - given: a handle given to `mem::forget`
/// - when: the body ends
/// - then: the scope waits for the child; the result is forgotten with the handle, and never
///   dropped
#[test]
#[expect(clippy::mem_forget, reason = "this test is about it")]
fn scope_22_forgotten_handle() {
    each_run(|| {
        let (ended, dropped) = (AtomicUsize::new(0), AtomicUsize::new(0));
        ecru::scope(|s| {
            for pause in [0, 1] {
                let (ended, dropped) = (&ended, &dropped);
                std::mem::forget(s.spawn(move || {
                    ecru::sleep(ms(pause)).unwrap();
                    ended.fetch_add(1, SeqCst);
                    Counted(dropped)
                }));
            }
        });
        assert_eq!((ended.load(SeqCst), dropped.load(SeqCst)), (2, 0));
    });
}

/// - given: a handle lent to a plain thread
/// - when: that thread joins
/// - then: it blocks until the child ends, and gets the value
#[test]
fn scope_23_handle_on_another_thread() {
    each_run(|| {
        let (release, thread_joins) = (AtomicBool::new(false), AtomicBool::new(false));
        ecru::scope(|s| {
            let child = s.spawn(|| {
                until(|| release.load(SeqCst));
                "value"
            });
            let value = thread::scope(|threads| {
                let joiner = threads.spawn(|| {
                    thread_joins.store(true, SeqCst);
                    child.join().unwrap()
                });
                until(|| thread_joins.load(SeqCst));
                ecru::sleep(ms(1)).unwrap();
                assert!(!joiner.is_finished());
                release.store(true, SeqCst);
                until(|| joiner.is_finished());
                joiner.join().unwrap()
            });
            assert_eq!(value, "value");
        });
    });
}

/// - given: results that borrow from outside the scope, and are not joined
/// - when: the scope ends
/// - then: they have been dropped before it returns
#[test]
fn scope_24_result_is_dropped_inside() {
    each_run(|| {
        let dropped = AtomicUsize::new(0);
        ecru::scope(|s| {
            // Handles are dropped before the task has started, while it runs, and after its end.
            drop(s.spawn(|| Counted(&dropped)));
            let parked = s.spawn(|| {
                ecru::sleep(ms(1)).unwrap();
                Counted(&dropped)
            });
            let ended = s.spawn(|| Counted(&dropped));
            until(|| ended.is_finished());
            drop(parked);
            drop(ended);
        });
        assert_eq!(dropped.load(SeqCst), 3);
    });
}
