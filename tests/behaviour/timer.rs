//! Rows of `doc/behaviour/timer.md`.

use crate::streams::loud;
use crate::support::{HOUR, each_run, ms, run_on, settle, until};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

fn us(microseconds: u64) -> Duration {
    Duration::from_micros(microseconds)
}

/// Sleeps, and returns how much too late it woke. Panics if it was early.
fn lateness(duration: Duration) -> Duration {
    let deadline = Instant::now() + duration;
    ecru::sleep(duration).unwrap();
    let now = Instant::now();
    assert!(now >= deadline, "early by {:?} of {duration:?}", deadline - now);
    now - deadline
}

/// What this process has used, by the kernel's account.
struct Usage {
    processor: Duration,
    /// How often its threads gave the processor up to wait.
    waits: u64,
}

/// What this process has used so far.
fn usage() -> Usage {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let processor = Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap());
    let mut waits = 0;
    for thread in std::fs::read_dir("/proc/self/task").unwrap() {
        // A thread that has ended meanwhile is no matter.
        let status =
            std::fs::read_to_string(thread.unwrap().path().join("status")).unwrap_or_default();
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        waits += count.map_or(0, |count| count.trim().parse::<u64>().unwrap());
    }
    Usage { processor, waits }
}

#[test]
fn timer_01_never_early() {
    each_run(|| {
        ecru::scope(|s| {
            for n in 0..400_u64 {
                // From well under a tick of the wheel to several of its levels.
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
            let deadline = Instant::now() + us(13 * n);
            ecru::time::sleep_until(deadline).unwrap();
            assert!(Instant::now() >= deadline);
        }
    });
}

#[test]
fn timer_02_side_by_side() {
    let _loud = loud();
    run_on(1, || {
        let start = Instant::now();
        ecru::scope(|s| {
            for _ in 0..100 {
                s.spawn(|| ecru::sleep(ms(20)).unwrap());
            }
        });
        // One after another they would take two seconds.
        assert!((ms(20)..ms(500)).contains(&start.elapsed()), "{:?}", start.elapsed());
    });
}

#[test]
fn timer_03_in_order() {
    each_run(|| {
        let woken = Mutex::new(Vec::new());
        let start = Instant::now();
        ecru::scope(|s| {
            for n in 0..40_u32 {
                let (length, woken) = (n * 29 % 40, &woken);
                // On one worker: two may each wake theirs when they get to it.
                s.spawn_local(move || {
                    // So late that all of them are asleep before the first is due.
                    ecru::time::sleep_until(start + ms(50) + us(u64::from(length) * 500)).unwrap();
                    woken.lock().unwrap().push(length);
                });
            }
        });
        assert_eq!(*woken.lock().unwrap(), (0..40).collect::<Vec<_>>());
    });
}

#[test]
fn timer_04_cancelled() {
    each_run(|| {
        let start = Instant::now();
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
        assert!(start.elapsed() < HOUR / 100);
    });
}

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
                    ecru::time::sleep_until(Instant::now() - ms(1)).unwrap();
                } else {
                    ecru::sleep(Duration::ZERO).unwrap();
                }
                assert_eq!(others.load(SeqCst), 3);
            });
        }
    });
}

