//! Answers that are forged, repeated, late or not what JetStream says.

use std::io;

use ecru::net::TcpListener;
use ecru::{select, sim};
use ecru_nats::jetstream::StreamConfig;
use ecru_nats::{ErrorKind, Message, Options};

use crate::peer::{Peer, SECOND, against, ms, quick};

/// - given: a service that has received one request of a client
/// - when: it derives other subjects from that request's subject for answers, and answers there
/// - then: no other request of the client takes such an answer
#[test]
fn nats_108_forged_answers() {
    let script = |listener: &TcpListener| {
        let mut peer = Peer::greet(listener)?;
        let own = peer.published()?;
        let other = peer.published()?;
        assert_eq!((own.subject(), other.subject()), ("service", "bank"));
        for subject in neighbours(own.reply()) {
            peer.say(format!("MSG {subject} 1 6\r\nforged\r\n"))?;
        }
        peer.answer(&other, "true")?;
        peer.answer(&own, "own")?;
        peer.idle()
    };
    against(&quick(), script, |client| {
        let own = client.request("service", "")?;
        let other = client.request("bank", "")?;
        assert_eq!(other.get()?.payload(), "true");
        assert_eq!(own.get()?.payload(), "own");
        Ok(())
    });
}

/// Returns subjects that differ from this one in one number of its last token.
fn neighbours(subject: &str) -> Vec<String> {
    let (inbox, last) = subject.rsplit_once('.').unwrap();
    let mut all = Vec::new();
    for (place, part) in last.split('-').enumerate() {
        for n in 0..10_u64 {
            let mut parts: Vec<String> = last.split('-').map(str::to_owned).collect();
            let number = part.parse().unwrap_or(0_u64);
            parts[place] = (number.saturating_add(n)).to_string();
            all.push(format!("{inbox}.{}", parts.join("-")));
            parts.truncate(1);
            all.push(format!("{inbox}.{}", parts.join("-")));
        }
    }
    all.retain(|other| other != subject);
    all
}

#[test]
fn repeated_and_malformed_answers() {
    let script = |listener: &TcpListener| {
        let mut peer = Peer::greet(listener)?;
        let mut last: Option<String> = None;
        loop {
            let said = peer.published()?;
            if let Some(last) = &last {
                peer.say(format!("MSG {last} 1 4\r\nlate\r\n").repeat(3))?;
            }
            let inbox = said.reply().rsplit_once('.').unwrap().0.to_owned();
            for token in ["", "x", "-1", "99999999999999999999999", "1.1", "+1", "0"] {
                peer.say(format!("MSG {inbox}.{token} 1 3\r\nbad\r\n"))?;
            }
            peer.say("MSG elsewhere 1 3\r\nbad\r\n")?;
            let text = said.text().to_owned();
            peer.answer(&said, &text)?;
            last = Some(said.reply().to_owned());
        }
    };
    against(&quick(), script, |client| {
        for n in 0..50 {
            let answer = client.request("echo", n.to_string())?.get()?;
            assert_eq!(answer.payload(), &n.to_string());
        }
        Ok(())
    });
}

#[test]
fn a_thousand_requests_that_lose_their_races() {
    let script = |listener: &TcpListener| {
        let mut peer = Peer::greet(listener)?;
        loop {
            let said = peer.published()?;
            if said.subject() == "late" {
                peer.answer(&said, "late")?;
            }
            if said.subject() == "echo" {
                peer.answer(&said, "in time")?;
            }
        }
    };
    against(&quick(), script, |client| {
        let ready = ecru::channel::after(ms(0));
        ecru::sleep(ms(1))?;
        // In each of the simulations.
        for _ in 0..250 {
            let request = client.request("late", "")?;
            let (_keep, never) = ecru::channel::bounded::<()>(1);
            select! {
                recv(never) -> _ => unreachable!(),
                wait(&request) -> answer => assert_eq!(answer?.unwrap().payload(), "late"),
                default() => {}
            }
        }
        drop(ready);
        assert_eq!(client.request("echo", "")?.get()?.payload(), "in time");
        let client = format!("{client:?}");
        assert!(!client.contains("late"), "{client}");
        Ok(())
    });
}

