//! Machines that crash, restart and lose their power at the worst moment.

use super::{MS, SECOND, report, run};
use crate::common::{OnDrop, quiet_panic};
use ecru::channel;
use ecru::fs::{self, File};
use ecru::io::EventFd;
use ecru::net::{TcpListener, TcpStream, UdpSocket};
use ecru::sim::{self, Failure, Faults, Host, Simulation};
use ecru::sync::{Mutex, Notify};
use std::io::{Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};

type Crash = fn(&Host);

/// The crashes of a machine.
fn crashes() -> [(&'static str, Crash); 4] {
    [
        ("crash", Host::crash),
        ("power failure", Host::power_fail),
        ("restart", Host::restart),
        ("crash in a pause", |host| {
            host.pause();
            host.crash();
            host.resume();
        }),
    ]
}

/// Crashes a host with this program in each way at several moments, and expects that each
/// incarnation ends in no time.
fn crash_anywhere(program: fn() -> std::io::Result<()>) {
    for (name, crash) in crashes() {
        for seed in 0..6 {
            let inside = Arc::new(AtomicUsize::new(0));
            let within = Arc::clone(&inside);
            let report = report(seed, move || {
                let host = sim::host("host", move || {
                    within.fetch_add(1, SeqCst);
                    let _leave = OnDrop(|| drop(within.fetch_sub(1, SeqCst)));
                    program()
                });
                for _ in 0..seed {
                    ecru::yield_now().unwrap();
                }
                if seed % 2 == 1 {
                    ecru::sleep(SECOND).unwrap();
                }
                let before = sim::elapsed();
                crash(&host);
                sim::settle();
                assert_eq!(sim::elapsed(), before);
                host.crash();
                sim::settle();
                assert_eq!((inside.load(SeqCst), sim::elapsed()), (0, before));
                host.restart();
                ecru::sleep(MS).unwrap();
            });
            assert!(report.result.is_ok(), "{name}, seed {seed}: {report}");
        }
    }
}

#[test]
fn crash_in_a_scope_with_children_that_borrow() {
    crash_anywhere(|| {
        let text = String::from("borrowed");
        let list = Mutex::new(vec![1]);
        ecru::scope(|s| {
            for _ in 0..5 {
                s.spawn(|| {
                    let mut list = list.lock();
                    let _ = ecru::sleep(SECOND);
                    list.push(text.len());
                    ecru::scope(|s| {
                        s.spawn(|| ecru::sleep(60 * SECOND));
                        list.push(text.len());
                    });
                });
            }
        });
        assert!(list.lock().len() <= 11);
        Ok(())
    });
}

#[test]
fn crash_in_unblock_select_shield_and_loops() {
    crash_anywhere(|| {
        ecru::unblock(|| {
            let large = std::hint::black_box([1_u8; 1 << 20]);
            let _ = ecru::sleep(SECOND);
            assert_eq!(large[77], 1);
        });
        Ok(())
    });
    crash_anywhere(|| {
        let (_tx, rx) = channel::bounded::<u32>(1);
        let news = EventFd::new()?;
        loop {
            let after = ecru::channel::never::<u32>();
            ecru::select! {
                recv(rx) -> item => {
                    if item.is_err() { return Ok(()) }
                },
                recv(after) -> item => assert!(item.is_err()),
                wait(news) -> _ => return Ok(()),
            }
        }
    });
    crash_anywhere(|| {
        let listener = TcpListener::bind("0.0.0.0:80")?;
        loop {
            listener.accept()?;
        }
    });
    crash_anywhere(|| {
        TcpListener::bind("0.0.0.0:80")?.serve(9, |mut stream, _| stream.read(&mut [0]).map(drop))
    });
}

#[test]
fn crash_in_a_shield_that_waits_for_what_does_not_come() {
    for (name, crash) in crashes() {
        let report = report(1, move || {
            let host = sim::host("host", || {
                ecru::shield(|| {
                    let _ = ecru::sleep(60 * SECOND);
                    let _ = Notify::new().wait();
                    let _ = UdpSocket::bind("0.0.0.0:9").map(|socket| socket.recv(&mut [0]));
                    drop(Mutex::new(()).lock());
                });
                Ok(())
            });
            ecru::sleep(SECOND).unwrap();
            crash(&host);
            sim::settle();
            host.restart();
            ecru::sleep(SECOND).unwrap();
        });
        // `Notify` never comes: the docs say that the tasks of the machine are cancelled, and a
        // shield puts a cancellation off.
        assert!(matches!(report.result, Ok(()) | Err(Failure::Deadlock(_))), "{name}: {report}");
    }
}

#[test]
fn crash_in_writes_to_a_disk_with_slow_syncs_and_short_transfers() {
    for (name, crash) in crashes() {
        for seed in 0..8 {
            let faults = Faults::default().short_transfers(1.0).sync_latency(MS..=SECOND);
            let report = Simulation::new(seed).faults(faults).run(move || {
                let host = sim::host("host", || {
                    let mut round = 0_u32;
                    loop {
                        let mut file = File::create("new")?;
                        file.write_all(&[7; 3000])?;
                        file.sync_all()?;
                        fs::rename("new", "current")?;
                        File::open(".")?.sync_all()?;
                        assert_eq!(fs::read("current")?, [7; 3000]);
                        round += 1;
                        if round > 50 {
                            ecru::sleep(60 * SECOND)?;
                        }
                    }
                });
                for wait in 1..6_u32 {
                    ecru::sleep(MS * 13 * wait).unwrap();
                    crash(&host);
                    host.restart();
                }
                host.crash();
                sim::settle();
            });
            assert!(report.result.is_ok(), "{name}: {report}");
        }
    }
}

#[test]
fn crash_with_a_lock_that_another_host_waits_for() {
    for seed in 0..10 {
        let lock = Arc::new(Mutex::new(0));
        let got = Arc::new(AtomicUsize::new(0));
        run(seed, || {
            let held = Arc::clone(&lock);
            let holder = sim::host("holder", move || {
                let mut value = held.lock();
                *value += 1;
                ecru::sleep(60 * SECOND)?;
                Ok(())
            });
            sim::settle();
            let (wanted, note) = (Arc::clone(&lock), Arc::clone(&got));
            sim::host("waiter", move || {
                let mut value = wanted.lock();
                *value += 1;
                note.fetch_add(1, SeqCst);
                Ok(())
            });
            sim::settle();
            holder.crash();
            sim::settle();
            assert_eq!(sim::elapsed(), std::time::Duration::ZERO);
        });
        assert_eq!((*lock.lock(), got.load(SeqCst)), (2, 1));
    }
}

#[test]
fn a_crashed_waiter_for_a_lock_of_another_host() {
    for seed in 0..10 {
        let report = report(seed, || {
            let lock = Arc::new(Mutex::new(0));
            let held = lock.lock();
            let wanted = Arc::clone(&lock);
            let waiter = sim::host("waiter", move || {
                *wanted.lock() += 1;
                Ok(())
            });
            sim::settle();
            waiter.crash();
            waiter.restart();
            ecru::sleep(SECOND).unwrap();
            drop(held);
            sim::settle();
            *lock.lock()
        });
        // A lock has no error. Each incarnation takes it once it is free, or the first one does not
        // any more.
        let counted = report.unwrap();
        assert!((1..=2).contains(&counted), "{counted}");
    }
}

#[test]
fn a_host_that_crashes_itself() {
    for (name, crash) in crashes() {
        let starts = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&starts);
        let report = report(1, move || {
            let own = Arc::new(OnceLock::<Host>::new());
            let host = Arc::clone(&own);
            let made = sim::host("host", move || {
                if count.fetch_add(1, SeqCst) < 3 {
                    ecru::yield_now()?;
                    if let Some(host) = host.get() {
                        ecru::scope(|s| {
                            let child = s.spawn(|| ecru::sleep(60 * SECOND).is_err());
                            crash(host);
                            crash(host);
                            host.restart();
                            let ended = ecru::shield(|| child.join());
                            assert!(!matches!(ended, Ok(false)));
                        });
                        let after = ecru::sleep(SECOND);
                        assert!(after.is_err());
                    }
                }
                Ok(())
            });
            own.set(made).unwrap();
            ecru::sleep(SECOND).unwrap();
        });
        assert!(report.result.is_ok(), "{name}: {report}");
        assert!(starts.load(SeqCst) >= 2, "{name}: {starts:?}");
    }
}

