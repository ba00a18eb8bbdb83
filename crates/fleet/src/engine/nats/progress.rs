//! How far jobs are: one message for each job that reports it.
//!
//! It is published without waiting for the server, as the next one replaces it. The holder replaces
//! it by an empty message, which the server removes, when the job is not held any more. The message
//! of a holder that was killed is replaced by the next holder, or ends by itself.

use std::io;

use ecru_nats::jetstream::JetStream;
use ecru_nats::{Error, Message};

use super::failure::repeated;
use super::names::{LIFETIME, Names};
use crate::engine::MOST_REPORTS;
use crate::progress::Progress;

/// For how long a report and its removal are kept.
const KEPT: (&str, &str) = ("86400s", "1s");

/// Publishes how far a job is, or that there is nothing to say of it any more.
pub(super) fn publish(
    js: &JetStream,
    names: &Names,
    id: &str,
    progress: Option<&Progress>,
) -> Result<(), Error> {
    let (payload, kept) = match progress {
        Some(progress) => {
            (serde_json::to_vec(progress).expect("it has only numbers and plain text"), KEPT.0)
        }
        None => (Vec::new(), KEPT.1),
    };
    let message = Message::new(&names.progress(id), payload).with_header(LIFETIME, kept)?;
    js.client().publish_message(&message)
}

/// Returns what was reported: see [`EngineQueue::progress`](crate::engine::EngineQueue::progress).
pub(super) fn all(js: &JetStream, names: &Names) -> io::Result<Vec<(String, Progress)>> {
    let (subjects, mut from, mut found) = (names.progress("*"), 1, Vec::new());
    // Those that were removed a moment ago count, so that this ends.
    for _ in 0..MOST_REPORTS {
        let Some(stored) = repeated(|| js.next_message(&names.attempts, from, &subjects))? else {
            break;
        };
        from = stored.sequence + 1;
        let id = stored.subject.rsplit('.').next().unwrap_or_default().to_owned();
        // Another program may publish anything here. What was replaced meanwhile comes again.
        if let Ok(progress) = serde_json::from_slice(&stored.payload) {
            found.retain(|(other, _)| *other != id);
            found.push((id, progress));
        }
    }
    Ok(found)
}
