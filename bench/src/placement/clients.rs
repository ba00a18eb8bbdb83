//! The clients of the accept loop: one plain thread in a process of its own, on the same two cores.
//!
//! Their process is the same program for every contender, and its CPU time is not counted.

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::event::epoll;

use super::measure::Moment;
use super::shape::{BUSY, CONNECTIONS, REQUEST, Shape};
use crate::harness::Sample;

/// The first word after `--load`.
pub(crate) const LOAD: &str = "placement";

/// Measures a server. `serve` gets its listener on a thread of its own and returns when the clients
/// have disconnected.
///
/// # Panics
///
/// Panics if the clients get wrong answers.
pub(super) fn served(shape: Shape, serve: impl FnOnce(TcpListener) + Send) -> Sample {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    let address = listener.local_addr().expect("it is bound").to_string();
    thread::scope(|threads| {
        let server = threads.spawn(|| serve(listener));
        let mut clients = start(&address, shape.operations());
        let mut said = BufReader::new(clients.stdout.take().expect("piped")).lines();
        let mut next = || said.next().expect("the clients say more").expect("in text");
        assert_eq!(next(), "begin");
        let before = Moment::now();
        clients.stdin.take().expect("piped").write_all(b"go\n").expect("the clients wait for it");
        let end = next();
        let sample = before.sample_since(&[shape]);
        assert_eq!(end, format!("end {}", shape.checksum()), "what the clients were answered");
        assert!(clients.wait().is_ok_and(|status| status.success()), "the clients end well");
        server.join().expect("the server ends well");
        sample
    })
}

fn start(address: &str, requests: u64) -> Child {
    let this = std::env::current_exe().expect("the running program has a path");
    let mut command = Command::new(this);
    command.args(["--load", LOAD, address]).arg(requests.to_string());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the clients start")
}

/// `--load placement ADDRESS REQUESTS` prints `begin` when all connections have been answered once,
/// waits for a line, and prints `end CHECKSUM` at the end.
///
/// # Errors
///
/// Returns an error if the arguments are wrong or a connection fails.
pub(crate) fn clients_main(arguments: &[String]) -> Result<(), String> {
    let [address, requests] = arguments else {
        return Err("--load placement wants an address and a number of requests".into());
    };
    let requests = requests.parse().map_err(|_| "requests: a number")?;
    run(address, requests).map_err(|error| error.to_string())
}

/// Each busy connection has one request in flight.
fn run(address: &str, requests: u64) -> std::io::Result<()> {
    let mut connections = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        ask(&mut stream, 0)?;
        stream.read_exact(&mut [0; 8])?;
        connections.push(stream);
    }
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let busy = connections.iter_mut().enumerate().filter(|(index, _)| is_busy(*index as u64));
    let mut busy: Vec<_> = busy.map(|(_, stream)| (stream, 0)).collect();
    println!("begin");
    std::io::stdin().read_line(&mut String::new())?;
    let mut asked = 0;
    for (index, (stream, _)) in busy.iter_mut().enumerate() {
        stream.set_nonblocking(true)?;
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&poll, stream.as_fd(), data, epoll::EventFlags::IN)?;
        asked += 1;
        ask(stream, asked)?;
    }
    let (mut answered, mut checksum) = (0, 0);
    let mut events = Vec::with_capacity(BUSY as usize);
    while answered < requests {
        events.clear();
        epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None)?;
        for event in &events {
            let (stream, have) = &mut busy[event.data.u64() as usize];
            let mut answer = [0; 8];
            // The exclusive or of the answers does not depend on how their bytes are split.
            let count = match stream.read(&mut answer[*have..]) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                read => read?,
            };
            checksum ^= u64::from_le_bytes(answer);
            *have += count;
            if *have == answer.len() {
                (*have, answered) = (0, answered + 1);
                if asked < requests {
                    asked += 1;
                    ask(stream, asked)?;
                }
            }
        }
    }
    println!("end {checksum}");
    // The server's process reads its clocks before it has to close the connections.
    thread::sleep(Duration::from_millis(20));
    Ok(())
}

/// Returns whether a connection sends requests: one of each group of ten, at a scattered place. At
/// equal distances, all of them would be on one worker of a runtime that deals connections out in
/// turn.
fn is_busy(index: u64) -> bool {
    let apart = CONNECTIONS / BUSY;
    let scattered = (index / apart).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    index % apart == scattered % apart
}

fn ask(stream: &mut TcpStream, number: u64) -> std::io::Result<()> {
    let mut request = [b'r'; REQUEST];
    request[..8].copy_from_slice(&number.to_le_bytes());
    stream.write_all(&request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_connections_are_on_all_workers_of_a_runtime_that_deals_them_out() {
        let busy: Vec<_> = (0..CONNECTIONS).filter(|index| is_busy(*index)).collect();
        assert_eq!(busy.len() as u64, BUSY);
        for workers in [2, 4, 8] {
            for worker in 0..workers {
                let share = busy.iter().filter(|index| *index % workers == worker).count() as u64;
                let fair = BUSY / workers;
                assert!((fair / 2..=fair * 2).contains(&share), "{share} on one of {workers}");
            }
        }
    }
}
