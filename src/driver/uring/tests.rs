//! Tests of the driver with real sockets, in every mode that a ring can be opened in.

use super::*;
use crate::driver::descriptor::Descriptor;
use crate::driver::tests::{
    GUARD, attempt, cancel, collect, expect_wake, leak, named, pair, receive_wakes, recv, submit,
};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::thread;
use std::time::Instant;

const MODES: [Mode; 3] = [Mode::Deferred, Mode::Cooperative, Mode::Plain];

/// Opens rings of eight entries, one in each mode. Each is certain to be an io_uring in that mode.
pub(in crate::driver) fn small_rings() -> impl Iterator<Item = Uring> {
    MODES.into_iter().map(|mode| {
        let driver =
            Uring::open_with(8, mode, None).expect("the tests need a kernel that allows io_uring");
        assert_eq!(driver.mode, mode);
        let link =
            std::fs::read_link(format!("/proc/self/fd/{}", driver.ring.as_raw_fd())).unwrap();
        assert_eq!(link.to_str(), Some("anon_inode:[io_uring]"));
        driver
    })
}

fn in_each_mode(mut test: impl FnMut(&mut Uring)) {
    for mut driver in small_rings() {
        test(&mut driver);
        assert_eq!(driver.in_flight(), 0, "the test has left ops in flight");
    }
}

fn collect_one(driver: &mut Uring, token: u64) -> i32 {
    let completion = collect(driver, 1)[0];
    assert_eq!(completion.token, Token::new(token));
    completion.result
}

#[test]
fn a_recv_of_what_is_there_already_completes_and_so_does_the_end_of_the_stream() {
    in_each_mode(|driver| {
        let (ours, mut theirs) = pair();
        theirs.write_all(b"ab").unwrap();
        drop(theirs);
        let mut buffer = [0; 8];
        submit(driver, &recv(named(&ours), &mut buffer), 0);
        assert_eq!(collect_one(driver, 0), 2);
        submit(driver, &recv(named(&ours), &mut buffer), u64::MAX >> 1);
        assert_eq!(collect_one(driver, u64::MAX >> 1), 0);
    });
}

#[test]
fn a_cancel_that_comes_while_the_kernel_has_put_its_op_aside_is_not_lost() {
    in_each_mode(|driver| {
        let (ours, mut theirs) = pair();
        let name = named(&ours);
        let mut buffers = [[0; 2]; 2];
        for (token, buffer) in (0..).zip(&mut buffers) {
            submit(driver, &recv(name, buffer), token);
        }
        // Both find the socket ready, and only one of them finds bytes.
        theirs.write_all(b"ab").unwrap();
        cancel(driver, 0);
        cancel(driver, 1);
        let mut results = collect(driver, 2).iter().map(|done| done.result).collect::<Vec<_>>();
        results.sort_unstable();
        let either = [[Completion::CANCELLED, 2], [Completion::CANCELLED; 2]];
        assert!(either.iter().any(|one| *one == *results), "{results:?}");
    });
}

#[test]
fn connect_accept_and_vectored_transfers_work_through_the_ring() {
    in_each_mode(|driver| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        // SAFETY: zeroes are valid for an address.
        let mut address: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        let mut length = 0;
        let accept = Op::Accept {
            fd: named(&listener),
            address: &raw mut address,
            length: &raw mut length,
            shared: false,
        };
        submit(driver, &accept, 1);
        let mut completions = Vec::new();
        driver.poll(PollTimeout::Poll, &mut completions).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let fd = collect_one(driver, 1);
        assert!(fd >= 0);
        // SAFETY: the result of an accept is a new fd, which belongs to this test alone.
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
        submit(driver, &Op::RecvMsg { fd: named(&server), message: &raw mut message, flags: 0 }, 2);
        client.write_all(b"abcde").unwrap();
        assert_eq!(collect_one(driver, 2), 5);
        assert_eq!((&first, &second), (b"ab", b"cde"));

        let send = Op::SendMsg {
            fd: named(&server),
            message: &raw const message,
            flags: libc::MSG_NOSIGNAL,
        };
        submit(driver, &send, 3);
        assert_eq!(collect_one(driver, 3), 5);
        let bytes = *b"fg";
        let send =
            Op::Send { fd: named(&server), buf: bytes.as_ptr(), len: 2, flags: libc::MSG_NOSIGNAL };
        submit(driver, &send, 4);
        assert_eq!(collect_one(driver, 4), 2);
        let mut all = [0; 7];
        client.read_exact(&mut all).unwrap();
        assert_eq!(&all, b"abcdefg");
    });
}

