//! A worker whose tasks never wait still checks its timers, its sockets and its inboxes.

use crate::common::ProcessorClock;
use crate::streams::{loud, pair};
use crate::support::{HOUR, Watchdog, ms, run_on};
use ecru::net::TcpStream;
use std::io::{Read, Write};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The meaning of "promptly", by the worker's own processor time. The worker is always busy, so
/// that clock is independent of other programs.
const PROMPTLY: Duration = Duration::from_millis(100);

/// Measures how long a busy worker has been at something.
struct Witness {
    processor: ProcessorClock,
}

impl Witness {
    /// Fails if the worker uses more than `most` from here until the returned function is called.
    fn expect(&self, what: &'static str, most: Duration) -> impl FnOnce() + use<> {
        let (processor, before) = (self.processor.clone(), self.processor.used());
        move || {
            let used = processor.used() - before;
            assert!(used < most, "{what} took {used:?} of the worker's time");
        }
    }
}

/// Runs `hog` in `hogs` tasks until it is told to stop. Meanwhile checks that a sleep, a socket, a
/// cancellation from another thread and a spawn from another thread are served.
fn beside(hogs: usize, hog: impl Fn(&AtomicBool) + Sync) {
    let _loud = loud();
    let _watchdog = Watchdog::new();
    let (mut far, near) = pair();
    let stop = &AtomicBool::new(false);
    let hog = &hog;
    run_on(1, || {
        let handle = ecru::RuntimeHandle::current();
        let witness = Witness { processor: ProcessorClock::of_this_thread() };
        ecru::scope(|s| {
            for _ in 0..hogs {
                s.spawn_local(|| hog(stop));
            }
            let served = s.spawn_local(|| {
                for _ in 0..3 {
                    let in_time = witness.expect("a sleep of 10 ms", ms(10) + PROMPTLY);
                    ecru::sleep(ms(10)).unwrap();
                    in_time();
                }
                let (ask, asked) = mpsc::channel();
                let writer = thread::spawn(move || {
                    for in_time in asked {
                        thread::sleep(ms(3));
                        far.write_all(b"x").unwrap();
                        far.read_exact(&mut [0]).unwrap();
                        let in_time: Box<dyn FnOnce() + Send> = in_time;
                        in_time();
                    }
                });
                for _ in 0..3 {
                    ask.send(Box::new(witness.expect("a byte and its answer", 2 * PROMPTLY)))
                        .unwrap();
                    (&near).read_exact(&mut [0]).unwrap();
                    (&near).write_all(b"y").unwrap();
                }
                drop(ask);
                ecru::unblock(|| writer.join().unwrap());
                ecru::cancel_scope(|c| {
                    let in_time = witness.expect("a cancellation", 2 * PROMPTLY);
                    let thread = thread::spawn(move || {
                        thread::sleep(ms(3));
                        c.cancel();
                    });
                    assert!(ecru::sleep(HOUR).is_err());
                    in_time();
                    thread.join().unwrap();
                });
                let in_time = witness.expect("a task from another thread", 2 * PROMPTLY);
                let begun = handle.clone();
                let thread = thread::spawn(move || begun.spawn(in_time).unwrap());
                ecru::unblock(|| thread.join().unwrap()).join().unwrap();
            });
            let result = served.join();
            stop.store(true, SeqCst);
            result.unwrap();
        });
    });
}

#[test]
fn fairness_beside_tasks_that_yield_for_ever() {
    beside(3, |stop| {
        while !stop.load(SeqCst) {
            ecru::yield_now().unwrap();
        }
    });
}

#[test]
fn fairness_beside_a_task_that_sleeps_for_no_time() {
    beside(1, |stop| {
        while !stop.load(SeqCst) {
            ecru::sleep(Duration::ZERO).unwrap();
            ecru::time::sleep_until(Instant::now() - ms(1)).unwrap();
        }
    });
}

#[test]
fn fairness_beside_a_task_that_spawns_and_joins() {
    beside(1, |stop| {
        while !stop.load(SeqCst) {
            ecru::scope(|s| s.spawn(|| ()).join().unwrap());
        }
    });
}

