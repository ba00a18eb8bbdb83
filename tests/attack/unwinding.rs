//! Destructors and panic payloads that run code during unwinding.

use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use ecru::JoinError;

use crate::{OnDrop, run_on};

#[test]
fn errors_and_payloads_that_panic_when_dropped_stop_nobody() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            if !thread::panicking() {
                panic!("dropped");
            }
        }
    }
    run_on(1, || {
        let result: Result<(), OnDrop<fn()>> = ecru::try_scope(|s| {
            for _ in 0..3 {
                s.spawn(|| Err::<(), _>(OnDrop::<fn()>(|| panic!("dropped"))));
            }
            Ok(())
        });
        let _ = std::mem::ManuallyDrop::new(result);
        ecru::scope(|s| {
            drop(s.spawn(|| Bomb));
            drop(s.spawn(|| OnDrop(|| panic::panic_any(Bomb))));
        });
        ecru::scope(|s| {
            s.cancel();
            let bomb = Bomb;
            let never = s.spawn(move || drop(bomb));
            assert!(matches!(never.join(), Err(JoinError::Panicked(_))));
        });
    });
}

/// Panics with a payload that panics when it is dropped.
fn bomb() -> ! {
    panic::panic_any(OnDrop(|| panic!("dropped")))
}

#[test]
fn payloads_that_nobody_takes_do_not_end_the_process_when_dropped() {
    run_on(2, || {
        // Of several tasks that are not joined, one panic is reported by its text, and all payloads
        // are dropped.
        let text = panic::catch_unwind(|| {
            ecru::scope(|s| (0..3).for_each(|_| drop(s.spawn(|| bomb()))));
        });
        let text = text.unwrap_err();
        let text = *text.downcast::<String>().unwrap();
        assert!(text.starts_with("a task of this scope panicked: task #"), "{text}");
        // With the body's own panic, which takes precedence.
        let first = panic::catch_unwind(|| {
            ecru::scope(|s| {
                (0..3).for_each(|_| drop(s.spawn(|| bomb())));
                panic!("the body's");
            })
        });
        assert_eq!(*first.unwrap_err().downcast::<&str>().unwrap(), "the body's");
        let first = panic::catch_unwind(|| {
            ecru::try_scope(|s| {
                (0..3).for_each(|_| drop(s.spawn(|| -> Result<(), ()> { bomb() })));
                let _ = s.spawn(|| Ok::<_, ()>(())).join();
                if true { panic!("the body's") } else { Err::<(), _>(()) }
            })
        });
        // The first panic may be either one. The receiver of a bomb has to dispose of it.
        let _ = std::mem::ManuallyDrop::new(first);
    });
    // Tasks that belong to the run itself.
    let runtime = ecru::Runtime::builder().workers(2).build().unwrap();
    let handle = runtime.handle();
    let first = panic::catch_unwind(AssertUnwindSafe(|| {
        runtime.run(|| {
            (0..3).for_each(|_| drop(handle.spawn(|| bomb())));
            let _ = ecru::sleep(Duration::from_millis(1));
            panic!("the root's");
        })
    }));
    assert_eq!(*first.unwrap_err().downcast::<&str>().unwrap(), "the root's");
}

#[test]
fn a_hook_whose_payload_panics_when_dropped_is_over_all_the_same() {
    ecru::run(|| {
        ecru::cancel_scope(|c| {
            ecru::on_cancel(|| panic::panic_any(OnDrop(|| panic!("dropped"))), || c.cancel());
        });
    });
}

#[test]
fn a_join_in_a_destructor_during_unwinding_starts_nothing() {
    run_on(1, || {
        let ran = &Cell::new(0);
        ecru::scope(|s| {
            let other = s.spawn_local(move || {
                ran.set(ran.get() + 1);
                ecru::sleep(Duration::from_millis(1))
            });
            let caught = panic::catch_unwind(AssertUnwindSafe(|| {
                let _join =
                    OnDrop(|| assert!(matches!(other.join(), Err(JoinError::CallerCancelled))));
                panic!("on purpose");
            }));
            assert!(caught.is_err());
            assert!(other.join().unwrap().is_ok(), "nobody asked it to stop");
        });
        assert_eq!(ran.get(), 1);
    });
}

#[test]
fn who_yields_while_it_unwinds_stops_nobody_else() {
    run_on(1, || {
        ecru::scope(|s| {
            let healthy = s.spawn(|| {
                (0..10).map(|_| ecru::sleep(Duration::from_micros(1))).all(|slept| slept.is_ok())
            });
            let caught = panic::catch_unwind(|| {
                let _yield = OnDrop(|| {
                    for _ in 0..10 {
                        assert!(ecru::yield_now().is_err());
                    }
                });
                panic!("on purpose");
            });
            assert!(caught.is_err());
            assert!(healthy.join().unwrap());
        });
    });
}

#[test]
fn a_scope_in_a_destructor_during_unwinding_awaits_its_children() {
    run_on(2, || {
        let ended = AtomicUsize::new(0);
        ecru::scope(|s| {
            let healthy =
                s.spawn(|| (0..20).all(|_| ecru::sleep(Duration::from_micros(100)).is_ok()));
            let caught = panic::catch_unwind(AssertUnwindSafe(|| {
                let _scope = OnDrop(|| {
                    ecru::scope(|inner| {
                        for _ in 0..4 {
                            inner.spawn(|| {
                                ecru::sleep(Duration::from_millis(1)).unwrap();
                                ended.fetch_add(1, Ordering::Relaxed);
                            });
                        }
                    });
                });
                panic!("on purpose");
            }));
            assert!(caught.is_err());
            assert!(healthy.join().unwrap());
        });
        assert_eq!(ended.into_inner(), 4);
    });
}
