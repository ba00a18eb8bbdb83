//! Creates what a queue and a store of results consist of, or finds it, and changes its settings.

use std::io;
use std::time::Duration;

use ecru_nats::jetstream::{
    Bucket, BucketConfig, Consumer, ConsumerConfig, Discard, JetStream, Retention, StreamConfig,
};
use ecru_nats::{Error, ErrorKind};

use super::failure::{NO_STREAM, OTHER_CONSUMER, OTHER_STREAM, failed, is_full, is_passing};
use super::names::{self, Names};
use super::rate;
use crate::engine::{Changes, KEEP, PRIORITIES, QueueSpec, ResultsSpec, priorities};
use crate::errors::invalid;
use crate::settings::NO_ORDER;

/// How long the record of an attempt is kept that is not settled.
const LONGEST_ATTEMPT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// JetStream writes no limit as -1. Its default would be 1000.
const NO_LIMIT: i64 = -1;

fn replicas(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Opens a queue: the stream of its jobs, the consumers, and the streams of its dead and of its
/// attempts. What exists keeps its settings.
pub(super) fn queue(js: &JetStream, names: &Names, settings: &Changes) -> io::Result<()> {
    let (queue, mut spec) = (&names.queue, settings.apply(&QueueSpec::default()));
    let mut subjects = vec![names.all_jobs(0)];
    if spec.per_key {
        subjects.push(names.all_in_order());
    }
    if spec.priorities {
        subjects.extend(less_urgent(names));
    }
    let jobs = StreamConfig {
        description: format!("The jobs of the queue {queue}"),
        subjects,
        retention: Retention::WorkQueue,
        discard: Discard::New,
        discard_new_per_subject: true,
        max_messages_per_subject: Some(1),
        max_messages: spec.capacity,
        allow_batches: true,
        replicas: replicas(spec.replicas),
        ..StreamConfig::new(&names.jobs)
    };
    let jobs = stream(js, &jobs, &format!("the queue {queue}"))?;
    // Another process may have given it priorities.
    spec.priorities = has_priorities(&jobs, names);
    // Without limits: a job that cannot be buried would be handed out for ever.
    let dead = StreamConfig {
        description: format!("The dead jobs of the queue {queue}"),
        subjects: vec![names.all_dead()],
        discard: Discard::New,
        discard_new_per_subject: true,
        max_messages_per_subject: Some(1),
        replicas: replicas(spec.replicas),
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
        replicas: replicas(spec.replicas),
        ..StreamConfig::new(&names.attempts)
    };
    stream(js, &attempts, &format!("the attempts of the queue {queue}"))?;
    consumers(js, names, &spec)
}

/// Returns the subjects of the jobs whose priority is not 0.
fn less_urgent(names: &Names) -> impl Iterator<Item = String> {
    priorities().skip(1).map(|priority| names.all_jobs(priority))
}

/// Returns whether the jobs of a stream may have priorities.
fn has_priorities(jobs: &StreamConfig, names: &Names) -> bool {
    less_urgent(names).all(|subject| jobs.subjects.contains(&subject))
}

/// Returns whether there is no queue yet.
pub(super) fn is_new(js: &JetStream, names: &Names) -> bool {
    js.stream_info(&names.jobs).is_err_and(|error| error.code() == Some(NO_STREAM))
}

/// Creates a stream, or finds one that can serve as it. Returns its settings.
fn stream(js: &JetStream, config: &StreamConfig, about: &str) -> io::Result<StreamConfig> {
    match js.create_stream(config) {
        Ok(info) => return Ok(info.config),
        Err(error) if error.code() == Some(OTHER_STREAM) => {}
        Err(error) => return Err(refused(about, config.replicas, error)),
    }
    let there = js.stream_info(&config.name).map_err(failed)?.config;
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
    Ok(there)
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
pub(super) fn consumers(js: &JetStream, names: &Names, spec: &QueueSpec) -> io::Result<()> {
    for priority in priorities_of(spec) {
        let config = ConsumerConfig {
            description: format!("Hands out the jobs of the queue {}", names.queue),
            filter_subject: spec.priorities.then(|| names.all_jobs(priority)),
            ack_wait: Some(spec.lease),
            // The places of a limit are lent to the jobs of all priorities. This one remembers how
            // many there are.
            max_ack_pending: Some(max_ack_pending(spec.limit.filter(|_| priority == 0))),
            ..ConsumerConfig::new(&names::workers(priority))
        };
        create_consumer(js, &names.jobs, &config)?;
    }
    Ok(())
}

/// Creates a consumer, unless it is there.
pub(super) fn create_consumer(
    js: &JetStream,
    stream: &str,
    config: &ConsumerConfig,
) -> io::Result<()> {
    match js.create_consumer(stream, config) {
        Err(error) if error.code() == Some(OTHER_CONSUMER) => Ok(()),
        result => result.map(drop).map_err(failed),
    }
}

/// Returns the priorities that jobs of a queue have.
pub(super) fn priorities_of(spec: &QueueSpec) -> impl Iterator<Item = u8> + use<> {
    priorities().take(if spec.priorities { PRIORITIES } else { 1 })
}

fn max_ack_pending(limit: Option<usize>) -> i64 {
    limit.map_or(NO_LIMIT, |most| i64::try_from(most).unwrap_or(i64::MAX))
}

/// Returns the settings of a queue that are in force.
pub(super) fn spec(
    js: &JetStream,
    names: &Names,
    workers: &ConsumerConfig,
) -> io::Result<QueueSpec> {
    let jobs = js.stream_info(&names.jobs).map_err(failed)?.config;
    let default = QueueSpec::default();
    Ok(QueueSpec {
        lease: workers.ack_wait.unwrap_or(default.lease),
        limit: workers.max_ack_pending.and_then(|most| usize::try_from(most).ok()),
        capacity: jobs.max_messages,
        replicas: usize::try_from(jobs.replicas).unwrap_or(default.replicas),
        rate: rate::current(js, names)?,
        per_key: jobs.subjects.contains(&names.all_in_order()),
        priorities: has_priorities(&jobs, names),
    })
}

/// Changes the capacity and the number of replicas of a queue.
pub(super) fn update_streams(js: &JetStream, names: &Names, changes: &Changes) -> io::Result<()> {
    let Changes { capacity, replicas: servers, .. } = *changes;
    for name in [&names.jobs, &names.dead, &names.attempts] {
        let config = js.stream_info(name).map_err(failed)?.config;
        let mut wanted = config.clone();
        if let Some(servers) = servers {
            wanted.replicas = replicas(servers);
        }
        if let Some(capacity) = capacity
            && *name == names.jobs
        {
            wanted.max_messages = capacity;
        }
        if changes.per_key == Some(true)
            && *name == names.jobs
            && !wanted.subjects.contains(&names.all_in_order())
        {
            wanted.subjects.push(names.all_in_order());
        }
        if changes.priorities == Some(true) && *name == names.jobs {
            let missing = less_urgent(names).filter(|subject| !config.subjects.contains(subject));
            wanted.subjects.extend(missing);
        }
        if *name == names.jobs
            && wanted.subjects.contains(&names.all_in_order())
            && has_priorities(&wanted, names)
        {
            return Err(invalid(format!("the queue {}: {NO_ORDER}", names.queue)));
        }
        update_stream(js, &config, &wanted, &format!("the queue {}", names.queue))?;
    }
    Ok(())
}

fn update_stream(
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

/// Lets a consumer hand out the jobs of the priority 0 only, so that there can be others.
pub(super) fn restrict_consumer(
    js: &JetStream,
    names: &Names,
    workers: &Consumer,
) -> Result<(), Error> {
    let mut config = workers.info()?.config;
    if config.filter_subject.is_some() {
        return Ok(());
    }
    config.filter_subject = Some(names.all_jobs(0));
    js.update_consumer(&names.jobs, &config).map(drop)
}

/// Lets a consumer hand out all jobs again, if the queue has got no priorities.
pub(super) fn free_consumer(
    js: &JetStream,
    names: &Names,
    workers: &Consumer,
) -> Result<(), Error> {
    if has_priorities(&js.stream_info(&names.jobs)?.config, names) {
        return Ok(());
    }
    let config = ConsumerConfig { filter_subject: None, ..workers.info()?.config };
    js.update_consumer(&names.jobs, &config).map(drop)
}

/// Changes the lease of a consumer, and of the first one the limit.
pub(super) fn update_consumer(
    js: &JetStream,
    names: &Names,
    workers: &Consumer,
    changes: &Changes,
) -> Result<(), Error> {
    let config = workers.info()?.config;
    let mut wanted = config.clone();
    wanted.ack_wait = changes.lease.or(wanted.ack_wait);
    if let Some(limit) = changes.limit
        && workers.name() == names::workers(0)
    {
        wanted.max_ack_pending = Some(max_ack_pending(limit));
    }
    if wanted == config {
        return Ok(());
    }
    js.update_consumer(&names.jobs, &wanted).map(drop)
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
    update_stream(js, &there, &wanted, &about)?;
    js.bucket(&name).map_err(failed)
}
