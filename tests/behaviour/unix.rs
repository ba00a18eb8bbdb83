//! Rows of `doc/behaviour/unix.md`.

use crate::streams::{assert_cancelled, byte_at};
use crate::support::{HOUR, begin, each_run, everywhere, ms, now, since, until};
use ecru::RuntimeHandle;
use ecru::diag::TaskInfo;
use ecru::net::{Shutdown, UnixDatagram, UnixListener, UnixStream};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// Returns a number that no other test of this machine uses at the same time.
fn unique() -> String {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    format!("ecru-test-{}-{}", std::process::id(), NEXT.fetch_add(1, SeqCst))
}

/// A path for a socket, which is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Scratch {
        Scratch(std::env::temp_dir().join(unique()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn abstract_address() -> SocketAddr {
    SocketAddr::from_abstract_name(unique()).unwrap()
}

/// - given: a listener at a path and a client
/// - when: bytes are sent and echoed
/// - then: they arrive, and the addresses are the same as with std
#[test]
fn unix_01_stream() {
    everywhere(|side| {
        let path = Scratch::new();
        let listener = UnixListener::bind(&path.0).unwrap();
        assert_eq!(listener.local_addr().unwrap().as_pathname(), Some(&*path.0));
        side.both(
            || {
                let (mut stream, from) = listener.accept().unwrap();
                assert!(from.is_unnamed());
                assert_eq!(stream.local_addr().unwrap().as_pathname(), Some(&*path.0));
                let mut bytes = [0; 5];
                stream.read_exact(&mut bytes).unwrap();
                stream.write_all(&bytes).unwrap();
            },
            || {
                let mut client = UnixStream::connect(&path.0).unwrap();
                assert_eq!(client.peer_addr().unwrap().as_pathname(), Some(&*path.0));
                client.write_all(b"hello").unwrap();
                let mut bytes = Vec::new();
                client.read_to_end(&mut bytes).unwrap();
                assert_eq!(bytes, b"hello");
            },
        );
    });
}

/// - given: a listener at an abstract name
/// - when: a client connects, and another listener binds the name
/// - then: connecting works; binding fails with `AddrInUse`; the name is free when its listener is
///   dropped
#[test]
fn unix_02_abstract_names() {
    everywhere(|_| {
        let address = abstract_address();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let mut client = UnixStream::connect_addr(&address).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        let name = client.peer_addr().unwrap();
        assert_eq!(name.as_abstract_name(), address.as_abstract_name());
        client.write_all(b"x").unwrap();
        server.read_exact(&mut [0]).unwrap();
        let taken = UnixListener::bind_addr(&address).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
        drop(listener);
        UnixListener::bind_addr(&address).expect("the name goes with its listener");
    });
}

/// - given: a pair of streams
/// - when: they are read, written and peeked, also vectored; one is dropped
/// - then: they behave as std's: `BrokenPipe`, and no signal
#[test]
fn unix_03_pair() {
    everywhere(|_| {
        let (mut one, other) = UnixStream::pair().unwrap();
        let parts = [IoSlice::new(b"ab"), IoSlice::new(b"cde")];
        assert_eq!((&one).write_vectored(&parts).unwrap(), 5);
        let mut bytes = [0; 2];
        assert_eq!(other.peek(&mut bytes).unwrap(), 2);
        let (mut first, mut second) = ([0; 1], [0; 9]);
        let mut parts = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        assert_eq!((&other).read_vectored(&mut parts).unwrap(), 5);
        assert_eq!((&first, &second[..4]), (b"a", &b"bcde"[..]));
        assert_eq!(one.read(&mut []).unwrap(), 0);
        one.flush().unwrap();
        drop(other);
        // A process that another test has just forked may hold a copy for a moment.
        assert_eq!(one.read(&mut [0]).unwrap(), 0);
        assert_eq!(one.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

/// - given: a peer that shuts its writing side
/// - when: the stream is read
/// - then: the bytes that were sent, then `Ok(0)`; writing still works
#[test]
fn unix_04_end() {
    everywhere(|_| {
        let (mut one, mut other) = UnixStream::pair().unwrap();
        one.write_all(b"question").unwrap();
        one.shutdown(Shutdown::Write).unwrap();
        let mut text = String::new();
        other.read_to_string(&mut text).unwrap();
        assert_eq!(text, "question");
        assert_eq!(other.read(&mut [0; 8]).unwrap(), 0);
        other.write_all(b"answer").unwrap();
        one.read_exact(&mut [0; 6]).unwrap();
    });
}

/// - given: no path, a path without a listener, a taken path, an impossible path
/// - when: `connect` and `bind` are called
/// - then: `NotFound`, `ConnectionRefused`, `AddrInUse`, `InvalidInput`
#[test]
fn unix_05_errors() {
    everywhere(|_| {
        let path = Scratch::new();
        let kind = |result: std::io::Result<UnixStream>| result.unwrap_err().kind();
        assert_eq!(kind(UnixStream::connect(&path.0)), ErrorKind::NotFound);
        drop(UnixListener::bind(&path.0).unwrap());
        assert_eq!(kind(UnixStream::connect(&path.0)), ErrorKind::ConnectionRefused);
        let taken = UnixListener::bind(&path.0).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AddrInUse, "the path stays, as with std");
        for bad in ["x".repeat(200), "with\0zero".to_owned()] {
            assert_eq!(kind(UnixStream::connect(&bad)), ErrorKind::InvalidInput);
            let error = UnixDatagram::bind(&bad).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
        }
    });
}

/// Returns a listener whose queue is full, and the connections that fill it.
fn full_listener() -> (SocketAddr, UnixListener, Vec<std::os::unix::net::UnixStream>) {
    let address = abstract_address();
    let listener = UnixListener::bind_addr(&address).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let filler = std::os::unix::net::UnixStream::connect_addr(&address).unwrap();
    (address, listener, vec![filler])
}

/// - given: a listener whose queue is full
/// - when: `connect` is called
/// - then: it waits until there is room, and can be cancelled or timed out; no connection results
///   then
#[test]
fn unix_06_full_queue() {
    everywhere(|side| {
        let (address, listener, _filler) = full_listener();
        let connected = AtomicBool::new(false);
        side.both(
            || {
                let stream = UnixStream::connect_addr(&address).unwrap();
                connected.store(true, SeqCst);
                stream
            },
            || {
                side.pause();
                assert!(!connected.load(SeqCst));
                listener.accept().unwrap();
                listener.accept().unwrap();
            },
        );
    });
}

#[test]
fn unix_06_full_queue_and_a_cancelled_connect() {
    each_run(|| {
        let (address, listener, _filler) = full_listener();
        ecru::scope(|s| {
            let connect = begin(s, || UnixStream::connect_addr(&address).map(drop));
            connect.cancel();
            assert_cancelled(&connect.join().unwrap().unwrap_err());
        });
        assert!(ecru::timeout(ms(3), || UnixStream::connect_addr(&address)).is_err());
        listener.accept().unwrap();
        listener.set_nonblocking(true).unwrap();
        assert_eq!(listener.accept().unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

/// - given: a listener
/// - when: `for stream in &listener` until the task is cancelled
/// - then: a stream for each client, then the error
#[test]
fn unix_07_incoming() {
    each_run(|| {
        let address = abstract_address();
        let listener = UnixListener::bind_addr(&address).unwrap();
        ecru::scope(|s| {
            let server = s.spawn(|| {
                for (served, stream) in (0..).zip(&listener) {
                    match stream {
                        Ok(mut stream) => stream.write_all(&[served]).unwrap(),
                        Err(error) => return (served, error),
                    }
                }
                unreachable!("it never ends");
            });
            for number in 0..3 {
                let mut stream = UnixStream::connect_addr(&address).unwrap();
                let mut byte = [9];
                stream.read_exact(&mut byte).unwrap();
                assert_eq!(byte, [number]);
            }
            server.cancel();
            let (served, error) = server.join().unwrap();
            assert_eq!(served, 3);
            assert_cancelled(&error);
        });
    });
}

/// - given: sockets with a path, with an abstract name, and without a name
/// - when: they send to each other, connected and not
/// - then: each datagram arrives whole, with its sender's address if it has one
#[test]
fn unix_08_datagrams() {
    everywhere(|_| {
        let (at_one, at_other) = (Scratch::new(), abstract_address());
        let one = UnixDatagram::bind(&at_one.0).unwrap();
        let other = UnixDatagram::bind_addr(&at_other).unwrap();
        assert_eq!(one.send_to_addr(b"question", &at_other).unwrap(), 8);
        let mut buffer = [0; 16];
        let (length, from) = other.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], from.as_pathname()), (&b"question"[..], Some(&*at_one.0)));
        other.send_to(b"answer", &at_one.0).unwrap();
        assert_eq!(one.peek(&mut buffer).unwrap(), 6);
        let (length, from) = one.peek_from(&mut buffer).unwrap();
        assert_eq!((length, from.as_abstract_name()), (6, at_other.as_abstract_name()));
        assert_eq!(one.recv(&mut buffer[..2]).unwrap(), 2, "the rest of it is lost");

        let nameless = UnixDatagram::unbound().unwrap();
        assert_eq!(nameless.send(b"x").unwrap_err().kind(), ErrorKind::NotConnected);
        nameless.connect(&at_one.0).unwrap();
        nameless.send(b"from nobody").unwrap();
        let (length, from) = one.recv_from(&mut buffer).unwrap();
        assert!(length == 11 && from.is_unnamed());
        nameless.connect_addr(&at_other).unwrap();
        assert_eq!(nameless.peer_addr().unwrap().as_abstract_name(), at_other.as_abstract_name());
        nameless.send(b"").unwrap();
        assert_eq!(other.recv(&mut buffer).unwrap(), 0, "an empty datagram is one");
        drop(other);
        assert_eq!(nameless.send(b"x").unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

/// - given: a receiver whose queue is full
/// - when: another socket sends, connected or not
/// - then: it waits until there is room, or until its timeout; the order is kept, and nothing is
///   lost or duplicated
#[test]
fn unix_09_full_receiver() {
    everywhere(|side| {
        let address = abstract_address();
        let receiver = UnixDatagram::bind_addr(&address).unwrap();
        let connected = UnixDatagram::unbound().unwrap();
        connected.connect_addr(&address).unwrap();
        let loose = UnixDatagram::unbound().unwrap();
        const COUNT: u32 = 300;
        for is_connected in [true, false] {
            let sent = AtomicUsize::new(0);
            side.both(
                || {
                    for number in 0..COUNT {
                        let bytes = number.to_ne_bytes();
                        let length = match is_connected {
                            true => connected.send(&bytes).unwrap(),
                            false => loose.send_to_addr(&bytes, &address).unwrap(),
                        };
                        assert_eq!(length, 4);
                        sent.fetch_add(1, SeqCst);
                    }
                },
                || {
                    side.pause();
                    assert!(sent.load(SeqCst) < COUNT as usize, "more than a queue has room for");
                    for number in 0..COUNT {
                        let mut bytes = [0; 4];
                        receiver.recv(&mut bytes).unwrap();
                        assert_eq!(u32::from_ne_bytes(bytes), number);
                    }
                },
            );
        }
    });
}

#[test]
fn unix_09_full_receiver_and_a_limit() {
    everywhere(|_| {
        let address = abstract_address();
        let receiver = UnixDatagram::bind_addr(&address).unwrap();
        let sender = UnixDatagram::unbound().unwrap();
        let limit = ms(5);
        sender.set_write_timeout(Some(limit)).unwrap();
        let mut sent = 0;
        let (error, waited) = loop {
            let start = now();
            match sender.send_to_addr(b"x", &address) {
                Ok(_) => sent += 1,
                Err(error) => break (error, since(start)),
            }
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!((limit..HOUR / 100).contains(&waited));
        sender.set_nonblocking(true).unwrap();
        let error = sender.send_to_addr(b"x", &address).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        for _ in 0..sent {
            receiver.recv(&mut [0]).unwrap();
        }
        receiver.set_nonblocking(true).unwrap();
        let error = receiver.recv(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "as many as were reported");
    });
}

/// - given: parked reads, receives, accepts, writes
/// - when: their tasks are cancelled
/// - then: `Cancelled`; later data goes to the next call, and the peer receives exactly what was
///   reported as written
#[test]
fn unix_10_cancelled_loses_nothing() {
    each_run(|| {
        let (one, other) = UnixStream::pair().unwrap();
        let (sender, receiver) = UnixDatagram::pair().unwrap();
        let address = abstract_address();
        let listener = UnixListener::bind_addr(&address).unwrap();
        ecru::scope(|s| {
            let waits = [
                begin(s, || (&other).read(&mut [0; 8]).map(drop)),
                begin(s, || receiver.recv(&mut [0; 8]).map(drop)),
                begin(s, || receiver.recv_from(&mut [0; 8]).map(drop)),
                begin(s, || listener.accept().map(drop)),
            ];
            for wait in waits {
                wait.cancel();
                assert_cancelled(&wait.join().unwrap().unwrap_err());
            }
        });
        (&one).write_all(b"bytes").unwrap();
        sender.send(b"datagram").unwrap();
        let _client = UnixStream::connect_addr(&address).unwrap();
        (&other).read_exact(&mut [0; 5]).unwrap();
        assert_eq!(receiver.recv(&mut [0; 8]).unwrap(), 8);
        listener.accept().unwrap();
    });
}

#[test]
fn unix_10_cancelled_loses_nothing_of_a_write() {
    each_run(|| {
        let (one, mut other) = UnixStream::pair().unwrap();
        let written = AtomicUsize::new(0);
        ecru::scope(|s| {
            let writer = begin(s, || {
                let chunk: Vec<u8> = (0..251 * 253).map(byte_at).collect();
                loop {
                    let from = written.load(SeqCst) % chunk.len();
                    match (&one).write(&chunk[from..]) {
                        Ok(count) => written.fetch_add(count, SeqCst),
                        Err(error) => return error,
                    };
                }
            });
            writer.cancel();
            assert_cancelled(&writer.join().unwrap());
        });
        drop(one);
        let mut all = Vec::new();
        other.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), written.load(SeqCst));
        assert!(all.iter().enumerate().all(|(position, byte)| *byte == byte_at(position)));
    });
}

/// - given: a stream and a datagram socket
/// - when: timeouts, `try_clone`, `take_error` and `set_nonblocking` are used
/// - then: they behave as std's
#[test]
fn unix_11_timeouts_and_options() {
    everywhere(|_| {
        let (mut stream, _peer) = UnixStream::pair().unwrap();
        let (datagram, _other) = UnixDatagram::pair().unwrap();
        let limit = ms(4);
        stream.set_read_timeout(Some(limit)).unwrap();
        datagram.try_clone().unwrap().set_read_timeout(Some(limit)).unwrap();
        let start = now();
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(datagram.recv(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert!((limit * 2..HOUR / 100).contains(&since(start)));
        assert_eq!(datagram.read_timeout().unwrap(), Some(limit));
        assert!(stream.take_error().unwrap().is_none());
        stream.try_clone().unwrap().set_nonblocking(true).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        assert!(format!("{stream:?}").starts_with("UnixStream { addr: (unnamed)"));
    });
}

/// - given: std sockets
/// - when: they are converted to ecru's types and back
/// - then: they work in both
#[test]
fn unix_12_from_std() {
    everywhere(|_| {
        let (one, other) = std::os::unix::net::UnixStream::pair().unwrap();
        one.set_read_timeout(Some(ms(3))).unwrap();
        let mut ours = UnixStream::try_from(one).unwrap();
        assert_eq!(ours.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        let mut std = std::os::unix::net::UnixStream::try_from(ours).unwrap();
        UnixStream::try_from(other).unwrap().write_all(b"x").unwrap();
        std.read_exact(&mut [0]).unwrap();

        let datagram = std::os::unix::net::UnixDatagram::unbound().unwrap();
        let datagram = UnixDatagram::try_from(datagram).unwrap();
        std::os::unix::net::UnixDatagram::try_from(datagram).unwrap();
        let listener = std::os::unix::net::UnixListener::bind_addr(&abstract_address()).unwrap();
        let listener = UnixListener::try_from(listener).unwrap();
        std::os::unix::net::UnixListener::try_from(listener).unwrap();
    });
}

/// - given: a connect to a listener whose queue is full, and a datagram to a full receiver
/// - when: a dump is made
/// - then: each of the two waits names what it waits for and its socket
#[test]
fn unix_13_full_queues_in_a_dump() {
    each_run(|| {
        let (address, _listener, _filler) = full_listener();
        let receiver = UnixDatagram::bind_addr(&abstract_address()).unwrap();
        let (sender, to) = (UnixDatagram::unbound().unwrap(), receiver.local_addr().unwrap());
        ecru::scope(|s| {
            s.builder().name("client").spawn_daemon(|| UnixStream::connect_addr(&address).is_ok());
            s.builder()
                .name("sender")
                .spawn_daemon(|| while sender.send_to_addr(b"x", &to).is_ok() {});
            for (name, what) in [("client", "to connect fd"), ("sender", "to write to fd")] {
                until(|| {
                    let tree = RuntimeHandle::current().dump();
                    let waits = tree.tasks().find(|task| task.name() == Some(name));
                    waits.and_then(TaskInfo::waits_on).is_some_and(|wait| {
                        wait.fd().is_some() && wait.to_string().starts_with(what)
                    })
                });
            }
        });
    });
}

/// - given: a receive from an empty datagram socket, and an accept on a listener, that wait
/// - when: the socket, and the listener, are shut for reading
/// - then: the waits end as with std: nothing received, and `InvalidInput`, also for the next call
#[test]
fn unix_14_shutdown_ends_waits() {
    each_run(|| {
        let (ours, _theirs) = UnixDatagram::pair().unwrap();
        ecru::scope(|s| {
            let receive = begin(s, || ours.recv(&mut [0; 4]));
            ours.shutdown(Shutdown::Read).unwrap();
            assert_eq!(receive.join().unwrap().unwrap(), 0);
            assert_eq!(ours.recv(&mut [0; 4]).unwrap(), 0);
        });
        let listener = UnixListener::bind_addr(&abstract_address()).unwrap();
        ecru::scope(|s| {
            let accept = begin(s, || listener.accept().map(drop));
            rustix::net::shutdown(&listener, rustix::net::Shutdown::Read).unwrap();
            assert_eq!(accept.join().unwrap().unwrap_err().kind(), ErrorKind::InvalidInput);
        });
    });
}

/// Calls `send` until there is no more room. Returns how often it has succeeded.
fn fill(
    set_nonblocking: impl Fn(bool) -> io::Result<()>,
    send: impl Fn() -> io::Result<usize>,
) -> usize {
    set_nonblocking(true).unwrap();
    let sent = std::iter::from_fn(|| send().ok()).sum();
    set_nonblocking(false).unwrap();
    sent
}

/// Waits until `count` tasks wait for a socket.
fn until_waiting(count: usize) {
    let waits = |task: &&TaskInfo| task.waits_on().is_some_and(|wait| wait.fd().is_some());
    until(|| RuntimeHandle::current().dump().tasks().filter(waits).count() == count);
}

/// - given: writes to a stream by two tasks, and a datagram sent, that wait for room
/// - when: the socket is shut for writing, or in both directions
/// - then: they fail with `BrokenPipe`, as with std; what was written before arrives
#[test]
fn unix_15_shutdown_ends_writes() {
    each_run(|| {
        for how in [Shutdown::Write, Shutdown::Both] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let mut written = 0;
            for size in [4096, 1] {
                written +=
                    fill(|on| ours.set_nonblocking(on), || (&ours).write(&[1; 4096][..size]));
            }
            ecru::scope(|s| {
                let mut clone = ours.try_clone().unwrap();
                let one = s.spawn(|| (&ours).write_all(&[1]).unwrap_err().kind());
                let other = s.spawn(move || clone.write_all(&[1]).unwrap_err().kind());
                until_waiting(2);
                ours.shutdown(how).unwrap();
                assert_eq!(one.join().unwrap(), ErrorKind::BrokenPipe);
                assert_eq!(other.join().unwrap(), ErrorKind::BrokenPipe);
            });
            assert_eq!((&ours).write(&[1]).unwrap_err().kind(), ErrorKind::BrokenPipe);
            assert_eq!(theirs.read_to_end(&mut Vec::new()).unwrap(), written);

            let (ours, _theirs) = UnixDatagram::pair().unwrap();
            fill(|on| ours.set_nonblocking(on), || ours.send(&[1]));
            ecru::scope(|s| {
                let send = s.spawn(|| ours.send(&[1]).unwrap_err().kind());
                until_waiting(1);
                ours.shutdown(how).unwrap();
                assert_eq!(send.join().unwrap(), ErrorKind::BrokenPipe);
            });
        }
    });
}

/// - given: a write to a stream that waits
/// - when: its task is cancelled, or its time limit passes
/// - then: it says so, and a later shutdown has nothing to end
#[test]
fn unix_16_writes_that_wait_end_as_usual() {
    each_run(|| {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        for size in [4096, 1] {
            fill(|on| ours.set_nonblocking(on), || (&ours).write(&[1; 4096][..size]));
        }
        let write = || (&ours).write(&[1]).unwrap_err();
        ecru::scope(|s| {
            let write = s.spawn(write);
            until_waiting(1);
            write.cancel();
            assert_cancelled(&write.join().unwrap());
        });
        ours.set_write_timeout(Some(ms(1))).unwrap();
        assert_eq!(write().kind(), ErrorKind::TimedOut);
        ours.shutdown(Shutdown::Write).unwrap();
        assert_eq!(write().kind(), ErrorKind::BrokenPipe);
    });
}
