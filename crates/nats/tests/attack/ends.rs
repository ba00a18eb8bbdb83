//! Clients that end, leak, move and are cancelled at the worst moment.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use ecru::coroutine::Generator;
use ecru::net::TcpListener;
use ecru::sim::{self, Simulation};
use ecru_nats::{Client, Error, ErrorKind, Event, Message, Options};

use crate::broker;
use crate::peer::{ADDRESS, INFO, Peer, SECOND, against, ms, quick, simulate};

/// Serves any number of connections: routes messages, and answers requests to `echo`.
fn serve(listener: &TcpListener) -> std::io::Result<()> {
    ecru::scope(|s| {
        loop {
            let peer = broker::Peer::accept(listener)?;
            s.spawn(move || peer.serve());
        }
    })
}

/// Runs a program beside such a server, on several workers.
fn on_workers(workers: usize, program: impl Fn(&str) -> Result<(), Error> + Send) {
    let runtime = ecru::Runtime::builder().workers(workers).build().unwrap();
    runtime.run(|| {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        ecru::scope(|s| {
            s.spawn_daemon(|| drop(serve(&listener)));
            program(&address).unwrap();
        });
    });
}

/// - given: a receiver of a client's events
/// - when: the client ends
/// - then: the receiver is disconnected after the last event
#[test]
fn nats_115_the_last_event() {
    simulate(|| {
        let listener = TcpListener::bind(ADDRESS).unwrap();
        ecru::scope(|s| {
            s.spawn_daemon(|| drop(serve(&listener)));
            let client = ecru::scope(|s| quick().connect(s, ADDRESS).unwrap());
            let events: Vec<Event> = client.events().iter().collect();
            assert_eq!(events, [Event::Connected { server: ADDRESS.to_owned() }]);
        });
    });
}

/// - given: a client that has published much, whose server reads it late and sends all the time
/// - when: the client's scope ends
/// - then: the server receives everything
#[test]
fn nats_116_the_end_beside_unread_messages_slow() {
    const MESSAGES: usize = 300;
    const SIZE: usize = 10_000;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        (&stream).write_all(INFO.as_bytes()).unwrap();
        let mut reader = BufReader::new(&stream);
        let mut line = String::new();
        while !line.ends_with("PING\r\n") {
            assert_ne!(reader.read_line(&mut line).unwrap(), 0);
        }
        let text = "MSG words 7 5\r\nhello\r\n".repeat(100);
        (&stream).write_all(format!("PONG\r\n{text}").as_bytes()).unwrap();
        thread::scope(|s| {
            s.spawn(|| while (&stream).write_all(text.as_bytes()).is_ok() {});
            thread::sleep(ms(100));
            let mut received = Vec::new();
            let end = reader.read_to_end(&mut received);
            let _ = stream.shutdown(std::net::Shutdown::Both);
            (end.map_err(|error| error.kind()), received.len())
        })
    });
    ecru::run(|| {
        ecru::scope(|s| {
            let options = Options::new().flush_timeout(60 * SECOND);
            let client = options.connect(s, &address)?;
            for _ in 0..MESSAGES {
                client.publish("late", vec![b'x'; SIZE])?;
            }
            Ok::<(), Error>(())
        })
    })
    .unwrap();
    let (end, received) = server.join().unwrap();
    assert!(end.is_ok() && received > MESSAGES * SIZE, "{end:?} after {received} bytes");
}

