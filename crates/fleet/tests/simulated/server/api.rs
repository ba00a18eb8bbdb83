//! The requests of JetStream.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::consumer::Pull;
use super::state::State;
use super::stream::{Stored, Stream};
use super::wire::Message;

/// An error as JetStream writes it.
pub(super) fn refused(code: u32, words: &str) -> Value {
    json!({ "error": { "code": 400, "err_code": code, "description": words } })
}

/// Handles a request. Returns whether there is something that handles it.
pub(super) fn handle(state: &mut State, operation: &str, message: &Message, now: Instant) -> bool {
    let body: Value = serde_json::from_slice(&message.payload).expect("a request is JSON");
    let tokens: Vec<&str> = operation.split('.').collect();
    if let ["CONSUMER", "MSG", "NEXT", stream, consumer] = *tokens {
        let stream = state.streams.get_mut(stream);
        let Some(consumer) = stream.and_then(|stream| stream.consumers.get_mut(consumer)) else {
            return false;
        };
        let inbox = message.reply.as_deref().expect("a pull has an inbox");
        consumer.pulled(Pull::new(inbox, &body, now), now);
        return true;
    }
    let answer = match *tokens {
        ["STREAM", "CREATE", name] => create_stream(state, name, body),
        ["STREAM", "UPDATE", name] => of_stream(state, name, |stream| {
            stream.config = body;
            stream.info()
        }),
        ["STREAM", "INFO", name] => of_stream(state, name, |stream| stream.info()),
        ["STREAM", "MSG", "GET", name] => of_stream(state, name, |stream| get(stream, &body)),
        ["STREAM", "MSG", "DELETE", name] => {
            let sequence = body["seq"].as_u64().expect("it has a sequence number");
            of_stream(state, name, |stream| match stream.delete(sequence) {
                true => json!({ "success": true }),
                false => refused(10057, "message not found"),
            })
        }
        ["STREAM", "PURGE", name] => of_stream(state, name, |stream| {
            let pattern = body["filter"].as_str().expect("a purge has a subject");
            let before = body["seq"].as_u64().expect("it has a sequence number");
            json!({ "success": true, "purged": stream.purge(pattern, before) })
        }),
        ["CONSUMER", "CREATE", stream, name, ..] => {
            of_stream(state, stream, |stream| match &body["action"] {
                action if action == "update" => stream.update_consumer(name, &body["config"], now),
                _ => stream.create_consumer(name, &body["config"], now),
            })
        }
        ["CONSUMER", "INFO", stream, name] => of_stream(state, stream, |stream| {
            let consumer = stream.consumers.get(name);
            consumer.map_or_else(
                || refused(10014, "consumer not found"),
                |consumer| consumer.info(&stream.messages, now),
            )
        }),
        ["CONSUMER", "PAUSE", stream, name] => of_stream(state, stream, |stream| {
            let consumer = stream.consumers.get_mut(name);
            let until = body["pause_until"].as_str().map(|text| now + from_now(text));
            consumer.map_or_else(|| refused(10014, "consumer not found"), |it| it.pause(until, now))
        }),
        _ => panic!("the simulated server does not know {operation}"),
    };
    state.reply(message.reply.as_deref(), answer.to_string());
    true
}

/// Returns how long it is until a time, as RFC 3339 writes it.
fn from_now(text: &str) -> Duration {
    let at: Timestamp = text.parse().expect("it is a time");
    let at = Duration::try_from(at.as_duration()).expect("it is not before 1970");
    at.saturating_sub(ecru::sim::elapsed())
}

fn of_stream(state: &mut State, name: &str, f: impl FnOnce(&mut Stream) -> Value) -> Value {
    state.streams.get_mut(name).map_or_else(|| refused(10059, "stream not found"), f)
}

fn create_stream(state: &mut State, name: &str, config: Value) -> Value {
    match state.streams.get(name) {
        Some(stream) if stream.config != config => {
            refused(10058, "stream name already in use with a different configuration")
        }
        Some(stream) => stream.info(),
        None => {
            let stream = Stream::new(config);
            let info = stream.info();
            state.streams.insert(name.to_owned(), stream);
            info
        }
    }
}

/// Reads a message: by its number, as the last one of a subject, or as the next one of a pattern.
fn get(stream: &Stream, which: &Value) -> Value {
    let from = which["seq"].as_u64().unwrap_or(0);
    let found = match (which["last_by_subj"].as_str(), which["next_by_subj"].as_str()) {
        (Some(subject), _) => stream.last(subject),
        (None, Some(pattern)) => stream.next(from, Some(pattern)),
        (None, None) => stream.messages.get_key_value(&from),
    };
    let Some((sequence, Stored { message, .. })) = found else {
        return refused(10037, "no message found");
    };
    let mut found = json!({
        "subject": message.subject,
        "seq": sequence,
        "data": data_encoding::BASE64.encode(&message.payload),
    });
    if !message.headers.is_empty() {
        found["hdrs"] = data_encoding::BASE64.encode(&message.headers).into();
    }
    json!({ "message": found })
}
