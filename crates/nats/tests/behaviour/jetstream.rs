//! Streams, consumers and buckets, against a real server.

use std::time::{Duration, Instant};

use ecru::channel::RecvError;
use ecru_nats::jetstream::{
    Ack, BucketConfig, Consumer, ConsumerConfig, DeliverPolicy, Deliveries, Delivery, Discard,
    JetStream, Retention, StreamConfig,
};
use ecru_nats::{Client, Error, ErrorKind, Message, Options};

use crate::server::Server;

/// Runs `body` with JetStream of a new server, if one is installed.
fn with_jetstream(body: impl FnOnce(&JetStream) -> Result<(), Error>) {
    let Some(server) = Server::start("") else { return };
    ecru::run(|| ecru::scope(|s| body(&Client::connect(s, &server.url())?.jetstream()))).unwrap();
}

/// Makes a work queue, and a consumer whose messages have this time.
fn queue(jetstream: &JetStream, ack_wait: Duration) -> Result<Consumer, Error> {
    jetstream.create_stream(&StreamConfig {
        subjects: vec!["jobs.>".into()],
        retention: Retention::WorkQueue,
        discard: Discard::New,
        max_messages: Some(100),
        ..StreamConfig::new("JOBS")
    })?;
    let config = ConsumerConfig { ack_wait: Some(ack_wait), ..ConsumerConfig::new("workers") };
    jetstream.create_consumer("JOBS", &config)
}

const LONG: Duration = Duration::from_secs(60);

fn next(deliveries: &Deliveries) -> Delivery {
    deliveries.recv().unwrap()
}

/// - given: a stream
/// - when: messages are published, one of them twice with the same id
/// - then: each acknowledgement has the stream and a growing sequence number; the second with the
///   id is a duplicate and is not stored
#[test]
fn nats_70_publish_with_acknowledgement() {
    with_jetstream(|jetstream| {
        queue(jetstream, LONG)?;
        let first = jetstream.publish("jobs.a", "one")?;
        assert_eq!((first.stream.as_str(), first.sequence, first.duplicate), ("JOBS", 1, false));
        let message = Message::new("jobs.a", "two").with_header("Nats-Msg-Id", "2")?;
        assert!(!jetstream.publish_message(&message)?.duplicate);
        let again = jetstream.publish_message(&message)?;
        assert_eq!((again.sequence, again.duplicate), (2, true));
        assert_eq!(jetstream.stream_info("JOBS")?.state.messages, 2);
        let expected = Message::new("jobs.a", "").with_header("Nats-Expected-Stream", "OTHER")?;
        let error = jetstream.publish_message(&expected).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::JetStream, "{error}");
        Ok(())
    });
}

/// - given: a client that allows four messages without an acknowledgement
/// - when: a hundred are begun, and all are awaited later
/// - then: all are stored, in order
#[test]
fn nats_71_a_window_of_acknowledgements() {
    let Some(server) = Server::start("") else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let client = Options::new().max_pending_acks(4).connect(s, &server.url())?;
            let jetstream = client.jetstream();
            queue(&jetstream, LONG)?;
            let begun: Vec<_> = (0..100)
                .map(|n: u32| jetstream.begin_publish(&Message::new("jobs.a", n.to_string())))
                .collect::<Result<_, _>>()?;
            for (n, publishing) in (1..).zip(begun) {
                assert_eq!(publishing.get()?.sequence, n);
            }
            // The stream is full, and refuses more.
            let error = jetstream.publish("jobs.a", "").unwrap_err();
            assert_eq!((error.kind(), error.code()), (ErrorKind::JetStream, Some(10077)));
            assert!(error.to_string().contains("jobs.a"), "{error}");
            assert_eq!(error.description(), Some("maximum messages exceeded"));
            Ok::<(), Error>(())
        })
    })
    .unwrap();
}

