//! What a program sees of TCP and of pipes is the same on each driver of the kernel and in
//! simulations, whose files lie in memory.

use crate::base::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use crate::driver::DriverKind;
use crate::io::pipe;
use crate::net::{TcpListener, TcpStream};
use crate::runtime::Runtime;
use crate::scope::{cancel_scope, scope, shield, timeout};
use crate::sim::Simulation;
use crate::task::Cancelled;
use crate::time::{sleep, yield_now};
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn pair() -> (TcpStream, TcpStream) {
    let (listener, address) = listen();
    let client = TcpStream::connect(address).unwrap();
    (client, listener.accept().unwrap().0)
}

/// Runs a test on each driver of the kernel, with one worker and with two, and in simulations.
fn on_each(test: impl Fn() + Copy + Send + Sync + 'static) {
    for kind in [DriverKind::Uring, DriverKind::Poll] {
        for workers in [1, 2] {
            let runtime = Runtime::builder().driver(kind).workers(workers).build().unwrap();
            assert_eq!(runtime.driver_kind(), kind);
            runtime.run(test);
        }
    }
    for seed in 0..8 {
        Simulation::new(seed).run(test).unwrap();
    }
}

fn is_cancelled(error: &std::io::Error) -> bool {
    Cancelled::find(error).is_some()
}

fn byte_at(position: usize) -> u8 {
    (position % 251) as u8
}

/// Waits until a task has begun. A task that is cancelled before that never runs.
fn wait_for(begun: &AtomicBool) {
    while !begun.load(Ordering::Relaxed) {
        yield_now().unwrap();
    }
}

/// Lets the other tasks come to their waits. Which of them do does not decide a test's outcome.
fn let_others_wait() {
    for _ in 0..20 {
        yield_now().unwrap();
    }
}

#[test]
fn an_echo_comes_back_whole() {
    on_each(|| {
        let (listener, address) = listen();
        scope(|s| {
            s.spawn(|| {
                let (mut server, peer) = listener.accept().unwrap();
                assert!(peer.ip().is_loopback() && peer.port() != 0);
                let mut buffer = [0; 64];
                while server.read_exact(&mut buffer).is_ok() {
                    server.write_all(&buffer).unwrap();
                }
            });
            let mut client = TcpStream::connect(address).unwrap();
            for round in 0..200 {
                let mut buffer = [round as u8; 64];
                client.write_all(&buffer).unwrap();
                buffer.fill(0);
                client.read_exact(&mut buffer).unwrap();
                assert_eq!(buffer, [round as u8; 64]);
            }
        });
    });
}

#[test]
fn a_read_returns_what_is_there_and_then_the_end() {
    on_each(|| {
        let (mut client, mut server) = pair();
        scope(|s| {
            let read = s.spawn(|| {
                let mut buffer = [0; 8];
                let first = client.read(&mut buffer).unwrap();
                (first, buffer, client.read_to_end(&mut Vec::new()).unwrap())
            });
            let_others_wait();
            server.write_all(b"abc").unwrap();
            // The rest comes when the first part has been read, or the first part comes with it.
            let_others_wait();
            server.write_all(b"defgh").unwrap();
            drop(server);
            let (first, buffer, rest) = read.join().unwrap();
            assert!(first >= 3 && buffer.starts_with(b"abc"), "{first} {buffer:?}");
            assert_eq!(first + rest, 8);
        });
        assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
        assert_eq!(client.read(&mut []).unwrap(), 0);
    });
}

#[test]
fn a_large_write_arrives_whole_and_in_order() {
    const BYTES: usize = 300 << 10;
    on_each(|| {
        let (mut client, mut server) = pair();
        scope(|s| {
            s.spawn(move || {
                let all: Vec<u8> = (0..BYTES).map(byte_at).collect();
                client.write_all(&all).unwrap();
            });
            let mut all = Vec::new();
            server.read_to_end(&mut all).unwrap();
            assert_eq!(all.len(), BYTES);
            assert!(all.iter().enumerate().all(|(position, byte)| *byte == byte_at(position)));
        });
    });
}

