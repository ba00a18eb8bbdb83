//! The choice of driver, and what it remembers about descriptors.

use crate::refused::{RINGS, forbid};
use crate::streams::{listen, pair};
use crate::support::{Watchdog, alone_with, ms, until};
use ecru::net::{Shutdown, TcpStream};
use ecru::{DriverKind, Runtime};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Command, Output};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

const BOTH: [DriverKind; 2] = [DriverKind::Uring, DriverKind::Poll];

/// Runs `body` on each driver, with one worker and with two.
#[track_caller]
fn each_driver(body: impl Fn()) {
    for kind in BOTH {
        for workers in [1, 2] {
            let _watchdog = Watchdog::new();
            let runtime = Runtime::builder()
                .workers(workers)
                .placement(ecru::Placement::Together)
                .driver(kind)
                .build()
                .unwrap();
            assert_eq!(runtime.driver_kind(), kind);
            runtime.run(&body);
        }
    }
}

/// A server that waits for its client, and a client that waits for its server.
fn echo_on(runtime: &Runtime) {
    let _watchdog = Watchdog::new();
    runtime.run(|| {
        let (listener, address) = listen();
        ecru::scope(|s| {
            s.spawn(move || {
                let (mut stream, _) = listener.accept().unwrap();
                let mut bytes = [0; 5];
                while stream.read_exact(&mut bytes).is_ok() {
                    stream.write_all(&bytes).unwrap();
                }
            });
            let mut client = TcpStream::connect(address).unwrap();
            for _ in 0..3 {
                ecru::sleep(ms(1)).unwrap();
                client.write_all(b"hello").unwrap();
                let mut bytes = [0; 5];
                client.read_exact(&mut bytes).unwrap();
                assert_eq!(&bytes, b"hello");
            }
        });
    });
}

/// Runs `body` in a process of its own with these variables and no others about drivers. Returns
/// `None` in the child.
fn alone(test: &str, variables: &[(&str, &str)], body: impl FnOnce()) -> Option<Output> {
    let prepare = |command: &mut Command| {
        command.env_remove("ECRU_DRIVER").env_remove("ECRU_LOG").envs(variables.iter().copied());
    };
    alone_with(test, prepare, body)
}

/// Returns what a child has printed about its driver.
fn lines(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr);
    text.lines().filter(|line| line.starts_with("ecru: ")).map(str::to_owned).collect()
}

/// - given: neither the program nor the environment names a driver
/// - when: the kernel allows io_uring
/// - then: io_uring is used, `driver_kind` returns it, and nothing is printed
#[test]
fn driver_01_the_best() {
    let output = alone("driver::driver_01_the_best", &[], || {
        let runtime = Runtime::builder().workers(1).build().unwrap();
        echo_on(&runtime);
        assert_eq!(runtime.driver_kind(), DriverKind::Uring);
    });
    assert!(output.is_none_or(|output| lines(&output).is_empty()));
}

/// - given: `ECRU_DRIVER` is `uring` or `poll`
/// - when: a runtime is built
/// - then: that driver is used, and nothing is printed; a kind that the program names takes
///   precedence
#[test]
fn driver_02_environment() {
    for (name, kind) in [("uring", DriverKind::Uring), ("poll", DriverKind::Poll)] {
        let output = alone("driver::driver_02_environment", &[("ECRU_DRIVER", name)], || {
            let said = std::env::var("ECRU_DRIVER").unwrap();
            let kind = if said == "poll" { DriverKind::Poll } else { DriverKind::Uring };
            let runtime = Runtime::builder().workers(1).build().unwrap();
            echo_on(&runtime);
            assert_eq!(runtime.driver_kind(), kind);
            for kind in BOTH {
                let runtime = Runtime::builder().workers(1).driver(kind).build().unwrap();
                echo_on(&runtime);
                assert_eq!(runtime.driver_kind(), kind);
            }
        });
        let Some(output) = output else { return };
        assert!(lines(&output).is_empty(), "{kind:?} was asked for");
    }
}

/// - given: `ECRU_DRIVER` is something else
/// - when: a runtime is built
/// - then: an error of kind `InvalidInput` quotes the value, unless the program names a kind
#[test]
fn driver_03_misspelt() {
    alone("driver::driver_03_misspelt", &[("ECRU_DRIVER", "urnig")], || {
        let error = Runtime::builder().build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("\"urnig\""), "{error}");
        for kind in BOTH {
            echo_on(&Runtime::builder().driver(kind).build().unwrap());
        }
    });
}

/// Returns sets of forbidden system calls, with their error.
fn filters() -> Vec<(&'static [libc::c_long], i32)> {
    vec![
        (&RINGS, libc::EPERM),
        (&RINGS, libc::ENOSYS),
        (&RINGS[..1], libc::EPERM),
        (&RINGS[1..2], libc::EPERM),
        (&RINGS[2..], libc::EPERM),
    ]
}

