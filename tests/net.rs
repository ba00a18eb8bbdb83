//! TCP on plain threads, where every call blocks. The same behaviours hold inside a runtime.

mod common;
#[path = "behaviour/streams.rs"]
#[expect(dead_code, reason = "this program uses a part of it")]
mod streams;

use ecru::net::{Shutdown, TcpListener, TcpStream};
use rustix::fs::OFlags;
use rustix::io::FdFlags;
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::thread;
use std::time::{Duration, Instant};

use common::{PATIENCE, Watchdog, until};
use streams::{listen, pair, refusing, silent};

/// Runs a test, and ends the process if it takes too long.
fn guarded(test: impl FnOnce()) {
    let _watchdog = Watchdog::new();
    test();
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8).collect()
}

#[test]
fn a_megabyte_is_echoed_while_one_thread_writes_and_another_reads_the_same_stream() {
    guarded(|| {
        let (client, mut server) = pair();
        let data = pattern(1 << 20);
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut buffer = [0; 4096];
                loop {
                    match server.read(&mut buffer).unwrap() {
                        0 => return,
                        count => server.write_all(&buffer[..count]).unwrap(),
                    }
                }
            });
            scope.spawn(|| {
                (&client).write_all(&data).unwrap();
                client.shutdown(Shutdown::Write).unwrap();
            });
            let mut echo = Vec::new();
            (&client).read_to_end(&mut echo).unwrap();
            assert!(echo == data);
        });
    });
}