/// - given: a task outside of a client's scope that publishes all the time
/// - when: the scope ends
/// - then: the server receives each message whose `publish` succeeded
#[test]
fn nats_117_published_while_the_scope_ends() {
    for seed in 0..16 {
        let run = || {
            let received = AtomicU64::new(0);
            let listener = TcpListener::bind(ADDRESS).unwrap();
            let accepted = ecru::scope(|s| {
                s.spawn(|| {
                    let mut peer = Peer::greet(&listener).unwrap();
                    while peer.published().is_ok() {
                        received.fetch_add(1, Ordering::Relaxed);
                    }
                });
                let publisher = ecru::scope(|inner| {
                    let client = Client::connect(inner, ADDRESS).unwrap();
                    let publisher = s.spawn(move || {
                        let mut count = 0;
                        while client.publish("a", "").is_ok() {
                            count += 1;
                            let _ = ecru::sleep(Duration::from_nanos(sim::random_u64() % 3));
                        }
                        count
                    });
                    ecru::sleep(Duration::from_nanos(sim::random_u64() % 200)).unwrap();
                    publisher
                });
                publisher.join().unwrap()
            });
            assert_eq!(received.into_inner(), accepted);
        };
        Simulation::new(seed).run(run).unwrap();
    }
}

#[test]
fn everything_is_leaked() {
    let script = |listener: &TcpListener| Peer::greet(listener)?.idle();
    against(&quick(), script, |client| {
        let subscription = client.subscribe("words")?;
        let request = client.request("echo", "")?;
        let publishing = client.jetstream().begin_publish(&Message::new("jobs", ""))?;
        std::mem::forget((client.clone(), subscription, request, publishing, client.events()));
        client.flush()
    });
}

#[test]
fn all_handles_are_dropped_while_the_scope_lives() {
    let script = |listener: &TcpListener| Peer::greet(listener)?.idle();
    simulate(|| {
        let listener = TcpListener::bind(ADDRESS).unwrap();
        ecru::scope(|s| {
            s.spawn_daemon(|| drop(script(&listener)));
            ecru::scope(|s| {
                drop(quick().connect(s, ADDRESS).unwrap());
                ecru::sleep(60 * SECOND).unwrap();
            });
        });
    });
}

#[test]
fn handles_on_other_threads_and_after_the_end() {
    on_workers(2, |address| {
        let left = ecru::scope(|s| {
            let client = Client::connect(s, address)?;
            let words = client.subscribe("words")?;
            let request = client.request("echo", "across")?;
            let other = client.clone();
            // A thread of the operating system, which is not a worker.
            let (words, left) = ecru::unblock(move || {
                thread::spawn(move || {
                    assert_eq!(request.get().unwrap().payload(), "across");
                    other.publish("words", "here").unwrap();
                    assert_eq!(words.recv().unwrap().payload(), "here");
                    let answer = other.request("echo", "there").unwrap().get().unwrap();
                    assert_eq!(answer.payload(), "there");
                    other.flush().unwrap();
                    (words, other)
                })
                .join()
                .unwrap()
            });
            let unanswered = left.request("nowhere", "")?;
            Ok::<_, Error>((words, left, unanswered))
        })?;
        thread::scope(|s| {
            s.spawn(|| {
                let (words, client, unanswered) = left;
                assert!(words.recv().unwrap_err().is_disconnected());
                for error in [
                    unanswered.get().unwrap_err(),
                    client.flush().unwrap_err(),
                    client.publish("a", "").unwrap_err(),
                    client.request("a", "").unwrap_err(),
                    client.subscribe("a").unwrap_err(),
                    client.jetstream().publish("a", "").unwrap_err(),
                    client.jetstream().stream_info("S").unwrap_err(),
                ] {
                    assert_eq!(error.kind(), ErrorKind::Closed, "{error}");
                }
                assert!(!client.is_connected());
            });
        });
        Ok(())
    });
}

/// Publishes and asks when it is dropped.
struct LastWords(Client);

impl Drop for LastWords {
    fn drop(&mut self) {
        let _ = self.0.publish("last", "words");
        let _ = self.0.request("echo", "question").map(ecru_nats::Request::get);
        let _ = self.0.subscribe("more");
        let _ = self.0.flush();
        let _ = self.0.jetstream().begin_publish(&Message::new("jobs", ""));
    }
}

