//! The drain rule: a cancelled operation is awaited before its buffer is given back, and what the
//! kernel did until then counts.
//!
//! Each attack runs thousands of operations, each of which is cancelled at a random moment: by a
//! limit, by a task on the same worker or on another, or by a thread outside the run.

use crate::common::PATIENCE;
use crate::streams::{assert_cancelled, byte_at, listen, loud, pair};
use crate::support::{Watchdog, is_child, start_again};
use ecru::CancelHandle;
use ecru::net::{Shutdown, TcpListener, TcpStream};
use fastrand::Rng;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Attacker {
    /// `timeout`.
    Limit,
    /// A task that yields between its attacks, on the same worker if there is only one.
    Task,
    /// A plain thread.
    Thread,
}

const ATTACKERS: [Attacker; 3] = [Attacker::Limit, Attacker::Task, Attacker::Thread];

/// The length of each attack.
const LENGTH: Duration = Duration::from_millis(150);

/// The sum of a test's attacks.
struct Tally {
    /// Operations that had their effect.
    succeeded: AtomicUsize,
    /// Operations that were cancelled before they had an effect.
    cancelled: AtomicUsize,
}

impl Tally {
    const fn new() -> Tally {
        Tally { succeeded: AtomicUsize::new(0), cancelled: AtomicUsize::new(0) }
    }

    /// Repeats attacks until both counts are reached, because a loaded machine runs fewer
    /// operations in the same time.
    fn at_least(
        &self,
        succeeded: usize,
        cancelled: usize,
        victim: impl Fn(Attacker, &Target) + Sync,
    ) {
        let start = Instant::now();
        loop {
            each_attack(&victim);
            let so_far = (self.succeeded.load(SeqCst), self.cancelled.load(SeqCst));
            println!("{} succeeded, {} were cancelled", so_far.0, so_far.1);
            if so_far.0 >= succeeded && so_far.1 >= cancelled {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(60), "{so_far:?} only");
        }
    }
}

/// Keeps the processor busy for a random time.
fn spin(random: &mut Rng, most: u32) {
    for _ in 0..random.u32(0..most) {
        std::hint::spin_loop();
    }
}

/// The place where a victim leaves the handle that cancels its operation.
#[derive(Default)]
struct Target {
    handle: Mutex<Option<CancelHandle>>,
    shots: AtomicUsize,
}

impl Target {
    /// Cancels each operation, a random time after it has begun.
    fn shoot(&self, done: &AtomicBool, seed: u64, pause: impl Fn()) {
        let mut random = Rng::with_seed(seed);
        while !done.load(SeqCst) {
            let handle = self.handle.lock().unwrap().take();
            if let Some(handle) = handle {
                spin(&mut random, 3_000);
                handle.cancel();
                self.shots.fetch_add(1, SeqCst);
            }
            for _ in 0..random.u32(1..8) {
                pause();
            }
        }
    }

    /// Runs an operation that is cancelled at a random moment. Returns `None` if it was cancelled
    /// before it had an effect.
    fn under_fire<T>(
        &self,
        by: Attacker,
        random: &mut Rng,
        operation: impl FnOnce() -> io::Result<T>,
    ) -> Option<io::Result<T>> {
        let mut outcome = None;
        if by == Attacker::Limit {
            let limit = Duration::from_micros(random.u64(0..300));
            // The operation's own answer counts, whatever `timeout` returns.
            let _ = ecru::timeout(limit, || outcome = Some(operation()));
        } else {
            ecru::cancel_scope(|c| {
                *self.handle.lock().unwrap() = Some(c);
                outcome = Some(operation());
            });
        }
        match outcome? {
            Err(error) if error.kind() == ErrorKind::Other => {
                assert_cancelled_outside(&error);
                None
            }
            other => Some(other),
        }
    }
}

/// The cancelled scope has ended, so the error has to contain its reason.
fn assert_cancelled_outside(error: &io::Error) {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<ecru::Cancelled>());
    assert!(inner.is_some(), "{error:?}");
    assert_cancelled(error);
}

/// Runs the victim in a task, with each attacker and with one and two workers.
fn each_attack(victim: impl Fn(Attacker, &Target) + Sync) {
    let _loud = loud();
    let victim = &victim;
    for workers in [1, 2] {
        for by in ATTACKERS {
            let _watchdog = Watchdog::new();
            let runtime = ecru::Runtime::builder()
                .workers(workers)
                .placement(ecru::Placement::Spread)
                .build()
                .unwrap();
            let (target, done) = (&Target::default(), &AtomicBool::new(false));
            thread::scope(|scope| {
                if by == Attacker::Thread {
                    scope.spawn(|| target.shoot(done, 1, thread::yield_now));
                }
                runtime.run(|| {
                    ecru::scope(|s| {
                        if by == Attacker::Task {
                            s.spawn(|| {
                                target.shoot(done, 2, || {
                                    let _ = ecru::yield_now();
                                })
                            });
                        }
                        let result = s.spawn(|| victim(by, target)).join();
                        done.store(true, SeqCst);
                        result.unwrap();
                    });
                });
            });
        }
    }
}

