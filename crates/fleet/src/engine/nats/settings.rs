//! The settings of a queue: where they are stored, and how processes change them at the same time.
//!
//! The servers act on settings that are in several *parts*. A part is replaced as a whole, and the
//! servers do not compare it with anything before. So a process that reads a part, changes it and
//! stores it would undo what another one has stored meanwhile.
//!
//! | part | what it has |
//! |---|---|
//! | the stream of the jobs | the capacity, the replicas, and by its subjects `per_key` and `priorities` |
//! | the consumer `workers` | the lease and the limit |
//! | copies: the other streams and consumers, and the places of the limit | the replicas, the lease and the limit |
//!
//! The rate is a message of its own, which is replaced by comparing: see [`rate`](super::rate).
//!
//! # The record
//! What the settings should be is one message in the stream of the attempts, the *record*. It is
//! replaced only if the last one is the one that its writer has read
//! (`Nats-Expected-Last-Subject-Sequence`). So all changes are made one after another, and whether
//! settings go together is decided for each of them by what is stored. The stream of the jobs has
//! the first record in its metadata, so a new queue has settings as soon as it exists, and the
//! process that creates it may end at any time.
//!
//! Each record has a *mark*: a version, which grows, and a name of the change. Each of the two
//! parts has the mark of the record that it was stored from, in its metadata.
//!
//! | state | how it is seen | what happens next |
//! |---|---|---|
//! | in force | both parts have the mark of the record, or a later one | a process may store the next record |
//! | stored | a part has an earlier mark | any process applies the record: the copies, the stream, the consumers |
//! | torn | a process that stood still has stored a part of an earlier record. The servers may refuse a consumer beside it | the same |
//! | refused | the servers refuse a part for its values | any process stores a record with the values before, which names the change that was refused |
//! | edited | a part has the mark of the record and other values | an operator or another program did that: the values of the part count, and the next record has them |
//!
//! A process that changes something applies the record that it has found, if it is not in force.
//! Then it stores the next one, applies it, and looks again until the last record is in force. So
//! nothing is locked: a process that is killed or stopped holds up no other one, and no clock
//! decides. What a stopped process stores later is torn, and is mended by that process, by the next
//! one that opens the queue or changes it, or by one that takes jobs and sees that the marks of the
//! two parts stay different. A process that may not change settings opens the queue with those that
//! the parts have.
//!
//! What an earlier release changes is an edit. If it does so in the same moment as another process,
//! the record decides.

use std::fmt;
use std::io;
use std::time::Duration;

use ecru_nats::jetstream::{ConsumerConfig, JetStream, StreamConfig};
use ecru_nats::{Error, Message};
use serde::{Deserialize, Serialize};

use super::apply::{self, Failure};
use super::failure::{NO_CONSUMER, OTHER_SEQUENCE, failed};
use super::names::{EXPECTED, LIFETIME, Names, workers};
use super::open;
use crate::engine::{Changes, QueueSpec};
use crate::errors::invalid;
use crate::id::unique;
use crate::settings::conflict;

/// The key of the metadata of both parts.
const KEY: &str = "fleet-settings";

/// How often a process looks whether the last record is in force. Each time, another process has
/// changed something.
const ROUNDS: usize = 64;

/// The pauses after a record was applied and is not in force. They double.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(250));

/// How many changes that were refused are remembered, so that their processes learn of it.
const REFUSED: usize = 8;

/// The settings in the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Values {
    /// In nanoseconds.
    lease: u64,
    limit: Option<usize>,
    capacity: Option<u64>,
    replicas: usize,
    per_key: bool,
    priorities: bool,
}

impl Values {
    fn new(spec: &QueueSpec) -> Values {
        let &QueueSpec { lease, limit, capacity, replicas, rate: _, per_key, priorities } = spec;
        let lease = u64::try_from(lease.as_nanos()).unwrap_or(u64::MAX);
        Values { lease, limit, capacity, replicas, per_key, priorities }
    }

    /// Returns the settings. The rate is not among them.
    fn spec(&self) -> QueueSpec {
        let &Values { lease, limit, capacity, replicas, per_key, priorities } = self;
        let lease = Duration::from_nanos(lease);
        QueueSpec { lease, limit, capacity, replicas, rate: None, per_key, priorities }
    }
}

