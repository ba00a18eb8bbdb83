//! Messages that a consumer has handed out.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::pull::Slot;
use crate::client::Client;
use crate::error::{Error, ErrorKind};
use crate::message::Message;
use crate::request::Request;

/// What happens to a message that was handed out.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use ecru_nats::Error;
/// use ecru_nats::jetstream::{Ack, Delivery};
///
/// /// Settles a job and waits until the server has stored that.
/// fn settle(job: &Delivery, result: Result<(), String>) -> Result<(), Error> {
///     match result {
///         Ok(()) => job.confirm(&Ack::Done),
///         Err(_) if job.attempt() < 3 => job.confirm(&Ack::Retry(Some(Duration::from_secs(5)))),
///         Err(why) => job.confirm(&Ack::Terminate(why)),
///     }
/// }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ack {
    /// It is done.
    Done,
    /// It is being worked on: the consumer's `ack_wait` begins anew.
    InProgress,
    /// It is handed out again, at once or after a pause. This counts as a delivery.
    Retry(Option<Duration>),
    /// It is never handed out again, for this reason. In a work queue it is deleted.
    Terminate(String),
}

impl Ack {
    fn text(&self) -> Bytes {
        match self {
            Ack::Done => Bytes::from_static(b"+ACK"),
            Ack::InProgress => Bytes::from_static(b"+WPI"),
            Ack::Retry(None) => Bytes::from_static(b"-NAK"),
            Ack::Retry(Some(delay)) => {
                let nanoseconds = i64::try_from(delay.as_nanos()).unwrap_or(i64::MAX);
                format!("-NAK {{\"delay\":{nanoseconds}}}").into()
            }
            Ack::Terminate(why) if why.is_empty() => Bytes::from_static(b"+TERM"),
            Ack::Terminate(why) => format!("+TERM {}", why.replace(['\r', '\n'], " ")).into(),
        }
    }
}

/// A message that a consumer has handed out. It dereferences to the [`Message`].
///
/// It has a place in the [window](super::Consumer::messages) until it is dropped. Dropping it
/// settles nothing: the consumer hands the message out again after its `ack_wait`.
///
/// [`ack`](Delivery::ack), [`retry`](Delivery::retry), [`in_progress`](Delivery::in_progress) and
/// [`terminate`](Delivery::terminate) queue what they say. They never wait, and work in a cancelled
/// task, too. [`confirm`](Delivery::confirm) waits until the server has stored it.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use ecru_nats::Error;
/// use ecru_nats::jetstream::{Ack, Delivery};
///
/// /// Bakes in ten steps, longer than the consumer's `ack_wait`.
/// fn bake(job: &Delivery, step: impl Fn(&[u8], u32) -> Result<(), String>) -> Result<(), Error> {
///     if job.attempt() > 5 {
///         return job.terminate("five attempts have failed");
///     }
///     for number in 0..10 {
///         if step(job.payload(), number).is_err() {
///             return job.retry(Some(Duration::from_secs(30)));
///         }
///         job.in_progress()?;
///     }
///     job.ack()
/// }
///
/// /// Settles several jobs, and waits once for all of them.
/// fn settle_all(jobs: &[Delivery]) -> Result<(), Error> {
///     let confirming = jobs.iter().map(|job| job.begin_confirm(&Ack::Done));
///     for request in confirming.collect::<Result<Vec<_>, _>>()? {
///         // An error here may mean that the server has stored it all the same.
///         request.get()?;
///     }
///     Ok(())
/// }
/// ```
pub struct Delivery {
    pub(super) message: Message,
    pub(super) client: Client,
    pub(super) place: Place,
    pub(super) received: Instant,
    pub(super) requested: Option<Instant>,
    pub(super) slot: Option<Slot>,
}

/// What the subject for acknowledgements says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    deliveries: u64,
    stream_sequence: u64,
    consumer_sequence: u64,
    timestamp: u64,
    pending: u64,
}

impl Place {
    /// Parses `$JS.ACK.stream.consumer.deliveries.stream_sequence.consumer_sequence.time.pending`,
    /// or the longer form, which has a domain and an account after `ACK`.
    pub(super) fn parse(subject: &str) -> Option<Place> {
        let tokens: Vec<&str> = subject.split('.').take(16).collect();
        if tokens.first() != Some(&"$JS") || tokens.get(1) != Some(&"ACK") {
            return None;
        }
        let begin = if tokens.len() == 9 { 4 } else { 6 };
        let mut numbers = tokens.get(begin..begin + 5)?.iter().map(|token| token.parse().ok());
        let mut next = || numbers.next().flatten();
        Some(Place {
            deliveries: next()?,
            stream_sequence: next()?,
            consumer_sequence: next()?,
            timestamp: next()?,
            pending: next()?,
        })
    }
}

impl Delivery {
    /// Returns how often the message has been handed out, with this time: 1 for the first.
    #[must_use]
    pub fn attempt(&self) -> u64 {
        self.place.deliveries
    }

