//! Who works on a job, and how often the work on it has begun.
//!
//! JetStream's count of deliveries says neither: it counts jobs that were only handed out, and it
//! accepts an acknowledgement of any of them. So the beginning of each attempt is a record, one for
//! each job, in a stream of its own. A record replaces the one before it only if its writer has
//! seen that one. The holder that settles a job says so in the same place, so it does that if and
//! only if no later attempt has begun.
//!
//! The record of a settled job stays for [`KEPT`], so that a job that a process has received and
//! not begun meanwhile is not begun any more.
//!
//! While the servers have no room for records, nothing is recorded and nothing is fenced: jobs that
//! are worked on make room. Then only the holder's own clock decides.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ecru_nats::jetstream::JetStream;
use ecru_nats::{Error, Message};
use serde::{Deserialize, Serialize};

use super::failure::{OTHER_SEQUENCE, failed, is_full, is_passing, repeated};
use super::names::{EXPECTED, LIFETIME, Names};
use crate::errors::LeaseLost;
use crate::id::any_number;

/// How long the record of a settled job is kept, at least.
const KEPT: Duration = Duration::from_secs(600);

/// The pause before a record is written again, while the servers elect a leader or the client
/// connects again.
const PAUSE: Duration = Duration::from_millis(100);

/// Where the records of a queue are.
pub(super) struct Records {
    js: JetStream,
    names: Names,
    kept: String,
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    /// How often the work has begun.
    begun: u32,
    /// How often the job had been handed out, for the attempt that has begun last.
    delivery: u32,
    /// Names what has written the record.
    holder: String,
    /// The job is settled.
    #[serde(default)]
    settled: bool,
}

/// The delivery of a job that was cancelled: later than all.
const CANCELLED: u32 = u32::MAX;

/// A record, if it is one, with its sequence number.
type Found = Option<(u64, Option<Record>)>;

/// The attempt of one holder.
pub(super) struct Attempt {
    records: Arc<Records>,
    subject: String,
    delivery: u32,
    holder: String,
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
struct State {
    /// The sequence number of the last record that was seen, or 0.
    seen: u64,
    begun: u32,
    claimed: bool,
}

impl Records {
    pub(super) fn new(js: &JetStream, names: &Names, lease: Duration) -> Records {
        let kept = format!("{}s", KEPT.max(2 * lease).as_secs());
        Records { js: js.clone(), names: names.clone(), kept }
    }

    fn read(&self, subject: &str) -> io::Result<Found> {
        let found = repeated(|| self.js.last_message(&self.names.attempts, subject))?;
        // Another program may publish anything here.
        Ok(found.map(|stored| (stored.sequence, serde_json::from_slice(&stored.payload).ok())))
    }

