//! A model of two threads that take one lock.

use loom::cell::UnsafeCell;
use loom::thread;
use std::sync::Arc;

use super::SpinLock;

#[test]
fn one_thread_at_a_time() {
    loom::model(|| {
        let lock = Arc::new(SpinLock::new(UnsafeCell::new(0)));
        let add =
            |lock: &SpinLock<UnsafeCell<u32>>| lock.lock().with_mut(|value| unsafe { *value += 1 });
        let other = Arc::clone(&lock);
        let thread = thread::spawn(move || add(&other));
        add(&lock);
        thread.join().unwrap();
        lock.lock().with(|value| assert_eq!(unsafe { *value }, 2));
    });
}
