//! Servers that break the protocol.

use std::io;

use ecru::net::TcpListener;
use ecru::sim;
use ecru_nats::{Client, Error, ErrorKind, Event, Message, Options};

use crate::peer::{ADDRESS, INFO, Peer, SECOND, against, ms, quick, simulate};

/// Connects to a server that follows a script for each connection. Returns the error.
fn refused(options: &Options, script: impl Fn(Peer) -> io::Result<()> + Sync) -> Error {
    let listener = TcpListener::bind(ADDRESS).unwrap();
    ecru::scope(|s| {
        s.spawn_daemon(|| {
            while let Ok(peer) = Peer::accept(&listener) {
                let _ = script(peer);
            }
        });
        ecru::scope(|s| options.clone().connect(s, ADDRESS).map(drop)).unwrap_err()
    })
}

#[test]
fn a_handshake_that_is_cut_at_every_byte() {
    simulate(|| {
        let said = format!("{INFO}PON");
        for end in 0..said.len() {
            let error = refused(&Options::new(), |mut peer| {
                peer.say(&said[..end.min(INFO.len())])?;
                if end > INFO.len() {
                    peer.next()?;
                    peer.say(&said[INFO.len()..end])?;
                }
                Ok(())
            });
            assert_eq!((error.kind(), error.server()), (ErrorKind::Connect, Some(ADDRESS)));
        }
    });
}

#[test]
fn a_greeting_that_takes_for_ever() {
    simulate(|| {
        let begun = sim::elapsed();
        let error = refused(&Options::new(), |mut peer| {
            for byte in INFO.bytes() {
                peer.say([byte])?;
                ecru::sleep(SECOND)?;
            }
            Ok(())
        });
        assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
        assert_eq!(sim::elapsed() - begun, 5 * SECOND);
        // It never ends a line, or never ends the login.
        for flood in [&"x".repeat(2000), "+OK\r\n", "PING\r\n", INFO] {
            let begun = sim::elapsed();
            let error = refused(&Options::new().connect_timeout(SECOND), |mut peer| {
                peer.say(if flood.starts_with('x') { "" } else { INFO })?;
                loop {
                    peer.say(flood.repeat(10))?;
                    ecru::sleep(ms(20))?;
                }
            });
            let kinds = [ErrorKind::Connect, ErrorKind::Protocol];
            assert!(kinds.contains(&error.kind()), "{error}");
            assert!(sim::elapsed() - begun <= SECOND);
        }
    });
}

#[test]
fn absurd_values_in_the_greeting() {
    let deep = format!("{}1{}", "[".repeat(20_000), "]".repeat(20_000));
    let long = format!("\"{}\"", "x".repeat(70_000));
    let bad = ["-1", "1e999", "\"1\"", "null", "[]", "1.5", "99999999999999999999", &deep, &long];
    simulate(|| {
        for value in bad {
            let error = refused(&Options::new(), |mut peer| {
                peer.say(format!("INFO {{\"max_payload\":{value}}}\r\n"))?;
                peer.next().map(drop)
            });
            assert_eq!(error.kind(), ErrorKind::Protocol, "{value:.20} {error}");
            assert!(error.to_string().len() < 1000, "{value:.20}");
        }
    });
    let script = |listener: &TcpListener| {
        let mut peer = Peer::accept(listener)?;
        peer.say("INFO {\"max_payload\":18446744073709551615,\"connect_urls\":[\"\",\":\",\"[\",\"a:99999\",\"\\u0000\"],\"unknown\":{\"a\":[]}}\r\n")?;
        peer.log_in()?;
        peer.idle()
    };
    against(&Options::new(), script, |client| {
        assert_eq!(client.server_info().max_payload, usize::MAX);
        assert_eq!(client.server_info().version_numbers(), (0, 0));
        client.publish("a", vec![0; 2 << 20])?;
        client.flush()
    });
}

