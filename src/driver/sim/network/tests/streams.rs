//! What travels between connected endpoints.

use super::*;

#[test]
fn bytes_arrive_in_order_after_the_latency() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    lab.latency(one, other, 20 * MS..=20 * MS);
    let (client, server) = lab.pair(one, other);
    let begin = lab.now - lab.start;
    lab.watch(server, Interest::Read, 7);
    assert_eq!(lab.write(client, b"first"), Ok(5));
    lab.run_to(begin + MS);
    assert_eq!(lab.write(client, b" second"), Ok(7));
    assert_eq!(lab.read(server, 9), Err(Errno::AGAIN));
    lab.run_to(begin + 20 * MS - Duration::from_nanos(1));
    assert!(lab.told().is_empty() && !lab.is_ready(server, Interest::Read));
    lab.run_to(begin + 20 * MS);
    assert_eq!(lab.told(), [7]);
    assert_eq!(lab.receive(server, 3, true).unwrap().0, b"fir");
    assert_eq!(lab.read(server, 99).unwrap(), b"first");
    lab.run_to(begin + 21 * MS);
    assert_eq!(lab.read(server, 99).unwrap(), b" second");
    lab.close(client);
    assert_eq!(lab.read(server, 99), Err(Errno::AGAIN));
    lab.run();
    assert_eq!(lab.read(server, 99).unwrap(), b"");
}

#[test]
fn several_buffers_are_one_transfer() {
    let mut lab = Lab::new();
    let host = lab.host("host");
    let (one, other) = lab.network.open_pair(host, Transport::Stream).unwrap();
    for round in 0..100 {
        let parts = [&b"ab"[..], b"", b"cde"].map(IoSlice::new);
        assert_eq!(lab.with(|network, ctx| network.send(ctx, one, &parts, None)), Ok(5));
        let (mut first, mut second) = ([0; 3], [0; 4]);
        let mut parts = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        let received = lab.with(|network, ctx| network.receive(ctx, other, &mut parts, false));
        assert_eq!(received.unwrap().count, 5, "round {round}");
        assert_eq!((&first, &second), (b"abc", b"de\0\0"));
    }
}

#[test]
fn a_full_window_holds_the_writer_until_the_reader_has_read() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    for (client, server) in [(one, other), (one, one)] {
        let (client, server) = lab.pair(client, server);
        let block = vec![7; WINDOW + 9];
        assert_eq!(lab.write(client, &block), Ok(WINDOW));
        assert_eq!(lab.write(client, &block), Err(Errno::AGAIN));
        assert!(!lab.is_ready(client, Interest::Write));
        lab.watch(client, Interest::Write, 1);
        lab.run();
        assert!(lab.told().is_empty());
        assert_eq!(lab.read(server, 1_000).unwrap().len(), 1_000);
        lab.run();
        assert_eq!(lab.told(), [1]);
        assert!(lab.is_ready(client, Interest::Write));
        assert_eq!(lab.write(client, &block), Ok(1_000));
        lab.run();
        assert_eq!(lab.drain(server).len(), WINDOW);
        // The news of it travels, too.
        lab.run_to(lab.now - lab.start + MS);
        assert_eq!(lab.write(client, &block), Ok(WINDOW));
        lab.close(client);
    }
}

#[test]
fn the_sizes_of_buffers_bound_the_window() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    let (client, server) = lab.pair(one, other);
    let set = |lab: &mut Lab, id, kind| {
        lab.set_option(id, kind, OptionValue::Size(5_000)).unwrap();
    };
    set(&mut lab, client, OptionKind::SendBufferSize);
    assert_eq!(lab.write(client, &[0; 1 << 20]), Ok(10_000));
    set(&mut lab, server, OptionKind::ReceiveBufferSize);
    assert_eq!(lab.write(client, &[0; 1 << 20]), Ok(10_000));
}

#[test]
fn each_direction_ends_by_itself() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    for (client, server) in [(one, other), (one, one)] {
        let (client, server) = lab.pair(client, server);
        lab.write(client, b"question").unwrap();
        lab.shut_down(client, Shutdown::Write).unwrap();
        assert_eq!(lab.write(client, b"more"), Err(Errno::PIPE));
        lab.run();
        assert_eq!(lab.read(server, 99).unwrap(), b"question");
        assert_eq!(lab.read(server, 99).unwrap(), b"");
        lab.write(server, b"answer").unwrap();
        lab.close(server);
        lab.run();
        assert_eq!(lab.read(client, 99).unwrap(), b"answer");
        assert_eq!(lab.read(client, 99).unwrap(), b"");
        // Both ends have ended, so nothing is left to shut.
        assert_eq!(lab.shut_down(client, Shutdown::Both), Err(Errno::NOTCONN));
        assert_eq!(lab.network.peer_name(client).map(drop), Err(Errno::NOTCONN));
        assert_eq!(lab.read(client, 99).unwrap(), b"");
    }
}

#[test]
fn a_close_with_unread_bytes_resets_the_connection() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    for (client, server) in [(one, other), (one, one)] {
        let (client, server) = lab.pair(client, server);
        lab.write(client, b"unread").unwrap();
        lab.write(server, b"kept").unwrap();
        lab.run();
        lab.watch(client, Interest::Write, 1);
        lab.close(server);
        lab.run();
        assert_eq!(lab.told(), [1]);
        assert_eq!(lab.read(client, 99).unwrap(), b"kept");
        assert_eq!(lab.read(client, 99), Err(Errno::CONNRESET));
        assert_eq!(lab.read(client, 99).unwrap(), b"");
        assert_eq!(lab.write(client, b"x"), Err(Errno::PIPE));
        assert_eq!(lab.network.peer_name(client), Err(Errno::NOTCONN));
        assert_eq!(lab.shut_down(client, Shutdown::Write), Err(Errno::NOTCONN));
    }
}

