//! The pull consumer: a task that asks for messages before the program runs out of them.
//!
//! The algorithm is that of ADR-37, with another count: a message has a place in the window from
//! the request until its [`Delivery`] is dropped. The server therefore never hands out more than
//! the program has room for.
//!
//! - When at least half of the window is free, or nothing is requested, the task requests all that
//!   is free. A request ends after [`EXPIRES`].
//! - A status that ends a request says how many of its messages were not sent.
//! - Servers answer the requests of a consumer in turns, so a message may answer any of them. So that
//!   the oldest one is known and is not old, no request is added to one of more than [`YOUNG`]:
//!   the task waits until nothing is requested. See [`Delivery::requested_at`].
//! - If neither messages nor heartbeats come for two heartbeat intervals, or the connection is
//!   another one, nothing counts as requested any more.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ecru::channel::{self, Receiver, RecvError, Sender};
use ecru::source::WaitList;
use ecru::{Source, select};
use serde_json::json;

use super::consumer::Consumer;
use super::delivery::{Delivery, Place, unsettled};
use crate::error::Error;
use crate::link::{Changed, Phase, unique};
use crate::message::{Message, Text};
use crate::request::Request;
use crate::subscription::Subscription;

/// How long a request for messages is valid.
const EXPIRES: Duration = Duration::from_secs(30);

/// How often the server says that a request is alive.
const HEARTBEAT: Duration = Duration::from_secs(5);

/// How old a request may be to which another one is added.
const YOUNG: Duration = Duration::from_secs(1);

/// The pause after a request that could not be served.
const PAUSE: Duration = Duration::from_millis(250);

/// The largest window. A server counts the messages of a request with 32 bits or less.
const MAX_WINDOW: usize = 1 << 20;

/// The messages that a consumer hands out: a [`Receiver`] that stops asking when it is dropped.
///
/// It dereferences to the receiver. It survives the loss of a connection. It is disconnected when
/// the client ends, the consumer is deleted, or the consumer refuses requests of this size: see
/// [`ended_by`](Deliveries::ended_by).
///
/// Messages that are in the channel when it is dropped are handed out again after the consumer's
/// `ack_wait`. To hand them back at once, call [`stop`](Deliveries::stop), and
/// [`retry`](Delivery::retry) for what is left.
pub struct Deliveries {
    window: Arc<Window>,
    messages: Receiver<Delivery>,
}

/// What the task, the deliveries and the receiver share.
struct Window {
    size: usize,
    /// Messages in the channel, or received and not dropped.
    held: AtomicUsize,
    stopped: AtomicBool,
    /// Notified when a message is dropped, and by `stop`.
    list: WaitList,
    end: OnceLock<Error>,
}

impl Window {
    fn new(size: usize) -> Window {
        Window {
            size,
            held: AtomicUsize::new(0),
            stopped: AtomicBool::new(false),
            list: WaitList::new(),
            end: OnceLock::new(),
        }
    }
}

/// The place of a message in the window of its [`Deliveries`]. It is free when this is dropped.
///
/// # Examples
/// ```
/// use std::collections::VecDeque;
///
/// use ecru_nats::Error;
/// use ecru_nats::jetstream::Consumer;
///
/// /// Collects a hundred deliveries. The window bounds those in the channel only, because each
/// /// delivery that is put aside gives its place back.
/// fn collect(consumer: &Consumer) -> Result<(), Error> {
///     let deliveries = consumer.messages(8)?;
///     let mut aside = VecDeque::new();
///     for mut delivery in &deliveries {
///         drop(delivery.take_slot());
///         aside.push_back(delivery);
///         if aside.len() == 100 {
///             break;
///         }
///     }
///     aside.iter().try_for_each(|delivery| delivery.ack())
/// }
/// ```
#[must_use = "the place is free when this is dropped"]
pub struct Slot(Arc<Window>);

impl Slot {
    fn new(window: &Arc<Window>) -> Slot {
        window.held.fetch_add(1, Ordering::Relaxed);
        Slot(Arc::clone(window))
    }
}

