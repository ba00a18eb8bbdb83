//! Runs that fail while their tasks are in the worst places.

use super::{SECOND, report};
use crate::common::{OnDrop, alone, quiet_panic};
use ecru::channel;
use ecru::sim::{self, Failure, Simulation};
use ecru::sync::{Condvar, Mutex, Notify, OnceLock, RwLock, Semaphore};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

#[test]
fn a_deadlock_whose_destructors_lock_while_they_unwind() {
    // The wait that is ended by force panics. The destructors of the task take another lock, which
    // another task of the deadlock holds. A panic there would end the process.
    alone("simulation::failures::a_deadlock_whose_destructors_lock_while_they_unwind", || {
        let (a, b) = (Mutex::new(1), Mutex::new(2));
        let dropped = AtomicUsize::new(0);
        let failed = report(1, || {
            ecru::scope(|s| {
                s.spawn(|| {
                    let _held = a.lock();
                    sim::settle();
                    // The other task releases it, once it is unwound in its turn.
                    let _cleans_up = OnDrop(|| {
                        *b.lock() += 1;
                        dropped.fetch_add(1, SeqCst);
                    });
                    drop(b.lock());
                });
                s.spawn(|| {
                    let _held = b.lock();
                    sim::settle();
                    drop(a.lock());
                });
            });
        });
        assert_eq!(dropped.load(SeqCst), 1);
        assert!(matches!(failed.result, Err(Failure::Deadlock(_))), "{failed}");
    });
}

#[test]
fn a_failed_run_whose_destructors_open_scopes_and_spawn() {
    let ended = AtomicUsize::new(0);
    let failed = report(1, || {
        let never = Notify::new();
        ecru::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    let _acts = OnDrop(|| {
                        ecru::scope(|s| {
                            s.spawn(|| drop(ecru::sleep(SECOND)));
                            s.spawn(|| ecru::shield(|| drop(ecru::sleep(SECOND))));
                        });
                        let _ = ecru::fs::write("f", "x");
                        ended.fetch_add(1, SeqCst);
                    });
                    let _ = never.wait();
                });
            }
        });
    });
    assert!(matches!(failed.result, Err(Failure::Deadlock(_))), "{failed}");
    assert_eq!(ended.load(SeqCst), 3);
}

#[test]
fn a_failed_run_that_spawns_for_ever() {
    alone("simulation::failures::a_failed_run_that_spawns_for_ever", || {
        fn again() {
            if let Ok(task) = std::panic::catch_unwind(|| ecru::spawn(again)) {
                let _ = ecru::yield_now();
                drop(task);
            }
        }
        let failed = Simulation::new(1).max_steps(500).run(|| {
            again();
            ecru::sleep(SECOND)
        });
        assert!(failed.result.is_err(), "{failed}");
    });
}

#[test]
fn a_catch_around_each_wait_does_not_keep_a_failed_run() {
    alone("simulation::failures::a_catch_around_each_wait_does_not_keep_a_failed_run", || {
        let lock = Mutex::new(());
        let failed = report(1, || {
            let _held = lock.lock();
            ecru::scope(|s| {
                s.spawn(|| {
                    for _ in 0..50 {
                        let wait = std::panic::AssertUnwindSafe(|| drop(lock.lock()));
                        let _ = std::panic::catch_unwind(wait);
                    }
                });
            });
        });
        assert!(matches!(failed.result, Err(Failure::Deadlock(_))), "{failed}");
    });
}