#[test]
fn fairness_beside_a_task_that_only_opens_scopes() {
    beside(1, |stop| {
        while !stop.load(SeqCst) {
            ecru::scope(|s| drop(s.spawn(|| ())));
        }
    });
}

#[test]
fn fairness_beside_a_task_that_joins_what_has_ended() {
    beside(1, |stop| {
        ecru::scope(|s| {
            while !stop.load(SeqCst) {
                let children: Vec<_> = (0..300).map(|_| s.spawn(|| ())).collect();
                for child in children {
                    child.join().unwrap();
                }
            }
        });
    });
}

/// Returns a stream whose reads always succeed, because peeking takes nothing.
fn well(bytes: usize) -> (TcpStream, TcpStream) {
    let (near, mut far) = pair();
    far.write_all(&vec![7; bytes]).unwrap();
    (near, far)
}

#[test]
fn fairness_beside_a_task_whose_reads_always_succeed() {
    let (near, _far) = well(1);
    beside(1, |stop| {
        while !stop.load(SeqCst) {
            assert_eq!(near.peek(&mut [0; 16]).unwrap(), 1);
        }
    });
}

#[test]
fn fairness_beside_a_task_whose_large_reads_always_succeed() {
    let (near, _far) = well(60_000);
    beside(1, |stop| {
        let mut buffer = vec![0; 1 << 16];
        while !stop.load(SeqCst) {
            assert!(near.peek(&mut buffer).unwrap() > 0);
        }
    });
}

#[test]
fn fairness_beside_two_tasks_that_always_have_something_to_say_to_each_other() {
    beside(1, |stop| {
        let (one, other) = pair();
        ecru::scope(|s| {
            s.spawn(|| {
                let mut buffer = [0; 4096];
                while (&other).read(&mut buffer).unwrap() > 0 {}
            });
            while !stop.load(SeqCst) {
                (&one).write_all(&[0; 4096]).unwrap();
            }
            one.shutdown(ecru::net::Shutdown::Write).unwrap();
        });
    });
}

#[test]
fn fairness_beside_a_task_that_ignores_its_cancellation() {
    let (near, _far) = pair();
    beside(1, |stop| {
        ecru::cancel_scope(|c| {
            c.cancel();
            while !stop.load(SeqCst) {
                let _ = ecru::sleep(HOUR);
                let _ = (&near).read(&mut [0]);
                let _ = ecru::checkpoint();
                let _ = ecru::yield_now();
            }
        });
    });
}

#[test]
fn fairness_beside_a_task_that_sets_limits() {
    beside(1, |stop| {
        while !stop.load(SeqCst) {
            // On a busy machine the deadline may pass at once.
            let _ = ecru::timeout(ms(5), ecru::checkpoint);
        }
    });
}

/// Computes for a millisecond at least, however slow the machine is.
fn compute() {
    thread::sleep(ms(1));
}

/// - given: a task whose channel is never empty, and which computes for 1 ms for each value
/// - when: another task of its worker is ready
/// - then: that task runs after a few values, and not after a whole budget
#[test]
fn task_65_computing_between_operations() {
    let _watchdog = Watchdog::new();
    let (sender, receiver) = ecru::channel::unbounded();
    (0..200).for_each(|n| sender.send(n).unwrap());
    drop(sender);
    run_on(1, || {
        let done = &AtomicUsize::new(0);
        ecru::scope(|s| {
            s.spawn(|| {
                for _ in receiver.iter() {
                    compute();
                    done.fetch_add(1, SeqCst);
                }
            });
            let mut before = 0;
            while before < 200 {
                ecru::yield_now().unwrap();
                let now = done.load(SeqCst);
                // A new task is allowed 8, and two more after a look if turns were long before.
                assert!(now - before <= 12, "{now} values, and {before} at the last turn");
                before = now;
            }
        });
    });
}

