//! Hosts that crash and start again.

use super::{MS, SECOND, ask, each_seed, echo_host, run};
use ecru::Cancelled;
use ecru::net::{TcpListener, TcpStream, UdpSocket};
use ecru::sim::{self, Failure, Simulation};
use std::io::{ErrorKind, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// - given: a host with tasks that wait for a socket, a timer and a channel
/// - when: it crashes
/// - then: their waits fail with `Cancelled` in no virtual time
#[test]
fn sim_120_a_crash_cancels_the_tasks_of_a_host() {
    each_seed(|| {
        let cancelled = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&cancelled);
        let host = sim::host("host", move || {
            let listener = TcpListener::bind("0.0.0.0:80")?;
            let (_tx, rx) = ecru::channel::bounded::<()>(1);
            let note = |is_cancelled: bool| {
                count.fetch_add(u32::from(is_cancelled), Relaxed);
            };
            ecru::scope(|s| {
                s.spawn(|| note(Cancelled::find(&listener.accept().unwrap_err()).is_some()));
                s.spawn(|| note(ecru::sleep(60 * SECOND).is_err()));
                s.spawn(|| note(rx.recv().is_err()));
            });
            Ok(())
        });
        ecru::sleep(SECOND).unwrap();
        host.crash();
        host.crash();
        sim::settle();
        assert_eq!((cancelled.load(Relaxed), sim::elapsed()), (3, SECOND));
    });
}

