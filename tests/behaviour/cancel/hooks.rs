//! `on_cancel`: hooks that run when a cancel request comes.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use super::cancelled;
use crate::support::{Counted, each_run, ms, now, panic_text, quiet_panic, since, until};

/// - given: a body in `on_cancel`
/// - when: several threads cancel it at once
/// - then: the hook runs exactly once
#[test]
fn cancel_36_hook_runs_once() {
    each_run(|| {
        for _ in 0..20 {
            let calls = AtomicU32::new(0);
            ecru::cancel_scope(|c| {
                let go = Barrier::new(4);
                ecru::on_cancel(
                    || _ = calls.fetch_add(1, SeqCst),
                    || {
                        thread::scope(|threads| {
                            for _ in 0..4 {
                                threads.spawn(|| {
                                    go.wait();
                                    c.cancel();
                                });
                            }
                        });
                    },
                );
            });
            assert_eq!(calls.load(SeqCst), 1);
        }
        // A request that came before the hook counts as well.
        let calls = AtomicU32::new(0);
        cancelled(|| ecru::on_cancel(|| _ = calls.fetch_add(1, SeqCst), || ()));
        assert_eq!(calls.load(SeqCst), 1);
    });
}

/// - given: `on_cancel` whose body has ended
/// - when: the task is cancelled
/// - then: the hook does not run
#[test]
fn cancel_37_hook_not_after() {
    each_run(|| {
        let calls = AtomicUsize::new(0);
        ecru::cancel_scope(|c| {
            let counted = Counted(&calls);
            let hook = move || {
                let _counted = counted;
                unreachable!("too late");
            };
            // The hook is dropped unrun.
            let value = ecru::on_cancel(hook, || 7);
            assert_eq!((value, calls.load(SeqCst)), (7, 1));
            c.cancel();
        });
        assert_eq!(calls.load(SeqCst), 1);
    });
}

/// - given: a hook that is running on another thread
/// - when: the body ends
/// - then: `on_cancel` returns after the hook
#[test]
fn cancel_38_hook_is_awaited() {
    each_run(|| {
        let (began, release) = (AtomicBool::new(false), AtomicBool::new(false));
        let ended = AtomicBool::new(false);
        let hook = || {
            began.store(true, SeqCst);
            while !release.load(SeqCst) {
                thread::yield_now();
            }
            ended.store(true, SeqCst);
        };
        thread::scope(|threads| {
            ecru::cancel_scope(|c| {
                ecru::on_cancel(hook, || {
                    threads.spawn(move || c.cancel());
                    until(|| began.load(SeqCst));
                    threads.spawn(|| {
                        thread::sleep(ms(1));
                        release.store(true, SeqCst);
                    });
                });
                assert!(ended.load(SeqCst));
            });
        });
    });
}

/// - given: a hook that panics, and one that waits
/// - when: the body is cancelled
/// - then: the canceller does not notice, and the body continues
#[test]
fn cancel_39_hook_panics() {
    each_run(|| {
        ecru::cancel_scope(|c| {
            let value = ecru::on_cancel(
                || quiet_panic("in the hook"),
                || {
                    c.cancel();
                    7
                },
            );
            assert_eq!(value, 7);
        });
        let refused = Mutex::new(String::new());
        ecru::cancel_scope(|c| {
            let hook = || *refused.lock().unwrap() = panic_text(|| ecru::sleep(ms(1)));
            ecru::on_cancel(hook, || c.cancel());
        });
        assert!(refused.lock().unwrap().contains("no_suspend"));
    });
}

/// - given: a task that blocks its only worker in foreign code inside `timeout` and `on_cancel`
/// - when: the deadline passes
/// - then: the hook runs, and ends the foreign code's wait
#[test]
fn cancel_40_hook_despite_foreign_code() {
    each_run(|| {
        let stop = AtomicBool::new(false);
        let before = now();
        let result = ecru::timeout(ms(5), || {
            ecru::on_cancel(
                || stop.store(true, SeqCst),
                || {
                    // This blocks the thread, so no timer of this worker can fire.
                    while !stop.load(SeqCst) {
                        thread::yield_now();
                        assert!(since(before) < Duration::from_secs(30), "the hook has not run");
                    }
                },
            );
            ecru::checkpoint()
        });
        assert!(result.is_err());
        assert!(since(before) >= ms(5));
    });
}
