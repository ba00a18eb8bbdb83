//! Rows of `doc/behaviour/ready.md`.

use crate::streams::{assert_cancelled, listen, pair};
use crate::support::{HOUR, begin, each_run, ms, settle};
use ecru::net::TcpStream;
use rustix::net::sockopt;
use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

/// Writes until no more fits. The stream is in non-blocking mode afterwards.
fn fill(stream: &TcpStream) -> usize {
    stream.set_nonblocking(true).unwrap();
    let mut filled = 0;
    loop {
        match (&*stream).write(&[7; 65536]) {
            Ok(count) => filled += count,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                return filled;
            }
        }
    }
}

/// Fills a connection that has room although it was full.
fn some_more(stream: &TcpStream) -> usize {
    let count = fill(stream);
    assert!(count > 0, "it was said to have room");
    count
}

fn drain(mut stream: &TcpStream, count: usize) {
    let mut buffer = vec![0; 65536];
    let mut left = count;
    while left > 0 {
        let most = left.min(buffer.len());
        left -= stream.read(&mut buffer[..most]).unwrap();
    }
}

/// - given: a stream, in non-blocking mode or not, and a peer that writes later
/// - when: `wait_readable` is called
/// - then: it waits until the peer has written, and reads nothing
#[test]
fn ready_01_readable() {
    for nonblocking in [false, true] {
        each_run(|| {
            let (mut ours, mut theirs) = pair();
            ours.set_nonblocking(nonblocking).unwrap();
            ours.set_read_timeout(Some(ms(1))).unwrap();
            let written = AtomicBool::new(false);
            ecru::scope(|s| {
                let waits = begin(s, || {
                    ours.wait_readable().unwrap();
                    assert!(written.load(SeqCst));
                });
                ecru::sleep(ms(3)).unwrap();
                assert!(!waits.is_finished());
                written.store(true, SeqCst);
                theirs.write_all(b"x").unwrap();
                waits.join().unwrap();
            });
            ours.wait_readable().unwrap(); // as often as one likes
            let mut byte = [0; 2];
            assert_eq!(ours.read(&mut byte).unwrap(), 1);
            assert_eq!(&byte, b"x\0");
        });
    }
}

/// - given: a peer that closes, or resets the connection
/// - when: `wait_readable` is called
/// - then: it returns, and a read then reports what happened
#[test]
fn ready_02_the_end() {
    each_run(|| {
        let (mut ours, theirs) = pair();
        ecru::scope(|s| {
            let waits = begin(s, || ours.wait_readable());
            drop(theirs);
            waits.join().unwrap().unwrap();
        });
        assert_eq!(ours.read(&mut [0]).unwrap(), 0);

        let (mut ours, theirs) = pair();
        ecru::scope(|s| {
            let waits = begin(s, || ours.wait_readable());
            sockopt::set_socket_linger(&theirs, Some(Duration::ZERO)).unwrap();
            drop(theirs);
            waits.join().unwrap().unwrap();
        });
        assert_eq!(ours.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    });
}

/// - given: a full connection, and a peer that reads later
/// - when: `wait_writable` is called
/// - then: it waits until a write would not block
#[test]
fn ready_03_writable() {
    each_run(|| {
        let (mut ours, theirs) = pair();
        ours.wait_writable().unwrap();
        let mut filled = fill(&ours);
        ecru::scope(|s| {
            let waits = begin(s, || ours.wait_writable());
            ecru::sleep(ms(3)).unwrap();
            if waits.is_finished() {
                // The kernel has found room.
                filled += some_more(&ours);
            }
            drain(&theirs, filled);
            waits.join().unwrap().unwrap();
        });
        assert!(ours.write(b"x").unwrap() == 1);
    });
}

/// - given: a task in `wait_readable`, another in `wait_writable`
/// - when: they are cancelled
/// - then: `Cancelled`; the stream stays usable
#[test]
fn ready_04_cancelled() {
    each_run(|| {
        let (mut ours, mut theirs) = pair();
        let filled = fill(&ours);
        ecru::scope(|s| {
            let reads = begin(s, || ours.wait_readable().unwrap_err());
            let writes = begin(s, || ours.wait_writable().unwrap_err());
            reads.cancel();
            writes.cancel();
            assert_cancelled(&reads.join().unwrap());
            assert_cancelled(&writes.join().unwrap());
        });
        drain(&theirs, filled);
        ours.write_all(b"x").unwrap();
        theirs.read_exact(&mut [0]).unwrap();
        theirs.write_all(b"y").unwrap();
        ours.wait_readable().unwrap();
        assert_eq!(ours.read(&mut [0; 2]).unwrap(), 1);
    });
}

/// - given: a plain thread
/// - when: it calls both
/// - then: it blocks, and no longer than a `timeout` around it
#[test]
fn ready_05_on_a_thread() {
    let (listener, address) = listen();
    let ours = TcpStream::connect(address).unwrap();
    let (mut theirs, _) = listener.accept().unwrap();
    ours.wait_writable().unwrap();
    let limited = ecru::timeout(ms(2), || ours.wait_readable());
    assert!(limited.is_err());
    std::thread::scope(|s| {
        let waits = s.spawn(|| ours.wait_readable());
        theirs.write_all(b"x").unwrap();
        waits.join().unwrap().unwrap();
    });
    assert!(ecru::timeout(HOUR, || ours.wait_readable()).is_ok());
}

/// - given: one stream
/// - when: one task waits to read, another to write
/// - then: neither waits for the other
#[test]
fn ready_06_both_at_once() {
    each_run(|| {
        let (ours, mut theirs) = pair();
        let mut filled = fill(&ours);
        ecru::scope(|s| {
            let reads = begin(s, || ours.wait_readable());
            let writes = begin(s, || ours.wait_writable());
            theirs.write_all(b"x").unwrap();
            reads.join().unwrap().unwrap();
            settle();
            if writes.is_finished() {
                // The kernel has found room.
                filled += some_more(&ours);
            }
            drain(&theirs, filled);
            writes.join().unwrap().unwrap();
        });
    });
}
