//! The server and its clients together, with all sleeps scaled to a hundredth or less.

#[path = "../../../tests/common/mod.rs"]
mod common;

use common::Watchdog;
use ecru::CancelHandle;
use ecru::net::TcpListener;
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};
use task_server::load::{self, stream_of};
use task_server::server::{CPU_TASKS, IN_HAND, Server};
use task_server::stage::Stage;
use task_server::work;

/// Cancels the server when it is dropped. A failed assertion in a test would otherwise wait for
/// ever for a server that goes on.
struct Stop(CancelHandle);

impl Drop for Stop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// Serves while `visit` runs, on two workers or the stage's own number. Afterwards the server must
/// end.
fn with_server<T>(stage: Stage, pace: f64, visit: impl FnOnce(SocketAddr, &Server) -> T) -> T {
    let _in_time = Watchdog::within(Duration::from_secs(300));
    let server = &Server::new(stage, pace);
    thread::scope(|threads| {
        let (started, starting) = mpsc::channel();
        let serving = threads.spawn(move || {
            let workers = stage.workers().unwrap_or(2);
            ecru::Runtime::builder().workers(workers).build().unwrap().run(|| {
                let listener = TcpListener::bind("127.0.0.1:0").unwrap();
                ecru::cancel_scope(|stop| {
                    started.send((listener.local_addr().unwrap(), Stop(stop))).unwrap();
                    server.serve(&listener)
                })
            })
        });
        let (address, stop) = starting.recv().unwrap();
        let found = visit(address, server);
        drop(stop);
        serving.join().unwrap().unwrap();
        assert_eq!(server.counts().in_hand.now(), 0, "nothing is left behind");
        found
    })
}

/// Connects a client that waits for at most a minute.
fn connect(address: SocketAddr) -> TcpStream {
    let client = TcpStream::connect(address).unwrap();
    client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    client
}

fn sum(stage: Stage, seed: u64, clients: u64, messages: u64) -> u64 {
    with_server(stage, 0.001, |address, server| {
        let sum = ecru::run(|| load::run(address, seed, clients, messages)).unwrap();
        let counts = server.counts();
        assert_eq!(counts.requests.load(Relaxed) as u64, clients * messages);
        assert_eq!(counts.malformed.load(Relaxed), 0);
        if stage >= Stage::Task {
            assert!(counts.cpu.peak() <= CPU_TASKS);
        }
        if stage == Stage::Serial {
            assert_eq!(counts.connections.peak(), 1);
        }
        sum
    })
}

/// Computes what the clients get, without a server: the sum, and all requests of each client.
fn model(seed: u64, clients: u64, messages: usize) -> (u64, Vec<Vec<(usize, u64)>>) {
    let mut known = HashMap::new();
    let (mut sum, mut all) = (0, vec![]);
    for number in 0..clients {
        let (mut current, kinds) = stream_of(seed + number);
        let mut requests = vec![];
        for kind in kinds.take(messages) {
            let request = (kind, u64::from(current));
            requests.push(request);
            current = *known.entry(request).or_insert_with(|| match request {
                (0, seed) => work::compute(seed),
                (_, seed) => work::sleep_of(seed).1,
            });
        }
        sum += u64::from(current);
        all.push(requests);
    }
    (sum, all)
}

#[test]
fn every_stage_gives_the_same_sum() {
    let (expected, _) = model(7, 8, 5);
    for stage in Stage::ALL {
        assert_eq!(sum(stage, 7, 8, 5), expected, "stage {}", stage.name());
    }
}

#[test]
fn the_random_streams_are_the_original_ones() {
    let (_, clients) = model(1, 40, 20);
    let length = |request: &(usize, u64)| match request {
        (1, seed) => work::sleep_of(*seed).0,
        _ => Duration::ZERO,
    };
    let all: Vec<(usize, u64)> = clients.iter().flatten().copied().collect();
    assert_eq!(all.iter().filter(|(kind, _)| *kind == 1).count(), 372);
    assert_eq!(all.len(), 800);
    assert_eq!(all.iter().map(length).sum::<Duration>(), Duration::from_millis(214_681));
    let longest = clients.iter().map(|of_one| of_one.iter().map(length).sum::<Duration>()).max();
    assert_eq!(longest, Some(Duration::from_millis(14_541)));
    let unique: std::collections::HashSet<_> = all.iter().collect();
    assert_eq!(unique.len(), 800 - 712);
    assert_eq!(unique.into_iter().map(length).sum::<Duration>(), Duration::from_millis(39_351));
}