/// Names a record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Mark {
    version: u64,
    change: String,
}

impl Mark {
    /// Returns the mark of the consumer. A consumer of an earlier release has none.
    pub(super) fn of_consumer(workers: &ConsumerConfig) -> Mark {
        let text = workers.other.metadata(KEY).and_then(|text| text.split_once('.'));
        let mark = text.and_then(|(version, change)| {
            Some(Mark { version: version.parse().ok()?, change: change.to_owned() })
        });
        mark.unwrap_or_default()
    }

    /// Returns the mark of the stream of the jobs.
    pub(super) fn of_stream(jobs: &StreamConfig) -> Mark {
        Record::of_stream(jobs).map(|record| record.mark).unwrap_or_default()
    }

    /// Puts the mark into the metadata of the consumer.
    pub(super) fn put(&self, workers: &mut ConsumerConfig) {
        workers.other.set_metadata(KEY, &self.to_string());
    }

    pub(super) fn is_before(&self, other: &Mark) -> bool {
        self.version < other.version
    }

    /// Returns whether what has this mark was not stored from the latest record, or a later one.
    pub(super) fn is_behind(&self, latest: &Mark) -> bool {
        // Two changes have the same version if a server has lost the first of them.
        self.is_before(latest) || (self.version == latest.version && self != latest)
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.version, self.change)
    }
}

/// What the settings of a queue should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// Names the stream of the jobs, which may be deleted and created again. It is empty if an
    /// earlier release has created it.
    queue: String,
    #[serde(flatten)]
    pub(super) mark: Mark,
    #[serde(flatten)]
    values: Values,
    /// What was in force before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    before: Option<Values>,
    /// Changes that the servers have refused lately, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    refused: Vec<(String, String)>,
}

impl Record {
    /// Returns the first record of a queue that is about to be created.
    pub(super) fn first(spec: &QueueSpec) -> Record {
        let mark = Mark { version: 1, change: unique() };
        let (before, refused) = Default::default();
        Record { queue: unique(), mark, values: Values::new(spec), before, refused }
    }

    /// Returns the record in the metadata of the stream of the jobs.
    fn of_stream(jobs: &StreamConfig) -> Option<Record> {
        serde_json::from_str(jobs.other.metadata(KEY)?).ok()
    }

    /// Puts the record into the metadata of the stream of the jobs.
    pub(super) fn put(&self, jobs: &mut StreamConfig) {
        let text = serde_json::to_string(self).expect("it has only texts and numbers");
        jobs.other.set_metadata(KEY, &text);
    }

    pub(super) fn spec(&self) -> QueueSpec {
        self.values.spec()
    }

    /// Returns why a change was refused, if it was.
    fn why_refused(&self, change: &str) -> Option<&str> {
        self.refused.iter().find(|(refused, _)| refused == change).map(|(_, why)| &**why)
    }
}

/// What is stored about the settings of a queue.
pub(super) struct Found {
    /// The number of the message with the record, or 0.
    sequence: u64,
    /// The record, with the values of the parts that were edited.
    pub(super) record: Record,
    pub(super) jobs: StreamConfig,
    pub(super) workers: Option<ConsumerConfig>,
}

impl Found {
    /// Puts together what was read.
    pub(super) fn new(
        names: &Names,
        message: Option<(u64, Option<Record>)>,
        jobs: StreamConfig,
        workers: Option<ConsumerConfig>,
    ) -> Found {
        let own = Record::of_stream(&jobs);
        let queue = own.as_ref().map(|own| own.queue.clone()).unwrap_or_default();
        let (sequence, message) = message.unwrap_or_default();
        // Any other one is that of a stream that was deleted.
        let message = message.filter(|message| message.queue == queue);
        let parts = open::in_force(names, &jobs, workers.as_ref());
        let older =
            |own: &Record| message.as_ref().is_none_or(|it| it.mark.version < own.mark.version);
        let stored = match own {
            Some(own) if older(&own) => Some(own),
            _ => message,
        };
        let mut record = stored.unwrap_or_else(|| {
            let (mark, before, refused) = Default::default();
            Record { queue, mark, values: Values::new(&parts), before, refused }
        });
        let is_behind = |mark: Mark| mark.is_behind(&record.mark);
        let (is_jobs_behind, is_workers_behind) = (
            is_behind(Mark::of_stream(&jobs)),
            workers.as_ref().is_none_or(|workers| is_behind(Mark::of_consumer(workers))),
        );
        let edited = Values::new(&parts);
        let values = &mut record.values;
        if !is_jobs_behind {
            (values.capacity, values.replicas) = (edited.capacity, edited.replicas);
        }
        if !is_workers_behind {
            (values.lease, values.limit) = (edited.lease, edited.limit);
        }
        // Both stay once they are there.
        values.per_key |= edited.per_key;
        values.priorities |= edited.priorities;
        Found { sequence, record, jobs, workers }
    }

