//! The reason of a cancellation, and how errors report it.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use ecru::net::TcpStream;
use ecru::{CancelReason, Cancelled};

use super::{cancelled, pair, spin};
use crate::support::{HOUR, each_run, forever, ms, settle, until};

/// - given: a task
/// - when: its handle is cancelled
/// - then: the reason is `Explicit`
#[test]
fn cancel_06_reason_explicit() {
    each_run(|| {
        let started = AtomicBool::new(false);
        ecru::scope(|s| {
            let child = s.spawn(|| {
                started.store(true, SeqCst);
                (forever(), ecru::checkpoint().unwrap_err())
            });
            until(|| started.load(SeqCst));
            child.cancel();
            let (first, second) = child.join().unwrap();
            assert_eq!(first.reason(), CancelReason::Explicit);
            assert_eq!(first, second);
        });
    });
}

/// - given: a wait inside `timeout`
/// - when: the deadline passes
/// - then: the reason is `Deadline`
#[test]
fn cancel_07_reason_deadline() {
    each_run(|| {
        let mut reason = None;
        let result = ecru::timeout(ms(1), || reason = Some(forever().reason()));
        assert!(result.is_err());
        assert_eq!(reason, Some(CancelReason::Deadline));
    });
}

/// - given: a task cancelled by its handle
/// - when: a deadline passes as well
/// - then: the reason is still `Explicit`
#[test]
fn cancel_08_first_reason_stays() {
    each_run(|| {
        ecru::cancel_scope(|c| {
            let result = ecru::timeout(ms(20), || {
                c.cancel();
                assert_eq!(forever().reason(), CancelReason::Explicit);
                spin(ms(25));
                settle();
                forever().reason()
            });
            // The deadline interrupted nothing.
            assert_eq!(result, Ok(CancelReason::Explicit));
        });
    });
}

/// - given: a `Cancelled`
/// - when: it is converted to an `io::Error`
/// - then: its kind is `Other`, and `Cancelled::find` returns it with its reason
#[test]
fn cancel_09_as_io_error() {
    each_run(|| {
        let error = cancelled(forever);
        let io_error = io::Error::from(error);
        assert_eq!(io_error.kind(), io::ErrorKind::Other);
        assert_eq!(Cancelled::find(&io_error), Some(error));
        let wrapped = io::Error::new(io::ErrorKind::InvalidData, io_error);
        assert_eq!(Cancelled::find(&wrapped).unwrap().reason(), CancelReason::Explicit);
        assert!(error.to_string().contains("cancelled"), "{error}");
    });
}

/// - given: an `io::Error` from the kernel, and one made from text
/// - when: `Cancelled::find` is called
/// - then: it returns `None`, even in a cancelled task
#[test]
fn cancel_10_find_in_other_errors() {
    each_run(|| {
        cancelled(|| {
            let errors = [
                io::Error::from_raw_os_error(2),
                io::Error::other("cancelled"),
                io::ErrorKind::TimedOut.into(),
            ];
            for error in errors {
                assert_eq!(Cancelled::find(&error), None);
            }
        });
    });
}

/// - given: a cancelled read under `BufReader` and `io::copy`
/// - when: their caller gets the error
/// - then: `Cancelled::find` finds the cancellation
///
/// `BufReader` and `io::copy` neither retry nor hide the cancellation.
#[test]
fn cancel_11_passes_through_std() {
    /// Counts what was read.
    struct Counting<'a>(&'a TcpStream, &'a AtomicUsize);
    impl Read for Counting<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let count = self.0.read(buffer)?;
            self.1.fetch_add(count, SeqCst);
            Ok(count)
        }
    }
    each_run(|| {
        let count = AtomicUsize::new(0);
        let (client, server) = pair();
        (&server).write_all(b"half a line").unwrap();
        let mut line = String::new();
        let mut reader = BufReader::new(Counting(&client, &count));
        ecru::scope(|s| {
            let result = ecru::cancel_scope(|c| {
                let count = &count;
                let reading = s.spawn(move || {
                    until(|| count.load(SeqCst) > 0);
                    settle();
                    c.cancel();
                });
                let result = reader.read_line(&mut line);
                ecru::shield(|| reading.join()).unwrap();
                result
            });
            assert!(Cancelled::find(&result.unwrap_err()).is_some());
        });
        let error = cancelled(|| io::copy(&mut &client, &mut io::sink())).unwrap_err();
        assert_eq!(Cancelled::find(&error).unwrap().reason(), CancelReason::Explicit);
        // The bytes that were read are not lost.
        assert_eq!(line, "half a line");
    });
}

/// - given: a section that is cancelled by its limit
/// - when: waits of all kinds return errors in it, which are boxed
/// - then: `Cancelled::find_in` finds the cancellation in each, also behind wrappers, and none in an
///   error of another cause
#[test]
fn cancel_76_the_cancellation_in_any_error() {
    type BoxError = Box<dyn std::error::Error + Send + Sync>;
    fn found(error: impl Into<BoxError>) -> Option<CancelReason> {
        Cancelled::find_in(&*error.into()).map(|cancelled| cancelled.reason())
    }
    each_run(|| {
        let (sender, receiver) = ecru::channel::bounded::<u8>(0);
        let none = || Err::<(), _>(io::Error::other("no value"));
        let pool = ecru::sync::Pool::new(1, none);
        ecru::scope(|s| {
            let task = s.spawn(forever);
            let limited = ecru::timeout(ms(1), || {
                let _ = forever();
                let cancelled: [BoxError; 7] = [
                    forever().into(),
                    io::Error::from(forever()).into(),
                    io::Error::other(BoxError::from(receiver.recv().unwrap_err())).into(),
                    sender.send(7).unwrap_err().into(),
                    receiver.recv_timeout(HOUR).unwrap_err().into(),
                    task.join().unwrap_err().into(),
                    pool.get().map(drop).unwrap_err().into(),
                ];
                for error in cancelled {
                    let text = error.to_string();
                    assert_eq!(found(error), Some(CancelReason::Deadline), "{text}");
                }
            });
            assert!(limited.is_err());
            s.cancel();
        });
        assert_eq!(found(io::Error::other("disk on fire")), None);
        assert_eq!(found(ecru::channel::RecvError::Disconnected), None);
        assert_eq!(found(ecru::channel::RecvError::Cancelled), Some(CancelReason::Explicit));
    });
}
