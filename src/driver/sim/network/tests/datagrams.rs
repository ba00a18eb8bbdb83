//! Datagrams.

use super::*;

fn bound(lab: &mut Lab, host: HostId, port: u16) -> Id {
    let id = lab.network.open(host, Domain::V4, Transport::Datagram).unwrap();
    lab.network.bind(id, &internet(&format!("0.0.0.0:{port}"))).unwrap();
    id
}

fn unbound(lab: &mut Lab, host: HostId) -> Id {
    lab.network.open(host, Domain::V4, Transport::Datagram).unwrap()
}

#[test]
fn a_datagram_arrives_whole_after_the_latency() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    let (sender, receiver) = (bound(&mut lab, one, 50), bound(&mut lab, other, 60));
    lab.watch(receiver, Interest::Read, 1);
    assert_eq!(lab.send_to(sender, b"hello", &v4(other, 60)), Ok(5));
    assert_eq!(lab.receive(receiver, 9, false), Err(Errno::AGAIN));
    assert_eq!(lab.run(), MS);
    assert_eq!(lab.told(), [1]);
    let whole = Received { count: 5, from: Some(v4(one, 50)), is_cut: false };
    assert_eq!(lab.receive(receiver, 9, true), Ok((b"hello".to_vec(), whole)));
    let part = Received { count: 2, from: Some(v4(one, 50)), is_cut: true };
    assert_eq!(lab.receive(receiver, 2, false), Ok((b"he".to_vec(), part)));
    assert_eq!(lab.receive(receiver, 9, false), Err(Errno::AGAIN));
    // An empty one is a datagram, too.
    lab.send_to(sender, b"", &v4(other, 60)).unwrap();
    lab.run();
    assert_eq!(lab.receive(receiver, 9, false).unwrap().0, b"");
    assert_eq!(lab.send_to(sender, &[0; 65_508], &v4(other, 60)), Err(Errno::MSGSIZE));
    assert_eq!(lab.send_to(sender, b"x", &internet("8.8.8.8:1")), Err(Errno::NETUNREACH));
    assert_eq!(lab.send_to(sender, b"x", &internet("224.0.0.1:1")), Err(Errno::OPNOTSUPP));
    assert_eq!(lab.write(sender, b"x"), Err(Errno::DESTADDRREQ));
}

#[test]
fn a_socket_without_a_port_gets_one_when_it_sends() {
    let mut lab = Lab::new();
    let host = lab.host("host");
    let (sender, receiver) = (unbound(&mut lab, host), bound(&mut lab, host, 60));
    lab.send_to(sender, b"x", &internet("127.0.0.1:60")).unwrap();
    let (_, received) = lab.receive(receiver, 9, false).unwrap();
    let from = received.from.unwrap().internet().unwrap();
    assert_eq!(from.ip().to_string(), "127.0.0.1");
    lab.send_to(receiver, b"answer", &Name::Internet(from)).unwrap();
    assert_eq!(lab.receive(sender, 9, false).unwrap().0, b"answer");
}

#[test]
fn a_connected_socket_hears_its_peer_alone_and_that_nothing_is_there() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    let (client, server) = (bound(&mut lab, one, 50), bound(&mut lab, other, 60));
    let stranger = bound(&mut lab, other, 61);
    lab.send_to(stranger, b"before", &v4(one, 50)).unwrap();
    lab.run();
    lab.connect(client, &v4(other, 60)).unwrap();
    assert_eq!(lab.network.local_name(client).unwrap().1, v4(one, 50));
    assert_eq!(lab.network.peer_name(client).unwrap().1, v4(other, 60));
    lab.send_to(stranger, b"unasked", &v4(one, 50)).unwrap();
    lab.write(client, b"question").unwrap();
    lab.run();
    assert_eq!(lab.receive(server, 9, false).unwrap().0, b"question");
    lab.send_to(server, b"answer", &v4(one, 50)).unwrap();
    lab.run();
    // As on Linux, what has arrived before stays.
    assert_eq!(lab.read(client, 9).unwrap(), b"before");
    assert_eq!(lab.read(client, 9).unwrap(), b"answer");
    assert_eq!(lab.read(client, 9), Err(Errno::AGAIN));
    // Nothing is at this address either, but the socket is not connected to it.
    lab.send_to(client, b"lost", &v4(other, 62)).unwrap();
    lab.run();
    assert_eq!(lab.read(client, 9), Err(Errno::AGAIN));
    lab.close(server);
    lab.watch(client, Interest::Read, 1);
    lab.write(client, b"lost").unwrap();
    lab.run();
    assert_eq!(lab.told(), [1]);
    assert_eq!(lab.read(client, 9), Err(Errno::CONNREFUSED));
    assert_eq!(lab.read(client, 9), Err(Errno::AGAIN));
}

#[test]
fn a_full_buffer_loses_datagrams() {
    let mut lab = Lab::new();
    let host = lab.host("host");
    let (sender, receiver) = (unbound(&mut lab, host), bound(&mut lab, host, 60));
    let small = crate::driver::request::OptionValue::Size(1_000);
    let kind = crate::driver::request::OptionKind::ReceiveBufferSize;
    lab.set_option(receiver, kind, small).unwrap();
    for _ in 0..20 {
        assert_eq!(lab.send_to(sender, &[0; 500], &internet("127.0.0.1:60")), Ok(500));
    }
    let mut count = 0;
    while lab.read(receiver, 999).is_ok() {
        count += 1;
    }
    assert_eq!(count, 3);
    lab.send_to(sender, b"again", &internet("127.0.0.1:60")).unwrap();
    assert_eq!(lab.read(receiver, 999).unwrap(), b"again");
}

