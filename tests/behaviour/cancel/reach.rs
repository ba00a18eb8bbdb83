//! The reach of a request: down the tree, or only one section.

use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::thread;

use ecru::{CancelHandle, CancelReason, JoinError};

use super::cancelled;
use crate::support::{Counted, HOUR, each_run, forever, ms, run_on, settle, until};

/// - given: a task in a scope with children and grandchildren
/// - when: it is cancelled
/// - then: all their waits are cancelled
#[test]
fn cancel_13_goes_down() {
    each_run(|| {
        let (waiting, cancelled) = (AtomicU32::new(0), AtomicU32::new(0));
        let wait = || {
            waiting.fetch_add(1, SeqCst);
            assert_eq!(forever().reason(), CancelReason::Explicit);
            cancelled.fetch_add(1, SeqCst);
        };
        let wait = &wait;
        ecru::scope(|s| {
            let top = s.spawn(|| {
                ecru::scope(|children| {
                    for _ in 0..2 {
                        children.spawn(|| {
                            ecru::scope(|grandchildren| {
                                grandchildren.spawn(wait);
                                grandchildren.spawn(|| ecru::timeout(HOUR, wait));
                                wait();
                            });
                        });
                    }
                    wait();
                });
            });
            until(|| waiting.load(SeqCst) == 7);
            top.cancel();
            top.join().unwrap();
        });
        assert_eq!(cancelled.load(SeqCst), 7);
    });
}

/// - given: a child that has ended
/// - when: it is cancelled
/// - then: nothing happens, and `join` returns its value
#[test]
fn cancel_14_of_what_has_ended() {
    each_run(|| {
        ecru::scope(|s| {
            let child = s.spawn(|| 5);
            until(|| child.is_finished());
            child.cancel();
            child.cancel();
            assert_eq!(child.join().unwrap(), 5);
            child.cancel();
        });
    });
}

/// - given: a cancelled task
/// - when: it opens a scope and spawns
/// - then: the child's closure is dropped unrun, and another task's `join` returns `Cancelled`
#[test]
fn cancel_15_child_of_a_cancelled_task() {
    each_run(|| {
        let dropped = AtomicUsize::new(0);
        cancelled(|| {
            ecru::scope(|s| {
                let counted = Counted(&dropped);
                let child = s.spawn(move || {
                    let _counted = counted;
                    unreachable!()
                });
                let other = s.builder().name("bound").spawn(|| ());
                let joined = ecru::shield(|| child.join());
                assert!(matches!(joined, Err::<(), _>(JoinError::Cancelled)));
                assert!(matches!(other.join(), Err(JoinError::CallerCancelled)));
            });
        });
        assert_eq!(dropped.load(SeqCst), 1);
    });
}

/// - given: `cancel_scope` around a wait
/// - when: another task calls `c.cancel()`
/// - then: the wait is cancelled, and waits after the scope work
#[test]
fn cancel_32_in_place() {
    each_run(|| {
        ecru::scope(|s| {
            let reason = ecru::cancel_scope(|c| {
                s.spawn(move || {
                    settle();
                    c.cancel();
                });
                forever().reason()
            });
            assert_eq!(reason, CancelReason::Explicit);
            assert!(ecru::sleep(ms(1)).is_ok());
        });
    });
}

/// - given: a `cancel_scope` body
/// - when: it calls `c.cancel()` and waits
/// - then: `Cancelled`, with reason `Explicit`
#[test]
fn cancel_33_in_place_by_itself() {
    each_run(|| {
        ecru::cancel_scope(|c| {
            assert!(!c.is_cancelled());
            c.clone().cancel();
            assert!(c.is_cancelled() && ecru::is_cancelled());
            assert_eq!(forever().reason(), CancelReason::Explicit);
        });
        assert!(ecru::checkpoint().is_ok());
    });
}

/// - given: a scope inside `cancel_scope`
/// - when: `c.cancel()` is called
/// - then: its children are cancelled
#[test]
fn cancel_34_in_place_with_children() {
    each_run(|| {
        let waiting = AtomicU32::new(0);
        ecru::cancel_scope(|c| {
            ecru::scope(|s| {
                let children: Vec<_> = (0..3)
                    .map(|_| {
                        s.spawn(|| {
                            waiting.fetch_add(1, SeqCst);
                            forever().reason()
                        })
                    })
                    .collect();
                until(|| waiting.load(SeqCst) == 3);
                c.cancel();
                for child in children {
                    assert_eq!(ecru::shield(|| child.join()).unwrap(), CancelReason::Explicit);
                }
            });
        });
        assert!(ecru::checkpoint().is_ok());
    });
}