/// - given: a work queue
/// - when: messages are received and their `Done` is confirmed
/// - then: each came once, with its place in the stream, and the queue is empty at once
#[test]
fn nats_72_pull_and_confirm() {
    with_jetstream(|jetstream| {
        let consumer = queue(jetstream, LONG)?;
        for n in 0..50 {
            jetstream.publish(&format!("jobs.{n}"), n.to_string())?;
        }
        let deliveries = consumer.messages(8)?;
        for n in 0..50 {
            let delivery = next(&deliveries);
            assert_eq!(delivery.subject(), format!("jobs.{n}"));
            assert_eq!((delivery.sequence(), delivery.attempt()), (n + 1, 1));
            assert!(delivery.stored_at() > Duration::from_secs(1_600_000_000));
            delivery.confirm(&Ack::Done)?;
        }
        assert_eq!(jetstream.stream_info("JOBS")?.state.messages, 0);
        assert_eq!(consumer.info()?.num_ack_pending, 0);
        Ok(())
    });
}

/// - given: a window of four and many messages
/// - when: none of those received is dropped
/// - then: exactly four are handed out; each that is dropped makes room for one
#[test]
fn nats_73_the_window() {
    with_jetstream(|jetstream| {
        let consumer = queue(jetstream, LONG)?;
        for n in 0..20 {
            jetstream.publish("jobs.a", n.to_string())?;
        }
        let deliveries = consumer.messages(4)?;
        let mut held: Vec<Delivery> = (0..4).map(|_| next(&deliveries)).collect();
        let more = deliveries.recv_timeout(Duration::from_millis(20));
        assert!(more.is_err() && consumer.info()?.num_ack_pending == 4);
        for _ in 4..20 {
            let first = held.remove(0);
            first.ack()?;
            drop(first);
            held.push(next(&deliveries));
        }
        Ok(())
    });
}

/// - given: a message
/// - when: it is handed back with a delay, kept alive beyond its time, and terminated
/// - then: it comes again with the next attempt after the delay, stays, and is gone
#[test]
fn nats_74_retry_in_progress_terminate_slow() {
    with_jetstream(|jetstream| {
        // Long beside the pauses, so that a busy machine does not let it pass.
        let ack_wait = Duration::from_secs(2);
        let consumer = queue(jetstream, ack_wait)?;
        jetstream.publish("jobs.a", "one")?;
        let deliveries = consumer.messages(2)?;
        let begun = Instant::now();
        let pause = Duration::from_millis(50);
        next(&deliveries).retry(Some(pause))?;
        let second = next(&deliveries);
        assert_eq!(second.attempt(), 2);
        assert!(begun.elapsed() >= pause);
        let handed_out = Instant::now();
        while handed_out.elapsed() < ack_wait + pause {
            ecru::sleep(pause)?;
            second.confirm(&Ack::InProgress)?;
        }
        assert!(deliveries.is_empty());
        second.confirm(&Ack::Terminate("it is broken".into()))?;
        assert_eq!(jetstream.stream_info("JOBS")?.state.messages, 0);
        Ok(())
    });
}

/// - given: a message that is dropped without being settled
/// - when: the consumer's time for it has passed
/// - then: it is handed out again
#[test]
fn nats_75_handed_out_again_slow() {
    with_jetstream(|jetstream| {
        let consumer = queue(jetstream, Duration::from_millis(100))?;
        jetstream.publish("jobs.a", "one")?;
        let deliveries = consumer.messages(2)?;
        drop(next(&deliveries));
        let again = next(&deliveries);
        assert_eq!(again.attempt(), 2);
        again.confirm(&Ack::Done)
    });
}

/// - given: a receiver of messages
/// - when: its consumer is deleted
/// - then: the receiver is disconnected, and the reason names the consumer and the stream
#[test]
fn nats_76_a_deleted_consumer() {
    with_jetstream(|jetstream| {
        let consumer = queue(jetstream, LONG)?;
        let deliveries = consumer.messages(2)?;
        while consumer.info()?.num_waiting == 0 {
            ecru::yield_now()?;
        }
        assert!(deliveries.ended_by().is_none());
        consumer.delete()?;
        assert!(matches!(deliveries.recv(), Err(RecvError::Disconnected)));
        let end = deliveries.ended_by().unwrap().to_string();
        assert!(end.contains("workers") && end.contains("JOBS"), "{end}");
        assert_eq!(consumer.info().unwrap_err().code(), Some(10014));
        Ok(())
    });
}

