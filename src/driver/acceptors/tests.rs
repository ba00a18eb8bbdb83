//! Tests, on both drivers, of which acceptor is told of a connection.
#![expect(unsafe_code, reason = "attempts ops on raw pointers")]

use crate::driver::descriptor::Descriptor;
use crate::driver::tests::{GUARD, collect, expect_nothing, submit};
use crate::driver::{
    AnyDriver, Completion, Driver, DriverKind, Op, Token, Wait, Waker, choose, open, uring,
};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// Runs a test with a function that opens drivers, for each kind and mode in turn. Tests run one at
/// a time, because news is passed on to all drivers of the process.
fn on_each(test: impl Fn(&(dyn Fn() -> AnyDriver + Sync))) {
    static ALONE: Mutex<()> = Mutex::new(());
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for kind in [DriverKind::Poll, DriverKind::Uring] {
        test(&|| open(&choose(kind).unwrap(), None).unwrap());
    }
    for mode in 0..3 {
        test(&|| AnyDriver::Uring(uring::tests::small_rings().nth(mode).unwrap()));
    }
}

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// The memory that an accept writes to.
struct Room {
    address: libc::sockaddr_storage,
    length: libc::socklen_t,
}

impl Room {
    fn new() -> Room {
        // SAFETY: zeroes are valid for an address.
        Room { address: unsafe { std::mem::zeroed() }, length: 0 }
    }

    fn accept(&mut self, fd: Descriptor, shared: bool) -> Op {
        let (address, length) = (&raw mut self.address, &raw mut self.length);
        Op::Accept { fd, address, length, shared }
    }
}

