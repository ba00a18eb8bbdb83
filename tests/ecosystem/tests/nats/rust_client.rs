//! `async-nats`, whose futures are awaited in ecru's tasks.

use std::error::Error;
use std::time::Duration;

use async_nats::HeaderMap;
use async_nats::jetstream::{self, consumer::pull, stream};
use ecru_fleet::Fleet;
use ecru_nats::jetstream::{Ack, ConsumerConfig, Retention, StreamConfig};
use ecru_nats::{Client, Message};
use futures_util::StreamExt;

use crate::server::Server;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// Runs a body with ecru's client and the other one, connected to a server of their own.
fn both(body: impl FnOnce(&str, &Client, &jetstream::Context) -> Result<()>) {
    let Some(server) = Server::start("") else { return };
    let tokio =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    ecru::run(|| {
        let _entered = tokio.enter();
        ecru::scope(|s| {
            let ours = Client::connect(s, &server.url())?;
            let theirs = wait(async_nats::connect(server.url()))?;
            body(&server.url(), &ours, &jetstream::new(theirs))
        })
    })
    .unwrap();
}

/// Awaits a future in this task.
fn wait<T>(future: impl Future<Output = T>) -> T {
    ecru::block_on(future).unwrap()
}

/// Publishes a message and waits for the acknowledgement. Returns its number and whether it was a
/// duplicate.
fn publish(
    theirs: &jetstream::Context,
    subject: &'static str,
    headers: &[(&str, &str)],
    payload: &'static str,
) -> Result<(u64, bool)> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, *value);
    }
    wait(async {
        let ack = theirs.publish_with_headers(subject, map, payload.into()).await?.await?;
        Ok((ack.sequence, ack.duplicate))
    })
}

/// - given: a work queue that ecru-nats has created, with its consumer
/// - when: async-nats publishes messages with headers, ids and an expected last sequence number
/// - then: ecru-nats receives each once, with its headers, and confirms it; duplicates and wrong
///   expectations are refused for both clients, by the same rule
#[test]
fn nats_210_theirs_to_ours() {
    both(|_, ours, theirs| {
        let js = ours.jetstream();
        js.create_stream(&StreamConfig {
            subjects: vec!["flour.>".into()],
            retention: Retention::WorkQueue,
            ..StreamConfig::new("FLOUR")
        })?;
        let consumer = js.create_consumer("FLOUR", &ConsumerConfig::new("mill"))?;
        let first = [("Nats-Msg-Id", "a"), ("Trace", "5a"), ("Trace", "5b")];
        assert_eq!(publish(theirs, "flour.rye", &first, "one")?, (1, false));
        assert_eq!(publish(theirs, "flour.rye", &first, "one")?, (1, true));
        // The id that the other client has used counts for this one.
        let again = Message::new("flour.rye", "one").with_header("Nats-Msg-Id", "a")?;
        assert!(js.publish_message(&again)?.duplicate);
        let expected = |number| [("Nats-Expected-Last-Sequence", number)];
        assert_eq!(publish(theirs, "flour.oat", &expected("1"), "")?, (2, false));
        publish(theirs, "flour.oat", &expected("1"), "late").unwrap_err();
        let late = Message::new("flour.oat", "").with_header("Nats-Expected-Last-Sequence", "1")?;
        assert_eq!(js.publish_message(&late).unwrap_err().code(), Some(10071));

        let deliveries = consumer.messages(4)?;
        let one = deliveries.recv()?;
        assert_eq!((one.subject(), &one.payload()[..]), ("flour.rye", &b"one"[..]));
        let traces: Vec<&str> =
            one.headers().iter().filter(|(name, _)| *name == "Trace").map(|(_, v)| v).collect();
        assert_eq!((traces, one.headers().get("Nats-Msg-Id")), (vec!["5a", "5b"], Some("a")));
        one.confirm(&Ack::Done)?;
        let two = deliveries.recv()?;
        assert_eq!((two.sequence(), two.payload().len()), (2, 0));
        two.confirm(&Ack::Done)?;
        assert_eq!(js.stream_info("FLOUR")?.state.messages, 0);
        Ok(())
    });
}