impl fmt::Debug for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Slot").finish_non_exhaustive()
    }
}

/// The places of messages that belong to no window.
pub(super) struct Slots(Arc<Window>);

impl Slots {
    pub(super) fn new(size: usize) -> Slots {
        Slots(Arc::new(Window::new(size)))
    }

    pub(super) fn take(&self) -> Slot {
        Slot::new(&self.0)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Release);
        self.0.list.notify_all();
    }
}

/// Ready when at most `most` messages are held, or the program wants no more.
struct Freed<'a> {
    window: &'a Window,
    /// `None` if no number of free places is enough.
    most: Option<usize>,
}

impl Source for Freed<'_> {
    type Item = ();

    fn try_take(&self) -> Option<()> {
        let held = self.window.held.load(Ordering::Acquire);
        let freed = self.most.is_some_and(|most| held <= most);
        (freed || self.window.stopped.load(Ordering::Acquire)).then_some(())
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.window.list);
    }
}

pub(super) fn begin(consumer: &Consumer, window: usize) -> Result<Deliveries, Error> {
    let client = consumer.jetstream.client();
    let window = window.min(MAX_WINDOW);
    // Statuses have places of their own.
    let capacity = window.saturating_mul(2).saturating_add(64);
    let reply = format!("{}-{}", client.shared().inbox, unique());
    let inbox = client.subscription(&reply).capacity(capacity).open()?;
    let window = Arc::new(Window::new(window));
    // The window bounds it.
    let (give, messages) = channel::unbounded();
    let pull = Pull {
        consumer: consumer.clone(),
        window: Arc::clone(&window),
        inbox,
        reply,
        give,
        requested: 0,
        oldest: None,
        generation: 0,
        connected: false,
        asked: ecru::time::now(),
        heard: ecru::time::now(),
        not_before: None,
    };
    let queued = client.shared().jobs.send(Box::new(move || pull.run()));
    queued.map_err(|_| Error::closed())?;
    Ok(Deliveries { window, messages })
}

struct Pull {
    consumer: Consumer,
    window: Arc<Window>,
    inbox: Subscription,
    reply: String,
    give: Sender<Delivery>,
    /// How many messages were requested and have not come.
    requested: usize,
    /// When the first request was made that the server may answer now.
    oldest: Option<Instant>,
    generation: u64,
    connected: bool,
    /// When messages were requested last.
    asked: Instant,
    /// When the server was heard last.
    heard: Instant,
    /// Before this time nothing is requested.
    not_before: Option<Instant>,
}

impl Pull {
    fn run(mut self) {
        if let Err(error) = self.work() {
            // Its task is cancelled only when the client ends.
            let is_cancelled = error.cancelled().is_some();
            let _ = self.window.end.set(if is_cancelled { Error::closed() } else { error });
        }
        // The receiver is disconnected after the error has been set.
    }

    fn work(&mut self) -> Result<(), Error> {
        let inbox = self.inbox.receiver().clone();
        let shared = Arc::clone(self.consumer.jetstream.client().shared());
        let window = Arc::clone(&self.window);
        loop {
            if self.window.stopped.load(Ordering::Acquire) {
                return self.drain(&inbox);
            }
            self.request()?;
            let changed = Changed { shared: &shared, from: self.generation };
            let freed = Freed { window: &window, most: self.worth_asking_at() };
            let patience = self.patience();
            select! {
                recv(inbox) -> message => match message {
                    Ok(message) => self.handle(message)?,
                    Err(_) => return Err(Error::closed()),
                },
                wait(&freed) -> result => result?,
                wait(&changed) -> result => {
                    let (generation, phase) = result?;
                    if phase == Phase::Closed {
                        return Err(Error::closed());
                    }
                    // What has come over the last connection answers its requests.
                    while let Ok(message) = inbox.try_recv() {
                        self.handle(message)?;
                    }
                    self.oldest = None;
                    self.generation = generation;
                    self.connected = phase == Phase::Connected;
                    self.requested = 0;
                    self.not_before = None;
                    self.heard = ecru::time::now();
                },
                default(patience) => {
                    if self.is_deaf() {
                        self.requested = 0;
                        self.heard = ecru::time::now();
                    }
                },
            }
        }
    }

