//! Rows of `doc/behaviour/start.md`.

use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use ecru::channel;
use ecru::{CancelReason, JoinError, Source, StartError, Started};

use crate::support::{
    Counted, OnDrop, each_run, forever, ms, panic_text, quiet_panic, run_on, until,
};

/// Returns whether `start` reported that the caller was cancelled.
fn is_caller_cancelled<T, U>(started: &Result<T, StartError<U>>) -> bool {
    matches!(started, Err(StartError::Join(JoinError::CallerCancelled)))
}

/// - given: a child that borrows, calls `ready` with a value and continues
/// - when: `s.start` is called
/// - then: it returns the value and the handle while the child is still at work; joining the handle
///   returns the child's result
#[test]
fn start_01_ready() {
    each_run(|| {
        let (text, release) = (String::from("ready"), AtomicBool::new(false));
        ecru::scope(|s| {
            let (value, task) = s
                .start(|started| {
                    started.ready(text.as_str());
                    until(|| release.load(SeqCst));
                    text.len()
                })
                .unwrap();
            assert_eq!(value, "ready");
            assert!(!task.is_finished());
            release.store(true, SeqCst);
            assert_eq!(task.join().unwrap(), 5);
            // The task becomes ready and ends at once.
            let (value, task) = s.start(|started| started.ready(1)).unwrap();
            assert_eq!((value, task.join().unwrap()), (1, ()));
        });
    });
}

/// - given: children that drop their `Started`, forget it, or return it
/// - when: they return without having called `ready`
/// - then: `StartError::Ended` with what they returned
#[test]
fn start_02_ended_first() {
    each_run(|| {
        ecru::scope(|s| {
            let dropped = s.start(|started: Started<u8>| {
                drop(started);
                ecru::yield_now().unwrap();
                "dropped"
            });
            assert!(matches!(dropped, Err(StartError::Ended("dropped"))));
            let forgotten = s.start(|started: Started<u8>| {
                let _ = ManuallyDrop::new(started);
                "forgotten"
            });
            assert!(matches!(forgotten, Err(StartError::Ended("forgotten"))));
            let Err(StartError::Ended(started)) = s.start(|started: Started<u8>| started) else {
                panic!("it was never ready");
            };
            started.ready(1);
            let error = s.start(|_: Started<u8>| ()).unwrap_err();
            assert_eq!(error.to_string(), "the task ended before it was ready");
        });
    });
}

/// - given: a child that panics before it is ready, and one after
/// - when: `s.start` is called
/// - then: `Join(Panicked)`, and the scope ends normally; in the second case the value and the
///   handle, and `join` returns `Panicked`
#[test]
fn start_03_panics_first() {
    each_run(|| {
        ecru::scope(|s| {
            let before = s.start(|_: Started<u8>| quiet_panic("before"));
            let Err(StartError::Join(JoinError::Panicked(payload))) = before else {
                panic!("{before:?}");
            };
            assert_eq!(payload.message(), Some("before"));
            let (value, task) = s
                .start(|started| {
                    started.ready(2);
                    quiet_panic("after")
                })
                .unwrap();
            let after: Result<(), _> = task.join();
            assert!(matches!((value, after), (2, Err(JoinError::Panicked(_)))));
        });
    });
}

/// - given: a child that sends its `Started` to a sibling, to a plain thread, or out of the scope
/// - when: they call `ready`
/// - then: `start` returns the value, if the child has not ended before; a value that comes later
///   is dropped
#[test]
fn start_04_sent_elsewhere() {
    each_run(|| {
        let (give, given) = channel::unbounded::<Started<&str>>();
        ecru::scope(|s| {
            s.spawn(|| given.recv().unwrap().ready("from a sibling"));
            let (value, task) = s
                .start(|started| {
                    give.send(started).unwrap();
                    forever().reason()
                })
                .unwrap();
            assert_eq!(value, "from a sibling");
            task.cancel();
            assert_eq!(task.join().unwrap(), CancelReason::Explicit);
            // The child waits for the thread, so it ends after `ready` was called.
            let (value, _) = s
                .start(|started| {
                    ecru::unblock(|| {
                        thread::scope(|t| {
                            t.spawn(move || started.ready("from a thread"));
                        });
                    });
                })
                .unwrap();
            assert_eq!(value, "from a thread");
        });
        // After the scope, the value of a late `ready` is dropped.
        let dropped = AtomicUsize::new(0);
        let kept = Mutex::new(None);
        ecru::scope(|s| {
            let ended = s.start(|started: Started<Counted<'_>>| {
                *kept.lock().unwrap() = Some(started);
            });
            assert!(matches!(ended, Err(StartError::Ended(()))));
        });
        let late = kept.lock().unwrap().take().unwrap();
        late.ready(Counted(&dropped));
        assert_eq!(dropped.load(SeqCst), 1);
    });
}

