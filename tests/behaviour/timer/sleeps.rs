//! Sleeping: never early, in order, side by side.

use super::{lateness, us};
use crate::streams::loud;
use crate::support::{HOUR, begin, each_run, ms, now, run_on, settle, since, until};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// - given: a task
/// - when: it sleeps, for many lengths
/// - then: it never wakes before its time
#[test]
fn timer_01_never_early() {
    each_run(|| {
        ecru::scope(|s| {
            for n in 0..400_u64 {
                // The lengths range from well under a tick of the wheel to several of its levels.
                s.spawn(move || {
                    for factor in [1, 37, 113] {
                        lateness(Duration::from_nanos(1 + n * n * factor));
                    }
                });
            }
            for n in 0..60 {
                s.spawn(move || lateness(us(997 * n)));
            }
        });
    });
}

#[test]
fn timer_01_never_early_by_an_instant() {
    each_run(|| {
        for n in 1..50 {
            let deadline = now() + us(13 * n);
            ecru::time::sleep_until(deadline).unwrap();
            assert!(now() >= deadline);
        }
    });
}

/// - given: five hundred tasks on one worker
/// - when: each sleeps 20 ms
/// - then: all together take about as long as one, not the sum
#[test]
fn timer_02_side_by_side() {
    let _loud = loud();
    run_on(1, || {
        let start = now();
        ecru::scope(|s| {
            for _ in 0..500 {
                s.spawn(|| ecru::sleep(ms(20)).unwrap());
            }
        });
        // One after another they would take ten seconds.
        assert!((ms(20)..ms(9_000)).contains(&since(start)), "{:?}", since(start));
    });
}

/// - given: sleeps of different lengths, begun in mixed order
/// - when: they end
/// - then: the shorter first
#[test]
fn timer_03_in_order() {
    each_run(|| {
        // Again if a busy machine has let one fall asleep after the first was due.
        until(|| {
            let (woken, begun) = (Mutex::new(Vec::new()), AtomicUsize::new(0));
            let first = now() + ms(50);
            let in_time = ecru::scope(|s| {
                for n in 0..40_u32 {
                    let (length, woken, begun) = (n * 29 % 40, &woken, &begun);
                    // On one worker, because two workers may each wake their tasks when they get
                    // to it.
                    s.spawn_local(move || {
                        begun.fetch_add(1, SeqCst);
                        ecru::time::sleep_until(first + us(u64::from(length) * 500)).unwrap();
                        woken.lock().unwrap().push(length);
                    });
                }
                until(|| begun.load(SeqCst) == 40);
                settle();
                now() < first
            });
            let woken = woken.into_inner().unwrap();
            assert!(!in_time || woken.iter().copied().eq(0..40), "{woken:?}");
            in_time
        });
    });
}

/// - given: a long sleep
/// - when: its task is cancelled
/// - then: it ends at once with `Cancelled`
#[test]
fn timer_04_cancelled() {
    each_run(|| {
        let start = now();
        let asleep = AtomicBool::new(false);
        ecru::scope(|s| {
            let child = s.spawn(|| {
                asleep.store(true, SeqCst);
                ecru::sleep(HOUR)
            });
            until(|| asleep.load(SeqCst));
            child.cancel();
            assert!(child.join().unwrap().is_err());
        });
        assert!(since(start) < HOUR / 100);
    });
}

/// - given: a task
/// - when: it sleeps for zero, or until a past instant
/// - then: it continues after the other tasks have had their turn
#[test]
fn timer_05_nothing_to_sleep() {
    run_on(1, || {
        for past in [false, true] {
            let others = AtomicUsize::new(0);
            ecru::scope(|s| {
                for _ in 0..3 {
                    s.spawn_local(|| {
                        others.fetch_add(1, SeqCst);
                    });
                }
                if past {
                    ecru::time::sleep_until(now() - ms(1)).unwrap();
                } else {
                    ecru::sleep(Duration::ZERO).unwrap();
                }
                assert_eq!(others.load(SeqCst), 3);
            });
        }
    });
}

