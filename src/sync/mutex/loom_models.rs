//! Models of mutual exclusion, of handing over, and of a waiter that gives up. A lost wake-up is a
//! deadlock, which loom reports. A time limit counts as expired as soon as a wait would have to
//! park.

use loom::thread;
use std::sync::Arc;
use std::time::Duration;

use super::super::condvar::Condvar;
use super::Mutex;
use crate::base::sync::Checked;
use crate::scope::timeout;

type Counter = Mutex<Checked>;

fn add(counter: &Counter) {
    counter.lock().add_one();
}

fn value(counter: &Counter) -> u32 {
    counter.lock().get()
}

#[test]
fn one_at_a_time() {
    loom::model(|| {
        let counter = Arc::new(Mutex::new(Checked::new(0)));
        let threads = [(); 2].map(|()| {
            let counter = Arc::clone(&counter);
            thread::spawn(move || add(&counter))
        });
        add(&counter);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(value(&counter), 3);
    });
}

#[test]
fn one_who_was_passed_over_gets_the_lock_next() {
    loom::model(|| {
        let counter = Arc::new(Mutex::new(Checked::new(0)));
        let other = Arc::clone(&counter);
        let thread = thread::spawn(move || add(&other));
        add(&counter);
        add(&counter);
        add(&counter);
        thread.join().unwrap();
        assert_eq!(value(&counter), 4);
    });
}

#[test]
fn one_that_gives_up_takes_nothing_along() {
    loom::model(|| {
        let counter = Arc::new(Mutex::new(Checked::new(0)));
        let first = Arc::clone(&counter);
        let patient = thread::spawn(move || add(&first));
        let second = Arc::clone(&counter);
        let hasty = thread::spawn(move || {
            let locked = timeout(Duration::from_secs(3600), || {
                second.lock_cancellable().map(|guard| guard.add_one())
            });
            u32::from(matches!(locked, Ok(Ok(()))))
        });
        add(&counter);
        patient.join().unwrap();
        let third = hasty.join().unwrap();
        assert_eq!(value(&counter), 2 + third);
    });
}

#[test]
fn a_change_under_the_lock_is_not_missed() {
    loom::model(|| {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            *other.0.lock() = true;
            other.1.notify_one();
        });
        let mut guard = shared.0.lock();
        shared.1.wait_while(&mut guard, |there| !*there).unwrap();
        assert!(*guard);
        drop(guard);
        thread.join().unwrap();
    });
}