#[test]
fn timer_06_for_ever() {
    each_run(|| {
        for length in
            [Duration::MAX, Duration::from_secs(u64::MAX / 4), Duration::from_secs(1 << 33)]
        {
            let woken = AtomicBool::new(false);
            ecru::scope(|s| {
                let child = s.spawn(|| {
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

#[test]
fn timer_07_on_a_thread() {
    for length in [us(1), us(300), ms(3)] {
        lateness(length);
        let deadline = Instant::now() + length;
        ecru::time::sleep_until(deadline).unwrap();
        assert!(Instant::now() >= deadline);
    }
    // The enclosing limit is its own.
    let start = Instant::now();
    assert!(ecru::timeout(ms(5), || ecru::sleep(HOUR)).is_err());
    assert!((ms(5)..HOUR / 100).contains(&start.elapsed()));
}

#[test]
fn timer_08_an_earlier_one_later() {
    for workers in [1, 2] {
        run_on(workers, || {
            let handle = ecru::Handle::current();
            ecru::scope(|s| {
                let far = s.spawn(|| ecru::sleep(HOUR));
                settle();
                let thread = thread::spawn(move || {
                    for _ in 0..20 {
                        thread::sleep(us(200));
                        let start = Instant::now();
                        let near = handle.spawn(|| lateness(us(500))).unwrap();
                        near.join().unwrap();
                        assert!(start.elapsed() < HOUR / 100);
                    }
                });
                ecru::unblock(|| thread.join().unwrap());
                far.cancel();
            });
        });
    }
}

#[test]
fn timer_09_cancelled_ones_leave_nothing() {
    alone("timer::timer_09_cancelled_ones_leave_nothing", || {
        run_on(1, || {
            let resident = || {
                let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
                statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
            };
            let many = |count: u64| {
                for n in 0..count {
                    ecru::timeout(ms(2 + n % 50), || ()).unwrap();
                }
            };
            many(1_000);
            let before = resident();
            many(100_000);
            let grown = resident().saturating_sub(before);
            // A leaked timer of 64 bytes each would be 6 MB.
            assert!(grown < 1_000_000, "{grown} bytes more");
        });
    });
}

/// Of a process of its own, because the kernel's account is of the whole process.
fn alone(test: &str, body: impl FnOnce()) {
    if crate::support::is_child(test) {
        body();
        return;
    }
    let output = crate::support::start_again(test).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let good = output.status.success() && text.contains("1 passed");
    assert!(good, "{text}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn timer_09_cancelled_ones_leave_nothing_that_wakes() {
    alone("timer::timer_09_cancelled_ones_leave_nothing_that_wakes", || {
        run_on(1, || {
            for n in 0..100_000 {
                ecru::timeout(ms(5 + n % 40), || ()).unwrap();
            }
            ecru::scope(|s| {
                // The watch for others' work ends before the count begins.
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

#[cfg(not(ecru_baton))] // passing the baton is a wait of a thread
#[test]
fn timer_10_idle_costs_nothing() {
    alone("timer::timer_10_idle_costs_nothing", || {
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
                assert!(used < ms(5), "{used:?} of processor time on {workers} workers");
                let waits = after.waits - before.waits;
                assert!(waits < 60, "woken {waits} times on {workers} workers");
            });
        }
    });
}

#[test]
fn timer_10_idle_costs_nothing_once_there_is_a_driver() {
    alone("timer::timer_10_idle_costs_nothing_once_there_is_a_driver", || {
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
                    assert!(used < ms(5), "{used:?} of processor time on {workers} workers");
                    let waits = after.waits - before.waits;
                    assert!(waits < 60, "woken {waits} times on {workers} workers");
                });
            });
        }
    });
}

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
fn timer_11_many_slow_a_million_sleeps() {
    let _loud = loud();
    run_on(2, || {
        let start = Instant::now();
        let ended = AtomicUsize::new(0);
        ecru::scope(|s| {
            for seed in 0..50_000 {
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
        assert_eq!(ended.load(SeqCst), 1_000_000);
        println!("a million sleeps of 0 to 20 ms: {:?}", start.elapsed());
    });
}

#[test]
fn timer_12_hardly_late() {
    let _loud = loud();
    run_on(1, || {
        let noise = thread::spawn(machine_noise);
        let mut late: Vec<Duration> = (0..100).map(|_| lateness(ms(1))).collect();
        late.sort_unstable();
        let noise = noise.join().unwrap();
        assert!(late[50] < ms(1) + 2 * noise, "median {:?}; a plain thread's {noise:?}", late[50]);
    });
}

/// How late the latest of some sleeps of a plain thread is at the moment: what the machine, and whoever shares it, adds.
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
    let _loud = loud();
    each_run(|| {
        let noise = thread::spawn(machine_noise);
        let late = Mutex::new(Vec::new());
        // Not before all have begun.
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
        // Half of them, as anybody who shares the machine may hold up any other.
        assert!(p50 <= ms(2) + 2 * noise, "p50 {p50:?}; a plain thread's {noise:?}");
    });
}

/// Sleeps begin, end and are cancelled in random order; a set of deadlines says what may have woken.
#[test]
fn timer_03_in_order_as_a_model_says() {
    for workers in [1, 2] {
        for seed in 0..4 {
            run_on(workers, || {
                let mut random = fastrand::Rng::with_seed(seed);
                let start = Instant::now();
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
                                assert!(Instant::now() >= deadline);
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
                        assert!(!slept || Instant::now() >= deadline);
                    }
                });
                assert!(start.elapsed() < ms(40) + ms(500));
            });
        }
    }
}
