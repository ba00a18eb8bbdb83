//! Links, partitions and faults with values at the edge.

use super::{MS, SECOND, report, run};
use crate::common::panic_text;
use ecru::net::{TcpListener, TcpStream, UdpSocket};
use ecru::sim::{self, Failure, Faults, Host, Link, Simulation};
use std::io::{self, ErrorKind, Read, Write};
use std::time::Duration;

fn echo() -> io::Result<()> {
    TcpListener::bind("0.0.0.0:80")?.serve(99, |mut stream, _| {
        let mut buffer = [0; 64];
        loop {
            match stream.read(&mut buffer)? {
                0 => return Ok(()),
                count => stream.write_all(&buffer[..count])?,
            }
        }
    })
}

fn ask(name: &str) -> io::Result<()> {
    let mut stream = TcpStream::connect((name, 80))?;
    stream.write_all(b"hello")?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer)?;
    assert_eq!(&answer, b"hello");
    Ok(())
}

#[test]
fn values_that_make_no_sense_panic_at_once() {
    for wrong in [-1.0, 2.0, 1.0 + f64::EPSILON, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        panic_text(|| Link::new().loss(wrong));
        panic_text(|| Faults::none().disk_errors(wrong));
        panic_text(|| Faults::none().short_transfers(wrong));
        panic_text(|| Faults::none().datagram_loss(wrong));
        panic_text(|| Faults::none().datagram_duplication(wrong));
        panic_text(|| Faults::none().datagram_reordering(wrong));
        panic_text(|| Faults::none().resets(wrong));
        panic_text(|| Faults::none().refused_connections(wrong));
        panic_text(|| Faults::none().slow_connections(wrong));
    }
    panic_text(|| Link::new().latency(SECOND..=MS));
    panic_text(|| Link::new().bandwidth(0));
    panic_text(|| Faults::none().sync_latency(SECOND..=MS));
    run(1, || {
        let (a, b) = (sim::host("a", || Ok(())), sim::host("b", || Ok(())));
        let link = sim::link(&a, &b);
        panic_text(|| drop(link.loss(f64::NAN)));
        panic_text(|| drop(link.loss(-0.1)));
        panic_text(|| drop(link.latency(SECOND..=MS)));
        panic_text(|| drop(link.bandwidth(0)));
        // The run goes on as if nothing had been said.
        link.loss(0.0).bandwidth(1).latency(Duration::ZERO..=Duration::ZERO);
    });
}

#[test]
fn a_chance_that_makes_no_sense() {
    let outcome = run(1, || {
        [f64::NAN, -1.0, 2.0, f64::INFINITY]
            .map(|p| std::panic::catch_unwind(|| sim::chance(p)).ok())
    });
    let [nan, negative, large, infinite] = outcome;
    assert!(matches!(nan, None | Some(false)), "{nan:?}");
    assert!(matches!(negative, None | Some(false)), "{negative:?}");
    assert!(matches!(large, None | Some(true)), "{large:?}");
    assert!(matches!(infinite, None | Some(true)), "{infinite:?}");
    assert!(!sim::chance(1.0) && !sim::chance(f64::NAN));
    assert!(run(1, || (0..1000).all(|_| sim::chance(1.0) && !sim::chance(0.0))));
}

#[test]
fn latencies_and_bandwidths_at_the_edge() {
    let all =
        [Duration::ZERO..=Duration::MAX, Duration::MAX..=Duration::MAX, SECOND..=Duration::MAX];
    for range in all {
        for seed in 0..4 {
            let link = Link::new().latency(range.clone());
            let report = Simulation::new(seed).network(link).run(|| {
                sim::host("server", echo);
                sim::settle();
                UdpSocket::bind("0.0.0.0:9").unwrap().send_to(b"x", "10.0.0.1:9").unwrap();
                ecru::timeout(60 * SECOND, || ask("server")).map(|asked| asked.is_ok())
            });
            let Ok(asked) = report.result else { panic!("{report}") };
            assert!(asked.is_err() || asked == Ok(false), "{asked:?}");
        }
    }
    for bandwidth in [1, u64::MAX] {
        let report = Simulation::new(1).network(Link::new().bandwidth(bandwidth)).run(|| {
            sim::host("server", echo);
            sim::settle();
            ecru::timeout(600 * SECOND, || ask("server")).unwrap().unwrap();
        });
        report.unwrap();
    }
}

