//! A request that is under way.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ecru::Source;
use ecru::channel::{self, Receiver};
use ecru::source::WaitList;

use crate::error::{Error, ErrorKind};
use crate::link::{Queued, Shared};
use crate::message::{Message, Text};

/// A request whose answer is awaited: a [`Source`] of one `Result`. Dropping it forgets the
/// request, which the service may process all the same.
///
/// The time limit of [`Options::request_timeout`](crate::Options::request_timeout) begins when the
/// request is queued.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// use ecru::Source;
/// use ecru::source;
/// use ecru_nats::{Client, Error};
///
/// /// Asks two mills. The answer of the first one that answers is taken.
/// fn ask(client: &Client) -> Result<usize, Error> {
///     let near = client.request("mill.near", "rye")?.timeout(Duration::from_secs(1));
///     let far = client.request("mill.far", "rye")?;
///     let answer = source::race([&near, &far]).wait()??;
///     Ok(answer.payload().len())
/// }
///
/// /// Asks one, and waits for its answer.
/// fn ask_one(client: &Client) -> Result<usize, Error> {
///     Ok(client.request("mill.near", "rye")?.get()?.payload().len())
/// }
/// ```
#[must_use = "the answer of a request that is dropped is lost"]
pub struct Request {
    shared: Arc<Shared>,
    token: u64,
    answer: Receiver<Result<Message, Error>>,
    /// `None` if never.
    due: Option<Instant>,
    /// Created when something waits. Most answers are there when they are asked for.
    expiry: OnceLock<Receiver<Instant>>,
    limit: Duration,
    subject: Text,
}

impl Request {
    pub(crate) fn new(shared: &Arc<Shared>, subject: Text, (token, answer): Queued) -> Request {
        let limit = shared.options.request_timeout;
        Request {
            shared: Arc::clone(shared),
            token,
            answer,
            due: ecru::time::now().checked_add(limit),
            expiry: OnceLock::new(),
            limit,
            subject,
        }
    }

    pub(crate) fn subject(&self) -> &str {
        self.subject.as_str()
    }

    /// Returns whether the time limit has passed.
    fn has_expired(&self) -> bool {
        match self.expiry.get() {
            // What has woken the waiter decides, and not another look at the clock.
            Some(expiry) => expiry.try_take().is_some(),
            None => self.due.is_some_and(|due| ecru::time::now() >= due),
        }
    }

    /// Returns a request with another time limit, which begins now.
    pub fn timeout(mut self, limit: Duration) -> Request {
        (self.due, self.limit) = (ecru::time::now().checked_add(limit), limit);
        self.expiry = OnceLock::new();
        self
    }

    /// Waits for the answer.
    ///
    /// # Errors
    /// Returns [`NoResponders`](ErrorKind::NoResponders) if nothing subscribes to the subject,
    /// [`Authorization`](ErrorKind::Authorization) if the user may not publish to it,
    /// [`TimedOut`](ErrorKind::TimedOut), [`Disconnected`](ErrorKind::Disconnected) if the
    /// connection was lost meanwhile, [`Closed`](ErrorKind::Closed) and
    /// [`Cancelled`](ErrorKind::Cancelled).
    ///
    /// # Cancellation
    /// This is a cancellation point. The service may have processed a cancelled request.
    pub fn get(self) -> Result<Message, Error> {
        match self.wait() {
            Ok(answer) => answer,
            Err(cancelled) => Err(Error::from(cancelled).after_sending()),
        }
    }

    fn checked(&self, answer: Result<Message, Error>) -> Result<Message, Error> {
        let message = answer?;
        if message.status().is_some_and(|status| status.code() == 503) {
            let text = format!(
                "nothing subscribes to the subject {}; start the service or create the stream",
                self.subject()
            );
            return Err(Error::new(ErrorKind::NoResponders, text).at(&self.shared.link().server));
        }
        Ok(message)
    }
}

impl Source for Request {
    type Item = Result<Message, Error>;

    fn try_take(&self) -> Option<Self::Item> {
        match self.answer.try_take() {
            Some(Ok(answer)) => Some(self.checked(answer)),
            Some(Err(_)) => Some(Err(Error::new(
                ErrorKind::Closed,
                format!("the answer of the request to {} was taken already", self.subject()),
            ))),
            None => self.has_expired().then(|| {
                self.shared.forget(self.token);
                let text = format!(
                    "no answer from {} within {:?}; it may have been processed",
                    self.subject(),
                    self.limit
                );
                Err(Error::new(ErrorKind::TimedOut, text).at(&self.shared.link().server))
            }),
        }
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        self.answer.waiters(each);
        let expiry = || self.due.map_or_else(channel::never, channel::at);
        self.expiry.get_or_init(expiry).waiters(each);
    }
}

impl Drop for Request {
    fn drop(&mut self) {
        self.shared.forget(self.token);
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("subject", &self.subject()).finish_non_exhaustive()
    }
}
