//! The API of std's sockets: peeking, options, conversions, halves.

use super::everywhere;
use crate::streams::{assert_cancelled, listen, pair};
use crate::support::{each_run, ms, now, settle, since, until};
use ecru::net::{Shutdown, TcpListener, TcpStream, UdpSocket, UnixStream};
use std::io::{ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::sync::Mutex;
use std::time::Duration;

/// - given: bytes that have arrived
/// - when: `peek` is called, then `read`
/// - then: both return them
#[test]
fn net_23_peek() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        server.write_all(b"abc").unwrap();
        let mut buffer = [0; 8];
        for _ in 0..2 {
            // On loopback, written bytes are there at once.
            assert_eq!(client.peek(&mut buffer).unwrap(), 3);
            assert_eq!(&buffer[..3], b"abc");
        }
        assert_eq!(client.read(&mut buffer).unwrap(), 3);
        assert_eq!(&buffer[..3], b"abc");
    });
    each_run(|| {
        let (client, server) = pair();
        ecru::scope(|s| {
            let peek = s.spawn(|| {
                let mut buffer = [0; 8];
                client.peek(&mut buffer).map(|count| (count, buffer[0]))
            });
            settle();
            (&server).write_all(b"x").unwrap();
            assert_eq!(peek.join().unwrap().unwrap(), (1, b'x'));
            assert_eq!((&client).read(&mut [0; 8]).unwrap(), 1);
        });
    });
}

/// - given: several buffers
/// - when: they are written and read vectored
/// - then: the bytes arrive in order
#[test]
fn net_24_vectored() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        let parts = [IoSlice::new(b"ab"), IoSlice::new(b""), IoSlice::new(b"cde")];
        assert_eq!(client.write_vectored(&parts).unwrap(), 5);
        let (mut first, mut second) = ([0; 4], [0; 4]);
        let mut parts =
            [IoSliceMut::new(&mut first), IoSliceMut::new(&mut []), IoSliceMut::new(&mut second)];
        assert_eq!(server.read_vectored(&mut parts).unwrap(), 5);
        assert_eq!((&first, &second), (b"abcd", b"e\0\0\0"));
    });
    each_run(|| {
        let (client, server) = pair();
        ecru::scope(|s| {
            let read = s.spawn(|| {
                let (mut first, mut second) = ([0; 2], [0; 4]);
                let mut parts = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
                let count = (&server).read_vectored(&mut parts).unwrap();
                (count, first, second)
            });
            settle();
            (&client).write_all(b"12345").unwrap();
            assert_eq!(read.join().unwrap(), (5, *b"12", *b"345\0"));
        });
    });
}

/// - given: a stream and a listener
/// - when: `set_nodelay`, `set_ttl`, `take_error`, `shutdown` and `try_clone` are called
/// - then: they behave as std's
#[test]
fn net_25_options() {
    everywhere(|| {
        let (client, mut server) = pair();
        let (listener, _) = listen();
        for on in [true, false] {
            client.set_nodelay(on).unwrap();
            assert_eq!(client.nodelay().unwrap(), on);
        }
        client.set_ttl(77).unwrap();
        listener.set_ttl(78).unwrap();
        assert_eq!((client.ttl().unwrap(), listener.ttl().unwrap()), (77, 78));
        assert!(client.set_ttl(100_000).is_err());
        assert!(client.take_error().unwrap().is_none());
        assert!(listener.take_error().unwrap().is_none());
        let clone = client.try_clone().unwrap();
        drop(client);
        (&clone).write_all(b"x").unwrap();
        clone.shutdown(Shutdown::Both).unwrap();
        let mut bytes = Vec::new();
        server.read_to_end(&mut bytes).unwrap();
        assert_eq!(bytes, b"x");
        assert_eq!((&clone).read(&mut [0]).unwrap(), 0);
        assert_eq!((&clone).write(b"y").unwrap_err().kind(), ErrorKind::BrokenPipe);
        let twin = listener.try_clone().unwrap();
        assert_eq!(twin.local_addr().unwrap(), listener.local_addr().unwrap());
    });
}