#[test]
fn a_link_that_loses_everything_lets_streams_through_in_the_end() {
    let report = Simulation::new(1).network(Link::new().loss(1.0)).run(|| {
        sim::host("server", || {
            UdpSocket::bind("0.0.0.0:9")?.recv(&mut [0]).map(|_| panic!("a datagram has arrived"))
        });
        sim::host("echo", echo);
        sim::settle();
        UdpSocket::bind("0.0.0.0:0")?.send_to(b"x", "10.0.0.1:9")?;
        ask("echo")?;
        let waited = sim::elapsed();
        sim::calm();
        ask("echo")?;
        io::Result::Ok((waited, sim::elapsed() - waited))
    });
    let (waited, calm) = report.unwrap().unwrap();
    assert!(waited > 60 * SECOND && calm < SECOND, "{waited:?} {calm:?}");
}

#[test]
fn every_fault_at_once() {
    let faults = Faults::none()
        .disk_errors(1.0)
        .short_transfers(1.0)
        .datagram_loss(1.0)
        .datagram_duplication(1.0)
        .datagram_reordering(1.0)
        .resets(1.0)
        .refused_connections(1.0)
        .slow_connections(1.0)
        .disk_capacity(0)
        .open_files(2)
        .sync_latency(Duration::MAX..=Duration::MAX);
    for seed in 0..4 {
        let report = Simulation::new(seed).faults(faults.clone()).run(|| {
            sim::host("server", || {
                let _ = echo();
                Ok(())
            });
            sim::settle();
            assert!(ask("server").is_err());
            assert!(ecru::fs::write("f", "x").is_err());
            let (mut reader, mut writer) = ecru::io::pipe().unwrap();
            ecru::scope(|s| {
                s.spawn(move || writer.write_all(&[7; 100_000]));
                let mut all = Vec::new();
                s.spawn(move || {
                    let _ = reader.read_to_end(&mut all);
                    assert_eq!(all, vec![7; 100_000]);
                });
            });
            sim::calm();
            ecru::fs::write("f", "x").is_err()
        });
        assert!(report.result.is_ok(), "{report}");
    }
    let syncs = Faults::none().sync_latency(Duration::MAX..=Duration::MAX);
    let report = Simulation::new(1).faults(syncs).run(|| {
        let file = ecru::fs::File::create("f").unwrap();
        ecru::timeout(SECOND, || file.sync_all()).is_err()
    });
    assert!(matches!(report.result, Ok(_) | Err(Failure::OutOfTime(_))), "{report}");
}

#[test]
fn every_datagram_twice_and_overtaken() {
    let faults = Faults::none().datagram_duplication(1.0).datagram_reordering(1.0);
    let report = Simulation::new(1).faults(faults).run(|| {
        sim::host("peer", || {
            let socket = UdpSocket::bind("0.0.0.0:9")?;
            for n in 0..20_u8 {
                socket.send_to(&[n], "10.0.0.2:9").ok();
                socket.send_to(&[n], (sim_root(), 9)).ok();
            }
            Ok(())
        });
        // On one host nothing goes wrong: a fault is between two hosts.
        let own = UdpSocket::bind("127.0.0.1:0").unwrap();
        own.connect(own.local_addr().unwrap()).unwrap();
        for n in 0..20_u8 {
            own.send(&[n]).unwrap();
        }
        let mut seen = Vec::new();
        let mut byte = [0];
        while let Ok(Ok(1)) = ecru::timeout(SECOND, || own.recv(&mut byte)) {
            seen.push(byte[0]);
        }
        seen
    });
    assert_eq!(report.unwrap(), (0..20).collect::<Vec<_>>());
}

/// An address that may be that of the root.
fn sim_root() -> std::net::IpAddr {
    "10.0.0.0".parse().unwrap()
}

#[test]
fn partitions_of_odd_sets() {
    run(1, || {
        let hosts = ["a", "b", "c"].map(|name| sim::host(name, echo));
        let [a, b, c] = &hosts;
        sim::settle();
        // Of a host with itself: packets on one host do not travel.
        sim::partition(&[a], &[a]);
        sim::partition_one_way(a, a);
        let (tx, rx) = ecru::channel::bounded(1);
        sim::host("d", move || {
            let own = TcpListener::bind("127.0.0.1:0")?;
            TcpStream::connect(own.local_addr()?)?.write_all(b"x")?;
            let _ = tx.send(());
            Ok(())
        });
        rx.recv().unwrap();
        ask("a").unwrap();
        // Overlapping, empty and repeated.
        sim::partition(&[a, b, b, a], &[b, c, a]);
        sim::partition(&[], &[a]);
        sim::partition(&[], &[]);
        ask("a").unwrap();
        ask("b").unwrap();
        sim::heal();
        sim::heal();
        // Of a machine that is down.
        a.crash();
        sim::partition(&[a], &[b]);
        sim::partition_one_way(b, a);
        a.restart();
        sim::settle();
        ask("a").unwrap();
        sim::heal();
        let link = sim::link(a, a);
        link.loss(1.0).latency(SECOND..=SECOND).hold().release().reset().bandwidth(1);
        sim::settle();
        ask("a").unwrap();
    });
}