#[test]
fn a_destructor_of_a_crashing_task_crashes_and_restarts() {
    for seed in 0..10 {
        let starts = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&starts);
        let report = report(seed, move || {
            let all = Arc::new(OnceLock::<[Host; 2]>::new());
            let make = |name: &'static str| {
                let (all, count) = (Arc::clone(&all), Arc::clone(&count));
                sim::host(name, move || {
                    let start = count.fetch_add(1, SeqCst);
                    let _act = OnDrop(|| {
                        if let (Some([a, b]), true) = (all.get(), start < 10) {
                            a.crash();
                            b.power_fail();
                            a.restart();
                            b.restart();
                            b.pause();
                            b.resume();
                            sim::settle();
                            sim::partition(&[a], &[b]);
                            sim::heal();
                        }
                    });
                    ecru::sleep(60 * SECOND)?;
                    Ok(())
                })
            };
            let both = [make("a"), make("b")];
            let first = both[0].clone();
            assert!(all.set(both).is_ok());
            ecru::sleep(SECOND).unwrap();
            first.crash();
            ecru::sleep(SECOND).unwrap();
        });
        assert!(report.result.is_ok(), "{report}");
        assert!(starts.load(SeqCst) < 100);
    }
}

#[test]
fn a_panic_while_a_machine_crashes() {
    let report = report(1, || {
        let host = sim::host("host", || {
            if ecru::sleep(60 * SECOND).is_err() {
                quiet_panic("while it crashes");
            }
            Ok(())
        });
        sim::settle();
        host.crash();
        ecru::sleep(SECOND).unwrap();
    });
    // Nothing that its tasks do counts.
    assert!(report.result.is_ok(), "{report}");
    // In a child, in a destructor, and in a child whose panic is joined.
    let joined = super::report(1, || {
        let host = sim::host("host", || {
            ecru::scope(|s| {
                let child = s.spawn(|| {
                    if ecru::sleep(60 * SECOND).is_err() {
                        quiet_panic("in a child");
                    }
                });
                let ended = ecru::shield(|| child.join());
                assert!(ended.is_err());
            });
            Ok(())
        });
        sim::settle();
        host.crash();
        ecru::sleep(SECOND).unwrap();
    });
    assert!(joined.result.is_ok(), "{joined}");
}

