//! Sends jobs until the process is terminated, and writes each one to its journal after `Ok`.

use std::io;
use std::time::Duration;

use ecru::Scope;
use ecru_fleet::{JobId, Queue, SendError, Sent};

use super::Place;
use crate::journal::{Journal, Line};
use crate::shop::{self, Name, Work};

/// The pause between two jobs.
const PACE: Duration = Duration::from_millis(20);

/// The pause before a job that was not stored is sent again.
const AGAIN: Duration = Duration::from_millis(100);

/// Sends to the queue. Every second job has a key.
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
            Way::Key(key) => queue.send_keyed(key, work),
            Way::Random => queue.send(work),
            Way::Again(id) => queue.send_again(id, work),
        };
        match sent {
            Ok(sent) => return Ok(sent),
            // Nothing was stored.
            Err(SendError::Full(job)) => work = job,
            Err(SendError::Refused { job, error }) => {
                // The servers elect a leader.
                if error.kind() != io::ErrorKind::ResourceBusy {
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