/// - given: messages in the channel of a receiver
/// - when: it is stopped
/// - then: those in the channel can be received and handed back; the others are not requested
#[test]
fn nats_77_stop() {
    with_jetstream(|jetstream| {
        let consumer = queue(jetstream, LONG)?;
        for n in 0..10 {
            jetstream.publish("jobs.a", n.to_string())?;
        }
        let deliveries = consumer.messages(4)?;
        while deliveries.len() < 4 {
            ecru::yield_now()?;
        }
        deliveries.stop();
        let left: Vec<Delivery> = deliveries.iter().collect();
        assert_eq!(left.len(), 4);
        for delivery in &left {
            delivery.confirm(&Ack::Retry(None))?;
        }
        assert!(deliveries.ended_by().is_none());
        let other = consumer.messages(20)?;
        let attempts: u64 = (0..10).map(|_| next(&other).attempt()).sum();
        assert_eq!(attempts, 6 + 2 * 4);
        Ok(())
    });
}

/// - given: streams and consumers
/// - when: they are created again, with another configuration, looked up and deleted
/// - then: the same configuration is accepted, another one is refused, and errors have codes
#[test]
fn nats_78_administration() {
    with_jetstream(|jetstream| {
        let consumer = queue(jetstream, LONG)?;
        queue(jetstream, LONG)?;
        let error = queue(jetstream, 2 * LONG).unwrap_err();
        assert_eq!(error.code(), Some(10148), "{error}");
        let other = StreamConfig { max_messages: Some(1), ..jetstream.stream_info("JOBS")?.config };
        assert_eq!(jetstream.create_stream(&other).unwrap_err().code(), Some(10058));
        assert_eq!(consumer.info()?.config.ack_wait, Some(LONG));
        assert_eq!(jetstream.stream_info("JOBS")?.config.max_messages, Some(100));
        let error = jetstream.stream_info("NONE").unwrap_err();
        assert_eq!((error.kind(), error.code()), (ErrorKind::JetStream, Some(10059)));
        assert!(error.to_string().contains("NONE") && error.server().is_some(), "{error}");
        assert!(jetstream.stream_info("a.b").is_err() && jetstream.consumer("a", "*").is_err());
        jetstream.publish("jobs.a", "")?;
        jetstream.publish("jobs.b", "")?;
        assert_eq!(jetstream.purge_stream("JOBS", Some("jobs.a"))?, 1);
        assert_eq!(jetstream.purge_stream("JOBS", None)?, 1);
        jetstream.delete_stream("JOBS")?;
        let error = jetstream.publish("jobs.a", "").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NoResponders, "{error}");
        Ok(())
    });
}

/// - given: stored messages
/// - when: one is read by its number or as the last of its subject, and deleted
/// - then: it has its headers and payload, and then there is none
#[test]
fn nats_79_single_messages() {
    with_jetstream(|jetstream| {
        queue(jetstream, LONG)?;
        let message = Message::new("jobs.a", "one").with_header("Trace", "5a b")?;
        jetstream.publish_message(&message)?;
        jetstream.publish("jobs.b", "two")?;
        let stored = jetstream.message("JOBS", 1)?.unwrap();
        assert_eq!((stored.subject.as_str(), stored.sequence), ("jobs.a", 1));
        assert_eq!((&stored.payload[..], stored.headers.get("Trace")), (&b"one"[..], Some("5a b")));
        assert_eq!(jetstream.last_message("JOBS", "jobs.b")?.unwrap().payload, "two");
        jetstream.delete_message("JOBS", 1)?;
        assert_eq!(jetstream.message("JOBS", 1)?, None);
        assert_eq!(jetstream.last_message("JOBS", "jobs.none")?, None);
        let error = jetstream.delete_message("JOBS", 1).unwrap_err();
        assert_eq!(error.code(), Some(10057), "{error}");
        Ok(())
    });
}

