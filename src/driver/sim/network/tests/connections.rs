//! Addresses, listeners and connection attempts.

use super::*;

#[test]
fn a_connection_takes_a_round_trip_and_is_accepted_after_one_more_way() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    let listener = lab.listener(other, 80);
    let client = lab.stream(one);
    lab.watch(listener, Interest::Read, 1);
    assert_eq!(lab.connect(client, &v4(other, 80)), Err(Errno::INPROGRESS));
    assert_eq!(lab.connect(client, &v4(other, 80)), Err(Errno::ALREADY));
    lab.watch(client, Interest::Write, 2);
    lab.run_to(2 * MS - Duration::from_nanos(1));
    assert!(lab.told().is_empty());
    lab.run_to(2 * MS);
    assert_eq!(lab.told(), [2]);
    assert_eq!(lab.connected(client, &v4(other, 80)), Ok(()));
    assert_eq!(lab.network.accept(listener), Err(Errno::AGAIN));
    lab.run_to(3 * MS);
    assert_eq!(lab.told(), [1]);
    let (server, from) = lab.network.accept(listener).unwrap();
    assert_eq!(from, lab.network.local_name(client).unwrap().1);
    assert_eq!(lab.network.peer_name(server).unwrap().1, from);
    assert_eq!(lab.network.local_name(server).unwrap().1, v4(other, 80));
    assert_eq!(lab.network.peer_name(client).unwrap().1, v4(other, 80));
    assert_eq!(from.internet().unwrap().ip(), one.addresses()[0]);
    lab.close(client);
    lab.close(server);
    lab.close(listener);
    lab.run();
    assert_eq!(lab.network.count(), 0);
}

#[test]
fn on_one_host_a_connection_takes_no_time() {
    let mut lab = Lab::new();
    let host = lab.host("host");
    let listener = lab.listener(host, 80);
    for to in ["127.0.0.1:80", "0.0.0.0:80", "10.0.0.1:80"] {
        let client = lab.stream(host);
        lab.connect(client, &internet(to)).unwrap();
        let (server, from) = lab.network.accept(listener).unwrap();
        lab.write(client, b"at once").unwrap();
        assert_eq!(lab.read(server, 99).unwrap(), b"at once");
        let ip = to.strip_suffix(":80").unwrap().replace("0.0.0.0", "127.0.0.1");
        assert_eq!(from.internet().unwrap().ip().to_string(), ip);
    }
    assert!(lab.events.is_empty());
}

#[test]
fn a_connection_to_no_listener_is_refused_after_a_round_trip() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    let client = lab.stream(one);
    assert_eq!(lab.connect(client, &v4(one, 80)), Err(Errno::CONNREFUSED));
    assert_eq!(lab.connect(client, &v4(other, 80)), Err(Errno::INPROGRESS));
    assert_eq!(lab.run(), 2 * MS);
    assert_eq!(lab.connected(client, &v4(other, 80)), Err(Errno::CONNREFUSED));
    // The socket can try again.
    lab.listener(other, 80);
    assert_eq!(lab.connect(client, &v4(other, 80)), Err(Errno::INPROGRESS));
    lab.run();
    assert_eq!(lab.connected(client, &v4(other, 80)), Ok(()));
}

#[test]
fn an_attempt_without_an_answer_is_repeated_and_fails_after_127_seconds() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    lab.listener(other, 80);
    lab.partition(other, one);
    let client = lab.stream(one);
    let _ = lab.connect(client, &v4(other, 80));
    assert_eq!(lab.run(), Duration::from_secs(127));
    assert_eq!(lab.connected(client, &v4(other, 80)), Err(Errno::TIMEDOUT));
    // A link that comes back lets the next repetition through.
    let begin = lab.now - lab.start;
    let _ = lab.connect(client, &v4(other, 80));
    lab.run_to(begin + Duration::from_secs(5));
    lab.heal();
    lab.run_to(begin + Duration::from_secs(7) + 2 * MS - Duration::from_nanos(1));
    assert_eq!(lab.connected(client, &v4(other, 80)), Err(Errno::ALREADY));
    lab.run_to(begin + Duration::from_secs(7) + 2 * MS);
    assert_eq!(lab.connected(client, &v4(other, 80)), Ok(()));
}

#[test]
fn addresses_without_a_host_cannot_be_reached() {
    let mut lab = Lab::new();
    let host = lab.host("host");
    let client = lab.stream(host);
    assert_eq!(lab.connect(client, &internet("8.8.8.8:80")), Err(Errno::NETUNREACH));
    assert_eq!(lab.connect(client, &internet("10.0.0.9:80")), Err(Errno::INPROGRESS));
    assert_eq!(lab.run(), Duration::from_secs(3));
    assert_eq!(lab.connected(client, &internet("10.0.0.9:80")), Err(Errno::HOSTUNREACH));
}

#[test]
fn a_listener_with_a_full_queue_makes_connections_slow() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    let listener = lab.listener(other, 80);
    let clients: Vec<Id> = (0..4_097)
        .map(|_| {
            let client = lab.stream(one);
            let _ = lab.connect(client, &v4(other, 80));
            lab.run_to(lab.now - lab.start + 3 * MS);
            client
        })
        .collect();
    let last = clients[4_096];
    assert_eq!(lab.connected(last, &v4(other, 80)), Err(Errno::ALREADY));
    lab.network.accept(listener).unwrap();
    lab.run();
    assert_eq!(lab.connected(last, &v4(other, 80)), Ok(()));
}