#[test]
fn a_link_of_a_host_with_itself_does_not_touch_the_loopback() {
    run(1, || {
        let (tx, rx) = ecru::channel::bounded(1);
        let host = sim::host("host", move || {
            let listener = TcpListener::bind("127.0.0.1:80")?;
            let mut one =
                TcpStream::connect("host:80").or_else(|_| TcpStream::connect("localhost:80"))?;
            let mut other = listener.accept()?.0;
            ecru::sleep(SECOND)?;
            one.write_all(b"x")?;
            let read = ecru::timeout(60 * SECOND, || other.read(&mut [0]));
            let _ = tx.send((read.map(|read| read.ok()), sim::elapsed()));
            Ok(())
        });
        sim::settle();
        sim::link(&host, &host).hold();
        sim::partition(&[&host], &[&host]);
        assert_eq!(rx.recv().unwrap(), (Ok(Some(1)), SECOND));
    });
}

#[test]
fn hold_release_and_reset_again_and_again() {
    run(1, || {
        let server = sim::host("server", echo);
        let outcomes = std::sync::Arc::new(ecru::sync::Mutex::new(Vec::new()));
        let note = std::sync::Arc::clone(&outcomes);
        let client = sim::host("client", move || {
            for _ in 0..50 {
                let asked = ecru::timeout(30 * SECOND, || ask("server"));
                note.lock().push(matches!(asked, Ok(Ok(()))));
                ecru::sleep(10 * MS)?;
            }
            Ok(())
        });
        let link = sim::link(&server, &client);
        let other_way = sim::link(&client, &server);
        for round in 0..200_u32 {
            match round % 7 {
                0 => link.hold(),
                1 => other_way.hold(),
                2 => link.reset(),
                3 => link.release(),
                4 => other_way.release(),
                5 => link.loss(0.5),
                _ => other_way.loss(0.0).reset(),
            };
            ecru::sleep(MS * (round % 5)).unwrap();
        }
        link.release();
        sim::calm();
        ecru::sleep(3000 * SECOND).unwrap();
        let outcomes = outcomes.lock().clone();
        assert_eq!(outcomes.len(), 50);
        assert!(outcomes.iter().filter(|ok| **ok).count() > 10, "{outcomes:?}");
    });
}

#[test]
fn names_of_hosts_at_the_edge() {
    run(1, || {
        let long = "x".repeat(10_000);
        for name in [
            "",
            " ",
            "a b",
            "localhost",
            "127.0.0.1",
            "10.0.0.1",
            "ü",
            "a\0b",
            "a:80",
            "::1",
            &long,
        ] {
            let made = std::panic::catch_unwind(|| sim::host(name, || Ok(())));
            let Ok(host) = made else { continue };
            assert_eq!(host.name(), name);
            let _ = format!("{host:?}");
            // Its address works in any case.
            let failed = TcpStream::connect((host.addr(), 1)).unwrap_err();
            assert_eq!(failed.kind(), ErrorKind::ConnectionRefused);
            let _ = TcpStream::connect((name, 1)).unwrap_err();
        }
        // The name of the machine itself still means the machine itself.
        let own = TcpListener::bind("127.0.0.1:7").unwrap();
        TcpStream::connect("localhost:7").unwrap();
        TcpStream::connect("127.0.0.1:7").unwrap();
        drop(own);
    });
}

#[test]
fn two_hundred_hosts() {
    let report = report(1, || {
        let hosts: Vec<Host> = (0..200)
            .map(|n| {
                sim::host(&format!("h{n}"), || {
                    TcpListener::bind("0.0.0.0:80")?.accept()?;
                    Ok(())
                })
            })
            .collect();
        sim::settle();
        let mut seen: Vec<_> = hosts.iter().map(Host::addr).collect();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 200);
        for host in &hosts {
            TcpStream::connect((host.addr(), 80)).unwrap();
        }
        let all: Vec<&Host> = hosts.iter().collect();
        sim::partition(&all[..20], &all);
        sim::heal();
    });
    report.unwrap();
}
