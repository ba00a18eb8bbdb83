//! Tests of what both drivers promise, with real sockets, and the helpers that the drivers' own
//! tests share.
#![expect(unsafe_code, reason = "submits ops on raw pointers")]

mod cancelling;
mod waking;

pub(super) use self::waking::receive_wakes;

use super::attempt::without_waiting;
use super::descriptor::Descriptor;
use super::op::{FileCall, FileOp, Interest, clamp_length};
use super::*;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// A limit longer than any test takes. A test that reaches it fails instead of hanging.
pub(super) const GUARD: Duration = Duration::from_secs(60);

/// Runs a test on each driver as a worker opens it, and on small rings in every mode. io_uring
/// comes last, because the kernel takes a dropped ring apart later, which interrupts the thread's
/// next wait.
fn on_each(mut test: impl FnMut(&mut AnyDriver)) {
    let opened = [DriverKind::Poll, DriverKind::Uring].into_iter().map(|kind| {
        let driver = open(&choose(kind).unwrap(), None).unwrap();
        assert_eq!(is_poll(&driver), kind == DriverKind::Poll);
        driver
    });
    for mut driver in opened.chain(uring::tests::small_rings().map(AnyDriver::Uring)) {
        test(&mut driver);
        assert_eq!(driver.in_flight(), 0, "the test has left ops in flight");
    }
}

fn is_poll(driver: &AnyDriver) -> bool {
    matches!(driver, AnyDriver::Poll(_))
}

pub(super) fn pair() -> (UnixStream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (ours, theirs)
}

pub(super) fn recv<'a>(fd: &'a Descriptor, buffer: &mut [u8]) -> Op<'a> {
    let (buf, len) = (buffer.as_mut_ptr(), clamp_length(buffer.len()));
    Op::Recv { fd, buf, len, flags: 0, stream: true }
}

/// Returns a name that is leaked, because ops that are leaked name it.
pub(super) fn named(fd: &impl AsRawFd) -> &'static Descriptor {
    Box::leak(Box::new(Descriptor::of(fd)))
}

thread_local! {
    /// The ops that a test has started, by their tokens. They are leaked.
    static STARTED: RefCell<HashMap<u64, &'static InFlight<'static>>> = RefCell::default();
}

/// Returns a leaked copy of the op, as it is before it is started.
pub(super) fn leak(op: &Op<'_>, attempted: bool) -> &'static InFlight<'static> {
    // SAFETY: every test keeps its buffers, descriptors and sockets until it has seen the
    // completion, or has dropped the driver.
    let op: Op<'static> = unsafe { std::mem::transmute(*op) };
    Box::leak(Box::new(InFlight::new(Box::leak(Box::new(op)), attempted)))
}

/// Starts an op, which has been attempted in vain or not.
pub(super) fn start(
    driver: &mut impl Driver,
    op: &Op<'_>,
    token: u64,
    attempted: bool,
) -> StartedOp {
    let flight = leak(op, attempted);
    STARTED.with_borrow_mut(|started| started.insert(token, flight));
    // SAFETY: S3: ops and their memory are leaked, or outlive the driver's use of them.
    unsafe { driver.start(flight, Token::new(token)) }
}

/// Starts an op that has been attempted in vain.
pub(super) fn submit(driver: &mut impl Driver, op: &Op<'_>, token: u64) {
    let started = start(driver, op, token, true);
    assert!(matches!(started, StartedOp::Pending), "{started:?}");
}

/// Cancels an op that was started on this thread. Ignores tokens that were never used.
pub(super) fn cancel(driver: &mut impl Driver, token: u64) {
    if let Some(flight) = STARTED.with_borrow(|started| started.get(&token).copied()) {
        driver.cancel(flight);
    }
}

/// Polls until `count` completions have come.
pub(super) fn collect(driver: &mut (impl Driver + Debug), count: usize) -> Vec<Completion> {
    let end = Instant::now() + GUARD;
    let mut completions = Vec::new();
    while completions.len() < count {
        let came = completions.len();
        assert!(Instant::now() < end, "only {came} of {count} completions came: {driver:?}");
        driver.poll(PollTimeout::For(GUARD), &mut completions).unwrap();
    }
    assert_eq!(completions.len(), count);
    completions
}

