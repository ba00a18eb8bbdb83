//! What hands messages out, and the leases on them.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::state::{State, matches};
use super::stream::{Messages, limit, nanoseconds};
use super::wire::Message;

/// A pull consumer.
pub(super) struct Consumer {
    pub(super) config: Value,
    /// The first message that was not handed out.
    next: u64,
    /// How many messages were handed out.
    number: u64,
    /// The messages that were handed out and are not settled.
    pending: BTreeMap<u64, Pending>,
    /// Those of them that are handed out again.
    again: VecDeque<u64>,
    pulls: VecDeque<Pull>,
    used: Instant,
    /// Until then nothing is handed out.
    paused: Option<Instant>,
}

struct Pending {
    /// When the lease ends. `None` if the message waits to be handed out again.
    due: Option<Instant>,
    deliveries: u64,
}

/// What became of a message that a client has settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Settled {
    Done,
    /// It is renewed, or handed out again later.
    Kept,
    /// The consumer does not remember that it has handed out the message.
    Unknown,
}

/// A request for messages.
pub(super) struct Pull {
    inbox: String,
    left: u64,
    /// It ends when there are no more messages.
    is_question: bool,
    ends: Instant,
    heartbeat: Duration,
    beats: Instant,
}

impl Pull {
    pub(super) fn new(inbox: &str, body: &Value, now: Instant) -> Pull {
        let is_question = body["no_wait"] == true;
        let time = |name: &str| match is_question {
            true => Duration::from_secs(1 << 20),
            false => nanoseconds(&body[name]).expect("a pull has time limits"),
        };
        let (ends, heartbeat) = (now + time("expires"), time("idle_heartbeat"));
        let left = body["batch"].as_u64().expect("a pull has a number");
        let inbox = inbox.to_owned();
        Pull { inbox, left, is_question, ends, heartbeat, beats: now + heartbeat }
    }
}

impl Consumer {
    pub(super) fn new(config: Value, now: Instant) -> Consumer {
        let (pending, again, pulls) = Default::default();
        let next = config["opt_start_seq"].as_u64().unwrap_or(1);
        Consumer { config, next, number: 0, pending, again, pulls, used: now, paused: None }
    }

    /// Hands nothing out until this time, or ends a pause. Returns what the client is told.
    pub(super) fn pause(&mut self, until: Option<Instant>, now: Instant) -> Value {
        self.paused = until.filter(|until| now < *until);
        json!({ "paused": self.is_paused(now), "pause_remaining": self.pause_left(now) })
    }

    fn is_paused(&self, now: Instant) -> bool {
        self.paused.is_some_and(|until| now < until)
    }

    fn pause_left(&self, now: Instant) -> u64 {
        let left = self.paused.map_or(Duration::ZERO, |until| until.saturating_duration_since(now));
        left.as_nanos().try_into().expect("a pause is at most a hundred years")
    }

    fn is_acknowledged(&self) -> bool {
        self.config["ack_policy"] != "none"
    }

    fn wants(&self, subject: &str) -> bool {
        self.config["filter_subject"].as_str().is_none_or(|filter| matches(filter, subject))
    }

    pub(super) fn info(&self, messages: &Messages, now: Instant) -> Value {
        let clock = SignedDuration::try_from(ecru::sim::elapsed()).expect("a run is short");
        json!({
            "ts": Timestamp::from_duration(clock).expect("a run is short").to_string(),
            "paused": self.is_paused(now),
            "pause_remaining": self.pause_left(now),
            "config": self.config,
            "delivered": { "consumer_seq": self.number, "stream_seq": self.next - 1 },
            "num_pending": self.left(messages).count(),
            "num_ack_pending": self.pending.len(),
            "num_redelivered": self.pending.values().filter(|each| each.deliveries > 1).count(),
            "num_waiting": self.pulls.len(),
        })
    }

    /// Returns the numbers of the messages that were not handed out.
    fn left<'a>(&'a self, messages: &'a Messages) -> impl Iterator<Item = u64> + 'a {
        let all = messages.range(self.next..);
        all.filter(|(_, stored)| self.wants(&stored.message.subject)).map(|(number, _)| *number)
    }

    fn lease(&self) -> Duration {
        nanoseconds(&self.config["ack_wait"]).unwrap_or(Duration::from_secs(30))
    }

    pub(super) fn pulled(&mut self, pull: Pull, now: Instant) {
        self.used = now;
        self.pulls.push_back(pull);
    }

    /// Returns whether the consumer is to be deleted because it was not used.
    pub(super) fn is_unused(&self, now: Instant) -> bool {
        self.deleted_at().is_some_and(|at| at <= now)
    }

    fn deleted_at(&self) -> Option<Instant> {
        let patience = nanoseconds(&self.config["inactive_threshold"])?;
        self.pulls.is_empty().then(|| self.used + patience)
    }

