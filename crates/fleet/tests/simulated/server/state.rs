//! Subscriptions, and where a message goes.

use std::collections::BTreeMap;
use std::time::Instant;

use ecru::channel::Sender;

use super::api::{self, refused};
use super::consumer::Settled;
use super::faults::{Answer, Faults, Question};
use super::stream::Stream;
use super::wire::Message;

/// Everything that the server knows.
#[derive(Default)]
pub(super) struct State {
    connections: BTreeMap<u64, Connection>,
    last: u64,
    pub(super) streams: BTreeMap<String, Stream>,
    /// Confirmations that are held back, by the time at which they are sent.
    later: BTreeMap<(Instant, u64), Message>,
    /// Requests that are handled later, by the time.
    pub(super) delayed: BTreeMap<(Instant, u64), Message>,
    /// When something is due next.
    pub(super) due: Option<Instant>,
    pub(super) faults: Faults,
    /// How often the messages of each subject were handed out.
    pub(super) handed_out: BTreeMap<String, u32>,
    /// What was ever stored under each subject.
    pub(super) history: BTreeMap<String, Vec<Vec<u8>>>,
}

struct Connection {
    out: Sender<Vec<u8>>,
    subscriptions: BTreeMap<u64, String>,
}

/// Returns whether a subject has the form of a pattern with wildcards.
pub(super) fn matches(pattern: &str, subject: &str) -> bool {
    let (mut pattern, mut subject) = (pattern.split('.'), subject.split('.'));
    loop {
        match (pattern.next(), subject.next()) {
            (Some(">"), Some(_)) | (None, None) => return true,
            (Some(one), Some(other)) if one == "*" || one == other => {}
            _ => return false,
        }
    }
}

impl State {
    /// Notes a new connection.
    pub(super) fn open(&mut self, out: Sender<Vec<u8>>) -> u64 {
        self.last += 1;
        self.connections.insert(self.last, Connection { out, subscriptions: BTreeMap::new() });
        self.last
    }

    pub(super) fn close(&mut self, connection: u64) {
        self.connections.remove(&connection);
    }

    pub(super) fn subscribe(&mut self, connection: u64, sid: u64, subject: String) {
        let connection = self.connections.get_mut(&connection).expect("it is open");
        connection.subscriptions.insert(sid, subject);
    }

    pub(super) fn unsubscribe(&mut self, connection: u64, sid: u64) {
        let connection = self.connections.get_mut(&connection).expect("it is open");
        connection.subscriptions.remove(&sid);
    }

    /// Returns whether a connection subscribes to a subject.
    pub(super) fn is_wanted(&self, subject: &str) -> bool {
        let all = self.connections.values().flat_map(|each| each.subscriptions.values());
        all.into_iter().any(|pattern| matches(pattern, subject))
    }

    /// Sends a message to those that subscribe to `to`. Returns whether there are any.
    pub(super) fn send(&self, to: &str, message: &Message) -> bool {
        let mut is_wanted = false;
        for connection in self.connections.values() {
            let wanted = connection.subscriptions.iter();
            for (sid, _) in wanted.filter(|(_, pattern)| matches(pattern, to)) {
                let mut bytes = Vec::new();
                message.write(*sid, &mut bytes);
                let _ = connection.out.try_send(bytes);
                is_wanted = true;
            }
        }
        is_wanted
    }

    /// Answers a request.
    pub(super) fn reply(&self, to: Option<&str>, payload: impl Into<Vec<u8>>) {
        if let Some(to) = to {
            self.send(to, &Message::new(to, payload));
        }
    }

    /// Handles what a client has published.
    pub(super) fn publish(&mut self, message: Message, now: Instant) {
        if let Some(operation) = message.subject.strip_prefix("$JS.API.") {
            if let Some(pause) = (self.faults.delay)(operation) {
                self.last += 1;
                self.delayed.insert((now + pause, self.last), message);
                return;
            }
            if !api::handle(self, operation, &message, now) {
                self.no_responders(&message);
            }
            return;
        }
        if message.subject.starts_with("$JS.ACK.") {
            match self.settle(&message, now) {
                Some(Settled::Unknown) => {}
                Some(_) => self.confirm(&message, Vec::new(), now),
                None => self.no_responders(&message),
            }
            return;
        }
        let is_wanted = self.send(&message.subject, &message);
        let stream = self.streams.values_mut().find(|stream| stream.stores(&message.subject));
        let Some(stream) = stream else {
            if !is_wanted {
                self.no_responders(&message);
            }
            return;
        };
        let no_room = (self.faults.has_no_room)(&message.subject);
        let (stored, answer) = match (message.header("Nats-Batch-Id"), no_room) {
            (_, Some((code, words))) => (Vec::new(), Some(refused(code, words))),
            (Some(id), None) => stream.batch(id, &message, now),
            (None, None) => {
                let (is_new, answer) = stream.store(&message, now);
                (is_new.then(|| message.clone()).into_iter().collect(), Some(answer))
            }
        };
        for Message { subject, payload, .. } in stored {
            self.history.entry(subject).or_default().push(payload);
        }
        let answer = answer.map_or_else(Vec::new, |answer| answer.to_string().into_bytes());
        self.confirm(&message, answer, now);
    }

    fn no_responders(&self, message: &Message) {
        if let Some(reply) = &message.reply {
            self.send(reply, &Message::status(reply, "503", ""));
        }
    }

    /// Sends a confirmation, unless a test wants something else.
    fn confirm(&mut self, message: &Message, payload: Vec<u8>, now: Instant) {
        let Some(reply) = message.reply.as_deref() else { return };
        let question = Question { subject: &message.subject, payload: &message.payload };
        match (self.faults.answer)(&question) {
            Answer::Sent => self.reply(Some(reply), payload),
            Answer::Late(pause) => {
                self.last += 1;
                self.later.insert((now + pause, self.last), Message::new(reply, payload));
            }
            Answer::Lost => {}
        }
    }

    /// Settles a message: `$JS.ACK.STREAM.CONSUMER.DELIVERIES.SEQUENCE.NUMBER.TIME.PENDING`.
    /// Returns `None` if there is no such consumer.
    fn settle(&mut self, message: &Message, now: Instant) -> Option<Settled> {
        let tokens: Vec<&str> = message.subject.split('.').collect();
        let [_, _, stream, consumer, _, sequence, ..] = *tokens else { return None };
        let sequence = sequence.parse().expect("it is the server's own subject");
        let stream = self.streams.get_mut(stream)?;
        stream.settle(consumer, sequence, &message.payload, now)
    }

    /// Does what is due. Returns whether something is due earlier than was known.
    pub(super) fn advance(&mut self, now: Instant) -> bool {
        while let Some(first) = self.later.first_entry().filter(|first| first.key().0 <= now) {
            let message = first.remove();
            self.send(&message.subject, &message);
        }
        while let Some(first) = self.delayed.first_entry().filter(|first| first.key().0 <= now) {
            let message = first.remove();
            let operation = message.subject.strip_prefix("$JS.API.").expect("it is a request");
            api::handle(self, operation, &message, now);
        }
        // A stream sends messages by the rest of the state.
        let mut streams = std::mem::take(&mut self.streams);
        for (name, stream) in &mut streams {
            stream.advance(name, self, now);
        }
        let dues = streams.values().filter_map(Stream::due);
        let later = self.later.keys().chain(self.delayed.keys());
        let due = dues.chain(later.map(|(due, _)| *due)).min();
        self.streams = streams;
        let is_earlier = due.is_some_and(|due| self.due.is_none_or(|known| due < known));
        self.due = due;
        is_earlier
    }
}
