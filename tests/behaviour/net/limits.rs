//! Time limits and cancellations: an interrupted call loses nothing.

use super::{everywhere, open_fds};
use crate::streams::{assert_cancelled, byte_at, listen, pair, silent};
use crate::support::{HOUR, alone, begin, each_run, ms, now, run_on, since, until};
use ecru::net::TcpStream;
use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// - given: an address that never answers
/// - when: `connect_timeout` is called
/// - then: `TimedOut`, in time
#[test]
fn net_11_connect_timeout() {
    let (address, _kept) = silent();
    everywhere(|| {
        let limit = ms(15);
        let start = now();
        let error = TcpStream::connect_timeout(&address, limit).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!((limit..HOUR / 100).contains(&since(start)));
    });
}

/// - given: `set_read_timeout` and a silent peer
/// - when: the stream is read
/// - then: `TimedOut`, never early; the stream stays usable, and nothing is lost
#[test]
fn net_12_read_timeout() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        let limit = ms(8);
        client.set_read_timeout(Some(limit)).unwrap();
        for round in 0..3 {
            let start = now();
            assert_eq!(client.read(&mut [0; 8]).unwrap_err().kind(), ErrorKind::TimedOut);
            assert!((limit..HOUR / 100).contains(&since(start)));
            server.write_all(&[round; 4]).unwrap();
            let mut buffer = [0; 4];
            client.read_exact(&mut buffer).unwrap();
            assert_eq!(buffer, [round; 4]);
        }
        assert!(!ecru::is_cancelled(), "a socket's time-out cancels nobody");
    });
}

#[test]
fn net_12_read_timeout_of_a_write() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        let limit = ms(8);
        client.set_write_timeout(Some(limit)).unwrap();
        let chunk: Vec<u8> = (0..251 * 253).map(byte_at).collect();
        let mut written = 0;
        let error = loop {
            let from = written % chunk.len();
            match client.write(&chunk[from..]) {
                Ok(count) => written += count,
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        drop(client);
        let mut all = Vec::new();
        server.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), written);
        assert!(all.iter().enumerate().all(|(position, byte)| *byte == byte_at(position)));
    });
}

/// - given: a parked read
/// - when: its task is cancelled, then the peer sends
/// - then: the read returns `Cancelled`, and the next reader gets every byte
#[test]
fn net_13_cancelled_read_loses_nothing() {
    each_run(|| {
        let (client, mut server) = pair();
        ecru::scope(|s| {
            let read = begin(s, || {
                let mut buffer = [7; 8];
                let result = (&client).read(&mut buffer);
                assert_eq!(buffer, [7; 8]);
                let again = (&client).read(&mut buffer);
                assert_cancelled(&again.unwrap_err());
                result
            });
            ecru::sleep(ms(2)).unwrap();
            read.cancel();
            assert_cancelled(&read.join().unwrap().unwrap_err());
        });
        server.write_all(b"all of it").unwrap();
        let mut buffer = [0; 9];
        (&client).read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"all of it");
    });
}

#[test]
fn net_13_cancelled_read_loses_nothing_that_is_there() {
    each_run(|| {
        let (client, mut server) = pair();
        server.write_all(b"here").unwrap();
        ecru::cancel_scope(|c| {
            c.cancel();
            assert_cancelled(&(&client).read(&mut [0; 4]).unwrap_err());
            assert_cancelled(&client.peek(&mut [0; 4]).unwrap_err());
            assert_cancelled(&(&client).write(b"never").unwrap_err());
            // A shield keeps the request out.
            ecru::shield(|| (&client).write_all(b"shielded").unwrap());
        });
        let mut buffer = [0; 8];
        (&client).read_exact(&mut buffer[..4]).unwrap();
        assert_eq!(&buffer[..4], b"here");
        server.read_exact(&mut buffer).unwrap();
        assert_eq!(&buffer, b"shielded");
    });
}