/// Starts an op that has just been attempted in vain, and returns its result.
fn finish(driver: &mut AnyDriver, op: &Op<'_>, token: u64) -> io::Result<u32> {
    match start(driver, op, token, true) {
        StartedOp::Done(result) => result,
        StartedOp::Pending => {
            let completion = collect(driver, 1)[0];
            assert_eq!(completion.token, Token::new(token));
            completion.into_result()
        }
        other => panic!("{op:?} is not carried by {driver:?}: {other:?}"),
    }
}

/// Carries out an op as a worker does.
pub(super) fn carry_out(driver: &mut AnyDriver, op: &Op<'_>) -> io::Result<u32> {
    // SAFETY: S3: ops and their memory are leaked, or outlive the driver's use of them.
    let attempted = match unsafe { at_once(op) } {
        AtOnce::Done(result) => return result,
        AtOnce::WouldWait => true,
        AtOnce::Unknown => false,
    };
    match start(driver, op, 7, attempted) {
        StartedOp::Done(result) => result,
        StartedOp::Pending => collect(driver, 1)[0].into_result(),
        other => panic!("{op:?} is not carried by {driver:?}: {other:?}"),
    }
}

/// Attempts an op without a driver.
pub(super) fn attempt(op: &Op<'_>) -> io::Result<u32> {
    // SAFETY: S3: ops and their memory are leaked, or outlive the driver's use of them.
    unsafe { without_waiting(op) }
}

/// Expects that a wake ends the wait.
pub(super) fn expect_wake(driver: &mut impl Driver) {
    let start = Instant::now();
    driver.poll(PollTimeout::For(GUARD), &mut Vec::new()).unwrap();
    assert!(start.elapsed() < GUARD, "the wake was lost");
}

pub(super) fn expect_nothing(driver: &mut AnyDriver) {
    let mut completions = Vec::new();
    driver.poll(PollTimeout::For(Duration::from_millis(2)), &mut completions).unwrap();
    driver.poll(PollTimeout::Poll, &mut completions).unwrap();
    assert_eq!(completions, []);
}

#[test]
fn a_recv_waits_for_its_peer_and_sees_the_end_of_the_stream() {
    on_each(|driver| {
        let (ours, mut theirs) = pair();
        let fd = named(&ours);
        let mut buffer = [0; 8];
        let op = recv(fd, &mut buffer);
        submit(driver, &op, 42);
        assert_eq!(driver.in_flight(), 1);
        expect_nothing(driver);
        theirs.write_all(b"hello").unwrap();
        let completion = collect(driver, 1)[0];
        assert_eq!(completion.token, Token::new(42));
        let count = completion.into_result().unwrap();
        assert_eq!((count, &buffer), (5, b"hello\0\0\0"));
        // The rest and the end arrive together.
        theirs.write_all(b"ab").unwrap();
        drop(theirs);
        assert_eq!(carry_out(driver, &op).unwrap(), 2);
        assert_eq!(carry_out(driver, &op).unwrap(), 0);
        assert_eq!(carry_out(driver, &op).unwrap(), 0);
    });
}

#[test]
fn a_message_a_round_for_a_thousand_rounds_is_never_missed() {
    const ROUNDS: u32 = 1_000;
    on_each(|driver| {
        let (ours, theirs) = pair();
        let echo = thread::spawn(move || {
            let mut word = [0; 4];
            while (&theirs).read_exact(&mut word).is_ok() {
                (&theirs).write_all(&word).unwrap();
            }
        });
        let fd = named(&ours);
        for round in 0..ROUNDS {
            (&ours).write_all(&round.to_ne_bytes()).unwrap();
            let mut word = [0; 4];
            // In some rounds there is a poll between the attempt and the submit, which may take the
            // edge away.
            let op = recv(fd, &mut word);
            if attempt(&op).is_err() {
                if round % 3 == 0 {
                    driver.poll(PollTimeout::Poll, &mut Vec::new()).unwrap();
                }
                assert_eq!(finish(driver, &op, u64::from(round)).unwrap(), 4);
            }
            assert_eq!(u32::from_ne_bytes(word), round);
        }
        drop(ours);
        echo.join().unwrap();
    });
}