#[test]
fn answers_that_jetstream_would_not_give() {
    let deep = format!("{{\"stream\":{}1{}}}", "[".repeat(5000), "]".repeat(5000));
    let bad = [
        "",
        "null",
        "[]",
        "{}",
        "\u{0}",
        "{\"stream\":1,\"seq\":1}",
        "{\"stream\":\"S\",\"seq\":-1}",
        "{\"stream\":\"S\",\"seq\":18446744073709551616}",
        "{\"stream\":\"S\",\"seq\":1e400}",
        "{\"stream\":\"S\",\"seq\":1}{",
        "{\"error\":null}",
        "{\"error\":{}}",
        "{\"error\":[]}",
        "{\"error\":{\"code\":-1}}",
        "{\"error\":{\"err_code\":99999999999}}",
        "{\"error\":{\"description\":\"no\\u001b[2J\\n\"},\"stream\":\"S\",\"seq\":1}",
        &deep,
    ];
    let script = |listener: &TcpListener| {
        let mut peer = Peer::greet(listener)?;
        for answer in bad.iter().cycle() {
            let said = peer.published()?;
            peer.answer(&said, answer)?;
        }
        Ok(())
    };
    against(&quick(), script, |client| {
        let jetstream = client.jetstream();
        for answer in bad {
            let error = jetstream.publish("jobs", "").unwrap_err();
            let kinds = [ErrorKind::Protocol, ErrorKind::JetStream];
            assert!(kinds.contains(&error.kind()), "{answer:.40}: {error}");
            let text = error.to_string();
            assert!(text.len() < 1000 && !text.contains(char::is_control), "{text:?}");
        }
        for answer in bad {
            let error = jetstream.stream_info("S").unwrap_err();
            let kinds = [ErrorKind::Protocol, ErrorKind::JetStream];
            assert!(kinds.contains(&error.kind()), "{answer:.40}: {error}");
        }
        Ok(())
    });
}

/// What JetStream refuses has a kind of std's as well, by its code.
#[test]
fn codes_have_kinds() {
    use std::io::ErrorKind::{
        AlreadyExists, NotFound, Other, QuotaExceeded, ResourceBusy, StorageFull, Unsupported,
    };
    let codes = [
        (10002, "resource limits exceeded for account", StorageFull),
        (10023, "insufficient resources", StorageFull),
        (10028, "JetStream memory resource limits exceeded", StorageFull),
        (10047, "insufficient storage resources available", StorageFull),
        (10077, "no space left on device", StorageFull),
        (10077, "maximum messages exceeded", QuotaExceeded),
        (10077, "maximum messages per subject exceeded", QuotaExceeded),
        (10077, "maximum bytes exceeded", QuotaExceeded),
        (10026, "maximum consumers limit reached", QuotaExceeded),
        (10027, "maximum number of streams reached", QuotaExceeded),
        (10059, "stream not found", NotFound),
        (10014, "consumer not found", NotFound),
        (10058, "stream name already in use", AlreadyExists),
        (10008, "JetStream system temporarily unavailable", ResourceBusy),
        (10039, "JetStream not enabled for account", Unsupported),
        (10071, "wrong last sequence: 3", Other),
    ];
    let script = |listener: &TcpListener| {
        let mut peer = Peer::greet(listener)?;
        for (code, words, _) in codes {
            let said = peer.published()?;
            let error = format!("{{\"code\":503,\"err_code\":{code},\"description\":\"{words}\"}}");
            peer.answer(&said, &format!("{{\"error\":{error}}}"))?;
        }
        Ok(())
    };
    against(&quick(), script, |client| {
        for (code, words, kind) in codes {
            let error = client.jetstream().publish("jobs", "").unwrap_err();
            assert_eq!((error.kind(), error.code()), (ErrorKind::JetStream, Some(code)));
            assert_eq!(error.description(), Some(words));
            let advice = error.to_string().contains("give JetStream more storage");
            assert_eq!(advice, kind == StorageFull && code != 10077, "{error}");
            assert_eq!(std::io::Error::from(error).kind(), kind, "{code} {words}");
        }
        Ok(())
    });
}

#[test]
fn statuses_in_place_of_acknowledgements() {
    let statuses = ["503", "503 No Responders", "408 Request Timeout", "500 Oops", "100", "999 x"];
    let script = |listener: &TcpListener| {
        let mut peer = Peer::greet(listener)?;
        for status in statuses.iter().cycle() {
            let said = peer.published()?;
            peer.answer_status(&said, status)?;
        }
        Ok(())
    };
    against(&quick(), script, |client| {
        for _ in statuses {
            let publishing = client.jetstream().begin_publish(&Message::new("jobs", "x"))?;
            let error = publishing.get().unwrap_err();
            let kinds = [ErrorKind::Protocol, ErrorKind::NoResponders];
            assert!(kinds.contains(&error.kind()), "{error}");
        }
        Ok(())
    });
}