/// - given: a task
/// - when: it sleeps for `Duration::MAX`
/// - then: it stays parked until it is cancelled; nothing overflows
#[test]
fn timer_06_for_ever() {
    each_run(|| {
        for length in
            [Duration::MAX, Duration::from_secs(u64::MAX / 4), Duration::from_secs(1 << 33)]
        {
            let woken = AtomicBool::new(false);
            ecru::scope(|s| {
                let child = begin(s, || {
                    let result = ecru::sleep(length);
                    woken.store(true, SeqCst);
                    result
                });
                ecru::sleep(ms(2)).unwrap();
                settle();
                assert!(!woken.load(SeqCst));
                child.cancel();
                assert!(child.join().unwrap().is_err());
            });
        }
        assert_eq!(ecru::timeout(Duration::MAX, || 7), Ok(7));
    });
}

/// - given: a plain thread
/// - when: it sleeps
/// - then: it is blocked for that long
#[test]
fn timer_07_on_a_thread() {
    for length in [us(1), us(300), ms(3)] {
        lateness(length);
        let deadline = now() + length;
        ecru::time::sleep_until(deadline).unwrap();
        assert!(now() >= deadline);
    }
    // The enclosing limit has its own error.
    let start = now();
    assert!(ecru::timeout(ms(5), || ecru::sleep(HOUR)).is_err());
    assert!((ms(5)..HOUR / 100).contains(&since(start)));
}

/// - given: an idle worker with a far deadline
/// - when: another thread spawns a task with a near deadline
/// - then: the near deadline is met
#[test]
fn timer_08_an_earlier_one_later() {
    for workers in [1, 2] {
        run_on(workers, || {
            let handle = ecru::RuntimeHandle::current();
            ecru::scope(|s| {
                let far = s.spawn(|| ecru::sleep(HOUR));
                settle();
                let thread = thread::spawn(move || {
                    for _ in 0..20 {
                        thread::sleep(us(200));
                        let start = now();
                        let near = handle.spawn(|| lateness(us(500))).unwrap();
                        near.join().unwrap();
                        assert!(since(start) < HOUR / 100);
                    }
                });
                ecru::unblock(|| thread.join().unwrap());
                far.cancel();
            });
        });
    }
}

/// Sleeps begin, end and are cancelled in random order. A set of deadlines says which may have
/// ended.
#[test]
fn timer_03_in_order_as_a_model_says() {
    for workers in [1, 2] {
        for seed in 0..4 {
            run_on(workers, || {
                let mut random = fastrand::Rng::with_seed(seed);
                let start = now();
                let woken = Mutex::new(BTreeSet::new());
                ecru::scope(|s| {
                    let mut sleepers = Vec::new();
                    let mut cancelled = BTreeSet::new();
                    for id in 0..600_u64 {
                        let deadline = start + us(random.u64(0..40_000));
                        let woken = &woken;
                        let sleeper = s.spawn(move || {
                            let result = ecru::time::sleep_until(deadline);
                            if result.is_ok() {
                                assert!(now() >= deadline);
                                woken.lock().unwrap().insert(id);
                            }
                            result
                        });
                        sleepers.push((id, deadline, sleeper));
                        if random.u8(0..3) == 0 {
                            let (victim, _, sleeper) = &sleepers[random.usize(0..sleepers.len())];
                            sleeper.cancel();
                            cancelled.insert(*victim);
                        }
                        if random.u8(0..20) == 0 {
                            ecru::sleep(us(random.u64(0..1_000))).unwrap();
                        }
                    }
                    for (id, deadline, sleeper) in sleepers {
                        let result = sleeper.join();
                        let slept = matches!(result, Ok(Ok(())));
                        assert_eq!(slept, woken.lock().unwrap().contains(&id));
                        assert!(slept || cancelled.contains(&id), "{result:?}");
                        assert!(!slept || now() >= deadline);
                    }
                });
                assert!(since(start) < HOUR / 100);
            });
        }
    }
}