    /// Adds the consumer, which was read last.
    pub(super) fn with_workers(self, names: &Names, workers: ConsumerConfig) -> Found {
        let Found { sequence, record, jobs, .. } = self;
        Found::new(names, Some((sequence, Some(record))), jobs, Some(workers))
    }

    /// Returns whether the stream of the jobs was stored before the record.
    pub(super) fn is_stream_behind(&self) -> bool {
        Mark::of_stream(&self.jobs).is_behind(&self.record.mark)
    }

    /// Returns whether the consumer was stored before the record, or is not there.
    pub(super) fn are_workers_behind(&self) -> bool {
        let behind = |workers| Mark::of_consumer(workers).is_behind(&self.record.mark);
        self.workers.as_ref().is_none_or(behind)
    }

    /// Returns whether the record is in force.
    pub(super) fn is_in_force(&self) -> bool {
        !self.is_stream_behind() && !self.are_workers_behind()
    }

    /// Returns a record with these values, which comes after everything that was found.
    fn next(&self, values: Values) -> Record {
        let workers = self.workers.as_ref().map(Mark::of_consumer).unwrap_or_default();
        let marks = [&self.record.mark, &Mark::of_stream(&self.jobs), &workers];
        let version = marks.map(|mark| mark.version).into_iter().max().unwrap_or(0) + 1;
        let mark = Mark { version, change: unique() };
        let before = Some(self.record.values.clone());
        Record { mark, values, before, ..self.record.clone() }
    }
}

/// Reads everything. The record comes first, so a later one does not let this one be replaced.
pub(super) fn read(js: &JetStream, names: &Names) -> io::Result<Found> {
    let message = read_message(js, names)?;
    let jobs = js.stream_info(&names.jobs).map_err(failed)?.config;
    let consumer = js.consumer(&names.jobs, &workers(0)).map_err(failed)?;
    let workers = match consumer.info() {
        Err(error) if error.code() == Some(NO_CONSUMER) => None,
        info => Some(info.map_err(failed)?.config),
    };
    Ok(Found::new(names, message, jobs, workers))
}

/// Reads the message with the record. Another program may publish anything there.
pub(super) fn read_message(
    js: &JetStream,
    names: &Names,
) -> io::Result<Option<(u64, Option<Record>)>> {
    let stored = js.last_message(&names.attempts, &names.settings()).map_err(failed)?;
    Ok(stored.map(|stored| (stored.sequence, serde_json::from_slice(&stored.payload).ok())))
}

/// Stores a record if the last one is that which was found. Returns whether it was.
fn write(js: &JetStream, names: &Names, found: &Found, record: &Record) -> io::Result<bool> {
    let payload = serde_json::to_vec(record).expect("it has only texts and numbers");
    let message = Message::new(&names.settings(), payload)
        .with_header(EXPECTED, &found.sequence.to_string())
        .and_then(|message| message.with_header(LIFETIME, "never"));
    match js.publish_message(&message.map_err(failed)?) {
        Err(error) if is_replaced(&error) => Ok(false),
        stored => stored.map(|_| true).map_err(failed),
    }
}

fn is_replaced(error: &Error) -> bool {
    error.code().is_some_and(|code| OTHER_SEQUENCE.contains(&code))
}

