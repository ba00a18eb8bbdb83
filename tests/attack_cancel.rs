//! Attacks that could lose a cancel request, delay it, or lead it to a frame that has ended: many
//! threads, nodes that are linked only when they are needed, and requests at random moments on
//! every possible path.

mod common;

use std::panic;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::thread;
use std::time::{Duration, Instant};

use ecru::{CancelHandle, CancelReason, Elapsed, JoinError, RuntimeHandle};

use common::{HOUR, PATIENCE, run_on};

/// Pseudo-random numbers, the same in each run of the test.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % sides
    }
}

/// Computes until it is cancelled, and never waits.
fn compute_until_asked() {
    let start = Instant::now();
    while !ecru::is_cancelled() {
        assert!(start.elapsed() < PATIENCE, "the request is lost");
        std::hint::spin_loop();
    }
}

/// Waits until it is cancelled.
fn wait_until_asked() {
    let start = Instant::now();
    while ecru::sleep(PATIENCE).is_ok() {
        assert!(start.elapsed() < PATIENCE, "the request is lost");
    }
    assert!(ecru::is_cancelled(), "the end of the wait and the question must agree");
}

/// Computes and yields until it is cancelled, on a worker that has timers to check.
fn compute_and_yield_until_asked() {
    let start = Instant::now();
    while !ecru::is_cancelled() {
        assert!(start.elapsed() < PATIENCE, "the request is lost");
        ecru::shield(|| ecru::yield_now().unwrap());
    }
}

/// The number of repetitions. With a thread for each task it takes ten times as long.
const fn rounds(number: u32) -> u32 {
    if cfg!(ecru_baton) { number / 10 } else { number }
}

fn wait_for(flag: &AtomicBool) {
    let start = Instant::now();
    while !flag.load(SeqCst) {
        assert!(start.elapsed() < PATIENCE, "it did not come to that");
        thread::yield_now();
    }
}

/// The first request stays the reason, even if the scope that gets a later one was not linked.
#[test]
fn the_first_request_stays_the_reason_in_a_scope_that_was_not_linked() {
    run_on(1, || {
        let result = ecru::timeout(Duration::ZERO, || {
            // The deadline has passed, and no wait has returned the cancellation yet.
            while !ecru::is_cancelled() {
                ecru::shield(|| ecru::yield_now().unwrap());
            }
            ecru::scope(|s| {
                s.cancel();
                s.spawn(|| unreachable!());
            });
        });
        // The child never ran, because of the limit and not because of the scope's own request.
        assert!(result.is_err());
    });
}

/// As above, with a scope that was open when the deadline passed.
#[test]
fn the_first_request_stays_the_reason_in_a_scope_that_was_open() {
    run_on(1, || {
        let result = ecru::timeout(Duration::ZERO, || {
            ecru::scope(|s| {
                while !ecru::is_cancelled() {
                    ecru::shield(|| ecru::yield_now().unwrap());
                }
                s.cancel();
                s.spawn(|| unreachable!());
            });
        });
        assert!(result.is_err());
    });
}

/// A failure after a request from outside fails the scope, even if the scope itself cancels its
/// tasks again.
#[test]
fn an_error_after_a_request_from_outside_is_not_on_purpose() {
    run_on(1, || {
        let result: Result<(), &str> = ecru::cancel_scope(|c| {
            ecru::try_scope(|s| {
                c.cancel();
                s.cancel();
                s.spawn_daemon(|| Err("asked from outside"));
                Ok(())
            })
        });
        assert_eq!(result, Err("asked from outside"));
    });
}

