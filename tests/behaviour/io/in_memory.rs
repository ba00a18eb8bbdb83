//! Pipes in memory, and copying in both directions at once.
#![expect(unsafe_code, reason = "sets a socket option")]

use super::{bytes, cancelled, read_all};
use crate::streams::{assert_cancelled, pair};
use crate::support::{Side, Watchdog, begin, each_run, everywhere, ms, now, run_on, since};
use ecru::io::{self, CloseWrite, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use ecru::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// - given: a memory pipe of 7 bytes
/// - when: 100 KB are sent through it
/// - then: they arrive unchanged, then `Ok(0)`; `BrokenPipe` when the reader has been dropped
#[test]
fn io_08_memory_pipe() {
    everywhere(|side| {
        let (reader, mut writer) = io::memory_pipe(7);
        let all = bytes(100_000);
        let (read, ()) = side.both(
            || read_all(&reader),
            || {
                writer.write_all(&all).unwrap();
                drop(writer);
            },
        );
        assert!(read == all);
        assert_eq!((&reader).read(&mut [0; 3]).unwrap(), 0);
        let (reader, mut writer) = io::memory_pipe(0);
        assert_eq!(writer.write(b"word").unwrap(), 1);
        assert_eq!(writer.write(b"").unwrap(), 0);
        assert_eq!((&reader).read(&mut []).unwrap(), 0);
        drop(reader);
        assert_eq!(writer.write(b"word").unwrap_err().kind(), ErrorKind::BrokenPipe);
    });
}

/// - given: a full memory pipe, and an empty one
/// - when: a task writes to the first, or reads from the second
/// - then: it waits, loses nothing when it is cancelled, and obeys `timeout` on a plain thread
#[test]
fn io_09_memory_pipe_waits() {
    each_run(|| {
        let (mut reader, writer) = io::memory_pipe(4);
        ecru::scope(|s| {
            (&writer).write_all(b"full").unwrap();
            let writes = begin(s, || cancelled((&writer).write(b"more")));
            writes.cancel();
            writes.join().unwrap();
            let mut word = [0; 10];
            assert_eq!(reader.read(&mut word).unwrap(), 4);
            let reads = begin(s, || {
                let mut buffer = [0; 10];
                cancelled(reader.read(&mut buffer));
                assert_eq!(buffer, [0; 10]);
                reader
            });
            reads.cancel();
            let mut reader = reads.join().unwrap();
            (&writer).write_all(b"word").unwrap();
            assert_eq!(reader.read(&mut word).unwrap(), 4);
            assert_eq!(&word[..4], b"word");
        });
    });
    let (mut reader, _writer) = io::memory_pipe(4);
    let start = now();
    assert!(ecru::timeout(ms(3), || reader.read(&mut [0; 4])).is_err());
    assert!(since(start) >= ms(3));
}

/// - given: both ends of a `duplex`
/// - when: each writes to the other
/// - then: it acts as a connection: in both directions, each of which ends separately
#[test]
fn io_10_duplex() {
    everywhere(|side| {
        let (here, mut there) = io::duplex(16);
        let (heard, said) = side.both(
            || {
                let heard = read_all(&there);
                there.write_all(b"the answer, longer than the buffer").unwrap();
                drop(there);
                heard
            },
            || {
                (&here).write_all(b"the question").unwrap();
                here.close_write().unwrap();
                assert_eq!((&here).write(b"!").unwrap_err().kind(), ErrorKind::BrokenPipe);
                read_all(&here)
            },
        );
        assert_eq!(heard, b"the question");
        assert_eq!(said, b"the answer, longer than the buffer");
    });
}

/// - given: a memory pipe or a `duplex` of 8 bytes
/// - when: several slices are written in one call, and read into several buffers in one call
/// - then: all of them are used, empty ones are skipped, and no more than fits is taken
#[test]
fn io_32_memory_vectored() {
    fn check(mut reader: impl Read, mut writer: impl Write) {
        let parts = [b"".as_slice(), b"ab", b"", b"cde", b"fghi"].map(IoSlice::new);
        assert_eq!(writer.write_vectored(&parts).unwrap(), 8);
        let (mut first, mut second) = ([0; 3], [0; 10]);
        let mut buffers = [&mut [][..], &mut first, &mut second].map(IoSliceMut::new);
        assert_eq!(reader.read_vectored(&mut buffers).unwrap(), 8);
        assert_eq!((&first, &second[..5]), (b"abc", b"defgh".as_slice()));
        assert_eq!(writer.write_vectored(&[]).unwrap(), 0);
        assert_eq!(reader.read_vectored(&mut []).unwrap(), 0);
    }
    everywhere(|_| {
        let (reader, writer) = io::memory_pipe(8);
        check(&reader, &writer);
        check(reader, writer);
        let (here, there) = io::duplex(8);
        check(&there, &here);
        check(there, here);
    });
}

/// - given: two TCP connections
/// - when: each side sends and shuts down its writing side, one after the other
/// - then: the bytes and the ends arrive at the other side, and both counts are returned
#[test]
fn io_11_copy_bidirectional() {
    everywhere(|side| {
        let ((client, front), (back, server)) = (pair(), pair());
        let (question, answer) = (bytes(300_000), bytes(200_001));
        let ends = |client: TcpStream, server: TcpStream| {
            let (_, heard) = side.both(
                || {
                    assert!(read_all(&server) == question);
                    (&server).write_all(&answer).unwrap();
                    server.shutdown(Shutdown::Write).unwrap();
                },
                || {
                    (&client).write_all(&question).unwrap();
                    client.shutdown(Shutdown::Write).unwrap();
                    read_all(&client)
                },
            );
            assert!(heard == answer);
        };
        let (counts, ()) =
            side.both(|| io::copy_bidirectional(&front, &back).unwrap(), || ends(client, server));
        assert_eq!(counts, (300_000, 200_001));
    });
}

/// - given: a proxy between silent peers
/// - when: its task is cancelled, or a deadline passes on a plain thread
/// - then: it ends
#[test]
fn io_12_copy_bidirectional_cancelled() {
    each_run(|| {
        let ((_client, front), (back, _server)) = (pair(), pair());
        ecru::scope(|s| {
            let proxy = begin(s, || io::copy_bidirectional(&front, &back).unwrap_err());
            proxy.cancel();
            assert_cancelled(&proxy.join().unwrap());
        });
    });
    let _watchdog = Watchdog::new();
    for side in [Side::Task, Side::Thread] {
        let attempt = || {
            let ((_client, front), (back, _server)) = (pair(), pair());
            let start = now();
            assert!(ecru::timeout(ms(4), || io::copy_bidirectional(&front, &back)).is_err());
            assert!(since(start) >= ms(4));
        };
        if side == Side::Task { run_on(1, attempt) } else { attempt() }
    }
}

/// - given: a proxy with an idle limit, between silent peers and between peers that end
/// - when: the limit passes, or it does not
/// - then: it returns `TimedOut`, and the connections stay open; otherwise it returns the counts
#[test]
fn io_28_copy_bidirectional_idle() {
    let _watchdog = Watchdog::new();
    for side in [Side::Task, Side::Thread] {
        let attempt = || {
            let ((mut client, front), (back, _server)) = (pair(), pair());
            let error = io::copy_bidirectional_idle(&front, &back, ms(4)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            assert!(error.to_string().contains("4ms"), "{error}");
            (&front).write_all(b"hello").unwrap();
            let mut bytes = [0; 5];
            client.read_exact(&mut bytes).unwrap();
            assert_eq!(&bytes, b"hello");

            let none = io::copy_bidirectional_idle(&front, &back, ms(0)).unwrap_err();
            assert_eq!(none.kind(), ErrorKind::InvalidInput);
            // Long limits, including one beyond the last `Instant`, have no effect.
            for limit in [ms(3_600_000), Duration::MAX] {
                let ((client, front), (back, server)) = (pair(), pair());
                client.shutdown(Shutdown::Write).unwrap();
                (&server).write_all(b"bye").unwrap();
                server.shutdown(Shutdown::Write).unwrap();
                let counts = io::copy_bidirectional_idle(&front, &back, limit).unwrap();
                assert_eq!(counts, (0, 3));
            }
        };
        if side == Side::Task { run_on(2, attempt) } else { attempt() }
    }
}

/// - given: a peer that resets its connection
/// - when: the proxy is at work
/// - then: the error is returned, and the other direction does not continue to wait
#[test]
fn io_13_copy_bidirectional_fails() {
    each_run(|| {
        let ((client, front), (back, server)) = (pair(), pair());
        ecru::scope(|s| {
            let proxy = begin(s, || io::copy_bidirectional(&front, &back).unwrap_err());
            let linger = libc::linger { l_onoff: 1, l_linger: 0 };
            // SAFETY: the option has this size.
            let set = unsafe {
                libc::setsockopt(
                    client.as_raw_fd(),
                    libc::SOL_SOCKET,
                    libc::SO_LINGER,
                    (&raw const linger).cast(),
                    size_of_val(&linger) as u32,
                )
            };
            assert_eq!(set, 0);
            drop(client);
            assert_eq!(proxy.join().unwrap().kind(), ErrorKind::ConnectionReset);
        });
        drop(server);
    });
}