#[test]
fn a_close_without_lingering_resets_the_connection() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    let (client, server) = lab.pair(one, other);
    let zero = OptionValue::Limit(Some(Duration::ZERO));
    lab.set_option(server, OptionKind::Linger, zero).unwrap();
    lab.close(server);
    lab.run();
    assert_eq!(lab.network.take_error(client), Ok(Some(Errno::CONNRESET)));
    assert_eq!(lab.network.take_error(client), Ok(None));
}

#[test]
fn bytes_that_arrive_at_a_closed_end_are_answered_by_a_reset() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    // Under way when the end is closed.
    let (client, server) = lab.pair(one, other);
    lab.write(client, b"late").unwrap();
    lab.close(server);
    let begin = lab.now - lab.start;
    assert_eq!(lab.run(), begin + 2 * MS);
    assert_eq!(lab.write(client, b"x"), Err(Errno::PIPE));
    // Sent afterwards.
    let (client, server) = lab.pair(one, other);
    lab.close(server);
    lab.run();
    assert_eq!(lab.read(client, 9).unwrap(), b"");
    let begin = lab.now - lab.start;
    assert_eq!(lab.write(client, b"into the void"), Ok(13));
    assert_eq!(lab.run(), begin + 2 * MS);
    assert_eq!(lab.write(client, b"x"), Err(Errno::PIPE));
    assert_eq!(lab.write(client, b"x"), Err(Errno::PIPE));
    // A writer that waits for room hears of it.
    let (client, server) = lab.pair(one, other);
    lab.write(client, &[0; WINDOW]).unwrap();
    assert_eq!(lab.write(client, b"x"), Err(Errno::AGAIN));
    lab.watch(client, Interest::Write, 1);
    lab.close(server);
    lab.run();
    assert_eq!(lab.told(), [1]);
    assert!(lab.write(client, b"x").is_err_and(|error| error != Errno::AGAIN));
}

#[test]
fn a_unix_stream_breaks_at_once() {
    let mut lab = Lab::new();
    let host = lab.host("host");
    let (one, other) = lab.network.open_pair(host, Transport::Stream).unwrap();
    lab.watch(one, Interest::Read, 1);
    lab.close(other);
    assert_eq!(lab.told(), [1]);
    assert_eq!(lab.read(one, 9).unwrap(), b"");
    assert_eq!(lab.write(one, b"x"), Err(Errno::PIPE));
    let (one, other) = lab.network.open_pair(host, Transport::Stream).unwrap();
    lab.shut_down(other, Shutdown::Read).unwrap();
    assert_eq!(lab.write(one, b"x"), Err(Errno::PIPE));
    let alone = lab.network.open(host, Domain::Unix, Transport::Stream).unwrap();
    assert_eq!(lab.write(alone, b"x"), Err(Errno::NOTCONN));
    let alone = lab.stream(host);
    assert_eq!(lab.write(alone, b"x"), Err(Errno::PIPE));
    assert_eq!(lab.read(alone, 9), Err(Errno::NOTCONN));
}

#[test]
fn a_line_carries_as_many_bytes_as_its_bandwidth_says() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    let (client, server) = lab.pair(one, other);
    lab.network.change_link(one, other, |link| link.bandwidth = Some(1_000_000));
    let begin = lab.now - lab.start;
    lab.write(client, &[1; 10_000]).unwrap();
    lab.write(client, &[2; 10_000]).unwrap();
    lab.run_to(begin + 11 * MS);
    assert_eq!(lab.drain(server), [1; 10_000]);
    lab.run_to(begin + 21 * MS - Duration::from_nanos(1));
    assert_eq!(lab.read(server, 9), Err(Errno::AGAIN));
    lab.run_to(begin + 21 * MS);
    assert_eq!(lab.drain(server), [2; 10_000]);
}

#[test]
fn a_socket_that_is_not_used_takes_little_memory() {
    // The numbers of the module's documentation: a socket with its endpoint, its place in the table,
    // and the entry in the host's index.
    let socket = size_of::<Socket>() + size_of::<usize>();
    assert!(2 * socket + 128 <= 960, "{socket}");
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    let listener = lab.listener(other, 80);
    let mut ends = Vec::new();
    for _ in 0..3_000 {
        let client = lab.stream(one);
        let _ = lab.connect(client, &v4(other, 80));
        ends.push(client);
    }
    lab.run();
    while let Ok((server, _)) = lab.network.accept(listener) {
        ends.push(server);
    }
    assert_eq!((ends.len(), lab.events.len()), (6_000, 0));
    for end in &ends {
        lab.write(*end, &[0; 10_000]).unwrap();
    }
    lab.run();
    for end in &ends {
        assert_eq!(lab.drain(*end).len(), 10_000);
        let buffer = lab.network.end_mut(*end).map(|end| end.bytes.capacity());
        assert!(buffer.is_some_and(|capacity| capacity <= SMALL), "{buffer:?}");
    }
    ends.into_iter().for_each(|end| lab.close(end));
    lab.run();
    assert_eq!(lab.network.count(), 1);
}
