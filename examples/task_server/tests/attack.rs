//! Misbehaving clients: one never reads, some send garbage, and ten thousand connect at once.

#[path = "../../../tests/common/mod.rs"]
mod common;

use common::Watchdog;
use ecru::net::TcpListener;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};
use task_server::load;
use task_server::server::{IN_HAND, Server};
use task_server::stage::Stage;

fn with_server<T>(pace: f64, visit: impl FnOnce(SocketAddr, &Server) -> T) -> T {
    let _in_time = Watchdog::within(Duration::from_secs(300));
    let server = &Server::new(Stage::Pipelined, pace);
    thread::scope(|threads| {
        let (started, starting) = mpsc::channel();
        let serving = threads.spawn(move || {
            ecru::Runtime::builder().workers(2).build().unwrap().run(|| {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                ecru::cancel_scope(|stop| {
                    started.send((listener.local_addr().unwrap(), stop)).unwrap();
                    server.serve(&listener)
                })
            })
        });
        let (address, stop) = starting.recv().unwrap();
        // Without this, a visit that panics would wait for ever for the server.
        let found = panic::catch_unwind(AssertUnwindSafe(|| visit(address, server)));
        stop.cancel();
        serving.join().unwrap().unwrap();
        found.unwrap_or_else(|payload| panic::resume_unwind(payload))
    })
}

/// Returns the memory of this process in bytes.
fn memory() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    text.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// The tests measure the memory of the process, which they share, so they run one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn answers(address: SocketAddr) -> Duration {
    let began = Instant::now();
    let mut client = TcpStream::connect(address).unwrap();
    client.write_all(b"1:5\n").unwrap();
    client.read_exact(&mut [0]).unwrap();
    began.elapsed()
}

#[test]
fn a_client_that_never_reads_slow() {
    let _alone = alone();
    with_server(0.0, |address, server| {
        let mut client = TcpStream::connect(address).unwrap();
        client.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
        let (before, requests) = (memory(), b"1:5\n".repeat(1024));
        let blocked = loop {
            match client.write_all(&requests) {
                Ok(()) => assert!(memory() < before + (64 << 20), "it grows"),
                Err(error) => break error,
            }
        };
        assert!(matches!(blocked.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
        assert!(server.counts().in_hand.peak() <= IN_HAND);
        println!("stopped with {} in hand, {}", server.counts().in_hand.now(), server.counts());
        println!("another one is answered in {:?}", answers(address));
        println!("memory: {} KiB more", memory().saturating_sub(before) >> 10);
    });
}

#[test]
fn garbage_for_ever_slow() {
    let _alone = alone();
    with_server(0.0, |address, server| {
        let stop = Instant::now() + Duration::from_secs(3);
        let before = memory();
        thread::scope(|threads| {
            // One client sends no line end, one sends short lines, and one sends requests that
            // never repeat.
            for kind in 0..3 {
                threads.spawn(move || {
                    let mut client = TcpStream::connect(address).unwrap();
                    let mut reader = client.try_clone().unwrap();
                    thread::spawn(
                        move || while reader.read(&mut [0; 4096]).is_ok_and(|n| n > 0) {},
                    );
                    let mut seed = 0_u64;
                    while Instant::now() < stop {
                        let bytes = match kind {
                            0 => vec![b'x'; 1 << 16],
                            1 => b"?\n".repeat(1 << 15),
                            _ => (0..4096)
                                .flat_map(|_| {
                                    seed += 1;
                                    format!("1:{seed}\n").into_bytes()
                                })
                                .collect(),
                        };
                        client.write_all(&bytes).unwrap();
                    }
                    client.shutdown(std::net::Shutdown::Both).unwrap();
                });
            }
            let mut slowest = Duration::ZERO;
            while Instant::now() < stop {
                slowest = slowest.max(answers(address));
                assert!(memory() < before + (128 << 20), "it grows");
            }
            println!("{}; the slowest honest answer took {slowest:?}", server.counts());
        });
        println!("memory: {} KiB more", memory().saturating_sub(before) >> 10);
    });
}

#[test]
fn ten_thousand_clients_slow() {
    let _alone = alone();
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    with_server(1.0, |address, server| {
        // Both ends of each connection are in this process, and a few other files are open.
        let clients =
            maximum.map_or(10_000, |most| most.saturating_sub(500).div_ceil(2).min(10_000));
        assert!(clients >= 200, "only {maximum:?} files may be open");
        let began = Instant::now();
        let sum = ecru::run(|| load::run(address, 1, clients, 10)).unwrap();
        let counts = server.counts();
        println!(
            "sum {sum} in {:?}; at most at once: {} clients; {counts}",
            began.elapsed(),
            counts.connections.peak()
        );
        println!("memory: {} MiB", memory() >> 20);
        assert_eq!(counts.requests.load(Ordering::Relaxed) as u64, clients * 10);
        assert!(counts.cpu.peak() <= 40);
    });
}
