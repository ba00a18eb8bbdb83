//! Threads of std, other runtimes, real time and large stacks in and around simulations.

use super::{SECOND, report, run};
use crate::common::run_on;
use ecru::sim::{self, Failure, Simulation};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn simulations_on_many_threads_at_once() {
    let program = || {
        let listener = ecru::net::TcpListener::bind("0.0.0.0:80").unwrap();
        ecru::fs::write("same name", "text").unwrap();
        ecru::scope(|s| {
            s.spawn(|| listener.accept().map(drop));
            s.spawn(|| ecru::net::TcpStream::connect("127.0.0.1:80").map(drop));
            s.spawn(|| ecru::sleep(SECOND));
        });
        sim::elapsed()
    };
    let hashes: Vec<_> = thread::scope(|s| {
        let threads: Vec<_> = (0..64).map(|_| s.spawn(move || report(5, program))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap().trace_hash).collect()
    });
    assert!(hashes.iter().all(|hash| *hash == hashes[0]));
}

/// A request that comes as its run ends may stay in the inbox of a worker that a simulation gets
/// next. No task of the simulation has been asked.
#[test]
fn a_request_to_a_run_that_has_ended_before_the_simulation() {
    for _ in 0..500 {
        let (give, take) = mpsc::channel::<ecru::JoinHandle<'static, bool>>();
        let canceller = thread::spawn(move || take.recv().unwrap().cancel());
        run_on(1, || {
            give.send(ecru::spawn(|| ecru::sleep(Duration::from_micros(20)).is_ok())).unwrap();
        });
        assert!(run(1, || ecru::sleep(SECOND).is_ok()));
        canceller.join().unwrap();
    }
}

#[test]
fn a_simulation_on_a_thread_of_a_simulation() {
    let inner = run(1, || {
        assert!(sim::is_simulated());
        thread::scope(|s| {
            s.spawn(|| {
                assert!(!sim::is_simulated());
                run(2, || {
                    ecru::sleep(SECOND).unwrap();
                    sim::elapsed()
                })
            })
            .join()
            .unwrap()
        })
    });
    assert_eq!(inner, SECOND);
}

#[test]
fn a_simulation_in_unblock_of_a_real_runtime_and_on_a_thread_of_it() {
    run_on(2, || {
        ecru::scope(|s| {
            for seed in 0..4 {
                s.spawn(move || {
                    let outcome = ecru::unblock(move || {
                        std::panic::catch_unwind(|| {
                            Simulation::new(seed).run(|| ecru::sleep(SECOND).is_ok()).unwrap()
                        })
                    });
                    // A closure of `unblock` runs on a thread, so this is allowed, or it is refused.
                    assert!(outcome.is_err() || outcome.unwrap());
                    let joined = thread::spawn(move || run(seed, || 7)).join().unwrap();
                    assert_eq!(joined, 7);
                });
            }
        });
    });
}

#[test]
fn a_run_of_the_real_runtime_on_a_thread_in_a_simulation() {
    let seen = run(1, || {
        thread::scope(|s| {
            s.spawn(|| {
                ecru::run(|| {
                    ecru::sleep(Duration::from_millis(1)).unwrap();
                    sim::is_simulated()
                })
            })
            .join()
            .unwrap()
        })
    });
    assert!(!seen);
}

#[test]
fn what_a_plain_thread_may_do_with_values_of_a_simulation() {
    let report = report(1, || {
        let (tx, rx) = ecru::channel::unbounded::<u32>();
        let lock = ecru::sync::Mutex::new(0);
        let (mut one, mut other) = {
            let listener = ecru::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let one = ecru::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            (one, listener.accept().unwrap().0)
        };
        thread::scope(|s| {
            s.spawn(|| {
                tx.send(1).unwrap();
                *lock.lock() += 1;
                use std::io::{Read, Write};
                let wrote = one.write(b"x");
                let read = other
                    .set_read_timeout(Some(Duration::from_millis(1)))
                    .map(|()| other.read(&mut [0]));
                let _ = (wrote, read);
                let file = ecru::fs::write("/nonexistent/x", "x");
                assert!(file.is_err());
                let _ = (sim::random_u64(), sim::elapsed());
                sim::point();
                let caught = std::panic::catch_unwind(sim::settle);
                assert!(caught.is_err());
            });
        });
        assert_eq!(rx.recv(), Ok(1));
        *lock.lock()
    });
    assert!(matches!(report.result, Ok(1) | Err(Failure::Foreign { .. })), "{report}");
}

#[test]
fn a_plain_thread_and_a_task_share_a_socket_of_the_simulation() {
    // The thread uses the world of the simulation while the simulation goes on.
    let report = report(1, || {
        let stop = std::sync::atomic::AtomicBool::new(false);
        let socket = ecru::net::UdpSocket::bind("127.0.0.1:9").unwrap();
        let file = ecru::fs::File::create("f").unwrap();
        thread::scope(|s| {
            s.spawn(|| {
                while !stop.load(SeqCst) {
                    let _ = socket.send_to(b"from a thread", "127.0.0.1:9");
                    let _ = file.write_at(b"x", 0);
                    let _ = file.metadata();
                    let _ = socket.local_addr();
                }
            });
            struct Stop<'a>(&'a std::sync::atomic::AtomicBool);
            impl Drop for Stop<'_> {
                fn drop(&mut self) {
                    self.0.store(true, SeqCst);
                }
            }
            let _stop = Stop(&stop);
            for _ in 0..200 {
                let _ = socket.send_to(b"own", "127.0.0.1:9");
                let mut buffer = [0; 32];
                if let Ok(Ok(count)) = ecru::timeout(SECOND, || socket.recv(&mut buffer)) {
                    assert!(count == 3 || count == 13);
                }
                let _ = file.write_at(b"yy", 0);
                ecru::yield_now().unwrap();
            }
        });
    });
    assert!(matches!(report.result, Ok(()) | Err(Failure::Foreign { .. })), "{report}");
}