/// - given: a process to which some or all calls of io_uring are forbidden
/// - when: its runtimes listen, connect and echo
/// - then: they work, on `poll`, and one line on standard error says so once, with the reason
#[test]
fn driver_04_falls_back() {
    for number in 0..filters().len() {
        let variable = [("ECRU_TEST_FILTER", &*number.to_string())];
        let output = alone("driver::driver_04_falls_back", &variable, || {
            let number: usize = std::env::var("ECRU_TEST_FILTER").unwrap().parse().unwrap();
            let (calls, errno) = filters()[number];
            forbid(calls, errno);
            for workers in [1, 2] {
                let runtime = Runtime::builder()
                    .workers(workers)
                    .placement(ecru::Placement::Together)
                    .build()
                    .unwrap();
                echo_on(&runtime);
                assert_eq!(runtime.driver_kind(), DriverKind::Poll);
            }
        });
        let Some(output) = output else { return };
        let said = lines(&output);
        assert_eq!(said.len(), 1, "{said:?}");
        let begin = "ecru: the driver is poll: the kernel refuses io_uring (";
        assert!(said[0].starts_with(begin) && said[0].contains("seccomp"), "{said:?}");
    }
}

/// - given: a process to which some or all calls of io_uring are forbidden
/// - when: a runtime is built with `DriverKind::Uring`
/// - then: an error says what was refused and what to do
#[test]
fn driver_05_insists() {
    alone("driver::driver_05_insists", &[], || {
        forbid(&RINGS, libc::EPERM);
        let error = Runtime::builder().driver(DriverKind::Uring).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        let text = error.to_string();
        for part in ["io_uring", "kernel.io_uring_disabled", "seccomp", "io_uring_setup"] {
            assert!(text.contains(part), "{text}");
        }
        echo_on(&Runtime::builder().driver(DriverKind::Poll).build().unwrap());
    });
}

/// - given: `ECRU_LOG` is set, and neither empty nor `0`
/// - when: a program does its first IO
/// - then: one line on standard error names the driver, and says what decided it
#[test]
fn driver_06_log() {
    for (driver, log, expected) in [
        ("", "1", Some("ecru: the driver is uring: the kernel allows io_uring")),
        ("uring", "1", Some("ecru: the driver is uring: ECRU_DRIVER=uring")),
        ("poll", "1", Some("ecru: the driver is poll: ECRU_DRIVER=poll")),
        ("poll", "0", None),
        ("", "", None),
    ] {
        let variables = [("ECRU_DRIVER", driver), ("ECRU_LOG", log)];
        let output = alone("driver::driver_06_log", &variables, || {
            for _ in 0..2 {
                echo_on(&Runtime::builder().workers(1).build().unwrap());
            }
        });
        let Some(output) = output else { return };
        assert_eq!(lines(&output), Vec::from_iter(expected));
    }
}

/// - given: several tasks that wait for the same side of the same socket
/// - when: data, room or connections come
/// - then: no task stays parked: each gets its share
#[test]
fn driver_07_several_wait_for_one() {
    const TASKS: usize = 20;
    each_driver(|| {
        let (listener, address) = listen();
        let (client, mut server) = pair();
        let (begun, read) = (AtomicUsize::new(0), AtomicUsize::new(0));
        ecru::scope(|s| {
            for _ in 0..TASKS {
                s.spawn(|| {
                    begun.fetch_add(1, SeqCst);
                    listener.accept().unwrap()
                });
                s.spawn(|| {
                    begun.fetch_add(1, SeqCst);
                    let mut byte = [0];
                    assert_eq!((&client).read(&mut byte).unwrap(), 1);
                    read.fetch_add(1, SeqCst);
                });
            }
            until(|| begun.load(SeqCst) == 2 * TASKS);
            ecru::sleep(ms(2)).unwrap();
            // All clients connect at once, and are then served one by one.
            let clients: Vec<_> =
                (0..TASKS).map(|_| TcpStream::connect(address).unwrap()).collect();
            server.write_all(&[1; TASKS / 2]).unwrap();
            until(|| read.load(SeqCst) == TASKS / 2);
            for count in TASKS / 2 + 1..=TASKS {
                server.write_all(&[1]).unwrap();
                until(|| read.load(SeqCst) == count);
            }
            drop(clients);
        });
    });
}

/// Waits on the stream until its peer has written a byte.
fn wait_once(stream: &TcpStream, peer: &TcpStream) {
    ecru::scope(|s| {
        s.spawn_local(|| assert_eq!((&*stream).read(&mut [0; 8]).unwrap(), 1));
        ecru::sleep(ms(1)).unwrap();
        (&*peer).write_all(b"x").unwrap();
    });
}

/// Returns a connection whose first end has the descriptor number of `old`, which is closed.
#[expect(unsafe_code, reason = "calls dup2 onto an owned descriptor")]
fn in_place_of(old: TcpStream) -> (TcpStream, TcpStream) {
    use std::os::fd::{FromRawFd, IntoRawFd};
    let (ours, theirs) = pair();
    let number = OwnedFd::from(old).into_raw_fd();
    // SAFETY: both are open. `number` has no other owner, and belongs to the new file from now on.
    let made = unsafe { libc::dup2(OwnedFd::from(ours).as_raw_fd(), number) };
    assert_eq!(made, number);
    // SAFETY: as above.
    let taken = unsafe { OwnedFd::from_raw_fd(number) };
    (TcpStream::from(taken), theirs)
}

