//! `sync::poison`: std's signatures, and its poisoning.

use crate::support::{
    OnDrop, each_run, everywhere, ms, payload_of, quiet_panic, run_on, settle, until,
};
use ecru::sync::poison::{Barrier, Condvar, Mutex, RwLock, RwLockWriteGuard, TryLockError};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// Panics while it holds the result of `hold`, and catches the panic.
fn panic_with<G>(hold: impl FnOnce() -> G) {
    payload_of(|| {
        let _held = hold();
        quiet_panic("with a lock in hand");
    });
}

/// - given: a `poison::Mutex` whose holder panics, on a task and on a thread
/// - when: it is locked, tried, taken apart, and cleared
/// - then: `PoisonError` with the value each time, until it is cleared; a guard taken while
///   unwinding does not poison
#[test]
fn sync_48_poisoned_mutex() {
    everywhere(|side| {
        let mut mutex = Mutex::new(1);
        // A guard of code that does not panic, and one that is taken while unwinding.
        *mutex.lock().unwrap() = 2;
        panic_with(|| OnDrop(|| *mutex.lock().unwrap() += 1));
        assert!(!mutex.is_poisoned());
        assert!(format!("{mutex:?}").contains("poisoned: false"), "{mutex:?}");

        side.both(|| panic_with(|| mutex.lock().unwrap()), || ());
        assert!(mutex.is_poisoned());
        assert_eq!(*mutex.lock().unwrap_err().into_inner(), 3);
        let guard = match mutex.try_lock() {
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            other => panic!("{other:?}"),
        };
        assert!(matches!(mutex.try_lock(), Err(TryLockError::WouldBlock)));
        drop(guard);
        assert_eq!(**mutex.get_mut().unwrap_err().get_ref(), 3);
        mutex.clear_poison();
        assert_eq!(*mutex.lock().unwrap(), 3);
        assert_eq!(*mutex.get_mut().unwrap(), 3);
        panic_with(|| mutex.try_lock().unwrap());
        assert_eq!(mutex.into_inner().unwrap_err().into_inner(), 3);
    });
}

/// - given: a `poison::RwLock`
/// - when: a reader, a downgraded writer, and a writer panic
/// - then: only the last one poisons it
#[test]
fn sync_49_poisoned_rwlock() {
    everywhere(|_| {
        let mut lock = RwLock::new(String::from("a"));
        panic_with(|| lock.read().unwrap());
        assert!(!lock.is_poisoned(), "a reader leaves the value as it was");
        panic_with(|| RwLockWriteGuard::downgrade(lock.write().unwrap()));
        assert!(!lock.is_poisoned(), "a reader by then");
        panic_with(|| lock.write().unwrap());
        assert!(lock.is_poisoned());
        assert_eq!(*lock.read().unwrap_err().into_inner(), "a");
        assert!(matches!(lock.try_read(), Err(TryLockError::Poisoned(_))));
        assert!(matches!(lock.try_write(), Err(TryLockError::Poisoned(_))));
        lock.write().unwrap_err().into_inner().push('b');
        assert!(lock.get_mut().is_err());
        lock.clear_poison();
        let reader = lock.read().unwrap();
        assert!(matches!(lock.try_write(), Err(TryLockError::WouldBlock)));
        assert_eq!(*lock.try_read().unwrap(), "ab");
        drop(reader);
        assert_eq!(lock.into_inner().unwrap(), "ab");
    });
}

/// - given: waits of `poison::{Condvar, Barrier}`
/// - when: their task is cancelled, or a time limit around them passes
/// - then: they continue to wait; their own time limit ends them
#[test]
fn sync_50_poison_waits_on() {
    each_run(|| {
        let (lock, news, gate) = (Mutex::new(false), Condvar::new(), Barrier::new(2));
        let waiting = AtomicBool::new(false);
        ecru::scope(|s| {
            let waiter = s.spawn(|| {
                let guard = lock.lock().unwrap();
                waiting.store(true, SeqCst);
                let told = news.wait_while(guard, |told| !*told).unwrap();
                assert!(ecru::is_cancelled() && *told);
                drop(told);
                !gate.wait().is_leader()
            });
            // It holds the lock from then on until it waits.
            until(|| waiting.load(SeqCst));
            drop(lock.lock().unwrap());
            waiter.cancel();
            settle();
            *lock.lock().unwrap() = true;
            news.notify_all();
            settle();
            gate.wait();
            waiter.join().unwrap();
        });
    });
    everywhere(|_| {
        let (lock, news) = (Mutex::new(()), Condvar::new());
        let limited = ecru::timeout(ms(1), || {
            let (guard, result) = news.wait_timeout(lock.lock().unwrap(), ms(5)).unwrap();
            drop(guard);
            result.timed_out()
        });
        assert_eq!(limited.ok(), Some(true));
        let guard = lock.lock().unwrap();
        let (guard, result) = news.wait_timeout_while(guard, ms(2), |()| true).unwrap();
        assert!(result.timed_out());
        let (_, result) = news.wait_timeout_while(guard, Duration::MAX, |()| false).unwrap();
        assert!(!result.timed_out());
        assert!(Barrier::new(1).wait().is_leader());
    });
}

/// - given: a wait for a condition
/// - when: the notifier panics while it holds the lock
/// - then: `PoisonError` with the guard
#[test]
fn sync_51_poisoned_while_waiting() {
    everywhere(|side| {
        let (lock, news, begun) = (Mutex::new(false), Condvar::new(), AtomicBool::new(false));
        let (told, ()) = side.both(
            || {
                let guard = lock.lock().unwrap();
                begun.store(true, SeqCst);
                *news.wait_while(guard, |told| !*told).unwrap_err().into_inner()
            },
            || {
                // The waiter holds the lock by then, and releases it only to wait.
                until(|| begun.load(SeqCst));
                payload_of(|| {
                    let mut guard = lock.lock().unwrap();
                    *guard = true;
                    news.notify_all();
                    quiet_panic("after the notification");
                });
            },
        );
        assert!(told);
    });
}

/// - given: a task parked in the middle of unwinding
/// - when: a sibling on the same worker unlocks one mutex, and panics while it holds another after
///   the task has ended
/// - then: the second mutex is poisoned
#[test]
fn sync_52_poison_is_of_the_one_that_panics() {
    run_on(1, || {
        let (own, other) = (Mutex::new(0), Mutex::new(0));
        let (parked, release) = (AtomicBool::new(false), AtomicBool::new(false));
        ecru::scope(|s| {
            let sibling_holds = other.lock().unwrap();
            let unwinding = s.spawn(|| {
                let _parks = OnDrop(|| {
                    ecru::shield(|| {
                        parked.store(true, SeqCst);
                        until(|| release.load(SeqCst));
                    });
                });
                quiet_panic("the first");
            });
            until(|| parked.load(SeqCst));
            drop(sibling_holds);
            *other.lock().unwrap() += 1;
            release.store(true, SeqCst);
            assert!(unwinding.join().is_err());
        });
        assert!(!other.is_poisoned());
        panic_with(|| own.lock().unwrap());
        assert!(own.is_poisoned());
    });
}
