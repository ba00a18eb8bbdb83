//! Jobs that are sent again and again.
//!
//! Each process that has a schedule sends each of its jobs, at times that depend on the wall clock
//! alone, under an id that has the time. So the servers store one of them, and the others are
//! `Already`.
//!
//! What the schedule of a name is, the processes store for each other: see
//! [`schedule`](crate::schedule). The last process that has called [`Queue::every`] or
//! [`Queue::cron`] has replaced what was stored, by comparing. The others read it whenever they
//! wake, and go on with it: so it does not end with the process that has stored it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ecru::{Cancelled, Source};

use crate::codec::{self, Wire};
use crate::engine::{self, Sending, Terms};
use crate::errors::invalid;
use crate::function::AGAIN;
use crate::queue::Queue;
use crate::schedule::{Plan, Record, Timing};
use crate::shared::Shared;
use crate::wall::wall;

/// The shortest period. Servers and clocks are not more exact.
const SHORTEST: Duration = Duration::from_secs(1);

/// The longest sleep. The clock may be set, and a machine that is suspended may not count the time.
const LOOK: Duration = Duration::from_secs(60);

/// The longest name. The time comes after it.
const MAX_NAME: usize = 64;

/// The schedules of a fleet in this process: the last one of each name.
#[derive(Default)]
pub(crate) struct Schedules(Mutex<BTreeMap<String, u64>>);

impl Schedules {
    /// Replaces the schedule of a name. Returns the number of the new one.
    fn replace(&self, name: &str) -> u64 {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = all.entry(name.to_owned()).or_default();
        *last += 1;
        *last
    }

    fn is_last(&self, name: &str, number: u64) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name) == Some(&number)
    }
}

impl<T: Wire> Queue<T> {
    /// Sends a job each time that a period has passed, from now on until the scope of the fleet is
    /// cancelled. The times are the multiples of the period since 1970, by the wall clock, so a
    /// period of an hour begins with each full hour of UTC.
    ///
    /// The id of a job is the name, `/`, and the time in milliseconds. What falls into a time in which
    /// no process has the schedule is left out.
    ///
    /// # Several processes
    /// The schedule is known by its name. If several processes have it, one job is stored at each
    /// time. The last call with a name, in any process, replaces the schedule of that name in the
    /// whole fleet: its times, its job and its priority. So a new release of a program has its
    /// schedule also while processes of the old one run. These learn of it within a minute, or
    /// before their next time, tell it by a [warning](crate::Fleet::on_warning), and from then on
    /// send the new jobs.
    ///
    /// A process that may send jobs, and may not use the stream with the attempts of the queue, has
    /// its own schedule, and warns.
    ///
    /// # Errors
    /// Returns `InvalidInput` if the name is empty or longer than 64 bytes, or the period is
    /// shorter than a second, and `NotConnected` after the end of the fleet. A job that the servers
    /// refuse is left out with a [warning](crate::Fleet::on_warning).
    ///
    /// # Cancellation
    /// This call does not wait.
    ///
    /// # Examples
    /// ```
    /// use std::time::Duration;
    ///
    /// use ecru_fleet::Fleet;
    ///
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let chores = Fleet::local(s).queue::<String>("chores").open()?;
    ///         chores.every("sweep", Duration::from_secs(1), "sweep".to_owned())?;
    ///         let job = chores.jobs(1)?.recv()?;
    ///         assert!(job.id().as_str().starts_with("sweep/"));
    ///         job.done()?;
    ///         Ok::<(), std::io::Error>(())
    ///     })
    /// })?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn every(&self, name: &str, period: Duration, job: T) -> io::Result<()> {
        if period < SHORTEST {
            return Err(invalid(format!(
                "the period of the schedule {name:?} is {period:?}, and must be at least \
                 {SHORTEST:?}"
            )));
        }
        let milliseconds = u64::try_from(period.as_millis()).unwrap_or(u64::MAX);
        self.repeat(name, Plan::Every { milliseconds }, job)
    }

    /// Sends a job at each of the times of a plan.
    pub(crate) fn repeat(&self, name: &str, plan: Plan, job: T) -> io::Result<()> {
        if name.is_empty() || name.len() > MAX_NAME {
            return Err(invalid(format!(
                "the name {name:?} of a schedule must have 1 to {MAX_NAME} bytes"
            )));
        }
        let payload = codec::encode("the job", &job)?;
        let queue = Arc::clone(self.shared());
        let core = Arc::clone(&queue.core);
        core.check()?;
        let priority = self.terms(Duration::ZERO).priority;
        queue.check_priority(priority)?;
        let number = core.schedules.replace(&key(&queue, name));
        let own = Entry::new(name, Record::new(plan, priority, payload));
        let schedule = Schedule { queue, name: name.to_owned(), number, is_told: Cell::new(false) };
        core.pull(Box::new(move || schedule.run(own)))
    }
}

