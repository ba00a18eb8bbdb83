//! Models of a subscriber beside the changes. A lost wake-up is a deadlock, which loom reports.

use loom::thread;
use std::sync::Arc;

use super::Watch;
use crate::source::Source;

#[test]
fn the_last_value_and_then_the_end_are_seen() {
    loom::model(|| {
        let watch = Watch::new(0);
        let subscriber = watch.subscribe();
        let setting = thread::spawn(move || {
            watch.set(1);
            watch.set(2);
        });
        let mut last = 0;
        while let Some(value) = subscriber.wait().unwrap() {
            assert!(value > last);
            last = value;
        }
        assert_eq!(last, 2);
        setting.join().unwrap();
    });
}

#[test]
fn one_of_two_waits_gets_a_value() {
    loom::model(|| {
        let watch = Watch::new(0);
        let subscriber = Arc::new(watch.subscribe());
        let taken = Arc::clone(&subscriber);
        let other = thread::spawn(move || taken.wait().unwrap());
        watch.set(1);
        drop(watch);
        let mut values = [subscriber.wait().unwrap(), other.join().unwrap()];
        values.sort_unstable();
        assert_eq!(values, [None, Some(1)]);
    });
}

#[test]
fn updates_are_made_one_after_another() {
    loom::model(|| {
        let watch = Arc::new(Watch::new(0));
        let subscriber = watch.subscribe();
        let other = Arc::clone(&watch);
        let updating = thread::spawn(move || other.update(|value| *value += 1));
        watch.update(|value| *value += 1);
        assert_eq!(subscriber.wait_for(|value| *value == 2), Ok(Some(2)));
        updating.join().unwrap();
    });
}

#[test]
fn a_value_that_is_set_comes_after_an_update() {
    loom::model(|| {
        let watch = Arc::new(Watch::new(0));
        let other = Arc::clone(&watch);
        let updating = thread::spawn(move || other.update(|value| *value += 1));
        watch.set(10);
        updating.join().unwrap();
        assert!([10, 11].contains(&watch.get()));
    });
}
