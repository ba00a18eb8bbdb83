//! Requests for the messages that are there now.

use std::time::Duration;

use ecru::channel::RecvTimeoutError;
use serde_json::json;

use super::consumer::Consumer;
use super::delivery::{Delivery, Place, unsettled};
use super::pull::Slots;
use crate::error::Error;
use crate::link::unique;
use crate::message::Message;

impl Consumer {
    /// Receives messages that the consumer can hand out now, at most `count`. It does not wait for
    /// messages that are published later, so there may be none.
    ///
    /// `limit` is how long the server's answer may take. After that, what has come is returned. A
    /// consumer that is paused, or that has handed out as many messages as it may, does not answer.
    ///
    /// # Errors
    /// Returns [`InvalidInput`](crate::ErrorKind::InvalidInput) if `count` is 0, and
    /// [`Closed`](crate::ErrorKind::Closed). If there is no such consumer, or it accepts only
    /// smaller requests, the error is a [`JetStream`](crate::ErrorKind::JetStream) or
    /// [`NoResponders`](crate::ErrorKind::NoResponders).
    ///
    /// # Cancellation
    /// This is a cancellation point. Messages that have come before are handed out again at once,
    /// and those that are on their way after the consumer's `ack_wait`.
    ///
    /// # Examples
    /// ```no_run
    /// # fn f(consumer: &ecru_nats::jetstream::Consumer) -> Result<(), ecru_nats::Error> {
    /// for delivery in consumer.fetch(10, std::time::Duration::from_secs(2))? {
    ///     println!("{} bytes", delivery.payload().len());
    ///     delivery.ack()?;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn fetch(&self, count: usize, limit: Duration) -> Result<Vec<Delivery>, Error> {
        if count == 0 {
            let text = format!("a fetch of {} asks for 0 messages; pass 1 or more", self.about());
            return Err(Error::invalid(text));
        }
        let client = self.jetstream.client();
        let shared = client.shared();
        let reply = format!("{}-{}", shared.inbox, unique());
        // The status that ends the request has a place of its own.
        let inbox = client.subscription(&reply).capacity(count.saturating_add(8)).open()?;
        let body = json!({ "batch": count, "no_wait": true });
        let operation = format!("CONSUMER.MSG.NEXT.{}.{}", self.stream, self.name);
        let request = Message::new(&self.jetstream.subject(&operation), body.to_string());
        let asked = ecru::time::now();
        shared.publish(&request.with_reply(&reply), false)?;
        let (mut until, slots) = (asked + limit, Slots::new(count));
        let mut found = Vec::new();
        while found.len() < count {
            let left = until.saturating_duration_since(ecru::time::now());
            let message = match inbox.receiver().recv_timeout(left) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => {
                    // What the server sends before it hears of that has come then.
                    inbox.mute();
                    let _ = client.flush();
                    until = asked;
                    match inbox.receiver().try_recv() {
                        Ok(message) => message,
                        Err(_) => break,
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Err(Error::closed()),
                Err(RecvTimeoutError::Cancelled) => {
                    found.iter().try_for_each(|delivery: &Delivery| delivery.retry(None))?;
                    ecru::checkpoint()?;
                    return Err(Error::closed());
                }
            };
            if let Some(status) = message.status() {
                match status.code() {
                    100 => continue,
                    400 => return Err(self.refused(400, status.description())),
                    409 if status.description().contains("Exceeded MaxRequest") => {
                        return Err(self.refused(409, status.description()));
                    }
                    // Says why, if the consumer is gone.
                    503 if found.is_empty() => self.info().map(drop)?,
                    _ => {}
                }
                break;
            }
            let Some(place) = message.reply().and_then(Place::parse) else {
                return Err(unsettled(message.subject()));
            };
            found.push(Delivery {
                message,
                client: client.clone(),
                place,
                received: ecru::time::now(),
                requested: Some(asked),
                slot: Some(slots.take()),
            });
        }
        Ok(found)
    }
}