#[test]
fn a_limit_that_shrinks_in_mid_stream() {
    let script = |listener: &TcpListener| {
        let mut peer = Peer::greet(listener)?;
        peer.say("INFO {\"max_payload\":10,\"headers\":true}\r\n")?;
        peer.idle()
    };
    against(&Options::new(), script, |client| {
        client.flush()?;
        client.publish("a", vec![0; 10])?;
        let error = client.publish("a", vec![0; 11]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
        client.flush()
    });
}

/// - given: a client with a subscription
/// - when: the server reports an error that does not end the connection, for instance that there
///   are too many subscriptions
/// - then: an event has its words, and the client stays connected
#[test]
fn nats_100_an_error_that_ends_nothing() {
    let script = |listener: &TcpListener| {
        let mut peer = Peer::greet(listener)?;
        peer.say("-ERR 'maximum subscriptions exceeded'\r\n-ERR 'something new'\r\n")?;
        peer.idle()
    };
    against(&quick(), script, |client| {
        client.flush()?;
        client.flush()?;
        let events: Vec<Event> = client.events().try_iter().collect();
        let words: Vec<&str> = events
            .iter()
            .filter_map(|event| match event {
                Event::ServerError { words, .. } => Some(words.as_str()),
                Event::Disconnected { why, .. } => panic!("{why}"),
                _ => None,
            })
            .collect();
        assert_eq!(words, ["maximum subscriptions exceeded", "something new"]);
        assert!(client.is_connected());
        Ok(())
    });
}

/// - given: a server that reports an error and closes the connection
/// - when: the client notices
/// - then: the event of the loss has the server's words
#[test]
fn nats_101_the_last_words_of_a_server() {
    let script = |listener: &TcpListener| {
        let mut peer = Peer::greet(listener)?;
        peer.say("-ERR 'Stale Connection'\r\n")?;
        drop(peer);
        Peer::greet(listener)?.idle()
    };
    against(&quick(), script, |client| {
        let why = client.events().iter().find_map(|event| match event {
            Event::Disconnected { why, .. } => Some(why),
            _ => None,
        });
        assert!(why.as_ref().is_some_and(|why| why.contains("Stale Connection")), "{why:?}");
        client.flush()
    });
}

#[test]
fn a_flood_of_errors() {
    let script = |listener: &TcpListener| {
        let mut peer = Peer::greet(listener)?;
        peer.say("-ERR 'Permissions Violation for Publish to \"a\"'\r\n".repeat(2000))?;
        peer.idle()
    };
    against(&quick(), script, |client| {
        client.flush()?;
        assert!(client.is_connected() && client.events().len() <= 64);
        Ok(())
    });
}

/// - given: a server whose words are long and contain control characters
/// - when: they are in an event or in the error of a login
/// - then: they are cut, and the control characters are escaped
#[test]
fn nats_102_words_for_a_terminal() {
    let words = format!("\u{1b}[2J\u{7}\rall is well{}", "x".repeat(50_000));
    let is_tame = |text: &str| text.len() < 1000 && !text.contains(char::is_control);
    simulate(|| {
        let error = refused(&Options::new(), |mut peer| {
            peer.say(INFO)?;
            peer.next()?;
            peer.say(format!("-ERR '{words}'\r\n"))
        });
        assert!(is_tame(&error.to_string()), "{:.80}", error.to_string());
        assert!(error.to_string().contains("all is well"));
    });
    let script = |listener: &TcpListener| {
        let mut peer = Peer::greet(listener)?;
        peer.say(format!("-ERR 'Permissions Violation {words}'\r\n"))?;
        peer.idle()
    };
    against(&quick(), script, |client| {
        client.flush()?;
        for event in client.events().try_iter() {
            if let Event::ServerError { words, .. } = event {
                assert!(is_tame(&words) && words.contains("all is well"), "{words:.80}");
            }
        }
        Ok(())
    });
}

/// - given: a server that repeats the password, the token or the JWT in its refusal
/// - when: a client logs in
/// - then: the error does not show it
#[test]
fn nats_103_a_server_that_repeats_secrets() {
    let attempts = [
        (Options::new().user("mill", "hush-hush"), ADDRESS.to_owned()),
        (Options::new().token("hush-hush"), ADDRESS.to_owned()),
        (Options::new(), format!("nats://hush-hush@{ADDRESS}")),
        (Options::new(), format!("nats://mill:hush-hush@{ADDRESS}")),
    ];
    simulate(|| {
        let listener = TcpListener::bind(ADDRESS).unwrap();
        ecru::scope(|s| {
            s.spawn_daemon(|| {
                while let Ok(mut peer) = Peer::accept(&listener) {
                    let _ = peer.say(INFO).and_then(|()| peer.next());
                    let _ = peer.say("-ERR 'Authorization Violation: not \"hush-hush\"'\r\n");
                }
            });
            for (options, url) in &attempts {
                let error = ecru::scope(|s| options.clone().connect(s, url).map(drop)).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Authorization, "{error}");
                assert!(!format!("{error} {error:?}").contains("hush-hush"), "{error}");
            }
        });
    });
}