/// - given: a `CancelHandle` kept after its scope has ended
/// - when: it is used
/// - then: nothing happens, and the task's next waits work
#[test]
fn cancel_35_handle_outlives() {
    let mut kept: Vec<CancelHandle> = Vec::new();
    let kept = Mutex::new(&mut kept);
    each_run(|| {
        let handle = ecru::cancel_scope(|c| c);
        handle.cancel();
        assert!(ecru::sleep(ms(1)).is_ok());
        ecru::scope(|s| {
            let from_child = s.spawn(|| ecru::cancel_scope(|c| c)).join().unwrap();
            let still_running = ecru::cancel_scope(|c| c);
            thread::scope(|threads| drop(threads.spawn(|| from_child.cancel())));
            s.spawn(move || still_running.cancel());
            assert!(ecru::sleep(ms(1)).is_ok());
        });
        kept.lock().unwrap().push(ecru::cancel_scope(|c| c));
    });
    for handle in kept.into_inner().unwrap() {
        handle.cancel();
    }
}

/// - given: a task that computes and has never waited, and its child, parked on another worker
/// - when: the task is cancelled
/// - then: the child's wait is cancelled, and so is the task's first one
#[test]
fn cancel_45_passes_who_never_waited() {
    for _ in 0..50 {
        run_on(2, || {
            let (waits, reason) = (AtomicBool::new(false), Mutex::new(None));
            ecru::scope(|s| {
                let busy = &s.spawn(|| {
                    ecru::timeout(HOUR, || {
                        ecru::scope(|inner| {
                            let child = inner.spawn(|| {
                                waits.store(true, SeqCst);
                                *reason.lock().unwrap() = Some(forever().reason());
                            });
                            // The other worker takes it meanwhile.
                            while !child.is_finished() {
                                std::hint::spin_loop();
                            }
                            assert!(ecru::checkpoint().is_err());
                        });
                    })
                });
                thread::scope(|threads| {
                    threads.spawn(|| {
                        while !waits.load(SeqCst) {
                            thread::yield_now();
                        }
                        busy.cancel();
                    });
                    assert_eq!(busy.join().unwrap(), Ok(()));
                });
            });
            assert_eq!(*reason.lock().unwrap(), Some(CancelReason::Explicit));
        });
    }
}

/// - given: nested scopes whose tasks compute and never wait
/// - when: the outermost task is cancelled
/// - then: all of them see the request, closures that they spawn are dropped unrun, and tasks
///   outside see nothing
#[test]
fn cancel_46_seen_without_waiting() {
    each_run(|| {
        let started = AtomicBool::new(false);
        let work = || {
            // This request concerns no other task.
            cancelled(|| assert!(ecru::is_cancelled()));
            assert!(!ecru::is_cancelled());
            ecru::scope(|s| s.spawn(|| assert!(!ecru::is_cancelled())).join()).unwrap();
            started.store(true, SeqCst);
            while !ecru::is_cancelled() {
                std::hint::spin_loop();
            }
            ecru::scope(|s| {
                s.spawn(|| unreachable!());
            });
        };
        let work = &work;
        ecru::scope(|s| {
            let joined = |result: Result<(), JoinError>| {
                // If the other worker has taken the task, the join waits, and is cancelled.
                assert!(matches!(result, Ok(()) | Err(JoinError::CallerCancelled)), "{result:?}");
            };
            let top = &s.spawn(move || {
                ecru::scope(|children| {
                    let child = children.spawn(move || {
                        joined(ecru::scope(|s| s.spawn(work).join()));
                    });
                    joined(child.join());
                });
            });
            thread::scope(|threads| {
                threads.spawn(|| {
                    while !started.load(SeqCst) {
                        thread::yield_now();
                    }
                    top.cancel();
                });
                top.join().unwrap();
            });
            assert!(!ecru::is_cancelled());
        });
    });
}