    /// Writes a record if the last one has this sequence number. Returns its own number, or `None`
    /// if there is another one.
    fn write(&self, subject: &str, record: &Record, last: u64) -> Result<Option<u64>, Error> {
        let payload = serde_json::to_vec(record).expect("it has only numbers and plain text");
        let mut message =
            Message::new(subject, payload).with_header(EXPECTED, &last.to_string())?;
        if record.settled {
            message = message.with_header(LIFETIME, &self.kept)?;
        }
        match self.js.publish_message(&message) {
            Ok(stored) => Ok(Some(stored.sequence)),
            Err(error) if error.code().is_some_and(|code| OTHER_SEQUENCE.contains(&code)) => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Settles a job that is to be removed without its holder. Returns `false` if its holder was
    /// earlier.
    pub(super) fn cancel(self: &Arc<Records>, id: &str, sequence: u64) -> io::Result<bool> {
        let attempt = self.attempt(id, sequence, CANCELLED);
        loop {
            let (seen, record) = self.read(&attempt.subject)?.unwrap_or_default();
            match record {
                Some(record) if record.settled => return Ok(record.delivery == CANCELLED),
                record => {
                    let begun = record.map_or(0, |record| record.begun);
                    let settled = self.write(&attempt.subject, &attempt.record(begun, true), seen);
                    match settled {
                        Ok(None) => ecru::sleep(PAUSE)?,
                        Err(error) if !is_full(&error) => return Err(failed(error)),
                        _ => return Ok(true),
                    }
                }
            }
        }
    }

    /// Returns the attempt that begins if a job is worked on that was handed out so often.
    pub(super) fn attempt(self: &Arc<Records>, id: &str, sequence: u64, delivery: u32) -> Attempt {
        Attempt {
            records: Arc::clone(self),
            subject: self.names.attempt(id, sequence),
            delivery,
            holder: format!("{:016x}", any_number()),
            state: Mutex::new(State { seen: 0, begun: 0, claimed: false }),
        }
    }
}

/// What an attempt sees in the records.
enum Last {
    /// An earlier attempt, or none.
    Earlier,
    Own(Record),
    /// A later attempt, or the end of the job.
    Later,
}

impl Attempt {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks at the last record. Waits a moment if it is the one that was seen before: its
    /// successor is on its way.
    fn look(&self) -> io::Result<Last> {
        let found = self.records.read(&self.subject)?;
        let (seen, record) = found.unwrap_or_default();
        if std::mem::replace(&mut self.state().seen, seen) == seen {
            ecru::sleep(PAUSE)?;
        }
        Ok(match record {
            None => Last::Earlier,
            Some(record) if record.holder == self.holder => Last::Own(record),
            Some(record) if record.settled || record.delivery >= self.delivery => Last::Later,
            Some(record) => {
                self.state().begun = record.begun;
                Last::Earlier
            }
        })
    }

    /// Looks at what was recorded before this attempt. Returns how often the work has begun, or
    /// `None` if the job is settled.
    pub(super) fn before(&self) -> io::Result<Option<u32>> {
        let (seen, record) = self.records.read(&self.subject)?.unwrap_or_default();
        let (begun, settled) = record.map_or((0, false), |record| (record.begun, record.settled));
        let mut state = self.state();
        (state.seen, state.begun) = (seen, begun);
        Ok((!settled).then_some(begun))
    }

    /// Records that the work begins: see [`Lease::begin`](crate::engine::Lease::begin).
    pub(super) fn begin(&self) -> io::Result<u32> {
        loop {
            let State { seen, begun, .. } = *self.state();
            let record = self.record(begun + 1, false);
            match self.records.write(&self.subject, &record, seen) {
                Ok(Some(sequence)) => {
                    let mut state = self.state();
                    (state.seen, state.begun) = (sequence, record.begun);
                    return Ok(record.begun);
                }
                Ok(None) => {}
                Err(error) if is_full(&error) => return Ok(record.begun),
                Err(error) if is_passing(&error) => ecru::sleep(PAUSE)?,
                Err(error) => return Err(failed(error)),
            }
            match self.look()? {
                Last::Earlier => {}
                Last::Own(record) => {
                    self.state().begun = record.begun;
                    return Ok(record.begun);
                }
                Last::Later => return Err(LeaseLost::Expired.into()),
            }
        }
    }

    /// Settles the job: see [`Lease::claim`](crate::engine::Lease::claim).
    pub(super) fn claim(&self) -> io::Result<bool> {
        loop {
            let State { seen, begun, claimed } = *self.state();
            if claimed {
                return Ok(true);
            }
            let written = self.records.write(&self.subject, &self.record(begun, true), seen);
            let is_claimed = match written {
                Ok(Some(_)) => true,
                Err(error) if is_full(&error) => true,
                Err(error) if !is_passing(&error) => return Err(failed(error)),
                result => {
                    if result.is_err() {
                        ecru::sleep(PAUSE)?;
                    }
                    match self.look()? {
                        Last::Own(record) => record.settled,
                        // This attempt has begun, and its record was removed.
                        Last::Earlier | Last::Later => return Ok(false),
                    }
                }
            };
            self.state().claimed = is_claimed;
        }
    }

    fn record(&self, begun: u32, settled: bool) -> Record {
        Record { begun, delivery: self.delivery, holder: self.holder.clone(), settled }
    }
}
