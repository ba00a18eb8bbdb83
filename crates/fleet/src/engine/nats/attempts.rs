//! Who works on a job, and how often the work on it has begun.
//!
//! JetStream's count of deliveries says neither: it counts jobs that were only handed out, and it
//! accepts an acknowledgement of any of them. So the beginning of each attempt is stored, in a
//! stream of its own. A first attempt whose holder is certain of its lease is on a page of the
//! [`journal`](super::journal). Each other one is a record, one for each job. A record replaces the
//! one before it only if its writer has seen that one. A holder that is not certain any more says
//! in the same place that it settles the job, so it does that if and only if no later attempt has
//! begun.
//!
//! A holder is certain if the job was handed out for the first time, in answer to a request that is
//! younger than the lease, so that no server can have handed it out again yet. If the server
//! confirms within that time that the job is removed, no other holder has it or will.
//!
//! The record of a settled job stays for [`KEPT`], so that a job that a process has received and
//! not begun meanwhile is not begun any more.
//!
//! While the servers have no room for records, nothing is recorded and nothing is fenced: jobs that
//! are worked on make room. Then only the holder's own clock decides.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ecru_nats::jetstream::JetStream;
use ecru_nats::{Error, Message};
use serde::{Deserialize, Serialize};

use super::failure::{OTHER_SEQUENCE, failed, is_full, is_passing, repeated};
use super::journal::{Entry, Journal, Noted};
use super::names::{EXPECTED, LIFETIME, Names, id_of_job};
use super::progress;
use crate::errors::LeaseLost;
use crate::id::any_number;
use crate::progress::Progress;

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
    pub(super) journal: Journal,
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
    /// The process that has written the record, for operators.
    #[serde(default)]
    process: String,
}

/// The delivery of a job that was cancelled: later than all.
const CANCELLED: u32 = u32::MAX;

/// A record, if it is one, with its sequence number.
type Found = Option<(u64, Option<Record>)>;

/// The attempt of one holder.
pub(super) struct Attempt {
    records: Arc<Records>,
    id: String,
    sequence: u64,
    delivery: u32,
    received: Instant,
    holder: u64,
    state: Mutex<State>,
    /// The job is on a page of this process.
    noted: Mutex<Option<Noted>>,
}

#[derive(Clone, Copy, Default)]
struct State {
    /// The sequence number of the last record that was seen, or 0.
    seen: u64,
    /// How often the work has begun before.
    before: u32,
    claimed: bool,
}

impl Records {
    pub(super) fn new(js: &JetStream, names: &Names, lease: Duration) -> Records {
        let kept = format!("{}s", KEPT.max(2 * lease).as_secs());
        let journal = Journal::new(js, names);
        Records { js: js.clone(), names: names.clone(), kept, journal }
    }

    fn read(&self, subject: &str) -> io::Result<Found> {
        let found = repeated(|| self.js.last_message(&self.names.attempts, subject))?;
        // Another program may publish anything here.
        Ok(found.map(|stored| (stored.sequence, serde_json::from_slice(&stored.payload).ok())))
    }

    /// Returns whether a job is there.
    fn has_job(&self, id: &str, sequence: u64) -> io::Result<bool> {
        let found = repeated(|| self.js.message(&self.names.jobs, sequence))?;
        Ok(found.is_some_and(|found| id_of_job(&found.subject) == id))
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
        let attempt = self.attempt(id, sequence, CANCELLED, ecru::time::now());
        loop {
            let (seen, record) = self.read(&attempt.subject())?.unwrap_or_default();
            match record {
                Some(record) if record.settled => return Ok(record.delivery == CANCELLED),
                record => {
                    let begun = record.map_or(0, |record| record.begun);
                    let settled =
                        self.write(&attempt.subject(), &attempt.record(begun, true), seen);
                    match settled {
                        Ok(None) => ecru::sleep(PAUSE)?,
                        Err(error) if !is_full(&error) => return Err(failed(error)),
                        _ => return Ok(true),
                    }
                }
            }
        }
    }

    /// Returns the attempt that begins if a job is worked on that was handed out so often, and came
    /// at this time.
    pub(super) fn attempt(
        self: &Arc<Records>,
        id: &str,
        sequence: u64,
        delivery: u32,
        received: Instant,
    ) -> Attempt {
        Attempt {
            records: Arc::clone(self),
            id: id.to_owned(),
            sequence,
            delivery,
            received,
            holder: any_number(),
            state: Mutex::default(),
            noted: Mutex::default(),
        }
    }
}

/// What an attempt sees in the records.
enum Last {
    /// An earlier attempt, or none.
    Earlier,
    Own {
        settled: bool,
    },
    /// A later attempt, or the end of the job.
    Later,
}

impl Attempt {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn noted(&self) -> MutexGuard<'_, Option<Noted>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the subject of the job's record. Most jobs have none.
    fn subject(&self) -> String {
        self.records.names.attempt(&self.id, self.sequence)
    }

    /// Returns how this attempt is named in records.
    fn holder(&self) -> String {
        format!("{:016x}", self.holder)
    }

    fn entry(&self) -> Entry {
        Entry::new(&self.id, self.sequence)
    }

    /// Returns whether the job was handed out for the first time.
    fn is_first(&self) -> bool {
        self.delivery == 1
    }