/// - given: a listener, streams, and sockets of the other kinds
/// - when: keep-alive, its times, and buffer sizes are set
/// - then: the kernel reports the values that were set; accepted connections inherit those of the
///   listener
#[test]
fn net_39_keepalive_and_buffer_sizes() {
    everywhere(|| {
        let (listener, address) = listen();
        assert!(!listener.keepalive().unwrap());
        listener.set_keepalive(true).unwrap();
        listener.set_keepalive_time(ms(61_000)).unwrap();
        listener.set_keepalive_interval(ms(6_500)).unwrap();
        listener.set_keepalive_retries(5).unwrap();
        listener.set_recv_buffer_size(40_000).unwrap();
        let client = TcpStream::connect(address).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert_eq!((client.keepalive().unwrap(), server.keepalive().unwrap()), (false, true));
        assert_eq!(server.keepalive_time().unwrap(), ms(61_000));
        assert_eq!(server.keepalive_interval().unwrap(), ms(7_000), "rounded up");
        assert_eq!(server.keepalive_retries().unwrap(), 5);
        assert_eq!(server.recv_buffer_size().unwrap(), 80_000, "doubled by the kernel");
        assert!(client.set_keepalive_time(ms(0)).is_err());
        assert!(client.set_keepalive_interval(Duration::MAX).is_err());
        assert!(client.set_keepalive_retries(1_000).is_err());

        client.set_send_buffer_size(50_000).unwrap();
        assert_eq!(client.try_clone().unwrap().send_buffer_size().unwrap(), 100_000);
        assert!(client.set_send_buffer_size(usize::MAX).is_err());
        let datagrams = UdpSocket::bind("127.0.0.1:0").unwrap();
        datagrams.set_recv_buffer_size(30_000).unwrap();
        assert_eq!(datagrams.recv_buffer_size().unwrap(), 60_000);
        let (local, _other) = UnixStream::pair().unwrap();
        local.set_send_buffer_size(20_000).unwrap();
        assert_eq!(local.send_buffer_size().unwrap(), 40_000);
    });
}

/// - given: a blocking std stream
/// - when: it is converted to ecru's type and back
/// - then: it works in a task, and is blocking again after the conversion back
#[test]
fn net_26_from_std() {
    everywhere(|| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let std = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let listener = TcpListener::try_from(listener).unwrap();
        let mut client = TcpStream::try_from(std).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        assert!(
            ecru::timeout(ms(3), || client.read(&mut [0])).is_err(),
            "it waits, and can be interrupted"
        );
        client.write_all(b"x").unwrap();
        let mut std = std::net::TcpStream::try_from(client).unwrap();
        // The kernel counts in its own coarse ticks.
        std.set_read_timeout(Some(ms(20))).unwrap();
        let start = now();
        let error = loop {
            // The kernel interrupts a blocking thread while its ring has work to finish.
            match std.read(&mut [0]).unwrap_err() {
                error if error.kind() == ErrorKind::Interrupted => {}
                error => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        assert!(since(start) >= ms(10), "it blocks");
        std.write_all(b"y").unwrap();
        let mut bytes = [0; 2];
        server.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"xy");
    });
}

/// - given: a listener
/// - when: `incoming()` is iterated until the task is cancelled
/// - then: a stream for each client, then the error
#[test]
fn net_27_incoming() {
    each_run(|| {
        let (listener, address) = listen();
        let served = Mutex::new(Vec::new());
        let served = &served;
        let (clients, rest) = ecru::scope(|s| {
            let server = s.spawn(|| {
                let mut incoming = listener.incoming();
                for stream in incoming.by_ref() {
                    match stream {
                        Ok(stream) => served.lock().unwrap().push(stream.peer_addr().unwrap()),
                        Err(error) => return (error, incoming.next().unwrap().unwrap_err()),
                    }
                }
                unreachable!("`incoming` ends");
            });
            let clients: Vec<_> = (0..5).map(|_| TcpStream::connect(address).unwrap()).collect();
            until(|| served.lock().unwrap().len() == 5);
            server.cancel();
            (clients, server.join().unwrap())
        });
        assert_cancelled(&rest.0);
        assert_cancelled(&rest.1);
        let clients: Vec<_> = clients.iter().map(|client| client.local_addr().unwrap()).collect();
        assert_eq!(*served.lock().unwrap(), clients);
    });
}

