//! What the tasks of a host do after its crash, and what its peers see of it.

use super::{MS, SECOND, ask, each_strategy, echo_host, run};
use ecru::net::{TcpListener, TcpStream};
use ecru::sim::{self, Simulation};
use ecru::sync::{Mutex, Semaphore};
use ecru::{shield, shield_for, sleep};
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Counts when it is dropped.
struct Count(Arc<AtomicU32>);

impl Drop for Count {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// - given: tasks of a host that wait under shields, under several shields, or open a shield later
/// - when: the host crashes
/// - then: all their waits fail with `Cancelled`, in no virtual time
#[test]
fn sim_160_a_crash_passes_shields() {
    each_strategy(|| {
        let failed = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&failed);
        let host = sim::host("host", move || {
            let note = |failed: bool| _ = count.fetch_add(u32::from(failed), Relaxed);
            let hour = 3600 * SECOND;
            let (_tx, rx) = ecru::channel::bounded::<()>(1);
            let none = Semaphore::new(0);
            ecru::scope(|s| {
                s.spawn(|| shield(|| note(sleep(hour).is_err())));
                s.spawn(|| {
                    shield(|| {
                        shield(|| note(rx.recv().is_err()));
                        note(sleep(hour).is_err());
                        ecru::scope(|s| s.spawn(|| note(ecru::checkpoint().is_err())).join())
                            .unwrap_err();
                        note(true);
                    });
                });
                s.spawn(|| shield_for(hour, || note(none.acquire().is_err())));
                s.spawn(|| {
                    note(sleep(hour).is_err());
                    shield(|| note(sleep(hour).is_err()));
                });
            });
            Ok(())
        });
        sleep(SECOND).unwrap();
        host.crash();
        sim::settle();
        assert_eq!((failed.load(Relaxed), sim::elapsed()), (7, SECOND));
    });
}

/// - given: a host with two tasks in a deadlock of locks, and one that waits for a lock which the
///   program holds
/// - when: it is restarted
/// - then: these tasks run their destructors, the host begins again in no virtual time, and the run
///   goes on
#[test]
fn sim_161_locks_of_a_crashed_host() {
    each_strategy(|| {
        let (starts, ended) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let common = Arc::new(Mutex::new(0));
        let held = common.lock();
        let (count, end, lock) = (Arc::clone(&starts), Arc::clone(&ended), Arc::clone(&common));
        let host = sim::host("host", move || {
            if count.fetch_add(1, Relaxed) > 0 {
                return Ok(());
            }
            let (a, b) = (Mutex::new(()), Mutex::new(()));
            let both = |one: &Mutex<()>, other: &Mutex<()>| {
                let _end = Count(Arc::clone(&end));
                let _one = one.lock();
                let _ = sleep(SECOND / 2);
                drop(other.lock());
            };
            ecru::scope(|s| {
                s.spawn(|| both(&a, &b));
                s.spawn(|| both(&b, &a));
                s.spawn(|| {
                    let _end = Count(Arc::clone(&end));
                    *lock.lock() += 1;
                });
            });
            Ok(())
        });
        sleep(SECOND).unwrap();
        assert_eq!(ended.load(Relaxed), 0);
        host.restart();
        sim::settle();
        assert_eq!((starts.load(Relaxed), ended.load(Relaxed)), (2, 3));
        assert_eq!((*held, sim::elapsed()), (0, SECOND));
    });
}

/// - given: a task that a crash unwinds out of a lock, and whose destructors wait, also under a
///   shield and for the same lock
/// - when: the program releases that lock later
/// - then: the destructors run to their end, and nothing else is affected
#[test]
fn sim_162_destructors_after_a_crash() {
    struct Cleans(Arc<Mutex<u32>>);
    impl Drop for Cleans {
        fn drop(&mut self) {
            let _ = shield(|| sleep(60 * SECOND));
            let _ = shield(|| shield(|| sleep(60 * SECOND)));
            *self.0.lock() += 10;
        }
    }
    each_strategy(|| {
        let common = Arc::new(Mutex::new(0));
        let mut held = common.lock();
        let lock = Arc::clone(&common);
        let host = sim::host("host", move || {
            let _cleans = Cleans(Arc::clone(&lock));
            *lock.lock() += 1;
            Ok(())
        });
        sleep(SECOND).unwrap();
        host.crash();
        sleep(SECOND).unwrap();
        *held += 100;
        drop(held);
        sim::settle();
        assert_eq!((*common.lock(), sim::elapsed()), (110, 2 * SECOND));
    });
}

/// - given: a host that panics if a wait fails, and one that returns another error then
/// - when: they crash
/// - then: nothing is reported
#[test]
fn sim_163_panics_after_a_crash() {
    each_strategy(|| {
        let panics = sim::host("panics", || {
            ecru::scope(|s| {
                s.spawn(|| sleep(3600 * SECOND).unwrap());
                TcpListener::bind("0.0.0.0:80").unwrap().accept().unwrap();
            });
            Ok(())
        });
        let fails = sim::host("fails", || {
            sleep(3600 * SECOND).map_err(|_| std::io::Error::other("it has failed"))
        });
        sleep(SECOND).unwrap();
        panics.crash();
        fails.power_fail();
        sleep(SECOND).unwrap();
    });
}

