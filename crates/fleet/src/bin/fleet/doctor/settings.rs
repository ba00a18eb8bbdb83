//! Settings that processes disagree about, and changes that are not finished.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, SystemTime};

use ecru_nats::jetstream::{ConsumerConfig, JetStream, StreamConfig};
use ecru_nats::{Error, ErrorKind};
use serde::Deserialize;

use super::report::Report;
use crate::names;
use crate::text::time;

/// Earlier changes do not matter any more.
const RECENT: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a change of the settings may take.
const CHANGING: Duration = Duration::from_secs(2);

/// The key of the metadata of the stream of the jobs, and of its consumer, which says from which
/// record their settings are.
const KEY: &str = "fleet-settings";

/// What names a record of the settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
struct Mark {
    #[serde(default)]
    queue: String,
    version: u64,
    change: String,
}

impl Mark {
    /// Returns whether what has this mark was stored before another record.
    fn is_behind(&self, latest: &Mark) -> bool {
        let (own, latest) = ((self.version, &self.change), (latest.version, &latest.change));
        own.0 < latest.0 || (own.0 == latest.0 && own != latest)
    }

    fn of_stream(jobs: &StreamConfig) -> Mark {
        let text = jobs.other.metadata(KEY).unwrap_or_default();
        serde_json::from_str(text).unwrap_or_default()
    }

    fn of_consumer(workers: &ConsumerConfig) -> Mark {
        let text = workers.other.metadata(KEY).and_then(|text| text.split_once('.'));
        let mark = text.and_then(|(version, change)| {
            let (queue, change) = (String::new(), change.to_owned());
            Some(Mark { queue, version: version.parse().ok()?, change })
        });
        mark.unwrap_or_default()
    }
}

/// Warns of a change that is not finished, for instance because its process was killed, or that a
/// process which stood still has undone. Returns whether there is none.
pub(super) fn finished(
    js: &JetStream,
    queue: &str,
    about: &str,
    report: &mut Report,
) -> io::Result<bool> {
    // It may be under way.
    if !is_behind(js, queue)? {
        return Ok(true);
    }
    ecru::sleep(CHANGING)?;
    if !is_behind(js, queue)? {
        return Ok(true);
    }
    let found = format!("{about}: a change of its settings is not finished");
    let advice = "open the queue again as a user who may change settings, which finishes it";
    report.warn("settings", found, advice);
    Ok(false)
}

/// Returns whether the servers act on settings that are older than the record. Another check says
/// what cannot be read.
fn is_behind(js: &JetStream, queue: &str) -> io::Result<bool> {
    let read = || {
        let record = js.last_message(&names::attempts(queue), &names::record(queue))?;
        let jobs = js.stream_info(&names::jobs(queue))?.config;
        let workers = js.consumer(&names::jobs(queue), &names::workers(0))?.info()?.config;
        Ok::<_, Error>((record, Mark::of_stream(&jobs), Mark::of_consumer(&workers)))
    };
    let (record, jobs, workers) = match read() {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error.into()),
        Err(_) => return Ok(false),
    };
    let record = record.and_then(|one| serde_json::from_slice::<Mark>(&one.payload).ok());
    // Any other one is that of a queue that was deleted.
    let record = record.filter(|record| record.queue == jobs.queue).unwrap_or_default();
    let latest = if record.version < jobs.version { &jobs } else { &record };
    Ok(jobs.is_behind(latest) || workers.is_behind(latest))
}

/// What a process has changed.
#[derive(Clone, Debug, Deserialize)]
struct Change {
    at: u64,
    by: String,
    what: String,
    old: String,
    new: String,
}

/// Warns of settings that were changed and changed back, as by processes that open the queue with
/// different ones.
pub(super) fn check(
    js: &JetStream,
    queue: &str,
    about: &str,
    report: &mut Report,
) -> io::Result<bool> {
    let stored = match js.last_message(&names::attempts(queue), &names::changes(queue)) {
        Ok(stored) => stored,
        Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error.into()),
        // Another check says what cannot be read.
        Err(_) => None,
    };
    let changes: Vec<Change> =
        stored.and_then(|one| serde_json::from_slice(&one.payload).ok()).unwrap_or_default();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let found = disagreements(&changes, now);
    for (what, last) in &found {
        let ago = time(now.saturating_sub(Duration::from_millis(last.at)));
        let Change { old, new, by, .. } = last;
        let found = format!(
            "{about}: the {what} is changed back and forth, last from {old} to {new} {ago} ago by \
             {by}"
        );
        let advice = "processes open it with different settings, and the last one decides: open it \
                      with the same settings everywhere";
        report.warn("settings", found, advice);
    }
    Ok(found.is_empty())
}

/// Returns the last change of each setting that has had its value before.
fn disagreements(changes: &[Change], now: Duration) -> BTreeMap<&str, &Change> {
    let mut before: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut found = BTreeMap::new();
    for change in changes {
        let had = before.entry(&change.what).or_default();
        let is_recent = now.saturating_sub(Duration::from_millis(change.at)) < RECENT;
        if is_recent && had.contains(&&*change.new) {
            found.insert(&*change.what, change);
        }
        if is_recent {
            had.push(&change.old);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(at: u64, what: &str, old: &str, new: &str) -> Change {
        let (by, what) = ("host-7".to_owned(), what.to_owned());
        Change { at: at * 1000, by, what, old: old.to_owned(), new: new.to_owned() }
    }

    #[test]
    fn only_what_comes_back_is_a_disagreement() {
        let now = RECENT + Duration::from_secs(100);
        let mut changes = vec![
            change(200, "lease", "30s", "60s"),
            change(201, "limit", "none", "4"),
            change(202, "lease", "60s", "90s"),
        ];
        assert!(disagreements(&changes, now).is_empty());
        changes.push(change(203, "lease", "90s", "30s"));
        changes.push(change(204, "lease", "30s", "90s"));
        let found = disagreements(&changes, now);
        assert_eq!(found.keys().copied().collect::<Vec<_>>(), ["lease"]);
        assert_eq!(found["lease"].at, 204_000);
        // An operator may change their mind after a day.
        assert!(disagreements(&changes, now + RECENT).is_empty());
        changes[0].at = 0;
        changes[2].at = 0;
        changes.truncate(4);
        assert!(disagreements(&changes, now).is_empty());
    }
}
