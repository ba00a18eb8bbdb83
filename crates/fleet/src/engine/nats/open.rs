//! Creates what a queue and a store of results consist of, or finds it.

use std::io;
use std::time::Duration;

use ecru_nats::jetstream::{
    Bucket, BucketConfig, ConsumerConfig, Discard, JetStream, Retention, StreamConfig,
};
use ecru_nats::{Error, ErrorKind};

use super::failure::{
    NO_CONSUMER, NO_STREAM, OTHER_CONSUMER, OTHER_STREAM, failed, is_full, is_overlap, is_passing,
};
use super::names::{self, Names};
use super::settings::{self, Found, Mark, Record};
use crate::engine::{Changes, KEEP, PRIORITIES, QueueSpec, ResultsSpec, priorities};

/// How long the record of an attempt is kept that is not settled.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// JetStream writes no limit as -1. Its default would be 1000.
const NO_LIMIT: i64 = -1;

pub(super) fn replicas(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// What was opened.
pub(super) struct Opened {
    pub(super) found: Found,
    /// Whether this call has created the queue.
    pub(super) is_new: bool,
    /// Whether the settings are torn, so that not all consumers could be created.
    pub(super) is_torn: bool,
}

/// Opens a queue: the stream of its jobs, the consumers, and the streams of its dead and of its
/// attempts. What exists keeps its settings. A process that may only read them can do that, too.
pub(super) fn queue(js: &JetStream, names: &Names, settings: &Changes) -> io::Result<Opened> {
    let (queue, first) = (&names.queue, settings.apply(&QueueSpec::default()));
    let mut jobs = StreamConfig {
        description: format!("The jobs of the queue {queue}"),
        subjects: vec![names.all_jobs(0)],
        retention: Retention::WorkQueue,
        discard: Discard::New,
        discard_new_per_subject: true,
        max_messages_per_subject: Some(1),
        allow_batches: true,
        ..StreamConfig::new(&names.jobs)
    };
    set_stream(&mut jobs, names, &first);
    Record::first(&first).put(&mut jobs);
    let (jobs, is_new) = stream(js, &jobs, &format!("the queue {queue}"))?;
    // A record that is not in force yet may say that there are priorities.
    let (replicas, priorities) = (jobs.replicas, has_priorities(&jobs, names));
    // Without limits: a job that cannot be buried would be handed out for ever.
    let dead = StreamConfig {
        description: format!("The dead jobs of the queue {queue}"),
        subjects: vec![names.all_dead()],
        discard: Discard::New,
        discard_new_per_subject: true,
        max_messages_per_subject: Some(1),
        replicas,
        ..StreamConfig::new(&names.dead)
    };
    stream(js, &dead, &format!("the dead of the queue {queue}"))?;
    // The records of settled jobs end by themselves. Others are replaced until their job is
    // settled, but for those of jobs that were removed by other programs.
    let attempts = StreamConfig {
        description: format!("The attempts of the queue {queue}"),
        subjects: vec![names.all_attempts()],
        max_messages_per_subject: Some(1),
        max_age: Some(LONGEST_ATTEMPT),
        allow_msg_ttl: true,
        replicas,
        ..StreamConfig::new(&names.attempts)
    };
    stream(js, &attempts, &format!("the attempts of the queue {queue}"))?;
    let message = settings::read_message(js, names)?;
    let found = Found::new(names, message, jobs, None);
    let spec = QueueSpec { priorities, ..found.record.spec() };
    let provide = |priority| {
        let config = consumer(names, &spec, &found.record.mark, priority);
        provide_consumer(js, &names.jobs, &config)
    };
    let mut is_torn = false;
    let workers = match provide(0) {
        Err(error) if is_overlap(&error) => {
            is_torn = true;
            None
        }
        workers => Some(workers.map_err(failed)?),
    };
    for priority in priorities_of(&spec).skip(1) {
        match provide(priority) {
            Err(error) if is_overlap(&error) => is_torn = true,
            provided => drop(provided.map_err(failed)?),
        }
    }
    let found = match workers {
        Some(workers) => found.with_workers(names, workers),
        None => found,
    };
    Ok(Opened { found, is_new, is_torn })
}

/// Returns the subjects of the jobs whose priority is not 0.
fn less_urgent(names: &Names) -> impl Iterator<Item = String> {
    priorities().skip(1).map(|priority| names.all_jobs(priority))
}

/// Returns whether the jobs of a stream may have priorities.
fn has_priorities(jobs: &StreamConfig, names: &Names) -> bool {
    less_urgent(names).all(|subject| jobs.subjects.contains(&subject))
}

/// Creates a stream, or finds one that can serve as it. Returns its settings, and whether it is
/// new.
fn stream(js: &JetStream, config: &StreamConfig, about: &str) -> io::Result<(StreamConfig, bool)> {
    let there = match js.stream_info(&config.name) {
        Err(error) if error.code() == Some(NO_STREAM) => match js.create_stream(config) {
            Ok(info) => return Ok((info.config, true)),
            // Another process has created it meanwhile.
            Err(error) if error.code() == Some(OTHER_STREAM) => js.stream_info(&config.name),
            Err(error) => return Err(refused(about, config.replicas, error)),
        },
        info => info,
    };
    let there = there.map_err(failed)?.config;
    // The subjects of jobs in order, and of jobs with priorities, can be added.
    let subjects = |config: &StreamConfig| -> Vec<String> {
        let is_jobs = config.retention == Retention::WorkQueue;
        let is_added =
            |subject: &str| subject.ends_with(".*.*") || subject.starts_with("fleet.jobs-");
        let is_fixed = |subject: &&String| !is_jobs || !is_added(subject);
        config.subjects.iter().filter(is_fixed).cloned().collect()
    };
    let fixed = |config: &StreamConfig| {
        [
            ("subjects", format!("{:?}", subjects(config))),
            ("retention", format!("{:?}", config.retention)),
            ("discard policy", format!("{:?}", config.discard)),
            ("limit of each subject", format!("{:?}", config.max_messages_per_subject)),
            ("discard policy of each subject", format!("{:?}", config.discard_new_per_subject)),
            ("permission of lifetimes", format!("{:?}", config.allow_msg_ttl)),
        ]
    };
    for ((what, there), (_, needed)) in fixed(&there).into_iter().zip(fixed(config)) {
        if there != needed {
            let text = format!(
                "{about}: another program has given the stream {} the {what} {there}, and a fleet \
                 needs {needed}; change that, or delete the stream while it is unused",
                config.name
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
    }
    Ok((there, false))
}

/// Returns the error of a stream whose settings the servers refuse.
fn refused(about: &str, replicas: u32, error: Error) -> io::Error {
    if error.kind() != ErrorKind::JetStream || replicas == 1 {
        return failed(error);
    }
    let failed = failed(error);
    let text = format!("{about} cannot have {replicas} replicas: {failed}");
    io::Error::new(failed.kind(), text)
}

/// Creates the consumers that are not there. One that exists keeps its settings.
pub(super) fn consumers(
    js: &JetStream,
    names: &Names,
    spec: &QueueSpec,
    mark: &Mark,
) -> Result<(), Error> {
    let configs = priorities_of(spec).map(|priority| consumer(names, spec, mark, priority));
    configs.into_iter().try_for_each(|config| create_consumer(js, &names.jobs, &config))
}

/// Returns the consumer that hands out the jobs of a priority.
pub(super) fn consumer(
    names: &Names,
    spec: &QueueSpec,
    mark: &Mark,
    priority: u8,
) -> ConsumerConfig {
    let mut config = ConsumerConfig {
        description: format!("Hands out the jobs of the queue {}", names.queue),
        filter_subject: spec.priorities.then(|| names.all_jobs(priority)),
        ack_wait: Some(spec.lease),
        // The places of a limit are lent to the jobs of all priorities. This one remembers how
        // many there are.
        max_ack_pending: Some(max_ack_pending(spec.limit.filter(|_| priority == 0))),
        ..ConsumerConfig::new(&names::workers(priority))
    };
    if priority == 0 {
        mark.put(&mut config);
    }
    config
}

/// Finds a consumer, or creates it. Returns its settings.
fn provide_consumer(
    js: &JetStream,
    stream: &str,
    config: &ConsumerConfig,
) -> Result<ConsumerConfig, Error> {
    let consumer = js.consumer(stream, &config.name)?;
    match consumer.info() {
        Err(error) if error.code() == Some(NO_CONSUMER) => {
            create_consumer(js, stream, config)?;
            Ok(consumer.info()?.config)
        }
        info => Ok(info?.config),
    }
}

/// Creates a consumer, unless it is there.
pub(super) fn create_consumer(
    js: &JetStream,
    stream: &str,
    config: &ConsumerConfig,
) -> Result<(), Error> {
    match js.create_consumer(stream, config) {
        Err(error) if error.code() == Some(OTHER_CONSUMER) => Ok(()),
        result => result.map(drop),
    }
}

/// Returns the priorities that jobs of a queue have.
pub(super) fn priorities_of(spec: &QueueSpec) -> impl Iterator<Item = u8> + use<> {
    priorities().take(if spec.priorities { PRIORITIES } else { 1 })
}

fn max_ack_pending(limit: Option<usize>) -> i64 {
    limit.map_or(NO_LIMIT, |most| i64::try_from(most).unwrap_or(i64::MAX))
}

/// Returns the settings of a queue that the servers act on, but for the rate.
pub(super) fn in_force(
    names: &Names,
    jobs: &StreamConfig,
    workers: Option<&ConsumerConfig>,
) -> QueueSpec {
    let default = QueueSpec::default();
    let limit = workers.and_then(|workers| workers.max_ack_pending);
    QueueSpec {
        lease: workers.and_then(|workers| workers.ack_wait).unwrap_or(default.lease),
        limit: limit.and_then(|most| usize::try_from(most).ok()),
        capacity: jobs.max_messages,
        replicas: usize::try_from(jobs.replicas).unwrap_or(default.replicas),
        rate: None,
        per_key: jobs.subjects.contains(&names.all_in_order()),
        priorities: has_priorities(jobs, names),
    }
}

/// Gives the stream of the jobs its settings. Subjects stay once they are there.
pub(super) fn set_stream(jobs: &mut StreamConfig, names: &Names, spec: &QueueSpec) {
    jobs.replicas = replicas(spec.replicas);
    jobs.max_messages = spec.capacity;
    let in_order = spec.per_key.then(|| names.all_in_order());
    let ranked = less_urgent(names).filter(|_| spec.priorities);
    for subject in in_order.into_iter().chain(ranked) {
        if !jobs.subjects.contains(&subject) {
            jobs.subjects.push(subject);
        }
    }
}

/// Opens a store of results, and gives it other settings if it has others.
pub(super) fn results(js: &JetStream, spec: &ResultsSpec) -> io::Result<Bucket> {
    let name = names::bucket(&spec.name);
    let about = format!("the store of results {}", spec.name);
    let max_age = |keep: Duration| (keep > Duration::ZERO).then_some(keep);
    let config = BucketConfig {
        max_age: max_age(spec.keep.unwrap_or(KEEP)),
        replicas: replicas(spec.replicas.unwrap_or(1)),
        ..BucketConfig::new(&name)
    };
    match js.create_bucket(&config) {
        Ok(bucket) => return Ok(bucket),
        Err(error) if error.code() == Some(OTHER_STREAM) => {}
        Err(error) => return Err(refused(&about, config.replicas, error)),
    }
    let there = js.stream_info(&format!("KV_{name}")).map_err(failed)?.config;
    let mut wanted = there.clone();
    if let Some(keep) = spec.keep {
        wanted.max_age = max_age(keep);
        // The servers refuse a window that is longer than messages are kept.
        let window = wanted.duplicate_window;
        wanted.duplicate_window =
            window.map(|window| window.min(keep.max(Duration::from_millis(100))));
    }
    if let Some(servers) = spec.replicas {
        wanted.replicas = replicas(servers);
    }
    update_bucket(js, &there, &wanted, &about)?;
    js.bucket(&name).map_err(failed)
}

fn update_bucket(
    js: &JetStream,
    config: &StreamConfig,
    wanted: &StreamConfig,
    about: &str,
) -> io::Result<()> {
    if wanted == config {
        return Ok(());
    }
    match js.update_stream(wanted) {
        Ok(_) => Ok(()),
        // A leader is being elected, or there is no room.
        Err(error) if is_passing(&error) || is_full(&error) => Err(failed(error)),
        Err(error) if error.kind() == ErrorKind::JetStream => {
            let text = format!("{about}: the servers refuse the settings: {error}");
            Err(io::Error::new(io::ErrorKind::InvalidInput, text))
        }
        Err(error) => Err(failed(error)),
    }
}
