//! The owner against a thief. The two fences are both full ones here: that `membarrier` makes them so is the kernel's promise.

use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;

use super::BiasedLock;
use crate::base::sync::atomic::Ordering;

struct Guarded(UnsafeCell<u32>);

// Under the lock.
unsafe impl Send for Guarded {}

impl Guarded {
    /// Loom objects if somebody else is at it.
    fn add(&self) {
        self.0.with_mut(|value| unsafe { *value += 1 });
    }
}

#[test]
fn an_owner_and_a_thief_are_never_both_inside() {
    loom::model(|| {
        let lock = Arc::new(BiasedLock::new(Guarded(UnsafeCell::new(0))));
        lock.owner.store(1, Ordering::Relaxed);
        let owners = Arc::clone(&lock);
        let owner = thread::spawn(move || {
            owners.lock_as(1).add();
            owners.lock_as(1).add();
        });
        lock.lock_as(2).add();
        lock.lock_as(2).add();
        owner.join().unwrap();
        lock.lock_as(1).0.with(|value| assert_eq!(unsafe { *value }, 4));
    });
}

#[test]
fn two_thieves() {
    loom::model(|| {
        let lock = Arc::new(BiasedLock::new(Guarded(UnsafeCell::new(0))));
        lock.owner.store(1, Ordering::Relaxed);
        let threads = [1, 2].map(|number| {
            let lock = Arc::clone(&lock);
            thread::spawn(move || lock.lock_as(number).add())
        });
        lock.lock_as(3).add();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        lock.lock_as(1).0.with(|value| assert_eq!(unsafe { *value }, 3));
    });
}
