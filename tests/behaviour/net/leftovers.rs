//! Nothing is left over when tasks panic or give up.

use super::open_fds;
use crate::streams::{assert_cancelled, listen, pair};
use crate::support::{HOUR, alone, begin, each_run, ms, panic_text, quiet_panic, run_on, settle};
use ecru::net::{TcpListener, TcpStream};
use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// - given: a task whose sibling in a scope panics while a read is parked
/// - when: the scope unwinds
/// - then: the read is cancelled, and its completion is awaited before the buffer is freed
#[test]
fn net_29_panics_with_io_in_flight() {
    each_run(|| {
        let (client, mut server) = pair();
        let mut buffer = [7_u8; 64];
        let ended = AtomicUsize::new(0);
        let text = panic_text(|| {
            ecru::scope(|s| {
                // Borrows locals of the frame that the panic unwinds.
                begin(s, || {
                    let result = (&client).read(&mut buffer);
                    ended.fetch_add(1, SeqCst);
                    assert_cancelled(&result.unwrap_err());
                });
                ecru::sleep(ms(2)).unwrap();
                quiet_panic("the body");
            });
        });
        assert_eq!((text.as_str(), ended.load(SeqCst)), ("the body", 1));
        // These bytes come too late for a read that was given up without being awaited.
        server.write_all(&[9; 64]).unwrap();
        settle();
        assert_eq!(buffer, [7; 64]);
        (&client).read_exact(&mut buffer).unwrap();
        assert_eq!(buffer, [9; 64]);
    });
}

#[test]
fn net_29_panics_with_io_in_flight_of_a_sibling() {
    each_run(|| {
        let (client, mut server) = pair();
        let mut buffer = [7_u8; 64];
        let text = panic_text(|| {
            ecru::try_scope(|s| {
                s.spawn(|| -> io::Result<()> {
                    ecru::sleep(ms(2))?;
                    quiet_panic("a sibling");
                });
                let count = (&client).read(&mut buffer)?;
                Ok::<usize, io::Error>(count)
            })
        });
        assert!(text.contains("a sibling"), "{text}");
        server.write_all(&[9; 64]).unwrap();
        settle();
        assert_eq!(buffer, [7; 64]);
        (&client).read_exact(&mut buffer).unwrap();
        assert_eq!(buffer, [9; 64]);
    });
}

/// - given: a process that may open no more files
/// - when: it connects, binds, accepts, clones, or waits for the first time
/// - then: an error says so; open sockets continue to work, and everything works again once files
///   can be opened
#[test]
fn net_37_no_fd_left() {
    alone("net::leftovers::net_37_no_fd_left", || {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        // One worker that has its driver, and one run that does not.
        for has_driver in [true, false] {
            run_on(1, || {
                let (listener, address) = listen();
                // The pair is created without a wait, which would start the driver.
                let (mut client, mut server) = ecru::net::UnixStream::pair().unwrap();
                let _waiting = std::net::TcpStream::connect(address).unwrap();
                if has_driver {
                    assert!(ecru::timeout(ms(1), || client.read(&mut [0])).is_err());
                }
                let before = getrlimit(Resource::Nofile);
                let few = Some(open_fds() as u64 + 10);
                setrlimit(Resource::Nofile, Rlimit { current: few, ..before }).unwrap();
                let mut rest = Vec::new();
                while let Ok(file) = std::fs::File::open("/dev/null") {
                    rest.push(file);
                }
                let none_left = |error: io::Error| {
                    assert_eq!(error.raw_os_error(), Some(rustix::io::Errno::MFILE.raw_os_error()));
                };
                none_left(TcpStream::connect(address).unwrap_err());
                none_left(TcpListener::bind("127.0.0.1:0").unwrap_err());
                none_left(listener.accept().unwrap_err());
                none_left(client.try_clone().unwrap_err());
                none_left(ecru::net::UnixStream::pair().unwrap_err());
                // Open sockets still work, unless a call has to wait for the first time.
                server.write_all(b"x").unwrap();
                client.read_exact(&mut [0]).unwrap();
                let limit = if has_driver { ms(1) } else { HOUR };
                match ecru::timeout(limit, || client.read(&mut [0])) {
                    Err(_) => assert!(has_driver),
                    Ok(result) => {
                        assert!(!has_driver);
                        let text = result.unwrap_err().to_string();
                        assert!(text.contains("open files"), "{text}");
                    }
                }
                drop(rest);
                // Calls that failed before now succeed, because the refusal is not remembered.
                listener.accept().unwrap();
                assert!(ecru::timeout(ms(1), || client.read(&mut [0])).is_err());
                TcpStream::connect(address).unwrap();
                setrlimit(Resource::Nofile, before).unwrap();
            });
        }
    });
}