/// - given: a bucket
/// - when: two clients create the same key
/// - then: one of them succeeds; after the key was deleted, one does again
#[test]
fn nats_80_create_if_absent() {
    with_jetstream(|jetstream| {
        let bucket = jetstream.create_bucket(&BucketConfig::new("results"))?;
        assert_eq!(bucket.get("a.1")?, None);
        let first = bucket.create("a.1", "mine")?.unwrap();
        assert_eq!(bucket.create("a.1", "yours")?, None);
        let entry = bucket.get("a.1")?.unwrap();
        assert_eq!((&entry.value[..], entry.revision), (&b"mine"[..], first));
        let second = bucket.update("a.1", "again", first)?.unwrap();
        assert!(second > first && bucket.update("a.1", "late", first)?.is_none());
        bucket.delete("a.1")?;
        assert_eq!(bucket.get("a.1")?, None);
        assert!(bucket.create("a.1", "new")?.is_some());
        bucket.put("b", "")?;
        assert!(bucket.get("a b").is_err() && bucket.put("*", "").is_err());
        jetstream.delete_bucket("results")
    });
}

/// - given: a receiver of messages
/// - when: the server is killed and starts again
/// - then: messages that are published then arrive
#[test]
fn nats_81_deliveries_survive_a_restart_slow() {
    let Some(mut server) = Server::start("") else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let pause = Duration::from_millis(5);
            let options = Options::new().reconnect_delay(pause, pause);
            let client = options.connect(s, &server.url())?;
            let jetstream = client.jetstream();
            let deliveries = queue(&jetstream, LONG)?.messages(4)?;
            jetstream.publish("jobs.a", "before")?;
            next(&deliveries).confirm(&Ack::Done)?;
            server.kill();
            server.restart();
            while jetstream.publish("jobs.a", "after").is_err() {
                ecru::sleep(pause)?;
            }
            let delivery = next(&deliveries);
            assert_eq!(delivery.payload(), "after");
            delivery.confirm(&Ack::Done)
        })
    })
    .unwrap();
}

/// - given: a server without JetStream
/// - when: a stream is created
/// - then: the error says that JetStream does not answer, and what to do
#[test]
fn nats_82_without_jetstream() {
    let Some(server) = Server::start_without_streams("") else { return };
    ecru::run(|| {
        ecru::scope(|s| {
            let jetstream = Client::connect(s, &server.url()).unwrap().jetstream();
            let error = jetstream.create_stream(&StreamConfig::new("S")).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NoResponders);
            assert!(error.to_string().contains("jetstream {}"), "{error}");
        });
    });
}

/// - given: a consumer that is paused
/// - when: a message is published, and the pause ends
/// - then: the message is handed out after the end, and not before
#[test]
fn nats_83_pause() {
    with_jetstream(|jetstream| {
        let consumer = queue(jetstream, LONG)?;
        let deliveries = consumer.messages(1)?;
        consumer.pause(LONG)?;
        jetstream.publish("jobs.a", "one")?;
        while consumer.info()?.num_pending < 1 {
            ecru::yield_now()?;
        }
        let info = consumer.info()?;
        assert_eq!((info.paused, info.num_pending, info.num_ack_pending), (true, 1, 0));
        assert!(deliveries.is_empty());
        // The same configuration is still accepted.
        queue(jetstream, LONG)?;
        consumer.resume()?;
        next(&deliveries).confirm(&Ack::Done)?;
        assert!(!consumer.info()?.paused);
        let error = consumer.pause(Duration::MAX).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        Ok(())
    });
}

/// - given: a stream and a consumer
/// - when: both get another configuration
/// - then: it holds from then on; what does not exist cannot be changed
#[test]
fn nats_84_updates() {
    with_jetstream(|jetstream| {
        let consumer = queue(jetstream, LONG)?;
        let config = jetstream.stream_info("JOBS")?.config;
        jetstream.update_stream(&StreamConfig { max_messages: Some(1), ..config.clone() })?;
        jetstream.publish("jobs.a", "")?;
        assert_eq!(jetstream.publish("jobs.b", "").unwrap_err().code(), Some(10077));
        let config = StreamConfig { name: "NONE".into(), ..config };
        assert_eq!(jetstream.update_stream(&config).unwrap_err().code(), Some(10059));

        let config = consumer.info()?.config;
        let more = ConsumerConfig { max_ack_pending: Some(7), ..config.clone() };
        jetstream.update_consumer("JOBS", &more)?;
        assert_eq!(consumer.info()?.config.max_ack_pending, Some(7));
        let config = ConsumerConfig { name: "none".into(), ..config };
        assert_eq!(jetstream.update_consumer("JOBS", &config).unwrap_err().code(), Some(10149));
        Ok(())
    });
}

