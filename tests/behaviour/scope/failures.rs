//! Panics and errors of children and bodies.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use ecru::{CancelReason, JoinError};

use crate::support::{
    each_run, forever, ms, panic_text, payload_of, quiet_panic, settle, text_of, until,
};

/// - given: a child that is not joined, and a parked sibling
/// - when: the child panics
/// - then: the sibling is not cancelled; when all children have ended, the scope panics
#[test]
fn scope_07_child_panics() {
    each_run(|| {
        let (panicking, slept) = (AtomicBool::new(false), AtomicBool::new(false));
        let text = panic_text(|| {
            ecru::scope(|s| {
                s.spawn(|| {
                    until(|| panicking.load(SeqCst));
                    settle();
                    slept.store(ecru::sleep(ms(1)).is_ok() && !ecru::is_cancelled(), SeqCst);
                });
                s.spawn(|| {
                    panicking.store(true, SeqCst);
                    quiet_panic("oh dear");
                });
            });
        });
        assert!(text.contains("oh dear"), "{text}");
        assert!(slept.load(SeqCst));
    });
}

/// - given: a child that panics
/// - when: it is joined
/// - then: `join` returns `Panicked` with the message and payload, and the scope ends normally
#[test]
fn scope_08_joined_panic_is_an_error() {
    each_run(|| {
        let value = ecru::scope(|s| {
            let child = s.spawn(|| quiet_panic("oh dear"));
            let Err(JoinError::Panicked(payload)) = child.join() else { panic!("not panicked") };
            assert_eq!(payload.message(), Some("oh dear"));
            assert_eq!(text_of(&*payload.into_inner()), "oh dear");
            let number = s.spawn(|| std::panic::resume_unwind(Box::new(7_u8)));
            let Err(JoinError::Panicked(payload)) = number.join() else { panic!("not panicked") };
            assert_eq!(payload.message(), None);
            *payload.into_inner().downcast::<u8>().unwrap()
        });
        assert_eq!(value, 7);
    });
}

/// - given: a parked child
/// - when: the body panics
/// - then: the child is cancelled and awaited, then the panic is resumed with its payload
#[test]
fn scope_09_body_panics() {
    each_run(|| {
        let (parked, cancelled) = (AtomicBool::new(false), Mutex::new(None));
        let payload = payload_of(|| {
            ecru::scope(|s| -> () {
                s.spawn(|| {
                    parked.store(true, SeqCst);
                    let error = forever();
                    let _ = ecru::shield(|| ecru::sleep(ms(1)));
                    *cancelled.lock().unwrap() = Some(error.reason());
                });
                until(|| parked.load(SeqCst));
                std::panic::resume_unwind(Box::new(42_u64));
            })
        });
        assert_eq!(payload.downcast_ref(), Some(&42_u64));
        assert_eq!(cancelled.into_inner().unwrap(), Some(CancelReason::Sibling));
    });
}

/// - given: a child that panics as well
/// - when: the body panics
/// - then: the body's payload is resumed
#[test]
fn scope_10_body_and_child_panic() {
    each_run(|| {
        let panicking = AtomicBool::new(false);
        let text = panic_text(|| {
            ecru::scope(|s| {
                s.spawn(|| {
                    panicking.store(true, SeqCst);
                    quiet_panic("the child's");
                });
                until(|| panicking.load(SeqCst));
                quiet_panic("the body's");
            })
        });
        assert_eq!(text, "the body's");
    });
}

/// - given: a child that returns `Err`, and a sibling
/// - when: the child ends
/// - then: nothing is cancelled; `join` returns the `Err` as a value
#[test]
fn scope_11_error_is_quiet() {
    each_run(|| {
        ecru::scope(|s| {
            let failed = AtomicBool::new(false);
            ecru::scope(|inner| {
                let failing = s.spawn(|| Err::<(), _>("no such host"));
                let sibling = inner.spawn(|| {
                    until(|| failed.load(SeqCst));
                    ecru::sleep(ms(1)).is_ok()
                });
                assert_eq!(failing.join().unwrap(), Err("no such host"));
                failed.store(true, SeqCst);
                assert!(sibling.join().unwrap());
            });
        });
    });
}

/// - given: a parked child
/// - when: the body of a plain scope returns `Err`
/// - then: the child runs to its end, then the `Err` is returned
#[test]
fn scope_12_body_error_is_quiet() {
    each_run(|| {
        let slept = AtomicBool::new(false);
        let result = ecru::scope(|s| {
            s.spawn(|| slept.store(ecru::sleep(ms(2)).is_ok(), SeqCst));
            settle();
            Err::<(), _>("no such host")
        });
        assert_eq!(result, Err("no such host"));
        assert!(slept.load(SeqCst));
    });
}
