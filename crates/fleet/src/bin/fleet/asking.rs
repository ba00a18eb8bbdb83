//! Questions to servers, and whether the user may ask them.
//!
//! A server does not answer what the user may not ask. It reports an error instead, with which the
//! client fails a request. To several answers, and to subscriptions, it is an event of the client.

use std::io;
use std::time::{Duration, SystemTime};

use ecru::channel::{Receiver, RecvError};
use ecru::{Cancelled, select};
use ecru_nats::{Client, Error, ErrorKind, Event, Message};

/// A connection whose questions have a time limit.
pub(crate) struct Asking {
    pub(crate) client: Client,
    events: Receiver<Event>,
    limit: Duration,
}

/// What came of a question.
pub(crate) enum Answer {
    /// Something has answered.
    Message(Message),
    /// Nothing listens to the subject.
    NoResponders,
    /// The user may not ask. These are the server's words.
    Forbidden(String),
    /// No answer came in time, or the connection was lost.
    Silence(String),
}

/// An answer of one of several, and when it was asked for and came.
pub(crate) struct Heard {
    pub(crate) message: Message,
    pub(crate) asked: SystemTime,
    pub(crate) came: SystemTime,
}

impl Asking {
    pub(crate) fn new(client: Client, limit: Duration) -> Asking {
        let events = client.events();
        Asking { client, events, limit }
    }

    /// Asks one question.
    pub(crate) fn ask(&self, question: &Message) -> io::Result<Answer> {
        let request = self.client.request_message(question)?.timeout(self.limit);
        loop {
            select! {
                wait(&request) -> answer => {
                    return match answer? {
                        Ok(message) => Ok(Answer::Message(message)),
                        Err(error) if error.kind() == ErrorKind::Authorization => {
                            // The event has come before.
                            let words = self.refused(question.subject())?;
                            Ok(Answer::Forbidden(words.unwrap_or_else(|| error.to_string())))
                        }
                        Err(error) => refused(error),
                    };
                },
                recv(self.events) -> event => {
                    if let Some(words) = refusal(event, question.subject())? {
                        return Ok(Answer::Forbidden(words));
                    }
                },
            }
        }
    }

    /// Asks all servers of the cluster. Returns when as many have answered as there are, by what
    /// the own server knows, or when the time is over.
    pub(crate) fn ask_all(
        &self,
        subject: &str,
        body: &str,
    ) -> io::Result<Result<Vec<Heard>, Answer>> {
        let info = self.client.server_info();
        let servers = if info.cluster.is_empty() { 1 } else { info.connect_urls.len().max(1) };
        let asked = SystemTime::now();
        let deadline = ecru::time::now() + self.limit;
        let answers = self.client.request_many(subject, body.to_owned())?;
        let mut heard = Vec::new();
        while heard.len() < servers {
            let left = deadline.saturating_duration_since(ecru::time::now());
            select! {
                recv(answers.receiver()) -> answer => {
                    let message = answer.map_err(ended)?;
                    if message.status().is_some_and(|status| status.code() == 503) {
                        return Ok(Err(Answer::NoResponders));
                    }
                    heard.push(Heard { message, asked, came: SystemTime::now() });
                },
                recv(self.events) -> event => {
                    if let Some(words) = refusal(event, subject)? {
                        return Ok(Err(Answer::Forbidden(words)));
                    }
                },
                default(left) => break,
            }
        }
        if heard.is_empty() {
            let words = format!("no server has answered within {:?}", self.limit);
            return Ok(Err(Answer::Silence(words)));
        }
        Ok(Ok(heard))
    }

    /// Returns the server's words if it has refused something that has to do with `subject` before
    /// it answered the last flush.
    pub(crate) fn refused(&self, subject: &str) -> io::Result<Option<String>> {
        while let Ok(event) = self.events.try_recv() {
            if let Some(words) = refusal(Ok(event), subject)? {
                return Ok(Some(words));
            }
        }
        Ok(None)
    }
}

fn refused(error: Error) -> io::Result<Answer> {
    match error.kind() {
        ErrorKind::NoResponders => Ok(Answer::NoResponders),
        ErrorKind::TimedOut | ErrorKind::Disconnected => Ok(Answer::Silence(error.to_string())),
        _ => Err(error.into()),
    }
}

/// Returns the server's words, if the event is an error that names the subject.
fn refusal(event: Result<Event, RecvError>, subject: &str) -> io::Result<Option<String>> {
    match event.map_err(ended)? {
        Event::ServerError { words, .. } if words.contains(subject) => Ok(Some(words)),
        _ => Ok(None),
    }
}

fn ended(error: RecvError) -> io::Error {
    match error {
        RecvError::Disconnected => {
            let text = "the connection has ended; see the log of the server";
            io::Error::new(io::ErrorKind::ConnectionAborted, text)
        }
        cancelled => cancelled.into(),
    }
}

/// Returns whether the error is the end of the program and not a finding.
pub(crate) fn is_cancelled(error: &io::Error) -> bool {
    Cancelled::find(error).is_some()
}
