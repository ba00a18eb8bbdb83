//! The load: a process on the second core that sends requests as fast as they are answered.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::event::epoll;

use super::Service;
use crate::harness::pin_to;

/// Bytes of an echoed request.
const REQUEST: usize = 64;
/// The time to warm up caches and predictors.
const WARM_UP: Duration = Duration::from_millis(300);
/// The measured time.
const WINDOW: Duration = Duration::from_millis(1200);

/// `--load SERVICE ADDRESS CONNECTIONS CORE` prints `begin`, then `end REQUESTS P99 TIME`, in
/// nanoseconds.
///
/// # Errors
///
/// Returns the reason, in words, why it cannot measure.
pub(crate) fn load_main(arguments: &[String]) -> Result<(), String> {
    let [service, address, connections, core] = arguments else {
        return Err("--load wants a service, an address, a number of connections and a core".into());
    };
    let service = Service::of(service).ok_or("no such service")?;
    let connections: usize = connections.parse().map_err(|_| "connections: a number")?;
    pin_to(core.parse().map_err(|_| "core: a number")?)?;
    let measured = match service {
        Service::Idle => return idle(address, connections).map_err(|error| error.to_string()),
        Service::Echo => echo(address, connections).map_err(|error| error.to_string())?,
        Service::Http => wrk(address, connections)?,
    };
    println!("end {} {} {}", measured.requests, measured.p99, measured.time);
    Ok(())
}

struct Measured {
    requests: u64,
    /// The nanoseconds within which 99 of 100 requests were answered.
    p99: f64,
    /// Nanoseconds of the window per request.
    time: f64,
}

struct Connection {
    stream: TcpStream,
    sent_at: Instant,
    missing: usize,
}

/// Each connection has one request in flight.
fn echo(address: &str, count: usize) -> std::io::Result<Measured> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let mut connections = Vec::with_capacity(count);
    for index in 0..count {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let data = epoll::EventData::new_u64(index as u64);
        epoll::add(&poll, stream.as_fd(), data, epoll::EventFlags::IN)?;
        connections.push(Connection { stream, sent_at: Instant::now(), missing: REQUEST });
    }
    let request = [b'e'; REQUEST];
    for connection in &mut connections {
        connection.sent_at = Instant::now();
        connection.stream.write_all(&request)?;
    }
    let start = Instant::now();
    let mut window: Option<Instant> = None;
    let mut waits: Vec<u32> = Vec::with_capacity(1 << 20);
    let mut events =
        [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) };
            256];
    let mut buffer = [0; REQUEST];
    loop {
        let ready = epoll::wait(&poll, &mut events, None)?;
        let now = Instant::now();
        if window.is_none() && now - start > WARM_UP {
            println!("begin");
            waits.clear();
            window = Some(Instant::now());
        }
        for event in &events[..ready] {
            let connection = &mut connections[event.data.u64() as usize];
            match connection.stream.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => connection.missing -= count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            }
            if connection.missing == 0 {
                let now = Instant::now();
                waits.push(now.duration_since(connection.sent_at).as_nanos() as u32);
                connection.missing = REQUEST;
                connection.sent_at = now;
                connection.stream.write_all(&request)?;
            }
        }
        if let Some(begun) = window.filter(|begun| begun.elapsed() >= WINDOW) {
            let requests = waits.len();
            let window = begun.elapsed();
            let rank = requests * 99 / 100;
            let (_, p99, _) = waits.select_nth_unstable(rank);
            return Ok(Measured {
                requests: requests as u64,
                p99: f64::from(*p99),
                time: window.as_nanos() as f64 / requests as f64,
            });
        }
    }
}

/// Sends one request on each connection, which is then idle. Runs until it is killed.
fn idle(address: &str, count: usize) -> std::io::Result<()> {
    let mut connections = Vec::with_capacity(count);
    for _ in 0..count {
        let mut stream = TcpStream::connect(address)?;
        let mut buffer = [b'i'; REQUEST];
        stream.write_all(&buffer)?;
        stream.read_exact(&mut buffer)?;
        if connections.is_empty() {
            println!("begin");
        }
        connections.push(stream);
    }
    println!("end");
    loop {
        std::thread::park();
    }
}

/// wrk, from Debian's package of that name.
fn wrk(address: &str, connections: usize) -> Result<Measured, String> {
    let run = |seconds: &str| {
        let mut command = Command::new("wrk");
        command.args(["-t1", "-c", &connections.to_string(), "-d", seconds, "--latency"]);
        let output = command.arg(format!("http://{address}/")).output();
        let output = output.map_err(|error| format!("wrk: {error} (Debian's package `wrk`)"))?;
        Ok::<_, String>(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    run("1s")?;
    println!("begin");
    let begun = Instant::now();
    let said = run("2s")?;
    let window = begun.elapsed();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let mut lines = said.lines();
    let p99 = lines.find(|line| line.trim().starts_with("99%")).ok_or("wrk: no 99%")?;
    let requests = lines.find(|line| line.contains("requests in")).ok_or("wrk: no requests")?;
    let requests: u64 = words(requests)[0].parse().map_err(|_| "wrk: a number of requests")?;
    if let Some(errors) =
        said.lines().find(|line| line.contains("Socket errors") || line.contains("Non-2xx"))
    {
        return Err(format!("wrk: {}", errors.trim()));
    }
    Ok(Measured {
        requests,
        p99: nanoseconds(&words(p99)[1])?,
        time: window.as_nanos() as f64 / requests as f64,
    })
}

/// Parses `1.25ms`, as wrk writes it.
fn nanoseconds(text: &str) -> Result<f64, String> {
    let units = [("us", 1e3), ("ms", 1e6), ("s", 1e9)];
    let parsed = units.iter().find_map(|(unit, factor)| {
        text.strip_suffix(unit)?.parse::<f64>().ok().map(|number| number * factor)
    });
    parsed.ok_or_else(|| format!("wrk: {text} is no time"))
}
