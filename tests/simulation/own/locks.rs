//! Locks: one holder at a time, and free afterwards.

use super::everywhere;
use ecru::sync::{Mutex, RwLock, RwLockWriteGuard};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::Relaxed};

#[test]
fn a_mutex_has_one_holder_and_is_free_afterwards() {
    everywhere(|| {
        let (mutex, done) = (Mutex::new(0), AtomicU32::new(0));
        ecru::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    let mut guard = mutex.lock();
                    let read = *guard;
                    // A request does not keep the task from going on to the write.
                    let _ = ecru::yield_now();
                    *guard = read + 1;
                    done.fetch_add(1, Relaxed);
                });
            }
        });
        assert_eq!(*mutex.try_lock().expect("a lock is left behind"), done.into_inner());
    });
}

#[test]
fn a_cancelled_wait_for_a_mutex_leaves_no_trace() {
    everywhere(|| {
        let (mutex, done) = (Mutex::new(0), AtomicU32::new(0));
        ecru::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    let Ok(mut guard) = mutex.lock_cancellable() else { return };
                    let read = *guard;
                    let _ = ecru::yield_now();
                    *guard = read + 1;
                    done.fetch_add(1, Relaxed);
                });
            }
        });
        assert_eq!(*mutex.try_lock().expect("a lock is left behind"), done.into_inner());
    });
}

#[test]
fn a_writer_is_alone() {
    everywhere(|| {
        let lock = RwLock::new(());
        let inside = AtomicI32::new(0);
        ecru::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    let Ok(_guard) = lock.read_cancellable() else { return };
                    assert!(inside.fetch_add(1, Relaxed) >= 0, "a reader meets a writer");
                    let _ = ecru::yield_now();
                    inside.fetch_sub(1, Relaxed);
                });
                s.spawn(|| {
                    let Ok(guard) = lock.write_cancellable() else { return };
                    assert_eq!(inside.swap(-10, Relaxed), 0, "a writer is not alone");
                    let _ = ecru::yield_now();
                    inside.store(1, Relaxed);
                    let _guard = RwLockWriteGuard::downgrade(guard);
                    let _ = ecru::yield_now();
                    inside.fetch_sub(1, Relaxed);
                });
            }
        });
        assert!(lock.try_write().is_ok(), "a lock is left behind");
    });
}

#[test]
fn a_holder_that_panics_releases() {
    everywhere(|| {
        let mutex = Mutex::new(0);
        let scope = AssertUnwindSafe(|| {
            ecru::scope(|s| {
                s.spawn(|| {
                    let Ok(_guard) = mutex.lock_cancellable() else { return };
                    let _ = ecru::yield_now();
                    resume_unwind(Box::new("on purpose"));
                });
                s.spawn(|| drop(mutex.lock_cancellable()));
            });
        });
        let panicked = catch_unwind(scope).is_err();
        assert!(mutex.try_lock().is_ok(), "a lock is left behind after a panic: {panicked}");
    });
}
