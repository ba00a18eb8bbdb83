//! JetStream's edges, against a real server.

use std::time::{Duration, Instant};

use ecru::channel::RecvError;
use ecru_nats::jetstream::{
    Ack, AckPolicy, BucketConfig, Consumer, ConsumerConfig, JetStream, Retention, Storage,
    StreamConfig,
};
use ecru_nats::{Client, Error, ErrorKind, Event, Message, Options};

use crate::peer::{SECOND, ms};
use crate::server::Server;

/// Runs `body` with JetStream of a new server, if one is installed.
fn with_jetstream(body: impl FnOnce(&JetStream, &Server) -> Result<(), Error>) {
    let Some(server) = Server::start("") else { return };
    ecru::run(|| ecru::scope(|s| body(&Client::connect(s, &server.url())?.jetstream(), &server)))
        .unwrap();
}

fn queue(jetstream: &JetStream, config: ConsumerConfig) -> Result<Consumer, Error> {
    jetstream.create_stream(&StreamConfig {
        subjects: vec!["jobs.>".into()],
        retention: Retention::WorkQueue,
        storage: Storage::Memory,
        ..StreamConfig::new("JOBS")
    })?;
    jetstream.create_consumer("JOBS", &config)
}

fn workers() -> ConsumerConfig {
    ConsumerConfig { ack_wait: Some(60 * SECOND), ..ConsumerConfig::new("workers") }
}

/// - given: a receiver whose window is full, so that it waits for nothing from the server
/// - when: its consumer or its stream is deleted, and a message is dropped
/// - then: the receiver is disconnected, and the reason has JetStream's code
#[test]
fn nats_118_deleted_while_the_window_is_full() {
    for whole in [false, true] {
        with_jetstream(|jetstream, _| {
            let consumer = queue(jetstream, workers())?;
            for _ in 0..3 {
                jetstream.publish("jobs.a", "")?;
            }
            let deliveries = consumer.messages(1)?;
            let held = deliveries.recv().unwrap();
            if whole {
                jetstream.delete_stream("JOBS")?
            } else {
                consumer.delete()?
            };
            drop(held);
            let end = deliveries.recv_timeout(30 * SECOND);
            assert!(format!("{end:?}").contains("Disconnected"), "{end:?}");
            let code = deliveries.ended_by().and_then(Error::code);
            assert!(matches!(code, Some(10014 | 10059)), "{:?}", deliveries.ended_by());
            Ok(())
        });
    }
}

#[test]
fn nats_100_an_error_that_ends_nothing_on_a_real_server() {
    let Some(server) = Server::start_without_streams("max_subscriptions: 3") else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let client = Client::connect(s, &server.url())?;
            let words = client.subscribe("words.1")?;
            let more: Vec<_> = (2..6)
                .map(|n| client.subscribe(&format!("words.{n}")))
                .collect::<Result<_, _>>()?;
            client.flush()?;
            let complains = |event: &Event| matches!(event, Event::ServerError { .. });
            assert!(client.events().iter().any(|event| complains(&event)));
            client.publish("words.1", "here")?;
            assert_eq!(words.recv().unwrap().payload(), "here");
            client.flush()?;
            let lost = |event: &Event| matches!(event, Event::Disconnected { .. });
            assert!(!client.events().try_iter().any(|event| lost(&event)) && more.len() == 4);
            Ok::<(), Error>(())
        })
    })
    .unwrap();
}

#[test]
fn nats_110_a_consumer_with_smaller_requests_on_a_real_server() {
    with_jetstream(|jetstream, _| {
        queue(jetstream, workers())?;
        let config = "{\"stream_name\":\"JOBS\",\"action\":\"update\",\"config\":{\"name\":\"workers\",\"durable_name\":\"workers\",\"ack_policy\":\"explicit\",\"ack_wait\":60000000000,\"max_batch\":2}}";
        let subject = "$JS.API.CONSUMER.CREATE.JOBS.workers";
        let answer = jetstream.client().request(subject, config)?.get()?;
        assert!(answer.payload().windows(9).any(|part| part == b"max_batch"), "{answer:?}");
        jetstream.publish("jobs.a", "")?;
        let consumer = jetstream.consumer("JOBS", "workers")?;
        let deliveries = consumer.messages(16)?;
        let end = deliveries.recv_timeout(30 * SECOND);
        assert!(format!("{end:?}").contains("Disconnected"), "{end:?}");
        assert!(deliveries.ended_by().unwrap().to_string().contains("of 2"));
        assert!(consumer.messages(2)?.recv().is_ok());
        Ok(())
    });
}