/// Takes a connection, if there is one.
fn take(op: &Op) -> Option<TcpStream> {
    // SAFETY: S3: see `submit`.
    let fd = unsafe { op.attempt() }.ok()?.cast_signed();
    // SAFETY: the result of an accept is a new fd, which belongs to this caller alone.
    Some(TcpStream::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

/// Collects the next completions, which all have this result, and returns their tokens.
fn told(driver: &mut AnyDriver, count: usize, result: i32) -> Vec<u64> {
    let completions = collect(driver, count);
    assert!(completions.iter().all(|completion| completion.result == result), "{completions:?}");
    completions.into_iter().map(|completion| completion.token.value()).collect()
}

#[test]
fn acceptors_are_told_one_by_one_in_their_order() {
    on_each(|open| {
        let ((listener, address), mut driver, mut room) = (listen(), open(), Room::new());
        let op = room.accept(Descriptor::of(&listener), true);
        [3, 1, 2].into_iter().for_each(|token| submit(&mut driver, &op, token));
        expect_nothing(&mut driver);
        for expected in [3, 1, 2] {
            let _client = TcpStream::connect(address).unwrap();
            assert_eq!(told(&mut driver, 1, Completion::RETRY), [expected]);
            assert!(take(&op).is_some());
            expect_nothing(&mut driver);
        }
        assert_eq!(driver.in_flight(), 0);
    });
}

#[test]
fn connections_that_come_together_tell_an_acceptor_each() {
    on_each(|open| {
        let ((listener, address), mut driver, mut room) = (listen(), open(), Room::new());
        let op = room.accept(Descriptor::of(&listener), true);
        [1, 2, 3].into_iter().for_each(|token| submit(&mut driver, &op, token));
        expect_nothing(&mut driver);
        let _clients = [(); 3].map(|()| TcpStream::connect(address).unwrap());
        for expected in [1, 2, 3] {
            assert_eq!(told(&mut driver, 1, Completion::RETRY), [expected]);
            assert!(take(&op).is_some());
        }
        assert!(take(&op).is_none());
    });
}

#[test]
fn a_cancelled_acceptor_leaves_the_line() {
    on_each(|open| {
        let ((listener, address), mut driver, mut room) = (listen(), open(), Room::new());
        let op = room.accept(Descriptor::of(&listener), true);
        [1, 2].into_iter().for_each(|token| submit(&mut driver, &op, token));
        expect_nothing(&mut driver);
        driver.cancel(Token::new(1));
        driver.cancel(Token::new(1));
        assert_eq!(told(&mut driver, 1, Completion::CANCELLED), [1]);
        let _client = TcpStream::connect(address).unwrap();
        assert_eq!(told(&mut driver, 1, Completion::RETRY), [2]);
        driver.cancel(Token::new(2));
        assert!(take(&op).is_some());
        // The last acceptor takes the poll away, and the next one puts it in place again.
        submit(&mut driver, &op, 3);
        expect_nothing(&mut driver);
        driver.cancel(Token::new(3));
        assert_eq!(told(&mut driver, 1, Completion::CANCELLED), [3]);
        submit(&mut driver, &op, 4);
        let _client = TcpStream::connect(address).unwrap();
        assert_eq!(told(&mut driver, 1, Completion::RETRY), [4]);
    });
}

#[test]
fn the_end_of_a_listener_is_told_to_all() {
    on_each(|open| {
        let ((listener, _), mut driver, mut room) = (listen(), open(), Room::new());
        let op = room.accept(Descriptor::of(&listener), true);
        (0..5).for_each(|token| submit(&mut driver, &op, token));
        expect_nothing(&mut driver);
        rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
        assert_eq!(told(&mut driver, 5, Completion::RETRY), [0, 1, 2, 3, 4]);
    });
}

/// Tests a listener whose first acceptor did not know that the listener would be shared.
#[test]
fn acceptors_that_know_of_each_other_and_one_that_does_not() {
    on_each(|open| {
        let ((listener, address), mut driver, mut room) = (listen(), open(), Room::new());
        let fd = Descriptor::of(&listener);
        let (alone, shared) = (room.accept(fd, false), room.accept(fd, true));
        submit(&mut driver, &alone, 1);
        expect_nothing(&mut driver);
        submit(&mut driver, &shared, 2);
        let mut completions = Vec::new();
        driver.poll(Wait::For(Duration::from_millis(2)), &mut completions).unwrap();
        // The first acceptor may have been told to look, because the listener is registered in
        // another way from now on.
        for completion in completions.drain(..) {
            assert_eq!((completion.token, completion.result), (Token::new(1), Completion::RETRY));
            submit(&mut driver, &alone, 1);
        }
        expect_nothing(&mut driver);
        let _client = TcpStream::connect(address).unwrap();
        driver.poll(Wait::For(GUARD), &mut completions).unwrap();
        assert!(completions.iter().all(|completion| completion.result == Completion::RETRY));
        assert!(!completions.is_empty() && take(&alone).is_some());
        for token in 1..3 {
            driver.cancel(Token::new(token));
        }
        while driver.in_flight() > 0 {
            driver.poll(Wait::For(GUARD), &mut completions).unwrap();
        }
        assert_eq!(completions.len(), 2);
    });
}

/// Ends the threads of [`workers`], even if the test fails.
struct End<'e> {
    over: &'e AtomicBool,
    wakers: Vec<Waker>,
}

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        self.wakers.iter().for_each(Waker::wake);
    }
}

/// Runs threads that wait for connections as workers do, until the test is over. Returns how often
/// they were told in total.
fn workers(
    open: &(dyn Fn() -> AnyDriver + Sync),
    listener: &TcpListener,
    count: usize,
    clients: impl FnOnce(&mpsc::Receiver<TcpStream>, &AtomicUsize),
) -> usize {
    let (turns, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (give, taken) = mpsc::channel();
    let (show, shown) = mpsc::channel();
    thread::scope(|threads| {
        for _ in 0..count {
            let (give, show, turns, over) = (give.clone(), show.clone(), &turns, &over);
            threads.spawn(move || {
                let (mut driver, mut room) = (open(), Room::new());
                show.send(driver.waker()).unwrap();
                let op = room.accept(Descriptor::of(listener), true);
                submit(&mut driver, &op, 1);
                let mut completions = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    driver.poll(Wait::Forever, &mut completions).unwrap();
                    for _ in completions.drain(..) {
                        turns.fetch_add(1, Ordering::Relaxed);
                        while let Some(stream) = take(&op) {
                            give.send(stream).unwrap();
                        }
                        submit(&mut driver, &op, 1);
                    }
                }
                driver.cancel(Token::new(1));
                collect(&mut driver, 1);
            });
        }
        let wakers = (0..count).map(|_| shown.recv_timeout(GUARD).unwrap()).collect();
        let _end = End { over: &over, wakers };
        clients(&taken, &turns);
    });
    turns.into_inner()
}