/// Buffers whose reads have returned, each filled with a mark at once. A later write to one of them
/// is detected.
#[derive(Default)]
struct Returned(VecDeque<Vec<u8>>);

const MARK: u8 = 0xa5;

impl Returned {
    fn keep(&mut self, mut buffer: Vec<u8>) {
        buffer.fill(MARK);
        self.0.push_back(buffer);
        if self.0.len() > 100 {
            self.look_at_oldest();
        }
    }

    fn look_at_oldest(&mut self) {
        if let Some(buffer) = self.0.pop_front() {
            assert!(
                buffer.iter().all(|byte| *byte == MARK),
                "written into after its read had returned"
            );
        }
    }
}

impl Drop for Returned {
    fn drop(&mut self) {
        while !self.0.is_empty() && !thread::panicking() {
            self.look_at_oldest();
        }
    }
}

/// Writes the tests' stream in small pieces at random moments, and returns how much.
fn dribble(mut stream: TcpStream, seed: u64) -> usize {
    let mut random = Rng::with_seed(seed);
    let end = Instant::now() + LENGTH;
    let mut sent = 0;
    while Instant::now() < end {
        let piece: Vec<u8> = (sent..sent + random.usize(1..200)).map(byte_at).collect();
        stream.write_all(&piece).unwrap();
        sent += piece.len();
        spin(&mut random, 10_000);
    }
    sent
}

/// - given: thousands of reads, each cancelled at a random moment while the peer writes
/// - when: all have ended
/// - then: the bytes read are the bytes sent, and no buffer changes after its read has returned
#[test]
fn net_16_cancelled_at_random_slow() {
    let tally = Tally::new();
    tally.at_least(1_000, 1_000, |by, target| {
        let (client, far) = pair();
        let writer = thread::spawn(move || dribble(far, 3));
        let mut random = Rng::with_seed(4);
        let mut returned = Returned::default();
        let mut position = 0;
        loop {
            let mut buffer = vec![0; random.usize(1..300)];
            match target.under_fire(by, &mut random, || (&client).read(&mut buffer)) {
                None => {
                    tally.cancelled.fetch_add(1, SeqCst);
                    assert!(
                        buffer.iter().all(|byte| *byte == 0),
                        "a read that took nothing has written"
                    );
                }
                Some(Err(error)) => panic!("{error}"),
                Some(Ok(0)) => break,
                Some(Ok(count)) => {
                    tally.succeeded.fetch_add(1, SeqCst);
                    for (offset, byte) in buffer[..count].iter().enumerate() {
                        assert_eq!(*byte, byte_at(position + offset), "at {}", position + offset);
                    }
                    position += count;
                }
            }
            returned.keep(buffer);
        }
        assert_eq!(position, writer.join().unwrap());
    });
}

/// Several connections take turns on one worker, with vectored and peeking reads and buffers on the
/// stack.
#[test]
fn net_16_cancelled_at_random_slow_several_at_once() {
    each_attack(|by, target| {
        ecru::scope(|s| {
            for seed in 0..4 {
                s.spawn(move || {
                    let (client, far) = pair();
                    let writer = thread::spawn(move || dribble(far, seed));
                    let mut random = Rng::with_seed(seed + 10);
                    let mut position = 0;
                    loop {
                        let (mut one, mut two) = ([0; 40], [0; 60]);
                        let peeks = random.bool();
                        let outcome = target.under_fire(by, &mut random, || {
                            if peeks {
                                return client.peek(&mut one);
                            }
                            let mut parts =
                                [io::IoSliceMut::new(&mut one), io::IoSliceMut::new(&mut two)];
                            (&client).read_vectored(&mut parts)
                        });
                        let all = [&one[..], &two[..]].concat();
                        match outcome {
                            None => assert_eq!(all, [0; 100]),
                            Some(Err(error)) => panic!("{error}"),
                            Some(Ok(0)) => break,
                            Some(Ok(count)) => {
                                let expected: Vec<u8> =
                                    (position..position + count).map(byte_at).collect();
                                assert_eq!(all[..count], expected);
                                assert_eq!(all[count..], [0; 100][count..]);
                                position += if peeks { 0 } else { count };
                            }
                        }
                    }
                    assert_eq!(position, writer.join().unwrap());
                });
            }
        });
    });
}

