//! A program with everything that a simulation has, for tests that compare its runs.

use std::io::{self, Read, Write};
use std::time::Duration;

use ecru::net::{TcpListener, TcpStream, UdpSocket};
use ecru::sim::{self, Faults, Link, Simulation};
use ecru::sync::{Mutex, Notify, RwLock, Semaphore};
use ecru::{channel, fs, sleep, timeout};

use crate::support::ms;

/// The least number of steps of a run.
pub(super) const STEPS: u64 = 100;

/// Returns the simulation of the program, with faults of most kinds.
pub(super) fn simulation(seed: u64) -> Simulation {
    let faults = Faults::default()
        .disk_errors(0.05)
        .datagram_loss(0.1)
        .datagram_duplication(0.1)
        .datagram_reordering(0.1)
        .resets(0.02)
        .refused_connections(0.1)
        .slow_connections(0.1);
    let link = Link::new().latency(ms(1)..=ms(20)).loss(0.05);
    Simulation::new(seed).network(link).faults(faults)
}

/// Runs the program with this seed. Returns a line with all that a run has come to.
pub(super) fn line(seed: u64) -> String {
    let report = simulation(seed).run(program);
    assert!(report.steps > STEPS, "{} steps", report.steps);
    let (hash, steps, elapsed) = (report.trace_hash, report.steps, report.elapsed);
    format!("seed {seed}: {hash:016x} after {steps} steps and {elapsed:?}: {}", report.unwrap())
}

fn serve() -> io::Result<()> {
    TcpListener::bind("0.0.0.0:80")?.serve(10, |mut stream, _| {
        let mut word = [0; 8];
        while stream.read_exact(&mut word).is_ok() && stream.write_all(&word).is_ok() {}
        Ok(())
    })
}

fn ask() -> io::Result<u64> {
    let mut stream = TcpStream::connect("server:80")?;
    let mut sum = 0;
    for number in 0..5_u64 {
        stream.write_all(&number.to_ne_bytes())?;
        let mut word = [0; 8];
        stream.read_exact(&mut word)?;
        sum += u64::from_ne_bytes(word);
    }
    Ok(sum)
}

fn files() -> io::Result<u64> {
    let file = fs::File::create("file")?;
    file.write_all_at(&[7; 5_000], 0)?;
    file.sync_all()?;
    Ok(fs::read("file")?.len() as u64)
}

fn datagrams() -> io::Result<u64> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let mut answers = 0;
    for number in 0..10 {
        socket.send_to(&[number], "mirror:9")?;
        let answer = timeout(ms(50), || socket.recv(&mut [0; 9]));
        answers += u64::from(answer.is_ok_and(|answer| answer.is_ok()));
    }
    Ok(answers)
}

/// Returns a number that depends on all that has happened.
pub(super) fn program() -> u64 {
    sim::host("server", serve);
    sim::host("mirror", || {
        let socket = UdpSocket::bind("0.0.0.0:9")?;
        loop {
            let mut buffer = [0; 9];
            let (count, from) = socket.recv_from(&mut buffer)?;
            socket.send_to(&buffer[..count], from)?;
        }
    });
    sim::settle();
    let result = Mutex::new(sim::random_u64());
    let note = |number: u64| {
        let mut result = result.lock();
        *result = result.rotate_left(7) ^ number;
    };
    let (permits, levels, rung) = (Semaphore::new(2), RwLock::new(0), Notify::new());
    let (sender, receiver) = channel::bounded(1);
    ecru::scope(|s| {
        for number in 0..4 {
            let (sender, permits, levels, note) = (sender.clone(), &permits, &levels, &note);
            s.spawn(move || {
                for round in 0..5 {
                    let _permit = permits.acquire().unwrap();
                    sleep(Duration::from_micros(sim::random_u64() % 900)).unwrap();
                    *levels.write() += 1;
                    sender.send(number * 10 + round).unwrap();
                    note(*levels.read());
                    ecru::yield_now().unwrap();
                }
            });
        }
        drop(sender);
        s.spawn(|| {
            while let Ok(number) = receiver.recv() {
                note(number);
            }
            rung.notify_one();
        });
        s.spawn(|| note(rung.wait().is_ok().into()));
        for _ in 0..3 {
            s.spawn(|| note(ask().unwrap_or_else(|error| error.kind() as u64)));
        }
        s.spawn(|| (0..4).for_each(|_| note(files().unwrap_or(1))));
        s.spawn(|| note(datagrams().unwrap_or(2)));
    });
    sim::calm();
    note(ask().unwrap());
    note(u64::from(sim::chance(0.5)));
    result.into_inner()
}