#[test]
fn datagrams_are_lost_doubled_and_overtaken_as_the_faults_say() {
    let arrived = |change: fn(&mut NetworkFaults), calm: bool| {
        let mut lab = Lab::seeded(5);
        let (one, other) = (lab.host("one"), lab.host("other"));
        let (sender, receiver) = (bound(&mut lab, one, 50), bound(&mut lab, other, 60));
        lab.faults(change);
        if calm {
            lab.with(|network, ctx| network.calm(ctx));
        }
        for number in 0..100_u8 {
            lab.send_to(sender, &[number], &v4(other, 60)).unwrap();
            lab.run_to(u32::from(number) * MS / 2);
        }
        lab.run();
        lab.drain(receiver)
    };
    let all: Vec<u8> = (0..100).collect();
    assert_eq!(arrived(|_| {}, false), all);
    let some = arrived(|faults| faults.loss = 0.3, false);
    assert!((50..90).contains(&some.len()) && some.is_sorted(), "{some:?}");
    assert_eq!(arrived(|faults| faults.loss = 1.0, false), []);
    let doubled = arrived(|faults| faults.duplication = 0.5, false);
    assert!((130..170).contains(&doubled.len()), "{doubled:?}");
    let mut overtaken = arrived(|faults| faults.reordering = 0.3, false);
    assert!(!overtaken.is_sorted(), "{overtaken:?}");
    overtaken.sort_unstable();
    assert_eq!(overtaken, all);
    let everything = |faults: &mut NetworkFaults| {
        (faults.loss, faults.duplication, faults.reordering) = (0.5, 0.5, 0.5);
    };
    assert_eq!(arrived(everything, true), all);
}

#[test]
fn a_partition_loses_datagrams_and_a_held_link_keeps_them() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    let (sender, receiver) = (bound(&mut lab, one, 50), bound(&mut lab, other, 60));
    lab.partition(one, other);
    lab.send_to(sender, b"lost", &v4(other, 60)).unwrap();
    lab.send_to(receiver, b"other way", &v4(one, 50)).unwrap();
    lab.run();
    lab.heal();
    lab.run();
    assert_eq!(lab.read(receiver, 9), Err(Errno::AGAIN));
    assert_eq!(lab.read(sender, 9).unwrap(), b"other way");
    lab.with(|network, ctx| network.hold(ctx, other, one));
    lab.send_to(sender, b"kept", &v4(other, 60)).unwrap();
    lab.run();
    assert_eq!(lab.read(receiver, 9), Err(Errno::AGAIN));
    lab.with(|network, ctx| network.release(ctx, one, other));
    lab.run();
    assert_eq!(lab.read(receiver, 9).unwrap(), b"kept");
}

#[test]
fn unix_datagrams_wait_for_room() {
    let mut lab = Lab::new();
    let host = lab.host("host");
    let (one, other) = lab.network.open_pair(host, Transport::Datagram).unwrap();
    let mut sent = 0;
    while lab.write(one, &[sent]).is_ok() {
        sent += 1;
    }
    assert_eq!(sent, 11);
    lab.watch(one, Interest::Write, 1);
    assert!(!lab.is_ready(one, Interest::Write));
    assert_eq!(lab.read(other, 9).unwrap(), [0]);
    assert_eq!(lab.told(), [1]);
    assert!(lab.is_ready(one, Interest::Write));
    assert_eq!(lab.drain(other), (1..11).collect::<Vec<u8>>());
    lab.shut_down(other, Shutdown::Read).unwrap();
    assert_eq!(lab.write(one, b"x"), Err(Errno::PIPE));
    lab.close(other);
    assert_eq!(lab.write(one, b"x"), Err(Errno::CONNREFUSED));
    assert_eq!(lab.write(one, b"x"), Err(Errno::NOTCONN));
}

#[test]
fn unix_datagrams_go_to_names() {
    let mut lab = Lab::new();
    let host = lab.host("host");
    let open = |lab: &mut Lab| lab.network.open(host, Domain::Unix, Transport::Datagram).unwrap();
    let (server, client, stranger) = (open(&mut lab), open(&mut lab), open(&mut lab));
    assert_eq!(lab.send_to(client, b"x", &path("/server")), Err(Errno::NOENT));
    lab.network.bind(server, &path("/server")).unwrap();
    lab.send_to(client, b"unnamed", &path("/server")).unwrap();
    lab.network.bind(client, &path("/client")).unwrap();
    lab.send_to(client, b"named", &path("/server")).unwrap();
    let from = |lab: &mut Lab| lab.receive(server, 9, false).unwrap().1.from.unwrap();
    assert_eq!(from(&mut lab), Name::Unix(UnixName::Unnamed));
    assert_eq!(from(&mut lab), path("/client"));
    lab.connect(server, &path("/client")).unwrap();
    assert_eq!(lab.send_to(stranger, b"x", &path("/server")), Err(Errno::PERM));
    assert_eq!(lab.write(server, b"answer"), Ok(6));
    assert_eq!(lab.read(client, 9).unwrap(), b"answer");
    let stream = lab.network.open(host, Domain::Unix, Transport::Stream).unwrap();
    assert_eq!(lab.connect(stream, &path("/server")), Err(Errno::PROTOTYPE));
    lab.close(client);
    assert_eq!(lab.write(server, b"x"), Err(Errno::CONNREFUSED));
}