#[test]
fn connect_accept_and_send_work() {
    on_each(|driver| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        // SAFETY: zeroes are valid for an address.
        let mut address: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let mut length = 0;
        let (storage, room) = (&raw mut address, &raw mut length);
        let accept =
            Op::Accept { fd: named(&listener), address: storage, length: room, shared: false };
        let to = listener.local_addr().unwrap();
        let client = thread::spawn(move || {
            let mut client = TcpStream::connect(to).unwrap();
            let mut all = [0; 2];
            client.read_exact(&mut all).unwrap();
            (client, all)
        });
        let fd = i32::try_from(carry_out(driver, &accept).unwrap()).unwrap();
        // SAFETY: the result of an accept is a new fd, which belongs to this test alone.
        let server = TcpStream::from(unsafe { OwnedFd::from_raw_fd(fd) });
        let bytes = *b"fg";
        let fd = named(&server);
        let send = Op::Send { fd, buf: bytes.as_ptr(), len: 2, flags: libc::MSG_NOSIGNAL };
        assert_eq!(carry_out(driver, &send).unwrap(), 2);
        let (client, all) = client.join().unwrap();
        assert_eq!(&all, b"fg");
        assert_eq!(server.peer_addr().unwrap(), client.local_addr().unwrap());
        assert_eq!((i32::from(address.ss_family), length), (libc::AF_INET, 16));
    });
}

#[test]
fn no_event_tells_of_room_in_the_queue_of_another_socket() {
    on_each(|driver| {
        let listener = UnixListener::bind_addr(&SocketAddr::from_pathname("").unwrap()).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let to = listener.local_addr().unwrap();
        let _filler = UnixStream::connect_addr(&to).unwrap();
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (unix, stream) = (AddressFamily::UNIX, SocketType::STREAM);
        let client = rustix::net::socket_with(unix, stream, flags, None).unwrap();
        let raw = to.to_raw();
        let connect =
            Op::Connect { fd: named(&client), address: &raw const raw.storage, length: raw.length };
        assert_eq!(attempt(&connect).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        for attempted in [true, false] {
            let started = start(driver, &connect, 1, attempted);
            assert!(matches!(started, StartedOp::Untold), "{started:?} by {driver:?}");
        }
        listener.accept().unwrap();
        assert_eq!(attempt(&connect).unwrap(), 0);
    });
}

#[test]
fn a_send_waits_until_the_peer_makes_room() {
    on_each(|driver| {
        let (ours, mut theirs) = pair();
        let bytes = vec![7_u8; 1 << 16];
        let fd = named(&ours);
        let send = Op::Send { fd, buf: bytes.as_ptr(), len: 1 << 16, flags: libc::MSG_NOSIGNAL };
        let mut sent = 0_usize;
        while let Ok(count) = attempt(&send) {
            sent += count as usize;
        }
        submit(driver, &send, 3);
        assert_eq!(driver.in_flight(), 1);
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).unwrap();
            all.len()
        });
        sent += collect(driver, 1)[0].into_result().unwrap() as usize;
        drop(ours);
        assert_eq!(reader.join().unwrap(), sent);
    });
}

#[test]
fn readiness_completes_with_the_events() {
    on_each(|driver| {
        let (ours, mut theirs) = pair();
        let fd = named(&ours);
        let readable = Op::Readiness { fd, interest: Interest::Read };
        submit(driver, &readable, 1);
        theirs.write_all(b"x").unwrap();
        let later = collect(driver, 1)[0].into_result().unwrap();
        let at_once = carry_out(driver, &readable).unwrap();
        for events in [later, at_once] {
            assert_eq!(events & u32::from(libc::POLLIN.cast_unsigned()), 1);
        }
        let writable = Op::Readiness { fd, interest: Interest::Write };
        let events = carry_out(driver, &writable).unwrap();
        assert_eq!(events, u32::from(libc::POLLOUT.cast_unsigned()));
    });
}