#[test]
fn every_kind_of_wait_ends_with_a_failed_run() {
    let ended = AtomicUsize::new(0);
    let failed = report(1, || {
        let (lock, rw, once) = (Mutex::new(()), RwLock::new(()), OnceLock::<u32>::new());
        let (news, permits, lazy) = (Condvar::new(), Semaphore::new(0), Notify::new());
        let (tx, rx) = channel::bounded::<u32>(0);
        let barrier = ecru::sync::Barrier::new(99);
        let count = || OnDrop(|| drop(ended.fetch_add(1, SeqCst)));
        let (_held, _also) = (lock.lock(), rw.read());
        let spare = Mutex::new(());
        ecru::scope(|s| {
            s.spawn(|| (count(), drop(lock.lock())));
            s.spawn(|| (count(), drop(rw.write())));
            s.spawn(|| (count(), *once.wait()));
            s.spawn(|| {
                let _count = count();
                let mut guard = spare.lock();
                let _ = news.wait(&mut guard);
            });
            s.spawn(|| (count(), drop(permits.acquire())));
            s.spawn(|| (count(), drop(lazy.wait())));
            s.spawn(|| (count(), ecru::shield(|| drop(rx.recv()))));
            s.spawn(|| (count(), drop(barrier.wait())));
            s.spawn(|| (count(), ecru::unblock(|| drop(lazy.wait()))));
            s.spawn(|| (count(), drop(ecru::block_on(std::future::pending::<()>()))));
            s.spawn(|| {
                let _count = count();
                ecru::scope(|s| drop(s.spawn(|| ecru::shield(|| drop(lazy.wait())))));
            });
            s.spawn(|| {
                let _count = count();
                let mut items = ecru::coroutine::Generator::<u32>::new(|_| {
                    let _ = Notify::new().wait();
                });
                items.next();
            });
            let _ = lazy.wait();
        });
        drop(tx);
    });
    assert!(matches!(failed.result, Err(Failure::Deadlock(_))), "{failed}");
    assert_eq!(ended.load(SeqCst), 12);
}

#[test]
fn once_and_lazy_cells_that_wait_for_themselves() {
    use ecru::sync::LazyLock;
    static LAZY: LazyLock<u32> = LazyLock::new(|| {
        let _ = ecru::sleep(60 * SECOND);
        7
    });
    let failed = report(1, || {
        ecru::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| *LAZY);
            }
        });
    });
    assert!(failed.result.is_ok(), "{failed}");
    // A run that is cut in the middle of an initialisation of a static.
    static CUT: OnceLock<u32> = OnceLock::new();
    let cut = Simulation::new(1).max_time(SECOND).run(|| {
        ecru::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    CUT.get_or_init(|| {
                        ecru::sleep(60 * SECOND).unwrap();
                        1
                    });
                });
            }
        });
    });
    assert!(matches!(cut.result, Err(Failure::OutOfTime(_))), "{cut}");
    assert_eq!(*CUT.get_or_init(|| 2), 2);
}

#[test]
fn display_and_debug_of_everything_that_failed() {
    let failed = report(1, || {
        ecru::scope(|s| {
            let name = "näme\n\u{1b}[31m".repeat(500);
            s.builder().name(name).spawn(|| Notify::new().wait());
        });
    });
    let text = format!("{failed} {:?} {}", failed.result, failed.trace);
    assert!(text.len() < 1 << 20);
    let Err(failure) = failed.result else { panic!() };
    let boxed: Box<dyn std::error::Error + Send + Sync> = match failure {
        Failure::Deadlock(tree) => tree.to_string().into(),
        other => panic!("{other}"),
    };
    assert!(!boxed.to_string().is_empty());
    let unwound = std::panic::catch_unwind(|| report(1, || quiet_panic("text")).unwrap());
    assert!(crate::common::text_of(&*unwound.unwrap_err()).contains("text"));
}

#[test]
fn the_first_failure_is_the_one_that_is_reported() {
    let failed = report(1, || {
        sim::invariant("first", || sim::elapsed() < SECOND);
        ecru::scope(|s| {
            s.spawn(|| {
                if ecru::sleep(60 * SECOND).is_err() {
                    quiet_panic("second");
                }
            });
            let _ = ecru::sleep(SECOND);
            let _ = ecru::sleep(SECOND);
        });
    });
    assert!(
        matches!(&failed.result, Err(Failure::Invariant { name }) if name == "first"),
        "{failed}"
    );
}

#[test]
fn a_daemon_and_a_detached_task_that_never_end() {
    let failed = report(1, || {
        drop(ecru::spawn(|| drop(Notify::new().wait())));
        7
    });
    // `spawn`ed tasks are awaited when the run ends.
    assert!(matches!(failed.result, Err(Failure::Deadlock(_))), "{failed}");
}
