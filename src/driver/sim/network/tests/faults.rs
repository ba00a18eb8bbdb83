//! Partitions, crashes and whatever else befalls connections.

use super::*;

#[test]
fn a_partition_holds_streams_up_and_a_heal_lets_them_go_on_in_order() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    let (client, server) = lab.pair(one, other);
    let begin = lab.now - lab.start;
    lab.write(client, b"under way, ").unwrap();
    lab.partition(one, other);
    lab.write(client, b"sent in vain, ").unwrap();
    lab.write(server, b"other way").unwrap();
    lab.run_to(begin + Duration::from_secs(60));
    assert_eq!(lab.read(server, 99), Err(Errno::AGAIN));
    assert_eq!(lab.read(client, 99).unwrap(), b"other way");
    lab.heal();
    lab.write(client, b"and afterwards").unwrap();
    lab.run_to(begin + Duration::from_secs(60) + MS);
    assert_eq!(lab.drain(server), b"under way, sent in vain, and afterwards");
    // Nothing is left that would end the connection later.
    lab.run();
    lab.write(client, b"x").unwrap();
    lab.run();
    assert_eq!(lab.read(server, 99).unwrap(), b"x");
}

#[test]
fn data_without_an_answer_ends_its_connection_at_one_end() {
    let limit = Duration::from_millis(924_600);
    for (from, to) in [(0, 1), (1, 0)] {
        let mut lab = Lab::new();
        let (one, other) = (lab.host("one"), lab.host("other"));
        let (client, server) = lab.pair(one, other);
        let begin = lab.now - lab.start;
        lab.write(client, b"anyone?").unwrap();
        let ends = [one, other];
        lab.partition(ends[from], ends[to]);
        lab.watch(client, Interest::Read, 1);
        assert_eq!(lab.run(), begin + MS + limit);
        assert_eq!(lab.told(), [1]);
        assert_eq!(lab.read(client, 9), Err(Errno::TIMEDOUT));
        assert_eq!(lab.write(client, b"x"), Err(Errno::PIPE));
        // The other end knows nothing of it, until it sends something itself.
        lab.heal();
        lab.run();
        let heard: &[u8] = if from == 0 { b"" } else { b"anyone?" };
        assert_eq!(lab.drain(server), heard);
        assert_eq!(lab.read(server, 9), Err(Errno::AGAIN));
        lab.write(server, b"hello").unwrap();
        lab.run();
        assert_eq!(lab.read(server, 9), Err(Errno::CONNRESET));
    }
}

#[test]
fn a_silent_connection_notices_nothing_unless_it_is_kept_alive() {
    for keepalive in [false, true] {
        let mut lab = Lab::new();
        let (one, other) = (lab.host("one"), lab.host("other"));
        let (client, _) = lab.pair(one, other);
        for (kind, value) in [
            (OptionKind::Keepalive, OptionValue::Flag(keepalive)),
            (OptionKind::KeepaliveTime, OptionValue::Time(Duration::from_secs(10))),
            (OptionKind::KeepaliveInterval, OptionValue::Time(Duration::from_secs(5))),
            (OptionKind::KeepaliveRetries, OptionValue::Number(3)),
        ] {
            lab.set_option(client, kind, value).unwrap();
        }
        let begin = lab.now - lab.start;
        lab.lose_power(other);
        let end = lab.run();
        if keepalive {
            assert_eq!(end, begin + Duration::from_secs(25));
            assert_eq!(lab.read(client, 9), Err(Errno::TIMEDOUT));
        } else {
            assert_eq!(end, begin);
            assert_eq!(lab.read(client, 9), Err(Errno::AGAIN));
        }
    }
}

#[test]
fn a_host_without_power_is_silent_and_answers_with_a_reset_when_it_is_back() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    let (client, server) = lab.pair(one, other);
    lab.write(server, b"under way").unwrap();
    lab.watch(server, Interest::Read, 7);
    lab.lose_power(other);
    assert_eq!(lab.told(), [7]);
    assert_eq!(lab.read(server, 9), Err(Errno::CANCELED));
    assert_eq!(lab.write(server, b"x"), Err(Errno::CANCELED));
    lab.write(client, b"anyone?").unwrap();
    lab.run_to(lab.now - lab.start + MS);
    assert_eq!(lab.read(client, 9).unwrap(), b"under way");
    lab.watch(client, Interest::Read, 1);
    let later = lab.now - lab.start + Duration::from_secs(100);
    lab.run_to(later);
    assert_eq!(lab.told(), []);
    lab.restart(other);
    lab.run_to(later + 2 * MS);
    assert_eq!(lab.told(), [1]);
    assert_eq!(lab.read(client, 9), Err(Errno::CONNRESET));
    // Its ports are free, and it serves again.
    let listener = lab.listener(other, 80);
    let client = lab.stream(one);
    let _ = lab.connect(client, &v4(other, 80));
    lab.run();
    assert_eq!(lab.connected(client, &v4(other, 80)), Ok(()));
    assert!(lab.network.accept(listener).is_ok());
}