/// - given: a callback, a predicate, a destructor during a panic, and code under `no_suspend`
/// - when: they call `ready`
/// - then: `start` returns the value
#[test]
fn start_05_ready_never_waits() {
    each_run(|| {
        ecru::scope(|s| {
            let in_callback = s.start(|started| {
                let (tx, rx) = channel::unbounded::<u8>();
                let subscription = rx.on_ready(move |value| started.ready(value));
                tx.send(3).unwrap();
                drop(subscription);
            });
            assert_eq!(in_callback.unwrap().0, Ok(3));
            let in_predicate = s.start(|started| {
                let (tx, rx) = channel::unbounded::<u8>();
                let started = Mutex::new(Some(started));
                let picky = (&rx).filter(|n| {
                    if let Some(started) = started.lock().unwrap().take() {
                        started.ready(*n);
                    }
                    true
                });
                tx.send(4).unwrap();
                picky.wait().unwrap()
            });
            let (value, task) = in_predicate.unwrap();
            assert_eq!((value, task.join().unwrap()), (4, Ok(4)));
            let (value, task) = s
                .start(|started: Started<u8>| {
                    let unwound = catch_unwind(AssertUnwindSafe(|| {
                        let mut started = Some(started);
                        let _on_drop = OnDrop(|| started.take().unwrap().ready(5));
                        quiet_panic("in between")
                    }));
                    unwound.is_err()
                })
                .unwrap();
            assert_eq!((value, task.join().unwrap()), (5, true));
            let quiet = s.start(|started| ecru::no_suspend(|| started.ready(6)));
            assert_eq!(quiet.unwrap().0, 6);
            let taken = s.start(|started| {
                let (tx, rx) = channel::bounded::<u8>(1);
                ecru::select! {
                    send(tx, { started.ready(7); 8 }) -> sent => sent.unwrap(),
                }
                rx.recv()
            });
            let (value, task) = taken.unwrap();
            assert_eq!((value, task.join().unwrap()), (7, Ok(8)));
        });
    });
}

/// - given: a caller that waits in `start`
/// - when: it is cancelled
/// - then: the child is cancelled and awaited, then `start` returns `CallerCancelled`; what the
///   child returns, or reports meanwhile, has been dropped
#[test]
fn start_06_caller_cancelled() {
    each_run(|| {
        let (ended, dropped) = (AtomicBool::new(false), AtomicUsize::new(0));
        let (parked, both) = (AtomicBool::new(false), Counted(&dropped));
        ecru::scope(|s| {
            let (ended, dropped, parked) = (&ended, &dropped, &parked);
            let caller = s.spawn(move || {
                let started = s.start(move |started| {
                    let result = both;
                    parked.store(true, SeqCst);
                    assert_eq!(forever().reason(), CancelReason::Explicit);
                    // The caller has left, so the value is dropped.
                    started.ready(Counted(dropped));
                    assert_eq!(dropped.load(SeqCst), 1);
                    ecru::shield(|| ecru::sleep(ms(2))).unwrap();
                    ended.store(true, SeqCst);
                    result
                });
                assert!(ended.load(SeqCst), "the child was awaited");
                assert_eq!(dropped.load(SeqCst), 2);
                is_caller_cancelled(&started) && ecru::is_cancelled()
            });
            until(|| parked.load(SeqCst));
            caller.cancel();
            assert!(caller.join().unwrap());
        });
    });
}

/// - given: a caller that has been cancelled
/// - when: `s.start` is called
/// - then: `CallerCancelled`, and the closure is dropped unrun
#[test]
fn start_07_cancelled_before() {
    each_run(|| {
        let dropped = AtomicUsize::new(0);
        ecru::scope(|s| {
            ecru::cancel_scope(|c| {
                c.cancel();
                let counted = Counted(&dropped);
                let started = s.start(move |_: Started<u8>| {
                    let _counted = counted;
                    unreachable!()
                });
                let started: Result<_, StartError<()>> = started;
                assert!(is_caller_cancelled(&started));
                assert_eq!(dropped.load(SeqCst), 1);
                // Inside a shield the request has no effect.
                let (value, _) = ecru::shield(|| s.start(|started| started.ready(1))).unwrap();
                assert_eq!(value, 1);
            });
        });
    });
}

