//! The state of locks and other objects after a wait without an error value was ended by a panic,
//! because its run had failed.

use super::{SECOND, report};
use crate::common::{OnDrop, alone};
use ecru::sim::{self, Failure, Simulation};
use ecru::sync::{Condvar, Mutex, Notify, OnceLock, RwLock, poison};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Counts the tasks that are inside of a lock.
struct Inside<'a>(&'a AtomicUsize);

impl Inside<'_> {
    fn new(count: &AtomicUsize) -> Inside<'_> {
        assert_eq!(count.fetch_add(1, SeqCst), 0, "two are inside of one lock");
        Inside(count)
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[test]
fn a_condition_variable_that_cannot_lock_again_does_not_unlock() {
    let (lock, news, inside) = (Mutex::new(()), Condvar::new(), AtomicUsize::new(0));
    let broken = AtomicUsize::new(0);
    let failed = report(1, || {
        ecru::scope(|s| {
            s.spawn(|| {
                let mut guard = lock.lock();
                // Locks again at its end, and the lock is held for ever.
                let _ = catch_unwind(AssertUnwindSafe(|| news.wait(&mut guard)));
                drop(guard);
            });
            sim::settle();
            s.spawn(|| {
                let _guard = lock.lock();
                let _inside = Inside::new(&inside);
                news.notify_all();
                ecru::shield(|| {
                    for _ in 0..20 {
                        let _ = Notify::new().wait();
                    }
                });
            });
            sim::settle();
            for _ in 0..3 {
                s.spawn(|| {
                    for _ in 0..20 {
                        let _ = catch_unwind(AssertUnwindSafe(|| {
                            let _guard = lock.lock();
                            if inside.load(SeqCst) != 0 {
                                broken.fetch_add(1, SeqCst);
                            }
                        }));
                    }
                });
            }
        });
    });
    assert!(matches!(failed.result, Err(Failure::Deadlock(_))), "{failed}");
    assert_eq!(broken.load(SeqCst), 0, "two tasks had one lock");
    assert!(lock.try_lock().is_ok());
}

#[test]
fn the_same_with_the_twin_of_stds() {
    let (lock, news, inside) =
        (poison::Mutex::new(()), poison::Condvar::new(), AtomicUsize::new(0));
    let broken = AtomicUsize::new(0);
    let failed = report(1, || {
        ecru::scope(|s| {
            s.spawn(|| {
                let guard = lock.lock().unwrap();
                let _ = catch_unwind(AssertUnwindSafe(|| drop(news.wait(guard))));
            });
            sim::settle();
            s.spawn(|| {
                let _guard = lock.lock();
                let _inside = Inside::new(&inside);
                news.notify_all();
                ecru::shield(|| {
                    for _ in 0..20 {
                        let _ = Notify::new().wait();
                    }
                });
            });
            sim::settle();
            s.spawn(|| {
                for _ in 0..20 {
                    let _ = catch_unwind(AssertUnwindSafe(|| {
                        let _guard = lock.lock();
                        if inside.load(SeqCst) != 0 {
                            broken.fetch_add(1, SeqCst);
                        }
                    }));
                }
            });
        });
    });
    assert!(matches!(failed.result, Err(Failure::Deadlock(_))), "{failed}");
    assert_eq!(broken.load(SeqCst), 0, "two tasks had one lock");
    drop(catch_unwind(AssertUnwindSafe(|| lock.try_lock().is_ok())));
}

#[test]
fn readers_and_writers_that_end_by_force_keep_the_count() {
    let lock = RwLock::new(0);
    let failed = report(1, || {
        ecru::scope(|s| {
            s.spawn(|| {
                let _shared = lock.read();
                let _ = Notify::new().wait();
            });
            sim::settle();
            for n in 0..6 {
                let lock = &lock;
                s.spawn(move || {
                    if n % 2 == 0 {
                        *lock.write() += 1;
                    } else {
                        drop(lock.read());
                    }
                });
            }
            sim::settle();
            let _ = ecru::shield(|| Notify::new().wait());
        });
    });
    assert!(matches!(failed.result, Err(Failure::Deadlock(_))), "{failed}");
    drop(lock.read());
    *lock.write() += 1;
    assert!(lock.try_write().is_ok());
}

#[test]
fn a_cell_whose_waiters_end_by_force_can_be_filled() {
    let cell = OnceLock::new();
    let failed = report(1, || {
        ecru::scope(|s| {
            s.spawn(|| {
                cell.get_or_init(|| {
                    let _ = ecru::shield(|| Notify::new().wait());
                    panic!("no value")
                })
            });
            sim::settle();
            for n in 0..4_u32 {
                let cell = &cell;
                s.spawn(move || if n % 2 == 0 { *cell.wait() } else { *cell.get_or_init(|| n) });
            }
        });
    });
    assert!(matches!(failed.result, Err(Failure::Deadlock(_))), "{failed}");
    let value = *cell.get_or_init(|| 7);
    assert!([1, 3, 7].contains(&value), "{value}");
}

