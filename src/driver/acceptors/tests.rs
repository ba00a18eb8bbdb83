//! Tests, on both drivers, of which acceptor is told of a connection.
#![expect(unsafe_code, reason = "attempts ops on raw pointers")]

use crate::driver::descriptor::Descriptor;
use crate::driver::tests::{
    GUARD, attempt, cancel, collect, expect_nothing, expect_wake, named, submit,
};
use crate::driver::{
    AnyDriver, Completion, Driver, DriverKind, Op, PollTimeout, Waker, choose, open, uring,
};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::time::Instant;

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

    fn accept<'a>(&mut self, fd: &'a Descriptor, shared: bool) -> Op<'a> {
        let (address, length) = (&raw mut self.address, &raw mut self.length);
        Op::Accept { fd, address, length, shared }
    }
}

/// Returns the connection that is the result of an accept.
fn connection(result: i32) -> TcpStream {
    assert!(result >= 0, "{}", std::io::Error::from_raw_os_error(-result));
    // SAFETY: the result of an accept is a new fd, which belongs to this caller alone.
    TcpStream::from(unsafe { OwnedFd::from_raw_fd(result) })
}

/// Takes a connection, if there is one.
fn take(op: &Op<'_>) -> Option<TcpStream> {
    Some(connection(attempt(op).ok()?.cast_signed()))
}

/// Collects the next completions, which all have this result, and returns their tokens.
fn ended(driver: &mut AnyDriver, count: usize, result: i32) -> Vec<u64> {
    let completions = collect(driver, count);
    assert!(completions.iter().all(|completion| completion.result == result), "{completions:?}");
    completions.into_iter().map(|completion| completion.token.value()).collect()
}

/// Collects the next completion, which has a connection, and returns its token.
fn accepted(driver: &mut AnyDriver) -> u64 {
    let completion = collect(driver, 1)[0];
    drop(connection(completion.result));
    completion.token.value()
}

#[test]
fn acceptors_are_told_one_by_one_in_their_order() {
    on_each(|open| {
        let ((listener, address), mut driver, mut room) = (listen(), open(), Room::new());
        let fd = named(&listener);
        let op = room.accept(fd, true);
        [3, 1, 2].into_iter().for_each(|token| submit(&mut driver, &op, token));
        expect_nothing(&mut driver);
        for expected in [3, 1, 2] {
            let _client = TcpStream::connect(address).unwrap();
            assert_eq!(accepted(&mut driver), expected);
            expect_nothing(&mut driver);
        }
        assert_eq!(driver.in_flight(), 0);
    });
}

#[test]
fn connections_that_come_together_tell_an_acceptor_each() {
    on_each(|open| {
        let ((listener, address), mut driver, mut room) = (listen(), open(), Room::new());
        let fd = named(&listener);
        let op = room.accept(fd, true);
        [1, 2, 3].into_iter().for_each(|token| submit(&mut driver, &op, token));
        expect_nothing(&mut driver);
        let _clients = [(); 3].map(|()| TcpStream::connect(address).unwrap());
        for expected in [1, 2, 3] {
            assert_eq!(accepted(&mut driver), expected);
        }
        assert!(take(&op).is_none());
    });
}

#[test]
fn a_cancelled_acceptor_leaves_the_line() {
    on_each(|open| {
        let ((listener, address), mut driver, mut room) = (listen(), open(), Room::new());
        let fd = named(&listener);
        let op = room.accept(fd, true);
        [1, 2].into_iter().for_each(|token| submit(&mut driver, &op, token));
        expect_nothing(&mut driver);
        cancel(&mut driver, 1);
        cancel(&mut driver, 1);
        assert_eq!(ended(&mut driver, 1, Completion::CANCELLED), [1]);
        let _client = TcpStream::connect(address).unwrap();
        assert_eq!(accepted(&mut driver), 2);
        cancel(&mut driver, 2);
        assert_eq!(driver.in_flight(), 0);
        // The last acceptor takes the poll away, and the next one puts it in place again.
        submit(&mut driver, &op, 3);
        expect_nothing(&mut driver);
        cancel(&mut driver, 3);
        assert_eq!(ended(&mut driver, 1, Completion::CANCELLED), [3]);
        submit(&mut driver, &op, 4);
        let _client = TcpStream::connect(address).unwrap();
        assert_eq!(accepted(&mut driver), 4);
    });
}

#[test]
fn the_end_of_a_listener_is_told_to_all() {
    on_each(|open| {
        let ((listener, _), mut driver, mut room) = (listen(), open(), Room::new());
        let fd = named(&listener);
        let op = room.accept(fd, true);
        (0..5).for_each(|token| submit(&mut driver, &op, token));
        expect_nothing(&mut driver);
        rustix::net::shutdown(&listener, rustix::net::Shutdown::Both).unwrap();
        assert_eq!(ended(&mut driver, 5, -libc::EINVAL), [0, 1, 2, 3, 4]);
    });
}

