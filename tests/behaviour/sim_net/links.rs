//! What befalls links.

use super::{MS, SECOND, ask, each_seed, echo_host, run};
use ecru::net::TcpStream;
use ecru::sim::{self, Faults, Link, Simulation};
use ecru::timeout;
use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

/// A host that does nothing, from which nothing comes.
fn client_side() -> sim::Host {
    sim::host("client", || Ok(()))
}

/// - given: a client on one host and a server on another
/// - when: their link is partitioned during a request, and healed after a time limit has passed
/// - then: the request times out, and its answer still comes after the heal
#[test]
fn sim_110_a_partition_ends_with_heal() {
    each_seed(|| {
        let server = echo_host("server");
        let (tx, rx) = ecru::channel::bounded(1);
        let client = sim::host("client", move || {
            let mut stream = TcpStream::connect("server:80")?;
            ask(&mut stream, b"before")?;
            tx.send(sim::elapsed()).unwrap();
            ecru::sleep(SECOND)?;
            stream.write_all(b"during")?;
            let mut answer = [0; 6];
            assert!(timeout(5 * SECOND, || stream.read(&mut answer)).is_err());
            assert_eq!(sim::elapsed(), 4 * MS + 6 * SECOND);
            stream.read_exact(&mut answer)?;
            tx.send(sim::elapsed()).unwrap();
            assert_eq!(&answer, b"during");
            Ok(())
        });
        assert_eq!(rx.recv().unwrap(), 4 * MS);
        sim::partition(&[&server], &[&client]);
        ecru::sleep(10 * SECOND).unwrap();
        sim::heal();
        assert_eq!(rx.recv().unwrap(), 10 * SECOND + 6 * MS);
    });
}

