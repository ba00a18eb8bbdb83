//! The descriptors of a host: how many there may be, and what is shown of them.

use super::{MS, SECOND, ask, each_seed, echo_host};
use ecru::io::{EventFd, pipe};
use ecru::net::{TcpListener, TcpStream, UdpSocket, UnixStream};
use ecru::sim::{self, Faults, Simulation};
use std::collections::BTreeSet;
use std::io::{self, Read, Write};

const EMFILE: Option<i32> = Some(24);

/// - given: a host that may have four open descriptors
/// - when: it opens files, sockets, pipes and notifications, and accepts connections
/// - then: the fifth one fails with the system's `EMFILE`, until one is closed; other hosts have
///   limits of their own
#[test]
fn sim_170_a_host_has_a_limit_of_descriptors() {
    let report = Simulation::new(1).faults(Faults::none().open_files(4)).run(|| {
        let server = sim::host("server", || {
            let listener = TcpListener::bind("0.0.0.0:80")?;
            let file = ecru::fs::File::create("file")?;
            let (one, other) = UnixStream::pair()?;
            assert_eq!(UdpSocket::bind("0.0.0.0:0").unwrap_err().raw_os_error(), EMFILE);
            assert_eq!(ecru::fs::File::open("file").unwrap_err().raw_os_error(), EMFILE);
            // The connection waits, and is accepted when there is room.
            assert_eq!(listener.accept().unwrap_err().raw_os_error(), EMFILE);
            drop(one);
            let (mut stream, _) = listener.accept()?;
            assert_eq!(EventFd::new().unwrap_err().raw_os_error(), EMFILE);
            drop(other);
            assert_eq!(pipe().unwrap_err().raw_os_error(), EMFILE);
            drop(file);
            drop(pipe()?);
            stream.write_all(b"accepted")
        });
        sim::settle();
        let mut stream = TcpStream::connect("server:80")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        assert_eq!((text.as_str(), sim::elapsed() < SECOND), ("accepted", true));
        // A crash closes them.
        server.restart();
        ecru::sleep(SECOND)?;
        TcpStream::connect("server:80")?.read_to_string(&mut text)?;
        io::Result::Ok(())
    });
    report.unwrap().unwrap();
}

/// - given: calls that sometimes find too many open files
/// - when: a server and its clients repeat what fails
/// - then: all is done in the end; runs with one seed have the same failures, and `calm` ends them
#[test]
fn sim_171_descriptors_run_out_by_chance() {
    let run = |seed| {
        let faults = Faults::none().too_many_open_files(0.3);
        let report = Simulation::new(seed).faults(faults).run(|| {
            sim::host("server", || {
                let listener = loop {
                    if let Ok(listener) = TcpListener::bind("0.0.0.0:80") {
                        break listener;
                    }
                };
                listener.serve(10, |mut stream, _| stream.write_all(b"x"))
            });
            sim::settle();
            let (mut done, mut failures) = (0, 0);
            while done < 20 {
                let asked =
                    TcpStream::connect("server:80").and_then(|mut s| s.read_exact(&mut [0]));
                match asked {
                    Ok(()) => done += 1,
                    Err(error) => {
                        assert_eq!(error.raw_os_error(), EMFILE);
                        failures += 1;
                    }
                }
            }
            sim::calm();
            for _ in 0..20 {
                TcpStream::connect("server:80").unwrap();
                ecru::fs::write("file", "text").unwrap();
            }
            failures
        });
        (report.trace_hash, report.unwrap())
    };
    let found: Vec<(u64, u32)> = (0..4).map(run).collect();
    assert_eq!(found, (0..4).map(run).collect::<Vec<_>>());
    let failures: BTreeSet<u32> = found.iter().map(|(_, failures)| *failures).collect();
    assert!(failures.len() > 1, "{failures:?}");
}

/// - given: sockets, files and notifications of a simulation, and a task that waits for one
/// - when: they are shown, and a dump is taken
/// - then: sockets show their addresses, all show a number of the simulation, and nothing shows a
///   descriptor that does not exist
#[test]
fn sim_172_what_is_shown_of_descriptors() {
    each_seed(|| {
        let _server = echo_host("server");
        let mut stream = TcpStream::connect("server:80").unwrap();
        ask(&mut stream, b"hello").unwrap();
        let text = format!("{stream:?}");
        for part in ["addr: 10.0.255.254:", "peer: 10.0.0.1:80", "fd: simulated("] {
            assert!(text.contains(part), "{text}");
        }
        let listener = TcpListener::bind("0.0.0.0:7").unwrap();
        let file = ecru::fs::File::create("file").unwrap();
        let shown = [
            format!("{:?}", UdpSocket::bind("0.0.0.0:9").unwrap()),
            format!("{listener:?}"),
            format!("{file:?}"),
            format!("{:?}", EventFd::new().unwrap()),
        ];
        for text in shown {
            assert!(text.contains("simulated(") && !text.contains("-1"), "{text}");
        }
        ecru::scope(|s| {
            s.spawn_daemon(|| listener.accept().map(drop));
            ecru::sleep(MS).unwrap();
            let tree = ecru::RuntimeHandle::current().dump().to_string();
            assert!(tree.contains("connection") && !tree.contains("fd -1"), "{tree}");
        });
    });
}
