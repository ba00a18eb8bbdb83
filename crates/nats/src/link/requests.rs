//! Requests and published messages that wait for an answer.

use std::fmt::Write;
use std::time::{Duration, Instant};

use ecru::channel::{self, Sender};
use ecru::sync::Permit;

use super::{Link, Queued, Shared};
use crate::error::{Error, ErrorKind};
use crate::message::{Message, Text};
use crate::wire;

/// The digits of the salt at the end of the subject of an answer.
const SALT: usize = 16;

/// A request without an answer.
pub(super) struct Pending {
    pub(super) answer: Sender<Result<Message, Error>>,
    pub(super) subject: Text,
    /// A place in the window of acknowledgements, which is given back with the answer.
    place: Option<Place>,
}

/// A place in the window of acknowledgements.
pub(super) struct Place {
    _permit: Permit,
    /// When the message has lost its place. `None` if never.
    due: Option<Instant>,
}

impl Shared {
    /// Queues a request. Its answer, or why there will be none, goes to the receiver.
    pub(crate) fn request(
        &self,
        message: &Message,
        permit: Option<Permit>,
        wait: bool,
    ) -> Result<Queued, Error> {
        if wait {
            self.wait_for_room()?;
        }
        let (answer, receiver) = channel::oneshot();
        let mut link = self.open_link()?;
        Shared::check_size(&link, message)?;
        let place = permit.map(|permit| Place {
            _permit: permit,
            due: ecru::time::now().checked_add(self.options.request_timeout),
        });
        let token = link.register(answer, message.subject.clone(), place);
        let Link { out, reply, .. } = &mut *link;
        reply.clear();
        reply.push_str(&self.inbox);
        // Writing to a string does not fail.
        let _ = write!(reply, ".{token}-{:016x}", self.salts.of(token));
        wire::write_publish(
            out,
            message.subject.as_bytes(),
            Some(reply.as_bytes()),
            &message.headers,
            &message.payload,
        );
        drop(link);
        self.work.notify_one();
        Ok((token, receiver))
    }

    /// Waits for a place in the window of acknowledgements. A message whose time limit has passed
    /// has lost its place, so that lost acknowledgements do not stop a publisher for ever.
    pub(crate) fn place(&self) -> Result<Permit, Error> {
        loop {
            if let Ok(permit) = self.acks.try_acquire() {
                return Ok(permit);
            }
            // If no message holds a place, another caller is about to hold one.
            let limit = self.free_overdue().unwrap_or(self.options.request_timeout);
            let limit = limit.max(Duration::from_millis(1));
            if let Ok(waited) = ecru::timeout(limit, || self.acks.acquire()) {
                return Ok(waited?);
            }
        }
    }

    /// Frees the places of messages whose time limit has passed. Returns how long to wait for the
    /// next one.
    fn free_overdue(&self) -> Option<Duration> {
        let now = ecru::time::now();
        let mut freed = Vec::new();
        let mut wait = None;
        // In the order in which they were published, and so in that of their time limits.
        for pending in self.link().pending.values_mut() {
            let Some(place) = &pending.place else { continue };
            match place.due {
                Some(due) if due <= now => freed.push(pending.place.take()),
                Some(due) => {
                    wait = Some(due - now);
                    break;
                }
                None => break,
            }
        }
        // The permits wake waiters, so they are dropped after the lock.
        drop(freed);
        wait
    }

    /// Forgets a request that is not waited for any more.
    pub(crate) fn forget(&self, token: u64) {
        let forgotten = self.link().pending.remove(&token);
        drop(forgotten);
    }

    /// Returns the token of the request whose answers have this subject.
    pub(super) fn token(&self, subject: &[u8]) -> Option<u64> {
        let rest = subject.strip_prefix(self.inbox.as_bytes())?.strip_prefix(b".")?;
        let (token, salt) = rest.split_at_checked(rest.len().checked_sub(SALT)?)?;
        let token = wire::number(token.strip_suffix(b"-")?)?;
        let own = wire::hexadecimal(salt) == Some(self.salts.of(token));
        own.then_some(token)
    }

    /// Gives an answer to its caller.
    pub(super) fn answer(&self, token: u64, answer: Result<Message, Error>) {
        let Some(pending) = self.link().pending.remove(&token) else { return };
        let _ = pending.answer.try_send(answer);
    }

    /// Fails the first request to a subject that was sent and has no answer, because the server
    /// does not permit it. It says so once for each of them, in the order in which they were sent.
    pub(crate) fn refuse(&self, subject: &str, server: &str, words: &str) {
        let mut link = self.link();
        let mut sent = link.pending.range(..link.sent);
        let found = sent.find(|(_, pending)| pending.subject.as_str() == subject);
        let Some(token) = found.map(|(token, _)| *token) else { return };
        let pending = link.pending.remove(&token);
        drop(link);
        let Some(pending) = pending else { return };
        let text = format!(
            "the user may not publish to {subject}; permit it in the server's configuration"
        );
        let error = Error::new(ErrorKind::Authorization, text).with_words(words).at(server);
        let _ = pending.answer.try_send(Err(error));
    }

    /// Returns whether a request that was sent has no answer.
    pub(crate) fn awaits_answers(&self) -> bool {
        let link = self.link();
        link.pending.range(..link.sent).next().is_some()
    }
}

impl Link {
    pub(super) fn register(
        &mut self,
        answer: Sender<Result<Message, Error>>,
        subject: Text,
        place: Option<Place>,
    ) -> u64 {
        let token = self.next_token;
        self.next_token += 1;
        self.pending.insert(token, Pending { answer, subject, place });
        token
    }
}
