//! An echo server with a task for each connection, and a hundred clients that keep it busy.

use ecru::net::{TcpListener, TcpStream};
use ecru::par;
use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

const CLIENTS: u32 = 100;
const ROUNDS: u32 = 200;

fn main() -> io::Result<()> {
    ecru::run(|| {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let started = Instant::now();
        // The server is a daemon. When all other tasks of the scope have ended, it is cancelled.
        let clients = ecru::scope(|s| {
            s.spawn_daemon(|| serve(&listener));
            par::map(0..CLIENTS, |number| ask(address, number))
        });
        let took = started.elapsed();
        let mut slowest = Duration::ZERO;
        for client in clients {
            slowest = slowest.max(client?);
        }
        let (requests, rate) = (CLIENTS * ROUNDS, f64::from(CLIENTS * ROUNDS) / took.as_secs_f64());
        println!("{address} answered {requests} requests of {CLIENTS} clients in {took:.0?}");
        println!("that is {rate:.0} a second; the slowest took {slowest:.1?}");
        Ok(())
    })
}

/// Serves until it is cancelled. If the process runs out of descriptors, the server reports that,
/// pauses and accepts again.
fn serve(listener: &TcpListener) -> io::Result<()> {
    let report = |error: io::Error, peer: Option<SocketAddr>| match peer {
        Some(peer) => eprintln!("the connection of {peer} failed: {error}"),
        None => eprintln!("cannot accept for the moment: {error}"),
    };
    listener.server().limit(1000).on_error(report).serve(|stream, _| echo(stream))
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut buffer = [0; 64];
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            len => stream.write_all(&buffer[..len])?,
        }
    }
}

/// Runs one client and returns the time of its slowest request.
fn ask(address: SocketAddr, number: u32) -> io::Result<Duration> {
    let mut stream = TcpStream::connect(address)?;
    let mut slowest = Duration::ZERO;
    for round in 0..ROUNDS {
        let question = (u64::from(number) << 32 | u64::from(round)).to_be_bytes();
        let asked = Instant::now();
        stream.write_all(&question)?;
        let mut answer = [0; 8];
        stream.read_exact(&mut answer)?;
        slowest = slowest.max(asked.elapsed());
        assert_eq!(answer, question);
    }
    Ok(slowest)
}
