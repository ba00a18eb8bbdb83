//! Simulated hosts, their links and their sockets.

mod clocks;
mod crashes;
mod datagrams;
mod descriptors;
mod earlier_panics;
mod hosts;
mod last_steps;
mod links;
mod machines;
mod many;
mod names;
mod notes;
mod streams;
mod timeline;

use ecru::net::{TcpListener, TcpStream};
use ecru::sim::{self, Host, Simulation, Strategy};
use std::io::{self, Read, Write};
use std::time::Duration;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Runs `f` with this seed, in which nothing must fail.
fn run<T: Send + 'static>(seed: u64, f: impl FnOnce() -> T + Send + 'static) -> T {
    Simulation::new(seed).run(f).unwrap()
}

/// Runs `f` with several seeds.
fn each_seed(f: fn()) {
    for seed in 0..8 {
        run(seed, f);
    }
}

/// Runs `f` with several seeds and both strategies, twice each, in which nothing must fail. The
/// second run repeats the first one.
fn each_strategy(f: fn()) {
    for strategy in [Strategy::Random, Strategy::Pct { depth: 3 }] {
        for seed in 0..6 {
            let simulation = Simulation::new(seed).strategy(strategy.clone());
            let (first, second) = (simulation.clone().run(f), simulation.run(f));
            assert_eq!(first.trace_hash, second.trace_hash, "{strategy:?} {seed}");
            assert_eq!(first.trace.to_string(), second.trace.to_string());
            let again = Simulation::new(seed).strategy(Strategy::Replay(first.trace.clone()));
            assert_eq!(again.run(f).trace_hash, first.trace_hash);
            first.unwrap();
        }
    }
}

/// Answers each line of each connection to port 80 with itself.
fn echo() -> io::Result<()> {
    TcpListener::bind("0.0.0.0:80")?.serve(20_000, |mut stream, _| {
        let mut buffer = [0; 64];
        loop {
            match stream.read(&mut buffer)? {
                0 => return Ok(()),
                count => stream.write_all(&buffer[..count])?,
            }
        }
    })
}

/// Makes a host that echoes, and lets it begin.
fn echo_host(name: &str) -> Host {
    let host = sim::host(name, echo);
    sim::settle();
    host
}

/// Sends a line and reads it back.
fn ask(stream: &mut TcpStream, text: &[u8]) -> io::Result<()> {
    stream.write_all(text)?;
    let mut answer = vec![0; text.len()];
    stream.read_exact(&mut answer)?;
    assert_eq!(answer, text);
    Ok(())
}

/// Makes a host that does nothing but runs `f` once, and waits until it has ended.
fn on_host<T: Send + 'static>(name: &str, f: impl Fn() -> T + 'static) -> T {
    let (tx, rx) = ecru::channel::bounded(1);
    sim::host(name, move || {
        let _ = tx.send(f());
        Ok(())
    });
    rx.recv().unwrap()
}
