//! Connections that are lost again and again.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ecru::net::TcpListener;
use ecru::sim;
use ecru_nats::{ErrorKind, Event, Options};

use crate::peer::{ADDRESS, INFO, Peer, SECOND, against, ms, quick, simulate};

/// - given: a server that accepts each login and closes the connection at once
/// - when: the client reconnects for a minute
/// - then: the pauses grow to the longest one, as they do if the server cannot be reached
#[test]
fn nats_104_a_flapping_server() {
    simulate(|| {
        let logins = AtomicU32::new(0);
        let listener = TcpListener::bind(ADDRESS).unwrap();
        ecru::scope(|s| {
            s.spawn_daemon(|| {
                while let Ok(mut peer) = Peer::accept(&listener) {
                    let said = peer.say(INFO).and_then(|()| peer.log_in());
                    logins.fetch_add(u32::from(said.is_ok()), Ordering::Relaxed);
                }
            });
            ecru::scope(|s| {
                let options = Options::new().reconnect_delay(ms(100), 4 * SECOND);
                let _client = options.connect(s, ADDRESS).unwrap();
                ecru::sleep(60 * SECOND).unwrap();
            });
        });
        // Six pauses until the longest one, and then at least one each two seconds.
        let count = logins.load(Ordering::Relaxed);
        assert!((15..=40).contains(&count), "{count} logins in a minute");
    });
}

/// - given: a server that says in each greeting that it is about to stop, and names itself by
///   another address
/// - when: the client moves to that address for a minute
/// - then: the pauses grow, as they do for a server that closes the connection
#[test]
fn nats_105_an_endless_lame_duck() {
    simulate(|| {
        let logins = AtomicU32::new(0);
        let listener = TcpListener::bind("0.0.0.0:4222").unwrap();
        ecru::scope(|s| {
            s.spawn_daemon(|| {
                ecru::scope(|s| {
                    while let Ok(mut peer) = Peer::accept(&listener) {
                        logins.fetch_add(1, Ordering::Relaxed);
                        s.spawn(move || {
                            let _ = peer.say(format!(
                                "INFO {{\"ldm\":true,\"max_payload\":9,\"connect_urls\":[\"127.0.0.2:4222\",\"{ADDRESS}\"]}}\r\n"
                            ));
                            let _ = peer.log_in();
                            peer.idle()
                        });
                    }
                });
            });
            ecru::scope(|s| {
                let options = Options::new().reconnect_delay(ms(100), 4 * SECOND);
                let _client = options.connect(s, ADDRESS).unwrap();
                ecru::sleep(60 * SECOND).unwrap();
            });
        });
        let count = logins.load(Ordering::Relaxed);
        assert!((2..=40).contains(&count), "{count} logins in a minute");
    });
}

#[test]
fn pauses_grow_within_their_bounds() {
    simulate(|| {
        let listener = TcpListener::bind(ADDRESS).unwrap();
        ecru::scope(|s| {
            let options = Options::new().reconnect_delay(ms(100), SECOND).max_reconnects(9);
            let client = ecru::scope(|accepting| {
                accepting.spawn(|| drop(Peer::greet(&listener)));
                options.connect(s, ADDRESS).unwrap()
            });
            drop(listener);
            let events = client.events();
            let lost = |event: &Event| matches!(event, Event::Disconnected { .. });
            assert!(events.iter().any(|event| lost(&event)));
            let mut longest = ms(100);
            let mut last = None;
            for round in 0..9 {
                assert!(matches!(events.recv(), Ok(Event::ReconnectFailed { .. })));
                let now = sim::elapsed();
                if let Some(last) = last.filter(|_| round > 0) {
                    let pause: Duration = now - last;
                    assert!(
                        pause >= longest / 2 && pause <= longest + ms(10),
                        "{round}: {pause:?}"
                    );
                    longest = (2 * longest).min(SECOND);
                }
                last = Some(now);
            }
            // It has given up.
            assert!(events.recv().unwrap_err().is_disconnected());
            assert_eq!(client.publish("a", "").unwrap_err().kind(), ErrorKind::Closed);
        });
    });
}

/// - given: a pause of zero before the first new attempt to connect
/// - when: the server cannot be reached for a minute
/// - then: the pauses grow all the same
#[test]
fn nats_106_a_first_pause_of_zero() {
    simulate(|| {
        let listener = TcpListener::bind(ADDRESS).unwrap();
        ecru::scope(|s| {
            let client = ecru::scope(|accepting| {
                accepting.spawn(|| drop(Peer::greet(&listener)));
                let options = Options::new().reconnect_delay(Duration::ZERO, SECOND);
                options.connect(s, ADDRESS).unwrap()
            });
            drop(listener);
            let events = client.events();
            let begun = sim::elapsed();
            let mut rounds = 0;
            while sim::elapsed() - begun < 60 * SECOND && rounds < 1000 {
                events.recv().unwrap();
                rounds += 1;
            }
            assert!(rounds < 200, "{rounds} rounds in {:?}", sim::elapsed() - begun);
        });
    });
}

