//! Stored messages, and what refuses them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::api::refused;
use super::consumer::{Consumer, Settled};
use super::state::{State, matches};
use super::wire::Message;

pub(super) type Messages = BTreeMap<u64, Stored>;

/// A message in a stream.
pub(super) struct Stored {
    pub(super) message: Message,
    at: Instant,
    /// When the message ends by itself.
    ends: Option<Instant>,
}

/// A stream with its consumers.
pub(super) struct Stream {
    pub(super) config: Value,
    pub(super) messages: Messages,
    last: u64,
    /// The ids of messages, with their numbers and the times at which they were stored.
    ids: BTreeMap<String, (u64, Instant)>,
    pub(super) consumers: BTreeMap<String, Consumer>,
    /// The messages of batches that are not complete.
    batches: BTreeMap<String, Vec<Message>>,
}

/// Reads a time as JetStream writes it: nanoseconds, 0 for none.
pub(super) fn nanoseconds(value: &Value) -> Option<Duration> {
    value.as_u64().filter(|number| *number > 0).map(Duration::from_nanos)
}

/// Reads a limit as JetStream writes it: not positive for none.
pub(super) fn limit(value: &Value) -> Option<usize> {
    value.as_u64().filter(|number| *number > 0).and_then(|number| number.try_into().ok())
}

impl Stream {
    pub(super) fn new(config: Value) -> Stream {
        let (messages, ids, consumers, batches) = Default::default();
        Stream { config, messages, last: 0, ids, consumers, batches }
    }

    pub(super) fn info(&self) -> Value {
        json!({
            "config": self.config,
            "state": {
                "messages": self.messages.len(),
                "first_seq": self.messages.keys().next().map_or(self.last + 1, |first| *first),
                "last_seq": self.last,
                "consumer_count": self.consumers.len(),
            },
        })
    }

    /// Returns whether messages with this subject belong here.
    pub(super) fn stores(&self, subject: &str) -> bool {
        let patterns = self.config["subjects"].as_array().into_iter().flatten();
        patterns.filter_map(Value::as_str).any(|pattern| matches(pattern, subject))
    }

    fn is_queue(&self) -> bool {
        self.config["retention"] == "workqueue"
    }

    /// Returns the last message whose subject matches.
    pub(super) fn last(&self, pattern: &str) -> Option<(&u64, &Stored)> {
        self.messages.iter().rfind(|(_, stored)| matches(pattern, &stored.message.subject))
    }

    /// Returns the first message from a number on whose subject matches.
    pub(super) fn next(&self, from: u64, pattern: Option<&str>) -> Option<(&u64, &Stored)> {
        let mut all = self.messages.range(from..);
        all.find(|(_, stored)| {
            pattern.is_none_or(|pattern| matches(pattern, &stored.message.subject))
        })
    }

    /// Stores a message, or refuses it. Returns whether it was stored, and what its sender is told.
    pub(super) fn store(&mut self, message: &Message, now: Instant) -> (bool, Value) {
        let name = self.config["name"].clone();
        let id = message.header("Nats-Msg-Id");
        if let Some(id) = id.filter(|id| self.knows(id, now)) {
            let first = self.ids[id].0;
            return (false, json!({ "stream": name, "seq": first, "duplicate": true }));
        }
        let expected = message.header("Nats-Expected-Last-Subject-Sequence");
        let meant = message.header("Nats-Expected-Last-Subject-Sequence-Subject");
        let last = self.last(meant.unwrap_or(&message.subject)).map_or(0, |(number, _)| *number);
        if expected.is_some_and(|expected| expected != last.to_string()) {
            return (false, refused(10071, &format!("wrong last sequence: {last}")));
        }
        let same = self.last(&message.subject).map_or(0, |(sequence, _)| *sequence);
        let refuses = self.config["discard_new_per_subject"] == true;
        match limit(&self.config["max_msgs_per_subject"]) {
            Some(1) if same > 0 && refuses => {
                return (false, refused(10077, "maximum messages per subject exceeded"));
            }
            Some(1) if same > 0 => drop(self.messages.remove(&same)),
            None | Some(1) => {}
            Some(more) => panic!("the simulated server does not keep {more} for each subject"),
        }
        if limit(&self.config["max_msgs"]).is_some_and(|most| self.messages.len() >= most) {
            return (false, refused(10077, "maximum messages exceeded"));
        }
        self.last += 1;
        if let Some(id) = id {
            self.ids.insert(id.to_owned(), (self.last, now));
        }
        let message = Message { reply: None, ..message.clone() };
        let lifetime = message.header("Nats-TTL").filter(|text| *text != "never").map(|text| {
            assert_eq!(self.config["allow_msg_ttl"], true);
            let seconds = text.strip_suffix('s').and_then(|number| number.parse().ok());
            Duration::from_secs(seconds.expect("it is a number of seconds"))
        });
        let ends = lifetime.map(|lifetime| now + lifetime);
        self.messages.insert(self.last, Stored { message, at: now, ends });
        (true, json!({ "stream": name, "seq": self.last }))
    }

