//! Models of one maker at a time and of the next one after a failure. A lost wake-up is a deadlock,
//! which loom reports.

use loom::thread;
use std::sync::Arc;

use super::OnceLock;
use crate::base::sync::Checked;

/// Returns a value that was written by this thread.
fn of(number: u32) -> Checked {
    let value = Checked::new(0);
    value.set(number);
    value
}

#[test]
fn all_see_the_one_value() {
    loom::model(|| {
        let once = Arc::new(OnceLock::<Checked>::new());
        let threads = [1, 2].map(|number| {
            let once = Arc::clone(&once);
            thread::spawn(move || once.get_or_init(|| of(number)).get())
        });
        let waited = once.wait().get();
        for thread in threads {
            assert_eq!(thread.join().unwrap(), waited);
        }
    });
}

#[test]
fn the_next_makes_what_one_could_not() {
    loom::model(|| {
        let once = Arc::new(OnceLock::<Checked>::new());
        let first = Arc::clone(&once);
        let failing = thread::spawn(move || first.get_or_try_init(|| Err(())).is_ok());
        let second = Arc::clone(&once);
        let reading = thread::spawn(move || second.wait().get());
        assert_eq!(once.get_or_init(|| of(7)).get(), 7);
        assert_eq!(reading.join().unwrap(), 7);
        failing.join().unwrap();
    });
}