#[test]
fn of_many_workers_that_sleep_one_is_told_of_each_connection() {
    const WORKERS: usize = 8;
    const CONNECTIONS: usize = 200;
    on_each(|open| {
        let (listener, address) = listen();
        let turns = workers(open, &listener, WORKERS, |taken, _| {
            for _ in 0..CONNECTIONS {
                let _client = TcpStream::connect(address).unwrap();
                taken.recv_timeout(GUARD).expect("nobody takes it");
            }
        });
        // A worker that is awake may take several at a time. If all workers were told of each
        // connection, the number would be eight times as large.
        assert!(turns <= 3 * CONNECTIONS, "{turns} turns");
    });
}

#[test]
fn a_worker_that_does_not_sleep_keeps_no_connection_from_those_that_do() {
    on_each(|open| {
        let (listener, address) = listen();
        let (mut driver, mut room) = (open(), Room::new());
        let op = room.accept(Descriptor::of(&listener), true);
        submit(&mut driver, &op, 9);
        workers(open, &listener, 1, |taken, _| {
            for _ in 0..50 {
                // This driver has slept, is woken by something else, and computes from now on.
                driver.waker().wake();
                let mut completions = Vec::new();
                driver.poll(Wait::For(GUARD), &mut completions).unwrap();
                assert_eq!(completions, []);
                let _clients = [(); 2].map(|()| TcpStream::connect(address).unwrap());
                for _ in 0..2 {
                    taken.recv_timeout(GUARD).expect("the other one is not told");
                }
            }
        });
        driver.cancel(Token::new(9));
        collect(&mut driver, 1);
    });
}

#[test]
fn a_worker_that_never_sleeps_hears_of_connections() {
    on_each(|open| {
        let ((listener, address), mut driver, mut room) = (listen(), open(), Room::new());
        let op = room.accept(Descriptor::of(&listener), true);
        submit(&mut driver, &op, 1);
        let mut completions = Vec::new();
        driver.poll(Wait::Poll, &mut completions).unwrap();
        let _client = TcpStream::connect(address).unwrap();
        let end = Instant::now() + GUARD;
        while completions.is_empty() {
            assert!(Instant::now() < end, "{driver:?}");
            driver.poll(Wait::Poll, &mut completions).unwrap();
        }
        assert_eq!(completions[0].result, Completion::RETRY);
    });
}

#[test]
fn news_is_passed_on_to_the_next_in_line_and_to_other_workers() {
    on_each(|open| {
        let (listener, address) = listen();
        let (mut driver, mut room) = (open(), Room::new());
        let op = room.accept(Descriptor::of(&listener), true);
        [1, 2].into_iter().for_each(|token| submit(&mut driver, &op, token));
        let _client = TcpStream::connect(address).unwrap();
        assert_eq!(told(&mut driver, 1, Completion::RETRY), [1]);
        // Acts as if no descriptor were available.
        driver.pass_on(&op);
        assert_eq!(told(&mut driver, 1, Completion::RETRY), [2]);
        workers(open, &listener, 1, |taken, turns| {
            taken.recv_timeout(GUARD).expect("it is there from the start");
            let client = TcpStream::connect(address).unwrap();
            let stream = taken.recv_timeout(GUARD).unwrap();
            drop((stream, client));
            let (before, end) = (turns.load(Ordering::Relaxed), Instant::now() + GUARD);
            while turns.load(Ordering::Relaxed) == before {
                assert!(Instant::now() < end, "the other one is not told");
                // The other worker may just have been awake, without an acceptor.
                driver.pass_on(&op);
                thread::yield_now();
            }
        });
    });
}
