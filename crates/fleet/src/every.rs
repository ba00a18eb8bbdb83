//! Jobs that are sent again and again.
//!
//! Nothing is stored about a schedule. Each process that has it sends each of its jobs, at times
//! that depend on the wall clock alone, under an id that has the time. So the servers store one of
//! them, and the others are `Already`.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use ecru::Source;

use crate::codec::{self, Wire};
use crate::engine::{self, Sending, Terms};
use crate::errors::invalid;
use crate::function::AGAIN;
use crate::queue::Queue;
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
    /// The schedule is known by its name. If several processes have it, one job is stored at each
    /// time. A process that calls this again with a name replaces its schedule. What falls into a
    /// time in which no process has it is left out. The id of a job is the name, `/`, and the time
    /// in milliseconds.
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
        self.repeat(name, job, move |now| next_multiple(now, period))
    }

    /// Sends a job at each of the times that `next` returns: the first one after another one, both
    /// counted from 1970.
    pub(crate) fn repeat(
        &self,
        name: &str,
        job: T,
        next: impl Fn(Duration) -> Duration + Send + 'static,
    ) -> io::Result<()> {
        if name.is_empty() || name.len() > MAX_NAME {
            return Err(invalid(format!(
                "the name {name:?} of a schedule must have 1 to {MAX_NAME} bytes"
            )));
        }
        let payload = codec::encode("the job", &job)?;
        let queue = Arc::clone(self.shared());
        let core = Arc::clone(&queue.core);
        core.check()?;
        // Each of the jobs begins a trace.
        let terms = Terms { trace: None, ..self.terms(Duration::ZERO) };
        queue.check_priority(terms.priority)?;
        let number = core.schedules.replace(&key(&queue, name));
        let schedule = Schedule { queue, name: name.to_owned(), number, payload, terms };
        core.pull(Box::new(move || schedule.run(next)))
    }
}

/// Returns the name of a schedule among those of all queues.
fn key(queue: &Shared, name: &str) -> String {
    format!("{}/{name}", queue.name)
}

/// Returns the first multiple of a period that is later.
fn next_multiple(now: Duration, period: Duration) -> Duration {
    let (now, period) = (now.as_millis(), period.as_millis());
    let next = (now / period + 1) * period;
    Duration::from_millis(u64::try_from(next).unwrap_or(u64::MAX))
}

struct Schedule {
    queue: Arc<Shared>,
    name: String,
    number: u64,
    payload: Bytes,
    terms: Terms,
}

impl Schedule {
    /// Sends the jobs, until it is cancelled or replaced. `next` returns the first time after
    /// another one.
    fn run(self, next: impl Fn(Duration) -> Duration) {
        let mut due = next(wall());
        loop {
            let before = wall();
            let left = due.saturating_sub(before);
            if ecru::sleep(left.min(LOOK)).is_err() || !self.is_last() {
                return;
            }
            let now = wall();
            if now < due {
                if now < before {
                    // The clock was put back.
                    due = due.min(next(now));
                }
                continue;
            }
            let after = next(due);
            if self.send(due, after).is_err() {
                return;
            }
            // What is long over is left out.
            due = if wall() < next(after) { after } else { next(wall()) };
        }
    }

    fn is_last(&self) -> bool {
        self.queue.core.schedules.is_last(&key(&self.queue, &self.name), self.number)
    }

    /// Sends the job of one time. While there is no answer, asks again until the next time.
    fn send(&self, due: Duration, next: Duration) -> io::Result<()> {
        let Schedule { queue, name, payload, terms, .. } = self;
        let token = engine::token("schedule", &format!("{name}/{}", due.as_millis()))?;
        loop {
            let engine = queue.engine()?;
            let begun = engine.begin_send(&token, payload.clone(), Some(&token), terms)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_multiples_of_the_period() {
        let next = |now, period| {
            next_multiple(Duration::from_millis(now), Duration::from_millis(period)).as_millis()
        };
        assert_eq!((next(0, 1000), next(999, 1000), next(1000, 1000)), (1000, 1000, 2000));
        assert_eq!(next(7_300_000, 3_600_000), 10_800_000);
    }
}