/// - given: a task of a host that ignores all errors, in a loop
/// - when: the host crashes
/// - then: the simulation fails after 10,000 steps of the task, and names the task and its host
#[test]
fn sim_164_a_task_that_outlives_its_crash() {
    let report = Simulation::new(1).run(|| {
        let host = sim::host("server", || {
            ecru::scope(|s| {
                s.builder().name("deaf").spawn(|| {
                    loop {
                        let _ = shield(|| sleep(SECOND));
                    }
                });
            });
            Ok(())
        });
        sleep(10 * SECOND).unwrap();
        host.crash();
        sleep(10 * SECOND)
    });
    assert_eq!(report.elapsed, 10 * SECOND);
    assert!((10_000..11_000).contains(&report.steps), "{report}");
    let text = report.result.unwrap_err().to_string();
    for part in ["'deaf'", "'server'", file!(), "10000 steps"] {
        assert!(text.contains(part), "{text}");
    }
}

/// - given: a task of a host that yields under a shield of its own, until that fails
/// - when: the host crashes
/// - then: its next yield fails, and the run goes on
#[test]
fn sim_369_a_yield_after_a_crash() {
    each_strategy(|| {
        let ended = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&ended);
        let host = sim::host("host", move || {
            let _end = Count(Arc::clone(&count));
            while shield(ecru::yield_now).is_ok() {
                shield(|| sleep(MS)).unwrap_or_default();
            }
            Ok(())
        });
        let yields = Arc::clone(&ended);
        let busy = sim::host("busy", move || {
            let _end = Count(Arc::clone(&yields));
            let _ = sleep(SECOND);
            while shield(ecru::yield_now).is_ok() {}
            Ok(())
        });
        sleep(SECOND / 2).unwrap();
        host.crash();
        busy.crash();
        sim::settle();
        assert_eq!(ended.load(Relaxed), 2);
    });
}

/// - given: connections to a host: idle, with bytes that the host has not read, and one that waits
///   to be accepted
/// - when: the host crashes
/// - then: the first one ends, the others are reset, and new ones are refused, all after the latency
#[test]
fn sim_165_peers_of_a_crashed_host() {
    each_strategy(|| {
        let server = sim::host("server", || {
            let listener = TcpListener::bind("0.0.0.0:80")?;
            let _connections = [listener.accept()?, listener.accept()?];
            sleep(3600 * SECOND)?;
            Ok(())
        });
        sim::settle();
        let connect = || TcpStream::connect("server:80").unwrap();
        let (mut idle, mut full, mut waiting) = (connect(), connect(), connect());
        full.write_all(b"not read").unwrap();
        sleep(SECOND).unwrap();
        let crashed = sim::elapsed();
        server.crash();
        assert_eq!(idle.read(&mut [0]).unwrap(), 0);
        assert_eq!(sim::elapsed() - crashed, MS);
        for stream in [&mut full, &mut waiting] {
            assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        }
        let error = TcpStream::connect("server:80").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(sim::elapsed() - crashed, 3 * MS);
        // What is sent now is answered with a reset.
        idle.write_all(b"anyone?").unwrap();
        sleep(SECOND).unwrap();
        assert!(idle.write_all(b"anyone?").is_err());
    });
}

/// - given: a host that has crashed
/// - when: it loses its power, and starts again
/// - then: it is silent from then on, lacks what was not synced with some seeds, and serves again
///   when it is back
#[test]
fn sim_166_a_crashed_host_loses_its_power() {
    let program = || {
        let (tx, rx) = ecru::channel::bounded(9);
        let server = sim::host("server", move || {
            tx.send(ecru::fs::metadata("note").is_ok()).unwrap();
            ecru::fs::write("note", "not synced")?;
            super::echo()
        });
        assert!(!rx.recv().unwrap());
        sim::settle();
        server.crash();
        server.restart();
        assert!(rx.recv().unwrap());
        sim::settle();
        server.crash();
        server.power_fail();
        server.power_fail();
        let address = "10.0.0.1:80".parse().unwrap();
        let error = TcpStream::connect_timeout(&address, SECOND).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        server.restart();
        let is_there = rx.recv().unwrap();
        sim::settle();
        ask(&mut TcpStream::connect("server:80").unwrap(), b"hello").unwrap();
        is_there
    };
    let found: Vec<bool> = (0..20).map(|seed| run(seed, program)).collect();
    assert!(found.contains(&false) && found.contains(&true), "{found:?}");
}

/// - given: a program whose hosts crash while they wait in every way
/// - when: it is run with one seed, by one strategy, several times
/// - then: the traces and their hashes are the same
#[test]
fn sim_167_a_crash_is_repeatable() {
    each_strategy(|| {
        let common = Arc::new(Mutex::new(0));
        let lock = Arc::clone(&common);
        let server = echo_host("server");
        let client = sim::host("client", move || {
            let mut stream = TcpStream::connect("server:80")?;
            ecru::scope(|s| {
                s.spawn(|| shield(|| sleep(60 * SECOND)));
                s.spawn(|| *lock.lock() += 1);
                loop {
                    ask(&mut stream, b"hello")?;
                    sleep(sim::random_u64() as u32 % 5 * MS)?;
                }
            })
        });
        let _held = common.lock();
        for _ in 0..2 {
            sleep(sim::random_u64() as u32 % 100 * MS).unwrap();
            client.crash();
            server.restart();
            sleep(SECOND).unwrap();
            client.restart();
        }
    });
}