#[test]
fn several_buffers_are_one_transfer() {
    on_each(|| {
        let (mut client, mut server) = pair();
        let sent =
            client.write_vectored(&[IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")]);
        assert_eq!(sent.unwrap(), 5);
        let (mut first, mut second) = ([0; 3], [0; 4]);
        let mut parts = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        assert_eq!(server.read_vectored(&mut parts).unwrap(), 5);
        assert_eq!((&first, &second), (b"abc", b"de\0\0"));
        // A read after one into several buffers, which may leave nothing behind, waits and sees
        // all.
        scope(|s| {
            let read = s.spawn(|| {
                let mut buffer = [0; 4];
                server.read_exact(&mut buffer).unwrap();
                buffer
            });
            let_others_wait();
            client.write_all(b"next").unwrap();
            assert_eq!(&read.join().unwrap(), b"next");
        });
    });
}

#[test]
fn a_peek_takes_nothing() {
    on_each(|| {
        let (client, mut server) = pair();
        scope(|s| {
            let peek = s.spawn(|| {
                let mut buffer = [0; 8];
                let count = client.peek(&mut buffer).unwrap();
                (count, buffer)
            });
            let_others_wait();
            server.write_all(b"x").unwrap();
            let (count, buffer) = peek.join().unwrap();
            assert_eq!((count, buffer[0]), (1, b'x'));
        });
        let mut buffer = [0; 8];
        assert_eq!(client.peek(&mut buffer).unwrap(), 1);
        assert_eq!((&client).read(&mut buffer).unwrap(), 1);
    });
}

#[test]
fn in_nonblocking_mode_nothing_waits() {
    on_each(|| {
        let (client, mut server) = pair();
        client.set_nonblocking(true).unwrap();
        let error = (&client).read(&mut [0; 8]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        let block = [0; 1 << 16];
        let error = loop {
            if let Err(error) = (&client).write(&block) {
                break error;
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        client.set_nonblocking(false).unwrap();
        server.write_all(b"x").unwrap();
        assert_eq!((&client).read(&mut [0; 8]).unwrap(), 1);
    });
}

#[test]
fn a_time_limit_ends_a_read_and_loses_nothing() {
    on_each(|| {
        let (client, mut server) = pair();
        client.set_read_timeout(Some(Duration::from_millis(2))).unwrap();
        let error = (&client).read(&mut [0; 8]).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock), "{error}");
        assert!(timeout(Duration::from_millis(1), || (&client).read(&mut [0; 8])).is_err());
        client.set_read_timeout(None).unwrap();
        server.write_all(b"abc").unwrap();
        assert_eq!((&client).read(&mut [0; 8]).unwrap(), 3);
    });
}

#[test]
fn a_cancelled_read_loses_nothing() {
    on_each(|| {
        let (client, mut server) = pair();
        let begun = AtomicBool::new(false);
        scope(|s| {
            let read = s.spawn(|| {
                begun.store(true, Ordering::Relaxed);
                let mut buffer = [7; 8];
                let error = (&client).read(&mut buffer).unwrap_err();
                assert_eq!(buffer, [7; 8]);
                error
            });
            wait_for(&begun);
            let_others_wait();
            read.cancel();
            assert!(is_cancelled(&read.join().unwrap()));
        });
        server.write_all(b"here").unwrap();
        cancel_scope(|c| {
            c.cancel();
            assert!(is_cancelled(&(&client).read(&mut [0; 4]).unwrap_err()));
            assert!(is_cancelled(&(&client).write(b"never").unwrap_err()));
            shield(|| (&client).write_all(b"shielded").unwrap());
        });
        let mut buffer = [0; 8];
        (&client).read_exact(&mut buffer[..4]).unwrap();
        assert_eq!(&buffer[..4], b"here");
        server.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"shielded");
    });
}

#[test]
fn reads_that_are_cancelled_at_random_lose_nothing() {
    const BYTES: usize = 2_000;
    on_each(|| {
        let (client, mut server) = pair();
        let stopped = AtomicBool::new(false);
        scope(|s| {
            s.spawn(move || {
                for position in 0..BYTES {
                    server.write_all(&[byte_at(position)]).unwrap();
                    if position % 7 == 0 {
                        yield_now().unwrap();
                    }
                }
            });
            let reader = s.spawn(|| {
                let mut received = 0;
                while received < BYTES {
                    let result = cancel_scope(|c| {
                        let canceller = c.clone();
                        scope(|s| {
                            s.spawn(move || canceller.cancel());
                            let mut buffer = [0; 5];
                            let result = (&client).read(&mut buffer);
                            (result, buffer)
                        })
                    });
                    match result {
                        (Ok(count), buffer) => {
                            for byte in &buffer[..count] {
                                assert_eq!(*byte, byte_at(received));
                                received += 1;
                            }
                        }
                        (Err(error), _) => assert!(is_cancelled(&error), "{error}"),
                    }
                }
                stopped.store(true, Ordering::Relaxed);
            });
            reader.join().unwrap();
        });
        assert!(stopped.load(Ordering::Relaxed));
    });
}

#[test]
fn a_cancelled_accept_loses_nothing() {
    on_each(|| {
        let (listener, address) = listen();
        let begun = AtomicBool::new(false);
        scope(|s| {
            let accept = s.spawn(|| {
                begun.store(true, Ordering::Relaxed);
                listener.accept().map(drop)
            });
            wait_for(&begun);
            let_others_wait();
            accept.cancel();
            assert!(is_cancelled(&accept.join().unwrap().unwrap_err()));
        });
        let mut client = TcpStream::connect(address).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"x").unwrap();
        assert_eq!(server.read(&mut [0; 8]).unwrap(), 1);
    });
}

#[test]
fn a_cancelled_write_stays_whole() {
    on_each(|| {
        let (client, mut server) = pair();
        let written = AtomicUsize::new(0);
        scope(|s| {
            let writer = s.spawn(|| {
                let block: Vec<u8> = (0..251 * 253).map(byte_at).collect();
                loop {
                    let from = written.load(Ordering::SeqCst) % block.len();
                    match (&client).write(&block[from..]) {
                        Ok(count) => written.fetch_add(count, Ordering::SeqCst),
                        Err(error) => return error,
                    };
                }
            });
            while written.load(Ordering::SeqCst) == 0 {
                sleep(Duration::from_micros(100)).unwrap();
            }
            writer.cancel();
            assert!(is_cancelled(&writer.join().unwrap()));
        });
        drop(client);
        let mut all = Vec::new();
        server.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), written.load(Ordering::SeqCst));
        assert!(all.iter().enumerate().all(|(position, byte)| *byte == byte_at(position)));
    });
}

