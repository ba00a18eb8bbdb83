//! ecru's contenders.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::Instant;

use ecru::channel;
use ecru::net::{TcpListener, TcpStream};
use ecru::sim::{self, Simulation};
use ecru::sync::Mutex;
use task_server::server::Server;
use task_server::stage::Stage;

use super::super::harness::{nanoseconds_per_operation, resident_bytes, seconds};

const PORT: u16 = 7000;

/// The tasks that yield in [`step`].
const TASKS: u64 = 8;

/// A simulation without a limit on its steps.
fn simulation() -> Simulation {
    Simulation::new(1).max_steps(u64::MAX)
}

/// Returns the nanoseconds of a step.
pub(super) fn step() -> f64 {
    nanoseconds_per_operation(|count| {
        let yields = move || {
            for _ in 0..count / TASKS {
                ecru::yield_now().expect("nothing is cancelled");
            }
        };
        let report = simulation()
            .run(move || ecru::scope(|s| (0..TASKS).for_each(|_| drop(s.spawn(yields)))));
        report.result.expect("it cannot fail");
    })
}

/// The tasks that lock or send in [`lock`] and [`send`].
const SHORT_TASKS: usize = 4;

/// Returns the nanoseconds of a run whose tasks lock a mutex this often each.
pub(super) fn lock(times: usize) -> f64 {
    run(&|| {
        let number = Mutex::new(0);
        ecru::scope(|s| {
            for _ in 0..SHORT_TASKS {
                s.spawn(|| (0..times).for_each(|_| *number.lock() += 1));
            }
        });
        assert_eq!(*number.lock(), SHORT_TASKS * times);
    })
}

/// Returns the nanoseconds of a run whose tasks send this many values each to the root.
pub(super) fn send(times: usize) -> f64 {
    run(&|| {
        let (sender, receiver) = channel::unbounded();
        ecru::scope(|s| {
            for _ in 0..SHORT_TASKS {
                let sender = sender.clone();
                s.spawn(move || {
                    (0..times).for_each(|number| sender.send(number).expect("it is received"));
                });
            }
            drop(sender);
            assert_eq!(receiver.iter().count(), SHORT_TASKS * times);
        });
    })
}

/// Returns the nanoseconds of a run of a program.
fn run(program: &(dyn Fn() + Sync)) -> f64 {
    nanoseconds_per_operation(|count| {
        (0..count).for_each(|seed| Simulation::new(seed).run(program).unwrap());
    })
}

fn serve() -> io::Result<()> {
    TcpListener::bind(("0.0.0.0", PORT))?.serve(usize::MAX, |mut stream, _| {
        let mut buffer = [0; 64];
        while stream.read_exact(&mut buffer).is_ok() {
            stream.write_all(&buffer)?;
        }
        Ok(())
    })
}

/// Connects, and calls `body` with all connections.
fn connected(connections: usize, body: impl FnOnce(Vec<TcpStream>) -> f64 + Send + 'static) -> f64 {
    let report = simulation().run(move || {
        let server = sim::host("server", serve);
        let address = SocketAddr::new(server.addr(), PORT);
        // The host has to listen first.
        sim::settle();
        let streams: io::Result<Vec<_>> =
            (0..connections).map(|_| TcpStream::connect(address)).collect();
        body(streams.expect("the server listens"))
    });
    report.result.expect("it cannot fail")
}

/// Returns the nanoseconds of a round trip.
pub(super) fn echo(connections: usize, rounds: usize) -> f64 {
    let ask = move |mut stream: TcpStream| -> io::Result<()> {
        let mut buffer = [7; 64];
        for _ in 0..rounds {
            stream.write_all(&buffer)?;
            stream.read_exact(&mut buffer)?;
        }
        Ok(())
    };
    let taken = connected(connections, move |streams| {
        let began = Instant::now();
        for outcome in ecru::par::map(streams, ask) {
            outcome.expect("the server answers");
        }
        began.elapsed().as_secs_f64()
    });
    taken * 1e9 / (connections * rounds) as f64
}

/// Returns the resident bytes of both ends of a connection and of the server's task.
pub(super) fn bytes_per_connection(connections: usize) -> f64 {
    let before = resident_bytes();
    let during = connected(connections, |_streams| resident_bytes());
    (during - before) / connections as f64
}

/// Returns the real time of the task server as a share of its virtual time.
pub(super) fn task_server(clients: u64, requests: u64) -> f64 {
    let (real, report) = seconds(|| {
        simulation().run(move || {
            let server = sim::host("server", || {
                let listener = TcpListener::bind(("0.0.0.0", PORT))?;
                Server::new(Stage::Cache, 1.0).serve(&listener)
            });
            sim::settle();
            let address = SocketAddr::new(server.addr(), PORT);
            task_server::load::run(address, 1, clients, requests).expect("the server answers")
        })
    });
    let virtually = report.elapsed.as_secs_f64();
    report.result.expect("it cannot fail");
    real / virtually
}
