//! The cost of sleeping, and its lateness.

use super::{lateness, us};
use crate::common::resident_bytes;
use crate::streams::loud;
use crate::support::{alone, each_run, ms, run_on};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

/// The resources that this process has used, according to the kernel.
struct Usage {
    processor: Duration,
    /// How often its threads have given up the processor to wait.
    waits: u64,
}

/// Returns the resources that this process has used so far.
fn usage() -> Usage {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let processor = Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap());
    let mut waits = 0;
    for thread in std::fs::read_dir("/proc/self/task").unwrap() {
        // A thread that has ended meanwhile does not matter.
        let status =
            std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap_or_default();
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        waits += count.map_or(0, |count| count.trim().parse::<u64>().unwrap());
    }
    Usage { processor, waits }
}

/// - given: 100,000 timeouts whose bodies ended in time
/// - when: a worker becomes idle
/// - then: none of them wakes it, and their memory is reused
#[test]
fn timer_09_cancelled_ones_leave_nothing() {
    alone("timer::costs::timer_09_cancelled_ones_leave_nothing", || {
        run_on(1, || {
            let many = |count: u64| {
                for n in 0..count {
                    ecru::timeout(ms(2 + n % 50), || ()).unwrap();
                }
            };
            many(1_000);
            let before = resident_bytes();
            many(100_000);
            let grown = resident_bytes().saturating_sub(before);
            // Leaked timers of 64 bytes each would be 6 MB.
            assert!(grown < 1_000_000, "{grown} bytes more");
        });
    });
}

#[test]
fn timer_09_cancelled_ones_leave_nothing_that_wakes() {
    alone("timer::costs::timer_09_cancelled_ones_leave_nothing_that_wakes", || {
        run_on(1, || {
            for n in 0..100_000 {
                ecru::timeout(ms(5 + n % 40), || ()).unwrap();
            }
            ecru::scope(|s| {
                // The watch for other workers' tasks ends before the count begins.
                ecru::sleep(ms(20)).unwrap();
                let before = usage();
                s.spawn_local(|| lateness(ms(80)));
                lateness(ms(80));
                let waits = usage().waits - before.waits;
                assert!(waits < 20, "woken {waits} times");
            });
        });
    });
}

/// - given: a run in which all tasks sleep 200 ms
/// - when: it is over
/// - then: it has used under 5 ms of processor time
#[cfg(not(ecru_baton))] // passing the baton is a wait of a thread
#[test]
fn timer_10_idle_costs_nothing() {
    alone("timer::costs::timer_10_idle_costs_nothing", || {
        for workers in [1, 2] {
            run_on(workers, || {
                let before = usage();
                ecru::scope(|s| {
                    for _ in 0..10 {
                        s.spawn(|| lateness(ms(200)));
                    }
                });
                let after = usage();
                let used = after.processor - before.processor;
                assert!(used < ms(20), "{used:?} of processor time on {workers} workers");
                let waits = after.waits - before.waits;
                assert!(waits < 60, "woken {waits} times on {workers} workers");
            });
        }
    });
}

#[test]
fn timer_10_idle_costs_nothing_once_there_is_a_driver() {
    alone("timer::costs::timer_10_idle_costs_nothing_once_there_is_a_driver", || {
        for workers in [1, 2] {
            run_on(workers, || {
                let listener = ecru::net::TcpListener::bind("127.0.0.1:0").unwrap();
                ecru::scope(|s| {
                    s.spawn_daemon(|| listener.accept());
                    ecru::sleep(ms(5)).unwrap();
                    let before = usage();
                    lateness(ms(150));
                    let after = usage();
                    let used = after.processor - before.processor;
                    assert!(used < ms(20), "{used:?} of processor time on {workers} workers");
                    let waits = after.waits - before.waits;
                    assert!(waits < 60, "woken {waits} times on {workers} workers");
                });
            });
        }
    });
}

