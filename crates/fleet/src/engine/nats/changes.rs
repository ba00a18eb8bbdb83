//! The last changes of a queue's settings, for the operator: one message with a list.
//!
//! Processes that open a queue with different settings change them back and forth, each when it
//! starts. Each of them is right by its own settings, so only the list shows it. Nothing but a
//! report depends on it, so what cannot be noted is left out.

use ecru_nats::Message;
use ecru_nats::jetstream::JetStream;
use serde::{Deserialize, Serialize};

use super::failure::OTHER_SEQUENCE;
use super::names::{EXPECTED, LIFETIME, Names};
use crate::engine::QueueSpec;
use crate::update::{self, Difference};
use crate::wall::wall;

/// How many changes are kept.
const KEPT: usize = 16;

/// How often it is tried to note something, if other processes do that at the same moment.
const TRIES: usize = 8;

#[derive(Clone, Serialize, Deserialize)]
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
    // Another process may note something at the same moment.
    for _ in 0..TRIES {
        let Ok(last) = js.last_message(&names.attempts, &subject) else { return };
        let number = last.as_ref().map_or(0, |last| last.sequence);
        // Another program may publish anything here.
        let last = last.and_then(|last| serde_json::from_slice(&last.payload).ok());
        let mut all: Vec<Change> = last.unwrap_or_default();
        all.extend(found.iter().cloned());
        all.drain(..all.len().saturating_sub(KEPT));
        let payload = serde_json::to_vec(&all).expect("it has only texts and numbers");
        let message = Message::new(&subject, payload)
            .with_header(LIFETIME, "never")
            .and_then(|message| message.with_header(EXPECTED, &number.to_string()));
        let noted = message.and_then(|message| js.publish_message(&message));
        let code = noted.err().and_then(|error| error.code());
        if !code.is_some_and(|code| OTHER_SEQUENCE.contains(&code)) {
            return;
        }
    }
}