/// - given: a stream with metadata and compression, and consumers with metadata, a backoff and a time
///   of their first message, which another program made
/// - when: one setting of each is changed in what `info` has returned
/// - then: that one is another one, and all others stay
#[test]
fn nats_88_updates_keep_the_rest() {
    with_jetstream(|jetstream| {
        let raw = |operation: &str, body: &str| {
            let subject = format!("$JS.API.{operation}");
            let answer = jetstream.client().request(&subject, body.to_owned())?.get()?;
            let text = String::from_utf8(answer.payload().to_vec()).unwrap();
            assert!(!text.contains("\"error\""), "{text}");
            Ok::<String, Error>(text)
        };
        raw(
            "STREAM.CREATE.MILL",
            r#"{"name":"MILL","subjects":["mill.>"],"compression":"s2","metadata":{"owner":"ann"}}"#,
        )?;
        for (name, begin) in [
            (
                "early",
                r#""deliver_policy":"by_start_time","opt_start_time":"2020-02-20T20:20:20Z""#,
            ),
            ("all", r#""deliver_policy":"all""#),
        ] {
            let config = format!(
                r#"{{"stream_name":"MILL","action":"create","config":{{"name":"{name}",
                "durable_name":"{name}",{begin},"ack_policy":"explicit","max_deliver":4,
                "backoff":[1000000000,2000000000],"metadata":{{"owner":"bob"}}}}}}"#
            );
            raw(&format!("CONSUMER.CREATE.MILL.{name}"), &config)?;
        }
        let config = jetstream.stream_info("MILL")?.config;
        jetstream.update_stream(&StreamConfig { max_messages: Some(9), ..config })?;
        let info = raw("STREAM.INFO.MILL", "")?;
        for kept in [r#""compression":"s2""#, r#""owner":"ann""#, r#""max_msgs":9"#] {
            assert!(info.contains(kept), "{kept} is not in {info}");
        }
        for name in ["early", "all"] {
            let consumer = jetstream.consumer("MILL", name)?;
            let config = consumer.info()?.config;
            let more = ConsumerConfig { max_ack_pending: Some(9), ..config };
            jetstream.update_consumer("MILL", &more)?;
            let info = raw(&format!("CONSUMER.INFO.MILL.{name}"), "")?;
            for kept in [r#""backoff":[1000000000,2000000000]"#, r#""owner":"bob""#] {
                assert!(info.contains(kept), "{kept} is not in {info}");
            }
            assert!(info.contains(r#""max_ack_pending":9"#), "{info}");
        }
        let early = jetstream.consumer("MILL", "early")?.info()?.config;
        assert_eq!(early.deliver_policy, DeliverPolicy::ByStartTime);
        assert_eq!(early.start_time.as_deref(), Some("2020-02-20T20:20:20Z"));
        Ok(())
    });
}

/// - given: stored messages with several subjects
/// - when: the first one with a subject from a place on is read
/// - then: it is that one; after the last there is none
#[test]
fn nats_85_next_messages() {
    with_jetstream(|jetstream| {
        queue(jetstream, LONG)?;
        for subject in ["jobs.a", "jobs.b", "jobs.a"] {
            jetstream.publish(subject, "")?;
        }
        let next = |from, subject| {
            let found = jetstream.next_message("JOBS", from, subject)?;
            Ok::<_, Error>(found.map(|message| message.sequence))
        };
        assert_eq!((next(1, "jobs.a")?, next(2, "jobs.a")?), (Some(1), Some(3)));
        assert_eq!((next(2, "jobs.*")?, next(3, "jobs.b")?), (Some(2), None));
        Ok(())
    });
}

/// - given: a stream with several subjects
/// - when: a consumer is created with a filter, with and without wildcards
/// - then: it hands out the messages that match
#[test]
fn nats_86_filters() {
    with_jetstream(|jetstream| {
        let subjects = vec!["jobs.>".into()];
        jetstream.create_stream(&StreamConfig { subjects, ..StreamConfig::new("JOBS") })?;
        for subject in ["jobs.a.1", "jobs.b.1", "jobs.b.2"] {
            jetstream.publish(subject, "")?;
        }
        for (name, filter, first) in
            [("one", "jobs.b.2", 3), ("both", "jobs.*.2", 3), ("b", "jobs.b.>", 2)]
        {
            let filter_subject = Some(filter.to_owned());
            let config = ConsumerConfig { filter_subject, ..ConsumerConfig::new(name) };
            let consumer = jetstream.create_consumer("JOBS", &config)?;
            assert_eq!(consumer.info()?.num_pending, 4 - first);
            assert_eq!(next(&consumer.messages(1)?).sequence(), first);
        }
        Ok(())
    });
}

