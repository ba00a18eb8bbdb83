//! A worker with tasks that never wait still looks at its timers, its sockets and its inboxes.

use crate::streams::{loud, pair};
use crate::support::{HOUR, Watchdog, ms, run_on};
use ecru::net::TcpStream;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// What is "promptly" on a machine that has other things to do, too.
const PROMPTLY: Duration = Duration::from_millis(100);

/// Runs `hog` in so many tasks until told to stop, and sees to it that beside them a sleep, a socket, a cancellation from another
/// thread and a spawn from another thread are served.
fn beside(hogs: usize, hog: impl Fn(&AtomicBool) + Sync) {
    let _loud = loud();
    let _watchdog = Watchdog::new();
    let (mut far, near) = pair();
    let stop = &AtomicBool::new(false);
    let hog = &hog;
    run_on(1, || {
        let handle = ecru::Handle::current();
        ecru::scope(|s| {
            for _ in 0..hogs {
                s.spawn_local(|| hog(stop));
            }
            let witness = s.spawn_local(|| {
                for _ in 0..3 {
                    let start = Instant::now();
                    ecru::sleep(ms(10)).unwrap();
                    let late = start.elapsed() - ms(10);
                    assert!(late < PROMPTLY, "the timer is late by {late:?}");
                }
                let writer = thread::spawn(move || {
                    for _ in 0..3 {
                        thread::sleep(ms(3));
                        let bytes = Instant::now();
                        far.write_all(b"x").unwrap();
                        // The answer says how long it took.
                        far.read_exact(&mut [0]).unwrap();
                        let late = bytes.elapsed();
                        assert!(late < 2 * PROMPTLY, "the socket is late by {late:?}");
                    }
                });
                for _ in 0..3 {
                    (&near).read_exact(&mut [0]).unwrap();
                    (&near).write_all(b"y").unwrap();
                }
                writer.join().unwrap();
                let (asked, answered) = ecru::cancel_scope(|c| {
                    let thread = thread::spawn(move || {
                        thread::sleep(ms(3));
                        let asked = Instant::now();
                        c.cancel();
                        asked
                    });
                    assert!(ecru::sleep(HOUR).is_err());
                    let answered = Instant::now();
                    (thread.join().unwrap(), answered)
                });
                let late = answered - asked;
                assert!(late < PROMPTLY, "the cancellation is late by {late:?}");
                let start = Instant::now();
                let thread = thread::spawn(move || handle.spawn(Instant::now).unwrap());
                let begun = ecru::unblock(|| thread.join().unwrap()).join().unwrap();
                let late = begun - start;
                assert!(late < PROMPTLY, "the spawned task is late by {late:?}");
            });
            let result = witness.join();
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

/// A stream of which every read succeeds for good: peeking takes nothing.
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
            ecru::timeout(ms(5), ecru::checkpoint).unwrap().unwrap();
        }
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