    /// Returns whether the work has begun and only the page of this process says so.
    pub(super) fn is_noted(&self) -> bool {
        self.noted().is_some()
    }

    /// The job is settled, so its page need not have it.
    pub(super) fn leave_page(&self) {
        if let Some(noted) = self.noted().take() {
            noted.leave();
        }
    }

    /// Looks at the last record. Waits a moment if it is the one that was seen before: its
    /// successor is on its way.
    fn look(&self) -> io::Result<Last> {
        let found = self.records.read(&self.subject())?;
        let (seen, record) = found.unwrap_or_default();
        if std::mem::replace(&mut self.state().seen, seen) == seen {
            ecru::sleep(PAUSE)?;
        }
        Ok(match record {
            None => Last::Earlier,
            Some(record) if record.holder == self.holder() => Last::Own { settled: record.settled },
            Some(record) if record.settled || record.delivery >= self.delivery => Last::Later,
            Some(record) => {
                self.state().before = record.begun;
                Last::Earlier
            }
        })
    }

    /// Looks at what was recorded before this attempt. Returns how often the work has begun, or
    /// `None` if the job is settled.
    pub(super) fn before(&self) -> io::Result<Option<u32>> {
        let (seen, record) = self.records.read(&self.subject())?.unwrap_or_default();
        let before = match record {
            Some(record) if record.settled => return Ok(None),
            Some(record) => record.begun,
            // Only a first attempt is on a page.
            None => {
                let journal = &self.records.journal;
                u32::from(!self.is_first() && journal.has(self.entry(), self.received)?)
            }
        };
        *self.state() = State { seen, before, claimed: false };
        Ok(Some(before))
    }

    /// Records that the work begins: see [`Lease::begin`](crate::engine::Lease::begin).
    pub(super) fn begin(&self, is_certain: bool) -> io::Result<u32> {
        if self.is_first() {
            self.note()?;
            if is_certain {
                return Ok(1);
            }
        } else if self.state().seen == 0 && self.before()?.is_none() {
            return Err(LeaseLost::Expired.into());
        }
        let count = self.record_begin()?;
        self.leave_page();
        Ok(count)
    }

    /// Puts the job on a page. It is handed out for the first time, as far as a server knows.
    fn note(&self) -> io::Result<()> {
        if self.is_noted() {
            return Ok(());
        }
        let (noted, is_unsure) = self.records.journal.begin(self.entry(), self.received)?;
        *self.noted() = Some(noted);
        if is_unsure && !self.records.has_job(&self.id, self.sequence)? {
            self.leave_page();
            return Err(LeaseLost::Expired.into());
        }
        Ok(())
    }

    fn record_begin(&self) -> io::Result<u32> {
        loop {
            let State { seen, before, .. } = *self.state();
            let record = self.record(before + 1, false);
            match self.records.write(&self.subject(), &record, seen) {
                Ok(Some(sequence)) => {
                    self.state().seen = sequence;
                    return Ok(record.begun);
                }
                Ok(None) => {}
                Err(error) if is_full(&error) => return Ok(record.begun),
                Err(error) if is_passing(&error) => ecru::sleep(PAUSE)?,
                Err(error) => return Err(failed(error)),
            }
            match self.look()? {
                Last::Earlier => {}
                Last::Own { .. } => return Ok(self.state().before + 1),
                Last::Later => return Err(LeaseLost::Expired.into()),
            }
        }
    }

    /// Sees to it that the attempt counts when the job is not on a page of this process any more:
    /// see [`Lease::count`](crate::engine::Lease::count).
    pub(super) fn count(&self) -> io::Result<()> {
        if self.is_noted() {
            match self.record_begin() {
                Ok(_) => {}
                // A later attempt has seen the page.
                Err(error) if LeaseLost::find(&error).is_some() => {}
                Err(error) => return Err(error),
            }
            self.leave_page();
        }
        Ok(())
    }

    /// Publishes how far the job is: see [`Lease::report`](crate::engine::Lease::report).
    pub(super) fn report(&self, report: Option<&Progress>) -> Result<(), Error> {
        progress::publish(&self.records.js, &self.records.names, &self.id, report)
    }

    /// Settles the job: see [`Lease::claim`](crate::engine::Lease::claim).
    pub(super) fn claim(&self) -> io::Result<bool> {
        loop {
            let State { seen, before, claimed } = *self.state();
            if claimed {
                return Ok(true);
            }
            let written = self.records.write(&self.subject(), &self.record(before + 1, true), seen);
            let is_claimed = match written {
                Ok(Some(_)) => true,
                Err(error) if is_full(&error) => true,
                Err(error) if !is_passing(&error) => return Err(failed(error)),
                result => {
                    if result.is_err() {
                        ecru::sleep(PAUSE)?;
                    }
                    match self.look()? {
                        Last::Own { settled } => settled,
                        // This attempt is on a page, and has no record yet.
                        Last::Earlier if self.is_noted() => false,
                        // This attempt has begun, and its record was removed.
                        Last::Earlier | Last::Later => return Ok(false),
                    }
                }
            };
            self.state().claimed = is_claimed;
        }
    }

    fn record(&self, begun: u32, settled: bool) -> Record {
        let process = self.records.journal.name().to_owned();
        Record { begun, delivery: self.delivery, holder: self.holder(), settled, process }
    }
}
