//! The driver against real sockets, in every mode that a ring can be opened in.

use super::*;
use crate::driver::op::Interest;
use crate::driver::op::clamp_length;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Instant;

/// Longer than any test takes; a test that runs into it fails instead of hanging.
const GUARD: Duration = Duration::from_secs(20);

const MODES: [Mode; 3] = [Mode::Deferred, Mode::Cooperative, Mode::Plain];

/// Runs a test in each mode, on a driver that is certain to be an io_uring in that mode.
fn in_each_mode(entries: u32, mut test: impl FnMut(&mut Uring)) {
    for mode in MODES {
        let mut driver = Uring::open_with(entries, mode, None)
            .expect("the tests need a kernel that allows io_uring");
        assert_eq!(driver.mode, mode);
        let link =
            std::fs::read_link(format!("/proc/self/fd/{}", driver.ring.as_raw_fd())).unwrap();
        assert_eq!(link.to_str(), Some("anon_inode:[io_uring]"));
        test(&mut driver);
        assert_eq!(driver.in_flight(), 0, "the test has left ops in flight");
    }
}

fn pair() -> (UnixStream, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    (ours, theirs)
}

fn recv(stream: &impl AsRawFd, buffer: &mut [u8]) -> Op {
    Op::Recv {
        fd: stream.as_raw_fd(),
        buf: buffer.as_mut_ptr(),
        len: clamp_length(buffer.len()),
        flags: 0,
        drained: false,
    }
}

fn submit(driver: &mut Uring, op: &Op, token: u64) {
    // SAFETY: S3: every test keeps its buffers and sockets until `collect` or the driver's drop has seen the completion.
    unsafe { driver.submit(op, Token::new(token)) };
}

/// Polls until so many completions have come.
fn collect(driver: &mut Uring, count: usize) -> Vec<Completion> {
    let end = Instant::now() + GUARD;
    let mut completions = Vec::new();
    while completions.len() < count {
        assert!(
            Instant::now() < end,
            "only {} of {count} completions came: {driver:?}",
            completions.len()
        );
        driver.poll(Wait::For(GUARD), &mut completions).unwrap();
    }
    assert_eq!(completions.len(), count);
    completions
}

fn collect_one(driver: &mut Uring, token: u64) -> i32 {
    let completion = collect(driver, 1)[0];
    assert_eq!(completion.token, Token::new(token));
    assert!(!completion.more);
    completion.result
}

/// A wait that must be ended by a wake.
fn expect_wake(driver: &mut Uring) {
    let start = Instant::now();
    driver.poll(Wait::For(GUARD), &mut Vec::new()).unwrap();
    assert!(start.elapsed() < GUARD, "the wake was lost");
}

/// What a worker does: try, submit, try again when told to.
fn carry_out(driver: &mut Uring, op: &Op) -> io::Result<u32> {
    loop {
        // SAFETY: S3: see `submit`.
        match unsafe { op.attempt() } {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            outcome => return outcome,
        }
        submit(driver, op, 7);
        match collect(driver, 1)[0].into_result() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            outcome => return outcome,
        }
    }
}

#[test]
fn a_recv_completes_when_the_peer_writes() {
    in_each_mode(8, |driver| {
        let (ours, mut theirs) = pair();
        let mut buffer = [0; 8];
        submit(driver, &recv(&ours, &mut buffer), 42);
        assert_eq!(driver.in_flight(), 1);
        let mut completions = Vec::new();
        driver.poll(Wait::Poll, &mut completions).unwrap();
        assert_eq!(completions, []);
        theirs.write_all(b"hello").unwrap();
        assert_eq!(collect_one(driver, 42), 5);
        assert_eq!(&buffer, b"hello\0\0\0");
    });
}

#[test]
fn a_recv_of_what_is_there_already_completes_and_so_does_the_end_of_the_stream() {
    in_each_mode(8, |driver| {
        let (ours, mut theirs) = pair();
        theirs.write_all(b"ab").unwrap();
        drop(theirs);
        let mut buffer = [0; 8];
        submit(driver, &recv(&ours, &mut buffer), 0);
        assert_eq!(collect_one(driver, 0), 2);
        submit(driver, &recv(&ours, &mut buffer), Token::new(u64::MAX >> 1).value());
        assert_eq!(collect_one(driver, u64::MAX >> 1), 0);
    });
}