#[test]
fn what_is_published_meanwhile_arrives_in_order() {
    let script = |listener: &TcpListener| {
        drop(Peer::greet(listener)?);
        ecru::sleep(SECOND)?;
        let mut peer = Peer::greet(listener)?;
        for n in 0..100 {
            assert_eq!(peer.published()?.text(), n.to_string());
        }
        peer.idle()
    };
    against(&quick(), script, |client| {
        while client.is_connected() {
            ecru::sleep(ms(1))?;
        }
        for n in 0..100 {
            client.publish("numbers", n.to_string())?;
        }
        client.flush()
    });
}

/// - given: a client that has published much, whose server reads slowly
/// - when: the server announces that it will stop, and the client moves to another one
/// - then: each message arrives at one of the two, and messages that the first one had sent are
///   received
#[test]
fn nats_107_leaving_a_lame_duck() {
    const MESSAGES: u32 = 40;
    simulate(|| {
        let (first, second) =
            (TcpListener::bind(ADDRESS).unwrap(), TcpListener::bind("127.0.0.2:4222").unwrap());
        ecru::scope(|s| {
            let old = s.spawn(|| {
                let mut peer = Peer::greet(&first).unwrap();
                ecru::sleep(SECOND).unwrap();
                peer.say(
                    "INFO {\"ldm\":true,\"max_payload\":9999999,\"connect_urls\":[\"127.0.0.2:4222\"]}\r\n",
                )
                .unwrap();
                ecru::sleep(SECOND).unwrap();
                peer.say("MSG words 2 4\r\nlast\r\n").unwrap();
                std::iter::from_fn(|| peer.published().ok()).count()
            });
            let new = s.spawn(|| {
                let mut peer = Peer::greet(&second).unwrap();
                std::iter::from_fn(|| peer.published().ok()).count()
            });
            ecru::scope(|s| {
                let client = quick().flush_timeout(60 * SECOND).connect(s, ADDRESS).unwrap();
                let words = client.subscribe("words").unwrap();
                for _ in 0..MESSAGES {
                    client.publish("numbers", vec![b'x'; 50_000]).unwrap();
                }
                assert_eq!(words.recv_timeout(60 * SECOND).unwrap().payload(), "last");
                let moved = Event::Connected { server: "127.0.0.2:4222".into() };
                assert!(client.events().iter().any(|event| event == moved));
            });
            let count = old.join().unwrap() + new.join().unwrap();
            assert_eq!(count, MESSAGES as usize);
        });
    });
}

#[test]
fn the_servers_of_a_cluster_change() {
    // Each server names the next one and stops.
    simulate(|| {
        let listener = |n: u32| TcpListener::bind(format!("127.0.0.{n}:4222")).unwrap();
        ecru::scope(|s| {
            for n in 1..10 {
                let listener = listener(n);
                s.spawn_daemon(move || {
                    let Ok(mut peer) = Peer::accept(&listener) else { return };
                    let next = n + 1;
                    let _ = peer.say(format!(
                        "INFO {{\"max_payload\":99,\"connect_urls\":[\"127.0.0.{next}:4222\"]}}\r\n"
                    ));
                    let _ = peer.log_in().and_then(|_| peer.published());
                });
            }
            ecru::scope(|s| {
                let client = quick().connect(s, "nats://127.0.0.1:4222").unwrap();
                let events = client.events();
                for n in 1..9 {
                    let server = format!("127.0.0.{n}:4222");
                    let there = Event::Connected { server };
                    assert!(events.iter().any(|event| event == there));
                    client.publish("go", "").unwrap();
                }
            });
        });
    });
}

#[test]
fn a_connection_that_is_cut_at_every_message() {
    // No answer is another's, and nothing hangs.
    let script = |listener: &TcpListener| {
        for whole in (0..40).cycle() {
            let mut peer = Peer::greet(listener)?;
            for _ in 0..whole {
                let Ok(said) = peer.published() else { break };
                let text = said.text().to_owned();
                let _ = peer.answer(&said, &text);
            }
        }
        Ok(())
    };
    against(&quick().request_timeout(2 * SECOND), script, |client| {
        for n in 0..60 {
            match client.request("echo", n.to_string())?.get() {
                Ok(answer) => assert_eq!(answer.payload(), &n.to_string()),
                Err(error) => assert!(error.is_outcome_unknown(), "{error}"),
            }
        }
        Ok(())
    });
}