/// Changes settings other than the rate. Returns them as they were before and are after that, if
/// that is not the same.
pub(super) fn change(
    js: &JetStream,
    names: &Names,
    changes: &Changes,
) -> io::Result<Option<(QueueSpec, QueueSpec)>> {
    for _ in 0..ROUNDS {
        // What is stored before its own record is in force, so that a refusal concerns its own.
        let found = mend(js, names)?;
        let before = found.record.spec();
        let after = QueueSpec { rate: None, ..changes.apply(&before) };
        if after == before {
            return Ok(None);
        }
        if let Some(why) = conflict(&after) {
            return Err(invalid(format!("the queue {}: {why}", names.queue)));
        }
        let record = found.next(Values::new(&after));
        if !write(js, names, &found, &record)? {
            continue;
        }
        let settled = match settle(js, names) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                give_up(js, names, &record, &error);
                return Err(error);
            }
            settled => settled?,
        };
        return match settled.record.why_refused(&record.mark.change) {
            Some(why) => Err(invalid(why)),
            None => Ok(Some((before, after))),
        };
    }
    Err(too_many(names))
}

/// Sees to it that the record is in force.
pub(super) fn mend(js: &JetStream, names: &Names) -> io::Result<Found> {
    let found = read(js, names)?;
    if found.is_in_force() { Ok(found) } else { settle(js, names) }
}

/// Applies the record, and then each later one, until the last one is in force.
pub(super) fn settle(js: &JetStream, names: &Names) -> io::Result<Found> {
    let mut found = read(js, names)?;
    let (mut pause, longest) = PAUSES;
    for _ in 0..ROUNDS {
        let applied = apply::all(js, names, &found);
        let is_applied = applied.is_ok();
        match applied {
            Ok(()) | Err(Failure::Torn) => {}
            Err(Failure::Refused(error)) => take_back(js, names, &found, &error)?,
            Err(Failure::Other(error)) => return Err(error),
        }
        let next = read(js, names)?;
        let is_last = next.is_in_force() && next.record.mark == found.record.mark;
        if is_last && is_applied {
            apply::announce(js, names, next.record.spec().lease)?;
            return Ok(next);
        }
        if next.record.mark == found.record.mark {
            // A process that stands still has stored something meanwhile, or a server of a cluster
            // does not know yet what another one has stored.
            ecru::sleep(pause)?;
            pause = (2 * pause).min(longest);
        }
        found = next;
    }
    Err(too_many(names))
}

/// Stores a record without what the servers refuse. If there is a later one, that one decides.
fn take_back(js: &JetStream, names: &Names, found: &Found, why: &io::Error) -> io::Result<()> {
    let Some(before) = found.record.before.clone() else {
        // Nothing was changed: the servers refuse what they had.
        return Err(invalid(why.to_string()));
    };
    let change = found.record.mark.change.clone();
    let mut record = found.next(before);
    record.before = None;
    record.refused.push((change, why.to_string()));
    record.refused.drain(..record.refused.len().saturating_sub(REFUSED));
    write(js, names, found, &record).map(drop)
}

/// Takes a record back that this process may not apply, unless another one has done that.
fn give_up(js: &JetStream, names: &Names, record: &Record, why: &io::Error) {
    if let Ok(found) = read(js, names)
        && found.record.mark == record.mark
        && !found.is_in_force()
        && take_back(js, names, &found, why).is_ok()
    {
        let _ = settle(js, names);
    }
}

