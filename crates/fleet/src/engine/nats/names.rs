//! What the streams, subjects and consumers of a fleet are called on the servers.
//!
//! | for | name |
//! |---|---|
//! | the jobs of a queue | the stream `fleet-jobs-QUEUE`, the subjects `fleet.jobs.QUEUE.ID` |
//! | the jobs of a queue that are in order with others of a key | the same stream, the subjects `fleet.jobs.QUEUE.KEY.NAME` |
//! | what hands them out | the consumer `workers` |
//! | the dead of a queue | the stream `fleet-dead-QUEUE`, the subjects `fleet.dead.QUEUE.ID.SEQUENCE` |
//! | the last attempt of each job that was handed out again | the stream `fleet-attempts-QUEUE`, the subjects `fleet.attempts.QUEUE.ID.SEQUENCE` |
//! | when jobs were handed out under a rate | the same stream, the subject `fleet.attempts.QUEUE.=rate.starts` |
//! | the jobs that a process is working on for the first time | the same stream, the subjects `fleet.attempts.QUEUE.=pages.PROCESS` |
//! | how far a job is | the same stream, the subjects `fleet.attempts.QUEUE.=progress.ID` |
//! | cancellations of jobs that are held | the subject `fleet.cancel.QUEUE`, which is not stored |
//! | results | the bucket `fleet-results-NAME`, the keys `RUN.INDEX` |
//!
//! `QUEUE` and `NAME` are what the layer above calls them: it puts a prefix before the name that
//! the program has chosen.

use crate::engine::{in_order, key_of};

/// The consumer that hands out the jobs of a queue.
pub(super) const WORKERS: &str = "workers";

/// The header with a dead job's number of attempts.
pub(super) const ATTEMPTS: &str = "Fleet-Attempts";

/// The header with the reason of a dead job, as a string of JSON.
pub(super) const REASON: &str = "Fleet-Reason";

/// The header with the milliseconds after its storing before which a job is not handed out.
pub(super) const AFTER: &str = "Fleet-After";

/// The header by which a stream notices that a message is stored again.
pub(super) const MESSAGE_ID: &str = "Nats-Msg-Id";

/// The header by which a message is stored only if the last one of its subject has this number.
pub(super) const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";

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

    pub(super) fn job(&self, id: &str) -> String {
        match key_of(id) {
            Some((key, name)) => format!("fleet.jobs.{}.{key}.{name}", self.queue),
            None => format!("fleet.jobs.{}.{id}", self.queue),
        }
    }

    /// The jobs that are in order with others of their keys.
    pub(super) fn all_in_order(&self) -> String {
        self.job("*.*")
    }

    pub(super) fn all_jobs(&self) -> String {
        self.job("*")
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

    pub(super) fn all_attempts(&self) -> String {
        format!("fleet.attempts.{}.*.*", self.queue)
    }

    pub(super) fn cancellations(&self) -> String {
        format!("fleet.cancel.{}", self.queue)
    }
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
    use super::{Names, all_of_key, id_of_dead, id_of_job};

    #[test]
    fn subjects_are_reversible() {
        let names = Names::new("mill");
        assert_eq!(id_of_job(&names.job("a-b=2E_c")), "a-b=2E_c");
        assert_eq!(id_of_dead(&names.dead_job("a-b", 7)), ("a-b", 7));
        let subject = names.job("a=20b==x");
        assert_eq!((&*subject, &*id_of_job(&subject)), ("fleet.jobs.mill.a=20b.x", "a=20b==x"));
        assert_eq!(all_of_key(&subject).as_deref(), Some("fleet.jobs.mill.a=20b.*"));
        assert_eq!(all_of_key(&names.job("a")), None);
        assert_eq!(id_of_dead(&names.dead_job("a==x", 7)), ("a==x", 7));
        // What another program may have published.
        assert_eq!((&*id_of_job(""), id_of_dead("x"), id_of_dead("")), ("", ("", 0), ("", 0)));
    }
}