#[test]
fn stored_messages_that_are_malformed() {
    let bad = [
        "{\"message\":null}",
        "{\"message\":{\"subject\":\"a\",\"seq\":1,\"data\":\"%\"}}",
        "{\"message\":{\"subject\":\"a\",\"seq\":1,\"hdrs\":\"AAAA\"}}",
        "{\"message\":{\"subject\":\"a\",\"seq\":1,\"hdrs\":\"%\"}}",
        "{\"message\":{\"seq\":1}}",
        "{\"did_create\":true}",
    ];
    let script = |listener: &TcpListener| {
        let mut peer = Peer::greet(listener)?;
        for answer in bad.iter().cycle() {
            let said = peer.published()?;
            peer.answer(&said, answer)?;
        }
        Ok(())
    };
    against(&quick(), script, |client| {
        for answer in bad {
            let error = client.jetstream().message("S", 1).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Protocol, "{answer}: {error}");
        }
        Ok(())
    });
}

/// A server that answers no message to a stream before `silence` have come.
fn acknowledges_after(listener: &TcpListener, silence: u64) -> io::Result<()> {
    let mut peer = Peer::greet(listener)?;
    let mut count = 0;
    loop {
        let said = peer.published()?;
        count += 1;
        if count > silence {
            peer.answer(&said, &format!("{{\"stream\":\"S\",\"seq\":{count}}}"))?;
        }
    }
}

/// - given: a client that allows two messages without an acknowledgement, and two whose
///   acknowledgements are lost
/// - when: a third message is published while the two are held and not awaited
/// - then: it is published when their time limit has passed
#[test]
fn nats_109_lost_acknowledgements() {
    let options = quick().max_pending_acks(2).request_timeout(3 * SECOND);
    against(
        &options,
        |listener| acknowledges_after(listener, 2),
        |client| {
            let jetstream = client.jetstream();
            let message = Message::new("jobs", "");
            let begun = sim::elapsed();
            let lost = [jetstream.begin_publish(&message)?, jetstream.begin_publish(&message)?];
            assert_eq!(sim::elapsed(), begun);
            let third =
                ecru::timeout(60 * SECOND, || jetstream.begin_publish(&message)).unwrap()?;
            assert_eq!(third.get()?.sequence, 3);
            let waited = sim::elapsed() - begun;
            assert!(waited >= 3 * SECOND && waited <= 7 * SECOND, "{waited:?}");
            for publishing in lost {
                assert_eq!(publishing.get().unwrap_err().kind(), ErrorKind::TimedOut);
            }
            Ok(())
        },
    );
}

#[test]
fn cancelled_waits_for_the_window_keep_no_place() {
    let options = quick().max_pending_acks(1).request_timeout(3600 * SECOND);
    against(
        &options,
        |listener| acknowledges_after(listener, 1),
        |client| {
            let jetstream = client.jetstream();
            let message = Message::new("jobs", "");
            let first = jetstream.begin_publish(&message)?;
            for _ in 0..20 {
                let waited = ecru::timeout(ms(10), || jetstream.begin_publish(&message).map(drop));
                assert!(waited.is_err());
            }
            // Dropped, it frees its place.
            drop(first);
            for sequence in 2..10 {
                assert_eq!(jetstream.publish("jobs", "")?.sequence, sequence);
            }
            Ok(())
        },
    );
}

#[test]
fn a_configuration_that_json_cannot_hold() {
    let script = |listener: &TcpListener| {
        let mut peer = Peer::greet(listener)?;
        loop {
            let said = peer.published()?;
            let text = said.text();
            assert!(text.contains("\"max_msgs\":9223372036854775807"), "{text}");
            assert!(text.contains("\"max_age\":9223372036854775807"), "{text}");
            peer.answer(&said, "{\"config\":{\"name\":\"S\",\"max_age\":-1,\"max_msgs\":-9}}")?;
        }
    };
    against(&Options::new(), script, |client| {
        let config = StreamConfig {
            max_messages: Some(u64::MAX),
            max_age: Some(std::time::Duration::MAX),
            description: "\r\nPUB a 0\r\n\"\u{0}".into(),
            ..StreamConfig::new("S")
        };
        let info = client.jetstream().create_stream(&config)?;
        assert_eq!((info.config.max_age, info.config.max_messages), (None, None));
        Ok(())
    });
}