    /// Hands over what the server has sent. It sends no more after it has been unsubscribed from.
    fn drain(&mut self, inbox: &Receiver<Message>) -> Result<(), Error> {
        if self.requested > 0 && self.connected {
            let shared = self.consumer.jetstream.client().shared();
            self.inbox.mute();
            let flushed = Request::new(shared, Text::fixed("PING"), shared.ping()?);
            loop {
                select! {
                    recv(inbox) -> message => match message {
                        Ok(message) => self.hand_over_late(message)?,
                        Err(_) => return Ok(()),
                    },
                    // Without an answer, the messages are handed out again later.
                    wait(&flushed) -> _ => break,
                }
            }
        }
        while let Ok(message) = inbox.try_recv() {
            self.hand_over_late(message)?;
        }
        Ok(())
    }

    fn hand_over_late(&mut self, message: Message) -> Result<(), Error> {
        if message.status().is_some() { Ok(()) } else { self.hand_over(message) }
    }

    /// Returns how many held messages leave enough room for another request.
    fn worth_asking_at(&self) -> Option<usize> {
        let is_old = |oldest| ecru::time::now().duration_since(oldest) >= YOUNG;
        let waits = self.requested > 0 && self.oldest.is_some_and(is_old);
        if !self.connected || self.is_pausing() || waits {
            return None;
        }
        let least = if self.requested == 0 { 1 } else { self.window.size.div_ceil(2) };
        self.window.size.checked_sub(self.requested + least)
    }

    fn is_pausing(&self) -> bool {
        self.not_before.is_some_and(|until| ecru::time::now() < until)
    }

    fn is_deaf(&self) -> bool {
        self.requested > 0 && ecru::time::now().duration_since(self.heard) >= 2 * HEARTBEAT
    }

    /// Returns how long to wait for something to happen.
    fn patience(&self) -> Duration {
        let now = ecru::time::now();
        let until = match self.not_before.filter(|until| *until > now) {
            Some(until) => until,
            None => self.heard + 2 * HEARTBEAT,
        };
        // If nothing is requested, only a dropped message or a new connection matters.
        if self.requested == 0 && !self.is_pausing() {
            2 * HEARTBEAT
        } else {
            until.saturating_duration_since(now)
        }
    }

    /// Requests what there is room for, if it is worth it.
    fn request(&mut self) -> Result<(), Error> {
        let held = self.window.held.load(Ordering::Acquire);
        if self.worth_asking_at().is_none_or(|most| held > most) {
            return Ok(());
        }
        let batch = self.window.size - self.requested - held;
        let body = json!({
            "batch": batch,
            "expires": u64::try_from(EXPIRES.as_nanos()).unwrap_or(u64::MAX),
            "idle_heartbeat": u64::try_from(HEARTBEAT.as_nanos()).unwrap_or(u64::MAX),
        });
        let Consumer { jetstream, stream, name } = &self.consumer;
        let subject = jetstream.subject(&format!("CONSUMER.MSG.NEXT.{stream}.{name}"));
        let message = Message::new(&subject, body.to_string()).with_reply(&self.reply);
        let asked = ecru::time::now();
        self.oldest.get_or_insert(asked);
        jetstream.client().shared().publish(&message, false)?;
        self.requested += batch;
        (self.asked, self.heard) = (asked, asked);
        Ok(())
    }