#[test]
fn a_connection_to_no_listener_is_refused() {
    on_each(|| {
        let (listener, address) = listen();
        drop(listener);
        let error = TcpStream::connect(address).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    });
}

#[test]
fn a_write_to_a_peer_that_is_gone_fails() {
    on_each(|| {
        let (mut client, server) = pair();
        drop(server);
        let error = loop {
            if let Err(error) = client.write(b"into the void") {
                break error;
            }
            yield_now().unwrap();
        };
        assert!(
            matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset),
            "{error}"
        );
    });
}

#[test]
fn each_connection_goes_to_one_of_several_acceptors() {
    const CONNECTIONS: usize = 60;
    on_each(|| {
        let (listener, address) = listen();
        let taken = AtomicUsize::new(0);
        scope(|s| {
            for _ in 0..4 {
                s.spawn_daemon(|| {
                    while let Ok((mut server, _)) = listener.accept() {
                        taken.fetch_add(1, Ordering::Relaxed);
                        server.write_all(b"x").unwrap();
                    }
                });
            }
            for _ in 0..CONNECTIONS {
                let mut client = TcpStream::connect(address).unwrap();
                let mut all = Vec::new();
                client.read_to_end(&mut all).unwrap();
                assert_eq!(all, b"x");
            }
        });
        assert_eq!(taken.load(Ordering::Relaxed), CONNECTIONS);
    });
}

#[test]
fn two_tasks_read_and_write_one_stream_at_once() {
    const ROUNDS: usize = 500;
    on_each(|| {
        let (client, server) = pair();
        scope(|s| {
            for stream in [&client, &server] {
                s.spawn(move || {
                    for round in 0..ROUNDS {
                        (&*stream).write_all(&round.to_ne_bytes()).unwrap();
                    }
                });
                s.spawn(move || {
                    let mut word = [0; 8];
                    for round in 0..ROUNDS {
                        (&*stream).read_exact(&mut word).unwrap();
                        assert_eq!(usize::from_ne_bytes(word), round);
                    }
                });
            }
        });
    });
}