/// Returns the name of a schedule among those of all queues.
fn key(queue: &Shared, name: &str) -> String {
    format!("{}/{name}", queue.name)
}

/// A schedule, and what computes its times. `None` if another release has stored it in a way that
/// this one cannot read.
struct Entry {
    record: Record,
    timing: Option<Timing>,
}

impl Entry {
    fn new(name: &str, record: Record) -> Entry {
        let timing = record.timing(name).ok();
        Entry { record, timing }
    }

    /// Returns the first time that is later, both counted from 1970.
    fn next(&self, now: Duration) -> Duration {
        self.timing.as_ref().map_or(Duration::MAX, |timing| timing.next(now))
    }
}

struct Schedule {
    queue: Arc<Shared>,
    name: String,
    number: u64,
    /// Whether it was told that what is stored cannot be read.
    is_told: Cell<bool>,
}

impl Schedule {
    /// Sends the jobs, until it is cancelled or replaced in this process.
    fn run(self, own: Entry) {
        let Ok(is_shared) = self.announce(&own.record) else { return };
        let mut entry = own;
        let mut due = entry.next(wall());
        loop {
            let before = wall();
            let left = due.saturating_sub(before);
            if ecru::sleep(left.min(LOOK)).is_err() || !self.is_last() {
                return;
            }
            if is_shared {
                match self.look(&entry.record) {
                    Ok(None) => {}
                    Ok(Some(newer)) => {
                        entry = newer;
                        due = entry.next(wall());
                        continue;
                    }
                    Err(_) => return,
                }
            }
            let now = wall();
            if now < due {
                if now < before {
                    // The clock was put back.
                    due = due.min(entry.next(now));
                }
                continue;
            }
            let after = entry.next(due);
            if self.send(&entry.record, due, after).is_err() {
                return;
            }
            // What is long over is left out.
            due = if wall() < entry.next(after) { after } else { entry.next(wall()) };
        }
    }

    fn is_last(&self) -> bool {
        self.queue.core.schedules.is_last(&key(&self.queue, &self.name), self.number)
    }

    /// Stores the schedule for the other processes, if another one is stored. Repeats that while the
    /// servers are away. Returns whether the processes of the fleet have it in common. Fails if it
    /// is cancelled, or at the end of the fleet.
    fn announce(&self, own: &Record) -> io::Result<bool> {
        let (name, core) = (&self.name, &self.queue.core);
        loop {
            match self.try_announce(own) {
                Ok(Announced::Stored) => return Ok(true),
                Ok(Announced::Replaced(what)) => {
                    core.warn(&format!("the schedule {name:?} is replaced: {what}"));
                    return Ok(true);
                }
                Ok(Announced::Overtaken) => {}
                Err(error) if is_passing(&error) => ecru::sleep(AGAIN)?,
                Err(error) => {
                    if is_end(&error) {
                        return Err(error);
                    }
                    core.warn(&format!(
                        "the schedule {name:?} is not shared with other processes: {error}"
                    ));
                    return Ok(false);
                }
            }
            if !self.is_last() {
                return Ok(false);
            }
        }
    }

