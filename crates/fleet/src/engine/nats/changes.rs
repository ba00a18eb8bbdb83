//! The last changes of a queue's settings, for the operator: one message with a list.
//!
//! Processes that open a queue with different settings change them back and forth, each when it
//! starts. Each of them is right by its own settings, so only the list shows it. It is written
//! without a check that no other process writes it at the same moment, because nothing but a report
//! depends on it.

use ecru_nats::Message;
use ecru_nats::jetstream::JetStream;
use serde::{Deserialize, Serialize};

use super::names::{LIFETIME, Names};
use crate::engine::QueueSpec;
use crate::update::{self, Difference};
use crate::wall::wall;

/// How many changes are kept.
const KEPT: usize = 16;

#[derive(Serialize, Deserialize)]
struct Change {
    /// In milliseconds since 1970.
    at: u64,
    /// What the process is called in records.
    by: String,
    what: String,
    old: String,
    new: String,
}

/// Notes what a process has changed. It has changed it, whether that can be noted or not.
pub(super) fn note(js: &JetStream, names: &Names, by: &str, old: &QueueSpec, new: &QueueSpec) {
    let at = u64::try_from(wall().as_millis()).unwrap_or(u64::MAX);
    let found = update::differences(old, new).into_iter();
    let found = found.map(|Difference { what, old, new }| {
        let (what, by) = (what.to_owned(), by.to_owned());
        Change { at, by, what, old, new }
    });
    let found: Vec<Change> = found.collect();
    if found.is_empty() {
        return;
    }
    let subject = names.changes();
    let Ok(last) = js.last_message(&names.attempts, &subject) else { return };
    // Another program may publish anything here.
    let last = last.and_then(|last| serde_json::from_slice(&last.payload).ok());
    let mut all: Vec<Change> = last.unwrap_or_default();
    all.extend(found);
    all.drain(..all.len().saturating_sub(KEPT));
    let payload = serde_json::to_vec(&all).expect("it has only texts and numbers");
    let message = Message::new(&subject, payload).with_header(LIFETIME, "never");
    let _ = message.and_then(|message| js.publish_message(&message));
}
