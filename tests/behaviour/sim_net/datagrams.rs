//! Datagrams between hosts.

use super::{MS, SECOND, each_seed, run};
use ecru::net::{UdpSocket, UnixDatagram};
use ecru::sim::{self, Faults, Simulation};
use std::io::ErrorKind;

/// - given: a socket on another host
/// - when: a datagram is sent to it
/// - then: it arrives whole after the latency, with the sender's address
#[test]
fn sim_130_a_datagram_takes_the_latency() {
    each_seed(|| {
        let (tx, rx) = ecru::channel::bounded(1);
        sim::host("other", move || {
            let socket = UdpSocket::bind("0.0.0.0:9")?;
            let mut buffer = [0; 3];
            let (count, from) = socket.recv_from(&mut buffer)?;
            assert_eq!((count, &buffer), (3, b"hel"));
            socket.send_to(b"answer", from)?;
            tx.send((from, sim::elapsed())).unwrap();
            Ok(())
        });
        sim::settle();
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        assert_eq!(socket.send_to(b"hello", "other:9").unwrap(), 5);
        let (from, at) = rx.recv().unwrap();
        assert_eq!((from.port(), at), (socket.local_addr().unwrap().port(), MS));
        let mut buffer = [0; 9];
        let (count, from) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..count], from.to_string().as_str()), (&b"answer"[..], "10.0.0.1:9"));
        assert_eq!(sim::elapsed(), 2 * MS);
    });
}

/// - given: a network that loses, doubles and delays datagrams
/// - when: a hundred are sent
/// - then: some are missing, some come twice, some are overtaken, and none is changed
#[test]
fn sim_131_datagrams_get_lost_doubled_and_overtaken() {
    let faults =
        Faults::none().datagram_loss(0.2).datagram_duplication(0.2).datagram_reordering(0.2);
    let report = Simulation::new(3).faults(faults).run(|| {
        let (tx, rx) = ecru::channel::bounded(1_000);
        sim::host("other", move || {
            let socket = UdpSocket::bind("0.0.0.0:9")?;
            loop {
                let mut buffer = [0; 9];
                assert_eq!(socket.recv(&mut buffer)?, 1);
                tx.send(buffer[0]).unwrap();
            }
        });
        sim::settle();
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        for number in 0..100 {
            socket.send_to(&[number], "other:9").unwrap();
            ecru::sleep(MS / 2).unwrap();
        }
        ecru::sleep(SECOND).unwrap();
        rx.try_iter().collect::<Vec<u8>>()
    });
    let arrived = report.unwrap();
    let different: std::collections::BTreeSet<_> = arrived.iter().collect();
    assert!((60..95).contains(&different.len()), "{arrived:?}");
    assert!(arrived.len() > different.len(), "{arrived:?}");
    assert!(!arrived.is_sorted(), "{arrived:?}");
}

/// - given: a connected socket
/// - when: nothing is bound to its destination
/// - then: the next call fails with `ConnectionRefused`
#[test]
fn sim_132_a_connected_socket_hears_that_nothing_is_there() {
    each_seed(|| {
        sim::host("other", || Ok(()));
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        socket.connect("other:9").unwrap();
        socket.send(b"x").unwrap();
        let error = socket.recv(&mut [0]).unwrap_err();
        assert_eq!((error.kind(), sim::elapsed()), (ErrorKind::ConnectionRefused, 2 * MS));
    });
}

/// - given: a pair of Unix sockets for datagrams, and one that is bound to a path
/// - when: more is sent than fits
/// - then: the sender waits, and nothing is lost
#[test]
fn sim_133_unix_datagrams_are_not_lost() {
    each_seed(|| {
        let (one, other) = UnixDatagram::pair().unwrap();
        ecru::scope(|s| {
            s.spawn(|| (0..100).for_each(|number| assert_eq!(one.send(&[number]).unwrap(), 1)));
            for number in 0..100 {
                let mut buffer = [0];
                assert_eq!((other.recv(&mut buffer).unwrap(), buffer), (1, [number]));
            }
        });
        let server = UnixDatagram::bind("/tmp/server").unwrap();
        ecru::scope(|s| {
            s.spawn(|| {
                let client = UnixDatagram::unbound().unwrap();
                for number in 0..30 {
                    client.send_to(&[number], "/tmp/server").unwrap();
                }
            });
            for number in 0..30 {
                let mut buffer = [0];
                assert_eq!((server.recv(&mut buffer).unwrap(), buffer), (1, [number]));
            }
        });
    });
}

/// - given: a multicast address
/// - when: a socket joins it or sends to it
/// - then: the call fails and says that this is not simulated
#[test]
fn sim_134_multicast_is_not_simulated() {
    run(1, || {
        let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
        let group = std::net::Ipv4Addr::new(224, 0, 0, 251);
        let error = socket.join_multicast_v4(&group, &std::net::Ipv4Addr::UNSPECIFIED).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(socket.send_to(b"x", "224.0.0.251:9").is_err());
    });
}
