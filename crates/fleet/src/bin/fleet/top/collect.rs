//! Numbers about queues, from their streams, their consumers and the connections of the account.

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use ecru_fleet::Progress;
use ecru_nats::ErrorKind;
use ecru_nats::jetstream::{ConsumerInfo, JetStream, Streams};

use crate::asking::Asking;
use crate::names::{self, ALL_CANCELLATIONS, ALL_DEAD, ALL_JOBS, PRIORITIES, Part, part};
use crate::servers::{self, Connection};
use crate::utc;

/// JetStream's code if there is no such consumer.
const NO_CONSUMER: u32 = 10_014;

/// The most reports that are read of a queue.
const MOST_REPORTS: usize = 256;

/// A queue or a function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Row {
    /// The queue, as the servers call it.
    pub(crate) queue: String,
    pub(crate) numbers: Option<Numbers>,
    /// The connections of the processes that take its jobs, if the servers tell.
    pub(crate) workers: Option<Vec<Connection>>,
}

impl Row {
    /// Returns how many processes take jobs, if the servers tell.
    pub(crate) fn workers(&self) -> Option<usize> {
        self.workers.as_ref().map(Vec::len)
    }
}

/// The numbers of a queue whose servers answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "web"), allow(dead_code, reason = "only the page has some of them"))]
pub(crate) struct Numbers {
    pub(crate) queued: u64,
    pub(crate) running: u64,
    pub(crate) redelivered: u64,
    pub(crate) dead: u64,
    /// How many jobs have reported how far they are, and how far that is on average, in percent.
    pub(crate) reporting: u64,
    pub(crate) percent: Option<u64>,
    /// How many requests for jobs wait.
    pub(crate) waiting: u64,
    /// How long no job is handed out.
    pub(crate) paused: Option<Duration>,
    /// How many jobs were sent since the queue was created.
    pub(crate) sent: u64,
    /// How many of them have been settled.
    pub(crate) settled: u64,
    /// For how long the oldest job has been queued, if that was to be found out.
    pub(crate) age: Option<Duration>,
    /// How many priorities jobs have: one, or all.
    pub(crate) priorities: usize,
    /// The numbers of each priority.
    pub(crate) ranks: [Rank; PRIORITIES],
}

/// The numbers of a priority.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(not(feature = "web"), allow(dead_code, reason = "only the page has some of them"))]
pub(crate) struct Rank {
    pub(crate) queued: u64,
    pub(crate) running: u64,
    /// What was handed out, by its last number in the stream.
    pub(crate) handed_out: u64,
    /// What was settled without a gap, by its last number in the stream.
    pub(crate) floor: u64,
}

impl Numbers {
    /// Returns the numbers of each priority, if jobs have priorities.
    pub(crate) fn ranked(&self) -> Option<&[Rank]> {
        (self.priorities > 1).then_some(&self.ranks[..])
    }
}

/// Whether to find out for how long the oldest job of each queue has been queued. It costs a
/// question for each queue that has any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ages {
    Asked,
    Unasked,
}