/// - given: tasks that compute for 1 ms in each turn
/// - when: another task of their worker sleeps for 5 ms
/// - then: it is woken soon after that
#[test]
fn task_66_computing_in_each_turn() {
    let _watchdog = Watchdog::new();
    run_on(1, || {
        let (turns, stop) = (&AtomicUsize::new(0), &AtomicBool::new(false));
        ecru::scope(|s| {
            for _ in 0..2 {
                s.spawn(|| {
                    while !stop.load(SeqCst) {
                        compute();
                        turns.fetch_add(1, SeqCst);
                        ecru::yield_now().unwrap();
                    }
                });
            }
            for _ in 0..10 {
                let before = turns.load(SeqCst);
                ecru::sleep(ms(5)).unwrap();
                // Five turns take 5 ms, and both tasks may be ahead of the one that is woken.
                let taken = turns.load(SeqCst) - before;
                assert!(taken <= 16, "{taken} turns");
            }
            stop.store(true, SeqCst);
        });
    });
}

/// - given: a task that spawns and joins tasks, each of which computes for 1 ms
/// - when: another task of their worker sleeps for 5 ms
/// - then: it is woken soon after that
#[test]
fn task_68_joining_tasks_that_compute() {
    let _watchdog = Watchdog::new();
    run_on(1, || {
        let (joined, stop) = (&AtomicUsize::new(0), &AtomicBool::new(false));
        ecru::scope(|s| {
            s.spawn(|| {
                while !stop.load(SeqCst) {
                    ecru::scope(|s| s.spawn(compute).join().unwrap());
                    joined.fetch_add(1, SeqCst);
                }
            });
            for _ in 0..10 {
                let before = joined.load(SeqCst);
                ecru::sleep(ms(5)).unwrap();
                // Five of them take 5 ms, and a turn has a few.
                let taken = joined.load(SeqCst) - before;
                assert!(taken <= 24, "{taken} were joined");
            }
            stop.store(true, SeqCst);
        });
    });
}

/// - given: a task that has received many values quickly, and now computes for 1 ms for each
/// - when: it receives under limits of 5 ms
/// - then: each limit but the first ends after a few values, and so does a sleep of another task
#[test]
fn task_69_limits_around_computing() {
    let _watchdog = Watchdog::new();
    let (sender, receiver) = ecru::channel::unbounded();
    (0..1000).for_each(|n| sender.send(n).unwrap());
    run_on(1, || {
        let (done, stop) = (&AtomicUsize::new(0), &AtomicBool::new(false));
        ecru::scope(|s| {
            let latest = s.spawn(|| {
                let mut latest = 0;
                while !stop.load(SeqCst) {
                    let before = done.load(SeqCst);
                    ecru::sleep(ms(5)).unwrap();
                    latest = done.load(SeqCst) - before;
                }
                latest
            });
            (0..200).for_each(|_| assert!(receiver.recv().is_ok()));
            for limit in 0..6 {
                let before = done.load(SeqCst);
                let receive = || {
                    while receiver.recv().is_ok() {
                        compute();
                        done.fetch_add(1, SeqCst);
                    }
                };
                assert!(ecru::timeout(ms(5), receive).is_err());
                let values = done.load(SeqCst) - before;
                // The first one may take the rest of a budget.
                assert!(values <= if limit == 0 { 129 } else { 16 }, "{values} values");
            }
            stop.store(true, SeqCst);
            let values = latest.join().unwrap();
            assert!(values <= 24, "{values} values within 5 ms");
        });
    });
}

/// - given: a task that computes for 1 ms, and whose destructors lock a mutex while it unwinds
/// - when: another task of its worker sleeps for 5 ms
/// - then: it is woken soon after that
#[test]
fn task_70_computing_between_panics() {
    struct Count<'a>(&'a ecru::sync::Mutex<usize>);
    impl Drop for Count<'_> {
        fn drop(&mut self) {
            *self.0.lock() += 1;
        }
    }
    let _watchdog = Watchdog::new();
    run_on(1, || {
        let (dropped, stop) = (&ecru::sync::Mutex::new(0), &AtomicBool::new(false));
        ecru::scope(|s| {
            s.spawn(|| {
                while !stop.load(SeqCst) {
                    ecru::checkpoint().unwrap();
                    compute();
                    let panic = || {
                        let _count = Count(dropped);
                        resume_unwind(Box::new(()))
                    };
                    assert!(catch_unwind(AssertUnwindSafe(panic)).is_err());
                }
            });
            for _ in 0..10 {
                let before = *dropped.lock();
                ecru::sleep(ms(5)).unwrap();
                let taken = *dropped.lock() - before;
                assert!(taken <= 24, "{taken} computations");
            }
            stop.store(true, SeqCst);
        });
    });
}