/// Returns a socket to connect to the listener, and the listener's address.
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
    in_each_mode(|driver| {
        // Further connection attempts to a listener with a full queue get no answer.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let _fills_the_queue = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (socket, address) = unconnected(&listener);
        let op = Op::Connect { fd: named(&socket), address: &raw const address, length: 16 };
        assert_eq!(attempt(&op).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        submit(driver, &op, 1);
        let mut completions = Vec::new();
        driver.poll(PollTimeout::For(Duration::from_millis(1)), &mut completions).unwrap();
        assert_eq!(completions, []);
        cancel(driver, 1);
        assert_eq!(collect_one(driver, 1), Completion::CANCELLED);
    });
}

#[test]
fn what_waits_in_the_backlog_is_not_overtaken() {
    in_each_mode(|driver| {
        let (ours, _theirs) = pair();
        let mut buffer = [0; 8];
        let fd = Descriptor::of(&ours);
        let flight = leak(&recv(&fd, &mut buffer), true);
        flight.keep(Token::new(5));
        // Acts as if the kernel had refused the entry.
        let address = ptr::from_ref(flight).expose_provenance() as u64;
        let entry = entry::of(flight, false).user_data(address);
        driver.in_flight += 1;
        driver.backlog.push_back(entry);
        driver.cancel(flight);
        assert_eq!(collect_one(driver, 5), Completion::CANCELLED, "the cancel came behind its op");
    });
}

#[test]
fn a_connect_that_has_begun_is_attempted_again_and_then_succeeds() {
    in_each_mode(|driver| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (socket, address) = unconnected(&listener);
        let op = Op::Connect { fd: named(&socket), address: &raw const address, length: 16 };
        assert_eq!(attempt(&op).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        submit(driver, &op, 1);
        assert_eq!(collect_one(driver, 1), 0);
        drop(listener);
    });
}

/// The kernel has reported readiness, so it has nothing left to cancel. And the op cannot be
/// carried out, because something else has used the room up.
#[test]
fn a_cancel_between_the_readiness_of_an_op_and_its_attempt_is_not_lost() {
    in_each_mode(|driver| {
        let (ours, mut theirs) = pair();
        let bytes = [7; 1 << 14];
        let (buf, flags) = (bytes.as_ptr(), libc::MSG_NOSIGNAL);
        let send = Op::Send { fd: named(&ours), buf, len: 1 << 14, flags };
        while attempt(&send).is_ok() {}
        submit(driver, &send, 1);
        let mut completions = Vec::new();
        driver.poll(PollTimeout::Poll, &mut completions).unwrap();
        theirs.set_nonblocking(true).unwrap();
        while theirs.read(&mut [0; 1 << 16]).is_ok() {}
        while attempt(&send).is_ok() {}
        cancel(driver, 1);
        assert_eq!(completions, []);
        assert_eq!(collect_one(driver, 1), Completion::CANCELLED);
    });
}

#[test]
fn polling_without_waiting_makes_no_system_call_when_there_is_nothing_to_fetch() {
    for mode in [Mode::Deferred, Mode::Cooperative] {
        let mut driver = Uring::open_with(8, mode, None).unwrap();
        let mut completions = Vec::new();
        driver.poll(PollTimeout::Poll, &mut completions).unwrap();
        assert_eq!(driver.enters, 0, "nothing in flight");

        let (ours, mut theirs) = pair();
        let mut buffer = [0; 8];
        submit(&mut driver, &recv(named(&ours), &mut buffer), 1);
        driver.poll(PollTimeout::Poll, &mut completions).unwrap();
        assert_eq!(driver.enters, 1, "submits");
        for _ in 0..100 {
            driver.poll(PollTimeout::Poll, &mut completions).unwrap();
        }
        assert_eq!(driver.enters, 1, "nothing has happened to the op in flight");
        theirs.write_all(b"x").unwrap();
        let end = Instant::now() + GUARD;
        while completions.is_empty() {
            assert!(Instant::now() < end, "the completion is never fetched");
            driver.poll(PollTimeout::Poll, &mut completions).unwrap();
        }
        assert!(driver.enters <= 2, "one call fetches the completion");
    }
}