#[test]
fn an_error_of_a_crashed_host_is_no_failure() {
    run(1, || {
        let host = sim::host("host", || {
            let socket = UdpSocket::bind("0.0.0.0:9")?;
            let _ = socket.recv(&mut [0]);
            // The second error of a machine that is gone. The user cannot do better than `?`.
            ecru::shield(|| socket.send_to(b"x", "10.0.0.1:9"))?;
            Ok(())
        });
        sim::settle();
        host.crash();
        sim::settle();
        let host = sim::host("other", || {
            let file = File::create("f")?;
            let _ = ecru::sleep(60 * SECOND);
            ecru::shield(|| file.sync_all())?;
            ecru::shield(|| fs::read("f"))?;
            Ok(())
        });
        sim::settle();
        host.power_fail();
        sim::settle();
    });
}

#[test]
fn restarts_in_the_middle_of_the_end() {
    for seed in 0..10 {
        let report = report(seed, || {
            let kept = Arc::new(OnceLock::<Host>::new());
            let own = Arc::clone(&kept);
            let count = Arc::new(AtomicUsize::new(0));
            let host = sim::host("host", move || {
                if count.fetch_add(1, SeqCst) > 100 {
                    return Ok(());
                }
                let _ = ecru::sleep(60 * SECOND);
                // The program has ended, and this host is being cancelled.
                if let Some(host) = own.get() {
                    host.restart();
                }
                Ok(())
            });
            kept.set(host).unwrap();
            ecru::sleep(SECOND).unwrap();
        });
        assert!(report.result.is_ok(), "{report}");
        assert!(report.elapsed <= 2 * SECOND, "{report}");
    }
}

#[test]
fn a_new_host_in_the_middle_of_the_end() {
    let report = report(1, || {
        sim::host("host", || {
            let _ = ecru::sleep(60 * SECOND);
            let _ = std::panic::catch_unwind(|| {
                sim::host("late", || {
                    let _ = ecru::sleep(600 * SECOND);
                    Ok(())
                })
            });
            let _ = std::panic::catch_unwind(|| drop(ecru::spawn(|| ecru::sleep(600 * SECOND))));
            Ok(())
        });
        ecru::sleep(SECOND).unwrap();
    });
    assert!(report.result.is_ok(), "{report}");
}

#[test]
fn a_thousand_restarts_of_ten_machines_slow() {
    run(1, || {
        let hosts: Vec<_> = (0..10)
            .map(|n| {
                sim::host(&format!("h{n}"), || {
                    let listener = TcpListener::bind("0.0.0.0:80")?;
                    ecru::scope(|s| {
                        s.spawn(|| listener.accept().map(drop));
                        s.spawn(|| fs::write("f", "x"));
                    });
                    Ok(())
                })
            })
            .collect();
        for round in 0..100 {
            for (n, host) in hosts.iter().enumerate() {
                match (round + n) % 4 {
                    0 => host.power_fail(),
                    1 => host.crash(),
                    2 => host.pause(),
                    _ => host.resume(),
                }
                host.restart();
            }
            if round % 10 == 0 {
                ecru::sleep(MS).unwrap();
            }
        }
        for host in &hosts {
            assert!(TcpStream::connect((host.name(), 80)).is_ok());
        }
    });
}