#[test]
fn vectored_calls_fill_and_empty_their_buffers_in_order() {
    guarded(|| {
        let (mut client, mut server) = pair();
        let parts = [IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")];
        assert_eq!(client.write_vectored(&parts).unwrap(), 5);
        let (mut first, mut second) = ([0; 4], [0; 4]);
        let mut parts =
            [IoSliceMut::new(&mut first), IoSliceMut::new(&mut []), IoSliceMut::new(&mut second)];
        assert_eq!(server.read_vectored(&mut parts).unwrap(), 5);
        assert_eq!((&first, &second), (b"abcd", b"e\0\0\0"));
    });
}

#[test]
fn more_buffers_than_the_kernel_takes_are_cut_short_and_not_refused() {
    guarded(|| {
        let (mut client, mut server) = pair();
        let parts = vec![IoSlice::new(b"x"); 3_000];
        assert_eq!(client.write_vectored(&parts).unwrap(), 1_024);
        let mut buffer = [0; 1_024];
        server.read_exact(&mut buffer).unwrap();
        assert_eq!(buffer, [b'x'; 1_024]);
    });
}

#[test]
fn reads_into_nothing_give_nothing_at_once() {
    guarded(|| {
        let (mut client, _server) = pair();
        assert_eq!(client.read(&mut []).unwrap(), 0);
        assert_eq!(client.peek(&mut []).unwrap(), 0);
        assert_eq!(client.read_vectored(&mut []).unwrap(), 0);
        assert_eq!(client.read_vectored(&mut [IoSliceMut::new(&mut [])]).unwrap(), 0);
        assert_eq!(client.write(&[]).unwrap(), 0);
    });
}

#[test]
fn a_read_times_out_never_early_and_loses_nothing() {
    guarded(|| {
        let (mut client, mut server) = pair();
        let limit = Duration::from_millis(30);
        client.set_read_timeout(Some(limit)).unwrap();
        let start = Instant::now();
        assert_eq!(client.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(start.elapsed() >= limit);
        server.write_all(b"late").unwrap();
        let mut buffer = [0; 4];
        client.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"late");
    });
}

#[test]
fn a_write_into_a_full_connection_times_out_never_early() {
    guarded(|| {
        let (mut client, _server) = pair();
        let limit = Duration::from_millis(30);
        client.set_write_timeout(Some(limit)).unwrap();
        let chunk = vec![0; 1 << 20];
        let (error, waited) = loop {
            let start = Instant::now();
            if let Err(error) = client.write(&chunk) {
                break (error, start.elapsed());
            }
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(waited >= limit);
    });
}

#[test]
fn timeouts_are_kept_as_given_shared_by_clones_and_never_zero() {
    guarded(|| {
        let (client, _server) = pair();
        let (first, second) = (Duration::from_nanos(1_234_567), Duration::from_secs(7));
        assert_eq!((client.read_timeout().unwrap(), client.write_timeout().unwrap()), (None, None));
        client.set_read_timeout(Some(first)).unwrap();
        let mut clone = client.try_clone().unwrap();
        assert_eq!(clone.read_timeout().unwrap(), Some(first));
        client.set_write_timeout(Some(second)).unwrap();
        assert_eq!(clone.write_timeout().unwrap(), Some(second));
        clone.set_read_timeout(None).unwrap();
        assert_eq!(client.read_timeout().unwrap(), None);
        for refused in [
            client.set_read_timeout(Some(Duration::ZERO)),
            client.set_write_timeout(Some(Duration::ZERO)),
        ] {
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        client.set_read_timeout(Some(first)).unwrap();
        assert_eq!(clone.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
    });
}

#[test]
fn peeking_leaves_what_it_shows() {
    guarded(|| {
        let (mut client, mut server) = pair();
        server.write_all(b"abc").unwrap();
        let mut buffer = [0; 3];
        for _ in 0..2 {
            assert_eq!(client.peek(&mut buffer[..2]).unwrap(), 2);
            assert_eq!(&buffer[..2], b"ab");
        }
        client.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"abc");
    });
}

#[test]
fn half_of_a_connection_can_be_closed() {
    guarded(|| {
        let (mut client, mut server) = pair();
        client.write_all(b"question").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut text = String::new();
        server.read_to_string(&mut text).unwrap();
        assert_eq!(text, "question");
        server.write_all(b"answer").unwrap();
        drop(server);
        text.clear();
        client.read_to_string(&mut text).unwrap();
        assert_eq!(text, "answer");
        assert_eq!(client.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

#[test]
fn closing_the_reading_half_ends_a_read_in_progress() {
    guarded(|| {
        let (client, _server) = pair();
        thread::scope(|scope| {
            let reader = scope.spawn(|| (&client).read(&mut [0; 8]));
            client.shutdown(Shutdown::Read).unwrap();
            assert_eq!(reader.join().unwrap().unwrap(), 0);
        });
    });
}

#[test]
#[expect(
    unsafe_code,
    reason = "gives SIGPIPE its default action back, which the standard library's start-up took away"
)]
fn writing_to_a_closed_connection_is_an_error_and_no_signal() {
    guarded(|| {
        // SAFETY: no handler is installed, so no code runs asynchronously.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let (mut client, server) = pair();
        drop(server);
        let parts = [IoSlice::new(b"x"), IoSlice::new(b"y")];
        let mut outcomes =
            std::iter::from_fn(|| Some(client.write_vectored(&parts).and(client.write(b"z"))));
        let error = outcomes.find_map(Result::err).unwrap();
        assert!(
            matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset),
            "{error}"
        );
    });
}

#[test]
fn a_refused_connection_says_so_as_with_std() {
    guarded(|| {
        let (address, _kept) = refusing();
        let error = TcpStream::connect(address).unwrap_err();
        let std = std::net::TcpStream::connect(address).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(error.to_string(), std.to_string());
        assert_eq!(error.raw_os_error(), std.raw_os_error());
        let error = TcpStream::connect_timeout(&address, PATIENCE).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn connecting_to_what_is_no_address_fails_as_with_std() {
    guarded(|| {
        for nonsense in ["no-port", "127.0.0.1:99999", "256.0.0.1.2.3:80:80"] {
            let error = TcpStream::connect(nonsense).unwrap_err();
            let std = std::net::TcpStream::connect(nonsense).unwrap_err();
            assert_eq!((error.kind(), error.to_string()), (std.kind(), std.to_string()));
        }
        let none: &[SocketAddr] = &[];
        let error = TcpStream::connect(none).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("could not resolve to any addresses"), "{error}");
        assert_eq!(TcpListener::bind(none).unwrap_err().kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn each_address_is_tried_in_turn() {
    guarded(|| {
        let (refusing, _kept) = refusing();
        let (listener, address) = listen();
        let stream = TcpStream::connect(&[refusing, address][..]).unwrap();
        assert_eq!(stream.peer_addr().unwrap(), address);
        assert_eq!(listener.accept().unwrap().1, stream.local_addr().unwrap());
    });
}

#[test]
fn connecting_to_who_does_not_answer_times_out_never_early() {
    guarded(|| {
        let (address, _kept) = silent();
        let limit = Duration::from_millis(30);
        let start = Instant::now();
        let error = TcpStream::connect_timeout(&address, limit).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(start.elapsed() >= limit);
        let error = TcpStream::connect_timeout(&address, Duration::ZERO).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
    });
}

#[test]
fn a_connect_that_takes_a_while_succeeds_in_the_end() {
    guarded(|| {
        let (listener, address) = listen();
        let clients = thread::spawn(move || {
            (0..64).map(|_| TcpStream::connect(address).unwrap()).collect::<Vec<_>>()
        });
        let servers = listener.incoming().take(64).map(Result::unwrap).collect::<Vec<_>>();
        let mut ends = clients
            .join()
            .unwrap()
            .iter()
            .map(|client| client.local_addr().unwrap())
            .collect::<Vec<_>>();
        let mut peers =
            servers.iter().map(|server| server.peer_addr().unwrap()).collect::<Vec<_>>();
        ends.sort_unstable();
        peers.sort_unstable();
        assert_eq!(ends, peers);
    });
}

#[test]
fn an_address_in_use_is_refused_until_its_listener_is_gone() {
    guarded(|| {
        let is_free_again = || {
            let (listener, address) = listen();
            assert_eq!(TcpListener::bind(address).unwrap_err().kind(), ErrorKind::AddrInUse);
            // The side that closes first leaves the port in TIME_WAIT, which SO_REUSEADDR allows
            // to be bound again.
            let mut client = TcpStream::connect(address).unwrap();
            drop(listener.accept().unwrap());
            assert_eq!(client.read(&mut [0]).unwrap(), 0);
            drop((client, listener));
            TcpListener::bind(address).is_ok()
        };
        // A socket of another test may be given the port in between.
        until(is_free_again);
    });
}

#[test]
fn calls_on_a_nonblocking_stream_and_listener_do_not_wait() {
    guarded(|| {
        let (listener, address) = listen();
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
        let mut client = TcpStream::connect(address).unwrap();
        // The kernel may tell the client first.
        let mut accepted = None;
        until(|| match listener.accept() {
            Err(error) => error.kind() != ErrorKind::WouldBlock,
            Ok(connection) => accepted.replace(connection).is_none(),
        });
        let (mut server, _) = accepted.unwrap();
        client.set_nonblocking(true).unwrap();
        let mut clone = client.try_clone().unwrap();
        assert_eq!(clone.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        clone.set_nonblocking(false).unwrap();
        thread::scope(|scope| {
            let reader = scope.spawn(|| client.read(&mut [0]));
            server.write_all(b"x").unwrap();
            assert_eq!(reader.join().unwrap().unwrap(), 1);
        });
    });
}

fn modes(fd: impl AsFd) -> (bool, bool) {
    let nonblocking = rustix::fs::fcntl_getfl(&fd).unwrap().contains(OFlags::NONBLOCK);
    (nonblocking, rustix::io::fcntl_getfd(&fd).unwrap().contains(FdFlags::CLOEXEC))
}

#[test]
fn every_socket_is_nonblocking_underneath_and_closed_on_exec() {
    guarded(|| {
        let (listener, address) = listen();
        let client = TcpStream::connect(address).unwrap();
        let (server, _) = listener.accept().unwrap();
        for fd in
            [listener.as_fd(), client.as_fd(), server.as_fd(), client.try_clone().unwrap().as_fd()]
        {
            assert_eq!(modes(fd), (true, true));
        }
    });
}

#[test]
fn sockets_travel_from_and_to_std_with_their_mode_and_timeouts() {
    guarded(|| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let std = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        std.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        let listener = TcpListener::try_from(listener).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let mut client = TcpStream::try_from(std).unwrap();
        assert_eq!(client.read_timeout().unwrap(), Some(Duration::from_secs(3)));
        assert_eq!((modes(&client).0, modes(&listener).0), (true, true));
        client.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
        client.write_all(b"x").unwrap();
        let mut std = std::net::TcpStream::try_from(client).unwrap();
        assert!(!modes(&std).0, "std's stream blocks");
        assert_eq!(std.write_timeout().unwrap(), Some(Duration::from_secs(5)));
        std.write_all(b"y").unwrap();
        let mut bytes = [0; 2];
        server.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"xy");
        server.set_nonblocking(true).unwrap();
        assert!(
            modes(std::net::TcpStream::try_from(server).unwrap()).0,
            "a stream set so does not block"
        );
        assert!(!modes(std::net::TcpListener::try_from(listener).unwrap()).0);
    });
}

#[test]
fn sockets_travel_as_fds() {
    guarded(|| {
        let (client, mut server) = pair();
        let raw = client.as_raw_fd();
        let fd = OwnedFd::from(client);
        assert_eq!((fd.as_raw_fd(), modes(&fd).0), (raw, true));
        let blocking = std::net::TcpStream::from(fd);
        blocking.set_nonblocking(false).unwrap();
        let mut client = TcpStream::from(OwnedFd::from(blocking));
        assert!(modes(&client).0);
        client.write_all(b"x").unwrap();
        server.read_exact(&mut [0]).unwrap();
        // A descriptor that is not a socket is reported at its first use.
        let file = OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        let error = TcpStream::from(file).read(&mut [0]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::ENOTSOCK));
    });
}

#[test]
fn several_threads_share_one_listener() {
    guarded(|| {
        let (listener, address) = listen();
        thread::scope(|scope| {
            let servers =
                (0..4).map(|_| scope.spawn(|| listener.accept().unwrap().1)).collect::<Vec<_>>();
            let clients = (0..4).map(|_| TcpStream::connect(address).unwrap()).collect::<Vec<_>>();
            let mut accepted =
                servers.into_iter().map(|server| server.join().unwrap()).collect::<Vec<_>>();
            let mut connected =
                clients.iter().map(|client| client.local_addr().unwrap()).collect::<Vec<_>>();
            accepted.sort_unstable();
            connected.sort_unstable();
            assert_eq!(accepted, connected);
        });
    });
}

#[test]
fn ipv6_works_where_the_system_has_it() {
    guarded(|| {
        let Ok(listener) = TcpListener::bind("[::1]:0") else {
            let std = std::net::TcpListener::bind("[::1]:0");
            assert!(std.is_err(), "std can listen on ::1 and ecru cannot");
            return;
        };
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut server, from) = listener.accept().unwrap();
        assert_eq!(from, client.local_addr().unwrap());
        client.write_all(b"six").unwrap();
        let mut bytes = [0; 3];
        server.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"six");
    });
}

#[test]
fn debug_output_names_both_ends() {
    guarded(|| {
        let (listener, address) = listen();
        let client = TcpStream::connect(address).unwrap();
        let text = format!("{client:?}");
        assert!(text.starts_with("TcpStream { addr: 127.0.0.1:"), "{text}");
        assert!(text.contains(&format!("peer: {address}, fd: {}", client.as_raw_fd())), "{text}");
        let text = format!("{listener:?}");
        assert_eq!(
            text,
            format!("TcpListener {{ addr: {address}, fd: {} }}", listener.as_raw_fd())
        );
    });
}

/// This runs in a process of its own, because it uses up all descriptors.
#[test]
fn accept_without_fds_fails_and_leaves_the_connection_in_the_queue() {
    const CHILD: &str = "ECRU_TEST_WITHOUT_FDS";
    if std::env::var_os(CHILD).is_none() {
        let name = "accept_without_fds_fails_and_leaves_the_connection_in_the_queue";
        let child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&child.stdout);
        assert!(
            child.status.success() && text.contains("1 passed"),
            "{text}{}",
            String::from_utf8_lossy(&child.stderr)
        );
        return;
    }
    guarded(|| {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let (listener, address) = listen();
        let client = TcpStream::connect(address).unwrap();
        let maximum = getrlimit(Resource::Nofile).maximum;
        setrlimit(Resource::Nofile, Rlimit { current: Some(32), maximum }).unwrap();
        let spent =
            std::iter::from_fn(|| std::fs::File::open("/dev/null").ok()).collect::<Vec<_>>();
        assert_eq!(listener.accept().unwrap_err().raw_os_error(), Some(libc::EMFILE));
        drop(spent);
        assert_eq!(listener.accept().unwrap().1, client.local_addr().unwrap());
    });
}