#[test]
fn connect_accept_and_vectored_transfers_work_through_the_ring() {
    in_each_mode(8, |driver| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        // SAFETY: zeroes are valid for an address.
        let mut address: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let mut length = 0;
        let accept = Op::Accept {
            fd: listener.as_raw_fd(),
            address: &raw mut address,
            length: &raw mut length,
        };
        submit(driver, &accept, 1);
        let mut completions = Vec::new();
        driver.poll(Wait::Poll, &mut completions).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let fd = collect_one(driver, 1);
        assert!(fd >= 0);
        // SAFETY: the completion of an accept is a new fd, ours alone.
        let server = TcpStream::from(unsafe { OwnedFd::from_raw_fd(fd) });
        assert_eq!(server.peer_addr().unwrap(), client.local_addr().unwrap());
        assert_eq!((i32::from(address.ss_family), length), (libc::AF_INET, 16));
        let flags = rustix::fs::fcntl_getfl(&server).unwrap();
        assert!(flags.contains(rustix::fs::OFlags::NONBLOCK));
        assert!(rustix::io::fcntl_getfd(&server).unwrap().contains(rustix::io::FdFlags::CLOEXEC));

        let (mut first, mut second) = ([0; 2], [0; 3]);
        let mut parts = [first.as_mut_ptr(), second.as_mut_ptr()]
            .into_iter()
            .zip([2, 3])
            .map(|(base, len)| libc::iovec { iov_base: base.cast(), iov_len: len })
            .collect::<Vec<_>>();
        // SAFETY: zeroes are valid for a message header.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        (message.msg_iov, message.msg_iovlen) = (parts.as_mut_ptr(), parts.len());
        submit(
            driver,
            &Op::RecvMsg { fd: server.as_raw_fd(), message: &raw mut message, flags: 0 },
            2,
        );
        client.write_all(b"abcde").unwrap();
        assert_eq!(collect_one(driver, 2), 5);
        assert_eq!((&first, &second), (b"ab", b"cde"));

        let send = Op::SendMsg {
            fd: server.as_raw_fd(),
            message: &raw const message,
            flags: libc::MSG_NOSIGNAL,
        };
        submit(driver, &send, 3);
        assert_eq!(collect_one(driver, 3), 5);
        let bytes = *b"fg";
        let send = Op::Send {
            fd: server.as_raw_fd(),
            buf: bytes.as_ptr(),
            len: 2,
            flags: libc::MSG_NOSIGNAL,
        };
        submit(driver, &send, 4);
        assert_eq!(collect_one(driver, 4), 2);
        let mut all = [0; 7];
        client.read_exact(&mut all).unwrap();
        assert_eq!(&all, b"abcdefg");
    });
}

/// A socket to connect to the listener, and the listener's address.
fn unconnected(listener: &TcpListener) -> (OwnedFd, libc::sockaddr_storage) {
    let flags = rustix::net::SocketFlags::NONBLOCK;
    let (family, kind) = (rustix::net::AddressFamily::INET, rustix::net::SocketType::STREAM);
    let socket = rustix::net::socket_with(family, kind, flags, None).unwrap();
    // SAFETY: zeroes are valid for an address.
    let mut address: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let v4 = libc::sockaddr_in {
        sin_family: 2,
        sin_port: listener.local_addr().unwrap().port().to_be(),
        sin_addr: libc::in_addr { s_addr: u32::from_ne_bytes([127, 0, 0, 1]) },
        sin_zero: [0; 8],
    };
    // SAFETY: the storage is larger than any address and aligned for each.
    unsafe { (&raw mut address).cast::<libc::sockaddr_in>().write(v4) };
    (socket, address)
}