fn too_many(names: &Names) -> io::Error {
    let text = format!(
        "the queue {}: other programs change its settings again and again; look for them with \
         `fleet doctor`",
        names.queue
    );
    io::Error::new(io::ErrorKind::TimedOut, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(9);

    fn parts(names: &Names, record: &Record) -> (StreamConfig, ConsumerConfig) {
        let mut jobs = StreamConfig::new(&names.jobs);
        jobs.subjects = vec![names.all_jobs(0)];
        open::set_stream(&mut jobs, names, &record.spec());
        record.put(&mut jobs);
        (jobs, open::consumer(names, &record.spec(), &record.mark, 0))
    }

    fn first() -> Record {
        Record::first(&QueueSpec { lease: LEASE, capacity: Some(5), ..QueueSpec::default() })
    }

    fn changed(found: &Found, change: impl FnOnce(&mut QueueSpec)) -> Record {
        let mut spec = found.record.spec();
        change(&mut spec);
        found.next(Values::new(&spec))
    }

    #[test]
    fn a_new_queue_has_the_settings_of_its_stream() {
        let names = Names::new("mill");
        let (jobs, workers) = parts(&names, &first());
        let found = Found::new(&names, None, jobs.clone(), None);
        assert_eq!((found.record.spec().lease, found.is_in_force()), (LEASE, false));
        let found = Found::new(&names, None, jobs, Some(workers));
        assert_eq!((found.record.spec(), found.is_in_force()), (first().spec(), true));
        assert_eq!(found.record.mark.version, 1);
    }

    #[test]
    fn the_record_counts_until_both_parts_have_it() {
        let names = Names::new("mill");
        let (jobs, workers) = parts(&names, &first());
        let found = Found::new(&names, None, jobs.clone(), Some(workers.clone()));
        let next = changed(&found, |spec| {
            (spec.capacity, spec.limit, spec.priorities) = (Some(7), Some(3), true);
        });
        assert_eq!(next.mark.version, 2);
        let (new_jobs, new_workers) = parts(&names, &next);
        for (one, other, is_in_force) in [
            (&jobs, &workers, false),
            (&new_jobs, &workers, false),
            (&jobs, &new_workers, false),
            (&new_jobs, &new_workers, true),
        ] {
            let message = Some((4, Some(next.clone())));
            let found = Found::new(&names, message, one.clone(), Some(other.clone()));
            assert_eq!((found.record.spec(), found.is_in_force()), (next.spec(), is_in_force));
            assert_eq!(found.sequence, 4);
            assert!(changed(&found, |_| {}).mark.version == 3);
        }
        // A server has lost the message, or an operator has purged it.
        let found = Found::new(&names, None, new_jobs, Some(workers));
        assert_eq!((found.record.spec(), found.is_in_force()), (next.spec(), false));
    }

    #[test]
    fn two_changes_of_the_same_version_are_told_apart() {
        let names = Names::new("mill");
        let (jobs, workers) = parts(&names, &first());
        let found = Found::new(&names, None, jobs, Some(workers));
        let lost = changed(&found, |spec| spec.limit = Some(3));
        let next = changed(&found, |spec| spec.limit = Some(4));
        let (jobs, workers) = parts(&names, &lost);
        let found = Found::new(&names, Some((4, Some(next.clone()))), jobs, Some(workers));
        assert_eq!((found.record.spec(), found.is_in_force()), (next.spec(), false));
    }

    #[test]
    fn edits_of_other_programs_count() {
        let names = Names::new("mill");
        let (mut jobs, mut workers) = parts(&names, &first());
        jobs.max_messages = Some(6);
        workers.ack_wait = Some(2 * LEASE);
        let message = || Some((4, Some(first())));
        // It is that of a queue of the same name that was deleted.
        let found = Found::new(&names, message(), jobs.clone(), Some(workers.clone()));
        let spec = found.record.spec();
        assert_eq!((spec.capacity, spec.lease, found.sequence), (Some(6), 2 * LEASE, 4));
        assert!(found.is_in_force());
        // An earlier release has created both, or another program has removed the metadata.
        jobs.other = Default::default();
        workers.other = Default::default();
        let found = Found::new(&names, message(), jobs, Some(workers));
        assert_eq!((found.record.spec(), found.is_in_force()), (spec, true));
        assert_eq!((found.record.mark.version, &*found.record.queue), (0, ""));
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let names = Names::new("mill");
        let (jobs, workers) = parts(&names, &first());
        let found = Found::new(&names, None, jobs, Some(workers));
        let mut record = changed(&found, |spec| spec.limit = Some(3));
        record.refused.push(("one".into(), "there is \"no\" room".into()));
        let text = serde_json::to_vec(&record).unwrap();
        assert_eq!(serde_json::from_slice::<Record>(&text).unwrap(), record);
        assert_eq!(record.why_refused("one"), Some("there is \"no\" room"));
        assert_eq!(record.before.unwrap().limit, None);
        // What another program has put there.
        let mut workers = ConsumerConfig::default();
        for text in ["", "x", "7", "x.y"] {
            workers.other.set_metadata(KEY, text);
            assert_eq!(Mark::of_consumer(&workers), Mark::default());
        }
    }
}
