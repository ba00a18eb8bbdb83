//! Hostile clients of the inspect socket, made by a seed: requests that are random, cut, too long,
//! slow or pipelined, and clients that go away at any moment.
//!
//! The program goes on, a well-behaved client is answered, and neither descriptors nor memory are
//! left. Both are counted, so this is a program of its own, with one test. `ECRU_FUZZ_CASES=n` makes
//! more cases, and `ECRU_FUZZ_SEED=s` others.
#![expect(unsafe_code, reason = "an allocator that counts")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::fmt::Display;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use common::{HOUR, OnDrop, PATIENCE, Watchdog};

struct Counting;

/// The number of bytes that have not been freed.
static BYTES: AtomicIsize = AtomicIsize::new(0);

// SAFETY: everything is passed on unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        BYTES.fetch_add(layout.size().cast_signed(), SeqCst);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size().cast_signed(), SeqCst);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) };
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const CLIENTS: u64 = 6;
/// The cases of each client in each of the rounds, between which the program is looked at.
const CASES: u64 = 12;
const ROUNDS: u64 = 3;
/// Less than what it takes to keep the answers. std keeps the symbols of the last few libraries that
/// stacks were in, which takes some hundred kilobytes more or less. More cases find smaller leaks.
const GROWTH_MAX: isize = 1 << 20;

const COMMANDS: [&str; 14] = [
    "help",
    "about",
    "metrics",
    "tasks",
    "dump",
    "dump json",
    "trace",
    "page",
    "stack 1",
    "stack #2",
    "stack 99999999999999999999",
    "stack -1",
    "dump json json",
    "paint the fence",
];

/// xorshift64*: the same numbers for the same seed.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }

    fn bytes(&mut self, limit: usize) -> Vec<u8> {
        (0..self.below(limit)).map(|_| self.below(256) as u8).collect()
    }

    /// A proper request. Those that ask all workers are rarer, because the socket rests after them.
    fn request(&mut self) -> String {
        let command = match self.below(8) {
            0 => COMMANDS[self.below(COMMANDS.len())],
            1..=3 => COMMANDS[8 + self.below(6)],
            _ => COMMANDS[self.below(2)],
        };
        format!("ecru/1 {command}\n")
    }
}

/// Ends of a connection that a client must bear with: the server may dismiss it at any time.
fn is_dismissal(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset)
}

/// Writes, if the server still reads.
fn write(client: &mut UnixStream, bytes: &[u8]) {
    match client.write_all(bytes) {
        Err(error) if !is_dismissal(&error) => panic!("a write: {error}"),
        _ => {}
    }
}

/// Reads to the end. Returns nothing if the client was dismissed, and otherwise a whole answer.
fn read(client: &mut UnixStream) -> String {
    let mut answer = Vec::new();
    let ended = client.read_to_end(&mut answer);
    if let Err(error) = &ended {
        assert!(is_dismissal(error), "a read: {error}");
    }
    let answer = String::from_utf8(answer).expect("an answer is UTF-8");
    if answer.is_empty() {
        return answer;
    }
    let (head, body) = answer.split_once('\n').expect("an answer begins with a line");
    match head.strip_prefix("ecru/1 ok ") {
        Some(length) => assert_eq!(length.parse(), Ok(body.len()), "{head}"),
        None => assert!(head.starts_with("ecru/1 error ") && body.is_empty(), "{answer}"),
    }
    answer
}

fn connect(path: &Path) -> UnixStream {
    UnixStream::connect(path).expect("the socket is served")
}