#[test]
fn what_the_kernel_refuses_ends_with_the_refusal() {
    on_each(|driver| {
        let mut buffer = [0; 8];
        for bad in [-1, 1 << 20] {
            let error = finish(driver, &recv(named(&bad), &mut buffer), 9).unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EBADF));
        }
    });
}

#[test]
fn a_wait_is_never_shorter_than_asked() {
    on_each(|driver| {
        let (ours, _theirs) = pair();
        let mut buffer = [0; 8];
        submit(driver, &recv(named(&ours), &mut buffer), 1);
        let mut completions = Vec::new();
        for micros in [0, 1, 999, 3_000, 7_777] {
            let limit = Duration::from_micros(micros);
            let start = Instant::now();
            driver.poll(PollTimeout::For(limit), &mut completions).unwrap();
            let took = start.elapsed();
            assert!(took >= limit, "{took:?} instead of {limit:?} with {driver:?}");
            assert_eq!(completions, []);
        }
        cancel(driver, 1);
        assert_eq!(collect(driver, 1)[0].result, Completion::CANCELLED);
    });
}

#[test]
fn a_wait_longer_than_the_kernel_can_count_is_only_long() {
    on_each(|driver| {
        driver.waker().wake();
        driver.poll(PollTimeout::For(Duration::MAX), &mut Vec::new()).unwrap();
    });
}

#[test]
fn all_who_wait_for_an_fd_are_told() {
    const OPS: usize = 1_000;
    on_each(|driver| {
        let (ours, mut theirs) = pair();
        let fd = named(&ours);
        let mut buffer = vec![0; OPS];
        let ops: Vec<_> = buffer.chunks_mut(1).map(|byte| recv(fd, byte)).collect();
        for (token, op) in ops.iter().enumerate() {
            submit(driver, op, token as u64);
        }
        assert_eq!(driver.in_flight(), OPS);
        expect_nothing(driver);
        theirs.write_all(&[b'x'; OPS]).unwrap();
        let mut tokens = Vec::new();
        for completion in collect(driver, OPS) {
            let token = completion.token.value();
            assert_eq!(completion.result, 1);
            tokens.push(token);
        }
        tokens.sort_unstable();
        assert!(tokens.into_iter().eq(0..OPS as u64), "each op has completed once");
        assert_eq!(buffer, [b'x'; OPS]);
    });
}

#[test]
fn a_thread_without_a_worker_waits_for_its_op() {
    let mut driver = Thread::default();
    let (ours, mut theirs) = pair();
    let fd = named(&ours);
    let mut buffer = [0; 8];
    let op = recv(fd, &mut buffer);
    submit(&mut driver, &op, 1);
    let mut completions = Vec::new();
    driver.poll(PollTimeout::Poll, &mut completions).unwrap();
    driver.poll(PollTimeout::For(Duration::from_millis(1)), &mut completions).unwrap();
    assert_eq!((completions.len(), driver.in_flight()), (0, 1));
    theirs.write_all(b"hello").unwrap();
    assert_eq!(collect(&mut driver, 1)[0], Completion { token: Token::new(1), result: 5 });
    submit(&mut driver, &op, 2);
    cancel(&mut driver, 1);
    assert_eq!(driver.in_flight(), 1);
    cancel(&mut driver, 2);
    assert_eq!(collect(&mut driver, 1)[0].result, Completion::CANCELLED);
    let call = FileCall::Sync { data_only: false };
    let op = FileOp { fd, call, offset: CURSOR, backing: Backing::Device, at_once: 0 };
    assert!(matches!(start(&mut driver, &Op::File(op), 3, false), StartedOp::Blocking));
    assert_eq!(driver.in_flight(), 0);
}

