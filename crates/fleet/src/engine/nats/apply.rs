//! Stores the values of the record in the parts of a queue: see [`settings`](super::settings).
//!
//! Copies come first, and then the stream of the jobs, whose mark says that the streams are
//! finished. What the servers may refuse is before the leases, which take effect at once.

use std::io;
use std::time::Duration;

use ecru_nats::jetstream::{ConsumerConfig, JetStream, StreamConfig};
use ecru_nats::{Error, ErrorKind};

use super::failure::{NO_CONSUMER, NO_STREAM, failed, is_full, is_overlap, is_passing};
use super::names::{self, Names, SETTINGS};
use super::settings::{Found, Mark};
use super::{open, permits};
use crate::engine::QueueSpec;

/// How long those that take jobs have, at most, to renew their leases before these become shorter.
const NOTICE: Duration = Duration::from_millis(250);

/// Why a record was not applied.
pub(super) enum Failure {
    /// The servers refuse the values, whichever process stores them.
    Refused(io::Error),
    /// Another process has stored a part of an earlier record meanwhile, which does not go together
    /// with this one.
    Torn,
    /// It may be applied later, or by another process.
    Other(io::Error),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Other(error)
    }
}

/// Applies the record that was found.
pub(super) fn all(js: &JetStream, names: &Names, found: &Found) -> Result<(), Failure> {
    let spec = found.record.spec();
    restrict(js, names, found, &spec)?;
    for name in [&names.dead, &names.attempts] {
        let config = js.stream_info(name).map_err(failed)?.config;
        let wanted = StreamConfig { replicas: open::replicas(spec.replicas), ..config.clone() };
        update_stream(js, names, &config, &wanted)?;
    }
    if found.is_stream_behind() {
        let mut wanted = found.jobs.clone();
        open::set_stream(&mut wanted, names, &spec);
        found.record.put(&mut wanted);
        update_stream(js, names, &found.jobs, &wanted)?;
    }
    let held = found.workers.as_ref().and_then(|workers| workers.ack_wait);
    if held.is_some_and(|held| spec.lease < held) {
        // The server measures the leases that are held by the new one, too.
        announce(js, names, spec.lease)?;
        ecru::sleep(NOTICE.min(spec.lease / 3)).map_err(io::Error::from)?;
    }
    for priority in open::priorities_of(&spec) {
        let wanted = open::consumer(names, &spec, &found.record.mark, priority);
        consumer(js, names, &wanted, priority == 0 && !found.are_workers_behind())?;
    }
    permits::provide(js, names, &spec)?;
    permits::update_lease(js, names, &spec)?;
    Ok(())
}

/// Tells the processes that take jobs that the settings change.
pub(super) fn announce(js: &JetStream, names: &Names, lease: Duration) -> io::Result<()> {
    let text = format!("{SETTINGS} {}", lease.as_nanos());
    js.client().publish(&names.cancellations(), text).map_err(failed)
}

/// Lets the consumer hand out the jobs of the priority 0 only, before there are others. No other
/// consumer may hand out what this one does.
fn restrict(js: &JetStream, names: &Names, found: &Found, spec: &QueueSpec) -> Result<(), Failure> {
    let Some(workers) = &found.workers else { return Ok(()) };
    if !spec.priorities || workers.filter_subject.is_some() {
        return Ok(());
    }
    let wanted = ConsumerConfig { filter_subject: Some(names.all_jobs(0)), ..workers.clone() };
    update_consumer(js, names, &wanted)
}

/// Creates a consumer, or gives it these settings. If it `stays`, one that is there keeps its own.
fn consumer(
    js: &JetStream,
    names: &Names,
    wanted: &ConsumerConfig,
    stays: bool,
) -> Result<(), Failure> {
    let there = match js.consumer(&names.jobs, &wanted.name).map_err(failed)?.info() {
        Ok(info) => info.config,
        Err(error) if error.code() == Some(NO_CONSUMER) => {
            let created = open::create_consumer(js, &names.jobs, wanted);
            return created.map_err(|error| failure(names, error));
        }
        Err(error) => return Err(failed(error).into()),
    };
    if stays {
        return Ok(());
    }
    let mut next = there.clone();
    next.ack_wait = wanted.ack_wait;
    next.max_ack_pending = wanted.max_ack_pending;
    next.filter_subject = wanted.filter_subject.clone();
    if wanted.name == names::workers(0) {
        Mark::of_consumer(wanted).put(&mut next);
    }
    if next == there { Ok(()) } else { update_consumer(js, names, &next) }
}

fn update_consumer(js: &JetStream, names: &Names, wanted: &ConsumerConfig) -> Result<(), Failure> {
    match js.update_consumer(&names.jobs, wanted) {
        Ok(_) => Ok(()),
        Err(error) => Err(failure(names, error)),
    }
}

fn update_stream(
    js: &JetStream,
    names: &Names,
    config: &StreamConfig,
    wanted: &StreamConfig,
) -> Result<(), Failure> {
    if wanted == config {
        return Ok(());
    }
    match js.update_stream(wanted) {
        Ok(_) => Ok(()),
        Err(error) => Err(failure(names, error)),
    }
}

/// Tells a refusal from what may pass, for instance because a leader is being elected.
fn failure(names: &Names, error: Error) -> Failure {
    if is_overlap(&error) {
        return Failure::Torn;
    }
    let is_gone = [Some(NO_STREAM), Some(NO_CONSUMER)].contains(&error.code());
    if error.kind() != ErrorKind::JetStream || is_gone || is_passing(&error) || is_full(&error) {
        return Failure::Other(failed(error));
    }
    let text = format!("the queue {}: the servers refuse the settings: {error}", names.queue);
    Failure::Refused(io::Error::new(io::ErrorKind::InvalidInput, text))
}