/// - given: `s.start` in a `timeout` around a child that is never ready
/// - when: the time is up
/// - then: the child is cancelled and awaited, and the `timeout` returns `Elapsed`
#[test]
fn start_08_time_limit() {
    each_run(|| {
        let ended = AtomicBool::new(false);
        // A busy machine may reach the limit before the child begins. Then a longer one follows.
        let mut limit = ms(2);
        while !ended.load(SeqCst) {
            start_below_a_limit(limit, &ended);
            limit *= 2;
        }
    });
}

fn start_below_a_limit(limit: Duration, ended: &AtomicBool) {
    ecru::scope(|s| {
        let limited = ecru::timeout(limit, || {
            let started = s.start(|_: Started<u8>| {
                // The reason is not the time limit, because the child belongs to a scope
                // outside the limit.
                let reason = forever().reason();
                ended.store(true, SeqCst);
                reason
            });
            assert!(is_caller_cancelled(&started));
        });
        assert!(limited.is_err());
        // The scope continues.
        assert_eq!(s.start(|started| started.ready(1)).unwrap().0, 1);
    });
}

/// - given: children that are parked, or have not begun, before they are ready
/// - when: `s.cancel()` is called
/// - then: the waits of the parked one fail: `Ended` if it then returns, the value if it then calls
///   `ready`; for the other, `start` returns `Join(Cancelled)`
///
/// The body that waits for the child is not cancelled.
#[test]
fn start_09_scope_cancelled() {
    each_run(|| {
        for ready_at_last in [false, true] {
            let parked = AtomicBool::new(false);
            ecru::scope(|s| {
                // The cancelling task is outside the scope.
                let other = ecru::scope(|outer| {
                    let _cancel = outer.spawn(|| {
                        until(|| parked.load(SeqCst));
                        s.cancel();
                    });
                    s.start(|started: Started<u8>| {
                        parked.store(true, SeqCst);
                        let reason = forever().reason();
                        if ready_at_last {
                            started.ready(1);
                        }
                        reason
                    })
                });
                match other {
                    Ok((value, task)) => {
                        assert!(ready_at_last);
                        assert_eq!((value, task.join().unwrap()), (1, CancelReason::Explicit));
                    }
                    Err(StartError::Ended(reason)) => {
                        assert!(!ready_at_last);
                        assert_eq!(reason, CancelReason::Explicit);
                    }
                    Err(other) => panic!("{other:?}"),
                }
                assert!(!ecru::is_cancelled());
                // The cancellation also applies to tasks that are started later.
                let unbegun = s.start(|_: Started<u8>| -> u8 { unreachable!() });
                assert!(matches!(unbegun, Err(StartError::Join(JoinError::Cancelled))));
            });
        }
    });
}

