//! What a schedule consists of, as the processes of a fleet store it for each other.
//!
//! It is stored as a line of JSON with the times and the priority, and after that the job as it is
//! sent. So a process can send the jobs of another release, whose type it does not know.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::cron::Times;

/// When jobs are sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Plan {
    /// At the multiples of a period.
    Every { milliseconds: u64 },
    /// At the times of an expression, in a time zone.
    Cron { expression: String, zone: String },
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Plan::Every { milliseconds } => {
                write!(f, "every {:?}", Duration::from_millis(*milliseconds))
            }
            Plan::Cron { expression, zone } => write!(f, "{expression:?} in {zone}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    times: Plan,
    priority: u8,
}

/// A schedule as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    head: Head,
    job: Bytes,
}

impl Record {
    pub(crate) fn new(times: Plan, priority: u8, job: Bytes) -> Record {
        Record { head: Head { times, priority }, job }
    }

    pub(crate) fn priority(&self) -> u8 {
        self.head.priority
    }

    /// Returns the job as it is sent.
    pub(crate) fn job(&self) -> &Bytes {
        &self.job
    }

    /// Says what this schedule has replaced. `None` stands for one that cannot be read.
    pub(crate) fn difference(&self, before: Option<&Record>) -> String {
        match before {
            Some(before) if before.head.times == self.head.times => {
                format!("it is {self} as before, with another job or priority")
            }
            Some(before) => format!("it was {before}, and is {self}"),
            None => format!("it is {self}"),
        }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut bytes = serde_json::to_vec(&self.head).expect("it has only texts and numbers");
        bytes.push(b'\n');
        bytes.extend_from_slice(&self.job);
        bytes.into()
    }

    /// Reads a record. Another program may have stored anything there.
    pub(crate) fn decode(bytes: &Bytes) -> Option<Record> {
        let end = bytes.iter().position(|byte| *byte == b'\n')?;
        let head = serde_json::from_slice(&bytes[..end]).ok()?;
        Some(Record { head, job: bytes.slice(end + 1..) })
    }

    /// Returns what computes the times, or why there are none here.
    pub(crate) fn timing(&self, name: &str) -> Result<Timing, String> {
        match &self.head.times {
            Plan::Every { milliseconds: 0 } => Err("the period is 0".to_owned()),
            Plan::Every { milliseconds } => Ok(Timing::Every(Duration::from_millis(*milliseconds))),
            Plan::Cron { expression, zone } => Times::new(name, expression, zone)
                .map(|times| Timing::Cron(Box::new(times)))
                .map_err(|error| error.to_string()),
        }
    }
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head.times.fmt(f)
    }
}

/// Computes the times of a schedule.
pub(crate) enum Timing {
    Every(Duration),
    Cron(Box<Times>),
}

impl Timing {
    /// Returns the first time that is later, both counted from 1970.
    pub(crate) fn next(&self, now: Duration) -> Duration {
        match self {
            Timing::Every(period) => next_multiple(now, *period),
            Timing::Cron(times) => times.after(now).unwrap_or(Duration::MAX),
        }
    }
}

/// Returns the first multiple of a period that is later.
fn next_multiple(now: Duration, period: Duration) -> Duration {
    let (now, period) = (now.as_millis(), period.as_millis());
    let next = (now / period + 1) * period;
    Duration::from_millis(u64::try_from(next).unwrap_or(u64::MAX))
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

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let cron = Plan::Cron { expression: "0 4 * * *".into(), zone: "UTC".into() };
        for times in [Plan::Every { milliseconds: 1500 }, cron] {
            for job in ["", "{\"v\":1,\"data\":7}", "two\nlines"] {
                let record = Record::new(times.clone(), 2, Bytes::from_static(job.as_bytes()));
                assert_eq!(Record::decode(&record.encode()), Some(record.clone()));
                assert!(record.timing("n").is_ok());
            }
        }
        for other in ["", "x", "{}\n", "{\"times\":{\"never\":{}},\"priority\":0}\nx"] {
            assert_eq!(Record::decode(&Bytes::from_static(other.as_bytes())), None, "{other}");
        }
        let broken = Plan::Cron { expression: "0 4 * *".into(), zone: "UTC".into() };
        assert!(Record::new(broken, 0, Bytes::new()).timing("n").is_err());
    }
}
