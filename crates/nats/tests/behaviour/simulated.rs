//! The client in a simulation: a broker that follows a script, and partitions.

use std::io;
use std::time::Duration;

use ecru::net::TcpListener;
use ecru::sim::{self, Host, Simulation};
use ecru_nats::{Error, ErrorKind, Options};

use crate::broker::{INFO, Peer};

const SECOND: Duration = Duration::from_secs(1);

/// A host with a broker for any number of connections.
fn broker() -> Host {
    let host = sim::host("broker", || {
        let listener = TcpListener::bind("0.0.0.0:4222")?;
        ecru::scope(|s| {
            loop {
                let peer = Peer::accept(&listener)?;
                s.spawn(move || peer.serve());
            }
        })
    });
    sim::settle();
    host
}

/// Runs `body` on a host of its own and returns that host and the receiver of the result.
fn client(
    body: impl Fn() -> Result<(), Error> + 'static,
) -> (Host, ecru::channel::Receiver<Result<(), Error>>) {
    let (tx, rx) = ecru::channel::bounded(1);
    let host = sim::host("client", move || {
        let _ = tx.send(body());
        Ok(())
    });
    (host, rx)
}

fn each_seed(f: fn()) {
    for seed in 0..8 {
        Simulation::new(seed).run(f).unwrap();
    }
}

/// - given: a client and a broker on different hosts, with a subscription
/// - when: they are partitioned for a minute during a request
/// - then: the silence is noticed after three ping intervals, the request fails with
///   `Disconnected`, and after the partition the client is connected again with its subscription
#[test]
fn nats_60_a_partition() {
    each_seed(|| {
        let broker = broker();
        let (ready, is_ready) = ecru::channel::bounded::<()>(1);
        let (host, result) = client(move || {
            ecru::scope(|s| {
                let options = Options::new().ping_interval(2 * SECOND).request_timeout(60 * SECOND);
                let client = options.connect(s, "nats://broker")?;
                let words = client.subscribe("words")?;
                client.publish("words", "before")?;
                assert_eq!(words.recv().unwrap().payload(), "before");
                ready.send(()).unwrap();
                ecru::sleep(SECOND)?;
                let begun = sim::elapsed();
                let error = client.request("echo", "during")?.get().unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Disconnected, "{error}");
                let silence = sim::elapsed() - begun;
                assert!(silence <= 6 * SECOND, "{silence:?}");
                client.publish("words", "after")?;
                assert_eq!(words.recv().unwrap().payload(), "after");
                assert_eq!(client.request("echo", "again")?.get()?.payload(), "again");
                Ok(())
            })
        });
        is_ready.recv().unwrap();
        sim::partition(&[&broker], &[&host]);
        ecru::sleep(60 * SECOND).unwrap();
        sim::heal();
        result.recv().unwrap().unwrap();
    });
}

/// - given: a broker that crashes and restarts again and again
/// - when: a client asks until it has its answers
/// - then: it gets all of them, each to its own question
#[test]
fn nats_61_a_crashing_broker() {
    each_seed(|| {
        let broker = broker();
        let (_host, result) = client(|| {
            ecru::scope(|s| {
                let options = Options::new().request_timeout(SECOND);
                let client = options.connect(s, "nats://broker")?;
                for n in 0..20 {
                    loop {
                        match client.request("echo", n.to_string())?.get() {
                            Ok(answer) => {
                                assert_eq!(answer.payload(), &n.to_string());
                                break;
                            }
                            Err(error) => assert!(error.is_outcome_unknown(), "{error}"),
                        }
                    }
                    ecru::sleep(Duration::from_millis(700))?;
                }
                Ok(())
            })
        });
        while result.is_empty() {
            ecru::sleep(3 * SECOND).unwrap();
            broker.crash();
            ecru::sleep(SECOND).unwrap();
            broker.restart();
        }
        result.recv().unwrap().unwrap();
    });
}

/// - given: a server that sends random text, wrong lengths and endless lines, before and after the
///   login
/// - when: a client connects, subscribes, asks and publishes
/// - then: each call returns within its time limit, and nothing panics
#[test]
fn nats_62_a_hostile_server() {
    for seed in 0..64 {
        Simulation::new(seed).run(hostile).unwrap();
    }
}

