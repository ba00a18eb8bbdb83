//! The worst arguments that a caller can pass.

use std::io;
use std::time::Duration;

use ecru::net::TcpListener;
use ecru_nats::jetstream::{BucketConfig, ConsumerConfig, StreamConfig};
use ecru_nats::{Error, ErrorKind, Headers, Message, Options};

use crate::peer::{ADDRESS, INFO, Peer, against, quick, simulate};

/// Texts that would be commands if they were sent as they are.
const INJECTED: [&str; 8] = [
    "\r\nPUB stolen 0\r\n",
    "a\r\nPUB stolen 0\r\n\r\n",
    "a\nPING",
    "a\rb",
    "a b",
    "a\tb",
    "a\u{0}b",
    "a\u{85}b",
];

/// A server that accepts nothing but what this test sends on purpose.
fn suspicious(listener: &TcpListener) -> io::Result<()> {
    let mut peer = Peer::greet(listener)?;
    loop {
        let said = peer.published()?;
        assert_eq!(said.line, "PUB done 0");
    }
}

fn is_invalid<T>(result: Result<T, Error>) -> bool {
    result.is_err_and(|error| error.kind() == ErrorKind::InvalidInput)
}

#[test]
fn injected_commands() {
    against(&quick(), suspicious, |client| {
        let jetstream = client.jetstream();
        let consumer = |name: &str| jetstream.consumer("S", name);
        for text in INJECTED {
            let with_reply = Message::new("a", "").with_reply(text);
            assert!(is_invalid(client.publish(text, "")), "{text:?}");
            assert!(is_invalid(client.request(text, "")), "{text:?}");
            assert!(is_invalid(client.publish_message(&with_reply)), "{text:?}");
            assert!(is_invalid(client.subscribe(text)), "{text:?}");
            assert!(is_invalid(client.subscription("a").queue(text).open()), "{text:?}");
            assert!(is_invalid(client.jetstream_of(text)), "{text:?}");
            assert!(is_invalid(jetstream.publish(text, "")), "{text:?}");
            assert!(is_invalid(jetstream.stream_info(text)), "{text:?}");
            assert!(is_invalid(jetstream.last_message("S", text)), "{text:?}");
            assert!(is_invalid(jetstream.purge_stream("S", Some(text))), "{text:?}");
            assert!(is_invalid(consumer(text)), "{text:?}");
            assert!(is_invalid(jetstream.create_bucket(&BucketConfig::new(text))), "{text:?}");
            assert!(is_invalid(jetstream.bucket("b")?.get(text)), "{text:?}");
            let subjects = vec![text.to_owned()];
            let config = StreamConfig { subjects, ..StreamConfig::new("S") };
            assert!(is_invalid(jetstream.create_stream(&config)), "{text:?}");
            let filter_subject = Some(text.to_owned());
            let config = ConsumerConfig { filter_subject, ..ConsumerConfig::new("C") };
            assert!(is_invalid(jetstream.create_consumer("S", &config)), "{text:?}");
        }
        client.publish("done", "")?;
        client.flush()
    });
}

#[test]
fn injected_headers() {
    for text in ["\r\n", "a\r\nB: c", "a\nb", "a\rb", "\u{0}"] {
        assert!(is_invalid(Headers::new().append("A", text)), "{text:?}");
        assert!(is_invalid(Headers::new().append(text, "")), "{text:?}");
        assert!(is_invalid(Message::new("a", "").with_header(text, "")), "{text:?}");
    }
    for name in ["", ":", "a:b", "a b", "\u{e9}t\u{e9}", "\u{1b}"] {
        assert!(is_invalid(Headers::new().append(name, "")), "{name:?}");
    }
    let mut headers = Headers::new();
    for (name, value) in [("A", "b: c"), ("A", ""), ("T", "\u{e9}t\u{e9} \u{1f600}"), ("~!", ":")] {
        headers.append(name, value).unwrap();
    }
    assert_eq!((headers.get("A"), headers.get("~!")), (Some("b: c"), Some(":")));
    assert_eq!(headers.iter().count(), 4);
    // An error does not repeat the value, which may be a secret.
    let error = headers.append("Authorization", "Bearer hush\r\n").unwrap_err();
    assert!(!error.to_string().contains("hush"), "{error}");
    let error = headers.append(&"x ".repeat(100_000), "").unwrap_err();
    assert!(error.to_string().len() < 1000);
}

#[test]
fn injected_names_and_passwords() {
    let text = "hu\"sh\r\nPUB stolen 0\r\n\r\n\u{0}\\";
    simulate(|| {
        let attempts =
            [Options::new().user(text, text).name(text), Options::new().token(text).name(text)];
        for options in attempts {
            let listener = TcpListener::bind(ADDRESS).unwrap();
            ecru::scope(|s| {
                let said = s.spawn(|| {
                    let mut peer = Peer::accept(&listener).unwrap();
                    peer.say(INFO).unwrap();
                    peer.log_in().unwrap().line
                });
                ecru::scope(|s| options.connect(s, ADDRESS).map(drop)).unwrap();
                let line = said.join().unwrap();
                let escaped = "hu\\\"sh\\r\\nPUB stolen 0\\r\\n\\r\\n\\u0000\\\\";
                assert!(line.contains(&format!("\"name\":\"{escaped}\"")), "{line}");
            });
        }
    });
}

