//! Coroutines and generators that move between threads, park, or run coroutines themselves.

use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

use ecru::coroutine::{Coroutine, CoroutineState, Generator, Yielder, scoped};

use crate::run_on;

#[test]
fn a_lazy_map_that_changes_hands_does_not_unlock_a_coroutine() {
    run_on(1, || {
        ecru::scope(|s| {
            let mut lazy = s.map_buffered(2, 0..4, |n| n);
            assert_eq!(lazy.next().unwrap().unwrap(), 0);
            let state = scoped(
                move |yielder: &Yielder<(), ()>, ()| {
                    drop(lazy);
                    ecru::scope(|_| {
                        panic::catch_unwind(AssertUnwindSafe(|| yielder.suspend(()))).is_err()
                    })
                },
                |coroutine| coroutine.resume(()),
            );
            assert_eq!(state, CoroutineState::Complete(true), "it must not suspend in a scope");
        });
    });
}

#[test]
fn a_generator_whose_body_parks_its_task() {
    run_on(1, || {
        ecru::scope(|s| {
            let other = s.spawn(|| ecru::sleep(Duration::from_micros(200)).is_ok());
            let numbers = Generator::new(|yielder| {
                for n in 0..10 {
                    ecru::sleep(Duration::from_micros(100)).unwrap();
                    yielder.suspend(n);
                    ecru::scope(|s| s.spawn(|| ()).join().unwrap());
                }
            });
            assert_eq!(numbers.sum::<i32>(), 45);
            assert!(other.join().unwrap());
        });
    });
}

#[test]
fn a_coroutine_goes_on_in_another_task_of_its_worker() {
    run_on(1, || {
        ecru::scope(|s| {
            let coroutine = Coroutine::new(|yielder: &Yielder<(), ecru::task::TaskId>, ()| {
                yielder.suspend(ecru::task::current().id());
                ecru::sleep(Duration::from_micros(50)).unwrap();
                ecru::task::current().id()
            });
            let CoroutineState::Yielded(first) = coroutine.resume(()) else { panic!("it yields") };
            let second = s.spawn_local(move || (coroutine.resume(()), ecru::task::current().id()));
            let (state, own) = second.join().unwrap();
            assert_eq!(state, CoroutineState::Complete(own));
            assert_ne!(first, own);
        });
    });
}

#[test]
fn a_run_in_a_coroutine_cannot_be_suspended() {
    let coroutine = Coroutine::new(|yielder: &Yielder<(), ()>, ()| {
        run_on(1, || {
            assert!(panic::catch_unwind(AssertUnwindSafe(|| yielder.suspend(()))).is_err());
            ecru::scope(|s| {
                s.spawn(|| ecru::sleep(Duration::from_micros(1)).is_ok()).join().unwrap()
            })
        })
    });
    assert_eq!(coroutine.resume(()), CoroutineState::Complete(true));
}