#[test]
fn net_15_cancelled_write_stays_whole_slow_at_random() {
    let tally = Tally::new();
    tally.at_least(300, 300, |by, target| {
        let (client, mut far) = pair();
        // A small buffer, which is full most of the time.
        rustix::net::sockopt::set_socket_send_buffer_size(&client, 8_192).unwrap();
        let reader = thread::spawn(move || {
            let mut random = Rng::with_seed(5);
            let mut position = 0;
            let mut buffer = [0; 20_000];
            loop {
                spin(&mut random, 10_000);
                let room = random.usize(1..buffer.len());
                match far.read(&mut buffer[..room]).unwrap() {
                    0 => return position,
                    count => {
                        for byte in &buffer[..count] {
                            assert_eq!(*byte, byte_at(position), "at {position}");
                            position += 1;
                        }
                    }
                }
            }
        });
        let mut random = Rng::with_seed(6);
        let end = Instant::now() + LENGTH;
        let mut written = 0;
        while Instant::now() < end {
            let bytes: Vec<u8> =
                (written..written + random.usize(1..20_000)).map(byte_at).collect();
            match target.under_fire(by, &mut random, || (&client).write(&bytes)) {
                None => {
                    tally.cancelled.fetch_add(1, SeqCst);
                }
                Some(count) => {
                    tally.succeeded.fetch_add(1, SeqCst);
                    written += count.unwrap();
                }
            }
        }
        client.shutdown(Shutdown::Write).unwrap();
        assert_eq!(reader.join().unwrap(), written);
    });
}

/// Connects repeatedly, sends an identification, and keeps the connections.
fn callers(address: SocketAddr) -> Vec<TcpStream> {
    let mut random = Rng::with_seed(7);
    let end = Instant::now() + LENGTH;
    let mut streams = Vec::new();
    while Instant::now() < end && streams.len() < 500 {
        let mut stream = TcpStream::connect(address).unwrap();
        let name = u32::try_from(streams.len()).unwrap();
        stream.write_all(&name.to_ne_bytes()).unwrap();
        streams.push(stream);
        spin(&mut random, 20_000);
    }
    streams
}

fn name_of(mut stream: &TcpStream) -> u32 {
    let mut name = [0; 4];
    stream.read_exact(&mut name).unwrap();
    u32::from_ne_bytes(name)
}

#[test]
fn net_14_cancelled_accept_loses_nothing_slow_at_random() {
    let tally = Tally::new();
    tally.at_least(300, 300, |by, target| {
        let (listener, address) = listen();
        let calling = thread::spawn(move || callers(address));
        let mut random = Rng::with_seed(8);
        let mut names = Vec::new();
        while !calling.is_finished() {
            match target.under_fire(by, &mut random, || listener.accept()) {
                None => {
                    tally.cancelled.fetch_add(1, SeqCst);
                }
                Some(stream) => names.push(name_of(&stream.unwrap().0)),
            }
        }
        let callers = calling.join().unwrap();
        while names.len() < callers.len() {
            let stream =
                ecru::timeout(PATIENCE / 2, || listener.accept()).expect("a connection is lost");
            names.push(name_of(&stream.unwrap().0));
        }
        tally.succeeded.fetch_add(names.len(), SeqCst);
        names.sort_unstable();
        assert!(names.into_iter().eq(0..u32::try_from(callers.len()).unwrap()));
    });
}

fn open_fds() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Answers each connection that still sends something.
fn answer_all(listener: &TcpListener, done: &AtomicBool) {
    while let Ok(Ok((mut stream, _))) = ecru::timeout(PATIENCE / 2, || listener.accept()) {
        if done.load(SeqCst) {
            return;
        }
        let mut byte = [0];
        if matches!(stream.read(&mut byte), Ok(1)) {
            let _ = stream.write_all(&byte);
        }
    }
}

/// This runs in a process of its own, whose descriptors can be counted.
#[test]
fn net_17_cancelled_connect_slow_at_random() {
    const NAME: &str = "drain::net_17_cancelled_connect_slow_at_random";
    if !is_child(NAME) {
        let output = start_again(NAME).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let good = output.status.success() && text.contains("1 passed");
        assert!(good, "{text}{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    let before = open_fds();
    let tally = Tally::new();
    tally.at_least(100, 30, |by, target| {
        let (listener, address) = listen();
        // A queue of one is sometimes full, so some attempts have to wait.
        rustix::net::listen(&listener, 1).unwrap();
        let done = &AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| answer_all(&listener, done));
            let mut random = Rng::with_seed(9);
            let end = Instant::now() + LENGTH;
            while Instant::now() < end {
                match target.under_fire(by, &mut random, || TcpStream::connect(address)) {
                    None => {
                        tally.cancelled.fetch_add(1, SeqCst);
                    }
                    Some(stream) => {
                        let mut stream = stream.unwrap();
                        tally.succeeded.fetch_add(1, SeqCst);
                        stream.write_all(b"?").unwrap();
                        stream.read_exact(&mut [0]).unwrap();
                    }
                }
            }
            done.store(true, SeqCst);
            drop(TcpStream::connect(address));
        });
    });
    // A worker's waker is kept for the next worker in its place.
    let after = open_fds();
    assert!(after <= before + 2, "{before} fds before, {after} after");
}