#[test]
fn unacknowledged_messages_of_a_scope_that_ends() {
    with_jetstream(|jetstream, server| {
        let config = ConsumerConfig { ack_wait: Some(ms(100)), ..workers() };
        let consumer = queue(jetstream, config)?;
        for n in 0..6 {
            jetstream.publish("jobs.a", n.to_string())?;
        }
        let kept = ecru::scope(|s| {
            let client = Client::connect(s, &server.url())?;
            let deliveries = client.jetstream().consumer("JOBS", "workers")?.messages(4)?;
            let kept: Vec<_> = deliveries.iter().take(3).collect();
            kept[0].confirm(&Ack::Done)?;
            Ok::<_, Error>(kept)
        })?;
        for delivery in &kept {
            assert_eq!(delivery.ack().unwrap_err().kind(), ErrorKind::Closed);
        }
        let deliveries = consumer.messages(8)?;
        let mut left: Vec<u64> = Vec::new();
        for _ in 0..5 {
            let delivery = deliveries.recv().unwrap();
            delivery.confirm(&Ack::Done)?;
            left.push(delivery.sequence());
        }
        left.sort_unstable();
        assert_eq!(left, [2, 3, 4, 5, 6]);
        assert_eq!(jetstream.stream_info("JOBS")?.state.messages, 0);
        Ok(())
    });
}

#[test]
fn settled_late_twice_and_in_every_way() {
    with_jetstream(|jetstream, _| {
        let config = ConsumerConfig { ack_wait: Some(ms(50)), ..workers() };
        let consumer = queue(jetstream, config)?;
        jetstream.publish("jobs.a", "")?;
        let deliveries = consumer.messages(4)?;
        let late = deliveries.recv().unwrap();
        let again = deliveries.recv().unwrap();
        assert_eq!((late.attempt(), again.attempt(), again.sequence()), (1, 2, 1));
        // The lease of the first has ended, but the message is the same.
        late.confirm(&Ack::Done)?;
        assert_eq!(jetstream.stream_info("JOBS")?.state.messages, 0);
        for ack in [Ack::Done, Ack::InProgress, Ack::Retry(None), Ack::Terminate("x".into())] {
            let request = again.begin_confirm(&ack)?.timeout(ms(100));
            if let Err(error) = request.get() {
                assert!(error.is_outcome_unknown(), "{error}");
            }
        }
        again.ack()?;
        jetstream.client().flush()?;
        assert_eq!(consumer.info()?.num_ack_pending, 0);
        Ok(())
    });
}

#[test]
fn pauses_at_the_edge() {
    with_jetstream(|jetstream, _| {
        let consumer = queue(jetstream, workers())?;
        jetstream.publish("jobs.a", "")?;
        let deliveries = consumer.messages(1)?;
        for (attempt, pause) in
            (1..).zip([Some(Duration::ZERO), Some(Duration::from_nanos(1)), None])
        {
            let delivery = deliveries.recv().unwrap();
            assert_eq!(delivery.attempt(), attempt);
            delivery.confirm(&Ack::Retry(pause))?;
        }
        let delivery = deliveries.recv().unwrap();
        delivery.confirm(&Ack::Retry(Some(Duration::MAX)))?;
        jetstream.client().flush()?;
        assert_eq!(jetstream.stream_info("JOBS")?.state.messages, 1);
        Ok(())
    });
}

#[test]
fn reasons_that_are_too_long_or_have_lines() {
    with_jetstream(|jetstream, _| {
        let consumer = queue(jetstream, workers())?;
        jetstream.publish("jobs.a", "")?;
        let delivery = consumer.messages(1)?.recv().unwrap();
        let error = delivery.terminate(&"x".repeat(2 << 20)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge, "{error}");
        delivery.confirm(&Ack::Terminate("\r\nPUB stolen 0\r\n\r\n".into()))?;
        assert_eq!(jetstream.stream_info("JOBS")?.state.messages, 0);
        Ok(())
    });
}

#[test]
fn a_purge_below_a_receiver() {
    with_jetstream(|jetstream, _| {
        let consumer = queue(jetstream, workers())?;
        for _ in 0..10 {
            jetstream.publish("jobs.a", "old")?;
        }
        let deliveries = consumer.messages(2)?;
        let held = deliveries.recv().unwrap();
        jetstream.purge_stream("JOBS", None)?;
        // What is gone can be settled, and does no harm.
        held.ack()?;
        drop(held);
        jetstream.publish("jobs.a", "new")?;
        let new = deliveries.iter().find(|delivery| delivery.payload() == "new");
        new.unwrap().confirm(&Ack::Done)?;
        assert!(deliveries.ended_by().is_none());
        jetstream.delete_stream("JOBS")?;
        assert!(matches!(deliveries.recv(), Err(RecvError::Disconnected)));
        Ok(())
    });
}