#[test]
fn messages_for_unknown_subscriptions() {
    let script = |listener: &TcpListener| {
        let mut peer = Peer::greet(listener)?;
        for sid in ["0", "1", "3", "999999999999999999", "000000000000000002"] {
            peer.say(format!("MSG words {sid} 1\r\nx\r\n"))?;
        }
        peer.idle()
    };
    against(&quick(), script, |client| {
        let words = client.subscribe("words")?;
        client.flush()?;
        assert!(client.is_connected() && words.len() <= 1);
        Ok(())
    });
}

/// Loses the connection by `nonsense`, and checks that the next one serves the subscription.
fn survives(nonsense: &'static [u8]) {
    let script = |listener: &TcpListener| {
        let mut peer = Peer::greet(listener)?;
        while peer.next()?.line != "SUB words 2" {}
        peer.say("MSG words 2 5\r\nfirst\r\n")?;
        peer.say(nonsense)?;
        // The rest is never sent.
        if nonsense.starts_with(b"MSG words 2 10\r\n") {
            drop(peer);
        }
        let mut peer = Peer::greet(listener)?;
        while peer.next()?.line != "SUB words 2" {}
        peer.say("MSG words 2 6\r\nsecond\r\n")?;
        peer.idle()
    };
    against(&quick(), script, |client| {
        let words = client.subscribe("words")?;
        assert_eq!(words.recv().unwrap().payload(), "first");
        assert_eq!(words.recv().unwrap().payload(), "second");
        client.flush()
    });
}

#[test]
fn nonsense_in_mid_stream() {
    for nonsense in [
        &b"MSG words 2 10\r\nhalf"[..],
        b"MSG words 2 99999999999\r\n",
        b"MSG words 2 -1\r\n",
        b"MSG words 2 1\r\nxxxx\r\n",
        b"HMSG words 2 99 9\r\n",
        b"HMSG words 2 12 12\r\nNATS/9.0\r\n\r\n\r\n",
        b"HMSG words 2 18 18\r\nNATS/1.0 xyz\r\n\xff\xff\r\n",
        b"INFO {\"max_payload\":-1}\r\n",
        b"INFO\r\n",
        b"\r\n\r\n",
        b"\x16\x03\x01\x02\x00",
        &[b'x'; 70_000],
    ] {
        survives(nonsense);
    }
}

#[test]
fn pongs_that_nothing_asked_for() {
    let script = |listener: &TcpListener| {
        let mut peer = Peer::greet(listener)?;
        peer.say("PONG\r\n".repeat(1000))?;
        peer.idle()
    };
    against(&quick(), script, |client| {
        for _ in 0..10 {
            client.flush()?;
        }
        Ok(())
    });
}

