//! `unblock`: blocking closures on threads of their own.

use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;

use super::DEPTH;
use crate::support::{each_run, ms, panic_text, quiet_panic, run_on, until};

/// - given: a task
/// - when: it runs a closure over its locals by `unblock`
/// - then: it gets the value, and meanwhile its worker runs other tasks
#[test]
fn task_21_unblock_borrows() {
    run_on(1, || {
        let mut words = vec!["undyed"];
        let meanwhile = AtomicBool::new(false);
        ecru::scope(|s| {
            s.spawn(|| meanwhile.store(true, SeqCst));
            let here = thread::current().id();
            let there = ecru::unblock(|| {
                words.push("cloth");
                while !meanwhile.load(SeqCst) {
                    thread::yield_now();
                }
                thread::current().id()
            });
            assert_ne!(there, here);
        });
        assert_eq!(words, ["undyed", "cloth"]);
    });
}

/// - given: a cancelled task
/// - when: it calls `unblock`
/// - then: the closure is run to its end and its value is returned
#[test]
fn task_22_unblock_is_no_cancel_point() {
    each_run(|| {
        ecru::cancel_scope(|c| {
            c.cancel();
            assert_eq!(ecru::unblock(|| 5), 5);
        });
        ecru::cancel_scope(|c| {
            let value = ecru::unblock(|| {
                c.cancel();
                thread::sleep(ms(1));
                5
            });
            assert_eq!(value, 5);
        });
    });
}

/// - given: a task
/// - when: its `unblock` closure panics
/// - then: the panic is resumed in the task
#[test]
fn task_23_unblock_panics() {
    each_run(|| {
        assert_eq!(panic_text(|| ecru::unblock(|| quiet_panic("elsewhere"))), "elsewhere");
    });
}

/// - given: a cancelled task with a bound local
/// - when: its `unblock` closure calls `is_cancelled` and reads the local
/// - then: it sees what the task sees
#[test]
fn task_24_unblock_keeps_the_task() {
    each_run(|| {
        DEPTH.scope(4, || {
            let seen = ecru::cancel_scope(|c| {
                let before = ecru::unblock(ecru::is_cancelled);
                c.cancel();
                (before, ecru::unblock(|| (ecru::is_cancelled(), DEPTH.get())))
            });
            assert_eq!(seen, (false, (true, 4)));
        });
        // The next closure on that thread belongs to another task.
        assert_eq!(ecru::unblock(|| (ecru::is_cancelled(), DEPTH.try_with(|_| ()))), (false, None));
    });
}

/// - given: a plain thread
/// - when: it calls `unblock`
/// - then: the closure runs inline
#[test]
fn task_25_unblock_on_a_thread() {
    let here = thread::current().id();
    assert_eq!(ecru::unblock(|| thread::current().id()), here);
}

/// - given: more `unblock` closures than the pool has threads, all waiting for a task that needs
///   one more
/// - when: they run
/// - then: all of them end
#[test]
fn task_26_unblock_grows_slow() {
    /// One more than the pool usually has threads.
    const CLOSURES: usize = 513;
    run_on(1, || {
        let waiting = AtomicUsize::new(0);
        ecru::scope(|s| {
            let last = s.spawn(|| {
                until(|| waiting.load(SeqCst) >= 512);
                ecru::unblock(|| 5)
            });
            ecru::scope(|inner| {
                for _ in 0..CLOSURES {
                    inner.spawn(|| {
                        ecru::unblock(|| {
                            waiting.fetch_add(1, SeqCst);
                            while !last.is_finished() {
                                assert!(ecru::sleep(ms(5)).is_ok());
                            }
                        });
                    });
                }
            });
            assert_eq!(last.join().unwrap(), 5);
        });
    });
}