#[test]
fn an_address_is_bound_once_and_free_when_its_socket_is_closed() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    let bind = |lab: &mut Lab, host, address: &str| {
        let id = lab.stream(host);
        lab.network.bind(id, &internet(address)).map(|()| id)
    };
    let first = bind(&mut lab, one, "127.0.0.1:80").unwrap();
    assert_eq!(bind(&mut lab, one, "127.0.0.1:80"), Err(Errno::ADDRINUSE));
    assert_eq!(bind(&mut lab, one, "0.0.0.0:80"), Err(Errno::ADDRINUSE));
    let second = bind(&mut lab, one, "10.0.0.1:80").unwrap();
    bind(&mut lab, other, "0.0.0.0:80").unwrap();
    assert_eq!(bind(&mut lab, one, "10.0.0.2:80"), Err(Errno::ADDRNOTAVAIL));
    assert_eq!(lab.network.bind(first, &internet("127.0.0.1:81")), Err(Errno::INVAL));
    lab.close(first);
    lab.close(second);
    bind(&mut lab, one, "0.0.0.0:80").unwrap();
    // A port of the host's choice is another one each time.
    let ports: Vec<u16> = (0..3)
        .map(|_| {
            let id = bind(&mut lab, one, "0.0.0.0:0").unwrap();
            lab.network.local_name(id).unwrap().1.internet().unwrap().port()
        })
        .collect();
    assert_eq!(ports, [32_768, 32_769, 32_770]);
}

#[test]
fn a_listener_for_all_addresses_of_ipv6_serves_ipv4_as_well() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    let listener = lab.network.open(other, Domain::V6, Transport::Stream).unwrap();
    lab.network.bind(listener, &internet("[::]:80")).unwrap();
    lab.network.listen(listener).unwrap();
    let old = lab.stream(one);
    let _ = lab.connect(old, &v4(other, 80));
    let new = lab.network.open(one, Domain::V6, Transport::Stream).unwrap();
    let _ = lab.connect(new, &internet("[fd00::2]:80"));
    lab.run();
    for expected in ["[::ffff:10.0.0.1]:", "[fd00::1]:"] {
        let (server, from) = lab.network.accept(listener).unwrap();
        let domain = lab.network.domain(server).unwrap();
        let shown = Domain::V6.write(&from);
        let shown: SocketAddr = crate::driver::Address::from_raw(&shown).unwrap();
        assert_eq!(domain, Domain::V6);
        assert!(shown.to_string().starts_with(expected), "{shown}");
    }
    let raw = crate::driver::Address::to_raw(&"[::1]:1".parse::<SocketAddr>().unwrap());
    assert_eq!(Domain::V4.read(&raw), Err(Errno::AFNOSUPPORT));
}

#[test]
fn connections_that_nobody_accepts_are_reset_with_their_listener() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    let listener = lab.listener(other, 80);
    let clients: Vec<Id> = (0..2).map(|_| lab.stream(one)).collect();
    let _ = lab.connect(clients[0], &v4(other, 80));
    lab.run();
    let _ = lab.connect(clients[1], &v4(other, 80));
    lab.run_to(lab.now - lab.start + 2 * MS);
    // The second one is granted, and not in the queue yet.
    lab.close(listener);
    lab.run();
    for client in clients {
        assert_eq!(lab.read(client, 9), Err(Errno::CONNRESET));
    }
    assert_eq!(lab.network.count(), 2);
}

#[test]
fn an_attempt_that_is_given_up_leaves_nothing() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    let listener = lab.listener(other, 80);
    let client = lab.stream(one);
    let _ = lab.connect(client, &v4(other, 80));
    lab.run_to(MS);
    lab.close(client);
    lab.run();
    assert_eq!(lab.network.accept(listener), Err(Errno::AGAIN));
    assert_eq!(lab.network.count(), 1);
}

#[test]
fn unix_names_belong_to_their_host_and_outlive_their_listener() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    let name = path("/run/socket");
    let open =
        |lab: &mut Lab, host| lab.network.open(host, Domain::Unix, Transport::Stream).unwrap();
    let listener = open(&mut lab, one);
    lab.network.bind(listener, &name).unwrap();
    let client = open(&mut lab, one);
    assert_eq!(lab.connect(client, &name), Err(Errno::CONNREFUSED));
    lab.network.listen(listener).unwrap();
    lab.connect(client, &name).unwrap();
    let stranger = open(&mut lab, other);
    assert_eq!(lab.connect(stranger, &name), Err(Errno::NOENT));
    let (server, from) = lab.network.accept(listener).unwrap();
    assert_eq!(from, Name::Unix(UnixName::Unnamed));
    assert_eq!(lab.network.local_name(server).unwrap().1, name);
    lab.write(client, b"hello").unwrap();
    assert_eq!(lab.read(server, 9).unwrap(), b"hello");
    lab.close(listener);
    let late = open(&mut lab, one);
    assert_eq!(lab.connect(late, &name), Err(Errno::CONNREFUSED));
    assert_eq!(lab.network.bind(late, &name), Err(Errno::ADDRINUSE));
    assert!(lab.network.remove_path(one, b"/run/socket"));
    assert!(!lab.network.remove_path(one, b"/run/socket"));
    lab.network.bind(late, &name).unwrap();
    // An abstract name ends with its socket.
    let hidden = Name::Unix(UnixName::Abstract((*b"name").into()));
    let listener = open(&mut lab, one);
    lab.network.bind(listener, &hidden).unwrap();
    lab.close(listener);
    let client = open(&mut lab, one);
    assert_eq!(lab.connect(client, &hidden), Err(Errno::CONNREFUSED));
    lab.network.bind(client, &hidden).unwrap();
}