#[test]
fn sizes_at_the_edge() {
    let script = |listener: &TcpListener| {
        let mut peer = Peer::accept(listener)?;
        peer.say("INFO {\"headers\":true,\"max_payload\":1000}\r\n")?;
        peer.log_in()?;
        peer.idle()
    };
    against(&quick(), script, |client| {
        for subject in [String::new(), "a".repeat(1025), "a.".repeat(32 << 10) + "a"] {
            assert!(is_invalid(client.publish(&subject, "")), "{}", subject.len());
            assert!(is_invalid(client.subscribe(&subject)), "{}", subject.len());
            let error = client.publish(&subject, "").unwrap_err();
            assert!(error.to_string().len() < 500, "{}", error.to_string().len());
        }
        client.publish(&"a".repeat(1024), vec![0; 1000])?;
        let error = client.publish("a", vec![0; 1001]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        // `NATS/1.0\r\nA: \r\n\r\n` has 17 bytes.
        let message = Message::new("a", vec![0; 983]).with_header("A", "")?;
        client.publish_message(&message)?;
        let message = Message::new("a", vec![0; 984]).with_header("A", "")?;
        assert_eq!(client.publish_message(&message).unwrap_err().kind(), ErrorKind::TooLarge);
        let error = client.request("a", vec![0; 1001]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        let error = client.jetstream().publish("a", vec![0; 1001]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
        client.flush()
    });
}

/// - given: the largest or the smallest value of each setting
/// - when: a client connects with it, publishes, asks and receives
/// - then: nothing panics, and values without a meaning are replaced by the nearest ones with one
#[test]
fn nats_114_absurd_settings() {
    let script = |listener: &TcpListener| {
        let mut peer = Peer::greet(listener)?;
        loop {
            let said = peer.published()?;
            if !said.reply().is_empty() {
                peer.answer(&said, "{\"stream\":\"S\",\"seq\":1}")?;
            }
        }
    };
    let max = Duration::MAX;
    let tiny = Duration::from_nanos(1);
    let all: [fn(Options) -> Options; 12] = [
        |options| options.connect_timeout(Duration::MAX),
        |options| options.request_timeout(Duration::MAX),
        |options| options.ping_interval(Duration::MAX),
        |options| options.reconnect_delay(Duration::MAX, Duration::ZERO),
        |options| options.flush_timeout(Duration::MAX),
        |options| options.flush_timeout(Duration::ZERO),
        |options| options.send_buffer(0),
        |options| options.send_buffer(usize::MAX),
        |options| options.max_message_size(usize::MAX),
        |options| options.max_pending_acks(0),
        |options| options.max_pending_acks(usize::MAX),
        |options| options.max_reconnects(0),
    ];
    let _ = (max, tiny);
    for (place, set) in all.into_iter().enumerate() {
        against(&set(quick()), script, |client| {
            let words = client.subscription("words").capacity(usize::MAX).open()?;
            let _none = client.subscription("words").capacity(0).open()?;
            client.publish("words", "one")?;
            client.request("echo", "")?.timeout(Duration::MAX).get()?;
            assert_eq!(client.jetstream().publish("jobs", "")?.sequence, 1);
            client.flush()?;
            assert!(client.is_connected() && words.is_empty(), "{place}");
            Ok(())
        });
    }
}

#[test]
fn limits_of_nothing() {
    let script = |listener: &TcpListener| Peer::greet(listener)?.idle();
    against(&quick(), script, |client| {
        let error = client.request("echo", "")?.timeout(Duration::ZERO).get().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut, "{error}");
        Ok(())
    });
    simulate(|| {
        let listener = TcpListener::bind(ADDRESS).unwrap();
        ecru::scope(|s| {
            s.spawn_daemon(|| drop(script(&listener)));
            let options = Options::new().connect_timeout(Duration::ZERO);
            let error = options.connect(s, ADDRESS).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Connect, "{error}");
        });
    });
    let zero = || Options::new().ping_interval(Duration::ZERO);
    assert!(std::panic::catch_unwind(zero).is_err());
}

#[test]
fn addresses_that_are_none() {
    simulate(|| {
        for urls in [
            "",
            ",",
            "nats://",
            "nats://@",
            "nats://:1",
            "tls://[::1",
            "nats://a:hush-hush@b:0",
            "nats://a:hush-hush@b/c",
            "http://a:hush-hush@b",
            "nats://%zz:hush-hush@b",
            "nats://hush-hush@b c",
            "a\r\nb",
            "nats://hush-hush@\u{0}",
        ] {
            let error = ecru::scope(|s| Options::new().connect(s, urls).map(drop)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{urls:?}");
            assert!(!format!("{error} {error:?}").contains("hush"), "{urls:?}: {error}");
        }
    });
}

/// - given: a value of a bucket and a stored message
/// - when: they are formatted with `Debug`
/// - then: neither shows the payload or the values of the headers
#[test]
fn nats_119_payloads_are_not_shown() {
    // `hush-hush` and `NATS/1.0\r\nKey: hush-hush\r\n\r\n`.
    let answer = "{\"message\":{\"subject\":\"$KV.b.k\",\"seq\":7,\"data\":\"aHVzaC1odXNo\",\"hdrs\":\"TkFUUy8xLjANCktleTogaHVzaC1odXNoDQoNCg==\"}}";
    let script = |listener: &TcpListener| {
        let mut peer = Peer::greet(listener)?;
        loop {
            let said = peer.published()?;
            peer.answer(&said, answer)?;
        }
    };
    against(&quick(), script, |client| {
        let jetstream = client.jetstream();
        let entry = jetstream.bucket("b")?.get("k")?.unwrap();
        let stored = jetstream.message("KV_b", 7)?.unwrap();
        assert_eq!(
            (&entry.value[..], stored.headers.get("Key")),
            (&b"hush-hush"[..], Some("hush-hush"))
        );
        let shown = format!("{entry:?} {stored:?}");
        assert!(!shown.contains("hush") && shown.contains("9 bytes"), "{shown}");
        Ok(())
    });
}