/// Makes one hostile client.
fn attack(path: &Path, random: &mut Random) {
    let mut client = connect(path);
    let request = random.request();
    let cut = random.below(request.len());
    match random.below(14) {
        // Proper, and read to its end.
        0 => {
            write(&mut client, request.as_bytes());
            read(&mut client);
        }
        // Proper, and never read.
        1 => write(&mut client, request.as_bytes()),
        // Proper, and read in part.
        2 => {
            write(&mut client, request.as_bytes());
            let mut some = vec![0; 1 + random.below(40)];
            let _ = client.read(&mut some);
        }
        // Cut, and gone.
        3 => write(&mut client, &request.as_bytes()[..cut]),
        // Cut, and no more to come.
        4 => {
            write(&mut client, &request.as_bytes()[..cut]);
            let _ = client.shutdown(Shutdown::Write);
            assert_eq!(read(&mut client), "", "half a request is not answered");
        }
        // Random bytes.
        5 | 6 => {
            let mut bytes = random.bytes(600);
            bytes.insert(random.below(bytes.len() + 1), [0, b'\n'][random.below(2)]);
            write(&mut client, &bytes);
            let _ = client.shutdown(Shutdown::Write);
            let answer = read(&mut client);
            assert!(!answer.starts_with("ecru/1 ok "), "{bytes:?}");
        }
        // Too long.
        7 => {
            let mut bytes = request.trim_end().as_bytes().to_vec();
            bytes.resize(257 + random.below(100_000), b'x');
            write(&mut client, &bytes);
            let answer = read(&mut client);
            assert!(answer.is_empty() || answer.contains("longer than 256 bytes"), "{answer}");
        }
        // Byte by byte, perhaps gone before its end.
        8 => {
            let end = if random.below(2) == 0 { request.len() } else { cut };
            for byte in &request.as_bytes()[..end] {
                write(&mut client, &[*byte]);
                thread::yield_now();
            }
            if end == request.len() {
                read(&mut client);
            }
        }
        // Several requests at once: the first is answered.
        9 => {
            let more: String = (0..random.below(30)).map(|_| random.request()).collect();
            write(&mut client, format!("{request}{more}").as_bytes());
            read(&mut client);
        }
        // Many clients that send nothing, or half a request.
        10 => {
            let mut others: Vec<UnixStream> =
                (0..5 + random.below(30)).map(|_| connect(path)).collect();
            for other in &mut others {
                let sent = random.below(request.len());
                write(other, &request.as_bytes()[..sent]);
            }
            while !others.is_empty() {
                drop(others.swap_remove(random.below(others.len())));
            }
        }
        // Gone at once, or both halves closed.
        11 => {
            let _ = client.shutdown([Shutdown::Both, Shutdown::Read][random.below(2)]);
            let _ = client.write_all(request.as_bytes());
        }
        // A proper request with one byte changed.
        12 => {
            let mut bytes = request.into_bytes();
            bytes[cut] = random.below(256) as u8;
            write(&mut client, &bytes);
            let _ = client.shutdown(Shutdown::Write);
            read(&mut client);
        }
        // A long answer, read in small pieces.
        _ => {
            write(&mut client, b"ecru/1 dump json\n");
            for _ in 0..random.below(50) {
                let _ = client.read(&mut [0; 7]);
                thread::yield_now();
            }
        }
    }
}

