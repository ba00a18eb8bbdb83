//! Scopes and runs in the wrong places, and events at their end.

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use ecru::{JoinError, Runtime};

use crate::{OnDrop, run_on};

fn message(payload: &(dyn std::any::Any + Send)) -> &str {
    payload
        .downcast_ref::<String>()
        .map_or_else(|| payload.downcast_ref::<&str>().copied().unwrap_or(""), String::as_str)
}

#[test]
fn a_scope_awaits_the_child_that_a_daemon_spawned_with_its_last_breath() {
    run_on(2, || {
        for _ in 0..200 {
            let left = &AtomicUsize::new(0);
            let ready = &AtomicBool::new(false);
            ecru::scope(|s| {
                s.spawn_daemon(move || {
                    ready.store(true, Ordering::Release);
                    for _ in 0..8 {
                        left.fetch_add(1, Ordering::Relaxed);
                        s.spawn(move || {
                            let _ = ecru::yield_now();
                            left.fetch_sub(1, Ordering::Relaxed);
                        });
                    }
                });
                let since = Instant::now();
                while !ready.load(Ordering::Acquire) && since.elapsed() < Duration::from_millis(1) {
                    std::hint::spin_loop();
                }
            });
            assert_eq!(left.load(Ordering::Relaxed), 0);
        }
    });
}

#[test]
fn a_scope_refuses_to_spawn_in_another_run() {
    run_on(1, || {
        let refused = ecru::scope(|s| {
            ecru::unblock(|| {
                run_on(1, || {
                    let spawned = panic::catch_unwind(AssertUnwindSafe(|| drop(s.spawn(|| ()))));
                    let local =
                        panic::catch_unwind(AssertUnwindSafe(|| drop(s.spawn_local(|| ()))));
                    (spawned.is_err(), local.is_err())
                })
            })
        });
        assert_eq!(refused, (true, true));
    });
}

#[test]
fn a_scope_refuses_to_spawn_in_unblock_and_still_ends() {
    run_on(1, || {
        let refused = ecru::scope(|s| {
            ecru::unblock(|| {
                panic::catch_unwind(AssertUnwindSafe(|| drop(s.spawn(|| ()))))
                    .map_err(|p| message(&*p).to_owned())
            })
        });
        assert!(refused.unwrap_err().contains("`spawn` called on a thread"));
    });
}

#[test]
fn scopes_and_runs_in_unblock() {
    run_on(1, || {
        let scope = ecru::unblock(|| panic::catch_unwind(|| ecru::scope(|_| ())).is_err());
        assert!(scope, "a plain thread has no task to open a scope in");
        assert_eq!(
            ecru::unblock(|| ecru::run(|| ecru::scope(|s| s.spawn(|| 5).join().unwrap()))),
            5
        );
    });
}

#[test]
fn what_a_run_leaves_behind_may_try_to_spawn_and_to_wait() {
    let outcome = panic::catch_unwind(|| {
        run_on(1, || {
            ecru::spawn(|| panic!("on purpose"));
            OnDrop(|| {
                assert!(panic::catch_unwind(|| ecru::spawn(|| ())).is_err());
                let _ = ecru::sleep(Duration::from_millis(1));
            })
        })
    });
    assert_eq!(message(&*outcome.err().unwrap()), "on purpose");
}

#[test]
fn a_request_that_comes_as_the_run_ends_finds_nothing_freed() {
    for _ in 0..100 {
        ecru::cancel_scope(|c| {
            let (begun, has_begun) = mpsc::channel();
            let canceller = thread::spawn(move || {
                has_begun.recv().unwrap();
                c.cancel();
            });
            run_on(1, || {
                let _ = ecru::sleep(Duration::from_nanos(1));
                begun.send(()).unwrap();
                let _ = ecru::yield_now();
            });
            canceller.join().unwrap();
        });
    }
    // The next run that uses the same worker's inbox finds no stale message in it.
    assert_eq!(run_on(1, || ecru::scope(|s| s.spawn(|| 1).join().unwrap())), 1);
}

#[test]
fn handles_outlive_their_run_and_cancel_as_it_ends() {
    for _ in 0..100 {
        let (give, take) = mpsc::channel::<ecru::JoinHandle<'static, bool>>();
        let canceller = thread::spawn(move || {
            let handle = take.recv().unwrap();
            handle.cancel();
            handle.join()
        });
        run_on(1, || {
            give.send(ecru::spawn(|| ecru::sleep(Duration::from_micros(50)).is_ok())).unwrap();
        });
        assert!(matches!(canceller.join().unwrap(), Ok(_) | Err(JoinError::Cancelled)));
    }
}

#[test]
fn a_run_inside_a_run_is_refused_but_not_in_unblock_or_on_a_thread() {
    ecru::run(|| {
        assert!(panic::catch_unwind(|| ecru::run(|| ())).is_err());
        let inner = Runtime::builder().workers(1).build().unwrap();
        assert!(panic::catch_unwind(AssertUnwindSafe(|| inner.run(|| ()))).is_err());
        assert_eq!(thread::scope(|t| t.spawn(|| inner.run(|| 1)).join().unwrap()), 1);
        // It has ended, and is dropped in a task of another run.
        drop(inner);
        assert!(ecru::sleep(Duration::from_micros(1)).is_ok());
    });
}

#[test]
fn a_join_from_a_plain_thread_and_from_another_run() {
    run_on(1, || {
        let slow = || s_sleep(Duration::from_millis(1));
        let (a, b) = (ecru::spawn(slow), ecru::spawn(slow));
        let joined = ecru::unblock(|| (a.join().unwrap(), run_on(1, || b.join().unwrap())));
        assert_eq!(joined, (true, true));
    });
}

fn s_sleep(duration: Duration) -> bool {
    ecru::sleep(duration).is_ok()
}