#[test]
fn a_destructor_that_uses_the_client_during_a_panic() {
    on_workers(2, |address| {
        for place in 0..3 {
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                ecru::scope(|s| {
                    let client = quick().request_timeout(SECOND).connect(s, address).unwrap();
                    let last = LastWords(client);
                    match place {
                        0 => std::panic::resume_unwind(Box::new("in the body")),
                        1 => drop(s.spawn(move || {
                            let _last = last;
                            std::panic::resume_unwind(Box::new("in a task"));
                        })),
                        _ => ecru::scope(|inner| {
                            inner.spawn(|| std::panic::resume_unwind(Box::new("in a child")));
                            let _last = &last;
                        }),
                    }
                });
            }));
            assert!(panicked.is_err());
        }
        Ok(())
    });
}

#[test]
fn a_subscriber_that_never_receives() {
    const SENT: u64 = 2_000;
    let script = |listener: &TcpListener| {
        let mut peer = Peer::greet(listener)?;
        while peer.next()?.verb() != "SUB" {}
        for _ in 0..SENT / 100 {
            peer.say("MSG words 2 1\r\nx\r\n".repeat(100))?;
        }
        peer.idle()
    };
    against(&quick(), script, |client| {
        let words = client.subscription("words").capacity(16).open()?;
        while words.dropped() < SENT - 16 {
            client.flush()?;
        }
        assert_eq!((words.len(), words.dropped()), (16, SENT - 16));
        let slow = Event::SlowConsumer { subject: "words".into() };
        assert_eq!(client.events().try_iter().filter(|event| *event == slow).count(), 1);
        Ok(())
    });
}

#[test]
fn thousands_of_subscriptions() {
    on_workers(2, |address| {
        ecru::scope(|s| {
            let client = Client::connect(s, address)?;
            let all: Vec<_> = (0..2000)
                .map(|n| client.subscription(&format!("words.{n}")).capacity(4).open())
                .collect::<Result<_, _>>()?;
            for n in [0, 1500, 1999] {
                client.publish(&format!("words.{n}"), n.to_string())?;
                assert_eq!(all[n].recv().unwrap().payload(), &n.to_string());
            }
            drop(all);
            client.flush()
        })
    });
}

#[test]
fn subscriptions_that_are_dropped_while_messages_arrive() {
    on_workers(4, |address| {
        ecru::scope(|s| {
            let client = Client::connect(s, address)?;
            ecru::scope(|tasks| {
                for task in 0..6 {
                    let client = &client;
                    tasks.spawn(move || {
                        for n in 0..30 {
                            let subject = format!("words.{task}");
                            let words = client.subscription(&subject).capacity(2).open().unwrap();
                            for _ in 0..4 {
                                client.publish(&subject, "x").unwrap();
                            }
                            let kept = words.receiver().clone();
                            if n % 3 == 0 {
                                assert_eq!(words.recv().unwrap().subject(), subject);
                            }
                            drop(words);
                            drop(kept);
                            let text = format!("{task} {n}");
                            let answer = client.request("echo", text.clone()).unwrap().get();
                            assert_eq!(answer.unwrap().payload(), &text);
                        }
                    });
                }
            });
            client.flush()
        })
    });
}

#[test]
fn two_clients_in_two_scopes() {
    on_workers(2, |address| {
        ecru::scope(|outer| {
            let long = Client::connect(outer, address)?;
            for n in 0..20 {
                let (short, words) = ecru::scope(|inner| {
                    let short = Client::connect(inner, address)?;
                    let words = short.subscribe("words")?;
                    short.publish("words", n.to_string())?;
                    assert_eq!(words.recv().unwrap().payload(), &n.to_string());
                    Ok::<_, Error>((short, words))
                })?;
                assert!(words.recv().is_err() && short.flush().is_err());
                assert_eq!(long.request("echo", "on")?.get()?.payload(), "on");
            }
            Ok(())
        })
    });
}