#[test]
fn all_readers_of_one_stream_wake_up() {
    on_each(|| {
        let (client, mut server) = pair();
        scope(|s| {
            let readers: Vec<_> =
                (0..8).map(|_| s.spawn(|| (&client).read(&mut [0; 1]).unwrap())).collect();
            let_others_wait();
            server.write_all(b"12345").unwrap();
            let_others_wait();
            drop(server);
            let read: usize = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
            assert_eq!(read, 5, "five have a byte, three see the end");
        });
    });
}

#[test]
fn a_pipe_carries_bytes_to_its_end() {
    const BYTES: usize = 200 << 10;
    on_each(|| {
        let (mut reader, mut writer) = pipe().unwrap();
        scope(|s| {
            s.spawn(move || {
                let all: Vec<u8> = (0..BYTES).map(byte_at).collect();
                writer.write_all(&all).unwrap();
            });
            let mut all = Vec::new();
            reader.read_to_end(&mut all).unwrap();
            assert_eq!(all.len(), BYTES);
            assert!(all.iter().enumerate().all(|(position, byte)| *byte == byte_at(position)));
        });
    });
}

#[test]
fn a_pipe_without_its_other_end_ends_or_breaks() {
    on_each(|| {
        let (mut reader, writer) = pipe().unwrap();
        drop(writer);
        assert_eq!(reader.read(&mut [0; 8]).unwrap(), 0);
        let (reader, mut writer) = pipe().unwrap();
        scope(|s| {
            let write = s.spawn(move || {
                loop {
                    if let Err(error) = writer.write(&[0; 1 << 16]) {
                        break error;
                    }
                }
            });
            let_others_wait();
            drop(reader);
            assert_eq!(write.join().unwrap().kind(), ErrorKind::BrokenPipe);
        });
    });
}

#[test]
fn a_cancelled_read_of_a_pipe_loses_nothing() {
    on_each(|| {
        let (mut reader, mut writer) = pipe().unwrap();
        let ended = timeout(Duration::from_millis(1), || reader.read(&mut [0; 8]).map(drop));
        assert!(ended.is_err());
        writer.write_all(b"kept").unwrap();
        let mut buffer = [0; 4];
        reader.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"kept");
    });
}

/// What a file in memory gives to code that asks for a descriptor: a number, and none of its bytes.
#[test]
fn a_placeholder_gives_no_access_to_the_file() {
    let test = || {
        let (mut reader, mut writer) = pipe().unwrap();
        writer.write_all(b"secret").unwrap();
        let error = rustix::io::read(&reader, &mut [0; 8]).unwrap_err();
        assert_eq!(error, rustix::io::Errno::BADF);
        let error = rustix::io::write(&writer, b"forged").unwrap_err();
        assert_eq!(error, rustix::io::Errno::BADF);
        let mut buffer = [0; 8];
        let count = reader.read(&mut buffer).unwrap();
        assert_eq!(&buffer[..count], b"secret");
    };
    Simulation::new(0).run(test).unwrap();
}

/// A descriptor that is given away and taken back leads to the same file.
#[test]
fn a_placeholder_that_is_handed_back_is_the_file_again() {
    on_each(|| {
        let (client, mut server) = pair();
        let client = TcpStream::from(OwnedFd::from(client));
        (&client).write_all(b"there").unwrap();
        let twin = TcpStream::from(client.as_fd().try_clone_to_owned().unwrap());
        drop(client);
        (&twin).write_all(b" and back").unwrap();
        drop(twin);
        let mut text = String::new();
        server.read_to_string(&mut text).unwrap();
        assert_eq!(text, "there and back");
    });
    let stranger = || {
        let fd = OwnedFd::from(std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
        let adopted = std::net::UdpSocket::from(fd);
        let error = crate::net::UdpSocket::try_from(adopted).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("opened outside"), "{error}");
    };
    Simulation::new(0).run(stranger).unwrap();
}