/// - given: a socket that was waited on is closed
/// - when: the next socket gets its descriptor number
/// - then: waits on the new socket concern it, and not its predecessor
#[test]
fn driver_08_number_used_again() {
    each_driver(|| {
        let (mut ours, mut theirs) = pair();
        for _ in 0..5 {
            wait_once(&ours, &theirs);
            // These bytes are never read.
            theirs.write_all(b"lost").unwrap();
            ecru::sleep(ms(1)).unwrap();
            (ours, theirs) = in_place_of(ours);
            let limit = ecru::timeout(ms(2), || (&ours).read(&mut [0; 8]));
            assert!(limit.is_err(), "nothing has come");
        }
    });
}

/// - given: a socket that was waited on is closed while a duplicate of it is open
/// - when: the next socket gets its number, and an event comes for the duplicate
/// - then: no waiter for the new socket is woken wrongly, and no event of either is lost
#[test]
fn driver_09_closed_with_a_duplicate() {
    each_driver(|| {
        let (ours, mut theirs) = pair();
        wait_once(&ours, &theirs);
        let duplicate = ours.try_clone().unwrap();
        let (next, mut peer) = in_place_of(ours);
        ecru::scope(|s| {
            let read = s.spawn_local(|| (&next).read(&mut [0; 8]).unwrap());
            ecru::sleep(ms(1)).unwrap();
            theirs.write_all(b"for the duplicate").unwrap();
            ecru::sleep(ms(1)).unwrap();
            assert!(!read.is_finished());
            peer.write_all(b"abc").unwrap();
            assert_eq!(read.join().unwrap(), 3);
        });
        let mut text = [0; 17];
        (&duplicate).read_exact(&mut text).unwrap();
        assert_eq!(&text, b"for the duplicate");
        wait_once(&duplicate, &theirs);
    });
}

/// - given: a peer that sends and hangs up at once
/// - when: its stream is read into a buffer with room to spare
/// - then: it returns the bytes, then `Ok(0)`
#[test]
fn driver_10_end_with_the_data() {
    each_driver(|| {
        for _ in 0..20 {
            let (client, mut server) = pair();
            let has_one = AtomicBool::new(false);
            ecru::scope(|s| {
                let read = s.spawn(|| {
                    let mut buffer = [0; 64];
                    let first = (&client).read(&mut buffer).unwrap();
                    assert_eq!(first, 1, "the first one is alone");
                    has_one.store(true, SeqCst);
                    [(); 3].map(|()| (&client).read(&mut buffer).unwrap())
                });
                server.write_all(b"1").unwrap();
                until(|| has_one.load(SeqCst));
                ecru::sleep(ms(1)).unwrap();
                // No worker polls between these two writes, unless there is a second one.
                server.write_all(b"the rest").unwrap();
                server.shutdown(Shutdown::Write).unwrap();
                assert_eq!(read.join().unwrap(), [8, 0, 0]);
            });
        }
    });
}

/// - given: a reader and a writer parked on one connection
/// - when: the peer resets it
/// - then: both return
#[test]
fn driver_11_both_sides_of_a_reset() {
    each_driver(|| {
        let (client, server) = pair();
        ecru::scope(|s| {
            let read = s.spawn(|| (&client).read(&mut [0; 8]));
            let write = s.spawn(|| {
                loop {
                    if let Err(error) = (&client).write(&[0; 1 << 16]) {
                        return error;
                    }
                }
            });
            ecru::sleep(ms(5)).unwrap();
            assert!(!read.is_finished() && !write.is_finished());
            // Closing with unread bytes causes a reset.
            drop(server);
            let kinds = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];
            let error = write.join().unwrap();
            assert!(kinds.contains(&error.kind()), "{error}");
            // The kernel reports the error to the first call, and the end to the next.
            match read.join().unwrap() {
                Ok(count) => assert_eq!(count, 0),
                Err(error) => assert!(kinds.contains(&error.kind()), "{error}"),
            }
        });
    });
}

/// - given: one socket, with a reader on each of two workers
/// - when: messages come
/// - then: every message is read, by either worker
#[test]
fn driver_12_each_worker_hears() {
    const MESSAGES: usize = 200;
    for kind in BOTH {
        let _watchdog = Watchdog::new();
        let runtime = Runtime::builder()
            .workers(2)
            .placement(ecru::Placement::Spread)
            .driver(kind)
            .build()
            .unwrap();
        runtime.run(|| {
            let (client, mut server) = pair();
            let read = AtomicUsize::new(0);
            ecru::scope(|s| {
                for _ in 0..2 {
                    s.spawn(|| {
                        let mut byte = [0];
                        while (&client).read(&mut byte).unwrap() == 1 {
                            read.fetch_add(1, SeqCst);
                        }
                    });
                }
                for count in 1..=MESSAGES {
                    server.write_all(&[1]).unwrap();
                    until(|| read.load(SeqCst) == count);
                }
                drop(server);
            });
        });
    }
}
