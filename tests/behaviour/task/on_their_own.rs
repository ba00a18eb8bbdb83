//! Tasks without a scope, and shared handles.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;

use ecru::JoinError;

use crate::support::{HOUR, each_run, ms, panic_text, quiet_panic, run_on, settle, text_of, until};

/// - given: a task
/// - when: it calls `ecru::spawn` and joins
/// - then: it gets the value
#[test]
fn task_13_static_spawn() {
    each_run(|| {
        let handle = ecru::spawn(|| ecru::spawn(|| 5).join().unwrap() + 1);
        assert_eq!(handle.join().unwrap(), 6);
        let from_child = ecru::scope(|s| s.spawn(|| ecru::spawn(|| 7)).join().unwrap());
        assert_eq!(from_child.join().unwrap(), 7);
    });
}

/// - given: a task of `ecru::spawn` that is not joined
/// - when: it panics
/// - then: the run panics at its end, after all tasks have ended
#[test]
fn task_14_static_panic() {
    for workers in [1, 2] {
        let ended = Arc::new(AtomicBool::new(false));
        let text = panic_text(|| {
            run_on(workers, || {
                let noted = Arc::clone(&ended);
                ecru::spawn(|| quiet_panic("nobody's"));
                ecru::spawn(move || {
                    ecru::sleep(ms(2)).unwrap();
                    noted.store(true, SeqCst);
                });
            })
        });
        assert!(text.contains("nobody's"), "{text}");
        assert!(ended.load(SeqCst));
        // A joined panic does not reach the run.
        run_on(workers, || {
            assert!(ecru::spawn(|| quiet_panic("joined")).join().is_err());
        });
    }
}

/// - given: a handle made `shared` and cloned
/// - when: several tasks join
/// - then: each gets the value
#[test]
fn task_15_shared_handle() {
    each_run(|| {
        let release = AtomicBool::new(false);
        ecru::scope(|s| {
            let slow = s.builder().name("slow").spawn(|| {
                until(|| release.load(SeqCst));
                String::from("value")
            });
            let shared = slow.shared();
            assert_eq!((shared.name(), shared.is_finished()), (Some("slow"), false));
            assert!(shared.join_timeout(ms(1)).is_none());
            ecru::scope(|inner| {
                let joiners: Vec<_> = (0..5)
                    .map(|_| {
                        let shared = shared.clone();
                        inner.spawn(move || shared.join())
                    })
                    .collect();
                settle();
                let cancelled = inner.spawn(|| shared.join());
                settle();
                cancelled.cancel();
                release.store(true, SeqCst);
                for joiner in joiners {
                    assert_eq!(joiner.join().unwrap().unwrap(), "value");
                }
            });
            assert_eq!(shared.join().unwrap(), "value");
            assert_eq!(shared.join_timeout(HOUR).unwrap().unwrap(), "value");
            assert!(shared.is_finished());
        });
    });
}

/// - given: a shared handle of a task that panicked
/// - when: two tasks join it
/// - then: the first gets the payload, the second its message
#[test]
fn task_16_shared_panic() {
    each_run(|| {
        ecru::scope(|s| {
            let shared = s.spawn(|| -> u8 { quiet_panic("oh dear") }).shared();
            let other = shared.clone();
            let [first, second] = [shared.join(), other.join()].map(|joined| match joined {
                Err(JoinError::Panicked(payload)) => payload,
                other => panic!("not panicked: {other:?}"),
            });
            assert_eq!(first.message(), Some("oh dear"));
            assert_eq!(second.message(), Some("oh dear"));
            assert_eq!(first.into_inner().downcast_ref(), Some(&"oh dear"));
            assert_eq!(text_of(&*second.into_inner()), "oh dear");
        });
    });
}