/// - given: a work queue that async-nats has created
/// - when: ecru-nats publishes messages with headers, and async-nats pulls them by a consumer that
///   ecru-nats has created
/// - then: each comes with its headers, can be handed back and acknowledged, and the queue is empty
#[test]
fn nats_211_ours_to_theirs() {
    both(|_, ours, theirs| {
        wait(theirs.create_stream(stream::Config {
            name: "FLOUR".into(),
            subjects: vec!["flour.>".into()],
            retention: stream::RetentionPolicy::WorkQueue,
            ..Default::default()
        }))?;
        let js = ours.jetstream();
        assert_eq!(js.stream_info("FLOUR")?.config.retention, Retention::WorkQueue);
        js.create_consumer("FLOUR", &ConsumerConfig::new("mill"))?;
        for text in ["one", "two"] {
            let message = Message::new("flour.rye", text)
                .with_header("Nats-Msg-Id", text)?
                .with_header("Trace", "5a")?
                .with_header("Trace", "5b")?;
            js.publish_message(&message)?;
        }
        wait(async {
            let stream = theirs.get_stream("FLOUR").await?;
            let consumer: jetstream::consumer::Consumer<pull::Config> =
                stream.get_consumer("mill").await?;
            let mut messages = consumer.messages().await?;
            let mut attempts = Vec::new();
            while attempts.len() < 3 {
                let message = messages.next().await.ok_or("no more messages come")??;
                let headers = message.headers.as_ref().ok_or("there are no headers")?;
                let traces: Vec<&str> = headers.get_all("Trace").map(|v| v.as_str()).collect();
                assert_eq!(traces, ["5a", "5b"]);
                assert_eq!(
                    headers.get("Nats-Msg-Id").unwrap().as_str().as_bytes(),
                    &message.payload[..]
                );
                let info = message.info()?;
                attempts.push((info.stream_sequence, info.delivered));
                if info.stream_sequence == 1 && info.delivered == 1 {
                    message.ack_with(jetstream::AckKind::Nak(None)).await?;
                } else {
                    message.double_ack().await?;
                }
            }
            attempts.sort_unstable();
            assert_eq!(attempts, [(1, 1), (1, 2), (2, 1)]);
            Ok::<(), Box<dyn Error + Send + Sync>>(())
        })?;
        assert_eq!(js.stream_info("FLOUR")?.state.messages, 0);
        Ok(())
    });
}

/// - given: a consumer that async-nats has created
/// - when: ecru-nats pulls by it, asks for its configuration, and deletes it
/// - then: both clients see the same
#[test]
fn nats_212_their_consumers() {
    both(|_, ours, theirs| {
        let js = ours.jetstream();
        wait(async {
            let config = stream::Config {
                name: "FLOUR".into(),
                subjects: vec!["flour.>".into()],
                ..Default::default()
            };
            let stream = theirs.create_stream(config).await?;
            stream
                .create_consumer(pull::Config {
                    durable_name: Some("mill".into()),
                    filter_subject: "flour.rye".into(),
                    ack_wait: Duration::from_secs(7),
                    max_ack_pending: 3,
                    ..Default::default()
                })
                .await?;
            Ok::<(), Box<dyn Error + Send + Sync>>(())
        })?;
        let consumer = js.consumer("FLOUR", "mill")?;
        let config = consumer.info()?.config;
        assert_eq!(config.filter_subject.as_deref(), Some("flour.rye"));
        assert_eq!(config.ack_wait, Some(Duration::from_secs(7)));
        assert_eq!(config.max_ack_pending, Some(3));
        publish(theirs, "flour.oat", &[], "left out")?;
        publish(theirs, "flour.rye", &[], "one")?;
        let delivery = consumer.messages(2)?.recv()?;
        assert_eq!(&delivery.payload()[..], b"one");
        delivery.confirm(&Ack::Done)?;
        consumer.delete()?;
        let stream = wait(theirs.get_stream("FLOUR"))?;
        wait(stream.get_consumer::<pull::Config>("mill")).unwrap_err();
        Ok(())
    });
}

/// - given: a queue and a function of a fleet
/// - when: async-nats reads the jobs that are queued, and sends jobs in the documented form
/// - then: both sides read what the other one has written
#[test]
fn fleet_380_jobs_of_other_clients() {
    both(|url, _, theirs| {
        ecru::scope(|s| {
            let fleet = Fleet::connect(s, url)?;
            let queue = fleet.queue::<(u32, String)>("mill").open()?;
            queue.send_keyed("user 7", (7, "rye".into()))?;
            queue.send((8, "oat".into()))?;
            let stored = wait(async {
                let stream = theirs.get_stream("fleet-jobs-q_mill").await?;
                let one = stream.get_raw_message(1).await?;
                let two = stream.get_raw_message(2).await?;
                Ok::<_, Box<dyn Error + Send + Sync>>((one, two))
            })?;
            assert_eq!(stored.0.subject.as_str(), "fleet.jobs.q_mill.user=207");
            assert_eq!(&stored.0.payload[..], br#"{"v":1,"data":[7,"rye"]}"#);
            // A job without a key has an id of its own, which keeps it from being stored twice.
            let id = stored.1.headers.get("Nats-Msg-Id").unwrap().as_str().to_owned();
            assert_eq!(stored.1.subject.as_str(), format!("fleet.jobs.q_mill.{id}"));

            let body = r#"{"v":1,"data":[9,"spelt"]}"#;
            publish(theirs, "fleet.jobs.q_mill.grain", &[], body)?;
            // At most one job of each id is queued or running.
            let again = publish(theirs, "fleet.jobs.q_mill.grain", &[], body).unwrap_err();
            assert!(again.to_string().contains("per subject"), "{again}");
            let jobs = queue.jobs(3)?;
            let mut held: Vec<_> = jobs.iter().take(3).collect();
            held.sort_by_key(|job| job.0);
            let ids: Vec<&str> = held.iter().map(|job| job.id().as_str()).collect();
            assert_eq!(ids, ["user 7", &*id, "grain"]);
            assert_eq!(held[2].1, "spelt");
            for job in held {
                job.done()?;
            }
            Ok(())
        })
    });
}