/// Polls a while for an op that has to wait, and returns how often it was attempted.
fn attempts_in_vain(driver: &mut AnyDriver) -> usize {
    let before = attempt::ATTEMPTS.get();
    let mut completions = Vec::new();
    for _ in 0..20 {
        driver.poll(PollTimeout::For(Duration::from_micros(200)), &mut completions).unwrap();
    }
    assert_eq!(completions, []);
    attempt::ATTEMPTS.get() - before
}

/// Waits for room and for readiness, in vain and then with success.
fn waits_for_room_without_a_loop(driver: &mut AnyDriver, ours: &impl AsRawFd, theirs: OwnedFd) {
    let bytes = vec![7_u8; 1 << 16];
    let fd = named(ours);
    let send = Op::Send { fd, buf: bytes.as_ptr(), len: 1 << 16, flags: libc::MSG_NOSIGNAL };
    let room = Op::Readiness { fd, interest: Interest::Write };
    while attempt(&send).is_ok() {}
    for (op, token) in [(&send, 1), (&room, 2)] {
        submit(driver, op, token);
        let attempts = attempts_in_vain(driver);
        assert!(attempts < 10, "{attempts} attempts of {op:?} in 20 polls of {driver:?}");
        cancel(driver, token);
        assert_eq!(collect(driver, 1)[0].result, Completion::CANCELLED);
    }
    submit(driver, &send, 3);
    submit(driver, &room, 4);
    assert!(attempts_in_vain(driver) < 20, "{driver:?}");
    let theirs = std::fs::File::from(theirs);
    let reader = thread::spawn(move || {
        let mut buffer = vec![0; 1 << 16];
        while (&theirs).read(&mut buffer).is_ok_and(|count| count > 0) {}
    });
    let mut tokens = collect(driver, 2).iter().map(|done| done.token.value()).collect::<Vec<_>>();
    tokens.sort_unstable();
    assert_eq!(tokens, [3, 4]);
    rustix::net::shutdown(rustix_fd(ours), rustix::net::Shutdown::Both).unwrap();
    reader.join().unwrap();
}

fn rustix_fd(fd: &impl AsRawFd) -> std::os::fd::BorrowedFd<'_> {
    // SAFETY: the reference keeps the fd open.
    unsafe { std::os::fd::BorrowedFd::borrow_raw(fd.as_raw_fd()) }
}

fn tcp_pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    ours.set_nonblocking(true).unwrap();
    (ours, listener.accept().unwrap().0)
}

#[test]
fn a_send_to_a_peer_that_has_shut_its_writing_side_sleeps() {
    on_each(|driver| {
        let (ours, theirs) = pair();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        waits_for_room_without_a_loop(driver, &ours, theirs.into());
        let (ours, theirs) = tcp_pair();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        waits_for_room_without_a_loop(driver, &ours, theirs.into());
    });
}

#[test]
fn a_send_after_the_own_end_of_reading_sleeps() {
    on_each(|driver| {
        let (ours, theirs) = tcp_pair();
        ours.shutdown(std::net::Shutdown::Read).unwrap();
        waits_for_room_without_a_loop(driver, &ours, theirs.into());
    });
}

#[test]
fn a_send_on_a_socket_with_an_entry_in_its_error_queue_sleeps() {
    on_each(|driver| {
        let (ours, theirs) = tcp_pair();
        // SOF_TIMESTAMPING_TX_SOFTWARE and SOF_TIMESTAMPING_SOFTWARE.
        let (stamps, size) = (1 << 1 | 1 << 4_i32, size_of::<i32>() as libc::socklen_t);
        let (level, option) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPING);
        let value = (&raw const stamps).cast();
        // SAFETY: the value is an integer, which is valid for the call.
        let set = unsafe { libc::setsockopt(ours.as_raw_fd(), level, option, value, size) };
        assert_eq!(set, 0);
        (&ours).write_all(b"x").unwrap();
        let end = Instant::now() + GUARD;
        while stream::is_ready(ours.as_raw_fd(), Interest::Read).is_err() {
            assert!(Instant::now() < end, "no entry has come");
            thread::yield_now();
        }
        waits_for_room_without_a_loop(driver, &ours, theirs.into());
    });
}
