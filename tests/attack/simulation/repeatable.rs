//! The same seed gives the same run, whatever of the library a program uses.

use super::{MS, SECOND};
use crate::common::Watchdog;
use ecru::coroutine::Generator;
use ecru::fs::{self, File};
use ecru::net::{TcpListener, TcpStream, UdpSocket};
use ecru::sim::{self, Faults, Link, Simulation, Strategy};
use ecru::sync::{Mutex, RwLock};
use ecru::time::Timer;
use ecru::{Source, channel};
use std::io::{Read, Write};
use std::sync::Arc;

/// Uses a bit of everything.
fn everything() -> Vec<u64> {
    let numbers = Arc::new(Mutex::new(Vec::new()));
    let note = {
        let numbers = Arc::clone(&numbers);
        move |n: u64| numbers.lock().push(n)
    };
    let server = sim::host("server", || {
        TcpListener::bind("0.0.0.0:80")?.serve(9, |mut stream, _| {
            let mut text = Vec::new();
            stream.read_to_end(&mut text)?;
            fs::write(format!("f{}", text.len()), &text)?;
            let names: Vec<_> =
                fs::read_dir(".")?.flatten().map(|entry| entry.file_name()).collect();
            stream.write_all(&[names.len() as u8])
        })
    });
    sim::settle();
    let rw = RwLock::new(0);
    let (tx, rx) = channel::bounded::<u64>(2);
    let (to, from) = channel::unbounded::<u64>();
    ecru::scope(|s| {
        for n in 0..4_u32 {
            let (note, tx) = (note.clone(), tx.clone());
            let rw = &rw;
            s.spawn(move || {
                let ask = || -> std::io::Result<u8> {
                    let mut stream = TcpStream::connect("server:80")?;
                    stream.write_all(&vec![1; n as usize * 1000])?;
                    stream.shutdown(std::net::Shutdown::Write)?;
                    let mut byte = [0];
                    stream.read_exact(&mut byte)?;
                    Ok(byte[0])
                };
                let answer = ecru::timeout(30 * SECOND, ask);
                note(answer.map_or(77, |answer| answer.map_or(88, u64::from)));
                *rw.write() += 1;
                let _ = tx.send(sim::random_u64());
            });
        }
        drop(tx);
        let note_timer = note.clone();
        let timer = Timer::new(5 * MS);
        timer.start().unwrap();
        timer.clone().on_ready(move |_| drop(to.try_send(5))).detach();
        s.spawn(move || {
            note_timer(from.recv().unwrap_or(1));
            for value in Generator::new(|yielder| {
                for n in 0..3 {
                    let _ = ecru::sleep(MS * n);
                    yielder.suspend(u64::from(n) + u64::from(sim::chance(0.5)));
                }
            }) {
                note_timer(value);
            }
        });
        let receives = note.clone();
        s.spawn(move || {
            while let Ok(Ok(value)) = ecru::block_on(rx.clone().to_future()) {
                receives(value);
            }
        });
        s.spawn(|| {
            ecru::unblock(|| {
                let _ = fs::create_dir("d");
                for n in 0..5 {
                    let _ = File::create(format!("d/{n}")).and_then(|file| file.sync_all());
                }
            });
        });
        s.spawn(|| {
            let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
            let own = udp.local_addr().unwrap();
            note(u64::from(own.port()));
            let _ = udp.send_to(b"x", own);
            let _ = ecru::timeout(SECOND, || udp.recv(&mut [0; 4]));
        });
        let _ = ecru::sleep(3 * MS);
        server.restart();
    });
    // What depends on addresses and hashers of the library itself would show here.
    std::mem::take(&mut *numbers.lock())
}

#[test]
fn the_same_seed_gives_the_same_run_on_any_thread_slow() {
    let _watchdog = Watchdog::new();
    let faults =
        Faults::default().resets(0.05).disk_errors(0.05).datagram_loss(0.2).slow_connections(0.3);
    let simulate = |seed, strategy| {
        let link = Link::new().latency(MS..=10 * MS).loss(0.05);
        Simulation::new(seed)
            .strategy(strategy)
            .network(link)
            .faults(faults.clone())
            .run(everything)
    };
    for seed in 0..6 {
        for strategy in [Strategy::Random, Strategy::Pct { depth: 3 }] {
            let first = simulate(seed, strategy.clone());
            // On another thread, beside other runs, with other addresses.
            let others: Vec<_> = std::thread::scope(|s| {
                let threads: Vec<_> = (0..3)
                    .map(|n| {
                        let (simulate, strategy) = (&simulate, strategy.clone());
                        s.spawn(move || {
                            let _ballast = vec![0_u8; n * 10_000];
                            simulate(seed, strategy)
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            for other in others {
                assert_eq!(other.trace_hash, first.trace_hash, "{first}\n{other}");
                assert_eq!((other.steps, other.elapsed), (first.steps, first.elapsed));
                assert_eq!(other.trace, first.trace);
                assert_eq!(other.result.ok(), first.result.as_ref().ok().cloned());
            }
            let replay = simulate(seed, Strategy::Replay(first.trace.to_string().parse().unwrap()));
            assert_eq!(replay.trace_hash, first.trace_hash, "{first}\n{replay}");
        }
    }
}

#[test]
fn random_of_the_library_is_of_the_seed() {
    // `race`, `select!` and the jitter of a retry draw.
    let draw = |seed| {
        Simulation::new(seed)
            .run(|| {
                let ends: Vec<_> = (0..4).map(|_| channel::unbounded::<u32>()).collect();
                for (n, (tx, _)) in ends.iter().enumerate() {
                    for _ in 0..50 {
                        tx.send(n as u32).unwrap();
                    }
                }
                (0..50)
                    .map(|_| {
                        ecru::source::race(ends.iter().map(|(_, rx)| rx)).wait().unwrap().unwrap()
                    })
                    .collect::<Vec<_>>()
            })
            .unwrap()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn what_a_run_leaves_behind_does_not_change_the_next_one() {
    let _watchdog = Watchdog::new();
    let hash = || Simulation::new(3).run(everything).trace_hash;
    let alone = hash();
    // A run that fails by a panic, one that is stuck, one whose sockets are kept.
    let kept = Simulation::new(9)
        .run(|| (TcpListener::bind("0.0.0.0:80").unwrap(), File::create("f").unwrap()))
        .unwrap();
    let _ = Simulation::new(9).run(|| ecru::sync::Notify::new().wait().is_ok());
    let _ = Simulation::new(9).run(|| crate::common::quiet_panic("on purpose"));
    assert_eq!(hash(), alone);
    drop(kept);
    ecru::run(|| ecru::scope(|s| drop(s.spawn(|| ecru::sleep(MS)))));
    assert_eq!(hash(), alone);
}