    /// Takes a message of a batch, and stores the batch if it is the last one. Returns what was
    /// stored, and what the sender is told, or `None` for an answer without words.
    pub(super) fn batch(
        &mut self,
        id: &str,
        message: &Message,
        now: Instant,
    ) -> (Vec<Message>, Option<Value>) {
        let refused = |code, words: &str| (Vec::new(), Some(refused(code, words)));
        if self.config["allow_atomic"] != true {
            return refused(10174, "atomic publish is disabled");
        }
        let mut batch = self.batches.remove(id).unwrap_or_default();
        batch.push(message.clone());
        if message.header("Nats-Batch-Sequence") != Some(&batch.len().to_string()) {
            return refused(10176, "atomic publish batch is incomplete");
        }
        if message.header("Nats-Batch-Commit").is_none() {
            self.batches.insert(id.to_owned(), batch);
            return (Vec::new(), None);
        }
        let most = limit(&self.config["max_msgs"]);
        if most.is_some_and(|most| self.messages.len() + batch.len() > most) {
            return refused(10077, "maximum messages exceeded");
        }
        if batch.iter().filter_map(|each| each.header("Nats-Msg-Id")).any(|id| self.knows(id, now))
        {
            return refused(10201, "atomic publish batch contains duplicate message id");
        }
        if batch.iter().any(|each| self.last(&each.subject).is_some()) {
            return refused(10077, "maximum messages per subject exceeded");
        }
        let mut answer = Value::Null;
        for message in &batch {
            let (is_new, stored) = self.store(message, now);
            assert!(is_new, "nothing refuses a message that was checked: {stored}");
            answer = stored;
        }
        (answer["batch"], answer["count"]) = (id.into(), batch.len().into());
        (batch, Some(answer))
    }

    /// Returns whether the id of a message is remembered.
    fn knows(&mut self, id: &str, now: Instant) -> bool {
        let window = nanoseconds(&self.config["duplicate_window"]);
        let window = window.unwrap_or(Duration::from_secs(120));
        self.ids.retain(|_, (_, at)| now < *at + window);
        self.ids.contains_key(id)
    }

    /// Deletes a message. Returns whether there was one.
    pub(super) fn delete(&mut self, sequence: u64) -> bool {
        for consumer in self.consumers.values_mut() {
            consumer.forget(sequence);
        }
        self.messages.remove(&sequence).is_some()
    }

    /// Deletes the messages below a number whose subjects match. Returns how many there were.
    pub(super) fn purge(&mut self, pattern: &str, before: u64) -> usize {
        let all = self.messages.range(..before);
        let fits = all.filter(|(_, stored)| matches(pattern, &stored.message.subject));
        let numbers: Vec<u64> = fits.map(|(number, _)| *number).collect();
        numbers.iter().filter(|number| self.delete(**number)).count()
    }

    /// Creates a consumer, or finds it.
    pub(super) fn create_consumer(&mut self, name: &str, config: &Value, now: Instant) -> Value {
        let there = self.consumers.entry(name.to_owned());
        let consumer = there.or_insert_with(|| Consumer::new(config.clone(), now));
        if consumer.config != *config {
            return refused(10148, "consumer already exists");
        }
        consumer.info(&self.messages, now)
    }

    /// Gives a consumer other settings.
    pub(super) fn update_consumer(&mut self, name: &str, config: &Value, now: Instant) -> Value {
        let Some(consumer) = self.consumers.get_mut(name) else {
            return refused(10149, "consumer does not exist");
        };
        consumer.config = config.clone();
        consumer.info(&self.messages, now)
    }

    /// Settles a message, or returns `None` if there is no such consumer.
    pub(super) fn settle(
        &mut self,
        name: &str,
        sequence: u64,
        how: &[u8],
        now: Instant,
    ) -> Option<Settled> {
        let is_queue = self.is_queue();
        let settled = self.consumers.get_mut(name)?.settle(sequence, how, now);
        if settled == Settled::Done && is_queue {
            // A late settlement counts, too.
            self.messages.remove(&sequence);
        }
        Some(settled)
    }

    /// Does what is due.
    pub(super) fn advance(&mut self, name: &str, state: &mut State, now: Instant) {
        self.messages.retain(|_, stored| stored.ends.is_none_or(|ends| now < ends));
        if let Some(age) = nanoseconds(&self.config["max_age"]) {
            self.messages.retain(|_, stored| now < stored.at + age);
        }
        self.consumers.retain(|_, consumer| !consumer.is_unused(now));
        for (consumer, own) in &mut self.consumers {
            let place = format!("$JS.ACK.{name}.{consumer}");
            own.advance(&place, &self.messages, state, now);
        }
    }

    /// Returns when something is due next.
    pub(super) fn due(&self) -> Option<Instant> {
        let age = nanoseconds(&self.config["max_age"]);
        let oldest = self.messages.values().next().map(|stored| stored.at);
        let aged = age.zip(oldest).map(|(age, at)| at + age);
        let ends = self.messages.values().filter_map(|stored| stored.ends);
        self.consumers.values().filter_map(Consumer::due).chain(aged).chain(ends).min()
    }
}
