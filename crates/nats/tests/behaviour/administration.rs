//! What the client tells about streams, accounts and clusters, and questions with several answers.

use std::collections::BTreeSet;
use std::time::Duration;

use ecru_nats::jetstream::{ConsumerConfig, Retention, Storage, StreamConfig};
use ecru_nats::{Client, Error, ErrorKind, Message};

use crate::cluster::{Cluster, settled, until};
use crate::server::Server;

/// - given: more streams than fit into one answer of the server
/// - when: all are listed, and those that store a subject
/// - then: each is there once, by name, with its configuration
#[test]
fn nats_200_lists_of_streams_slow() {
    let Some(server) = Server::start("") else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let js = Client::connect(s, &server.url())?.jetstream();
            assert_eq!(js.streams(None)?.found, []);
            for n in 0..300 {
                js.create_stream(&StreamConfig {
                    subjects: vec![format!("mills.{n}.>")],
                    storage: Storage::Memory,
                    ..StreamConfig::new(&format!("MILL-{n:03}"))
                })?;
            }
            let all = js.streams(None)?;
            let names: Vec<&str> = all.found.iter().map(|one| &*one.config.name).collect();
            assert!(names.len() == 300 && names.is_sorted(), "{names:?}");
            assert_eq!(all.silent, [""; 0]);
            let some = js.streams(Some("mills.7.flour"))?.found;
            assert_eq!(some.len(), 1);
            assert_eq!(some[0].config.name, "MILL-007");
            assert_eq!(some[0].cluster, None);
            let error = js.streams(Some("mills..")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            Ok::<(), Error>(())
        })
    })
    .unwrap();
}

/// - given: an account with limits, another one without, and one without JetStream
/// - when: each asks what it has
/// - then: the answer has what is stored and the limits, or the error has JetStream's code
#[test]
fn nats_201_accounts() {
    let config = "accounts {
        A { jetstream: { max_file: 1MB, max_mem: 0, max_streams: 2 }, users: [{user: a, password: p}] }
        B { jetstream: enabled, users: [{user: b, password: p}] }
        C { users: [{user: c, password: p}] } }";
    let Some(server) = Server::start(config) else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let of = |user: &str| {
                let url = format!("nats://{user}:p@{}", server.address());
                Ok::<_, Error>(Client::connect(s, &url)?.jetstream())
            };
            let js = of("a")?;
            js.create_stream(&StreamConfig {
                subjects: vec!["flour".into()],
                ..StreamConfig::new("FLOUR")
            })?;
            js.publish("flour", "ground")?;
            let account = js.account_info()?;
            assert_eq!((account.total.streams, account.total.consumers), (1, 0));
            assert!(account.total.storage > 0);
            let limits = &account.total.limits;
            assert_eq!((limits.max_storage, limits.max_streams), (Some(1 << 20), Some(2)));
            let other = of("b")?.account_info()?.total;
            assert_eq!((other.streams, other.limits.max_storage), (0, None));
            let error = of("c")?.account_info().unwrap_err();
            assert_eq!((error.kind(), error.code()), (ErrorKind::JetStream, Some(10039)));
            Ok::<(), Error>(())
        })
    })
    .unwrap();
}

/// - given: three services that answer the same subject, and a subject to which nothing listens
/// - when: a request with many answers is sent to each
/// - then: the answers of all three arrive; in the other case a message with the status 503 does
#[test]
fn nats_202_many_answers() {
    let Some(server) = Server::start("") else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let client = Client::connect(s, &server.url())?;
            for name in ["a", "b", "c"] {
                let questions = client.subscribe("mills.report")?;
                let service = client.clone();
                s.spawn_daemon(move || {
                    for question in &questions {
                        service.publish(question.reply().unwrap(), name).unwrap();
                    }
                });
            }
            let answers = client.request_many("mills.report", "?")?;
            let heard: BTreeSet<_> = answers.iter().take(3).map(Message::into_payload).collect();
            assert_eq!(heard, ["a", "b", "c"].map(Into::into).into());
            let silent = client.request_many("mills.nothing", "?")?.recv().unwrap();
            assert_eq!(silent.status().unwrap().code(), 503);
            let error = client.request_many("mills.*", "?").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            Ok::<(), Error>(())
        })
    })
    .unwrap();
}

/// - given: a consumer that is paused for an hour
/// - when: it is looked up, and again after the pause was ended
/// - then: the rest of the pause is known, and then there is none
#[test]
fn nats_203_the_rest_of_a_pause() {
    let Some(server) = Server::start("") else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let js = Client::connect(s, &server.url())?.jetstream();
            let config = StreamConfig { subjects: vec!["f".into()], ..StreamConfig::new("F") };
            js.create_stream(&config)?;
            let consumer = js.create_consumer("F", &ConsumerConfig::new("mill"))?;
            assert_eq!(consumer.info()?.pause_remaining, None);
            consumer.pause(Duration::from_secs(3600))?;
            let left = consumer.info()?.pause_remaining.unwrap();
            assert!(left > Duration::ZERO && left <= Duration::from_secs(3600), "{left:?}");
            consumer.resume()?;
            let info = consumer.info()?;
            assert_eq!((info.paused, info.pause_remaining), (false, None));
            Ok::<(), Error>(())
        })
    })
    .unwrap();
}

/// - given: a cluster of three servers, and a work queue on all of them
/// - when: the leader of the stream is killed and starts again, twice
/// - then: the client goes on to publish and to receive by another leader, each message that was
///   acknowledged is received, and the three are up to date in the end
#[test]
fn nats_204_a_killed_leader_slow() {
    let Some(mut cluster) = Cluster::start(3, "") else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let js = until(|| Client::connect(s, &cluster.urls())).jetstream();
            let config = StreamConfig {
                subjects: vec!["flour".into()],
                retention: Retention::WorkQueue,
                replicas: 3,
                ..StreamConfig::new("FLOUR")
            };
            until(|| js.create_stream(&config));
            let config = ConsumerConfig {
                ack_wait: Some(Duration::from_secs(2)),
                ..ConsumerConfig::new("mill")
            };
            let deliveries = until(|| js.create_consumer("FLOUR", &config)?.messages(8));
            let (mut sent, mut received) = (0, BTreeSet::new());
            for _ in 0..2 {
                let leader = settled(&js, "FLOUR");
                for half in 0..2 {
                    for _ in 0..10 {
                        let number = sent.to_string();
                        let message = Message::new("flour", number.clone())
                            .with_header("Nats-Msg-Id", &number)?;
                        // The id keeps what was stored without an answer from being stored twice.
                        until(|| js.publish_message(&message));
                        sent += 1;
                    }
                    if half == 0 {
                        cluster.kill(&leader);
                    }
                }
                while received.len() < sent {
                    let delivery = deliveries.recv().unwrap();
                    received.insert(delivery.payload().clone());
                    // If this is lost, the message comes again.
                    delivery.ack()?;
                }
                cluster.restart(&leader);
            }
            settled(&js, "FLOUR");
            let info = js.stream_info("FLOUR")?;
            assert_eq!((info.config.replicas, info.state.last_seq), (3, 40));
            assert_eq!(info.cluster.unwrap().replicas.len(), 2);
            Ok::<(), Error>(())
        })
    })
    .unwrap();
}