/// Random trees of tasks, scopes and limits, of which some wait and some never do, against a
/// request at a random moment.
fn grow(depth: u64, seed: u64, ended: &AtomicUsize) {
    let mut dice = Dice(seed | 1);
    dice.roll(7);
    let body = |dice: &mut Dice| {
        if depth == 0 {
            match dice.roll(4) {
                0 => compute_until_asked(),
                1 => wait_until_asked(),
                2 => {
                    let asked = AtomicBool::new(false);
                    ecru::on_cancel(|| asked.store(true, SeqCst), || wait_for(&asked));
                }
                _ => drop(ecru::timeout(HOUR, || {
                    ecru::scope(|s| {
                        s.spawn(compute_until_asked);
                        wait_until_asked();
                    });
                })),
            }
            ended.fetch_add(1, SeqCst);
            return;
        }
        let (width, seed) = (1 + dice.roll(2), dice.roll(u64::MAX));
        ecru::scope(|s| {
            for n in 0..width {
                s.spawn(move || grow(depth - 1, seed.wrapping_add(n * 0x9e37_79b9), ended));
            }
            match dice.roll(3) {
                0 => {}
                1 => compute_until_asked(),
                _ => drop(ecru::timeout(HOUR, wait_until_asked)),
            }
        });
    };
    match dice.roll(4) {
        0 => drop(ecru::timeout(HOUR, || body(&mut dice))),
        1 => ecru::shield(|| {
            // A section inside must be cancelled from inside.
            ecru::cancel_scope(|c| {
                c.cancel();
                body(&mut dice);
            });
        }),
        2 => drop(ecru::try_scope(|s| {
            let mut dice = Dice(seed.rotate_left(9) | 1);
            s.spawn(move || {
                grow(depth.saturating_sub(1), dice.roll(u64::MAX), ended);
                Ok::<(), ()>(())
            });
            body(&mut Dice(seed.rotate_left(5) | 1));
            Ok(())
        })),
        _ => body(&mut dice),
    }
}

fn random_trees(rounds: u32, request: fn(&mut Dice, &dyn Fn())) {
    let mut dice = Dice(0x0123_4567_89ab_cdef);
    for round in 0..rounds {
        let ended = AtomicUsize::new(0);
        let seed = dice.roll(u64::MAX) ^ u64::from(round);
        run_on(1 + dice.roll(3) as usize, || {
            ecru::scope(|s| {
                let ended = &ended;
                let top = &s.spawn(move || grow(3, seed, ended));
                thread::scope(|threads| {
                    let dice = &mut dice;
                    threads.spawn(move || request(dice, &|| top.cancel()));
                    match top.join() {
                        Ok(()) | Err(JoinError::Cancelled) => {}
                        other => panic!("{other:?}"),
                    }
                });
            });
        });
    }
}

fn after_a_while(dice: &mut Dice, cancel: &dyn Fn()) {
    for _ in 0..dice.roll(20_000) {
        std::hint::spin_loop();
    }
    cancel();
}

#[test]
fn random_trees_of_tasks_end_when_asked_at_random() {
    random_trees(12, after_a_while);
}

#[test]
fn random_trees_of_tasks_end_when_asked_at_random_slow() {
    random_trees(rounds(1500), after_a_while);
}

/// Endless requests elsewhere move the epoch for all tasks. No task sees a request for another one,
/// and each sees its own.
fn noise(rounds: u32) {
    run_on(2, || {
        let over = AtomicBool::new(false);
        let made = AtomicU64::new(0);
        ecru::scope(|s| {
            s.spawn(|| {
                while !over.load(SeqCst) {
                    ecru::cancel_scope(|c| c.cancel());
                    made.fetch_add(1, SeqCst);
                    let _ = ecru::yield_now();
                }
            });
            let work = s.spawn(|| {
                common::until(|| made.load(SeqCst) > 0);
                for round in 0..rounds {
                    ecru::scope(|s| {
                        let child = s.spawn(|| {
                            assert!(!ecru::is_cancelled());
                            ecru::timeout(HOUR, || {
                                assert!(ecru::checkpoint().is_ok());
                                ecru::scope(|s| {
                                    s.spawn(|| ecru::checkpoint().unwrap()).join().unwrap()
                                });
                            })
                            .unwrap();
                            if round % 3 == 0 {
                                ecru::yield_now().unwrap();
                            }
                        });
                        let asked = s.spawn(compute_until_asked);
                        asked.cancel();
                        child.join().unwrap();
                        assert!(matches!(asked.join(), Ok(()) | Err(JoinError::Cancelled)));
                        assert!(!ecru::is_cancelled());
                    });
                }
                over.store(true, SeqCst);
            });
            work.join().unwrap();
        });
        assert!(made.into_inner() > 0);
    });
}

#[test]
fn nobody_sees_the_requests_of_others() {
    noise(200);
}