    /// Stores the schedule, if another one is stored.
    fn try_announce(&self, own: &Record) -> io::Result<Announced> {
        let engine = self.queue.engine()?;
        let found = engine.schedule(&self.name)?;
        let sequence = found.as_ref().map_or(0, |(sequence, _)| *sequence);
        let before = found.map(|(_, bytes)| Record::decode(&bytes));
        if before.as_ref().is_some_and(|before| before.as_ref() == Some(own)) {
            return Ok(Announced::Stored);
        }
        if !engine.replace_schedule(&self.name, sequence, own.encode())? {
            return Ok(Announced::Overtaken);
        }
        Ok(match before {
            None => Announced::Stored,
            Some(before) => Announced::Replaced(own.difference(before.as_ref())),
        })
    }

    /// Returns the schedule that another process has stored, if it is not this one. While the servers
    /// are away, this one stays. Fails if it is cancelled, or at the end of the fleet.
    fn look(&self, current: &Record) -> io::Result<Option<Entry>> {
        let (name, core) = (&self.name, &self.queue.core);
        let found = match self.queue.engine().and_then(|engine| engine.schedule(name)) {
            Err(error) if is_end(&error) => return Err(error),
            Err(_) | Ok(None) => return Ok(None),
            Ok(Some((_, bytes))) => bytes,
        };
        match Record::decode(&found) {
            Some(record) if record == *current => Ok(None),
            None => {
                if !self.is_told.replace(true) {
                    core.warn(&format!("what is stored as the schedule {name:?} cannot be read"));
                }
                Ok(None)
            }
            Some(record) => {
                let what = record.difference(Some(current));
                core.warn(&format!("another process has replaced the schedule {name:?}: {what}"));
                let entry = Entry::new(name, record);
                if let Err(why) = entry.record.timing(name) {
                    core.warn(&format!("this process cannot send its jobs: {why}"));
                }
                Ok(Some(entry))
            }
        }
    }

    /// Sends the job of one time. While there is no answer, asks again until the next time.
    fn send(&self, record: &Record, due: Duration, next: Duration) -> io::Result<()> {
        let Schedule { queue, name, .. } = self;
        // Each of the jobs begins a trace.
        let terms = Terms { after: Duration::ZERO, priority: record.priority(), trace: None };
        let token = engine::token("schedule", &format!("{name}/{}", due.as_millis()))?;
        loop {
            let engine = queue.engine()?;
            let begun = engine.begin_send(&token, record.job().clone(), Some(&token), &terms)?;
            let refused = match begun.wait()? {
                Sending::New | Sending::Already => return Ok(()),
                Sending::Disconnected => return Err(crate::errors::disconnected()),
                Sending::Unknown | Sending::Unavailable(_) => None,
                Sending::Full => Some("the queue is full".to_owned()),
                Sending::Refused(error) => Some(error.to_string()),
            };
            if wall() >= next || !self.is_last() {
                let why = refused.unwrap_or_else(|| "the servers do not answer".into());
                let text = format!("the job {name}/{} was left out: {why}", due.as_millis());
                queue.core.warn(&text);
                return Ok(());
            }
            ecru::sleep(if refused.is_some() { 10 * AGAIN } else { AGAIN })?;
        }
    }
}

/// What became of a schedule that was to be stored.
enum Announced {
    /// It is stored.
    Stored,
    /// It is stored, and another one was.
    Replaced(String),
    /// Another process has stored one meanwhile.
    Overtaken,
}

/// Returns whether a repetition may succeed.
fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, NotFound, ResourceBusy, StorageFull, TimedOut};
    matches!(error.kind(), ConnectionAborted | NotFound | ResourceBusy | StorageFull | TimedOut)
}

/// Returns whether the wait was cancelled, or the fleet has ended.
fn is_end(error: &io::Error) -> bool {
    Cancelled::find(error).is_some() || error.kind() == io::ErrorKind::NotConnected
}
