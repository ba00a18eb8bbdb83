//! A subscription: a channel that a connection fills.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ecru::Source;
use ecru::channel::{self, Receiver, RecvError};
use ecru::source::WaitList;

use crate::client::Client;
use crate::error::Error;
use crate::link::Shared;
use crate::message::{Message, check_name, check_pattern};

/// The messages of a subject: a [`Receiver`] that unsubscribes when it is dropped.
///
/// It dereferences to the receiver, so it can be received from, iterated over, selected and raced.
/// It survives the loss of a connection: messages that are published meanwhile are lost. It is
/// disconnected when the client ends.
///
/// If the program receives more slowly than messages arrive, and the channel is full, messages are
/// dropped and [counted](Subscription::dropped).
pub struct Subscription {
    shared: Arc<Shared>,
    sid: u64,
    dropped: Arc<AtomicU64>,
    messages: Receiver<Message>,
}

/// The settings of a subscription. See [`Client::subscription`].
///
/// # Examples
/// ```
/// use ecru_nats::{Client, Error};
///
/// /// One of several workers: each message goes to one member of the group.
/// fn work(client: &Client) -> Result<(), Error> {
///     let jobs = client.subscription("jobs.*").queue("bakers").capacity(16).open()?;
///     for job in &jobs {
///         println!("{}, and {} were dropped", job.subject(), jobs.dropped());
///     }
///     Ok(())
/// }
/// ```
#[derive(Debug)]
#[must_use = "a subscription begins with `open`"]
pub struct SubscriptionBuilder<'a> {
    client: &'a Client,
    subject: &'a str,
    queue: Option<&'a str>,
    capacity: usize,
}

impl<'a> SubscriptionBuilder<'a> {
    pub(crate) fn new(client: &'a Client, subject: &'a str) -> SubscriptionBuilder<'a> {
        SubscriptionBuilder { client, subject, queue: None, capacity: 1024 }
    }

    /// Joins a queue group. Each message goes to one member of a group.
    pub fn queue(mut self, group: &'a str) -> SubscriptionBuilder<'a> {
        self.queue = Some(group);
        self
    }

    /// Sets how many messages the channel holds. The default is 1024.
    pub fn capacity(mut self, messages: usize) -> SubscriptionBuilder<'a> {
        self.capacity = messages.max(1);
        self
    }

    /// Subscribes.
    ///
    /// # Errors
    /// Returns [`InvalidInput`](crate::ErrorKind::InvalidInput) for a malformed subject or group,
    /// [`Closed`](crate::ErrorKind::Closed) and [`Cancelled`](crate::ErrorKind::Cancelled). A
    /// server that forbids the subject says so in an [`Event`](crate::Event).
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled call has not subscribed.
    pub fn open(self) -> Result<Subscription, Error> {
        check_pattern(self.subject)?;
        if let Some(queue) = self.queue {
            check_name("queue group", queue)?;
        }
        let (sender, messages) = channel::bounded(self.capacity);
        let shared = self.client.shared();
        let (sid, dropped) = shared.subscribe(self.subject, self.queue, sender)?;
        Ok(Subscription { shared: Arc::clone(shared), sid, dropped, messages })
    }
}

impl Subscription {
    /// Returns the receiver itself. A clone of it does not keep the subscription.
    #[must_use]
    pub fn receiver(&self) -> &Receiver<Message> {
        &self.messages
    }

    /// Returns how many messages were dropped because the channel was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Subscription {
    /// Tells the server to send no more. What it has sent still arrives.
    pub(crate) fn mute(&self) {
        self.shared.mute(self.sid);
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.shared.unsubscribe(self.sid);
    }
}

impl Deref for Subscription {
    type Target = Receiver<Message>;

    fn deref(&self) -> &Receiver<Message> {
        &self.messages
    }
}

impl Source for Subscription {
    type Item = Result<Message, RecvError>;

    fn try_take(&self) -> Option<Self::Item> {
        self.messages.try_take()
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        self.messages.waiters(each);
    }
}

impl<'a> IntoIterator for &'a Subscription {
    type Item = Message;
    type IntoIter = channel::Iter<'a, Message>;

    fn into_iter(self) -> channel::Iter<'a, Message> {
        self.messages.iter()
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("messages", &self.messages).finish_non_exhaustive()
    }
}
