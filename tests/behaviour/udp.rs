//! Rows of `doc/behaviour/udp.md`.

use crate::streams::assert_cancelled;
use crate::support::{HOUR, Side, begin, each_run, everywhere, ms, now, since};
use ecru::net::UdpSocket;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};

fn open() -> (UdpSocket, SocketAddr) {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap();
    (socket, address)
}

/// - given: two sockets
/// - when: one sends to the other, which answers
/// - then: each datagram arrives with its sender's address
#[test]
fn udp_01_datagrams() {
    everywhere(|side| {
        let (one, at_one) = open();
        let (other, at_other) = open();
        side.both(
            || {
                let mut buffer = [0; 16];
                let (length, from) = other.recv_from(&mut buffer).unwrap();
                assert_eq!((&buffer[..length], from), (&b"question"[..], at_one));
                other.send_to(b"answer", from).unwrap()
            },
            || {
                assert_eq!(one.send_to(b"question", at_other).unwrap(), 8);
                let mut buffer = [0; 16];
                assert_eq!(one.recv_from(&mut buffer).unwrap(), (6, at_other));
                assert_eq!(&buffer[..6], b"answer");
            },
        );
    });
}

/// - given: datagrams of several lengths, one of them empty
/// - when: they are received into buffers of several lengths, one of them empty
/// - then: one call takes one datagram; bytes that do not fit are lost
#[test]
fn udp_02_boundaries() {
    everywhere(|_| {
        let (one, _) = open();
        let (other, at_other) = open();
        for part in [&b"first"[..], b"second", b"", b"dropped", b"last"] {
            one.send_to(part, at_other).unwrap();
        }
        let mut buffer = [0; 4];
        assert_eq!(other.recv(&mut buffer).unwrap(), 4, "the rest of it is lost");
        assert_eq!(&buffer, b"firs");
        let mut buffer = [0; 16];
        assert_eq!(other.recv(&mut buffer).unwrap(), 6);
        assert_eq!(other.recv(&mut buffer).unwrap(), 0, "an empty datagram is one");
        assert_eq!(other.recv(&mut []).unwrap(), 0, "so is one that there is no room for");
        assert_eq!(other.recv(&mut buffer).unwrap(), 4);
        assert_eq!(&buffer[..4], b"last");
    });
}