/// Tests a listener whose first acceptor did not know that the listener would be shared.
#[test]
fn acceptors_that_know_of_each_other_and_one_that_does_not() {
    on_each(|open| {
        let ((listener, address), mut driver, mut room) = (listen(), open(), Room::new());
        let fd = named(&listener);
        let (alone, shared) = (room.accept(fd, false), room.accept(fd, true));
        submit(&mut driver, &alone, 1);
        expect_nothing(&mut driver);
        submit(&mut driver, &shared, 2);
        // The first acceptor may have to wait in another way from now on.
        expect_nothing(&mut driver);
        let _client = TcpStream::connect(address).unwrap();
        let first = accepted(&mut driver);
        cancel(&mut driver, 3 - first);
        assert_eq!(ended(&mut driver, 1, Completion::CANCELLED), [3 - first]);
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
                let fd = named(listener);
                let op = room.accept(fd, true);
                submit(&mut driver, &op, 1);
                let mut completions = Vec::new();
                while !over.load(Ordering::Relaxed) {
                    driver.poll(PollTimeout::Forever, &mut completions).unwrap();
                    for completion in completions.drain(..) {
                        turns.fetch_add(1, Ordering::Relaxed);
                        give.send(connection(completion.result)).unwrap();
                        while let Some(stream) = take(&op) {
                            give.send(stream).unwrap();
                        }
                        submit(&mut driver, &op, 1);
                    }
                }
                cancel(&mut driver, 1);
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
        let fd = named(&listener);
        let op = room.accept(fd, true);
        submit(&mut driver, &op, 9);
        workers(open, &listener, 1, |taken, _| {
            for _ in 0..50 {
                // This driver has slept, is woken by something else, and computes from now on.
                driver.waker().wake();
                let mut completions = Vec::new();
                driver.poll(PollTimeout::For(GUARD), &mut completions).unwrap();
                assert_eq!(completions, []);
                let _clients = [(); 2].map(|()| TcpStream::connect(address).unwrap());
                for _ in 0..2 {
                    taken.recv_timeout(GUARD).expect("the other one is not told");
                }
            }
        });
        cancel(&mut driver, 9);
        collect(&mut driver, 1);
    });
}

#[test]
fn a_worker_that_never_sleeps_hears_of_connections() {
    on_each(|open| {
        let ((listener, address), mut driver, mut room) = (listen(), open(), Room::new());
        let fd = named(&listener);
        let op = room.accept(fd, true);
        submit(&mut driver, &op, 1);
        let mut completions = Vec::new();
        driver.poll(PollTimeout::Poll, &mut completions).unwrap();
        let _client = TcpStream::connect(address).unwrap();
        let end = Instant::now() + GUARD;
        while completions.is_empty() {
            assert!(Instant::now() < end, "{driver:?}");
            driver.poll(PollTimeout::Poll, &mut completions).unwrap();
        }
        drop(connection(completions[0].result));
    });
}

/// An acceptor fails although there are connections. (This one has no room for the address.)
#[test]
fn news_is_passed_on_to_the_next_in_line_and_to_other_workers() {
    on_each(|open| {
        let (listener, address) = listen();
        let (mut driver, mut other, mut room) = (open(), open(), Room::new());
        let fd = named(&listener);
        let op = room.accept(fd, true);
        let nowhere = std::ptr::without_provenance_mut(1);
        let fails = Op::Accept { fd, address: nowhere, length: &raw mut room.length, shared: true };
        submit(&mut other, &op, 9);
        // The other worker sleeps only for a moment, and does not listen any more.
        expect_nothing(&mut other);
        submit(&mut driver, &fails, 1);
        submit(&mut driver, &op, 2);
        let _clients = [(); 2].map(|()| TcpStream::connect(address).unwrap());
        let mut completions = Vec::new();
        driver.poll(PollTimeout::For(GUARD), &mut completions).unwrap();
        let [first, second] = completions[..] else { panic!("{completions:?}") };
        assert_eq!((first.token.value(), first.result), (1, -libc::EFAULT));
        assert_eq!(second.token.value(), 2);
        drop(connection(second.result));
        assert!(other.acceptors().has_news());
        // There is no connection left, so the other acceptor goes on waiting.
        expect_wake(&mut other);
        assert_eq!(other.in_flight(), 1);
        cancel(&mut other, 9);
        assert_eq!(ended(&mut other, 1, Completion::CANCELLED), [9]);
        assert_eq!(driver.in_flight(), 0);
    });
}
