//! One thing goes wrong, at each place in turn.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use ecru::channel;
use ecru::sim;
use ecru::sync::Semaphore;

use crate::support::{ms, panic_text};

/// - given: a pool whose permit is given back by hand
/// - when: `cancel_everywhere` runs it
/// - then: it panics with the place, the seed, a trace and the command
#[test]
fn sim_330_a_cancellation_that_leaks_a_permit() {
    let text = panic_text(|| {
        sim::cancel_everywhere(|| {
            let permits = Semaphore::new(1);
            let uses = || -> Result<(), ecru::Cancelled> {
                permits.acquire()?.forget();
                ecru::sleep(ms(1))?;
                permits.add_permits(1);
                Ok(())
            };
            ecru::scope(|s| {
                s.spawn(uses);
            });
            assert_eq!(permits.available_permits(), 1, "a permit is lost");
        });
    });
    for part in ["a permit is lost", "was cancelled at place ", "v1 cancel@", "ECRU_SIM_SEED="] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
}

/// - given: a task that receives a value
/// - when: `cancel_everywhere` runs it
/// - then: runs come in which it is cancelled before the call, while it waits, and when the value
///   has been handed over
#[test]
fn sim_331_before_during_and_after_a_wait() {
    static BEFORE: AtomicU32 = AtomicU32::new(0);
    static HANDED_OVER: AtomicU32 = AtomicU32::new(0);
    static UNTOUCHED: AtomicU32 = AtomicU32::new(0);
    sim::cancel_everywhere(|| {
        let (tx, rx) = channel::bounded(0);
        ecru::scope(|s| {
            let receiver = s.spawn(move || {
                let got = rx.recv();
                (got.is_ok(), ecru::is_cancelled())
            });
            s.spawn(move || tx.send(1));
            match ecru::shield(|| receiver.join()) {
                Ok((true, true)) => HANDED_OVER.fetch_add(1, Relaxed),
                Ok((true, false)) => UNTOUCHED.fetch_add(1, Relaxed),
                Ok((false, _)) | Err(_) => BEFORE.fetch_add(1, Relaxed),
            };
        });
    });
    let counts = [&BEFORE, &HANDED_OVER, &UNTOUCHED].map(|count| count.load(Relaxed));
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}

/// - given: a program that survives each cancellation
/// - when: `cancel_everywhere` runs it
/// - then: it returns; the last run of each seed was untouched
#[test]
fn sim_332_a_program_that_survives() {
    static RUNS: AtomicU32 = AtomicU32::new(0);
    sim::cancel_everywhere(|| {
        RUNS.fetch_add(1, Relaxed);
        let _ = ecru::yield_now();
    });
    assert!(RUNS.load(Relaxed) > 4 * 3);
}