/// - given: a partition in one direction
/// - when: both sides send
/// - then: what goes the other way arrives
#[test]
fn sim_111_a_partition_may_have_one_direction() {
    each_seed(|| {
        let server = sim::host("server", || {
            let (mut stream, _) = ecru::net::TcpListener::bind("0.0.0.0:80")?.accept()?;
            ecru::sleep(2 * SECOND)?;
            stream.write_all(b"one way")?;
            ecru::sleep(100 * SECOND)?;
            Ok(())
        });
        let (tx, rx) = ecru::channel::bounded(1);
        let client = sim::host("client", move || {
            let mut stream = TcpStream::connect("server:80")?;
            ecru::sleep(MS)?;
            tx.send(()).unwrap();
            stream.read_exact(&mut [0; 7])?;
            tx.send(()).unwrap();
            Ok(())
        });
        rx.recv().unwrap();
        sim::partition_one_way(&client, &server);
        rx.recv().unwrap();
        assert!(sim::elapsed() < 3 * SECOND);
        sim::heal();
        sim::partition_one_way(&server, &client);
        let error = super::on_host("third", || TcpStream::connect("client:80")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
    });
}

/// - given: a host that cannot be reached
/// - when: a client connects to it
/// - then: the attempt fails with `TimedOut` after 127 s, as on Linux, or after its own limit
#[test]
fn sim_112_an_attempt_to_connect_times_out() {
    run(1, || {
        let server = echo_host("server");
        let far = move || {
            let begun = sim::elapsed();
            let error = TcpStream::connect("server:80").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            assert_eq!(sim::elapsed() - begun, 127 * SECOND);
            let address = "10.0.0.1:80".parse().unwrap();
            let error = TcpStream::connect_timeout(&address, 9 * SECOND).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
            assert_eq!(sim::elapsed() - begun, 136 * SECOND);
        };
        server.power_fail();
        super::on_host("far", far);
    });
}

/// - given: a connection whose peer is cut off
/// - when: data was sent and gets no answer
/// - then: the connection fails with `TimedOut` after 15 minutes and 25 seconds, as on Linux
#[test]
fn sim_113_data_without_an_answer_times_out() {
    run(1, || {
        let server = echo_host("server");
        let mut stream = TcpStream::connect("server:80").unwrap();
        ask(&mut stream, b"hello").unwrap();
        server.power_fail();
        let begun = sim::elapsed();
        stream.write_all(b"anyone?").unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(sim::elapsed() - begun, Duration::from_millis(924_600));
    });
}

/// - given: two connections, one over a link that is reset
/// - when: their clients read
/// - then: that one fails with `ConnectionReset` at both ends, and the other goes on
#[test]
fn sim_114_a_reset_breaks_the_connections_of_a_link() {
    each_seed(|| {
        let server = echo_host("server");
        let (tx, rx) = ecru::channel::bounded(2);
        let broken = tx.clone();
        let near = sim::host("near", move || {
            let mut stream = TcpStream::connect("server:80")?;
            broken.send(true).unwrap();
            assert_eq!(stream.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
            broken.send(false).unwrap();
            Ok(())
        });
        sim::host("other", move || {
            let mut stream = TcpStream::connect("server:80")?;
            tx.send(true).unwrap();
            ecru::sleep(SECOND)?;
            ask(&mut stream, b"still here")?;
            tx.send(true).unwrap();
            Ok(())
        });
        assert_eq!([rx.recv(), rx.recv()], [Ok(true), Ok(true)]);
        sim::link(&near, &server).reset();
        assert_eq!([rx.recv(), rx.recv()], [Ok(false), Ok(true)]);
    });
}

/// - given: a link that is held
/// - when: it is released after ten seconds
/// - then: what was sent meanwhile arrives then
#[test]
fn sim_115_a_held_link_keeps_what_is_sent() {
    each_seed(|| {
        let (server, client) = (echo_host("server"), client_side());
        let link = sim::link(&server, &client);
        link.hold();
        let done = ecru::spawn(move || {
            ecru::sleep(10 * SECOND).unwrap();
            link.release();
        });
        // The root is another host.
        let mut stream = TcpStream::connect("server:80").unwrap();
        ask(&mut stream, b"not held").unwrap();
        let answered = super::on_host("client-2", sim::elapsed);
        assert!(answered < SECOND);
        client.restart();
        done.join().unwrap();
        assert_eq!(sim::elapsed(), 10 * SECOND);
    });
}

/// - given: a link of 1 MB a second
/// - when: 1 MB is sent over it
/// - then: that takes a second and the latency
#[test]
fn sim_116_a_line_has_a_bandwidth() {
    let line = Link::new().bandwidth(1_000_000);
    let report = Simulation::new(1).network(line).run(|| {
        sim::host("server", || {
            let (mut stream, _) = ecru::net::TcpListener::bind("0.0.0.0:80")?.accept()?;
            std::io::copy(&mut stream, &mut std::io::sink())?;
            stream.write_all(b"done")
        });
        sim::settle();
        let mut stream = TcpStream::connect("server:80").unwrap();
        stream.set_send_buffer_size(150_000).unwrap();
        let begun = sim::elapsed();
        stream.write_all(&[0; 1_000_000]).unwrap();
        stream.shutdown(ecru::net::Shutdown::Write).unwrap();
        stream.read_exact(&mut [0; 4]).unwrap();
        sim::elapsed() - begun
    });
    let took = report.unwrap();
    assert!((SECOND..SECOND + 20 * MS).contains(&took), "{took:?}");
}

/// - given: latencies and faults that are drawn
/// - when: a program runs twice with one seed, and with another seed
/// - then: both runs with one seed have the same trace hash and take the same virtual time, and
///   other seeds take other times
#[test]
fn sim_117_the_seed_decides_what_befalls_a_link() {
    let rough = || {
        let link = Link::new().latency(MS..=80 * MS).loss(0.05);
        let faults = Faults::none().resets(0.02).refused_connections(0.1).short_transfers(0.3);
        (link, faults.slow_connections(0.2))
    };
    let program = || {
        echo_host("server");
        let mut done = 0;
        while done < 20 {
            let Ok(mut stream) = TcpStream::connect("server:80") else { continue };
            while done < 20 && ask(&mut stream, b"hello").is_ok() {
                done += 1;
            }
        }
        sim::elapsed()
    };
    let run = |seed| {
        let (link, faults) = rough();
        let report = Simulation::new(seed).network(link).faults(faults).run(program);
        (report.trace_hash, report.unwrap())
    };
    let first = run(1);
    assert_eq!(run(1), first);
    assert_eq!(run(1), first);
    let times: std::collections::BTreeSet<_> = (0..10).map(|seed| run(seed).1).collect();
    assert_eq!(times.len(), 10);
}

/// - given: faults of every kind
/// - when: `calm` is called
/// - then: nothing goes wrong any more, and `chance` returns `false`
#[test]
fn sim_118_calm_ends_all_faults() {
    let faults = Faults::none().resets(1.0).refused_connections(1.0);
    let report = Simulation::new(1).network(Link::new().loss(0.5)).faults(faults).run(|| {
        let (server, client) = (echo_host("server"), client_side());
        assert!(TcpStream::connect("server:80").is_err());
        sim::partition(&[&server], &[&client]);
        assert!(sim::chance(1.0));
        sim::calm();
        assert!(!sim::chance(1.0));
        let begun = sim::elapsed();
        let mut stream = TcpStream::connect("server:80").unwrap();
        ask(&mut stream, b"hello").unwrap();
        assert_eq!(sim::elapsed() - begun, 4 * MS);
    });
    report.unwrap();
}

/// - given: a link that was partitioned during a request, and healed
/// - when: the program ends in a deadlock
/// - then: that is found at once, not when the time limits of the connections have passed
#[test]
fn sim_180_a_healed_link_leaves_no_time_limits() {
    let report = Simulation::new(1).run(|| {
        let server = echo_host("server");
        let client = sim::host("client", || {
            let mut stream = TcpStream::connect("server:80")?;
            loop {
                ask(&mut stream, b"hello")?;
                ecru::sleep(SECOND)?;
                if sim::elapsed() > 60 * SECOND {
                    ecru::sync::Notify::new().wait()?;
                }
            }
        });
        for _ in 0..3 {
            ecru::sleep(SECOND).unwrap();
            sim::partition(&[&server], &[&client]);
            ecru::sleep(10 * SECOND).unwrap();
            sim::heal();
        }
        ecru::sleep(60 * SECOND).unwrap();
        // An attempt to connect that was given up.
        server.power_fail();
        let address = "10.0.0.1:80".parse().unwrap();
        assert!(TcpStream::connect_timeout(&address, SECOND).is_err());
        ecru::sync::Notify::new().wait()
    });
    assert!(matches!(report.result, Err(sim::Failure::Deadlock(_))), "{report}");
    assert!(report.elapsed < 100 * SECOND, "{report}");
}