/// - given: a parked `accept`
/// - when: its task is cancelled, then a client connects
/// - then: the next `accept` gets the client
#[test]
fn net_14_cancelled_accept_loses_nothing() {
    each_run(|| {
        let (listener, address) = listen();
        ecru::scope(|s| {
            let accept = begin(s, || listener.accept().map(drop));
            ecru::sleep(ms(2)).unwrap();
            accept.cancel();
            assert_cancelled(&accept.join().unwrap().unwrap_err());
        });
        let client = TcpStream::connect(address).unwrap();
        assert_eq!(listener.accept().unwrap().1, client.local_addr().unwrap());
    });
}

/// - given: a write parked on a full connection
/// - when: its task is cancelled
/// - then: the peer receives exactly the bytes that were reported as written
#[test]
fn net_15_cancelled_write_stays_whole() {
    each_run(|| {
        let (client, mut server) = pair();
        let written = AtomicUsize::new(0);
        ecru::scope(|s| {
            let writer = s.spawn(|| {
                let chunk: Vec<u8> = (0..251 * 253).map(byte_at).collect();
                loop {
                    let from = written.load(SeqCst) % chunk.len();
                    match (&client).write(&chunk[from..]) {
                        Ok(count) => written.fetch_add(count, SeqCst),
                        Err(error) => return error,
                    };
                }
            });
            // Waits until the writer is stuck.
            let mut before = usize::MAX;
            while before != written.load(SeqCst) || before == 0 {
                before = written.load(SeqCst);
                ecru::sleep(ms(5)).unwrap();
            }
            writer.cancel();
            assert_cancelled(&writer.join().unwrap());
        });
        drop(client);
        let mut all = Vec::new();
        server.read_to_end(&mut all).unwrap();
        assert_eq!(all.len(), written.load(SeqCst));
        assert!(all.iter().enumerate().all(|(position, byte)| *byte == byte_at(position)));
    });
}

/// - given: a `connect` that gets no answer
/// - when: its task is cancelled
/// - then: it returns `Cancelled`, and the descriptor is closed
#[test]
fn net_17_cancelled_connect() {
    alone("net::limits::net_17_cancelled_connect", || {
        let (address, _kept) = silent();
        for workers in [1, 2] {
            run_on(workers, || {
                // The drivers are open when the count begins.
                assert!(ecru::timeout(ms(2), || TcpStream::connect(address)).is_err());
                ecru::scope(|s| {
                    let before = open_fds();
                    let attempts: Vec<_> =
                        (0..10).map(|_| s.spawn_local(|| TcpStream::connect(address))).collect();
                    until(|| open_fds() == before + 10);
                    for attempt in &attempts {
                        attempt.cancel();
                    }
                    for attempt in attempts {
                        assert_cancelled(&attempt.join().unwrap().unwrap_err());
                    }
                    assert_eq!(open_fds(), before);
                });
            });
        }
    });
}

/// - given: a silent peer
/// - when: a `timeout` around a read expires
/// - then: `Elapsed`, in time
#[test]
fn net_18_timeout_around_io() {
    each_run(|| {
        let (client, _server) = pair();
        let (listener, _) = listen();
        let limit = ms(8);
        let start = now();
        assert!(ecru::timeout(limit, || (&client).read(&mut [0; 8])).is_err());
        assert!((limit..HOUR / 100).contains(&since(start)));
        assert!(ecru::timeout(limit, || listener.accept()).is_err());
        let result = ecru::try_timeout(limit, || (&client).read(&mut [0; 8]));
        assert_eq!(result.unwrap_err().kind(), ErrorKind::TimedOut);
        // The same in a child of an inner scope.
        let result = ecru::timeout(limit, || {
            ecru::scope(|s| drop(s.spawn(|| (&client).read(&mut [0; 8]))));
        });
        assert!(result.is_err());
        assert_eq!(ecru::timeout(HOUR, || (&client).write(b"x")).unwrap().unwrap(), 1);
    });
}