#[test]
fn a_writer_that_waits_for_a_reader_without_power_hears_of_it() {
    for restart in [false, true] {
        let mut lab = Lab::new();
        let (one, other) = (lab.host("one"), lab.host("other"));
        let (client, _) = lab.pair(one, other);
        lab.write(client, &[0; WINDOW]).unwrap();
        assert_eq!(lab.write(client, b"x"), Err(Errno::AGAIN));
        lab.run();
        lab.lose_power(other);
        if restart {
            lab.restart(other);
        }
        lab.watch(client, Interest::Write, 1);
        lab.run();
        assert_eq!(lab.told(), [1]);
        let error = if restart { Errno::CONNRESET } else { Errno::TIMEDOUT };
        assert_eq!(lab.write(client, b"x"), Err(error));
    }
}

#[test]
fn a_connection_attempt_to_a_host_without_power_times_out_or_finds_it_back() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    lab.listener(other, 80);
    let client = lab.stream(one);
    let _ = lab.connect(client, &v4(other, 80));
    lab.run_to(MS);
    // The request has been granted by the host before that.
    lab.lose_power(other);
    assert_eq!(lab.run(), Duration::from_secs(127));
    assert_eq!(lab.connected(client, &v4(other, 80)), Err(Errno::TIMEDOUT));
    let _ = lab.connect(client, &v4(other, 80));
    lab.restart(other);
    lab.run();
    assert_eq!(lab.connected(client, &v4(other, 80)), Err(Errno::CONNREFUSED));
}

#[test]
fn a_crashed_host_ends_its_connections_and_refuses_new_ones() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    let (client, server) = lab.pair(one, other);
    let (full, _) = lab.pair(one, other);
    let late = lab.stream(one);
    lab.write(server, b"under way").unwrap();
    lab.write(full, b"not read").unwrap();
    lab.run();
    let listener = lab.listener(other, 80);
    let _ = lab.connect(late, &v4(other, 80));
    let granted = lab.now - lab.start + MS;
    lab.run_to(granted);
    lab.watch(server, Interest::Read, 7);
    lab.crash(other);
    assert_eq!(lab.told(), [7]);
    for id in [server, listener] {
        assert_eq!(lab.read(id, 9), Err(Errno::CANCELED));
    }
    lab.run();
    // The end of the stream comes after its bytes, and a reset if bytes were not read.
    assert_eq!(lab.read(client, 9).unwrap(), b"under way");
    assert_eq!(lab.read(client, 9).unwrap(), b"");
    assert_eq!(lab.read(full, 9), Err(Errno::CONNRESET));
    // The handshake had ended for the server's system.
    assert_eq!(lab.read(late, 9), Err(Errno::CONNRESET));
    let refused = lab.stream(one);
    let _ = lab.connect(refused, &v4(other, 80));
    lab.run();
    assert_eq!(lab.connected(refused, &v4(other, 80)), Err(Errno::CONNREFUSED));
}

#[test]
fn a_link_resets_its_connections_and_no_others() {
    let mut lab = Lab::new();
    let (one, other, third) = (lab.host("one"), lab.host("other"), lab.host("third"));
    let (first, second) = lab.pair(one, other);
    let (kept, _) = lab.pair(one, third);
    lab.with(|network, ctx| network.reset_link(ctx, other, one));
    assert_eq!(lab.read(first, 9), Err(Errno::CONNRESET));
    assert_eq!(lab.read(second, 9), Err(Errno::CONNRESET));
    assert_eq!(lab.read(kept, 9), Err(Errno::AGAIN));
}

/// No descriptor names the server's end before it is opened, so nothing else would close it.
#[test]
fn a_connection_that_is_never_opened_leaves_nothing() {
    let fall: fn(&mut Lab, HostId, HostId) = |lab, one, _| lab.lose_power(one);
    let reset: fn(&mut Lab, HostId, HostId) =
        |lab, one, other| lab.with(|network, ctx| network.reset_link(ctx, one, other));
    let cut_and_fall: fn(&mut Lab, HostId, HostId) = |lab, one, other| {
        lab.partition(one, other);
        let now = lab.now - lab.start;
        lab.run_to(now + 2 * MS);
        lab.lose_power(one);
    };
    let cut: fn(&mut Lab, HostId, HostId) = |lab, one, other| lab.partition(one, other);
    // The client's end is closed at the end, unless it has no power.
    for (what, happens, micros) in [
        ("no power before the grant", fall, 1_500),
        ("a reset", reset, 2_500),
        ("no power in a partition", cut_and_fall, 2_500),
        ("a connection given up in a partition", cut, 2_500),
    ] {
        let mut lab = Lab::new();
        let (one, other) = (lab.host("one"), lab.host("other"));
        lab.listener(other, 80);
        let client = lab.stream(one);
        let _ = lab.connect(client, &v4(other, 80));
        lab.run_to(Duration::from_micros(micros));
        let _ = lab.write(client, b"x");
        happens(&mut lab, one, other);
        lab.run();
        lab.close(client);
        lab.run();
        assert_eq!(lab.network.count(), 1, "{what}");
    }
}

