//! Publishing, subscribing and requests, against a real server.

use std::time::Duration;

use ecru::select;
use ecru_nats::{Client, Error, ErrorKind, Message, Options};

use crate::server::Server;

/// Runs `body` with a client of a new server, if one is installed.
fn with_client(body: impl FnOnce(&Client, &Server) -> Result<(), Error>) {
    let Some(server) = Server::start("") else { return };
    ecru::run(|| ecru::scope(|s| body(&Client::connect(s, &server.url())?, &server))).unwrap();
}

/// - given: a subscription with a wildcard
/// - when: a message with headers is published to a subject that matches
/// - then: it arrives with its subject, headers and payload, as often as it was published
#[test]
fn nats_01_publish_and_subscribe() {
    with_client(|client, _| {
        let orders = client.subscribe("orders.*")?;
        let message = Message::new("orders.bread", "one loaf")
            .with_header("Trace", "5a b")?
            .with_header("Empty", "")?;
        client.publish_message(&message)?;
        client.publish("elsewhere", "nothing")?;
        client.publish("orders.cake", "")?;
        let first = orders.recv().unwrap();
        assert_eq!(first, message);
        assert_eq!(first.headers().iter().collect::<Vec<_>>(), [("Trace", "5a b"), ("Empty", "")]);
        let second = orders.recv().unwrap();
        assert_eq!((second.subject(), second.payload().len()), ("orders.cake", 0));
        client.flush()?;
        assert!(orders.try_recv().is_err());
        Ok(())
    });
}

/// - given: a service that answers
/// - when: several requests are under way at once
/// - then: each gets its own answer
#[test]
fn nats_02_requests() {
    with_client(|client, _| {
        let questions = client.subscribe("double")?;
        let service = client.clone();
        ecru::scope(|s| {
            s.spawn_daemon(|| {
                let asked: Vec<Message> = questions.iter().take(10).collect();
                for question in asked.iter().rev() {
                    let number: u32 = str::from_utf8(question.payload()).unwrap().parse().unwrap();
                    service.publish(question.reply().unwrap(), (2 * number).to_string()).unwrap();
                }
            });
            let requests: Vec<_> =
                (0..10).map(|n| client.request("double", n.to_string()).unwrap()).collect();
            for (n, request) in requests.into_iter().enumerate() {
                assert_eq!(request.get()?.payload(), &(2 * n).to_string());
            }
            Ok(())
        })
    });
}

/// - given: a subject without a subscriber
/// - when: a request is sent to it
/// - then: it fails at once with `NoResponders`, and the error names the subject and the server
#[test]
fn nats_03_no_responders() {
    with_client(|client, server| {
        let error = client.request("unserved.here", "")?.get().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoResponders);
        assert!(!error.is_outcome_unknown());
        assert_eq!(error.server(), Some(&*server.address()));
        assert!(error.to_string().contains("unserved.here"), "{error}");
        Ok(())
    });
}

/// - given: a service that does not answer
/// - when: the time limit of a request passes, or the task is cancelled
/// - then: the request fails, and the error says that it may have been processed
#[test]
fn nats_04_a_request_without_an_answer() {
    with_client(|client, _| {
        let _silent = client.subscribe("silent")?;
        let soon = Duration::from_millis(1);
        let error = client.request("silent", "")?.timeout(soon).get().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        assert!(error.is_outcome_unknown(), "{error}");
        let request = client.request("silent", "")?;
        let error = ecru::cancel_scope(|c| {
            c.cancel();
            request.get().unwrap_err()
        });
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        assert!(error.is_outcome_unknown() && error.cancelled().is_some());
        Ok(())
    });
}

/// - given: two subscriptions of one queue group
/// - when: messages are published
/// - then: each message goes to one of the two
#[test]
fn nats_05_queue_groups() {
    with_client(|client, _| {
        let one = client.subscription("work").queue("crew").open()?;
        let other = client.subscription("work").queue("crew").open()?;
        for _ in 0..20 {
            client.publish("work", "")?;
        }
        client.flush()?;
        assert_eq!(one.len() + other.len(), 20);
        Ok(())
    });
}

/// - given: a server that accepts messages of 100 bytes
/// - when: a larger message is published or sent as a request
/// - then: it is refused before it is sent, and the connection stays
#[test]
fn nats_06_too_large() {
    let Some(server) = Server::start("max_payload: 100") else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let client = Client::connect(s, &server.url())?;
            let error = client.publish("big", vec![0; 101]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TooLarge);
            assert!(error.to_string().contains("101 bytes"), "{error}");
            let error = client.request("big", vec![0; 101]).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TooLarge);
            // The headers count.
            let message = Message::new("big", vec![0; 90]).with_header("A", "b")?;
            assert_eq!(client.publish_message(&message).unwrap_err().kind(), ErrorKind::TooLarge);
            client.publish("big", vec![0; 100])?;
            client.flush()
        })
    })
    .unwrap();
}

