//! Storing several messages or none.

use super::{JetStream, Published};
use crate::error::{Error, ErrorKind};
use crate::link::unique;
use crate::message::{Message, check_subject};
use crate::request::Request;

/// The headers of a message in a batch: its batch, its place, and that it is the last one.
const BATCH: &str = "Nats-Batch-Id";
const PLACE: &str = "Nats-Batch-Sequence";
const LAST: &str = "Nats-Batch-Commit";

impl JetStream {
    /// Publishes messages that one stream stores together, one after another, or not at all. The
    /// stream has [`allow_batches`](super::StreamConfig::allow_batches), and the server has version
    /// 2.12 or later. Returns what the stream says about the last message.
    ///
    /// A server accepts 1,000 messages in a batch, and 50 unfinished batches for each stream,
    /// unless its configuration says otherwise. It keeps an unfinished batch for ten seconds.
    ///
    /// # Errors
    /// Returns [`InvalidInput`](ErrorKind::InvalidInput) if there is no message,
    /// [`JetStream`](ErrorKind::JetStream) if the stream refused one of them (code 10174: it allows
    /// no batches; 10199: there are too many messages; 10201: it remembers the `Nats-Msg-Id` of one
    /// of them; 10210: too many batches are unfinished), and the errors of
    /// [`publish_message`](JetStream::publish_message). If [`Error::is_outcome_unknown`], all of
    /// them may have been stored. In each other case nothing was stored.
    ///
    /// # Cancellation
    /// This is a cancellation point. All messages of a cancelled call may have been stored:
    /// [`Error::is_outcome_unknown`] tells.
    ///
    /// # Examples
    /// ```no_run
    /// use ecru_nats::Message;
    ///
    /// # fn f(jetstream: &ecru_nats::jetstream::JetStream) -> Result<(), ecru_nats::Error> {
    /// let loaves = ["rye", "wheat"].map(|flour| Message::new("jobs.bake", flour));
    /// let stored = jetstream.publish_batch(&loaves)?;
    /// println!("the last one has the number {}", stored.sequence);
    /// # Ok(())
    /// # }
    /// ```
    pub fn publish_batch(&self, messages: &[Message]) -> Result<Published, Error> {
        let Some((last, before)) = messages.split_last() else {
            return Err(Error::invalid("the batch is empty; it has at least one message"));
        };
        for message in messages {
            check_subject(message.subject())?;
        }
        let batch = unique();
        for (place, message) in before.iter().enumerate() {
            let message = placed(message, &batch, place)?;
            // The answer to the first one tells whether there are batches.
            match place {
                0 => self.begin_batch(&message).map_err(Error::without_effect)?,
                _ => self.client.publish_message(&message)?,
            }
        }
        let last = placed(last, &batch, before.len())?.with_header(LAST, "1")?;
        let answer = self.send_batched(&last)?.get().map_err(|error| match error.kind() {
            // The end of the client answers what was sent, too.
            ErrorKind::Closed => error.after_sending(),
            _ => error,
        })?;
        self.read(&answer, &format_args!("the batch to {}", last.subject()))
    }

    /// Sends the first message of a batch, and waits until the stream has it.
    fn begin_batch(&self, message: &Message) -> Result<(), Error> {
        let answer = self.send_batched(message)?.get()?;
        if answer.payload().is_empty() {
            return Ok(());
        }
        let about = format!("the batch to {}", message.subject());
        // A stream that knows no batches has stored the message.
        let Published { stream, .. } = self.read(&answer, &about)?;
        let text = format!("the stream {stream} has stored the first message of a batch by itself");
        Err(Error::new(ErrorKind::Protocol, text).at(&self.client.server()))
    }

    fn send_batched(&self, message: &Message) -> Result<Request, Error> {
        let queued = self.client.shared().request(message, None, true)?;
        Ok(self.wrap(message, queued))
    }
}

fn placed(message: &Message, batch: &str, place: usize) -> Result<Message, Error> {
    let place = (place + 1).to_string();
    message.clone().with_header(BATCH, batch)?.with_header(PLACE, &place)
}