#[test]
fn a_held_link_keeps_streams_until_it_is_released() {
    let mut lab = Lab::new();
    let (one, other) = (lab.host("one"), lab.host("other"));
    let (client, server) = lab.pair(one, other);
    lab.with(|network, ctx| network.hold(ctx, one, other));
    lab.write(client, b"kept").unwrap();
    lab.shut_down(client, Shutdown::Write).unwrap();
    lab.run_to(lab.now - lab.start + Duration::from_secs(9));
    assert_eq!(lab.read(server, 9), Err(Errno::AGAIN));
    lab.with(|network, ctx| network.release(ctx, other, one));
    lab.run();
    assert_eq!(lab.read(server, 9).unwrap(), b"kept");
    assert_eq!(lab.read(server, 9).unwrap(), b"");
}

#[test]
fn losses_delay_a_stream_and_lose_nothing() {
    let mut lab = Lab::seeded(3);
    let (one, other) = (lab.host("one"), lab.host("other"));
    let (client, server) = lab.pair(one, other);
    lab.network.change_link(one, other, |link| link.loss = 0.5);
    let begin = lab.now - lab.start;
    let all: Vec<u8> = (0..200).collect();
    for byte in &all {
        lab.write(client, &[*byte]).unwrap();
    }
    let end = lab.run();
    assert!(end >= begin + Duration::from_millis(200), "{end:?}");
    assert_eq!(lab.drain(server), all);
}

#[test]
fn faults_of_connections_are_drawn_and_end_with_calm() {
    let mut lab = Lab::seeded(4);
    let (one, other) = (lab.host("one"), lab.host("other"));
    let listener = lab.listener(other, 80);
    let attempt = |lab: &mut Lab| {
        let begin = lab.now;
        let client = lab.stream(one);
        let _ = lab.connect(client, &v4(other, 80));
        lab.run();
        let took = lab.now - begin;
        (lab.connected(client, &v4(other, 80)).is_ok(), took, client)
    };
    lab.faults(|faults| faults.refusal = 0.5);
    let granted = (0..100).filter(|_| attempt(&mut lab).0).count();
    assert!((30..70).contains(&granted), "{granted}");
    lab.faults(|faults| faults.slow_connect = 1.0);
    assert!((0..10).any(|_| attempt(&mut lab).1 > Duration::from_secs(1)));
    lab.faults(|faults| (faults.reset, faults.short) = (0.2, 0.5));
    let (_, _, client) = attempt(&mut lab);
    let (mut short, mut reset) = (false, false);
    for _ in 0..50 {
        match lab.write(client, b"a longer text") {
            Ok(count) => short |= count < 13,
            Err(error) => reset |= error == Errno::CONNRESET,
        }
    }
    assert!(short && reset);
    lab.with(|network, ctx| network.calm(ctx));
    let (is_granted, took, client) = attempt(&mut lab);
    assert!(is_granted && took == 3 * MS);
    for _ in 0..50 {
        assert_eq!(lab.write(client, b"a longer text"), Ok(13));
    }
    lab.close(listener);
}

/// Sends numbered bytes both ways while links fail at random, and compares what arrives.
#[test]
fn whatever_happens_to_a_link_its_streams_stay_in_order() {
    for seed in 0..100 {
        let mut lab = Lab::seeded(seed);
        let (one, other) = (lab.host("one"), lab.host("other"));
        let ends = lab.pair(one, other);
        let ends = [ends.0, ends.1];
        lab.latency(one, other, Duration::ZERO..=5 * MS);
        lab.network.change_link(one, other, |link| link.loss = 0.1);
        let (mut sent, mut read) = ([0_u64; 2], [0_u64; 2]);
        let byte = |position: u64| (position % 251) as u8;
        for _ in 0..300 {
            let side = lab.random.below(2);
            match lab.random.below(9) {
                0..=3 => {
                    let length = lab.random.below(30_000) as u64;
                    let bytes: Vec<u8> = (sent[side]..sent[side] + length).map(byte).collect();
                    if let Ok(count) = lab.write(ends[side], &bytes) {
                        sent[side] += count as u64;
                    }
                }
                4 => lab.partition(one, other),
                5 => lab.heal(),
                6 => lab.with(|network, ctx| network.hold(ctx, one, other)),
                7 => lab.with(|network, ctx| network.release(ctx, one, other)),
                _ => {
                    let after = lab.random.below(4_000) as u32;
                    lab.run_to(lab.now - lab.start + Duration::from_micros(1) * after);
                }
            }
            for bytes in [lab.drain(ends[1 - side])] {
                for found in bytes {
                    assert_eq!(found, byte(read[side]), "seed {seed}");
                    read[side] += 1;
                }
            }
        }
        lab.with(|network, ctx| network.calm(ctx));
        for side in [0, 1] {
            loop {
                lab.run();
                let bytes = lab.drain(ends[1 - side]);
                if bytes.is_empty() {
                    break;
                }
                for found in bytes {
                    assert_eq!(found, byte(read[side]), "seed {seed}");
                    read[side] += 1;
                }
            }
        }
        assert_eq!(sent, read, "seed {seed}");
    }
}