/// - given: a daemon that waits in `start` when the body of its scope ends, and calls `start` again
///   when it has been cancelled
/// - when: the child calls `ready` and ends
/// - then: the scope has waited for the child, and `start` returns the value; the second call
///   returns `CallerCancelled`
///
/// A child that a daemon has started is an ordinary child.
#[test]
fn start_10_scope_ends() {
    each_run(|| {
        let (parked, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let (got, refused) = (AtomicUsize::new(0), AtomicBool::new(false));
        ecru::scope(|s| {
            s.spawn_daemon(|| {
                let started = s.start(|started| {
                    parked.store(true, SeqCst);
                    until(|| over.load(SeqCst));
                    started.ready(7);
                });
                // By now the child may have ended, and this daemon may have been cancelled.
                got.store(started.unwrap().0, SeqCst);
                forever();
                let late = s.start(|_: Started<u8>| unreachable!());
                let late: Result<_, StartError<()>> = late;
                refused.store(is_caller_cancelled(&late), SeqCst);
            });
            until(|| parked.load(SeqCst));
            let _over = OnDrop(|| over.store(true, SeqCst));
        });
        assert_eq!((got.load(SeqCst), refused.load(SeqCst)), (7, true));
    });
}

/// - given: a child that calls `ready` on another worker
/// - when: its caller is cancelled at the same moment
/// - then: the value is returned, with a handle to a child that continues, or it is dropped and the
///   child is cancelled
///
/// In either case the value is dropped exactly once.
#[test]
fn start_11_ready_meets_cancel() {
    run_on(2, || {
        let (mut won, mut lost) = (0, 0);
        for _ in 0..300 {
            let (dropped, parked) = (AtomicUsize::new(0), AtomicBool::new(false));
            let go = AtomicBool::new(false);
            ecru::scope(|s| {
                let (dropped, parked, go) = (&dropped, &parked, &go);
                let caller = s.spawn(move || {
                    let started = s.start(move |started| {
                        parked.store(true, SeqCst);
                        while !go.load(SeqCst) {
                            let _ = ecru::yield_now();
                        }
                        started.ready(Counted(dropped));
                        ecru::is_cancelled()
                    });
                    match started {
                        Ok((value, task)) => {
                            assert_eq!(dropped.load(SeqCst), 0);
                            drop(value);
                            // Only its caller would have cancelled the child.
                            assert!(!ecru::shield(|| task.join()).unwrap());
                            true
                        }
                        started => {
                            assert!(is_caller_cancelled(&started));
                            false
                        }
                    }
                });
                until(|| parked.load(SeqCst));
                go.store(true, SeqCst);
                caller.cancel();
                if caller.join().unwrap() {
                    won += 1
                } else {
                    lost += 1
                }
                assert_eq!(dropped.load(SeqCst), 1);
            });
        }
        assert_eq!(won + lost, 300);
    });
}

/// - given: children of a `try_scope`
/// - when: they are ready, or fail before that
/// - then: the value and the handle are returned; or the scope returns the error and `start`
///   returns `Join`
#[test]
fn start_12_try_scope() {
    each_run(|| {
        let sum = ecru::try_scope(|s| {
            let (value, task) = s
                .start(|started| {
                    started.ready(1);
                    Ok::<_, String>(2)
                })
                .unwrap();
            let ended = s.start(|_: Started<u8>| Ok(3));
            assert!(matches!(ended, Err(StartError::Ended(3))));
            Ok(value + task.join().unwrap())
        });
        assert_eq!(sum, Ok(3));
        let failed: Result<(), _> = ecru::try_scope(|s| {
            let failed = s.start(|_: Started<u8>| Err::<(), _>("no such host"));
            assert!(matches!(failed, Err(StartError::Join(_))));
            Ok(())
        });
        assert_eq!(failed, Err("no such host"));
    });
}

/// - given: a plain thread, and code under `no_suspend`
/// - when: `s.start` is called
/// - then: it panics, and the closure is dropped unrun
#[test]
fn start_13_needs_a_task() {
    each_run(|| {
        let dropped = AtomicUsize::new(0);
        ecru::scope(|s| {
            let attempt = || {
                let counted = Counted(&dropped);
                panic_text(|| {
                    s.start(move |_: Started<u8>| {
                        let _counted = counted;
                        unreachable!()
                    })
                    .map(|(value, _): (_, ecru::JoinHandle<'_, ()>)| value)
                })
            };
            let text = thread::scope(|t| t.spawn(attempt).join().unwrap());
            assert!(text.contains("runs no tasks"), "{text}");
            assert_eq!(dropped.load(SeqCst), 1);
            let text = ecru::no_suspend(attempt);
            assert!(text.contains("no_suspend"), "{text}");
            assert_eq!(dropped.load(SeqCst), 2);
        });
    });
}

/// - given: a child that panics when it is cancelled
/// - when: its caller is cancelled while it waits in `start`
/// - then: `start` returns `Join(Panicked)`, and the scope ends normally
#[test]
fn start_14_panics_when_cancelled() {
    each_run(|| {
        let parked = AtomicBool::new(false);
        ecru::scope(|s| {
            let parked = &parked;
            let caller = s.spawn(move || {
                let started = s.start(move |_: Started<u8>| {
                    parked.store(true, SeqCst);
                    forever();
                    quiet_panic("when cancelled")
                });
                let started: Result<_, StartError<()>> = started;
                let Err(StartError::Join(JoinError::Panicked(payload))) = started else {
                    panic!("{started:?}");
                };
                payload.message().map(str::to_owned)
            });
            until(|| parked.load(SeqCst));
            caller.cancel();
            assert_eq!(caller.join().unwrap().as_deref(), Some("when cancelled"));
        });
    });
}
