//! A model of two threads that take one lock.

use loom::thread;
use std::sync::Arc;

use super::SpinLock;
use crate::base::sync::Checked;

#[test]
fn one_thread_at_a_time() {
    loom::model(|| {
        let lock = Arc::new(SpinLock::new(Checked::new(0)));
        let add = |lock: &SpinLock<Checked>| lock.lock().add_one();
        let other = Arc::clone(&lock);
        let thread = thread::spawn(move || add(&other));
        add(&lock);
        thread.join().unwrap();
        assert_eq!(lock.lock().get(), 2);
    });
}
