//! Joins and wake-ups that come before a task's turn, or at its end.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ecru::{JoinError, Runtime};

use crate::{HOUR, OnDrop, run_on};

#[test]
fn a_local_child_that_is_joined_before_its_turn_keeps_its_place_in_the_queue() {
    run_on(1, || {
        ecru::scope(|s| {
            let first = s.spawn_local(|| ecru::yield_now().is_ok());
            let second = s.spawn_local(|| 2);
            assert!(first.join().unwrap());
            assert_eq!(second.join().unwrap(), 2);
        });
    });
}

#[test]
fn a_task_from_a_handle_that_is_joined_before_its_turn_keeps_its_place_in_the_queue() {
    run_on(1, || {
        let handle = ecru::RuntimeHandle::current();
        let first = handle.spawn(|| ecru::yield_now().is_ok()).unwrap();
        let second = handle.spawn(|| ecru::sleep(Duration::from_millis(1)).is_ok()).unwrap();
        assert!(first.join().unwrap());
        assert!(second.join().unwrap());
    });
}

#[test]
fn a_task_that_was_dealt_out_and_panics_in_a_join_spoils_no_queue() {
    let runtime = Runtime::builder().workers(1).placement(ecru::Placement::Spread).build().unwrap();
    runtime.run(|| {
        ecru::scope(|s| {
            let first = s.spawn(|| panic!("on purpose"));
            let second = s.spawn(|| 2);
            assert!(matches!(first.join(), Err(JoinError::Panicked(_))));
            assert_eq!(second.join().unwrap(), 2);
        });
    });
}

#[test]
fn a_child_in_the_middle_of_the_own_queue_is_joined_and_its_entry_passed_over() {
    for workers in [1, 2] {
        run_on(workers, || {
            ecru::scope(|s| {
                let tasks: Vec<_> =
                    (0..9).map(|n| s.spawn(move || ecru::yield_now().map(|()| n))).collect();
                for n in [4, 0, 8, 3, 5, 1, 7, 2, 6] {
                    assert_eq!(tasks[n].join().unwrap(), Ok(n));
                }
            });
        });
    }
}

#[test]
fn results_are_dropped_once_whatever_becomes_of_the_handle() {
    let dropped = Arc::new(AtomicUsize::new(0));
    run_on(2, || {
        let count = || {
            let dropped = Arc::clone(&dropped);
            OnDrop(move || {
                dropped.fetch_add(1, Ordering::Relaxed);
            })
        };
        for round in 0..100 {
            ecru::scope(|s| {
                let value = count();
                let handle = s.spawn(move || value);
                match round % 4 {
                    0 => drop(handle),
                    1 => drop(handle.join()),
                    2 => {
                        s.spawn(move || drop(handle));
                    }
                    _ => {
                        let _ = handle.join_timeout(Duration::ZERO);
                    }
                }
            });
        }
    });
    assert_eq!(dropped.load(Ordering::Relaxed), 100);
}

#[test]
fn the_last_handle_of_a_child_is_dropped_by_its_sibling_under_load() {
    run_on(2, || {
        let kept = &Mutex::new(Vec::new());
        ecru::scope(|s| {
            for n in 0..200 {
                let child = s.spawn(move || vec![n; 4]);
                kept.lock().unwrap().push(child.is_finished());
                s.spawn(move || drop(child));
            }
        });
        assert_eq!(kept.lock().unwrap().len(), 200);
    });
}

#[cfg(not(ecru_baton))]
/// Spins, without a wait that the library would notice, until the flag is set. Returns the time
/// that took.
fn spin_until(flag: &AtomicBool) -> Duration {
    let begin = Instant::now();
    while !flag.load(Ordering::Acquire) && begin.elapsed() < Duration::from_secs(20) {
        std::hint::spin_loop();
        if begin.elapsed() > Duration::from_micros(50) {
            thread::yield_now();
        }
    }
    begin.elapsed()
}

#[cfg(not(ecru_baton))]
/// A spawn wakes the first sleeping worker, which checks whether the child needs a worker. After
/// `delay` that worker gets other work, and the spawner is busy, too. Returns how long the child
/// waited for the other sleeping worker.
fn summon_a_worker_that_gets_other_work(delay: Duration) -> Duration {
    run_on(3, || {
        let (started, ran, go) =
            (&AtomicUsize::new(0), &AtomicBool::new(false), &AtomicBool::new(false));
        ecru::scope(|s| {
            let start = |_| {
                s.spawn(move || {
                    let second = thread::current().name().is_some_and(|name| name.ends_with("-2"));
                    started.fetch_add(if second { 0x10 } else { 1 }, Ordering::AcqRel);
                    // One task runs on each of the other two workers.
                    while started.load(Ordering::Acquire) != 0x11 {
                        thread::yield_now();
                    }
                    assert!(ecru::sleep(HOUR).is_err());
                    spin_until(ran);
                })
            };
            let tasks = [0, 1].map(start);
            while started.load(Ordering::Acquire) != 0x11 {
                thread::yield_now();
            }
            // Waits until these workers sleep without a timeout.
            thread::sleep(Duration::from_millis(15));
            thread::scope(|threads| {
                threads.spawn(|| {
                    spin_until(go);
                    let begin = Instant::now();
                    while begin.elapsed() < delay {}
                    tasks[0].cancel();
                });
                thread::sleep(Duration::from_millis(1));
                go.store(true, Ordering::Release);
                s.spawn(move || ran.store(true, Ordering::Release));
                let took = spin_until(ran);
                tasks[1].cancel();
                took
            })
        })
    })
}

/// This does not run on the baton backend. The test tells the workers apart by the names of their
/// threads, and there tasks have threads of their own.
#[cfg(not(ecru_baton))]
#[test]
fn a_summons_that_finds_a_worker_busy_goes_to_the_next() {
    for attempt in 0..12 {
        let took = summon_a_worker_that_gets_other_work(Duration::from_nanos(attempt * 500));
        assert!(took < Duration::from_secs(10), "the child waited for {took:?}");
    }
}
