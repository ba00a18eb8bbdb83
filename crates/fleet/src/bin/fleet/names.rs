//! What queues and functions are called on the servers: see the documentation of `ecru-fleet`.

use ecru_nats::jetstream::StreamConfig;

/// How many priorities jobs may have. 0 is the most urgent.
pub(crate) const PRIORITIES: usize = 4;

/// The subjects of all jobs of the priority 0. Each queue has some.
pub(crate) const ALL_JOBS: &str = "fleet.jobs.>";

/// The subjects of all dead jobs.
pub(crate) const ALL_DEAD: &str = "fleet.dead.>";

/// The subjects to which each process that takes jobs listens, for the queue that it takes them
/// from.
pub(crate) const ALL_CANCELLATIONS: &str = "fleet.cancel.*";

/// The subjects to which each process listens whose results wait for room.
pub(crate) const ALL_WAITING: &str = "fleet.waiting.*";

const JOBS: &str = "fleet-jobs-";
const DEAD: &str = "fleet-dead-";
const ATTEMPTS: &str = "fleet-attempts-";
const RESULTS: &str = "KV_fleet-results-";

/// What a stream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Jobs,
    Dead,
    Attempts,
    Results,
}

/// Returns what a stream is for, and the queue, if it belongs to a fleet.
pub(crate) fn part(stream: &str) -> Option<(Part, &str)> {
    let parts = [
        (JOBS, Part::Jobs),
        (DEAD, Part::Dead),
        (ATTEMPTS, Part::Attempts),
        (RESULTS, Part::Results),
    ];
    parts.into_iter().find_map(|(prefix, part)| Some((part, stream.strip_prefix(prefix)?)))
}

/// Returns the stream of a queue's jobs.
pub(crate) fn jobs(queue: &str) -> String {
    format!("{JOBS}{queue}")
}

/// Returns the stream of a queue's dead.
pub(crate) fn dead(queue: &str) -> String {
    format!("{DEAD}{queue}")
}

/// Returns the stream of a queue's attempts.
pub(crate) fn attempts(queue: &str) -> String {
    format!("{ATTEMPTS}{queue}")
}

/// Returns the subject of a job's progress.
pub(crate) fn progress(queue: &str, token: &str) -> String {
    format!("fleet.attempts.{queue}.=progress.{token}")
}

/// Returns the subject of what a queue's settings should be.
pub(crate) fn record(queue: &str) -> String {
    format!("fleet.attempts.{queue}.=settings.record")
}

/// Returns the subject of the last changes of a queue's settings.
pub(crate) fn changes(queue: &str) -> String {
    format!("fleet.attempts.{queue}.=settings.changes")
}

/// Writes the id of a job as the servers have it: bytes other than letters, digits, `_` and `-`
/// become `=` and two hexadecimal digits.
pub(crate) fn token(id: &str) -> String {
    let mut token = String::new();
    for byte in id.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' | b'-' => token.push(byte.into()),
            other => token.push_str(&format!("={other:02X}")),
        }
    }
    token
}

/// Returns what the servers may call a job with this id, which may be in order with others of a
/// key.
pub(crate) fn tokens(id: &str) -> Vec<String> {
    let in_order = id.rsplit_once('/').map(|(key, name)| format!("{}=={name}", token(key)));
    std::iter::once(token(id)).chain(in_order).collect()
}

/// Returns how many priorities the jobs of a stream have: one, or all.
pub(crate) fn priorities(jobs: &StreamConfig) -> usize {
    let is_ranked = jobs.subjects.iter().any(|subject| subject.starts_with("fleet.jobs-"));
    if is_ranked { PRIORITIES } else { 1 }
}

/// Returns the consumer that hands out the jobs of a priority.
pub(crate) fn workers(priority: usize) -> String {
    if priority == 0 { "workers".to_owned() } else { format!("workers-{priority}") }
}

/// Returns the priority in the subject of a job.
pub(crate) fn priority(subject: &str) -> usize {
    let root = subject.split('.').nth(1).unwrap_or_default();
    let number = root.strip_prefix("jobs-").and_then(|number| number.parse().ok());
    number.filter(|number| *number < PRIORITIES).unwrap_or(0)
}