#[test]
fn a_connect_without_an_answer_stays_in_flight_until_it_is_cancelled() {
    in_each_mode(8, |driver| {
        // A listener whose queue is full leaves further attempts unanswered.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let _fills_the_queue = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, address) = unconnected(&listener);
        let op = Op::Connect { fd: socket.as_raw_fd(), address: &raw const address, length: 16 };
        // SAFETY: the address is valid.
        assert_eq!(unsafe { op.attempt() }.unwrap_err().kind(), io::ErrorKind::WouldBlock);
        submit(driver, &op, 1);
        let mut completions = Vec::new();
        driver.poll(Wait::For(Duration::from_millis(1)), &mut completions).unwrap();
        assert_eq!(completions, []);
        driver.cancel(Token::new(1));
        assert_eq!(collect_one(driver, 1), Completion::CANCELLED);
        assert!(driver.retrying.is_empty());
    });
}

#[test]
fn what_waits_in_the_backlog_is_not_overtaken() {
    in_each_mode(8, |driver| {
        let (ours, _theirs) = pair();
        let mut buffer = [0; 8];
        // As if the kernel had refused to take it.
        // SAFETY: S3: see `submit`.
        let entry = unsafe { entry::of(&recv(&ours, &mut buffer), false) }.user_data(5);
        driver.in_flight += 1;
        driver.backlog.push_back(entry);
        driver.cancel(Token::new(5));
        assert_eq!(collect_one(driver, 5), Completion::CANCELLED, "the cancel came behind its op");
    });
}

#[test]
fn a_connect_that_has_begun_is_told_to_try_again_and_then_succeeds() {
    in_each_mode(8, |driver| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (socket, address) = unconnected(&listener);
        let op = Op::Connect { fd: socket.as_raw_fd(), address: &raw const address, length: 16 };
        // SAFETY: the address is valid.
        let error = unsafe { op.attempt() }.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
        submit(driver, &op, 1);
        assert_eq!(collect_one(driver, 1), Completion::RETRY);
        // SAFETY: the address is valid.
        assert_eq!(unsafe { op.attempt() }.unwrap(), 0);
        assert!(driver.retrying.is_empty());
        drop(listener);
    });
}

#[test]
fn readiness_completes_with_the_events() {
    in_each_mode(8, |driver| {
        let (ours, mut theirs) = pair();
        let readable = Op::Readiness { fd: ours.as_raw_fd(), interest: Interest::Read };
        submit(driver, &readable, 1);
        theirs.write_all(b"x").unwrap();
        assert_eq!(collect_one(driver, 1) & i32::from(libc::POLLIN), i32::from(libc::POLLIN));
        let writable = Op::Readiness { fd: ours.as_raw_fd(), interest: Interest::Write };
        assert_eq!(carry_out(driver, &writable).unwrap(), u32::try_from(libc::POLLOUT).unwrap());
    });
}

#[test]
fn what_the_kernel_refuses_completes_with_the_refusal() {
    in_each_mode(8, |driver| {
        let mut buffer = [0; 8];
        let op = Op::Recv { fd: -1, buf: buffer.as_mut_ptr(), len: 8, flags: 0, drained: false };
        submit(driver, &op, 9);
        assert_eq!(collect_one(driver, 9), -libc::EBADF);
    });
}

#[test]
fn polling_without_waiting_makes_no_system_call_when_there_is_nothing_to_fetch() {
    for mode in [Mode::Deferred, Mode::Cooperative] {
        let mut driver = Uring::open_with(8, mode, None).unwrap();
        let mut completions = Vec::new();
        driver.poll(Wait::Poll, &mut completions).unwrap();
        assert_eq!(driver.enters, 0, "nothing in flight");

        let (ours, mut theirs) = pair();
        let mut buffer = [0; 8];
        submit(&mut driver, &recv(&ours, &mut buffer), 1);
        driver.poll(Wait::Poll, &mut completions).unwrap();
        assert_eq!(driver.enters, 1, "submits");
        for _ in 0..100 {
            driver.poll(Wait::Poll, &mut completions).unwrap();
        }
        assert_eq!(driver.enters, 1, "nothing has happened to the op in flight");
        theirs.write_all(b"x").unwrap();
        let end = Instant::now() + GUARD;
        while completions.is_empty() {
            assert!(Instant::now() < end, "the completion is never fetched");
            driver.poll(Wait::Poll, &mut completions).unwrap();
        }
        assert!(driver.enters <= 2, "one call fetches the completion");
    }
}