#[test]
fn a_client_in_a_coroutine() {
    on_workers(2, |address| {
        ecru::scope(|s| {
            let client = Client::connect(s, address)?;
            let answers = Generator::new(move |yielder| {
                for n in 0..20 {
                    let answer = client.request("echo", n.to_string()).unwrap().get().unwrap();
                    yielder.suspend(answer);
                }
            });
            for (n, answer) in answers.enumerate() {
                assert_eq!(answer.payload(), &n.to_string());
            }
            Ok(())
        })
    });
}

/// A client that uses every call of JetStream once, and a server that answers.
fn jetstream_everywhere() {
    let Ok(listener) = TcpListener::bind(ADDRESS) else { return };
    ecru::scope(|s| {
        s.spawn_daemon(|| {
            ecru::scope(|connections| {
                while !ecru::is_cancelled() {
                    let Ok(peer) = Peer::greet(&listener) else { continue };
                    connections.spawn(move || drop(acknowledge(peer)));
                }
            });
        });
        let limit = 10 * SECOND;
        let options = Options::new().max_pending_acks(1).ping_interval(2 * SECOND);
        let options = options.connect_timeout(limit).request_timeout(limit);
        let used: Result<(), Error> = ecru::scope(|s| {
            let client = options.connect(s, ADDRESS)?;
            let jetstream = client.jetstream();
            let message = Message::new("jobs", "");
            let first = jetstream.begin_publish(&message);
            let first = first.and_then(ecru_nats::jetstream::Publishing::get);
            let second = jetstream.publish("jobs", "");
            if let (Ok(first), Ok(second)) = (first, second) {
                assert!(first.sequence < second.sequence);
            }
            let deliveries = jetstream.consumer("S", "C")?.messages(2)?;
            let delivery = deliveries.recv_timeout(limit);
            if let Ok(delivery) = delivery {
                delivery.in_progress()?;
                delivery.confirm(&ecru_nats::jetstream::Ack::Done)?;
            }
            deliveries.stop();
            // No place of the window was lost.
            let last = ecru::timeout(6 * limit, || jetstream.publish("jobs", ""));
            last.expect("the window is full")?;
            Ok(())
        });
        if let Err(error) = used {
            assert_ne!(error.kind(), ErrorKind::InvalidInput, "{error}");
        }
    });
}

/// Serves what `jetstream_everywhere` does.
fn acknowledge(mut peer: Peer) -> std::io::Result<()> {
    static SEQUENCE: AtomicU64 = AtomicU64::new(1);
    let mut inbox = String::new();
    loop {
        let said = peer.next()?;
        match said.words()[..] {
            ["PING"] => peer.say("PONG\r\n")?,
            ["SUB", _, sid] if sid != "1" => sid.clone_into(&mut inbox),
            ["PUB", "jobs", ..] => {
                let sequence = SEQUENCE.fetch_add(1, Ordering::Relaxed);
                peer.answer(&said, &format!("{{\"stream\":\"S\",\"seq\":{sequence}}}"))?;
            }
            ["PUB", "$JS.API.CONSUMER.INFO.S.C", ..] => peer.answer(&said, "{\"config\":{}}")?,
            ["PUB", "$JS.API.CONSUMER.MSG.NEXT.S.C", reply, _] => {
                peer.say(format!("MSG {reply} {inbox} $JS.ACK.S.C.1.1.1.1.0 1\r\nx\r\n"))?;
            }
            ["PUB", "$JS.ACK.S.C.1.1.1.1.0", _, _] => peer.answer(&said, "")?,
            _ => {}
        }
    }
}

#[test]
fn jetstream_cancelled_everywhere_slow() {
    sim::cancel_everywhere(jetstream_everywhere);
}

#[test]
fn jetstream_failing_everywhere_slow() {
    sim::fault_everywhere(jetstream_everywhere);
}