#[test]
fn connections_of_a_crashed_machine_seen_from_a_shared_memory() {
    // A stream that a host has made is in the hands of a task of another host.
    run(1, || {
        let (tx, rx) = channel::bounded::<(TcpStream, TcpStream)>(1);
        let host = sim::host("host", move || {
            let listener = TcpListener::bind("127.0.0.1:0")?;
            let one = TcpStream::connect(listener.local_addr()?)?;
            let other = listener.accept()?.0;
            let _ = tx.send((one, other));
            ecru::sleep(60 * SECOND)?;
            Ok(())
        });
        let (mut one, mut other) = rx.recv().unwrap();
        one.write_all(b"x").unwrap();
        other.read_exact(&mut [0]).unwrap();
        ecru::scope(|s| {
            // It waits while the machine of its socket crashes.
            let read = s.spawn(|| ecru::timeout(60 * SECOND, || other.read(&mut [0])));
            sim::settle();
            host.crash();
            let read = read.join().unwrap();
            assert!(!matches!(read, Ok(Ok(_))), "{read:?}");
        });
        assert!(one.write(b"x").is_err());
        host.restart();
        sim::settle();
        assert!(one.write(b"x").is_err());
        assert!(other.read(&mut [0]).is_err());
    });
}

#[test]
fn a_file_of_a_crashed_machine_in_the_hands_of_another_one() {
    run(1, || {
        let (tx, rx) = channel::bounded::<File>(1);
        let host = sim::host("host", move || {
            let _ = tx.try_send(File::create("f")?);
            ecru::sleep(60 * SECOND)?;
            Ok(())
        });
        let mut file = rx.recv().unwrap();
        file.write_all(b"x").unwrap();
        host.power_fail();
        assert!(file.write(b"y").is_err());
        host.restart();
        sim::settle();
        assert!(file.write(b"y").is_err());
        assert!(file.sync_all().is_err());
        assert!(file.metadata().is_err());
        assert!(file.try_clone().and_then(|mut file| file.write(b"z")).is_err());
    });
}

#[test]
fn a_paused_machine_that_is_waited_for() {
    let report = report(1, || {
        let (tx, rx) = channel::bounded::<u32>(0);
        let host = sim::host("host", move || {
            ecru::sleep(SECOND)?;
            let _ = tx.send(1);
            Ok(())
        });
        sim::settle();
        host.pause();
        host.pause();
        // No task can resume it, and nothing else happens.
        rx.recv().unwrap()
    });
    assert!(matches!(report.result, Err(Failure::Deadlock(_))), "{report}");
}

#[test]
fn settle_while_a_machine_is_paused() {
    run(1, || {
        let count = Arc::new(AtomicUsize::new(0));
        let note = Arc::clone(&count);
        let host = sim::host("host", move || {
            for _ in 0..5 {
                ecru::yield_now()?;
                note.fetch_add(1, SeqCst);
            }
            Ok(())
        });
        host.pause();
        sim::settle();
        ecru::sleep(SECOND).unwrap();
        assert_eq!(count.load(SeqCst), 0);
        host.resume();
        host.resume();
        sim::settle();
        assert_eq!(count.load(SeqCst), 5);
    });
}

#[test]
fn a_machine_that_pauses_itself_in_unblock_and_holds_a_lock() {
    run(1, || {
        let own = Arc::new(OnceLock::<Host>::new());
        let (kept, lock) = (Arc::clone(&own), Arc::new(Mutex::new(0)));
        let held = Arc::clone(&lock);
        let host = sim::host("host", move || {
            ecru::sleep(SECOND)?;
            let mut value = held.lock();
            let host = Arc::clone(&kept);
            ecru::unblock(move || {
                host.get().unwrap().pause();
                let _ = ecru::sleep(SECOND);
            });
            *value += 1;
            Ok(())
        });
        own.set(host.clone()).unwrap();
        ecru::sleep(2 * SECOND).unwrap();
        assert!(ecru::timeout(60 * SECOND, || ecru::sleep(120 * SECOND)).is_err());
        assert!(lock.try_lock().is_err());
        host.crash();
        assert_eq!(*lock.lock(), 1);
    });
}
