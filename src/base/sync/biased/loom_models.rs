//! Models of the owner against a thread that revokes its bias. Both fences are full fences here.
//! The kernel guarantees that `membarrier` has that effect.

use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;

use super::BiasedLock;
use crate::base::sync::atomic::Ordering;

struct Guarded(UnsafeCell<u32>);

// The value is accessed only under the lock.
unsafe impl Send for Guarded {}

impl Guarded {
    /// Loom reports an error if another thread accesses the value at the same time.
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