/// - given: 100,000 tasks
/// - when: all sleep 50 ms
/// - then: all wake, none early
#[cfg(not(ecru_baton))] // as many threads as tasks
#[test]
fn timer_11_many_slow() {
    let _loud = loud();
    each_run(|| {
        let woken = AtomicUsize::new(0);
        ecru::scope(|s| {
            for _ in 0..100_000 {
                s.spawn(|| {
                    lateness(ms(50));
                    woken.fetch_add(1, SeqCst);
                });
            }
        });
        assert_eq!(woken.load(SeqCst), 100_000);
    });
}

#[cfg(not(ecru_baton))] // as many threads as tasks
#[test]
fn timer_11_many_slow_with_many_sleeps_each() {
    let _loud = loud();
    run_on(2, || {
        let start = Instant::now();
        let ended = AtomicUsize::new(0);
        ecru::scope(|s| {
            for seed in 0..10_000 {
                let ended = &ended;
                drop(s.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(seed);
                    for _ in 0..20 {
                        lateness(us(random.u64(0..20_000)));
                    }
                    ended.fetch_add(20, SeqCst);
                }));
            }
        });
        assert_eq!(ended.load(SeqCst), 200_000);
        println!("200,000 sleeps of 0 to 20 ms: {:?}", start.elapsed());
    });
}

/// - given: an idle worker
/// - when: it sleeps 200 times 1 ms
/// - then: the median lateness is under 1 ms
#[test]
fn timer_12_hardly_late() {
    let _loud = loud();
    alone("timer::costs::timer_12_hardly_late", || {
        run_on(1, || {
            // Of several rounds one suffices, because other programs may delay any of them.
            let seen: Vec<_> = (0..10)
                .map(|_| {
                    let noise = thread::spawn(machine_noise);
                    let mut late: Vec<Duration> = (0..100).map(|_| lateness(ms(1))).collect();
                    late.sort_unstable();
                    (late[50], noise.join().unwrap())
                })
                .take_while(|(p50, noise)| *p50 >= ms(1) + 2 * *noise)
                .collect();
            assert!(seen.len() < 10, "late by half, and a plain thread: {seen:?}");
        });
    });
}

/// Returns the largest lateness of some sleeps of a plain thread, which is the machine's share.
fn machine_noise() -> Duration {
    let mut late: Vec<Duration> = (0..30)
        .map(|_| {
            let deadline = Instant::now() + ms(1);
            thread::sleep(ms(1));
            deadline.elapsed()
        })
        .collect();
    late.sort_unstable();
    late[29]
}

#[cfg(not(ecru_baton))] // how late a thread is the kernel decides
#[test]
fn timer_12_hardly_late_side_by_side() {
    // This runs in a process of its own. A fork in another test delays all threads that touch new
    // memory, as these tasks do and a plain thread does not.
    let _loud = loud();
    alone("timer::costs::timer_12_hardly_late_side_by_side", || {
        each_run(|| {
            // Of several rounds one suffices, because other programs may delay any of them.
            let seen: Vec<_> = (0..10)
                .map(|_| {
                    let (late, noise) = late_side_by_side();
                    (late[late.len() / 2], noise)
                })
                .take_while(|(p50, noise)| *p50 > ms(2) + 2 * *noise)
                .collect();
            assert!(seen.len() < 10, "late by half, and a plain thread: {seen:?}");
        });
    });
}

/// Returns the lateness of many sleeps, and of a plain thread at the same time.
fn late_side_by_side() -> (Vec<Duration>, Duration) {
    let noise = thread::spawn(machine_noise);
    let late = Mutex::new(Vec::new());
    // This is late enough that all have begun.
    let start = Instant::now() + ms(15);
    ecru::scope(|s| {
        for _ in 0..500 {
            s.spawn(|| {
                let deadline = start + us(fastrand::u64(0..20_000));
                ecru::time::sleep_until(deadline).unwrap();
                let now = Instant::now();
                assert!(now >= deadline);
                late.lock().unwrap().push(now - deadline);
            });
        }
    });
    let mut late = late.into_inner().unwrap();
    late.sort_unstable();
    let noise = noise.join().unwrap();
    let [p50, p90, p99] = [late[250], late[450], late[495]];
    println!("late: p50 {p50:?}, p90 {p90:?}, p99 {p99:?}; a plain thread: {noise:?}");
    (late, noise)
}