/// - given: a program that ignores an error of its second write
/// - when: `fault_everywhere` runs it
/// - then: it panics with the number of the operation, a trace and the command; a program that
///   expects each operation to fail passes
#[test]
fn sim_333_an_error_that_is_ignored() {
    let write = |checks: bool| -> std::io::Result<()> {
        ecru::fs::write("one", "1")?;
        let second = ecru::fs::write("two", "2");
        if checks {
            second?;
        }
        let text = ecru::fs::read_to_string("two")?;
        assert_eq!(text, "2", "the second write is lost");
        Ok(())
    };
    let text = panic_text(move || {
        sim::fault_everywhere(move || {
            ecru::fs::write("two", "").unwrap_or_default();
            let _ = write(false);
        });
    });
    for part in ["the second write is lost", "failed with EIO", " fault@", "ECRU_SIM_SEED="] {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    sim::fault_everywhere(move || {
        let _ = write(true);
    });
}

/// - given: a program that binds a socket to an address with a name
/// - when: `fault_everywhere` runs it
/// - then: the lookup of the name fails with `EIO` in one run for each of the four seeds
#[test]
fn sim_334_a_lookup_that_fails() {
    static FAILED: AtomicU32 = AtomicU32::new(0);
    sim::fault_everywhere(|| {
        let bound = ecru::net::UdpSocket::bind("localhost:0");
        if bound.is_err_and(|error| error.raw_os_error() == Some(libc::EIO)) {
            FAILED.fetch_add(1, Relaxed);
        }
    });
    assert_eq!(FAILED.load(Relaxed), 4);
}

/// Returns the errors of one call in runs with one seed in which one operation fails, in order.
fn errors_of(call: fn() -> std::io::Result<()>) -> Vec<i32> {
    let errors = std::sync::Mutex::new(vec![]);
    sim::fault_everywhere(|| {
        errors.lock().unwrap().extend(call().err().map(|error| error.raw_os_error().unwrap()));
    });
    let errors = errors.into_inner().unwrap();
    let of_a_seed = &errors[..errors.len() / 4];
    assert!(errors.chunks(of_a_seed.len().max(1)).all(|others| others == of_a_seed), "{errors:?}");
    of_a_seed.to_vec()
}

/// - given: a program that opens sockets, binds them and listens, or opens a pipe or an eventfd
/// - when: `fault_everywhere` runs it
/// - then: each opening fails with `EMFILE`, each binding and each listening with `EADDRINUSE`, in
///   one run for each of the four seeds
#[test]
fn sim_365_openings_and_bindings_fail() {
    use ecru::net::{TcpListener, UdpSocket, UnixDatagram, UnixListener, UnixStream};
    use libc::{EADDRINUSE, EMFILE};
    assert_eq!(
        errors_of(|| TcpListener::bind("127.0.0.1:7000").map(drop)),
        [EMFILE, EADDRINUSE, EADDRINUSE]
    );
    assert_eq!(
        errors_of(|| UnixListener::bind("path").map(drop)),
        [EMFILE, EADDRINUSE, EADDRINUSE]
    );
    assert_eq!(errors_of(|| UdpSocket::bind("0.0.0.0:0").map(drop)), [EMFILE, EADDRINUSE]);
    assert_eq!(errors_of(|| UnixDatagram::bind("path").map(drop)), [EMFILE, EADDRINUSE]);
    assert_eq!(errors_of(|| UnixDatagram::unbound().map(drop)), [EMFILE]);
    assert_eq!(errors_of(|| UnixStream::pair().map(drop)), [EMFILE]);
    assert_eq!(errors_of(|| ecru::io::pipe().map(drop)), [EMFILE]);
    assert_eq!(errors_of(|| ecru::io::EventFd::new().map(drop)), [EMFILE]);
}

/// - given: a program that expects that it can listen
/// - when: `fault_everywhere` runs it
/// - then: the message names the operation and its error
#[test]
fn sim_366_a_listener_that_must_be_there() {
    let text = panic_text(|| {
        sim::fault_everywhere(|| drop(ecru::net::TcpListener::bind("127.0.0.1:7000").unwrap()));
    });
    assert!(text.contains("I/O operation 1 failed with EMFILE"), "{text}");
    let text = panic_text(|| {
        sim::fault_everywhere(|| {
            let bound = ecru::net::TcpListener::bind("127.0.0.1:7000");
            if let Err(error) = bound {
                assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
            }
        });
    });
    assert!(text.contains("I/O operation 2 failed with EADDRINUSE"), "{text}");
}

/// - given: a program whose set-up starts a server on a host, stores a file by way of it, and panics
///   or has a set-up inside
/// - when: `fault_everywhere` runs it
/// - then: no operation of the set-up fails, on any host; each one after it fails once for each seed
#[test]
fn sim_415_the_set_up_of_a_test_does_not_fail() {
    use ecru::net::{TcpListener, TcpStream};
    use std::io::{Read, Write};
    static RUNS: AtomicU32 = AtomicU32::new(0);
    static FAILED: AtomicU32 = AtomicU32::new(0);
    let store = |address: std::net::IpAddr| -> std::io::Result<()> {
        let mut stream = TcpStream::connect((address, 80))?;
        stream.write_all(b"stored")?;
        stream.shutdown(std::net::Shutdown::Write)?;
        stream.read_to_string(&mut String::new()).map(drop)
    };
    sim::fault_everywhere(|| {
        RUNS.fetch_add(1, Relaxed);
        let server = sim::set_up(|| {
            let server = sim::host("server", || {
                TcpListener::bind("0.0.0.0:80")?.serve(10, |mut stream, _| {
                    let mut text = String::new();
                    stream.read_to_string(&mut text)?;
                    ecru::fs::write("file", text)
                })
            });
            sim::settle();
            // It ends with its closure, also if that panics.
            let inner = || sim::set_up(|| -> () { std::panic::resume_unwind(Box::new("inner")) });
            assert!(std::panic::catch_unwind(inner).is_err());
            store(server.addr()).unwrap();
            ecru::fs::write("own", "1").unwrap();
            server
        });
        drop(server);
        // One operation that may fail.
        if ecru::fs::read_to_string("own").is_err() {
            FAILED.fetch_add(1, Relaxed);
        }
        let left = sim::set_up(|| ecru::fs::read_to_string("own"));
        assert_eq!(left.unwrap(), "1");
    });
    // For each seed, one operation fails at least. Some runs are repeated.
    let (runs, failed) = (RUNS.load(Relaxed), FAILED.load(Relaxed));
    assert!(failed >= 4 && runs >= 8 + failed, "{failed} of {runs}");
    assert_eq!(sim::set_up(|| 7), 7, "outside of a simulation");
}