/// Returns the subjects of all jobs of a priority.
pub(crate) fn all_jobs(queue: &str, priority: usize) -> String {
    match priority {
        // Those that are in order with others of a key have one token more.
        0 => format!("fleet.jobs.{queue}.>"),
        priority => format!("fleet.jobs-{priority}.{queue}.*"),
    }
}

/// Returns the subject of a job with this id, whatever its priority is.
pub(crate) fn job_of_any_priority(queue: &str, token: &str) -> String {
    format!("fleet.*.{queue}.{token}")
}

/// Returns the subject of a job.
pub(crate) fn job(queue: &str, token: &str, priority: usize) -> String {
    if priority > 0 {
        return format!("fleet.jobs-{priority}.{queue}.{token}");
    }
    // The key and the name of a job that is in order with others are two tokens there.
    match token.split_once("==") {
        Some((key, name)) if !key.is_empty() && !name.is_empty() => {
            format!("fleet.jobs.{queue}.{key}.{name}")
        }
        _ => format!("fleet.jobs.{queue}.{token}"),
    }
}

/// Returns the id in the subject of a job, as the servers have it elsewhere.
pub(crate) fn token_of_job(subject: &str) -> String {
    subject.splitn(4, '.').nth(3).unwrap_or_default().replacen('.', "==", 1)
}

/// Reads an id as the servers have it. What is malformed stays as it is.
pub(crate) fn id(token: &str) -> String {
    if let Some((key, name)) = token.split_once("==") {
        return format!("{}/{name}", id(key));
    }
    let (mut bytes, mut rest) = (Vec::new(), token);
    while let Some((plain, after)) = rest.split_once('=') {
        let Some(byte) = after.get(..2).and_then(|two| u8::from_str_radix(two, 16).ok()) else {
            return token.to_owned();
        };
        bytes.extend_from_slice(plain.as_bytes());
        bytes.push(byte);
        rest = &after[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).unwrap_or_else(|_| token.to_owned())
}

/// Returns the subject of the cancellations of a queue.
pub(crate) fn cancellations(queue: &str) -> String {
    format!("fleet.cancel.{queue}")
}

/// Returns the queue whose results wait for room, by the subject to which a process listens then.
pub(crate) fn waiting(subject: &str) -> Option<&str> {
    subject.strip_prefix("fleet.waiting.")
}

/// Returns whether a queue is of jobs or of a function's calls, and the name that the program gave
/// it.
pub(crate) fn kind(queue: &str) -> (&'static str, &str) {
    match (queue.strip_prefix("q_"), queue.strip_prefix("f_")) {
        (Some(name), _) => ("queue", name),
        (_, Some(name)) => ("function", name),
        _ => ("other", queue),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_of_fleets_are_known() {
        assert_eq!(part("fleet-jobs-q_mill"), Some((Part::Jobs, "q_mill")));
        assert_eq!(part(&jobs("q_mill")), Some((Part::Jobs, "q_mill")));
        assert_eq!(part("KV_fleet-results-f_mill"), Some((Part::Results, "f_mill")));
        assert_eq!(part("KV_other"), None);
        assert_eq!(kind("q_mill"), ("queue", "mill"));
        assert_eq!(kind("f_q_mill"), ("function", "q_mill"));
        assert_eq!((&*token("user 7"), &*id("user=207")), ("user=207", "user 7"));
        assert_eq!((&*id("x=2"), &*id("=FF")), ("x=2", "=FF"));
        let subject = job("q_mill", "user=207==x", 0);
        assert_eq!((&*subject, &*id("user=207==x")), ("fleet.jobs.q_mill.user=207.x", "user 7/x"));
        assert_eq!(token_of_job(&subject), "user=207==x");
        assert_eq!(tokens("user 7/x"), ["user=207=2Fx", "user=207==x"]);
        assert_eq!(token_of_job(&job("q_mill", "a", 0)), "a");
        let subject = job("q_mill", "a", 2);
        assert_eq!((&*subject, &*token_of_job(&subject)), ("fleet.jobs-2.q_mill.a", "a"));
        assert_eq!((priority(&subject), priority("fleet.jobs.q_mill.a")), (2, 0));
    }
}