/// - given: a receiver of messages, which has as many as the window holds
/// - when: it is stopped, or closed and dropped, before they have been received
/// - then: after `stop` all of them can be received; after `close`, those that arrive later are
///   handed back at once
#[test]
fn nats_87_what_was_sent_before_the_end() {
    with_jetstream(|jetstream| {
        let consumer = queue(jetstream, LONG)?;
        for n in 0..4 {
            jetstream.publish("jobs.a", n.to_string())?;
        }
        let deliveries = consumer.messages(4)?;
        // The server counts a message as handed out a moment before it sends it.
        while deliveries.len() < 4 {
            ecru::yield_now()?;
        }
        deliveries.stop();
        let left: Vec<Delivery> = deliveries.iter().collect();
        assert_eq!(left.len(), 4);
        for delivery in &left {
            delivery.confirm(&Ack::Retry(None))?;
        }
        drop(left);

        let closed = consumer.messages(4)?;
        closed.close();
        while consumer.info()?.num_redelivered < 4 {
            ecru::yield_now()?;
        }
        while let Ok(delivery) = closed.try_recv() {
            delivery.retry(None)?;
        }
        drop(closed);
        let again = consumer.messages(4)?;
        for _ in 0..4 {
            assert!(next(&again).attempt() > 2);
        }
        Ok(())
    });
}

/// - given: a work queue with three messages
/// - when: two are fetched, then eight, then one, and then the queue is paused and one is fetched
/// - then: two, one and none come, none waits for a message that is published later, and the pause
///   ends the last one after its limit
#[test]
fn nats_89_fetch() {
    with_jetstream(|jetstream| {
        let consumer = queue(jetstream, LONG)?;
        for n in 0..3 {
            jetstream.publish(&format!("jobs.{n}"), n.to_string())?;
        }
        let first = consumer.fetch(2, LONG)?;
        let subjects: Vec<_> = first.iter().map(|delivery| delivery.subject()).collect();
        assert_eq!(subjects, ["jobs.0", "jobs.1"]);
        assert!(first.iter().all(|delivery| delivery.requested_at().is_some()));
        let second = consumer.fetch(8, LONG)?;
        assert_eq!((second.len(), second[0].pending()), (1, 0));
        assert!(consumer.fetch(1, LONG)?.is_empty());
        first[0].confirm(&Ack::Retry(None))?;
        assert_eq!(consumer.fetch(1, LONG)?[0].attempt(), 2);
        jetstream.publish("jobs.3", "")?;
        consumer.pause(LONG)?;
        assert!(consumer.fetch(1, Duration::from_millis(20))?.is_empty());
        consumer.resume()?;
        assert_eq!(consumer.fetch(1, LONG)?.len(), 1);
        let error = consumer.fetch(0, LONG).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        consumer.delete()?;
        let error = consumer.fetch(1, LONG).unwrap_err();
        assert_eq!(error.code(), Some(10014), "{error}");
        Ok(())
    });
}

/// - given: a consumer whose messages have a window of one, and two messages
/// - when: the place of the first one is taken, and dropped before the message is
/// - then: the second one comes then, and not before
#[test]
fn nats_90_places_in_the_window() {
    with_jetstream(|jetstream| {
        let consumer = queue(jetstream, LONG)?;
        let deliveries = consumer.messages(1)?;
        jetstream.publish("jobs.0", "")?;
        let mut first = next(&deliveries);
        jetstream.publish("jobs.1", "")?;
        let slot = first.take_slot();
        assert!(slot.is_some() && first.take_slot().is_none());
        assert!(deliveries.recv_timeout(Duration::from_millis(20)).is_err());
        drop(slot);
        assert_eq!(next(&deliveries).subject(), "jobs.1");
        first.confirm(&Ack::Done)?;
        Ok(())
    });
}