/// - given: a datagram
/// - when: `peek` and `peek_from` are called, then `recv_from`
/// - then: all see it
#[test]
fn udp_03_peek() {
    everywhere(|_| {
        let (one, at_one) = open();
        let (other, at_other) = open();
        one.send_to(b"seen", at_other).unwrap();
        let mut buffer = [0; 8];
        for _ in 0..2 {
            assert_eq!(other.peek_from(&mut buffer).unwrap(), (4, at_one));
            assert_eq!(other.peek(&mut buffer).unwrap(), 4);
        }
        assert_eq!(other.recv_from(&mut buffer).unwrap(), (4, at_one));
        other.set_nonblocking(true).unwrap();
        assert_eq!(other.peek(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

/// - given: a connected socket
/// - when: other sockets send to it, and then its peer is closed
/// - then: it receives from its peer only, and the next call returns `ConnectionRefused`
#[test]
fn udp_04_connected() {
    everywhere(|_| {
        let (one, at_one) = open();
        let (other, at_other) = open();
        let (stranger, _) = open();
        assert_eq!(one.peer_addr().unwrap_err().kind(), ErrorKind::NotConnected);
        one.connect(at_other).unwrap();
        assert_eq!(one.peer_addr().unwrap(), at_other);
        stranger.send_to(b"stranger", at_one).unwrap();
        other.send_to(b"friend", at_one).unwrap();
        let mut buffer = [0; 16];
        assert_eq!(one.recv(&mut buffer).unwrap(), 6);
        assert_eq!(one.send(b"to you").unwrap(), 6);
        assert_eq!(other.recv_from(&mut buffer).unwrap(), (6, at_one));
        // The peer is closed, which the next call reports.
        drop(other);
        one.send(b"lost").unwrap();
        assert_eq!(one.recv(&mut buffer).unwrap_err().kind(), ErrorKind::ConnectionRefused);
    });
}

/// - given: `set_read_timeout` and no datagrams
/// - when: it receives
/// - then: `TimedOut`, never early, and the socket stays usable
#[test]
fn udp_05_read_timeout() {
    everywhere(|_| {
        let (one, at_one) = open();
        let limit = ms(5);
        one.set_read_timeout(Some(limit)).unwrap();
        let start = now();
        assert_eq!(one.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(one.recv_from(&mut [0; 8]).unwrap_err().kind(), ErrorKind::TimedOut);
        assert!((limit * 2..HOUR / 100).contains(&since(start)));
        one.send_to(b"late", at_one).unwrap();
        assert_eq!(one.recv(&mut [0; 8]).unwrap(), 4);
    });
}

/// - given: parked receives
/// - when: their tasks are cancelled, then a datagram comes
/// - then: `Cancelled`, and the next receive gets the datagram, once; a cancelled send has sent
///   nothing
#[test]
fn udp_06_cancelled_receive_loses_nothing() {
    each_run(|| {
        let (one, at_one) = open();
        ecru::scope(|s| {
            let receives = [
                begin(s, || one.recv(&mut [0; 8]).map(drop)),
                begin(s, || one.recv_from(&mut [0; 8]).map(drop)),
                begin(s, || one.peek_from(&mut [0; 8]).map(drop)),
            ];
            for receive in receives {
                receive.cancel();
                assert_cancelled(&receive.join().unwrap().unwrap_err());
            }
        });
        one.send_to(b"whole", at_one).unwrap();
        ecru::cancel_scope(|c| {
            c.cancel();
            assert_cancelled(&one.recv(&mut [0; 8]).unwrap_err());
            assert_cancelled(&one.send_to(b"never", at_one).unwrap_err());
        });
        assert_eq!(one.recv(&mut [0; 8]).unwrap(), 5);
        one.set_nonblocking(true).unwrap();
        assert_eq!(one.recv(&mut [0; 8]).unwrap_err().kind(), ErrorKind::WouldBlock);
    });
}

/// - given: a socket
/// - when: broadcast, hops, multicast, `take_error`, `try_clone` and timeouts are used
/// - then: they behave as std's
#[test]
fn udp_07_options() {
    everywhere(|_| {
        let (socket, _) = open();
        socket.set_broadcast(true).unwrap();
        assert!(socket.broadcast().unwrap());
        socket.set_ttl(77).unwrap();
        assert_eq!(socket.ttl().unwrap(), 77);
        socket.set_multicast_ttl_v4(5).unwrap();
        assert_eq!(socket.multicast_ttl_v4().unwrap(), 5);
        socket.set_multicast_loop_v4(false).unwrap();
        assert!(!socket.multicast_loop_v4().unwrap());
        assert!(socket.take_error().unwrap().is_none());
        let clone = socket.try_clone().unwrap();
        clone.set_read_timeout(Some(ms(9))).unwrap();
        assert_eq!(socket.read_timeout().unwrap(), Some(ms(9)));
        assert_eq!(
            socket.set_write_timeout(Some(ms(0))).unwrap_err().kind(),
            ErrorKind::InvalidInput
        );
        assert!(format!("{socket:?}").starts_with("UdpSocket { addr: 127.0.0.1:"));
    });
}

/// - given: a socket that has joined a group
/// - when: a datagram is sent to the group
/// - then: it receives the datagram; it can leave the group once
#[test]
fn udp_08_multicast() {
    everywhere(|_| {
        let receiver = UdpSocket::bind("0.0.0.0:0").unwrap();
        let group = Ipv4Addr::new(239, 255, 77, 3);
        let address = (group, receiver.local_addr().unwrap().port());
        let (sender, _) = open();
        receiver.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST).unwrap();
        sender.send_to(b"to all", address).unwrap();
        assert_eq!(receiver.recv(&mut [0; 8]).unwrap(), 6);
        receiver.leave_multicast_v4(&group, &Ipv4Addr::LOCALHOST).unwrap();
        let again = receiver.leave_multicast_v4(&group, &Ipv4Addr::LOCALHOST);
        assert_eq!(again.unwrap_err().kind(), ErrorKind::AddrNotAvailable);
    });
}

/// - given: a machine with `::1`
/// - when: a socket uses it
/// - then: it works as over IPv4
#[test]
fn udp_09_ipv6() {
    everywhere(|_| {
        let Ok(one) = UdpSocket::bind("[::1]:0") else {
            let std = std::net::UdpSocket::bind("[::1]:0");
            assert!(std.is_err(), "std can bind ::1 and ecru cannot");
            eprintln!("skipped: this machine has no ::1");
            return;
        };
        let at_one = one.local_addr().unwrap();
        one.send_to(b"to myself", at_one).unwrap();
        assert_eq!(one.recv_from(&mut [0; 16]).unwrap(), (9, at_one));
        one.set_multicast_loop_v6(false).unwrap();
        assert!(!one.multicast_loop_v6().unwrap());
    });
}

/// - given: a std socket with a timeout
/// - when: it is converted to ecru's type and back
/// - then: the timeout applies in both
#[test]
fn udp_10_from_std() {
    everywhere(|side| {
        let std = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        std.set_read_timeout(Some(ms(3))).unwrap();
        let ours = UdpSocket::try_from(std).unwrap();
        assert_eq!(ours.recv(&mut [0]).unwrap_err().kind(), ErrorKind::TimedOut);
        if side == Side::Thread {
            let std = std::net::UdpSocket::try_from(ours).unwrap();
            // Other tests send signals to this process, and std reports them to its callers here.
            let errors = std::iter::repeat_with(|| std.recv(&mut [0]).unwrap_err().kind());
            let kind = { errors }.find(|kind| *kind != ErrorKind::Interrupted);
            assert_eq!(kind, Some(ErrorKind::WouldBlock), "std's word for its own time-out");
        }
    });
}

/// - given: no address, an address that is taken, several
/// - when: `bind`, `connect` and `send_to` are called
/// - then: `InvalidInput`, `AddrInUse`, the first address that works
#[test]
fn udp_11_addresses() {
    everywhere(|_| {
        let (one, at_one) = open();
        let none: &[SocketAddr] = &[];
        assert_eq!(one.send_to(b"x", none).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(one.connect(none).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(UdpSocket::bind(none).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(UdpSocket::bind(at_one).unwrap_err().kind(), ErrorKind::AddrInUse);
        // The second of these addresses is free.
        let free = SocketAddr::from(([127, 0, 0, 1], 0));
        assert!(UdpSocket::bind([at_one, free].as_slice()).is_ok());
    });
}
