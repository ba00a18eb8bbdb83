//! The dead: jobs that are not tried again, with the reason and the number of attempts.

use std::io;

use ecru_nats::jetstream::{JetStream, StoredMessage};
use ecru_nats::{Error, Message};

use super::failure::{Limit, NO_MESSAGE, failed, limit};
use super::names::{ATTEMPTS, Names, PRIORITY, REASON, id_of_dead};
use super::send::BESIDE;
use crate::engine::{Dead, priorities};

/// Stores a job among the dead. Its subject has its id and its number in the queue, so a second
/// entry of the same job is refused as long as the first one is there.
pub(super) fn bury(js: &JetStream, names: &Names, entry: &Dead) -> io::Result<()> {
    let most = js.client().server_info().max_payload;
    let room = most.saturating_sub(entry.payload.len() + BESIDE);
    match message(names, entry, room).and_then(|message| js.publish_message(&message)) {
        Ok(_) => Ok(()),
        Err(error) if matches!(limit(&error), Some(Limit::Subject)) => Ok(()),
        Err(error) => Err(failed(error)),
    }
}

fn message(names: &Names, entry: &Dead, room: usize) -> Result<Message, Error> {
    let subject = names.dead_job(&entry.id, entry.sequence);
    let mut message = Message::new(&subject, entry.payload.clone())
        .with_header(ATTEMPTS, &entry.attempts.to_string())?;
    if entry.priority > 0 {
        message = message.with_header(PRIORITY, &entry.priority.to_string())?;
    }
    message.with_header(REASON, &quoted(&entry.reason, room))
}

/// Writes as much of a text as there is room for in a header, without ends of lines.
fn quoted(text: &str, room: usize) -> String {
    let quote = |text: &str| serde_json::Value::from(text).to_string();
    let whole = quote(text);
    if whole.len() <= room {
        return whole;
    }
    // An escape takes at most six bytes, and the quotes take two.
    let mut end = (room.saturating_sub(2) / 6).min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    quote(&text[..end])
}

/// Returns the first of the dead from a sequence number on.
pub(super) fn first(js: &JetStream, names: &Names, from: u64) -> io::Result<Option<(u64, Dead)>> {
    let found = js.next_message(&names.dead, from.max(1), &names.all_dead()).map_err(failed)?;
    Ok(found.map(|stored| (stored.sequence, entry(&stored))))
}

/// Reads a dead job. Fields that another program left out get their default values.
fn entry(stored: &StoredMessage) -> Dead {
    let (id, sequence) = id_of_dead(&stored.subject);
    let header = |name| stored.headers.get(name);
    let attempts = header(ATTEMPTS).and_then(|number| number.parse().ok());
    let priority = header(PRIORITY).and_then(|number| number.parse().ok());
    let reason = header(REASON).and_then(|text| serde_json::from_str(text).ok());
    Dead {
        id: id.to_owned(),
        sequence,
        attempts: attempts.unwrap_or(0),
        reason: reason.unwrap_or_default(),
        payload: stored.payload.clone(),
        priority: priority.filter(|number| priorities().contains(number)).unwrap_or(0),
    }
}

/// Removes one of the dead.
pub(super) fn discard(js: &JetStream, names: &Names, sequence: u64) -> io::Result<bool> {
    removed(js.delete_message(&names.dead, sequence))
}

/// Returns whether there was a message to remove.
pub(super) fn removed(result: Result<(), Error>) -> io::Result<bool> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.code().is_some_and(|code| NO_MESSAGE.contains(&code)) => Ok(false),
        Err(error) => Err(failed(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn a_reason_fits_into_a_header() {
        for text in ["", "plain", "two\r\nlines", "\0", " ä\u{1F980}\" "] {
            let header = quoted(text, 100);
            assert!(!header.contains(['\r', '\n', '\0']), "{header}");
            assert_eq!(serde_json::from_str::<String>(&header).unwrap(), text);
        }
        for room in 2..40 {
            let header = quoted(&"\u{1}ä\u{1F980}".repeat(20), room);
            assert!(header.len() <= room.max(2), "{room}: {header}");
            serde_json::from_str::<String>(&header).unwrap();
        }
    }
}