#[test]
fn children_that_borrow_end_before_the_frame_they_borrow_from() {
    // The parent waits for a lock, and is unwound by force, while children borrow from its frame,
    // in a shield, in a coroutine, in an `unblock`, and in another scope.
    for seed in 0..20 {
        let (lock, alive) = (Mutex::new(()), AtomicUsize::new(0));
        let failed = report(seed, || {
            let _held = lock.lock();
            ecru::scope(|s| {
                s.spawn(|| {
                    let frame = vec![1_u64; 1000];
                    let _over = OnDrop(|| assert_eq!(alive.load(SeqCst), 0));
                    ecru::scope(|s| {
                        for _ in 0..4 {
                            s.spawn(|| {
                                alive.fetch_add(1, SeqCst);
                                let _dead = OnDrop(|| drop(alive.fetch_sub(1, SeqCst)));
                                let _ = ecru::yield_now();
                                ecru::shield(|| {
                                    for _ in 0..50 {
                                        let _ = ecru::sleep(SECOND);
                                        assert_eq!(frame.iter().sum::<u64>(), 1000);
                                    }
                                    let _ = Notify::new().wait();
                                });
                                assert_eq!(frame.iter().sum::<u64>(), 1000);
                            });
                        }
                        sim::settle();
                        ecru::unblock(|| drop(lock.lock()));
                    });
                });
                let _ = ecru::shield(|| Notify::new().wait());
            });
        });
        assert!(matches!(failed.result, Err(Failure::Deadlock(_))), "{failed}");
        assert_eq!(alive.load(SeqCst), 0);
    }
}

#[test]
fn parallel_maps_and_joins_that_end_by_force() {
    let (lock, alive) = (Mutex::new(()), AtomicUsize::new(0));
    let failed = report(1, || {
        let _held = lock.lock();
        let numbers: Vec<u64> = (0..20).collect();
        let work = |n: &u64| {
            alive.fetch_add(1, SeqCst);
            let _dead = OnDrop(|| drop(alive.fetch_sub(1, SeqCst)));
            drop(lock.lock());
            *n
        };
        ecru::scope(|s| {
            let tasks: Vec<_> = numbers.iter().map(|n| s.spawn(move || work(n))).collect();
            ecru::join_all(tasks).len()
        })
    });
    assert!(failed.result.is_err(), "{failed}");
    assert_eq!(alive.load(SeqCst), 0);
}

#[test]
fn a_hook_that_runs_while_its_frame_is_unwound_by_force() {
    let (lock, ran) = (Mutex::new(()), AtomicUsize::new(0));
    let failed = report(1, || {
        let _held = lock.lock();
        ecru::scope(|s| {
            s.spawn(|| {
                let frame = [7_u8; 64];
                ecru::on_cancel(
                    || {
                        assert_eq!(frame, [7; 64]);
                        ran.fetch_add(1, SeqCst);
                    },
                    || drop(lock.lock()),
                );
            });
            let _ = ecru::shield(|| Notify::new().wait());
        });
    });
    assert!(matches!(failed.result, Err(Failure::Deadlock(_))), "{failed}");
    assert!(ran.load(SeqCst) <= 1);
}

#[test]
fn the_standard_output_is_free_after_a_failed_run() {
    alone("simulation::forced::the_standard_output_is_free_after_a_failed_run", || {
        use std::io::Write;
        let failed = report(1, || {
            ecru::scope(|s| {
                s.spawn(|| {
                    let mut out = ecru::io::stdout().lock();
                    out.write_all(b"held ").unwrap();
                    let _ = ecru::shield(|| Notify::new().wait());
                });
                sim::settle();
                s.spawn(|| drop(ecru::io::stdout().lock()));
                s.spawn(|| drop(writeln!(ecru::io::stdout(), "waits")));
            });
        });
        assert!(matches!(failed.result, Err(Failure::Deadlock(_))), "{failed}");
        writeln!(ecru::io::stdout().lock(), "free").unwrap();
        let second = Simulation::new(1).run(|| writeln!(ecru::io::stdout(), "again"));
        second.unwrap().unwrap();
    });
}

#[test]
fn standard_streams_of_many_simulations_at_once() {
    alone("simulation::forced::standard_streams_of_many_simulations_at_once", || {
        use std::io::Write;
        std::thread::scope(|s| {
            for seed in 0..8 {
                s.spawn(move || {
                    let report = report(seed, || {
                        for n in 0..200 {
                            writeln!(ecru::io::stdout(), "line {n}").unwrap();
                            let mut err = ecru::io::stderr().lock();
                            writeln!(err, "line {n}").unwrap();
                        }
                        let mut line = String::new();
                        assert_eq!(ecru::io::stdin().read_line(&mut line).unwrap(), 0);
                    });
                    report.unwrap();
                });
            }
        });
    });
}