#[test]
fn submit_wait_and_reap_are_one_system_call() {
    in_each_mode(|driver| {
        let (ours, mut theirs) = pair();
        theirs.write_all(b"x").unwrap();
        let mut buffer = [0; 8];
        submit(driver, &recv(named(&ours), &mut buffer), 1);
        let mut completions = Vec::new();
        driver.poll(PollTimeout::Forever, &mut completions).unwrap();
        assert_eq!((completions.len(), driver.enters), (1, 1));
    });
}

#[test]
fn one_watch_serves_all_wakes() {
    in_each_mode(|driver| {
        receive_wakes(driver, driver.waker());
        assert_eq!(driver.watches, 1, "the watch fires again and again, and says so by F_MORE");
    });
}

#[test]
fn a_watch_that_ends_is_armed_anew() {
    in_each_mode(|driver| {
        let waker = driver.waker();
        waker.wake();
        expect_wake(driver);
        // The last completion of the watch carries no F_MORE.
        driver.queue(opcode::AsyncCancel::new(WATCH).build().user_data(ANSWER));
        let end = Instant::now() + GUARD;
        while driver.watching {
            assert!(Instant::now() < end, "the end of the watch went unnoticed");
            driver.poll(PollTimeout::For(GUARD), &mut Vec::new()).unwrap();
        }
        waker.wake();
        expect_wake(driver);
        assert_eq!(driver.watches, 2);
    });
}

#[test]
fn what_a_small_queue_had_no_room_for_is_with_the_kernel_after_a_poll() {
    const OPS: usize = 1_000;
    in_each_mode(|driver| {
        let (ours, mut theirs) = pair();
        let mut buffer = vec![0; OPS];
        for (token, byte) in buffer.chunks_mut(1).enumerate() {
            submit(driver, &recv(named(&ours), byte), token as u64);
        }
        driver.poll(PollTimeout::Poll, &mut Vec::new()).unwrap();
        assert!(
            driver.backlog.is_empty() && driver.queued() == 0,
            "all are with the kernel: {driver:?}"
        );
        theirs.write_all(&[b'x'; OPS]).unwrap();
        collect(driver, OPS);
    });
}

#[test]
fn completions_that_overflow_are_fetched_in_the_same_poll() {
    const OPS: usize = 1_000;
    // Without deferral the kernel posts completions although they are not fetched, so that they
    // overflow a queue of 64.
    let mut driver = Uring::open_with(8, Mode::Plain, None).unwrap();
    let mut buffer = vec![0; OPS];
    let (ours, mut theirs) = pair();
    theirs.write_all(&[b'x'; OPS]).unwrap();
    for (token, byte) in buffer.chunks_mut(1).enumerate() {
        submit(&mut driver, &recv(named(&ours), byte), token as u64);
    }
    let mut completions = Vec::new();
    driver.poll(PollTimeout::Forever, &mut completions).unwrap();
    let end = Instant::now() + GUARD;
    while completions.len() < OPS && Instant::now() < end {
        driver.poll(PollTimeout::For(GUARD), &mut completions).unwrap();
    }
    assert_eq!(completions.len(), OPS);
    assert!(driver.overflows > 0, "the queue has overflown, or this test tests nothing");
    assert!(completions.iter().all(|completion| completion.result == 1));
}

#[test]
fn dropping_a_driver_ends_the_ops_in_flight_before_their_memory_is_given_back() {
    for mode in MODES {
        let (ours, mut theirs) = pair();
        let mut buffers = vec![[0_u8; 8]; 100];
        let mut driver = Uring::open_with(8, mode, None).unwrap();
        for (token, buffer) in buffers.iter_mut().enumerate() {
            submit(&mut driver, &recv(named(&ours), buffer), token as u64);
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

#[test]
fn the_ring_is_not_inherited() {
    in_each_mode(|driver| {
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

/// Makes the kernel refuse io_uring to the calling thread, and to no other, for as long as the
/// thread lives.
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
    // SAFETY: the arguments are plain integers.
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
            (Uring::open(None).unwrap_err(), super::probe().unwrap_err())
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