#[test]
fn nobody_sees_the_requests_of_others_slow() {
    noise(rounds(50_000));
}

/// Frames open and close as fast as possible, while tasks below them link to them from another
/// worker and are cancelled from a thread.
fn frames_that_go(rounds: u32) {
    run_on(2, || {
        for round in 0..rounds {
            let (deep, handle) =
                (AtomicBool::new(false), std::sync::Mutex::new(None::<CancelHandle>));
            ecru::scope(|s| {
                let (deep, handle) = (&deep, &handle);
                let busy = s.spawn(move || {
                    for _ in 0..4 {
                        let _ = ecru::timeout(HOUR, || {
                            ecru::scope(|inner| {
                                // Links all nodes above it, from whatever worker it runs on.
                                inner.spawn(move || {
                                    ecru::cancel_scope(|c| {
                                        *handle.lock().unwrap() = Some(c);
                                        deep.store(true, SeqCst);
                                        let _ = ecru::yield_now();
                                    });
                                });
                                let _ = ecru::timeout(HOUR, || {
                                    inner.spawn(|| ecru::yield_now().is_ok());
                                });
                            });
                        });
                    }
                });
                thread::scope(|threads| {
                    threads.spawn(|| {
                        wait_for(deep);
                        for _ in 0..round % 5 * 50 {
                            std::hint::spin_loop();
                        }
                        if round % 2 == 0 {
                            busy.cancel();
                        }
                        handle.lock().unwrap().as_ref().unwrap().cancel();
                        busy.cancel();
                    });
                    busy.join().unwrap();
                });
            });
        }
    });
}

#[test]
fn frames_that_go_while_they_are_reached_from_below() {
    frames_that_go(50);
}

#[test]
fn frames_that_go_while_they_are_reached_from_below_slow() {
    frames_that_go(rounds(20_000));
}

/// A shield expires while tasks below it create nodes, link them and query them.
fn shields_that_open(rounds: u32) {
    let mut dice = Dice(42);
    run_on(2, || {
        for _ in 0..rounds {
            let (limit, early) = (Duration::from_micros(dice.roll(150)), dice.roll(2) == 0);
            ecru::cancel_scope(|c| {
                if early {
                    c.cancel();
                }
                ecru::shield_for(limit, || {
                    ecru::scope(|s| {
                        s.spawn(compute_and_yield_until_asked);
                        s.spawn(wait_until_asked);
                        s.spawn(|| {
                            // Creates new nodes until one of them sees the request.
                            let start = Instant::now();
                            while ecru::timeout(HOUR, || {
                                ecru::scope(|s| s.spawn(ecru::is_cancelled).join())
                            })
                            .is_ok_and(|asked| asked.is_ok_and(|asked| !asked))
                            {
                                assert!(start.elapsed() < PATIENCE, "the request is lost");
                                ecru::shield(|| ecru::yield_now().unwrap());
                            }
                        });
                        if !early {
                            c.cancel();
                        }
                        wait_until_asked();
                    });
                });
                assert!(ecru::checkpoint().is_err());
            });
            assert!(ecru::checkpoint().is_ok());
        }
    });
}

#[test]
fn shields_that_open_over_tasks_that_never_waited() {
    shields_that_open(20);
}

#[test]
fn shields_that_open_over_tasks_that_never_waited_slow() {
    shields_that_open(rounds(10_000));
}

/// A child's hook makes the watchdog query a limit of a task that has never waited, at the moment
/// of the task's first wait.
fn overdue_limits(rounds: u32) {
    let mut dice = Dice(7);
    run_on(2, || {
        for _ in 0..rounds {
            let pause = 2_000 + dice.roll(400);
            let result: Result<(), Elapsed> = ecru::timeout(Duration::from_micros(200), || {
                let hung = AtomicBool::new(false);
                ecru::scope(|s| {
                    s.spawn(|| {
                        let asked = AtomicBool::new(false);
                        ecru::on_cancel(
                            || asked.store(true, SeqCst),
                            || {
                                hung.store(true, SeqCst);
                                wait_for(&asked);
                            },
                        );
                    });
                    // This worker processes no timers meanwhile.
                    let start = Instant::now();
                    while start.elapsed() < Duration::from_micros(pause) {
                        std::hint::spin_loop();
                    }
                    wait_until_asked();
                });
            });
            assert!(result.is_err());
        }
    });
}