#[test]
fn an_answer_is_worked_out_once() {
    let (_, clients) = model(1, 40, 4);
    let unique: std::collections::HashSet<_> = clients.iter().flatten().collect();
    with_server(Stage::Cache, 0.001, |address, server| {
        ecru::run(|| load::run(address, 1, 40, 4)).unwrap();
        assert_eq!(server.counts().works.load(Relaxed), unique.len());
    });
}

#[test]
fn requests_may_come_in_pieces_and_together() {
    for stage in [Stage::Task, Stage::Pipelined] {
        with_server(stage, 0.0, |address, _| {
            let mut client = connect(address);
            client.set_nodelay(true).unwrap();
            for piece in ["1:", "12", "3\n1:123\n1:12", "3\n", "1:123"] {
                client.write_all(piece.as_bytes()).unwrap();
            }
            client.shutdown(Shutdown::Write).unwrap();
            let mut answers = vec![];
            // All requests sent before the end are answered, then the server closes the connection.
            client.read_to_end(&mut answers).unwrap();
            assert_eq!(answers, [work::sleep_of(123).1; 4]);
        });
    }
}

#[test]
fn garbage_is_counted_and_not_answered() {
    for stage in Stage::ALL {
        with_server(stage, 0.0, |address, server| {
            let mut client = connect(address);
            let mut garbage: Vec<u8> = (0..200_000_u32)
                .map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8)
                .filter(|byte| !byte.is_ascii_digit())
                .collect();
            garbage.push(b'\n');
            let lines = garbage.iter().filter(|byte| **byte == b'\n').count();
            client.write_all(&garbage).unwrap();
            client.write_all(b"9:1\n1:5\n").unwrap();
            let mut answer = [0];
            client.read_exact(&mut answer).unwrap();
            assert_eq!(answer, [work::sleep_of(5).1]);
            assert_eq!(server.counts().malformed.load(Relaxed), lines + 1);
        });
    }
}

#[test]
fn a_client_has_a_bounded_number_in_hand() {
    with_server(Stage::Pipelined, 100.0, |address, server| {
        let mut client = connect(address);
        let requests: String = (0..5000).map(|seed| format!("1:{seed}\n")).collect();
        client.write_all(requests.as_bytes()).unwrap();
        let counts = server.counts();
        let began = Instant::now();
        while counts.in_hand.now() < IN_HAND - 10 {
            assert!(began.elapsed() < Duration::from_secs(60), "it goes on reading");
            thread::yield_now();
        }
        assert!(counts.in_hand.peak() <= IN_HAND, "{}", counts.in_hand.peak());
        // Another client is not delayed by it, whatever the first one sends.
        let mut other = connect(address);
        for seed in 0..50 {
            other.write_all(format!("0:{}\n", seed % 5).as_bytes()).unwrap();
            other.read_exact(&mut [0]).unwrap();
        }
        // The other client can have two: its next request may begin before the writer has counted
        // off the answer that it has just sent.
        assert!(counts.in_hand.peak() <= IN_HAND + 2, "{}", counts.in_hand.peak());
    });
}

#[test]
fn a_client_that_goes_ends_what_was_done_for_it() {
    with_server(Stage::Pipelined, 1000.0, |address, server| {
        let mut client = connect(address);
        client.write_all(b"1:0\n1:3\n0:1\n").unwrap();
        // This is the answer to the CPU task. The other tasks then sleep, for half an hour.
        client.read_exact(&mut [0]).unwrap();
        assert_eq!(server.counts().connections.now(), 1);
        assert!(server.counts().in_hand.now() >= 2);
    });
}
