//! Locks that readers share and a writer holds alone.

use super::{Log, cancelled, everywhere};
use crate::support::{each_run, run_on, settle, until};
use ecru::sync::{Barrier, RwLock, RwLockWriteGuard};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;

/// - given: an `RwLock`, tasks on one and on two workers, and plain threads
/// - when: they read and write
/// - then: readers overlap, and a writer overlaps with no other task
#[test]
fn sync_11_readers_together_writers_alone() {
    let lock = RwLock::new(0);
    let (readers, writers) = (AtomicUsize::new(0), AtomicUsize::new(0));
    everywhere(6, || {
        for round in 0..50 {
            if round % 5 == 0 {
                let mut value = lock.write();
                assert_eq!(writers.fetch_add(1, SeqCst), 0);
                assert_eq!(readers.load(SeqCst), 0);
                *value += 1;
                ecru::yield_now().unwrap();
                writers.fetch_sub(1, SeqCst);
            } else {
                let _value = lock.read();
                readers.fetch_add(1, SeqCst);
                assert_eq!(writers.load(SeqCst), 0);
                ecru::yield_now().unwrap();
                readers.fetch_sub(1, SeqCst);
            }
        }
    });
    assert_eq!(lock.into_inner(), 4 * 6 * 10);
    let lock = RwLock::new(());
    each_run(|| {
        let together = Barrier::new(2);
        ecru::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    let _reading = lock.read();
                    together.wait().unwrap();
                });
            }
        });
    });
}

/// - given: a reader, followed by a waiting writer, reader and writer
/// - when: the first reader leaves
/// - then: the others follow in that order; no later task gets in before them
#[test]
fn sync_12_first_come_first_served() {
    run_on(1, || {
        let (lock, log) = (RwLock::new(()), Log::default());
        ecru::scope(|s| {
            let (lock, log) = (&lock, &log);
            let first = lock.read();
            for name in ["writer", "reader", "reader", "second writer"] {
                s.spawn_local(move || {
                    if name.contains("writer") {
                        let _writing = lock.write();
                        log.note(name);
                        settle();
                        log.note("written");
                    } else {
                        let _reading = lock.read();
                        log.note(name);
                        settle();
                    }
                });
                settle();
            }
            log.assert(&[]);
            assert!(lock.try_read().is_err(), "before a writer who waits");
            drop(first);
        });
        log.assert(&["writer", "written", "reader", "reader", "second writer", "written"]);
    });
}

/// - given: a reader, a waiting writer, and a reader behind it
/// - when: the writer is cancelled
/// - then: the second reader reads beside the first
#[test]
fn sync_13_a_writer_that_leaves() {
    each_run(|| {
        let lock = RwLock::new(());
        ecru::scope(|s| {
            let first = lock.read();
            let writer = s.spawn(|| lock.write_cancellable().map(drop));
            until(|| lock.try_read().is_err());
            let second = s.spawn(|| lock.read_cancellable().map(drop));
            settle();
            writer.cancel();
            assert_eq!(second.join().unwrap(), Ok(()));
            assert!(writer.join().unwrap().is_err());
            drop(first);
            assert!(lock.try_write().is_ok());
        });
    });
}

/// - given: an `RwLock`
/// - when: `try_read`, `try_write` and `downgrade` are called
/// - then: they act as their names say; a cancelled task may call them, and also `read` and `write`
#[test]
fn sync_14_rwlock_without_waiting() {
    each_run(|| {
        let lock = RwLock::new(1);
        cancelled(|| {
            let reading = lock.try_read().unwrap();
            assert!(lock.try_write().is_err());
            assert_eq!(*reading + *lock.read(), 2);
            assert!(lock.read_cancellable().is_err() && lock.write_cancellable().is_err());
            drop(reading);
            *lock.write() += 1;
            let writing = lock.try_write().unwrap();
            assert!(lock.try_read().is_err());
            let reading = RwLockWriteGuard::downgrade(writing);
            assert_eq!((*reading, *lock.try_read().unwrap()), (2, 2));
        });
        // Readers may enter beside it, and a writer may not.
        ecru::scope(|s| {
            let writing = lock.write();
            let reader = s.spawn(|| *lock.read());
            settle();
            let reading = RwLockWriteGuard::downgrade(writing);
            assert_eq!(reader.join().unwrap(), 2);
            assert!(lock.try_write().is_err());
            drop(reading);
            assert!(lock.try_write().is_ok());
        });
    });
}
