//! Mutexes: one holder at a time, the order of waiters, and cancelled waits.

use super::{Log, cancelled, everywhere};
use crate::support::{OnDrop, each_run, forever, ms, quiet_panic, run_on, settle, until};
use ecru::sync::{Latch, Mutex, RwLock, TryLockError};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

/// - given: a `Mutex`, tasks on one and on two workers, and plain threads
/// - when: each adds to its value many times
/// - then: nothing is lost
#[test]
fn sync_01_mutex_excludes() {
    let sum = Mutex::new(0);
    everywhere(8, || (0..250).for_each(|_| *sum.lock() += 1));
    // 8 tasks on one worker, 8 on two, 8 on two beside 8 threads.
    assert_eq!(sum.into_inner(), 4 * 8 * 250);
}

/// - given: a task that waits while it holds the lock
/// - when: others lock it
/// - then: they park, their worker runs other tasks, and they get the lock in the order in which
///   they came
#[test]
fn sync_02_mutex_across_waits() {
    run_on(1, || {
        let (lock, gate, log) = (Mutex::new(()), Latch::new(1), Log::default());
        ecru::scope(|s| {
            let (lock, gate, log) = (&lock, &gate, &log);
            for name in ["first", "second", "third"] {
                s.spawn_local(move || {
                    let _guard = lock.lock();
                    log.note(name);
                    gate.wait().unwrap();
                    log.note("done");
                });
                // It has the lock, or is in the queue behind those before it.
                settle();
            }
            log.note("the worker goes on");
            gate.count_down();
        });
        log.assert(&["first", "the worker goes on", "done", "second", "done", "third", "done"]);
    });
}

/// - given: a cancelled task, and a lock that is free, or held
/// - when: it locks
/// - then: it gets the lock, and the next wait is cancelled
#[test]
fn sync_03_lock_is_no_cancel_point() {
    each_run(|| {
        let lock = Mutex::new(0);
        cancelled(|| {
            *lock.lock() += 1;
            assert!(ecru::checkpoint().is_err());
        });
        ecru::scope(|s| {
            let guard = lock.lock();
            let task = s.spawn(|| {
                cancelled(|| *lock.lock() += 1);
                let until_asked = forever();
                *lock.lock() += 1;
                (until_asked, ecru::checkpoint().is_err())
            });
            settle();
            assert!(!task.is_finished());
            drop(guard);
            until(|| *lock.lock() == 2);
            task.cancel();
            assert!(task.join().unwrap().1);
        });
        assert_eq!(lock.into_inner(), 3);
    });
}

/// - given: a task that unwinds
/// - when: a destructor locks a lock that another task holds
/// - then: it waits, and gets the lock
#[test]
fn sync_04_lock_while_unwinding() {
    each_run(|| {
        let lock = Mutex::new(0);
        ecru::scope(|s| {
            let guard = lock.lock();
            let task = s.spawn(|| {
                let _lock_late = OnDrop(|| *lock.lock() += 1);
                quiet_panic("unwinding");
            });
            settle();
            assert!(!task.is_finished());
            drop(guard);
            assert!(task.join().is_err());
        });
        assert_eq!(lock.into_inner(), 1);
    });
}

/// - given: tasks that wait for a lock
/// - when: one of them is cancelled
/// - then: it gets `Cancelled`, and the next one gets the lock; a cancelled task does not get the
///   lock even if it is free
#[test]
fn sync_05_lock_cancellable() {
    each_run(|| {
        let lock = Mutex::new(());
        assert!(cancelled(|| lock.lock_cancellable().is_err()));
        ecru::scope(|s| {
            let guard = lock.lock();
            let first = s.spawn(|| lock.lock_cancellable().map(drop));
            settle();
            let second = s.spawn(|| lock.lock_cancellable().map(drop));
            settle();
            first.cancel();
            assert!(!matches!(first.join(), Ok(Ok(()))), "while the lock is held");
            assert!(!second.is_finished());
            drop(guard);
            assert_eq!(second.join().unwrap(), Ok(()));
        });
        // The last waiter has left, so the lock wakes no waiter any more.
        let guard = lock.lock();
        let gone = ecru::timeout(ms(1), || lock.lock_cancellable().map(drop));
        assert!(gone.is_err());
        drop(guard);
        assert!(lock.try_lock().is_ok());
    });
}

/// - given: a lock that is held, or free; a cancelled task, or `no_suspend`
/// - when: `try_lock` is called
/// - then: an error, or the lock, at once
#[test]
fn sync_06_try_lock() {
    each_run(|| {
        let lock = Mutex::new(7);
        let refused = |lock: &Mutex<i32>| lock.try_lock().map(|_| ()).unwrap_err();
        cancelled(|| {
            ecru::no_suspend(|| {
                let guard = lock.try_lock().unwrap();
                assert_eq!(refused(&lock), TryLockError::WouldBlock);
                assert_eq!(*guard, 7);
            });
            assert_eq!(*lock.try_lock().unwrap(), 7);
        });
    });
    assert_eq!(TryLockError::WouldBlock.to_string(), "the lock cannot be acquired without waiting");
}

/// - given: a task that panics while it holds the lock
/// - when: another locks it
/// - then: it gets the value as the first task left it
#[test]
fn sync_07_no_poison() {
    each_run(|| {
        let lock = Mutex::new(0);
        let both = RwLock::new(0);
        ecru::scope(|s| {
            let task = s.spawn(|| {
                let (mut guard, mut writing) = (lock.lock(), both.write());
                (*guard, *writing) = (7, 8);
                quiet_panic("with the locks");
            });
            assert!(task.join().is_err());
            assert_eq!((*lock.lock(), *both.read()), (7, 8));
        });
    });
}

/// - given: a task that locks again as soon as it has unlocked
/// - when: another waits
/// - then: it gets its turn after at most two rounds
#[test]
fn sync_08_nobody_is_overtaken_twice() {
    run_on(1, || {
        let (lock, rounds) = (Mutex::new(()), AtomicUsize::new(0));
        let overtaken = ecru::scope(|s| {
            let greedy = s.spawn(|| {
                // Unlocks and locks again without a pause, so a woken waiter comes too late.
                while !ecru::is_cancelled() {
                    let _guard = lock.lock();
                    rounds.fetch_add(1, SeqCst);
                    let _ = ecru::yield_now();
                }
            });
            until(|| rounds.load(SeqCst) >= 3);
            let before = rounds.load(SeqCst);
            let waiting = lock.lock();
            let overtaken = rounds.load(SeqCst) - before;
            greedy.cancel();
            drop(waiting);
            overtaken
        });
        assert!(overtaken <= 2, "{overtaken}");
    });
}