#[test]
fn a_flood_of_pings() {
    let script = |listener: &TcpListener| {
        let mut peer = Peer::greet(listener)?;
        peer.say("PING\r\n".repeat(20_000))?;
        let mut answers = 0;
        loop {
            let said = peer.next()?;
            match said.verb() {
                "PONG" => answers += 1,
                "PING" => break,
                _ => {}
            }
        }
        assert!((1..=20_000).contains(&answers), "{answers}");
        peer.say("PONG\r\n")?;
        peer.idle()
    };
    against(&quick(), script, |client| {
        ecru::sleep(SECOND)?;
        client.flush()
    });
}

#[test]
fn a_pong_that_never_comes() {
    let script = |listener: &TcpListener| {
        let mut peer = Peer::greet(listener)?;
        while peer.next().is_ok() {}
        Peer::greet(listener)?.idle()
    };
    let options = quick().ping_interval(2 * SECOND).request_timeout(SECOND);
    against(&options, script, |client| {
        let begun = sim::elapsed();
        assert_eq!(client.flush().unwrap_err().kind(), ErrorKind::TimedOut);
        assert_eq!(sim::elapsed() - begun, SECOND);
        let lost = |event: &Event| matches!(event, Event::Disconnected { .. });
        assert!(client.events().iter().any(|event| lost(&event)));
        assert!(sim::elapsed() - begun <= 6 * SECOND);
        // The answers of the next connection are not mistaken for those of the last one.
        client.flush()
    });
}

#[test]
fn a_subject_that_contains_a_command() {
    let script = |listener: &TcpListener| {
        let mut peer = Peer::greet(listener)?;
        while peer.next()?.verb() != "SUB" {}
        // A service answers to whatever subject a message asks for.
        peer.say(
            "MSG ask 2 a.*.> 1\r\nx\r\nMSG ask 2 up\u{a0}on 1\r\nx\r\nMSG ask 2 .. 1\r\nx\r\n",
        )?;
        loop {
            let said = peer.published()?;
            assert_eq!(said.line, "PUB done 0");
        }
    };
    against(&quick(), script, |client| {
        let asked = client.subscribe("ask")?;
        for question in asked.iter().take(3) {
            let error = client.publish(question.reply().unwrap(), "answer").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        }
        client.publish("done", "")?;
        client.flush()
    });
}

#[test]
fn a_message_that_is_passed_on_keeps_its_shape() {
    // A line without a colon, a second empty line, and a bare line feed.
    let block = "NATS/1.0\r\nA: b\nPUB c 0\r\nno colon\r\n\r\nD: e\r\n\r\n";
    let script = |listener: &TcpListener| {
        let mut peer = Peer::greet(listener)?;
        while peer.next()?.verb() != "SUB" {}
        peer.say(format!("HMSG in 2 {0} {0}\r\n{block}\r\n", block.len()))?;
        let said = peer.published()?;
        assert_eq!((said.subject(), said.payload.len()), ("in", 0));
        assert_eq!(said.headers, block);
        peer.say("MSG in 2 4\r\ndone\r\n")?;
        peer.idle()
    };
    against(&quick(), script, |client| {
        let incoming = client.subscribe("in")?;
        let message: Message = incoming.recv().unwrap();
        let _ = (message.headers().iter().count(), format!("{message:?} {:?}", message.headers()));
        client.publish_message(&message)?;
        assert_eq!(incoming.recv().unwrap().payload(), "done");
        Ok(())
    });
}

#[test]
fn a_client_of_a_silent_listener_can_be_cancelled() {
    simulate(|| {
        let _listener = TcpListener::bind(ADDRESS).unwrap();
        let error = ecru::scope(|s| {
            ecru::cancel_scope(|c| {
                s.spawn_daemon({
                    let c = c.clone();
                    move || {
                        let _ = ecru::sleep(ms(100));
                        c.cancel();
                    }
                });
                Client::connect(s, ADDRESS).unwrap_err()
            })
        });
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
        assert_eq!(sim::elapsed(), ms(100));
    });
}
