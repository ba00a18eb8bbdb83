//! Guards of parts of values, guards that own their lock, and code that runs once.

use super::cancelled;
use crate::support::{
    Counted, each_run, everywhere, panic_text, payload_of, quiet_panic, run_on, settle,
};
use ecru::sync::{
    MappedMutexGuard, Mutex, MutexGuard, Once, RwLock, RwLockReadGuard, RwLockWriteGuard,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

/// - given: guards of a `Mutex` and of an `RwLock`
/// - when: they are mapped to a part, or `filter_map` finds none, or its function panics
/// - then: the mapped guard gives access to the part, and keeps the lock until it is dropped; the
///   guard is returned; the lock is released
#[test]
fn sync_78_mapped_guards() {
    each_run(|| {
        let mutex = Mutex::new((1, String::from("one")));
        let mut name: MappedMutexGuard<'_, str> =
            MutexGuard::map(mutex.lock(), |pair| pair.1.as_mut_str());
        name.make_ascii_uppercase();
        assert_eq!(
            (format!("{name} {name:?}"), mutex.try_lock().is_err()),
            ("ONE \"ONE\"".into(), true)
        );
        drop(name);
        let guard = MutexGuard::filter_map(mutex.lock(), |_| None::<&mut u8>).unwrap_err();
        assert!(guard.1 == "ONE" && mutex.try_lock().is_err());
        drop(guard);
        let filtered = MutexGuard::filter_map(mutex.lock(), |pair| Some(&mut pair.0)).unwrap();
        assert!(*filtered == 1 && mutex.try_lock().is_err());
        drop(filtered);
        payload_of(|| MutexGuard::map(mutex.lock(), |_| -> &mut u8 { quiet_panic("no part") }));
        assert!(mutex.try_lock().is_ok());

        let rwlock = RwLock::new([1, 2]);
        let first = RwLockReadGuard::map(rwlock.read(), |both| &both[0]);
        let both = RwLockReadGuard::filter_map(rwlock.read(), |_| None::<&u8>).unwrap_err();
        assert!(*first == both[0] && rwlock.try_write().is_err() && rwlock.try_read().is_ok());
        drop((first, both));
        let mut second = RwLockWriteGuard::map(rwlock.write(), |both| &mut both[1]);
        *second = 3;
        assert!(rwlock.try_read().is_err() && format!("{second}") == "3");
        drop(second);
        let unmapped = RwLockWriteGuard::filter_map(rwlock.write(), |_| None::<&mut u8>);
        assert!(rwlock.try_read().is_err());
        drop(unmapped);
        assert_eq!(*rwlock.read(), [1, 3]);
    });
}

/// - given: a task that waits for a lock
/// - when: a mapped or an owned guard of it is dropped
/// - then: the task gets the lock
#[test]
fn sync_79_guards_pass_the_lock_on() {
    run_on(1, || {
        let (mutex, rwlock) = (Arc::new(Mutex::new((0, 0))), Arc::new(RwLock::new((0, 0))));
        ecru::scope(|s| {
            let locks = || s.spawn_local(|| mutex.lock().0 += 1);
            let writes = || s.spawn_local(|| rwlock.write().0 += 1);
            let mut mapped = MutexGuard::map(mutex.lock(), |pair| &mut pair.1);
            let waiting = locks();
            settle();
            *mapped += 1;
            assert!(!waiting.is_finished());
            drop(mapped);
            waiting.join().unwrap();
            let owned = Arc::clone(&mutex).lock_owned();
            let waiting = locks();
            settle();
            assert!(owned.0 == 1 && !waiting.is_finished());
            drop(owned);
            waiting.join().unwrap();
            let mapped = RwLockReadGuard::map(rwlock.read(), |pair| &pair.1);
            let waiting = writes();
            settle();
            assert!(!waiting.is_finished() && *mapped == 0);
            drop(mapped);
            waiting.join().unwrap();
            let owned = Arc::clone(&rwlock).write_owned();
            let waiting = writes();
            settle();
            assert!(owned.0 == 1 && !waiting.is_finished());
            drop(owned);
            waiting.join().unwrap();
        });
        assert_eq!((*mutex.lock(), *rwlock.read()), ((2, 1), (2, 0)));
    });
}

/// - given: owned guards of a `Mutex` and of an `RwLock`, whose other owners have gone
/// - when: they are used and dropped, also by a panic, or the lock is taken already
/// - then: they act as the guards that borrow do; the last of them drops the value
#[test]
fn sync_80_owned_guards() {
    each_run(|| {
        let drops = AtomicUsize::new(0);
        let mutex = Arc::new(Mutex::new((1, Counted(&drops))));
        let mut guard = Arc::clone(&mutex).lock_owned();
        guard.0 = 2;
        assert!(Arc::clone(&mutex).try_lock_owned().is_err());
        drop(mutex);
        assert_eq!((guard.0, drops.load(SeqCst)), (2, 0));
        drop(guard);
        assert_eq!(drops.load(SeqCst), 1);

        let rwlock = Arc::new(RwLock::new(1));
        let readers = [(); 2].map(|()| Arc::clone(&rwlock).read_owned());
        assert!(Arc::clone(&rwlock).try_write_owned().is_err());
        assert!(Arc::clone(&rwlock).try_read_owned().is_ok_and(|value| *value == 1));
        drop(readers);
        payload_of(|| {
            let mut guard = Arc::clone(&rwlock).write_owned();
            *guard += 1;
            assert!(Arc::clone(&rwlock).try_read_owned().is_err());
            quiet_panic("with a guard")
        });
        let guard = Arc::clone(&rwlock).try_write_owned().unwrap();
        assert_eq!(format!("{guard} {guard:?}"), "2 2");
        drop(guard);
        for text in [
            panic_text(|| ecru::no_suspend(|| drop(Arc::clone(&rwlock).read_owned()))),
            panic_text(|| ecru::no_suspend(|| drop(Arc::new(Mutex::new(1)).lock_owned()))),
        ] {
            assert!(text.contains("no_suspend"), "{text}");
        }
        // Not a cancellation point.
        cancelled(|| *Arc::clone(&rwlock).write_owned() += 1);
        assert_eq!(*rwlock.read(), 3);
    });
}

/// - given: a `Once`, and callers on tasks and threads
/// - when: they call it; its closure waits, or panics, or calls it again
/// - then: one closure runs to its end, and all see what it did; the next caller's runs; it panics
#[test]
fn sync_81_once() {
    static ONCE: Once = Once::new();
    assert!(!ONCE.is_completed() && format!("{ONCE:?}") == "Once { completed: false }");
    everywhere(|side| {
        let (once, runs, ends) = (Once::new(), AtomicUsize::new(0), AtomicUsize::new(0));
        let (_, ()) = side.many(
            4,
            |number| {
                if number == 0 {
                    once.wait();
                } else {
                    once.call_once(|| {
                        runs.fetch_add(1, SeqCst);
                        ecru::shield(ecru::yield_now).unwrap();
                        ends.fetch_add(1, SeqCst);
                    });
                }
                assert!(once.is_completed() && ends.load(SeqCst) == 1);
            },
            || (),
        );
        assert_eq!(runs.load(SeqCst), 1);
        ecru::no_suspend(|| once.call_once(|| unreachable!("it has run")));

        let once = Once::default();
        let failed = catch_unwind(AssertUnwindSafe(|| once.call_once(|| quiet_panic("failed"))));
        assert!(failed.is_err() && !once.is_completed());
        let text = panic_text(|| once.call_once(|| once.call_once(|| ())));
        assert!(!text.is_empty() && !once.is_completed());
        cancelled(|| once.call_once(|| ()));
        assert!(once.is_completed());
    });
}