/// - given: a malformed subject, header, queue group or URL
/// - when: it is used
/// - then: `InvalidInput`, and nothing is sent
#[test]
fn nats_07_malformed_arguments() {
    with_client(|client, _| {
        for subject in ["", "a b", "a\r\nPUB b 0\r\n", "a..b", ".a", "a.", "a.>", "*", "\u{a0}"] {
            let error = client.publish(subject, "").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{subject:?}");
            assert!(client.request(subject, "").is_err(), "{subject:?}");
        }
        assert!(client.publish_message(&Message::new("a", "").with_reply("b c")).is_err());
        assert!(client.subscribe("a.>.b").is_err() && client.subscribe("a\n").is_err());
        assert!(client.subscription("a").queue("b c").open().is_err());
        assert!(Message::new("a", "").with_header("b", "c\r\nd: e").is_err());
        assert!(Message::new("a", "").with_header("b c", "").is_err());
        client.flush()
    });
}

/// - given: a client in a scope of its own
/// - when: the body of the scope publishes and ends
/// - then: the server receives everything, the client answers `Closed`, its subscriptions are
///   disconnected
#[test]
fn nats_08_the_end_of_the_scope() {
    with_client(|client, server| {
        let all = client.subscription("last.words").capacity(1000).open()?;
        client.flush()?;
        let (short, messages) = ecru::scope(|s| {
            let short = Client::connect(s, &server.url())?;
            let messages = short.subscribe("unused")?;
            for _ in 0..1000 {
                short.publish("last.words", vec![b'x'; 100])?;
            }
            Ok::<_, Error>((short, messages))
        })?;
        assert_eq!(all.iter().take(1000).count(), 1000);
        assert_eq!(short.publish("a", "").unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(short.subscribe("a").unwrap_err().kind(), ErrorKind::Closed);
        assert_eq!(short.flush().unwrap_err().kind(), ErrorKind::Closed);
        assert!(messages.recv().unwrap_err().is_disconnected());
        Ok(())
    });
}

/// - given: a subscription
/// - when: it is dropped
/// - then: the server sends no more: a request to its subject has no responder
#[test]
fn nats_09_a_dropped_subscription() {
    with_client(|client, _| {
        let short = client.subscribe("short")?;
        let late = short.receiver().clone();
        client.publish("short", "one")?;
        client.flush()?;
        drop(short);
        let error = client.request("short", "two")?.get().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoResponders);
        // What had arrived can still be received.
        assert_eq!(late.iter().count(), 1);
        Ok(())
    });
}

/// - given: a subscription whose channel holds two messages
/// - when: three arrive before one is received
/// - then: the third is dropped and counted, an event names the subject, the client goes on
#[test]
fn nats_10_a_slow_consumer() {
    with_client(|client, _| {
        let slow = client.subscription("slow").capacity(2).open()?;
        for _ in 0..3 {
            client.publish("slow", "")?;
        }
        client.flush()?;
        assert_eq!((slow.len(), slow.dropped()), (2, 1));
        let event = ecru_nats::Event::SlowConsumer { subject: "slow".into() };
        assert!(client.events().try_iter().any(|other| other == event));
        Ok(())
    });
}

/// - given: two subscriptions, a request and a race
/// - when: they are awaited at once
/// - then: they are sources like any others
#[test]
fn nats_11_sources() {
    with_client(|client, _| {
        let (a, b) = (client.subscribe("a")?, client.subscribe("b")?);
        client.publish("b", "to b")?;
        let request = client.request("unserved", "")?;
        for _ in 0..2 {
            select! {
                recv(a) -> _ => unreachable!(),
                recv(b) -> message => assert_eq!(message.unwrap().payload(), "to b"),
                wait(&request) -> answer => {
                    assert_eq!(answer?.unwrap_err().kind(), ErrorKind::NoResponders);
                    break;
                }
            }
        }
        Ok(())
    });
}

/// - given: an address at which nothing listens, or something that is not NATS
/// - when: a client connects
/// - then: the error names the server and says what failed
#[test]
fn nats_12_no_server() {
    let silent = ecru::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = ecru::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = |listener: &ecru::net::TcpListener| listener.local_addr().unwrap().to_string();
    let (silent_address, closed_address) = (address(&silent), address(&closed));
    drop(closed);
    ecru::run(|| {
        ecru::scope(|s| {
            let error = Client::connect(s, &closed_address).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Connect);
            assert_eq!(error.server(), Some(&*closed_address));
            let options = Options::new().connect_timeout(Duration::from_millis(5));
            let error = options.connect(s, &silent_address).unwrap_err();
            assert_eq!(
                (error.kind(), error.server()),
                (ErrorKind::Connect, Some(&*silent_address))
            );
            s.spawn(|| {
                use std::io::Write;
                for _ in 0..2 {
                    let (mut stream, _) = silent.accept().unwrap();
                    let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
                }
            });
            let error = Client::connect(s, &silent_address).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Protocol, "{error}");
        });
    });
}