/// Returns a row for each queue and function, by name.
pub(crate) fn rows(asking: &Asking, ages: Ages) -> io::Result<Vec<Row>> {
    let js = asking.client.jetstream();
    let streams = js.streams(Some(ALL_JOBS))?;
    let graves = js.streams(Some(ALL_DEAD))?;
    let dead = dead(&graves);
    let listening = servers::listeners(asking, ALL_CANCELLATIONS)?;
    let workers = |queue: &str| {
        let subject = names::cancellations(queue);
        let connections = listening.as_ref()?.iter();
        Some(connections.filter(|one| one.listens(&subject)).cloned().collect())
    };
    let mut rows = Vec::new();
    for stream in &streams.found {
        let Some((Part::Jobs, queue)) = part(&stream.config.name) else { continue };
        let priorities = names::priorities(&stream.config);
        let Some(consumers) = consumers(&js, queue, priorities)? else {
            let workers = workers(queue);
            rows.push(Row { queue: queue.to_owned(), numbers: None, workers });
            continue;
        };
        let state = &stream.state;
        let sum = |number: fn(&ConsumerInfo) -> u64| consumers.iter().map(number).sum::<u64>();
        let running = sum(|info| info.num_ack_pending);
        let mut ranks = [Rank::default(); PRIORITIES];
        for (rank, info) in ranks.iter_mut().zip(&consumers) {
            *rank = Rank {
                queued: info.num_pending,
                running: info.num_ack_pending,
                handed_out: info.delivered.stream,
                floor: info.ack_floor.stream,
            };
        }
        let paused = consumers.iter().find(|info| info.paused);
        let percents = percents(&js, queue)?;
        let reporting = percents.len() as u64;
        let mut numbers = Numbers {
            reporting,
            percent: percents.iter().sum::<u64>().checked_div(reporting),
            // The consumer learns of a message some time after its sender.
            queued: state.messages.saturating_sub(running),
            running,
            redelivered: sum(|info| info.num_redelivered),
            dead: dead.get(queue).copied().unwrap_or(0),
            waiting: sum(|info| info.num_waiting),
            paused: paused.map(|info| info.pause_remaining.unwrap_or_default()),
            sent: state.last_seq,
            settled: state.last_seq.saturating_sub(state.messages),
            age: None,
            priorities,
            ranks,
        };
        if ages == Ages::Asked && numbers.queued > 0 {
            for (priority, info) in consumers.iter().enumerate() {
                numbers.age = numbers.age.max(age(&js, queue, priority, info)?);
            }
        }
        rows.push(Row { queue: queue.to_owned(), numbers: Some(numbers), workers: workers(queue) });
    }
    for name in &streams.silent {
        let Some((Part::Jobs, queue)) = part(name) else { continue };
        rows.push(Row { queue: queue.to_owned(), numbers: None, workers: workers(queue) });
    }
    rows.sort_by(|one, other| one.queue.cmp(&other.queue));
    Ok(rows)
}

/// Returns how far the jobs of a queue are that have reported that, in percent.
fn percents(js: &JetStream, queue: &str) -> io::Result<Vec<u64>> {
    let (stream, subjects) = (names::attempts(queue), names::progress(queue, "*"));
    let (mut percents, mut from) = (Vec::new(), 1);
    for _ in 0..MOST_REPORTS {
        match js.next_message(&stream, from, &subjects) {
            Ok(Some(stored)) => {
                from = stored.sequence + 1;
                // A job that is not held any more has an empty message for a moment.
                if let Ok(progress) = serde_json::from_slice::<Progress>(&stored.payload) {
                    percents.push(progress.percent().into());
                }
            }
            Ok(None) => break,
            // The table has its other numbers.
            Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::JetStream) => {
                break;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(percents)
}

fn dead(streams: &Streams) -> BTreeMap<&str, u64> {
    let counts = streams.found.iter().filter_map(|stream| {
        let (part, queue) = part(&stream.config.name)?;
        (part == Part::Dead).then_some((queue, stream.state.messages))
    });
    counts.collect()
}

/// Returns for how long the oldest job of a priority has been queued, by the clock of the servers.
fn age(
    js: &JetStream,
    queue: &str,
    priority: usize,
    consumer: &ConsumerInfo,
) -> io::Result<Option<Duration>> {
    let (from, all) = (consumer.delivered.stream + 1, names::all_jobs(queue, priority));
    let oldest = match js.next_message(&names::jobs(queue), from, &all) {
        Ok(oldest) => oldest,
        Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::JetStream) => None,
        Err(error) => return Err(error.into()),
    };
    let sent = oldest.and_then(|job| utc::parse(&job.time));
    let times = sent.zip(utc::parse(&consumer.time));
    // A job that is younger than the consumer's answer is 0 s old.
    Ok(times.map(|(sent, now)| now.duration_since(sent).unwrap_or_default()))
}

/// Returns what the consumers of a queue say, or `None` if one does not answer.
fn consumers(
    js: &JetStream,
    queue: &str,
    priorities: usize,
) -> io::Result<Option<Vec<ConsumerInfo>>> {
    let info = |priority| js.consumer(&names::jobs(queue), &names::workers(priority))?.info();
    match (0..priorities).map(info).collect::<Result<_, _>>() {
        Ok(infos) => Ok(Some(infos)),
        // The servers elect a leader, or the queue was deleted a moment ago.
        Err(error) if error.code() == Some(NO_CONSUMER) => Ok(None),
        Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::JetStream) => {
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