/// - given: a task that maps items in parallel, each of which takes 1 ms
/// - when: another task of its only worker sleeps for 5 ms
/// - then: it is woken soon after that, also when the quick end of a map has come before
#[test]
fn task_71_mapping_items_that_compute() {
    let _watchdog = Watchdog::new();
    run_on(1, || {
        let (mapped, stop) = (&AtomicUsize::new(0), &AtomicBool::new(false));
        ecru::scope(|s| {
            s.spawn(|| {
                while !stop.load(SeqCst) {
                    ecru::par::map(0..16, |_| {
                        compute();
                        mapped.fetch_add(1, SeqCst);
                    });
                }
            });
            for _ in 0..15 {
                let before = mapped.load(SeqCst);
                ecru::sleep(ms(5)).unwrap();
                // Five of them take 5 ms, and a task is misled for a map's length.
                let taken = mapped.load(SeqCst) - before;
                assert!(taken <= 40, "{taken} items");
            }
            stop.store(true, SeqCst);
        });
    });
}

/// - given: 20 tasks that become ready at once, and then compute for 1 ms in each of 8 operations
/// - when: another task of their worker sleeps for 5 ms
/// - then: it is woken after a few computations of each at most
#[test]
fn task_72_computing_in_a_burst() {
    let _watchdog = Watchdog::new();
    run_on(1, || {
        let (latch, done) = (&ecru::sync::Latch::new(1), &AtomicUsize::new(0));
        let waiting = &AtomicUsize::new(0);
        ecru::scope(|s| {
            for _ in 0..20 {
                s.spawn(|| {
                    waiting.fetch_add(1, SeqCst);
                    latch.wait().unwrap();
                    for _ in 0..8 {
                        ecru::checkpoint().unwrap();
                        compute();
                        done.fetch_add(1, SeqCst);
                    }
                });
            }
            while waiting.load(SeqCst) < 20 {
                ecru::yield_now().unwrap();
            }
            ecru::sleep(ms(5)).unwrap();
            latch.count_down();
            ecru::sleep(ms(5)).unwrap();
            let taken = done.load(SeqCst);
            assert!(taken <= 80, "{taken} of 160 computations");
        });
    });
}

/// - given: a task that computes between operations, and two that exchange messages
/// - when: all run on one worker
/// - then: many messages are exchanged for each computation
#[test]
fn task_67_quick_beside_computing() {
    let _watchdog = Watchdog::new();
    let (sender, receiver) = ecru::channel::unbounded();
    (0..100).for_each(|n| sender.send(n).unwrap());
    drop(sender);
    run_on(1, || {
        let messages = &AtomicUsize::new(0);
        ecru::scope(|s| {
            let computing = s.spawn(|| {
                for _ in receiver.iter() {
                    compute();
                }
            });
            let (full, values) = ecru::channel::bounded(1000);
            s.spawn(move || while full.send(()).is_ok() {});
            s.spawn(move || {
                for () in values.iter() {
                    messages.fetch_add(1, SeqCst);
                    if computing.is_finished() {
                        break;
                    }
                }
            });
        });
        let all = messages.load(SeqCst);
        assert!(all > 100 * 10, "{all} messages beside 100 computations");
    });
}

#[test]
fn fairness_beside_a_task_that_maps() {
    beside(1, |stop| {
        while !stop.load(SeqCst) {
            let sum: u32 = ecru::par::map_buffered(4, 0..20_u32, |n| n).iter().sum();
            assert_eq!(sum, 190);
        }
    });
}
