//! Models of one writer or several readers at a time. A lost wake-up is a deadlock, which loom
//! reports.

use loom::thread;
use std::sync::Arc;
use std::time::Duration;

use super::{RwLock, RwLockWriteGuard};
use crate::base::sync::Checked;
use crate::scope::timeout;

fn zero() -> Arc<RwLock<Checked>> {
    Arc::new(RwLock::new(Checked::new(0)))
}

#[test]
fn writers_are_alone_and_readers_see_what_they_wrote() {
    loom::model(|| {
        let lock = zero();
        let other = Arc::clone(&lock);
        let writer = thread::spawn(move || other.write().add_one());
        let other = Arc::clone(&lock);
        let reader = thread::spawn(move || other.read().get());
        let writing = lock.write();
        writing.add_one();
        let reading = RwLockWriteGuard::downgrade(writing);
        assert!(reading.get() >= 1);
        drop(reading);
        writer.join().unwrap();
        assert!(reader.join().unwrap() <= 2);
        assert_eq!(lock.read().get(), 2);
    });
}

#[test]
fn the_last_reader_of_several_lets_the_writer_in() {
    loom::model(|| {
        let lock = zero();
        let readers = [(); 2].map(|()| {
            let lock = Arc::clone(&lock);
            thread::spawn(move || lock.read().get())
        });
        lock.write().add_one();
        for reader in readers {
            assert!(reader.join().unwrap() <= 1);
        }
    });
}

#[test]
fn a_writer_that_gives_up_lets_those_behind_it_in() {
    loom::model(|| {
        let lock = zero();
        let other = Arc::clone(&lock);
        let hasty = thread::spawn(move || {
            let written = timeout(Duration::from_secs(3600), || {
                other.write_cancellable().map(|value| value.add_one())
            });
            u32::from(matches!(written, Ok(Ok(()))))
        });
        let other = Arc::clone(&lock);
        let reader = thread::spawn(move || other.read().get());
        lock.read().get();
        reader.join().unwrap();
        let written = hasty.join().unwrap();
        assert_eq!(lock.read().get(), written);
    });
}