    fn handle(&mut self, message: Message) -> Result<(), Error> {
        self.heard = ecru::time::now();
        let Some(status) = message.status().cloned() else { return self.hand_over(message) };
        let words = status.description().to_ascii_lowercase();
        let unsent = message.headers().get("Nats-Pending-Messages");
        let unsent = unsent.and_then(|number| number.parse::<usize>().ok());
        match status.code() {
            // A heartbeat.
            100 => return Ok(()),
            // The consumer is gone, or accepts only smaller requests.
            409 if words.contains("consumer deleted")
                || words.contains("push based")
                || words.contains("exceeded maxrequest") =>
            {
                return Err(self.consumer.refused(409, status.description()));
            }
            400 => return Err(self.consumer.refused(400, status.description())),
            // A request has ended as it should, unless that was at once.
            404 | 408 if self.heard - self.asked >= PAUSE => {}
            _ => {
                // The server needs time: it has no leader, for instance, or too many requests.
                self.not_before = Some(self.heard + PAUSE);
                if status.code() == 503 {
                    self.look_for_consumer()?;
                }
            }
        }
        self.came(unsent.unwrap_or(self.requested));
        Ok(())
    }

    /// Notes that so many of the requested messages have come, or will not.
    fn came(&mut self, count: usize) {
        self.requested = self.requested.saturating_sub(count);
        if self.requested == 0 {
            self.oldest = None;
        }
    }

    fn hand_over(&mut self, message: Message) -> Result<(), Error> {
        let requested = self.oldest;
        self.came(1);
        let Some(place) = message.reply().and_then(Place::parse) else {
            return Err(unsettled(message.subject()));
        };
        // More than was asked for comes after heartbeats were missed, or from a server that does
        // not count.
        if self.window.held.load(Ordering::Acquire) >= 2 * self.window.size {
            return Ok(());
        }
        let slot = Slot::new(&self.window);
        let client = self.consumer.jetstream.client().clone();
        let received = ecru::time::now();
        let slot = Some(slot);
        let delivery = Delivery { message, client, place, received, requested, slot };
        match self.give.try_send(delivery) {
            Ok(()) => Ok(()),
            // The receiver has been dropped or closed.
            Err(error) => error.into_inner().retry(None),
        }
    }

    /// Fails if there is no such consumer any more. Without a responder, requests say only that.
    fn look_for_consumer(&self) -> Result<(), Error> {
        match self.consumer.info() {
            // No such consumer, no such stream.
            Err(error) if matches!(error.code(), Some(10014 | 10059)) => Err(error),
            Err(error) if error.cancelled().is_some() => Err(error),
            _ => Ok(()),
        }
    }
}

impl Deliveries {
    /// Returns the receiver itself.
    #[must_use]
    pub fn receiver(&self) -> &Receiver<Delivery> {
        &self.messages
    }

    /// Stops asking for messages. Those in the channel, and those that the server has sent, can
    /// still be received. Then the receiver is disconnected.
    pub fn stop(&self) {
        self.window.stopped.store(true, Ordering::Release);
        self.window.list.notify_all();
    }

    /// Returns why the server hands out no more messages, for instance because the consumer was
    /// deleted. `None` if it still does, or after [`stop`](Deliveries::stop).
    #[must_use]
    pub fn ended_by(&self) -> Option<&Error> {
        self.window.end.get()
    }
}

impl Drop for Deliveries {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Deref for Deliveries {
    type Target = Receiver<Delivery>;

    fn deref(&self) -> &Receiver<Delivery> {
        &self.messages
    }
}

impl Source for Deliveries {
    type Item = Result<Delivery, RecvError>;

    fn try_take(&self) -> Option<Self::Item> {
        self.messages.try_take()
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        self.messages.waiters(each);
    }
}

impl<'a> IntoIterator for &'a Deliveries {
    type Item = Delivery;
    type IntoIter = channel::Iter<'a, Delivery>;

    fn into_iter(self) -> channel::Iter<'a, Delivery> {
        self.messages.iter()
    }
}

impl fmt::Debug for Deliveries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held = self.window.held.load(Ordering::Relaxed);
        let mut shown = f.debug_struct("Deliveries");
        shown.field("window", &self.window.size).field("held", &held).finish_non_exhaustive()
    }
}
