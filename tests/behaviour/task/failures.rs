//! Panics, overflows, and errors that travel.

use std::error::Error;
use std::io::{self};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use ecru::{Elapsed, JoinError};

use crate::support::{
    OnDrop, each_run, forever, is_child, ms, quiet_panic, run_on, start_again, text_of, until,
};

/// - given: a task that is parked inside a destructor while it unwinds
/// - when: its sibling on the same worker locks a `std` mutex and panics
/// - then: neither affects the other, and nothing aborts
#[test]
fn task_09_panics_are_its_own() {
    run_on(1, || {
        let (parked, release) = (AtomicBool::new(false), AtomicBool::new(false));
        let mutex = Mutex::new(0);
        ecru::scope(|s| {
            let unwinding = s.spawn(|| {
                let _parks = OnDrop(|| {
                    ecru::scope(|inner| {
                        inner.spawn(|| {
                            parked.store(true, SeqCst);
                            until(|| release.load(SeqCst));
                        });
                    });
                });
                quiet_panic("the first");
            });
            until(|| parked.load(SeqCst));
            let sibling = s.spawn(|| {
                *mutex.lock().unwrap() += 1;
                assert!(ecru::sleep(ms(1)).is_ok());
                let own = catch_unwind(AssertUnwindSafe(|| {
                    let _waits = OnDrop(|| _ = ecru::shield(|| ecru::sleep(ms(1))));
                    quiet_panic("the second");
                }));
                assert_eq!(text_of(&*own.unwrap_err()), "the second");
                *mutex.lock().unwrap() += 1;
                ecru::sleep(ms(1)).is_ok()
            });
            assert!(sibling.join().unwrap());
            release.store(true, SeqCst);
            let Err(JoinError::Panicked(payload)) = unwinding.join() else {
                panic!("it has not panicked")
            };
            assert_eq!(payload.message(), Some("the first"));
        });
        assert_eq!(*mutex.lock().unwrap(), 2);
        assert!(!thread::panicking());
    });
}

#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let frame = std::hint::black_box([depth; 16]);
    if depth == 0 { 0 } else { recurse(depth - 1) + frame[3] }
}

/// - given: a process whose named task recurses for ever
/// - when: its stack is exhausted
/// - then: standard error names the task, where it was spawned, the stack's size and the setting,
///   and the process ends by SIGSEGV
#[cfg(not(ecru_baton))] // a thread's guard is std's
#[test]
fn task_10_overflow_is_named() {
    const NAME: &str = "task::failures::task_10_overflow_is_named";
    if is_child(NAME) {
        run_on(1, || {
            ecru::scope(|s| {
                let child = s.builder().name("deep thought").stack_size(64 * 1024);
                drop(child.spawn(|| recurse(1 << 40)).join());
            });
        });
        return;
    }
    let output = start_again(NAME).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("deep thought"), "{text}");
    assert!(text.contains(file!()), "{text}");
    assert!(text.contains("65536 bytes") && text.contains("stack_size("), "{text}");
}

/// - given: each `JoinError`, and `Elapsed`
/// - when: it is displayed, sent to a thread and converted to an `io::Error`
/// - then: the text says what happened, and the error can be found in the `io::Error`
#[test]
fn task_17_errors_travel() {
    fn travels<E: Error + Send + Sync + 'static + Into<io::Error>>(error: E, says: &str) {
        let text = error.to_string();
        assert!(text.contains(says), "{text}");
        let error = thread::spawn(move || -> io::Error { error.into() }).join().unwrap();
        assert!(error.get_ref().unwrap().downcast_ref::<E>().is_some(), "{text}");
        assert!(error.to_string().contains(says), "{error}");
    }
    each_run(|| {
        ecru::scope(|s| {
            let panicked = s.spawn(|| quiet_panic("oh dear")).join().unwrap_err();
            travels(panicked, "panicked: oh dear");
            let child = s.spawn(|| ());
            child.join().unwrap();
            travels(child.join().unwrap_err(), "taken before");
        });
        travels(JoinError::Cancelled, "before it began");
        travels(JoinError::Failed, "failed");
        travels(JoinError::Empty, "no task");
        travels(JoinError::CallerCancelled, "waiting");
        travels::<Elapsed>(ecru::timeout(ms(0), forever).unwrap_err(), "time limit");
        // If the caller was cancelled, the error is converted to a cancellation.
        ecru::cancel_scope(|c| {
            c.cancel();
            let error = io::Error::from(JoinError::CallerCancelled);
            assert!(ecru::Cancelled::find(&error).is_some());
        });
    });
}
