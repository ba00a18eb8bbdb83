//! What queues and functions are called on the servers: see the documentation of `ecru-fleet`.

/// The consumer that hands out the jobs of a queue.
pub(crate) const WORKERS: &str = "workers";

/// The subjects of all jobs.
pub(crate) const ALL_JOBS: &str = "fleet.jobs.>";

/// The subjects of all dead jobs.
pub(crate) const ALL_DEAD: &str = "fleet.dead.>";

/// The subjects to which each process that takes jobs listens, for the queue that it takes them
/// from.
pub(crate) const ALL_CANCELLATIONS: &str = "fleet.cancel.*";

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

/// Returns the subject of the cancellations of a queue.
pub(crate) fn cancellations(queue: &str) -> String {
    format!("fleet.cancel.{queue}")
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
    }
}