#[test]
fn submit_wait_and_reap_are_one_system_call() {
    in_each_mode(8, |driver| {
        let (ours, mut theirs) = pair();
        theirs.write_all(b"x").unwrap();
        let mut buffer = [0; 8];
        submit(driver, &recv(&ours, &mut buffer), 1);
        let mut completions = Vec::new();
        driver.poll(Wait::Forever, &mut completions).unwrap();
        assert_eq!((completions.len(), driver.enters), (1, 1));
    });
}

#[test]
fn a_wait_is_never_shorter_than_asked() {
    in_each_mode(8, |driver| {
        let (ours, _theirs) = pair();
        let mut buffer = [0; 8];
        submit(driver, &recv(&ours, &mut buffer), 1);
        let mut completions = Vec::new();
        for micros in [0, 1, 999, 3_000, 7_777] {
            let limit = Duration::from_micros(micros);
            let start = Instant::now();
            driver.poll(Wait::For(limit), &mut completions).unwrap();
            assert!(start.elapsed() >= limit, "{:?} instead of {limit:?}", start.elapsed());
            assert_eq!(completions, []);
        }
        driver.cancel(Token::new(1));
        assert_eq!(collect_one(driver, 1), Completion::CANCELLED);
    });
}

#[test]
fn a_wait_longer_than_the_kernel_can_count_is_only_long() {
    in_each_mode(8, |driver| {
        // A watch that is lost would make this hang, which is what the harness's own limit is for.
        driver.waker().wake();
        driver.poll(Wait::For(Duration::MAX), &mut Vec::new()).unwrap();
    });
}

#[test]
fn a_wake_that_came_before_ends_the_next_wait() {
    in_each_mode(8, |driver| {
        let waker = driver.waker();
        for _ in 0..3 {
            waker.wake();
            waker.wake();
            driver.poll(Wait::Poll, &mut Vec::new()).unwrap();
            expect_wake(driver);
        }
    });
}