/// - given: a stream split by `into_split`
/// - when: the halves go to two tasks; the writing half is dropped, forgotten or reunited
/// - then: the peer reads the end if the half is dropped, and not if it is forgotten or reunited;
///   `reunite` gives back the halves of two different streams
#[test]
fn net_33_halves() {
    each_run(|| {
        let (stream, mut peer) = pair();
        let (reader, writer) = stream.into_split();
        ecru::scope(|s| {
            let echoed = s.spawn(move || {
                let mut reader = reader;
                let mut text = String::new();
                reader.read_to_string(&mut text).unwrap();
                (text, reader)
            });
            s.spawn(move || {
                let mut writer = writer;
                writer.write_all(b"question").unwrap();
                // The half is dropped here, and the peer reads to the end.
            });
            let mut text = String::new();
            peer.read_to_string(&mut text).unwrap();
            assert_eq!(text, "question");
            peer.write_all(b"answer").unwrap();
            peer.shutdown(Shutdown::Write).unwrap();
            assert_eq!(echoed.join().unwrap().0, "answer");
        });
    });
}

#[test]
fn net_33_halves_reunited_or_forgotten() {
    everywhere(|| {
        let (one, mut other) = pair();
        let (reader, writer) = one.into_split();
        let (stranger, own) = pair().0.into_split();
        assert_eq!(reader.as_ref().peer_addr().unwrap(), other.local_addr().unwrap());
        let error = reader.reunite(own).unwrap_err();
        assert!(error.to_string().contains("different"));
        drop(stranger);
        let mut one = error.0.reunite(writer).unwrap();
        one.write_all(b"still open").unwrap();
        other.read_exact(&mut [0; 10]).unwrap();

        let (reader, writer) = one.into_split();
        writer.forget();
        other.set_nonblocking(true).unwrap();
        assert_eq!(other.read(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(reader);
        other.set_nonblocking(false).unwrap();
        assert_eq!(other.read(&mut [0]).unwrap(), 0, "both are gone");
    });
}

/// - given: a stream
/// - when: `set_linger` and `set_quickack` are called
/// - then: they behave as std's; a linger time of zero resets the connection
#[test]
fn net_35_linger_and_quickack() {
    everywhere(|| {
        let (mut client, server) = pair();
        assert_eq!(client.linger().unwrap(), None);
        client.set_quickack(false).unwrap();
        assert!(!client.quickack().unwrap());
        client.set_quickack(true).unwrap();
        assert!(client.quickack().unwrap());
        server.set_linger(Some(Duration::from_secs(2))).unwrap();
        assert_eq!(server.linger().unwrap(), Some(Duration::from_secs(2)));
        server.set_linger(Some(Duration::ZERO)).unwrap();
        drop(server);
        assert_eq!(client.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

/// - given: a machine with `::1`
/// - when: a listener and its client use it
/// - then: they work as over IPv4
#[test]
fn net_36_ipv6() {
    each_run(|| {
        let Ok(listener) = TcpListener::bind("[::1]:0") else {
            let std = std::net::TcpListener::bind("[::1]:0");
            assert!(std.is_err(), "std can listen on ::1 and ecru cannot");
            eprintln!("skipped: this machine has no ::1");
            return;
        };
        let address = listener.local_addr().unwrap();
        ecru::scope(|s| {
            s.spawn_daemon(|| listener.serve(1, |mut stream, _| stream.write_all(b"six")));
            let mut client = TcpStream::connect(address).unwrap();
            assert!(client.peer_addr().unwrap().is_ipv6());
            let mut text = String::new();
            client.read_to_string(&mut text).unwrap();
            assert_eq!(text, "six");
        });
    });
}