#[test]
fn other_ways_to_settle() {
    for ack_policy in [AckPolicy::None, AckPolicy::All] {
        with_jetstream(|jetstream, _| {
            jetstream.create_stream(&StreamConfig {
                subjects: vec!["jobs.>".into()],
                ..StreamConfig::new("JOBS")
            })?;
            let config = ConsumerConfig { ack_policy, ..ConsumerConfig::new("workers") };
            let consumer = jetstream.create_consumer("JOBS", &config)?;
            for n in 0..20 {
                jetstream.publish("jobs.a", n.to_string())?;
            }
            let deliveries = consumer.messages(4)?;
            let mut last = None;
            for (n, delivery) in deliveries.iter().take(20).enumerate() {
                assert_eq!(delivery.payload(), &n.to_string());
                last = Some(delivery);
            }
            if ack_policy == AckPolicy::All {
                last.unwrap().confirm(&Ack::Done)?;
            }
            assert_eq!(consumer.info()?.num_ack_pending, 0);
            Ok(())
        });
    }
}

#[test]
fn names_at_the_edge() {
    with_jetstream(|jetstream, _| {
        let long = "n".repeat(255);
        let info = jetstream.create_stream(&StreamConfig {
            subjects: vec!["jobs".into()],
            storage: Storage::Memory,
            ..StreamConfig::new(&long)
        })?;
        assert_eq!(info.config.name, long);
        let error = jetstream.stream_info(&"n".repeat(256)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        // Such names are possible, too.
        let odd =
            StreamConfig { storage: Storage::Memory, ..StreamConfig::new("\u{e9}t\u{e9}-$1_{}") };
        jetstream.create_stream(&odd)?;
        assert_eq!(jetstream.stream_info(&odd.name)?.config.name, odd.name);
        // The name of a bucket is part of its stream's.
        let error = jetstream.create_bucket(&BucketConfig::new(&long)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        let history = BucketConfig { history: u64::MAX, ..BucketConfig::new("b") };
        let _ = jetstream.create_bucket(&history);
        Ok(())
    });
}

#[test]
fn payloads_at_the_edge() {
    let Some(server) = Server::start("max_payload: 64") else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let client = Client::connect(s, &server.url())?;
            let words = client.subscribe("words")?;
            client.publish("words", vec![0; 64])?;
            let header = Message::new("words", vec![0; 47]).with_header("A", "")?;
            client.publish_message(&header)?;
            client.flush()?;
            assert_eq!(words.iter().take(2).map(|word| word.payload().len()).sum::<usize>(), 111);
            assert!(client.is_connected());
            Ok::<(), Error>(())
        })
    })
    .unwrap();
}

#[test]
fn a_login_with_a_long_name() {
    let Some(server) = Server::start_without_streams("") else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let begun = Instant::now();
            let options = Options::new().name(&"n".repeat(1 << 20)).user("u", "hush\r\n");
            if let Err(error) = options.connect(s, &server.url()) {
                assert!(begun.elapsed() < 60 * SECOND && error.to_string().len() < 1000, "{error}");
            }
        });
    });
}

#[test]
fn a_window_of_publishes_whose_waits_are_cancelled() {
    let Some(server) = Server::start("") else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let client = Options::new().max_pending_acks(2).connect(s, &server.url())?;
            let jetstream = client.jetstream();
            queue(&jetstream, workers())?;
            let mut unknown = 0;
            for _ in 0..50 {
                let stored = ecru::cancel_scope(|c| {
                    let begun = jetstream.begin_publish(&Message::new("jobs.a", ""));
                    c.cancel();
                    begun.and_then(ecru_nats::jetstream::Publishing::get)
                });
                unknown += u64::from(stored.is_err_and(|error| error.is_outcome_unknown()));
            }
            client.flush()?;
            let last = jetstream.publish("jobs.a", "")?;
            assert!(unknown <= 50 && last.sequence <= 51, "{unknown} {last:?}");
            assert_eq!(jetstream.stream_info("JOBS")?.state.messages, last.sequence);
            Ok::<(), Error>(())
        })
    })
    .unwrap();
}