#[test]
fn values_of_the_simulation_are_dropped_on_a_plain_thread_meanwhile() {
    let report = report(1, || {
        let (to, from) = mpsc::channel::<Box<dyn std::any::Any + Send>>();
        thread::scope(|s| {
            s.spawn(move || from.into_iter().for_each(drop));
            for n in 0..100 {
                let listener = ecru::net::TcpListener::bind("127.0.0.1:0").unwrap();
                let one = ecru::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
                to.send(Box::new(listener.accept().unwrap())).unwrap();
                to.send(Box::new(one)).unwrap();
                to.send(Box::new(listener)).unwrap();
                to.send(Box::new(ecru::fs::File::create(format!("f{n}")).unwrap())).unwrap();
                let timer = ecru::time::Timer::new(SECOND);
                timer.start().unwrap();
                use ecru::Source;
                to.send(Box::new(timer.clone().on_ready(|_| ()))).unwrap();
                to.send(Box::new(timer)).unwrap();
                ecru::sleep(SECOND / 10).unwrap();
            }
            drop(to);
        });
    });
    assert!(matches!(report.result, Ok(()) | Err(Failure::Foreign { .. })), "{report}");
}

#[test]
fn a_clone_of_a_host_on_a_plain_thread() {
    run(1, || {
        let host = sim::host("host", || Ok(()));
        let text = thread::scope(|s| {
            s.spawn(|| crate::common::panic_text(|| host.crash())).join().unwrap()
        });
        assert!(text.contains("outside"), "{text}");
    });
}

#[test]
fn locks_and_channels_of_std_that_are_free_are_fine() {
    run(1, || {
        let lock = std::sync::Mutex::new(0);
        let (tx, rx) = mpsc::channel();
        ecru::scope(|s| {
            for _ in 0..10 {
                let tx = tx.clone();
                let lock = &lock;
                s.spawn(move || {
                    *lock.lock().unwrap() += 1;
                    ecru::yield_now().unwrap();
                    tx.send(1).unwrap();
                });
            }
        });
        drop(tx);
        assert_eq!(rx.iter().sum::<i32>(), lock.into_inner().unwrap());
    });
}

#[test]
fn real_time_passes_without_an_effect() {
    let report = report(1, || {
        let begun = Instant::now();
        thread::sleep(Duration::from_millis(20));
        assert!(begun.elapsed() >= Duration::from_millis(20));
        ecru::sleep(SECOND).unwrap();
    });
    assert_eq!(report.elapsed, SECOND);
    report.unwrap();
}

#[test]
fn virtual_and_real_instants_are_mixed() {
    run(1, || {
        // A deadline in the real past, the real future, and at the ends of what there is.
        let real = Instant::now();
        let _ = ecru::sleep_until(real);
        let _ = ecru::timeout_at(real, || ecru::sleep(SECOND));
        let _ = ecru::sleep_until(real + SECOND);
        if let Some(early) = real.checked_sub(Duration::from_secs(100)) {
            ecru::sleep_until(early).unwrap();
        }
        assert!(ecru::timeout(SECOND, || ecru::sleep(Duration::MAX)).is_err());
        assert!(ecru::timeout(Duration::MAX, || ecru::sleep(SECOND)).is_ok());
        assert!(ecru::timeout(Duration::ZERO, || ecru::sleep(SECOND)).is_err());
    });
}

#[test]
fn large_stacks_and_deep_recursion() {
    fn deep(n: u32) -> u32 {
        let here = std::hint::black_box([n; 64]);
        if n == 0 { here[0] } else { deep(n - 1) + u32::from(here[63] == n) }
    }
    run(1, || {
        assert_eq!(deep(2_000), 2_000);
        let sum = ecru::unblock(|| {
            let large = std::hint::black_box([1_u8; 2 << 20]);
            ecru::sleep(SECOND).unwrap();
            large.iter().map(|byte| u64::from(*byte)).sum::<u64>()
        });
        assert_eq!(sum, 2 << 20);
        ecru::scope(|s| {
            let task = s.builder().stack_size(16 << 20).spawn(|| {
                let large = std::hint::black_box([1_u8; 4 << 20]);
                ecru::yield_now().unwrap();
                large[5]
            });
            assert_eq!(task.join().unwrap(), 1);
        });
    });
}

#[test]
fn a_hundred_nested_unblocks() {
    fn nest(n: u32) -> u32 {
        if n == 0 { 0 } else { ecru::unblock(|| nest(n - 1)) + 1 }
    }
    run(1, || assert_eq!(nest(100), 100));
}

#[test]
fn a_hundred_thousand_tasks_slow() {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = &count;
    let report = Simulation::new(1).max_steps(10_000_000).run(move || {
        ecru::scope(|s| {
            for _ in 0..100_000 {
                s.spawn(move || {
                    counter.fetch_add(1, SeqCst);
                });
            }
        });
    });
    report.unwrap();
    assert_eq!(count.load(SeqCst), 100_000);
}