    /// Returns whether a message is handed out and not settled.
    pub(super) fn holds(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Forgets a message that was settled or deleted.
    pub(super) fn forget(&mut self, sequence: u64) {
        self.pending.remove(&sequence);
        self.again.retain(|other| *other != sequence);
    }

    /// Forgets what was handed out and is not settled.
    pub(super) fn lose(&mut self) {
        if let Some(first) = self.pending.keys().next() {
            self.next = *first;
        }
        self.pending.clear();
        self.again.clear();
    }

    /// Settles a message.
    pub(super) fn settle(&mut self, sequence: u64, how: &[u8], now: Instant) -> Settled {
        self.used = now;
        let lease = self.lease();
        let how = str::from_utf8(how).expect("a settlement is text");
        if how == "+ACK" || how.starts_with("+TERM") {
            // The real server does not answer either.
            if sequence >= self.next {
                return Settled::Unknown;
            }
            self.forget(sequence);
            return Settled::Done;
        }
        // What is not pending any more is left alone, and confirmed all the same.
        let Some(pending) = self.pending.get_mut(&sequence) else { return Settled::Kept };
        match how.strip_prefix("-NAK") {
            None => {
                assert_eq!(how, "+WPI");
                pending.due = pending.due.map(|_| now + lease);
            }
            Some("") => self.hand_out_again(sequence),
            Some(delay) => {
                let delay: Value = serde_json::from_str(delay).expect("a delay is JSON");
                let pause = nanoseconds(&delay["delay"]).expect("it is a time");
                pending.due = pending.due.map(|_| now + pause);
            }
        }
        Settled::Kept
    }

    fn hand_out_again(&mut self, sequence: u64) {
        if let Some(pending) = self.pending.get_mut(&sequence)
            && pending.due.take().is_some()
        {
            self.again.push_back(sequence);
        }
    }

    /// Does what is due. `place` is how the subjects for settlements begin.
    pub(super) fn advance(
        &mut self,
        place: &str,
        messages: &Messages,
        state: &mut State,
        now: Instant,
    ) {
        self.paused = self.paused.filter(|until| now < *until);
        self.pending.retain(|sequence, _| messages.contains_key(sequence));
        self.again.retain(|sequence| messages.contains_key(sequence));
        let is_due = |each: &Pending| each.due.is_some_and(|due| due <= now);
        let ended: Vec<u64> =
            self.pending.iter().filter(|(_, each)| is_due(each)).map(|(key, _)| *key).collect();
        for sequence in ended {
            self.hand_out_again(sequence);
        }
        // The requests of a connection end with it.
        self.pulls.retain(|pull| state.is_wanted(&pull.inbox));
        let is_paused = self.is_paused(now);
        if !is_paused {
            self.hand_out(place, messages, state, now);
        }
        self.pulls.retain_mut(|pull| {
            // A real server does not answer questions either.
            if pull.is_question && !is_paused {
                let status = Message::status(&pull.inbox, "404 No Messages", "");
                state.send(&pull.inbox, &status);
                return false;
            }
            if pull.ends <= now {
                let left = pull.left;
                let headers = format!("Nats-Pending-Messages: {left}\r\nNats-Pending-Bytes: 0\r\n");
                let status = Message::status(&pull.inbox, "408 Request Timeout", &headers);
                state.send(&pull.inbox, &status);
                return false;
            }
            if pull.beats <= now {
                pull.beats = now + pull.heartbeat;
                state.send(&pull.inbox, &Message::status(&pull.inbox, "100 Idle Heartbeat", ""));
            }
            true
        });
    }

    /// Returns the message to hand out next, and how often it has been handed out then.
    fn take(&mut self, messages: &Messages) -> Option<(u64, u64)> {
        if let Some(sequence) = self.again.pop_front() {
            return Some((sequence, self.pending[&sequence].deliveries + 1));
        }
        let most = limit(&self.config["max_ack_pending"]);
        if most.is_some_and(|most| self.pending.len() >= most) {
            return None;
        }
        let sequence = self.left(messages).next()?;
        self.next = sequence + 1;
        Some((sequence, 1))
    }

    /// Hands out messages to one request after another, in turns.
    fn hand_out(&mut self, place: &str, messages: &Messages, state: &mut State, now: Instant) {
        while !self.pulls.is_empty()
            && let Some((sequence, deliveries)) = self.take(messages)
        {
            let stored = &messages[&sequence].message;
            self.deliver(place, stored, (sequence, deliveries), messages, state, now);
            if !self.is_acknowledged() {
                continue;
            }
            let due = Some(now + self.lease());
            self.pending.insert(sequence, Pending { due, deliveries });
            if (state.faults.repeat)(&stored.subject) && !self.pulls.is_empty() {
                // The server forgets that it has handed out the message.
                self.deliver(place, stored, (sequence, deliveries), messages, state, now);
            }
        }
    }

    fn deliver(
        &mut self,
        place: &str,
        stored: &Message,
        (sequence, deliveries): (u64, u64),
        messages: &Messages,
        state: &mut State,
        now: Instant,
    ) {
        let mut pull = self.pulls.pop_front().expect("there is a request");
        self.number += 1;
        let (number, left) = (self.number, self.left(messages).count());
        let time = ecru::sim::elapsed().as_nanos();
        let reply = format!("{place}.{deliveries}.{sequence}.{number}.{time}.{left}");
        state.send(&pull.inbox, &Message { reply: Some(reply), ..stored.clone() });
        *state.handed_out.entry(stored.subject.clone()).or_default() += 1;
        pull.left -= 1;
        pull.beats = now + pull.heartbeat;
        if pull.left > 0 {
            self.pulls.push_back(pull);
        } else {
            self.used = now;
        }
    }

    /// Returns when something is due next.
    pub(super) fn due(&self) -> Option<Instant> {
        let leases = self.pending.values().filter_map(|each| each.due);
        let pulls = self.pulls.iter().map(|pull| pull.ends.min(pull.beats));
        leases.chain(pulls).chain(self.deleted_at()).chain(self.paused).min()
    }
}
