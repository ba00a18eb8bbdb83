//! Creates what a queue and a store of results consist of, or finds it.

use std::fmt::Debug;
use std::io;
use std::time::Duration;

use ecru_nats::Error;
use ecru_nats::jetstream::{
    Bucket, BucketConfig, Consumer, ConsumerConfig, Discard, JetStream, Retention, StreamConfig,
};

use super::failure::{OTHER_CONSUMER, OTHER_STREAM, failed};
use super::names::{self, Names, WORKERS};
use crate::engine::{QueueSpec, ResultsSpec};

/// How long the record of an attempt is kept that is not settled.
const LONGEST_ATTEMPT: Duration = Duration::from_hours(365 * 24);

/// The first setting of a stream or consumer that differs from the one that was asked for.
#[derive(Default)]
struct Difference(Option<String>);

impl Difference {
    /// Notes the first difference.
    fn note<T: PartialEq + Debug>(&mut self, what: &str, there: Option<T>, asked: Option<T>) {
        if self.0.is_none() && there != asked {
            let show = |value: Option<T>| value.map_or("none".into(), |value| format!("{value:?}"));
            let (there, asked) = (show(there), show(asked));
            self.0 = Some(format!(
                "exists with the {what} {there} and was opened with {asked}; open it with the \
                 settings that it has"
            ));
        }
    }

    fn into_error(self, about: &str, stream: &str, error: &Error) -> io::Error {
        let difference = self.0.unwrap_or_else(|| {
            format!("exists with settings that another program gave it ({error}); give it others")
        });
        let text =
            format!("{about} {difference}, or delete the stream {stream} while it is unused");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    }
}

fn replicas(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Opens a queue: the stream of its jobs, the consumer, and the streams of its dead and of its
/// attempts.
pub(super) fn queue(js: &JetStream, names: &Names, spec: &QueueSpec) -> io::Result<Consumer> {
    let jobs = StreamConfig {
        description: format!("The jobs of the queue {}", spec.name),
        subjects: vec![names.all_jobs()],
        retention: Retention::WorkQueue,
        discard: Discard::New,
        discard_new_per_subject: true,
        max_messages_per_subject: Some(1),
        max_messages: spec.capacity,
        replicas: replicas(spec.replicas),
        ..StreamConfig::new(&names.jobs)
    };
    stream(js, &jobs, &format!("the queue {}", spec.name))?;
    // Without limits: a job that cannot be buried would be handed out for ever.
    let dead = StreamConfig {
        description: format!("The dead jobs of the queue {}", spec.name),
        subjects: vec![names.all_dead()],
        discard: Discard::New,
        discard_new_per_subject: true,
        max_messages_per_subject: Some(1),
        replicas: replicas(spec.replicas),
        ..StreamConfig::new(&names.dead)
    };
    stream(js, &dead, &format!("the dead of the queue {}", spec.name))?;
    // The records of settled jobs end by themselves. Others are replaced until their job is settled,
    // but for those of jobs that were removed by other programs.
    let attempts = StreamConfig {
        description: format!("The attempts of the queue {}", spec.name),
        subjects: vec![names.all_attempts()],
        max_messages_per_subject: Some(1),
        max_age: Some(LONGEST_ATTEMPT),
        allow_msg_ttl: true,
        replicas: replicas(spec.replicas),
        ..StreamConfig::new(&names.attempts)
    };
    stream(js, &attempts, &format!("the attempts of the queue {}", spec.name))?;
    consumer(js, names, spec)
}

fn stream(js: &JetStream, config: &StreamConfig, about: &str) -> io::Result<()> {
    let error = match js.create_stream(config) {
        Ok(_) => return Ok(()),
        Err(error) if error.code() == Some(OTHER_STREAM) => error,
        Err(error) => return Err(failed(error)),
    };
    let there = js.stream_info(&config.name).map_err(failed)?.config;
    let mut found = Difference::default();
    found.note("capacity", there.max_messages, config.max_messages);
    found.note("number of replicas", Some(there.replicas), Some(config.replicas));
    found.note("retention", Some(there.retention), Some(config.retention));
    Err(found.into_error(about, &config.name, &error))
}

fn consumer(js: &JetStream, names: &Names, spec: &QueueSpec) -> io::Result<Consumer> {
    // -1 stands for no limit. The server's default would be 1000.
    let limit = spec.limit.map_or(-1, |most| i64::try_from(most).unwrap_or(i64::MAX));
    let config = ConsumerConfig {
        description: format!("Hands out the jobs of the queue {}", spec.name),
        ack_wait: Some(spec.lease),
        max_ack_pending: Some(limit),
        ..ConsumerConfig::new(WORKERS)
    };
    let error = match js.create_consumer(&names.jobs, &config) {
        Ok(consumer) => return Ok(consumer),
        Err(error) if error.code() == Some(OTHER_CONSUMER) => error,
        Err(error) => return Err(failed(error)),
    };
    let there = js.consumer(&names.jobs, WORKERS).and_then(|consumer| consumer.info());
    let there = there.map_err(failed)?.config;
    let known = |limit: Option<i64>| limit.filter(|most| *most > 0);
    let mut found = Difference::default();
    found.note("lease", there.ack_wait, config.ack_wait);
    found.note("limit", known(there.max_ack_pending), known(config.max_ack_pending));
    Err(found.into_error(&format!("the queue {}", spec.name), &names.jobs, &error))
}

/// Opens a store of results.
pub(super) fn results(js: &JetStream, spec: &ResultsSpec) -> io::Result<Bucket> {
    let name = names::bucket(&spec.name);
    let keep = (spec.keep > Duration::ZERO).then_some(spec.keep);
    let config = BucketConfig {
        max_age: keep,
        replicas: replicas(spec.replicas),
        ..BucketConfig::new(&name)
    };
    let error = match js.create_bucket(&config) {
        Ok(bucket) => return Ok(bucket),
        Err(error) if error.code() == Some(OTHER_STREAM) => error,
        Err(error) => return Err(failed(error)),
    };
    let stream = format!("KV_{name}");
    let there = js.stream_info(&stream).map_err(failed)?.config;
    let mut found = Difference::default();
    found.note("time to keep results", there.max_age, config.max_age);
    found.note("number of replicas", Some(there.replicas), Some(config.replicas));
    Err(found.into_error(&format!("the store of results {}", spec.name), &stream, &error))
}
