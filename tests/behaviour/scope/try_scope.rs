//! `try_scope`: which failure the scope returns.

use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};

use ecru::{CancelReason, JoinError};

use crate::support::{Counted, each_run, forever, ms, payload_of, settle, until};

/// - given: children that return `Ok`
/// - when: the body returns `Ok`
/// - then: `try_scope` returns the body's value
#[test]
fn scope_34_try_all_well() {
    each_run(|| {
        let result = ecru::try_scope(|s| {
            let one = s.spawn(|| Ok::<_, &str>(1));
            s.spawn(|| ecru::sleep(ms(1)).map_err(|_| "cancelled"));
            Ok(one.join().unwrap() + 1)
        });
        assert_eq!(result, Ok(2));
    });
}

/// - given: a parked sibling and a body that waits
/// - when: a child returns `Err`
/// - then: both are cancelled with the reason `Sibling` and awaited, and the `Err` is returned
#[test]
fn scope_35_try_child_fails() {
    each_run(|| {
        let (parked, sibling_ended) = (AtomicBool::new(false), Mutex::new(None));
        let mut body_reason = None;
        let result: Result<(), &str> = ecru::try_scope(|s| {
            s.spawn(|| {
                parked.store(true, SeqCst);
                let error = forever();
                let _ = ecru::shield(|| ecru::sleep(ms(1)));
                *sibling_ended.lock().unwrap() = Some(error.reason());
                Ok(())
            });
            s.spawn(|| {
                until(|| parked.load(SeqCst));
                settle();
                Err::<(), _>("no such host")
            });
            body_reason = Some(forever().reason());
            Ok(())
        });
        assert_eq!(result, Err("no such host"));
        assert_eq!(sibling_ended.into_inner().unwrap(), Some(CancelReason::Sibling));
        assert_eq!(body_reason, Some(CancelReason::Sibling));
        assert!(ecru::checkpoint().is_ok());
    });
}

/// - given: a child of `try_scope` that returned `Err`
/// - when: it is joined
/// - then: `JoinError::Failed`; the error itself is passed to the scope
#[test]
fn scope_36_try_failed_join() {
    each_run(|| {
        let mut joined = None;
        let result: Result<(), String> = ecru::try_scope(|s| {
            let failing = s.spawn(|| Err::<(), _>(String::from("no such host")));
            // The failure cancels the body too, and `join` is a cancellation point.
            joined = Some(ecru::shield(|| failing.join()));
            Ok(())
        });
        assert!(matches!(joined, Some(Err(JoinError::Failed))), "{joined:?}");
        assert_eq!(result, Err(String::from("no such host")));
    });
}

/// - given: a parked child
/// - when: the body returns `Err`
/// - then: the child is cancelled and awaited, and the `Err` is returned
#[test]
fn scope_37_try_body_fails() {
    each_run(|| {
        let (parked, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let result: Result<(), &str> = ecru::try_scope(|s| {
            s.spawn(|| {
                parked.store(true, SeqCst);
                assert_eq!(forever().reason(), CancelReason::Sibling);
                let _ = ecru::shield(|| ecru::sleep(ms(1)));
                ended.store(true, SeqCst);
                Ok(())
            });
            until(|| parked.load(SeqCst));
            Err("no such host")
        });
        assert_eq!(result, Err("no such host"));
        assert!(ended.load(SeqCst));
    });
}

/// - given: a parked sibling
/// - when: a child of `try_scope` panics
/// - then: the sibling is cancelled and awaited, then the panic is resumed
#[test]
fn scope_38_try_child_panics() {
    each_run(|| {
        let (parked, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let payload = payload_of(|| {
            ecru::try_scope(|s| {
                s.spawn(|| {
                    parked.store(true, SeqCst);
                    forever();
                    let _ = ecru::shield(|| ecru::sleep(ms(1)));
                    ended.store(true, SeqCst);
                    Ok::<_, ()>(())
                });
                s.spawn(|| -> Result<(), ()> {
                    until(|| parked.load(SeqCst));
                    std::panic::resume_unwind(Box::new(42_u64))
                });
                Ok(())
            })
        });
        assert_eq!(payload.downcast_ref(), Some(&42_u64));
        assert!(ended.load(SeqCst));
    });
}

/// - given: a child that fails because it was cancelled
/// - when: it ends before the child whose error was the cause
/// - then: the cause is returned
#[test]
fn scope_39_try_real_error_beats_cancelled() {
    each_run(|| {
        for _ in 0..50 {
            let parked = AtomicU32::new(0);
            let result: Result<(), &str> = ecru::try_scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| {
                        parked.fetch_add(1, SeqCst);
                        forever();
                        Err::<(), _>("an echo")
                    });
                }
                s.spawn(|| {
                    until(|| parked.load(SeqCst) == 3);
                    Err::<(), _>("the cause")
                });
                forever();
                Err("an echo of the body's")
            });
            assert_eq!(result, Err("the cause"));
        }
    });
}

