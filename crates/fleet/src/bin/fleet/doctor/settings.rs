//! Settings that processes disagree about.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, SystemTime};

use ecru_nats::ErrorKind;
use ecru_nats::jetstream::JetStream;
use serde::Deserialize;

use super::report::Report;
use crate::names;
use crate::text::time;

/// Earlier changes do not matter any more.
const RECENT: Duration = Duration::from_secs(24 * 60 * 60);

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