    /// Returns the message's sequence number in the stream.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.place.stream_sequence
    }

    /// Returns the sequence number of this delivery in the consumer.
    #[must_use]
    pub fn consumer_sequence(&self) -> u64 {
        self.place.consumer_sequence
    }

    /// Returns when the message was stored, as the time since 1970.
    #[must_use]
    pub fn stored_at(&self) -> Duration {
        Duration::from_nanos(self.place.timestamp)
    }

    /// Returns when the message was received, by [`ecru::time::now`]. The consumer's `ack_wait`
    /// began before that.
    #[must_use]
    pub fn received_at(&self) -> Instant {
        self.received
    }

    /// Returns when this program made the request that the message answers, by
    /// [`ecru::time::now`]. The consumer's `ack_wait` began after that. `None` if it answers none
    /// that this program knows, for instance because a server has handed it out twice.
    #[must_use]
    pub fn requested_at(&self) -> Option<Instant> {
        self.requested
    }

    /// Returns how many messages the consumer had not handed out when it handed out this one.
    #[must_use]
    pub fn pending(&self) -> u64 {
        self.place.pending
    }

    /// Takes the message out of the [window](super::Consumer::messages), and returns its place. So
    /// the program decides when another message is asked for. `None` if it was taken before.
    pub fn take_slot(&mut self) -> Option<Slot> {
        self.slot.take()
    }

    /// Queues that the message is done.
    ///
    /// # Errors
    /// Returns [`Closed`](ErrorKind::Closed).
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn ack(&self) -> Result<(), Error> {
        self.tell(&Ack::Done)
    }

    /// Queues that the message is to be handed out again, at once or after a pause.
    ///
    /// # Errors
    /// Returns [`Closed`](ErrorKind::Closed).
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn retry(&self, delay: Option<Duration>) -> Result<(), Error> {
        self.tell(&Ack::Retry(delay))
    }

    /// Queues that the message is being worked on.
    ///
    /// # Errors
    /// Returns [`Closed`](ErrorKind::Closed).
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn in_progress(&self) -> Result<(), Error> {
        self.tell(&Ack::InProgress)
    }

    /// Queues that the message is never to be handed out again.
    ///
    /// # Errors
    /// Returns [`Closed`](ErrorKind::Closed).
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn terminate(&self, why: &str) -> Result<(), Error> {
        self.tell(&Ack::Terminate(why.to_owned()))
    }

    fn tell(&self, ack: &Ack) -> Result<(), Error> {
        self.client.shared().publish(&self.answer(ack), false)
    }

    /// Tells the server what happens to the message and waits until it has stored that.
    ///
    /// # Errors
    /// Returns the errors of a [request](Request::get). A `TimedOut` or `Disconnected` tells that
    /// the server may have stored it.
    ///
    /// # Cancellation
    /// This is a cancellation point. The server may have stored it all the same.
    ///
    /// # Examples
    /// ```
    /// use ecru_nats::Error;
    /// use ecru_nats::jetstream::{Ack, Delivery};
    ///
    /// /// Sends a letter at most once: only after the server has stored that the job is done.
    /// fn send(job: &Delivery, send: impl FnOnce(&[u8])) -> Result<(), Error> {
    ///     job.confirm(&Ack::Done)?;
    ///     send(job.payload());
    ///     Ok(())
    /// }
    /// ```
    pub fn confirm(&self, ack: &Ack) -> Result<(), Error> {
        self.begin_confirm(ack)?.get().map(drop)
    }

    /// Tells the server what happens to the message, without waiting. The result is a source of
    /// the server's confirmation.
    ///
    /// # Errors
    /// Returns [`Closed`](ErrorKind::Closed).
    ///
    /// # Cancellation
    /// This call does not wait.
    pub fn begin_confirm(&self, ack: &Ack) -> Result<Request, Error> {
        let message = self.answer(ack);
        let shared: &Arc<_> = self.client.shared();
        let queued = shared.request(&message, None, false)?;
        Ok(Request::new(shared, message.subject.clone(), queued))
    }

    fn answer(&self, ack: &Ack) -> Message {
        Message::to(self.message.reply.clone().unwrap_or_default(), ack.text())
    }
}

impl Deref for Delivery {
    type Target = Message;

    fn deref(&self) -> &Message {
        &self.message
    }
}

impl fmt::Debug for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Delivery");
        shown.field("message", &self.message).field("place", &self.place).finish_non_exhaustive()
    }
}

/// Returns the error of an acknowledgement that has no subject.
pub(super) fn unsettled(subject: &str) -> Error {
    let text = format!("a message with the subject {subject} has no valid subject for its answer");
    Error::new(ErrorKind::Protocol, text)
}

#[cfg(test)]
mod tests {
    use super::Place;

    #[test]
    fn subjects_for_acknowledgements() {
        let place = Place {
            deliveries: 1,
            stream_sequence: 20,
            consumer_sequence: 3,
            timestamp: 4,
            pending: 5,
        };
        assert_eq!(Place::parse("$JS.ACK.S.C.1.20.3.4.5"), Some(place));
        assert_eq!(Place::parse("$JS.ACK._.hash.S.C.1.20.3.4.5.token"), Some(place));
        assert_eq!(Place::parse("$JS.ACK._.hash.S.C.1.20.3.4.5"), Some(place));
        for bad in
            ["", "$JS.ACK", "$JS.ACK.S.C.1.20.3.4.x", "$JS.NAK.S.C.1.20.3.4.5", "$JS.ACK.S.C.1.20"]
        {
            assert_eq!(Place::parse(bad), None, "{bad}");
        }
    }
}
