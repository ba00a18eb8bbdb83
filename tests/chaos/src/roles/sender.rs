//! Sends jobs until the process is terminated, and writes each one to its journal after `Ok`.

use std::io;
use std::time::Duration;

use ecru::{Cancelled, Scope};
use ecru_fleet::{JobId, Queue, SendError, Sent};

use super::Place;
use crate::journal::{Journal, Line};
use crate::shop::{self, Name, Work};

/// The pause between two jobs.
const PACE: Duration = Duration::from_millis(20);

/// One job of so many is followed by two that have one key.
const PAIRS: u64 = 16;

/// How long the second one of a pair comes after the first one.
const MEANWHILE: Duration = Duration::from_millis(300);

/// The pause before a job that was not stored is sent again.
const AGAIN: Duration = Duration::from_millis(100);

/// Sends to the queue. Every second job has a key, and some share theirs with an earlier one.
pub(super) fn send<'s>(
    s: &'s Scope<'s, '_>,
    place: &Place<'_>,
    name: &str,
    queue: &str,
) -> io::Result<i32> {
    let fleet = shop::connect(s, place.urls)?;
    let to = if queue == Name::Control.text() { Name::Control } else { Name::Jobs };
    let queue = shop::queue(&fleet, to)?;
    let mut random = fastrand::Rng::new();
    for number in 0_u64.. {
        if number % PAIRS == PAIRS - 1 {
            send_pair(&place.journal, &queue, name, number)?;
        }
        let work = Work::new(format!("job-{name}-{number}"), &mut random);
        let way = match number % 2 {
            0 => Way::Random,
            _ => Way::Key(work.id.clone()),
        };
        send_one(&place.journal, &queue, work, way)?;
        ecru::sleep(PACE)?;
    }
    Ok(0)
}

/// Sends two jobs with one key, the second one when there is no job of the key any more. Each is
/// worked on, but for the first one if this removes it.
fn send_pair(journal: &Journal, queue: &Queue<Work>, name: &str, number: u64) -> io::Result<()> {
    let key = format!("pair-{name}-{number}");
    let work = |part: &str| {
        let id = format!("job-{name}-{number}{part}");
        Work { id, millis: 1, blocks: false }
    };
    let first = work("a");
    let id = first.id.clone();
    journal.note(&Line::Intent { job: id.clone() })?;
    until_stored(journal, queue, first, Way::Key(key.clone()))?;
    ecru::sleep(MEANWHILE)?;
    let mut is_answered = true;
    loop {
        match queue.cancel(&JobId::from_key(&key)?) {
            Ok(false) if is_answered => break journal.keep(&Line::Sent { job: id })?,
            Ok(_) => break,
            Err(error) if Cancelled::find(&error).is_some() => return Err(error),
            // It was perhaps removed.
            Err(_) => is_answered = false,
        }
        ecru::sleep(AGAIN)?;
    }
    send_one(journal, queue, work("b"), Way::OldKey(key))
}

/// Sends a job until it is stored, and writes what happens.
pub(crate) fn send_one(
    journal: &Journal,
    queue: &Queue<Work>,
    work: Work,
    way: Way,
) -> io::Result<()> {
    let job = work.id.clone();
    journal.note(&Line::Intent { job: job.clone() })?;
    until_stored(journal, queue, work, way)?;
    journal.keep(&Line::Sent { job })
}

/// How a job is named.
pub(crate) enum Way {
    /// By its key.
    Key(String),
    /// By its key, which an earlier job had, and after that by the id of an attempt without an
    /// answer.
    OldKey(String),
    /// By a random id.
    Random,
    /// By the id of an attempt without an answer.
    Again(JobId),
}

fn until_stored(
    journal: &Journal,
    queue: &Queue<Work>,
    mut work: Work,
    mut way: Way,
) -> io::Result<Sent> {
    loop {
        let sent = match &way {
            Way::Key(key) | Way::OldKey(key) => queue.send_keyed(key, work),
            Way::Random => queue.send(work),
            Way::Again(id) => queue.send_again(id, work),
        };
        match sent {
            Ok(sent) => return Ok(sent),
            // Nothing was stored.
            Err(SendError::Full(job)) => work = job,
            Err(SendError::Refused { job, error }) => {
                // The servers elect a leader, or have no room.
                let is_passing = [io::ErrorKind::ResourceBusy, io::ErrorKind::StorageFull];
                if !is_passing.contains(&error.kind()) {
                    return Err(error);
                }
                work = job;
            }
            Err(SendError::Unknown { job, id }) => {
                journal.note(&Line::Again { job: job.id.clone() })?;
                work = job;
                if !matches!(way, Way::Key(_)) {
                    way = Way::Again(id);
                }
            }
            Err(error) => return Err(error.into()),
        }
        ecru::sleep(AGAIN)?;
    }
}
