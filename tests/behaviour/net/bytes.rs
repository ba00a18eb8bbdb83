//! Echoed bytes, over one stream and over thousands.

use super::everywhere;
use crate::streams::{byte_at, listen, loud, pair};
use crate::support::{each_run, ms, run_on, settle};
use ecru::net::{Shutdown, TcpStream};
use std::io::{self, IoSliceMut, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// - given: a listener on port 0 and a client
/// - when: bytes are sent and echoed
/// - then: they arrive unchanged, and both sides know each other's address
#[test]
fn net_01_echo() {
    each_run(|| {
        let (listener, address) = listen();
        assert_ne!(address.port(), 0);
        ecru::scope(|s| {
            let server = s.spawn(|| {
                let (mut stream, from) = listener.accept().unwrap();
                assert_eq!(stream.peer_addr().unwrap(), from);
                assert_eq!(stream.local_addr().unwrap(), address);
                let mut bytes = [0; 5];
                stream.read_exact(&mut bytes).unwrap();
                stream.write_all(&bytes).unwrap();
                from
            });
            let mut client = TcpStream::connect(address).unwrap();
            assert_eq!(client.peer_addr().unwrap(), address);
            client.write_all(b"hello").unwrap();
            let mut bytes = [0; 5];
            client.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"hello");
            assert_eq!(server.join().unwrap(), client.local_addr().unwrap());
        });
    });
}

/// - given: a stream
/// - when: it is used as `Read` and `Write`, by value and by `&`
/// - then: it behaves as std's
#[test]
fn net_02_traits() {
    fn by_trait(mut writer: impl Write, mut reader: impl Read) {
        writer.write_all(b"12345678").unwrap();
        writer.flush().unwrap();
        let mut bytes = [0; 4];
        reader.read_exact(&mut bytes).unwrap();
        let mut text = String::new();
        reader.take(4).read_to_string(&mut text).unwrap();
        assert_eq!((&bytes[..], text.as_str()), (&b"1234"[..], "5678"));
    }
    everywhere(|| {
        let (mut one, mut other) = pair();
        by_trait(&one, &other);
        by_trait(&mut other, &mut one);
        by_trait(one, other);
        let (one, other) = pair();
        let mut lines = io::BufWriter::new(&one);
        writeln!(lines, "first\nsecond").unwrap();
        drop(lines);
        one.shutdown(Shutdown::Write).unwrap();
        let lines = io::BufRead::lines(io::BufReader::new(&other));
        assert_eq!(lines.map(Result::unwrap).collect::<Vec<_>>(), ["first", "second"]);
    });
}

/// - given: a peer that shuts its writing side
/// - when: the stream is read
/// - then: the bytes that were sent, then `Ok(0)` repeatedly; writing still works
#[test]
fn net_03_end() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        client.write_all(b"question").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut text = String::new();
        server.read_to_string(&mut text).unwrap();
        assert_eq!(text, "question");
        for _ in 0..3 {
            assert_eq!(server.read(&mut [0; 8]).unwrap(), 0);
        }
        server.write_all(b"answer").unwrap();
        let mut bytes = [0; 6];
        client.read_exact(&mut bytes).unwrap();
        assert_eq!(&bytes, b"answer");
    });
}

#[test]
fn net_03_end_wakes_a_parked_read() {
    each_run(|| {
        let (client, server) = pair();
        ecru::scope(|s| {
            let read = s.spawn(|| (&client).read(&mut [0; 8]));
            settle();
            server.shutdown(Shutdown::Write).unwrap();
            assert_eq!(read.join().unwrap().unwrap(), 0);
            // The same with the local end shut down.
            let read = s.spawn(|| (&server).read(&mut [0; 8]));
            settle();
            server.shutdown(Shutdown::Read).unwrap();
            assert_eq!(read.join().unwrap().unwrap(), 0);
        });
    });
}