#[test]
fn limits_that_a_childs_hook_has_watched_end_the_first_wait() {
    overdue_limits(15);
}

#[test]
fn limits_that_a_childs_hook_has_watched_end_the_first_wait_slow() {
    overdue_limits(rounds(2_000));
}

/// The path of a request through everything that may be below a task: another run, a blocking
/// thread, and a coroutine in a coroutine.
#[test]
fn a_request_passes_runs_threads_and_coroutines() {
    use ecru::coroutine::{Yielder, generate};
    run_on(2, || {
        let started = AtomicUsize::new(0);
        let started = &started;
        ecru::scope(|s| {
            let task = &s.spawn(move || {
                ecru::timeout(HOUR, || {
                    ecru::unblock(|| {
                        ecru::timeout(HOUR, || {
                            run_on(2, || {
                                ecru::scope(|s| {
                                    s.spawn(|| {
                                        let inner = |y: &Yielder<(), u32>| {
                                            started.fetch_add(1, SeqCst);
                                            compute_until_asked();
                                            y.suspend(1);
                                        };
                                        let outer = |y: &Yielder<(), u32>| {
                                            let first = generate(inner, |mut items| items.next());
                                            y.suspend(first.unwrap());
                                        };
                                        let first = generate(outer, |mut items| items.next());
                                        assert_eq!(first, Some(1));
                                    });
                                    s.spawn_daemon(|| {
                                        started.fetch_add(1, SeqCst);
                                        compute_until_asked();
                                    });
                                    started.fetch_add(1, SeqCst);
                                    wait_until_asked();
                                });
                                // From outside the task, into this run: above it is what was asked.
                                let late =
                                    RuntimeHandle::current().spawn(|| unreachable!()).unwrap();
                                assert!(ecru::shield(|| late.join()).is_err());
                            });
                        })
                    })
                })
            });
            thread::scope(|threads| {
                threads.spawn(|| {
                    let start = Instant::now();
                    while started.load(SeqCst) < 3 {
                        assert!(start.elapsed() < PATIENCE);
                        thread::yield_now();
                    }
                    task.cancel();
                });
                task.join().unwrap().unwrap().unwrap();
            });
        });
    });
}

/// A destructor of a task that unwinds opens scopes below a node that was unlinked from the tree.
#[test]
fn unwinding_tasks_open_scopes_and_are_asked() {
    struct Opens;
    impl Drop for Opens {
        fn drop(&mut self) {
            ecru::scope(|s| {
                let child = s.spawn(|| ecru::shield(|| ecru::yield_now().is_ok()));
                drop(ecru::shield(|| child.join()));
            });
        }
    }
    run_on(2, || {
        for round in 0..50 {
            ecru::scope(|s| {
                let task = s.spawn(move || {
                    let _opens = Opens;
                    if round % 2 == 0 {
                        panic::panic_any(Opens);
                    }
                    // The task itself drops the result if its handle has been dropped.
                    Opens
                });
                if round % 3 == 0 {
                    task.cancel();
                }
                if round % 5 != 0 {
                    drop(task.join());
                } else if round % 2 == 1 {
                    drop(task);
                } else {
                    drop(ecru::shield(|| task.join()));
                }
            });
        }
    });
}

/// The reason that a task sees is one of the given ones, and a limit that no code noticed is no
/// error.
#[test]
fn a_limit_that_expires_over_code_that_never_waits_is_none() {
    run_on(2, || {
        let value = ecru::timeout(Duration::ZERO, || {
            ecru::scope(|s| s.spawn(|| 1 + 1).join().map_err(|_| ()))
        });
        // Either no code noticed the limit, or the join or the task did.
        assert!(matches!(value, Ok(Ok(2)) | Err(_)));
        let reason = ecru::timeout(Duration::ZERO, || ecru::sleep(HOUR).unwrap_err().reason());
        assert!(reason.is_err());
        let seen = ecru::cancel_scope(|c| {
            c.cancel();
            ecru::timeout(HOUR, || ecru::checkpoint().unwrap_err().reason())
        });
        assert_eq!(seen, Ok(CancelReason::Explicit));
    });
}