/// Asks as the command `ecru` does, and again if it was dismissed for others. Returns the answer.
fn ask(path: &Path, request: &str) -> String {
    loop {
        let mut client = connect(path);
        write(&mut client, request.as_bytes());
        let answer = read(&mut client);
        if !answer.is_empty() {
            return answer;
        }
    }
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// What the program has: descriptors, and bytes that are not freed.
type Size = (usize, isize);

fn size() -> Size {
    (open_descriptors(), BYTES.load(SeqCst))
}

/// Asks for everything, so that what is kept for later answers is there in each comparison. Once it
/// is answered, the server has looked at all clients that have gone before.
fn ask_for_all(path: &Path) {
    for command in ["dump", "dump json", "trace", "page", "metrics", "tasks"] {
        assert!(ask(path, &format!("ecru/1 {command}\n")).starts_with("ecru/1 ok "));
    }
}

/// Waits until the program is as small as before. The server frees the last answer a moment after its
/// client has read it.
fn expect_no_growth(before: Size, when: &dyn Display) {
    let is_grown = |now: Size| now.0 > before.0 || now.1 - before.1 >= GROWTH_MAX;
    let begin = Instant::now();
    while is_grown(size()) {
        assert!(begin.elapsed() < PATIENCE / 2, "{when}: {before:?} became {:?}", size());
        thread::sleep(Duration::from_millis(1));
    }
}

/// Runs the cases of one client.
fn attack_often(path: &Path, seed: u64, cases: u64) {
    for case in 0..cases {
        let mut random = Random((seed + case).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let attacked = catch_unwind(AssertUnwindSafe(|| attack(path, &mut random)));
        if let Err(payload) = attacked {
            eprintln!("repeat it with ECRU_FUZZ_SEED={}", seed + case);
            resume_unwind(payload);
        }
    }
}

/// A client that sends half a request, and one that does not read a long answer, are dismissed when
/// their time is over.
fn clients_that_stop(path: &Path, before: Size) {
    let [mut half, mut unread] = [connect(path), connect(path)];
    write(&mut half, b"ecru/1 du");
    write(&mut unread, b"ecru/1 trace\n");
    // Its answer has begun.
    let mut begin = [0; 24];
    unread.read_exact(&mut begin).unwrap();
    let begin = std::str::from_utf8(&begin).unwrap();
    let stated = begin.strip_prefix("ecru/1 ok ").and_then(|rest| rest.split('\n').next());
    let stated: usize = stated.unwrap().parse().unwrap();
    assert_eq!(read(&mut half), "");
    drop(half);
    // The client's own end is left.
    expect_no_growth((before.0 + 1, before.1), &"a client that does not read");
    let mut rest = Vec::new();
    unread.read_to_end(&mut rest).unwrap();
    assert!(rest.len() < stated, "{} of {stated} bytes", rest.len());
    assert!(ask(path, "ecru/1 about\n").starts_with("ecru/1 ok "));
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().expect("the variable is a number"))
}

#[test]
fn hostile_clients_harm_nothing_slow() {
    let cases = number("ECRU_FUZZ_CASES").map_or(CASES, |cases| cases.div_ceil(CLIENTS * ROUNDS));
    let first = number("ECRU_FUZZ_SEED").unwrap_or(1);
    let _watchdog = Watchdog::within(Duration::from_secs(60 + cases * 10));
    let path = std::env::temp_dir().join(format!("ecru-fuzz-{}.sock", std::process::id()));
    let builder = ecru::Runtime::builder().workers(2).record(1 << 18);
    let runtime = builder.inspect(&path).build().unwrap();
    let (path, turns, over) = (&*path, AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|threads| {
        threads.spawn(|| {
            let _over = OnDrop(|| over.store(true, SeqCst));
            // Caches of names grow with the first ones.
            attack_often(path, first, CASES);
            // Stacks have names from here on. A worker that is preempted for long has no stack.
            while !ask(path, "ecru/1 dump\n").contains("   0: ") {}
            ask_for_all(path);
            // The smallest, in case an answer is freed meanwhile.
            let sizes = (0..100).map(|_| {
                thread::sleep(Duration::from_millis(1));
                size()
            });
            let small = sizes.reduce(|one, other| (one.0.min(other.0), one.1.min(other.1)));
            let before = small.expect("there are sizes");
            for round in 0..ROUNDS {
                let turns_before = turns.load(SeqCst);
                thread::scope(|clients| {
                    for client in 0..CLIENTS {
                        let seed = first + (round * CLIENTS + client) * cases;
                        clients.spawn(move || attack_often(path, seed, cases));
                    }
                    for _ in 0..3 {
                        assert!(ask(path, "ecru/1 tasks\n").contains(r#""name":"sleeps""#));
                    }
                });
                ask_for_all(path);
                expect_no_growth(before, &format_args!("after round {round}"));
                assert!(turns.load(SeqCst) > turns_before, "the program goes on");
            }
            clients_that_stop(path, before);
        });
        runtime.run(|| {
            let lock = ecru::sync::Mutex::new(());
            ecru::scope(|s| {
                let sleeper = s.builder().name("sleeps").spawn(|| {
                    let _held = lock.lock();
                    ecru::sleep(HOUR).is_err()
                });
                s.spawn(|| drop(lock.lock()));
                while !over.load(SeqCst) {
                    let (sender, receiver) = ecru::channel::bounded(1);
                    s.spawn(move || (0..10).for_each(|n| sender.send(n).unwrap()));
                    assert_eq!(receiver.iter().sum::<i32>(), 45);
                    turns.fetch_add(1, SeqCst);
                    ecru::sleep(Duration::from_micros(100)).unwrap();
                }
                sleeper.cancel();
            });
        });
    });
    drop(runtime);
    assert!(!path.exists());
}
