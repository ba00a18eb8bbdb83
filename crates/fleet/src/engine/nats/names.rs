//! What the streams, subjects and consumers of a fleet are called on the servers.
//!
//! | for | name |
//! |---|---|
//! | the jobs of a queue | the stream `fleet-jobs-QUEUE`, the subjects `fleet.jobs.QUEUE.ID` |
//! | those of the priorities 1 to 3 | the same stream, the subjects `fleet.jobs-1.QUEUE.ID` to `fleet.jobs-3.QUEUE.ID` |
//! | the jobs of a queue that are in order with others of a key | the same stream, the subjects `fleet.jobs.QUEUE.KEY.NAME` |
//! | what hands them out | the consumer `workers`, and `workers-1` to `workers-3` for the priorities |
//! | the places of a limit, if jobs have priorities | the stream `fleet-attempts-QUEUE`, the subjects `fleet.attempts.QUEUE.=permits.NUMBER`, the consumer `permits` |
//! | the dead of a queue | the stream `fleet-dead-QUEUE`, the subjects `fleet.dead.QUEUE.ID.SEQUENCE` |
//! | the last attempt of each job that was handed out again | the stream `fleet-attempts-QUEUE`, the subjects `fleet.attempts.QUEUE.ID.SEQUENCE` |
//! | when jobs were handed out under a rate | the same stream, the subject `fleet.attempts.QUEUE.=rate.starts` |
//! | the settings, as they should be | the same stream, the subject `fleet.attempts.QUEUE.=settings.record` |
//! | the last changes of the settings | the same stream, the subject `fleet.attempts.QUEUE.=settings.changes` |
//! | the schedules, by their names | the same stream, the subjects `fleet.attempts.QUEUE.=schedules.NAME` |
//! | the jobs that a process is working on for the first time | the same stream, the subjects `fleet.attempts.QUEUE.=pages.PROCESS` |
//! | how far a job is | the same stream, the subjects `fleet.attempts.QUEUE.=progress.ID` |
//! | cancellations of jobs that are held | the subject `fleet.cancel.QUEUE`, which is not stored |
//! | that results wait for room | a subscription to the subject `fleet.waiting.QUEUE`, to which nothing is sent |
//! | results | the bucket `fleet-results-NAME`, the keys `RUN.INDEX` |
//!
//! `QUEUE` and `NAME` are what the layer above calls them: it puts a prefix before the name that
//! the program has chosen.

use crate::engine::{in_order, key_of, priorities};

/// The consumer that hands out the jobs of a queue, or those of the priority 0.
const WORKERS: &str = "workers";

/// The consumer that lends the places of a limit.
pub(super) const PERMITS: &str = "permits";

/// Returns the consumer that hands out the jobs of a priority.
pub(super) fn workers(priority: u8) -> String {
    match priority {
        0 => WORKERS.to_owned(),
        priority => format!("{WORKERS}-{priority}"),
    }
}

/// What is announced instead of an id if the settings change. No id has this character.
pub(super) const SETTINGS: &str = "*";

/// The header with a dead job's number of attempts.
pub(super) const ATTEMPTS: &str = "Fleet-Attempts";

/// The header with the reason of a dead job, as a string of JSON.
pub(super) const REASON: &str = "Fleet-Reason";

/// The header with the milliseconds after its storing before which a job is not handed out.
pub(super) const AFTER: &str = "Fleet-After";

/// The header with the priority that a dead job had.
pub(super) const PRIORITY: &str = "Fleet-Priority";

/// The header with the trace that a job belongs to, as the W3C writes it.
pub(super) const TRACE: &str = "traceparent";

/// The header by which a stream notices that a message is stored again.
pub(super) const MESSAGE_ID: &str = "Nats-Msg-Id";

/// The header by which a message is stored only if the last one of its subject has this number.
pub(super) const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";

/// The header with a pattern whose last message is meant instead.
pub(super) const EXPECTED_OF: &str = "Nats-Expected-Last-Subject-Sequence-Subject";

/// The header with how long a message is kept.
pub(super) const LIFETIME: &str = "Nats-TTL";

/// The header that marks a deleted value of a bucket.
pub(super) const OPERATION: &str = "KV-Operation";

/// The names of a queue.
#[derive(Clone, Debug)]
pub(super) struct Names {
    pub(super) queue: String,
    /// The stream of the jobs.
    pub(super) jobs: String,
    /// The stream of the dead.
    pub(super) dead: String,
    /// The stream with the last attempt of each job.
    pub(super) attempts: String,
}

impl Names {
    pub(super) fn new(queue: &str) -> Names {
        Names {
            queue: queue.to_owned(),
            jobs: format!("fleet-jobs-{queue}"),
            dead: format!("fleet-dead-{queue}"),
            attempts: format!("fleet-attempts-{queue}"),
        }
    }

    pub(super) fn job(&self, id: &str, priority: u8) -> String {
        match key_of(id) {
            Some((key, name)) => format!("{}.{}.{key}.{name}", root(priority), self.queue),
            None => format!("{}.{}.{id}", root(priority), self.queue),
        }
    }

    /// The job with an id, whatever its priority is. It is not in order with others.
    pub(super) fn job_of_any_priority(&self, id: &str) -> String {
        format!("fleet.*.{}.{id}", self.queue)
    }

    /// The jobs that are in order with others of their keys.
    pub(super) fn all_in_order(&self) -> String {
        self.job("*.*", 0)
    }

    /// The jobs of a priority, but for those that are in order with others.
    pub(super) fn all_jobs(&self, priority: u8) -> String {
        self.job("*", priority)
    }