#[test]
fn no_wake_of_another_thread_is_lost_and_one_watch_serves_them_all() {
    const WAKES: u64 = 2_000;
    in_each_mode(8, |driver| {
        let (news, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let waker = driver.waker();
        let other = thread::spawn({
            let (news, seen) = (Arc::clone(&news), Arc::clone(&seen));
            move || {
                for number in 1..=WAKES {
                    news.store(number, Ordering::Relaxed);
                    waker.wake();
                    // Sometimes wait for the other side, so that wakes meet a driver in each of its states.
                    while !number.is_multiple_of(3) && seen.load(Ordering::Relaxed) < number {
                        thread::yield_now();
                    }
                }
            }
        });
        let end = Instant::now() + GUARD;
        while seen.load(Ordering::Relaxed) < WAKES {
            driver.poll(Wait::For(GUARD), &mut Vec::new()).unwrap();
            assert!(Instant::now() < end, "a wake was lost after {seen:?}");
            seen.store(news.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        other.join().unwrap();
        assert_eq!(driver.watches, 1, "the watch fires again and again, and says so by F_MORE");
    });
}

#[test]
fn a_watch_that_ends_is_armed_anew() {
    in_each_mode(8, |driver| {
        let waker = driver.waker();
        waker.wake();
        expect_wake(driver);
        // Its last completion carries no F_MORE.
        driver.queue(opcode::AsyncCancel::new(WATCH).build().user_data(CANCEL));
        let end = Instant::now() + GUARD;
        while driver.watching {
            assert!(Instant::now() < end, "the end of the watch went unnoticed");
            driver.poll(Wait::For(GUARD), &mut Vec::new()).unwrap();
        }
        waker.wake();
        expect_wake(driver);
        assert_eq!(driver.watches, 2);
    });
}

#[test]
fn a_thousand_ops_go_through_a_ring_of_eight() {
    const OPS: usize = 1_000;
    in_each_mode(8, |driver| {
        let (ours, mut theirs) = pair();
        let mut buffer = vec![0; OPS];
        for (token, byte) in buffer.chunks_mut(1).enumerate() {
            submit(driver, &recv(&ours, byte), token as u64);
        }
        assert_eq!(driver.in_flight(), OPS);
        driver.poll(Wait::Poll, &mut Vec::new()).unwrap();
        assert!(
            driver.backlog.is_empty() && driver.queued() == 0,
            "all are with the kernel: {driver:?}"
        );
        theirs.write_all(&[b'x'; OPS]).unwrap();
        let mut tokens = collect(driver, OPS)
            .iter()
            .map(|completion| {
                assert_eq!(completion.result, 1);
                completion.token.value()
            })
            .collect::<Vec<_>>();
        tokens.sort_unstable();
        assert!(tokens.into_iter().eq(0..OPS as u64), "each op has completed once");
        assert!(buffer.iter().all(|byte| *byte == b'x'));
        assert_eq!(driver.in_flight(), 0);
    });
}

#[test]
fn completions_that_overflow_are_fetched_in_the_same_poll() {
    const OPS: usize = 1_000;
    // Without deferral the kernel posts completions while nobody fetches them, so that they overflow a queue of 64.
    let mut driver = Uring::open_with(8, Mode::Plain, None).unwrap();
    let mut buffer = vec![0; OPS];
    let (ours, mut theirs) = pair();
    theirs.write_all(&[b'x'; OPS]).unwrap();
    for (token, byte) in buffer.chunks_mut(1).enumerate() {
        submit(&mut driver, &recv(&ours, byte), token as u64);
    }
    let mut completions = Vec::new();
    driver.poll(Wait::Forever, &mut completions).unwrap();
    let end = Instant::now() + GUARD;
    while completions.len() < OPS && Instant::now() < end {
        driver.poll(Wait::For(GUARD), &mut completions).unwrap();
    }
    assert_eq!(completions.len(), OPS);
    assert!(driver.overflows > 0, "the queue has overflown, or this test tests nothing");
    assert!(completions.iter().all(|completion| completion.result == 1));
}

#[test]
fn a_cancel_behind_a_full_queue_still_finds_its_op() {
    const OPS: u64 = 200;
    in_each_mode(8, |driver| {
        let (ours, _theirs) = pair();
        let mut buffer = [0; 8];
        for token in 0..OPS {
            submit(driver, &recv(&ours, &mut buffer), token);
            driver.cancel(Token::new(token));
        }
        let completions = collect(driver, OPS as usize);
        assert!(completions.iter().all(|completion| completion.result == Completion::CANCELLED));
        assert_eq!(driver.in_flight(), 0);
    });
}

#[test]
fn cancelling_what_has_ended_does_nothing() {
    in_each_mode(8, |driver| {
        let (ours, mut theirs) = pair();
        let mut buffer = [0; 8];
        theirs.write_all(b"x").unwrap();
        submit(driver, &recv(&ours, &mut buffer), 1);
        assert_eq!(collect_one(driver, 1), 1);
        driver.cancel(Token::new(1));
        driver.cancel(Token::new(77));
        submit(driver, &recv(&ours, &mut buffer), 2);
        theirs.write_all(b"y").unwrap();
        assert_eq!(collect_one(driver, 2), 1);
    });
}

#[test]
fn dropping_a_driver_ends_the_ops_in_flight_before_their_memory_is_given_back() {
    for mode in MODES {
        let (ours, mut theirs) = pair();
        let mut buffers = vec![[0_u8; 8]; 100];
        let mut driver = Uring::open_with(8, mode, None).unwrap();
        for (token, buffer) in buffers.iter_mut().enumerate() {
            submit(&mut driver, &recv(&ours, buffer), token as u64);
        }
        driver.drain().unwrap();
        assert_eq!(
            driver.in_flight(),
            0,
            "the drop, which does no more than this, leaves nothing in flight"
        );
        drop(driver);
        theirs.write_all(b"too late").unwrap();
        assert!(buffers.iter().all(|buffer| *buffer == [0; 8]));
        let mut rest = [0; 8];
        (&ours).read_exact(&mut rest).unwrap();
        assert_eq!(&rest, b"too late");
    }
}

/// Cancels reads at random moments while a peer writes a known sequence.
fn attack(mode: Mode, rounds: u64, seed: u64) {
    const UNTOUCHED: u8 = 0xEE;
    let mut random = fastrand::Rng::with_seed(seed);
    let mut driver = Uring::open_with(16, mode, None).unwrap();
    let (ours, mut theirs) = pair();
    let stop = Arc::new(AtomicBool::new(false));
    let peer = thread::spawn({
        let (stop, mut random) = (Arc::clone(&stop), random.fork());
        move || {
            let mut next = 0_u8;
            let mut sent = 0_u64;
            while !stop.load(Ordering::Relaxed) {
                let chunk = (0..random.u8(1..6))
                    .map(|offset| next.wrapping_add(offset))
                    .collect::<Vec<_>>();
                next = next.wrapping_add(chunk.len() as u8);
                theirs.write_all(&chunk).unwrap();
                sent += chunk.len() as u64;
                for _ in 0..random.u32(0..3_000) {
                    std::hint::spin_loop();
                }
            }
            sent
        }
    });
    let mut kept = Vec::new();
    let (mut received, mut cancelled, mut succeeded) = (0_u64, 0, 0);
    let end = Instant::now() + GUARD;
    let mut round = 0;
    // On a busy machine the peer may sleep through all the rounds, or this thread through all the writes: then some more.
    while round < rounds || cancelled < 20 || succeeded < 20 {
        round += 1;
        if round > rounds {
            assert!(Instant::now() < end, "both outcomes must be met: {cancelled} and {succeeded}");
            thread::yield_now();
        }
        let mut buffer = Box::new([UNTOUCHED; 4]);
        submit(&mut driver, &recv(&ours, &mut buffer[..]), round);
        let mut completions = Vec::new();
        if random.bool() {
            driver.poll(Wait::Poll, &mut completions).unwrap();
        }
        for _ in 0..random.u32(0..2_000) {
            std::hint::spin_loop();
        }
        driver.cancel(Token::new(round));
        if completions.is_empty() {
            completions = collect(&mut driver, 1);
        }
        assert_eq!((completions.len(), completions[0].token), (1, Token::new(round)));
        let count = match completions[0].result {
            Completion::CANCELLED => {
                cancelled += 1;
                0
            }
            result => {
                succeeded += 1;
                usize::try_from(result)
                    .unwrap_or_else(|_| panic!("round {round} ended with {result}"))
            }
        };
        for byte in &mut buffer[..count] {
            assert_eq!(*byte, (received % 256) as u8, "round {round} of seed {seed}");
            received += 1;
            *byte = UNTOUCHED;
        }
        kept.push(buffer);
    }
    stop.store(true, Ordering::Relaxed);
    // Drain, so that the peer is not stuck in a write, until it has hung up.
    let mut byte = [0];
    while carry_out(&mut driver, &recv(&ours, &mut byte)).unwrap() == 1 {
        assert_eq!(byte[0], (received % 256) as u8);
        received += 1;
    }
    assert_eq!(received, peer.join().unwrap(), "no byte is lost");
    assert!(
        kept.iter().all(|buffer| **buffer == [UNTOUCHED; 4]),
        "no byte is written after the completion"
    );
}

#[test]
fn cancelling_reads_at_random_moments_loses_no_byte_and_writes_none_late() {
    attack(Mode::Deferred, 2_000, 1);
    attack(Mode::Cooperative, 500, 2);
    attack(Mode::Plain, 500, 3);
}

#[test]
fn a_signal_ends_a_wait_early_and_is_no_error() {
    extern "C" fn ignore(_: i32) {}
    // SAFETY: zeroes are a valid action: no flags, SA_RESTART least of all, and an empty mask.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = ignore as extern "C" fn(i32) as usize;
    // SAFETY: the handler does nothing.
    let installed =
        unsafe { libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()) };
    assert_eq!(installed, 0);
    in_each_mode(8, |driver| {
        // Arms the watch, so that the next enter submits nothing and has only the signal to report.
        driver.poll(Wait::For(Duration::from_micros(1)), &mut Vec::new()).unwrap();
        // SAFETY: no precondition.
        let this = unsafe { libc::pthread_self() };
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    // SAFETY: the thread waits for this one before it ends.
                    unsafe { libc::pthread_kill(this, libc::SIGUSR2) };
                    thread::yield_now();
                }
            });
            let start = Instant::now();
            let mut completions = Vec::new();
            let outcome = driver.poll(Wait::For(GUARD), &mut completions);
            done.store(true, Ordering::Relaxed);
            outcome.unwrap();
            assert!(start.elapsed() < GUARD && completions.is_empty());
        });
    });
}

