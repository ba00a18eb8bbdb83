//! Daemons end with their scope.

use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32};

use ecru::CancelReason;

use crate::support::{each_run, forever, ms, until};

/// - given: a daemon that waits for ever
/// - when: the body and the other children have ended
/// - then: it is cancelled with the reason `ScopeEnd`, and awaited
#[test]
fn scope_31_daemon_ends_with_the_scope() {
    each_run(|| {
        let (parked, reason) = (AtomicBool::new(false), Mutex::new(None));
        ecru::scope(|s| {
            s.spawn_daemon(|| {
                parked.store(true, SeqCst);
                let error = forever();
                let _ = ecru::shield(|| ecru::sleep(ms(1)));
                *reason.lock().unwrap() = Some(error.reason());
            });
            until(|| parked.load(SeqCst));
        });
        assert_eq!(reason.into_inner().unwrap(), Some(CancelReason::ScopeEnd));
    });
}

/// - given: a daemon that other children need
/// - when: the body ends before them
/// - then: the daemon is not cancelled until they have ended
#[test]
fn scope_32_daemon_serves_to_the_end() {
    each_run(|| {
        let (asked, answered) = (AtomicU32::new(0), AtomicU32::new(0));
        let interrupted = AtomicBool::new(false);
        let (asked, answered) = (&asked, &answered);
        ecru::scope(|s| {
            s.spawn_daemon(|| {
                while ecru::yield_now().is_ok() {
                    answered.store(asked.load(SeqCst), SeqCst);
                }
                interrupted.store(true, SeqCst);
            });
            s.spawn(|| {
                for question in 1..=5 {
                    ecru::sleep(ms(1)).unwrap();
                    asked.store(question, SeqCst);
                    until(|| answered.load(SeqCst) == question);
                    assert!(!interrupted.load(SeqCst));
                }
            });
        });
        assert_eq!(answered.load(SeqCst), 5);
        assert!(interrupted.load(SeqCst));
    });
}

/// - given: a daemon spawned in the last statement of the body
/// - when: the scope ends
/// - then: its body has run, perhaps already cancelled
#[test]
fn scope_33_daemon_always_begins() {
    each_run(|| {
        let began = AtomicU32::new(0);
        ecru::scope(|s| s.spawn_daemon(|| began.fetch_add(1, SeqCst)));
        ecru::scope(|s| {
            s.cancel();
            s.spawn_daemon(|| {
                began.fetch_add(1, SeqCst);
                assert!(ecru::is_cancelled());
            });
        });
        assert_eq!(began.load(SeqCst), 2);
    });
}