/// - given: a task of a host, under a shield
/// - when: the host has crashed
/// - then: what the task still does to sockets, files and datagrams fails and has no effect outside
#[test]
fn sim_121_a_crashed_host_has_no_effect_outside() {
    each_seed(|| {
        let receiver = UdpSocket::bind("0.0.0.0:9").unwrap();
        let failed = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&failed);
        let server = sim::host("server", move || {
            let listener = TcpListener::bind("0.0.0.0:80")?;
            let (mut stream, peer) = listener.accept()?;
            let socket = UdpSocket::bind("0.0.0.0:9")?;
            let _ = ecru::sleep(60 * SECOND);
            let note = |failed: bool| _ = count.fetch_add(u32::from(failed), Relaxed);
            ecru::shield(|| {
                note(stream.write(b"from the grave").is_err());
                note(socket.send_to(b"x", (peer.ip(), 9)).is_err());
                note(UdpSocket::bind("0.0.0.0:0").is_err());
                note(TcpStream::connect((peer.ip(), 80)).is_err());
            });
            Ok(())
        });
        sim::settle();
        let mut stream = TcpStream::connect("server:80").unwrap();
        ecru::sleep(SECOND).unwrap();
        server.power_fail();
        sim::settle();
        assert_eq!(failed.load(Relaxed), 4);
        stream.set_read_timeout(Some(SECOND)).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        receiver.set_read_timeout(Some(SECOND)).unwrap();
        assert_eq!(receiver.recv(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
    });
}

/// - given: a connection to a host that loses its power
/// - when: this end sends something, and the host starts again
/// - then: nothing comes until then, and then the connection fails with `ConnectionReset`
#[test]
fn sim_122_a_host_that_is_back_resets_its_old_connections() {
    each_seed(|| {
        let server = echo_host("server");
        let mut stream = TcpStream::connect("server:80").unwrap();
        ask(&mut stream, b"hello").unwrap();
        server.power_fail();
        stream.write_all(b"anyone?").unwrap();
        stream.set_read_timeout(Some(60 * SECOND)).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        stream.set_read_timeout(None).unwrap();
        server.restart();
        let begun = sim::elapsed();
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
        assert_eq!(sim::elapsed() - begun, 2 * MS);
    });
}

/// - given: a host that counts its starts
/// - when: it is restarted, while it runs and after a crash
/// - then: its closure runs again, after the tasks of the earlier start have ended, and its ports
///   are free
#[test]
fn sim_123_a_restart_runs_the_closure_again() {
    each_seed(|| {
        let (starts, running) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (count, inside) = (Arc::clone(&starts), Arc::clone(&running));
        let server = sim::host("server", move || {
            assert_eq!(inside.fetch_add(1, Relaxed), 0, "one start at a time");
            count.fetch_add(1, Relaxed);
            let listener = TcpListener::bind("0.0.0.0:80")?;
            let result = listener.accept().map(drop);
            inside.fetch_sub(1, Relaxed);
            result
        });
        for round in 1..4 {
            ecru::sleep(SECOND).unwrap();
            assert_eq!((starts.load(Relaxed), running.load(Relaxed)), (round, 1));
            if round == 2 {
                server.crash();
                ecru::sleep(SECOND).unwrap();
                assert_eq!((starts.load(Relaxed), running.load(Relaxed)), (round, 0));
            }
            server.restart();
        }
        sim::settle();
        assert_eq!(starts.load(Relaxed), 4);
        TcpStream::connect("server:80").unwrap();
    });
}

/// - given: a host
/// - when: it is restarted several times in a row, and crashed at once
/// - then: the last call counts
#[test]
fn sim_124_the_last_of_several_restarts_counts() {
    each_seed(|| {
        let starts = Arc::new(AtomicU32::new(0));
        let count = Arc::clone(&starts);
        let server = sim::host("server", move || {
            count.fetch_add(1, Relaxed);
            super::echo()
        });
        server.crash();
        server.restart();
        server.restart();
        server.crash();
        ecru::sleep(SECOND).unwrap();
        let before = starts.load(Relaxed);
        assert!(TcpStream::connect_timeout(&"10.0.0.1:80".parse().unwrap(), SECOND).is_err());
        server.restart();
        ecru::sleep(SECOND).unwrap();
        assert_eq!(starts.load(Relaxed), before + 1);
        ask(&mut TcpStream::connect("server:80").unwrap(), b"hello").unwrap();
    });
}

/// - given: a host whose closure panics or returns an error
/// - when: the program goes on
/// - then: the simulation fails with `Panicked`, which has the panic or names the host and the
///   error
#[test]
fn sim_125_a_host_that_fails_fails_the_simulation() {
    for (index, expected) in ["on purpose", "the host 'host' failed: address"].iter().enumerate() {
        let report = Simulation::new(1).run(move || {
            sim::host("host", move || {
                let listener = TcpListener::bind("0.0.0.0:80")?;
                ecru::sleep(SECOND)?;
                assert!(index == 1, "on purpose");
                TcpListener::bind(listener.local_addr()?)
                    .map(drop)
                    .map_err(|error| std::io::Error::new(error.kind(), "address in use"))
            });
            ecru::sleep(3600 * SECOND)
        });
        assert_eq!(report.elapsed, SECOND);
        let failure = report.result.unwrap_err();
        assert!(matches!(failure, Failure::Panicked(_)), "{failure}");
        assert!(failure.to_string().contains(expected), "{failure}");
    }
}

/// - given: hosts whose closures wait for ever
/// - when: the closure of the run returns
/// - then: they are cancelled, and the run ends at that moment
#[test]
fn sim_126_hosts_end_with_the_program() {
    let report = Simulation::new(1).run(|| {
        echo_host("one");
        let other = echo_host("other");
        other.crash();
        ecru::sleep(SECOND).unwrap();
        7
    });
    assert_eq!((report.elapsed, report.unwrap()), (SECOND, 7));
}

/// - given: a disk with a file
/// - when: its host crashes and starts again
/// - then: the file is there, and the root's disk has none of that name
#[test]
fn sim_127_a_disk_outlives_a_crash() {
    run(1, || {
        let (tx, rx) = ecru::channel::bounded(9);
        let host = sim::host("host", move || {
            let found = ecru::fs::read_to_string("/tmp/file").ok();
            tx.send(found).unwrap();
            ecru::fs::write("/tmp/file", "text")?;
            ecru::sleep(3600 * SECOND)?;
            Ok(())
        });
        assert_eq!(rx.recv().unwrap(), None);
        sim::settle();
        host.restart();
        assert_eq!(rx.recv().unwrap().as_deref(), Some("text"));
        assert!(ecru::fs::read("/tmp/file").is_err());
    });
}

/// - given: a server whose host is paused
/// - when: a client sends a request, and the host goes on after a minute
/// - then: the answer comes then, and the connection has stood
#[test]
fn sim_128_a_paused_host_is_slow() {
    each_seed(|| {
        let server = echo_host("server");
        let mut stream = TcpStream::connect("server:80").unwrap();
        ask(&mut stream, b"before").unwrap();
        server.pause();
        stream.write_all(b"during").unwrap();
        // Its system still takes connections.
        let mut other = TcpStream::connect("server:80").unwrap();
        let mut answer = [0; 6];
        let begun = sim::elapsed();
        assert!(ecru::timeout(60 * SECOND, || stream.read(&mut answer)).is_err());
        server.resume();
        stream.read_exact(&mut answer).unwrap();
        assert_eq!((&answer, sim::elapsed() - begun), (b"during", 60 * SECOND + MS));
        ask(&mut other, b"afterwards").unwrap();
        // A crash ends a pause, and so does the end of the program.
        server.pause();
        server.restart();
        ecru::sleep(SECOND).unwrap();
        ask(&mut TcpStream::connect("server:80").unwrap(), b"again").unwrap();
        server.pause();
    });
}
