//! What the processes of a fleet have in common about their schedules: one message for each name,
//! which is replaced only if it is the one that was read.

use std::io;

use bytes::Bytes;
use ecru_nats::Message;
use ecru_nats::jetstream::JetStream;

use super::failure::{OTHER_SEQUENCE, failed};
use super::names::{EXPECTED, LIFETIME, Names};
use crate::engine;

/// Reads what is stored under a name: see [`EngineQueue::schedule`](engine::EngineQueue::schedule).
pub(super) fn read(js: &JetStream, names: &Names, name: &str) -> io::Result<Option<(u64, Bytes)>> {
    let subject = names.schedule(&engine::token("schedule", name)?);
    let stored = js.last_message(&names.attempts, &subject).map_err(failed)?;
    Ok(stored.map(|stored| (stored.sequence, stored.payload.clone())))
}

/// Replaces it: see [`EngineQueue::replace_schedule`](engine::EngineQueue::replace_schedule).
pub(super) fn replace(
    js: &JetStream,
    names: &Names,
    name: &str,
    last: u64,
    schedule: Bytes,
) -> io::Result<bool> {
    let subject = names.schedule(&engine::token("schedule", name)?);
    let message = Message::new(&subject, schedule)
        .with_header(EXPECTED, &last.to_string())
        .and_then(|message| message.with_header(LIFETIME, "never"));
    match js.publish_message(&message.map_err(failed)?) {
        Err(error) if error.code().is_some_and(|code| OTHER_SEQUENCE.contains(&code)) => Ok(false),
        stored => stored.map(|_| true).map_err(failed),
    }
}