/// - given: two children that fail, neither of them cancelled
/// - when: one ends before the other
/// - then: the first error in time is returned
#[test]
fn scope_40_try_first_error_wins() {
    each_run(|| {
        let result: Result<(), u32> = ecru::try_scope(|s| {
            let first = s.spawn(|| Err::<(), _>(1));
            until(|| first.is_finished());
            // The body never checks whether it has been cancelled.
            Err(2)
        });
        assert_eq!(result, Err(1));
        // If there are two workers, both fail at the same time. The scope returns one of the
        // errors, and none is lost or duplicated.
        let made = AtomicUsize::new(0);
        let result: Result<(), Counted<'_>> = ecru::try_scope(|s| {
            for _ in 0..10 {
                s.spawn(|| Err::<(), _>(Counted(&made)));
            }
            Ok(())
        });
        let before = made.load(SeqCst);
        drop(result);
        assert_eq!(made.load(SeqCst), before + 1);
    });
}

/// - given: a child whose handle was cancelled and that returns `Err`
/// - when: the scope ends
/// - then: `Ok`: that error does not fail the scope
#[test]
fn scope_41_try_cancelled_on_purpose() {
    each_run(|| {
        let parked = AtomicBool::new(false);
        let result = ecru::try_scope(|s| {
            let child = s.spawn(|| {
                parked.store(true, SeqCst);
                forever();
                Err::<(), _>("stopped")
            });
            until(|| parked.load(SeqCst));
            child.cancel();
            assert!(matches!(child.join(), Err(JoinError::Failed)));
            assert!(ecru::sleep(ms(1)).is_ok());
            Ok("value")
        });
        assert_eq!(result, Ok("value"));
    });
}

/// - given: children that return `Err` after `s.cancel()`
/// - when: the scope ends
/// - then: `Ok`
#[test]
fn scope_42_try_scope_cancelled_on_purpose() {
    each_run(|| {
        let parked = AtomicU32::new(0);
        let result = ecru::try_scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    parked.fetch_add(1, SeqCst);
                    forever();
                    Err::<(), _>("stopped")
                });
            }
            until(|| parked.load(SeqCst) == 3);
            s.cancel();
            Ok("value")
        });
        assert_eq!(result, Ok("value"));
    });
}

/// - given: a daemon that returns `Err` when it is cancelled at the end
/// - when: the scope ends
/// - then: `Ok`
#[test]
fn scope_43_try_daemon_at_the_end() {
    each_run(|| {
        let result = ecru::try_scope(|s| {
            s.spawn_daemon(|| Err(forever().to_string()));
            settle();
            Ok("value")
        });
        assert_eq!(result, Ok("value"));
    });
}

/// - given: a daemon that returns `Err` while the body is running
/// - when: it ends
/// - then: the scope is cancelled and the `Err` returned
#[test]
fn scope_44_try_daemon_fails() {
    each_run(|| {
        let mut body_reason = None;
        let result: Result<(), &str> = ecru::try_scope(|s| {
            s.spawn_daemon(|| Err("no such host"));
            body_reason = Some(forever().reason());
            Ok(())
        });
        assert_eq!((result, body_reason), (Err("no such host"), Some(CancelReason::Sibling)));
    });
}