#[test]
fn the_ring_is_not_inherited() {
    in_each_mode(8, |driver| {
        // SAFETY: the driver keeps its ring open.
        let ring = unsafe { std::os::fd::BorrowedFd::borrow_raw(driver.ring.as_raw_fd()) };
        assert!(rustix::io::fcntl_getfd(ring).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
        let inherited = || {
            let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
            let flags = maps
                .split("VmFlags:")
                .zip(maps.split("VmFlags:").skip(1))
                .filter(|(head, _)| {
                    head.lines().any(|line| line.ends_with("anon_inode:[io_uring]"))
                })
                .map(|(_, flags)| flags.lines().next().unwrap_or_default().contains(" dc"))
                .collect::<Vec<_>>();
            assert!(flags.len() >= 2, "the queues and the entries: {flags:?}");
            flags.contains(&false)
        };
        // Another test's ring may be between its mmap and its madvise.
        let end = Instant::now() + GUARD / 10;
        while inherited() {
            assert!(Instant::now() < end, "a mapping of a ring would be copied by fork");
            thread::yield_now();
        }
    });
}

/// Makes the kernel refuse io_uring to the calling thread, and to nobody else, for as long as the thread lives.
fn forbid_io_uring(errno: i32) {
    const RETURN_ERRNO: u32 = 0x0005_0000;
    const RETURN_ALLOW: u32 = 0x7fff_0000;
    let setup = u32::try_from(libc::SYS_io_uring_setup).unwrap();
    let refusal = RETURN_ERRNO | errno.cast_unsigned();
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let jump_if_equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let give = libc::BPF_RET | libc::BPF_K;
    let step = |code: u32, jf: u8, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf, k };
    let mut filter = [
        step(load, 0, 0),
        step(jump_if_equal, 1, setup),
        step(give, 0, refusal),
        step(give, 0, RETURN_ALLOW),
    ];
    let program = libc::sock_fprog { len: 4, filter: filter.as_mut_ptr() };
    // SAFETY: plain integers.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }, 0);
    // SAFETY: the program is valid and is copied by the call.
    let outcome =
        unsafe { libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) };
    assert_eq!(outcome, 0, "{}", io::Error::last_os_error());
}

#[test]
fn where_the_kernel_refuses_io_uring_the_error_says_what_to_do() {
    for (errno, kind, hint) in [
        (libc::EPERM, io::ErrorKind::PermissionDenied, "kernel.io_uring_disabled"),
        (libc::ENOSYS, io::ErrorKind::Unsupported, "built without io_uring"),
    ] {
        let refused = thread::spawn(move || {
            forbid_io_uring(errno);
            (
                Uring::open(None).unwrap_err(),
                crate::driver::probe(crate::DriverKind::Auto).unwrap_err(),
            )
        });
        let (opening, probing) = refused.join().unwrap();
        for error in [opening, probing] {
            assert_eq!(error.kind(), kind, "{error}");
            assert!(error.to_string().contains(hint), "{error}");
            assert!(error.to_string().contains("seccomp"), "{error}");
            assert!(
                error
                    .to_string()
                    .contains("allows io_uring_setup, io_uring_enter and io_uring_register"),
                "{error}"
            );
        }
    }
}