/// - given: one stream shared by two tasks
/// - when: one reads while the other writes
/// - then: neither waits for the other
#[test]
fn net_04_both_ways_at_once() {
    each_run(|| {
        let (client, server) = pair();
        let data: Vec<u8> = (0..1 << 20).map(byte_at).collect();
        ecru::scope(|s| {
            s.spawn(|| {
                let mut buffer = [0; 4096];
                loop {
                    match (&server).read(&mut buffer).unwrap() {
                        0 => return server.shutdown(Shutdown::Write).unwrap(),
                        count => (&server).write_all(&buffer[..count]).unwrap(),
                    }
                }
            });
            s.spawn(|| {
                (&client).write_all(&data).unwrap();
                client.shutdown(Shutdown::Write).unwrap();
            });
            let mut echo = Vec::new();
            (&client).read_to_end(&mut echo).unwrap();
            assert!(echo == data);
        });
        // A read that is waiting does not delay a write.
        let (client, mut server) = pair();
        ecru::scope(|s| {
            let read = s.spawn(|| {
                let mut bytes = [0; 2];
                (&client).read_exact(&mut bytes).unwrap();
                bytes
            });
            settle();
            (&client).write_all(b"??").unwrap();
            let mut bytes = [0; 2];
            server.read_exact(&mut bytes).unwrap();
            server.write_all(&bytes).unwrap();
            assert_eq!(&read.join().unwrap(), b"??");
        });
    });
}

/// Opens `count` connections at once, each of which echoes once.
fn echo_once_each(workers: usize, count: usize) {
    run_on(workers, || {
        let (listener, address) = listen();
        let open = AtomicUsize::new(0);
        ecru::scope(|s| {
            s.spawn(|| {
                ecru::scope(|s| {
                    for _ in 0..count {
                        let (mut stream, _) = listener.accept().unwrap();
                        s.spawn(move || {
                            let mut bytes = [0; 8];
                            stream.read_exact(&mut bytes).unwrap();
                            stream.write_all(&bytes).unwrap();
                        });
                    }
                });
            });
            for n in 0..count as u64 {
                let open = &open;
                s.spawn(move || {
                    let mut stream = TcpStream::connect(address).unwrap();
                    open.fetch_add(1, SeqCst);
                    // All connections are open before the first is served.
                    while open.load(SeqCst) < count {
                        ecru::sleep(ms(1)).unwrap();
                    }
                    stream.write_all(&n.to_ne_bytes()).unwrap();
                    let mut bytes = [0; 8];
                    stream.read_exact(&mut bytes).unwrap();
                    assert_eq!(u64::from_ne_bytes(bytes), n);
                });
            }
        });
    });
}

/// - given: 500 connections on one worker
/// - when: each sends and expects an echo
/// - then: all are served
#[test]
fn net_05_many_streams() {
    echo_once_each(1, 500);
}

#[test]
fn net_05_many_streams_slow_four_thousand() {
    let _loud = loud();
    // Each task of the second backend is a thread.
    echo_once_each(2, if cfg!(ecru_baton) { 400 } else { 4_000 });
}

/// - given: 8 MB and a peer that reads late
/// - when: `write_all` is called
/// - then: it parks while the peer is slow, and every byte arrives
#[test]
fn net_06_larger_than_the_buffers() {
    each_run(|| {
        const LENGTH: usize = 8 << 20;
        let (mut client, mut server) = pair();
        let written = AtomicBool::new(false);
        let data: Vec<u8> = (0..LENGTH).map(byte_at).collect();
        ecru::scope(|s| {
            s.spawn(|| {
                client.write_all(&data).unwrap();
                written.store(true, SeqCst);
                drop(client);
            });
            ecru::sleep(ms(10)).unwrap();
            assert!(!written.load(SeqCst), "more than the kernel keeps");
            let mut all = Vec::new();
            server.read_to_end(&mut all).unwrap();
            assert!(all == data);
        });
    });
}

/// - given: a stream with bytes in it
/// - when: it reads into, or writes, an empty slice
/// - then: `Ok(0)`
#[test]
fn net_07_empty_buffer() {
    everywhere(|| {
        let (mut client, mut server) = pair();
        server.write_all(b"x").unwrap();
        for _ in 0..2 {
            assert_eq!(client.read(&mut []).unwrap(), 0);
            assert_eq!(client.peek(&mut []).unwrap(), 0);
            assert_eq!(client.read_vectored(&mut []).unwrap(), 0);
            assert_eq!(client.read_vectored(&mut [IoSliceMut::new(&mut [])]).unwrap(), 0);
            assert_eq!(client.write(&[]).unwrap(), 0);
            assert_eq!(client.write_vectored(&[]).unwrap(), 0);
        }
        let mut byte = [0];
        client.read_exact(&mut byte).unwrap();
        assert_eq!(&byte, b"x");
        assert_eq!(client.read(&mut []).unwrap(), 0, "nor does it wait where nothing is left");
    });
}