    pub(super) fn dead_job(&self, id: &str, sequence: u64) -> String {
        format!("fleet.dead.{}.{id}.{sequence}", self.queue)
    }

    pub(super) fn all_dead(&self) -> String {
        format!("fleet.dead.{}.*.*", self.queue)
    }

    pub(super) fn attempt(&self, id: &str, sequence: u64) -> String {
        format!("fleet.attempts.{}.{id}.{sequence}", self.queue)
    }

    /// A page of a process's journal, or `*` for all of them. No id has the token before it.
    pub(super) fn page(&self, name: &str) -> String {
        format!("fleet.attempts.{}.=pages.{name}", self.queue)
    }

    /// How far a job is, or `*` for all of them. No id has the token before it.
    pub(super) fn progress(&self, id: &str) -> String {
        format!("fleet.attempts.{}.=progress.{id}", self.queue)
    }

    /// When jobs were handed out. No id has the token before it.
    pub(super) fn rate(&self) -> String {
        format!("fleet.attempts.{}.=rate.starts", self.queue)
    }

    /// What the settings should be. No id has the token before it.
    pub(super) fn settings(&self) -> String {
        format!("fleet.attempts.{}.=settings.record", self.queue)
    }

    /// The last changes of the settings. No id has the token before it.
    pub(super) fn changes(&self) -> String {
        format!("fleet.attempts.{}.=settings.changes", self.queue)
    }

    /// A schedule, by its name as a token. No id has the token before it.
    pub(super) fn schedule(&self, token: &str) -> String {
        format!("fleet.attempts.{}.=schedules.{token}", self.queue)
    }

    /// A place of a limit, or `*` for all of them. No id has the token before it.
    pub(super) fn permit(&self, name: &str) -> String {
        format!("fleet.attempts.{}.=permits.{name}", self.queue)
    }

    pub(super) fn all_attempts(&self) -> String {
        format!("fleet.attempts.{}.*.*", self.queue)
    }

    /// What a process listens to while its results wait for room. Nothing is published there.
    pub(super) fn waiting(&self) -> String {
        format!("fleet.waiting.{}", self.queue)
    }

    pub(super) fn cancellations(&self) -> String {
        format!("fleet.cancel.{}", self.queue)
    }
}

/// Returns how the subjects of the jobs of a priority begin.
fn root(priority: u8) -> String {
    match priority {
        0 => "fleet.jobs".to_owned(),
        priority => format!("fleet.jobs-{priority}"),
    }
}

/// Returns the priority in the subject of a job.
pub(super) fn priority_of_job(subject: &str) -> u8 {
    let root = subject.split('.').nth(1).unwrap_or_default();
    let number = root.strip_prefix("jobs-").and_then(|number| number.parse().ok());
    number.filter(|number| priorities().contains(number)).unwrap_or(0)
}

/// Returns the id in the subject of a job, or the index in that of a result.
pub(super) fn id_of_job(subject: &str) -> String {
    let id = subject.splitn(4, '.').nth(3).unwrap_or_default();
    id.split_once('.').map_or_else(|| id.to_owned(), |(key, name)| in_order(key, name))
}

/// Returns the subject of all jobs of its key, if a job is in order with others.
pub(super) fn all_of_key(subject: &str) -> Option<String> {
    let (key, _) = subject.rsplit_once('.').filter(|(key, _)| key.split('.').count() == 4)?;
    Some(format!("{key}.*"))
}

/// Returns the id and the sequence number in the subject of a dead job.
pub(super) fn id_of_dead(subject: &str) -> (&str, u64) {
    let mut tokens = subject.rsplit('.');
    let sequence = tokens.next().and_then(|token| token.parse().ok()).unwrap_or(0);
    (tokens.next().unwrap_or_default(), sequence)
}

/// Returns the name of the bucket of a store of results.
pub(super) fn bucket(results: &str) -> String {
    format!("fleet-results-{results}")
}

#[cfg(test)]
mod tests {
    use super::{Names, all_of_key, id_of_dead, id_of_job, priority_of_job, workers};

    #[test]
    fn subjects_are_reversible() {
        let names = Names::new("mill");
        assert_eq!(id_of_job(&names.job("a-b=2E_c", 0)), "a-b=2E_c");
        for (priority, subject, consumer) in
            [(0, "fleet.jobs.mill.a", "workers"), (3, "fleet.jobs-3.mill.a", "workers-3")]
        {
            assert_eq!((&*names.job("a", priority), &*workers(priority)), (subject, consumer));
            assert_eq!((priority_of_job(subject), &*id_of_job(subject)), (priority, "a"));
        }
        assert_eq!((priority_of_job("fleet.jobs-9.mill.a"), priority_of_job("")), (0, 0));
        assert_eq!(id_of_dead(&names.dead_job("a-b", 7)), ("a-b", 7));
        let subject = names.job("a=20b==x", 0);
        assert_eq!((&*subject, &*id_of_job(&subject)), ("fleet.jobs.mill.a=20b.x", "a=20b==x"));
        assert_eq!(all_of_key(&subject).as_deref(), Some("fleet.jobs.mill.a=20b.*"));
        assert_eq!(all_of_key(&names.job("a", 0)), None);
        assert_eq!(id_of_dead(&names.dead_job("a==x", 7)), ("a==x", 7));
        // What another program may have published.
        assert_eq!((&*id_of_job(""), id_of_dead("x"), id_of_dead("")), ("", ("", 0), ("", 0)));
    }
}