fn hostile() {
    sim::host("broker", || {
        let listener = TcpListener::bind("0.0.0.0:4222")?;
        ecru::scope(|s| {
            loop {
                let (stream, _) = listener.accept()?;
                s.spawn(move || babble(stream));
            }
        })
    });
    sim::settle();
    let (_host, result) = client(|| {
        let limit = Duration::from_secs(5);
        for _ in 0..10 {
            let begun = sim::elapsed();
            let _ = ecru::scope(|s| {
                let options = Options::new()
                    .connect_timeout(limit)
                    .request_timeout(limit)
                    .max_message_size(10_000);
                let client = options.connect(s, "nats://broker")?;
                let words = client.subscription("words").capacity(4).open()?;
                client.publish("words", "x")?;
                let _ = client.request("echo", "x")?.get();
                assert!(words.len() <= 4);
                client.flush()
            });
            let taken = sim::elapsed() - begun;
            assert!(taken <= 4 * limit, "{taken:?}");
        }
        Ok(())
    });
    result.recv().unwrap().unwrap();
}

/// Says what no server should say.
fn babble(mut stream: ecru::net::TcpStream) -> io::Result<()> {
    use std::io::Write;
    let choose = |choices: &[&str]| {
        let count = u64::try_from(choices.len()).unwrap();
        choices[usize::try_from(sim::random_u64() % count).unwrap()].to_owned()
    };
    if sim::chance(0.9) {
        stream.write_all(INFO.as_bytes())?;
    }
    if sim::chance(0.9) {
        stream.write_all(b"PONG\r\n")?;
    }
    for _ in 0..200 {
        let text = match sim::random_u64() % 8 {
            0 => choose(&[
                "MSG words 2 1\r\nx\r\n",
                "MSG words 2 999999999\r\n",
                "MSG words 2 1\r\nxxx",
            ]),
            1 => {
                choose(&["HMSG words 2 5 5\r\nxxxxx\r\n", "HMSG words 2 9000 9000\r\nNATS/1.0\r\n"])
            }
            2 => "PING\r\n".repeat(50),
            3 => "PONG\r\n".repeat(3),
            4 => choose(&[
                "-ERR 'Permissions Violation'\r\n",
                "-ERR\r\n",
                "-ERR 'Stale Connection'\r\n",
            ]),
            5 => choose(&[
                "INFO {\"ldm\":true,\"connect_urls\":[\"broker:4222\",\"x:1\",\"::::\"]}\r\n",
                "INFO {\"max_payload\":-1}\r\n",
                "INFO {}\r\n",
            ]),
            6 => "x".repeat(5000),
            _ => format!("MSG _INBOX.{} 1 1\r\nx\r\n", sim::random_u64()),
        };
        // Most of the time it behaves, so that the rest has a chance.
        if text.starts_with('x') && !sim::chance(0.1) {
            continue;
        }
        stream.write_all(text.as_bytes())?;
        ecru::sleep(Duration::from_millis(sim::random_u64() % 20))?;
    }
    ecru::sleep(Duration::from_secs(100))?;
    Ok(())
}

/// A broker and a client with a subscription and a request, whose tasks may be cancelled and whose
/// I/O may fail.
fn everything() {
    let Ok(listener) = TcpListener::bind("127.0.0.1:4222") else { return };
    ecru::scope(|s| {
        s.spawn_daemon(|| {
            ecru::scope(|connections| {
                loop {
                    match Peer::accept(&listener) {
                        Ok(peer) => drop(connections.spawn(move || peer.serve())),
                        Err(_) if ecru::is_cancelled() => break,
                        Err(_) => {}
                    }
                }
            });
        });
        let limit = Duration::from_secs(10);
        let options = Options::new().connect_timeout(limit).request_timeout(limit);
        let options = options.ping_interval(Duration::from_secs(2));
        let used: Result<(), Error> = ecru::scope(|s| {
            let client = options.connect(s, "nats://127.0.0.1:4222")?;
            let words = client.subscribe("words")?;
            client.publish("words", "one")?;
            if let Ok(word) = words.recv_timeout(limit) {
                assert_eq!(word.payload(), "one");
            }
            assert_eq!(client.request("echo", "two")?.get()?.payload(), "two");
            client.flush()
        });
        if let Err(error) = used {
            assert_ne!(error.kind(), ErrorKind::InvalidInput, "{error}");
        }
    });
}

/// - given: a client that connects, subscribes, publishes and asks
/// - when: any task is cancelled before, during or after any wait
/// - then: each call returns within its time limit, no answer is another's, and the scope ends
#[test]
fn nats_63_cancelled_everywhere_slow() {
    sim::cancel_everywhere(everything);
}

/// - given: a client that connects, subscribes, publishes and asks
/// - when: any I/O operation fails
/// - then: each call returns within its time limit, no answer is another's, and the scope ends
#[test]
fn nats_64_failing_everywhere_slow() {
    sim::fault_everywhere(everything);
}
