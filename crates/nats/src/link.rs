//! What the client's handles and its tasks share.
//!
//! - Handles append frames to `out` and register what waits for answers. The writer takes the whole
//!   of `out` at once, so many small messages are one write.
//! - Each request has a token. Tokens are handed out in the order of `out`, and `sent` is the first
//!   one that no connection has been given. When a connection is lost, the requests below `sent`
//!   fail, because their answers are lost. The others wait for the next connection.
//! - The lock is never held during a wait, nor while values are given to channels, because a
//!   receiver's callback may use the client.

mod requests;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use ecru::channel::{self, Receiver, Sender};
use ecru::source::WaitList;
use ecru::{CancelHandle, Source};

use crate::client::Event;
use crate::error::{Error, ErrorKind};
use crate::message::{Message, Text};
use crate::options::Options;
use crate::random::{self, Salts};
use crate::server::{Server, ServerInfo};
use crate::wire;
use requests::Pending;

/// The subscription that receives all answers.
pub(crate) const REPLIES: u64 = 1;

/// How many events are kept for a slow reader.
const EVENTS: usize = 64;

/// The token of a request, and the receiver of its answer.
pub(crate) type Queued = (u64, Receiver<Result<Message, Error>>);

/// A closure that becomes a task beside the connection.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The shared part of a client.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) inbox: String,
    /// Makes the subject of each answer unpredictable. A service sees that of its own request, and
    /// could otherwise answer the requests to others.
    salts: Salts,
    link: Mutex<Link>,
    /// Notified when there is something to write.
    work: WaitList,
    /// Notified when `out` has room.
    room: WaitList,
    /// Notified when the generation changes.
    pub(crate) changes: WaitList,
    pub(crate) acks: ecru::sync::Semaphore,
    pub(crate) jobs: Sender<Job>,
    /// Cancels the client's task.
    ending: OnceLock<CancelHandle>,
    events: (Sender<Event>, Receiver<Event>),
}

/// The guarded part.
pub(crate) struct Link {
    pub(crate) phase: Phase,
    /// Whether the client is to end before its scope does.
    ends: bool,
    /// Whether the server has received everything, at the end of the client.
    received: bool,
    /// Whether nothing was lost, after the end of the client.
    ended: Option<bool>,
    /// Counts connections and losses.
    pub(crate) generation: u64,
    pub(crate) server: Arc<str>,
    pub(crate) info: Arc<ServerInfo>,
    out: Vec<u8>,
    /// How many bytes at the front of `out` renew the subscriptions on this connection.
    renewing: usize,
    /// The writer's last buffer, empty, to be filled next.
    spare: Vec<u8>,
    /// Where the subject of an answer is written before the message.
    reply: String,
    /// Whether the encryption has something to send.
    owes: bool,
    /// Whether to ask the server if it is there. The `PING` is written at the end of a batch, so
    /// that its place among `pongs` is certain.
    asks: bool,
    /// How many `PONG` frames the server is owed.
    owed_pongs: u8,
    next_token: u64,
    sent: u64,
    /// The tokens of the `PING` frames without an answer, with the number of the last message
    /// before each; the token is 0 for the connection's own.
    pongs: VecDeque<(u64, u64)>,
    /// How many messages were published without a wait for an answer, how many of them were given
    /// to a connection, and how many the server has received for certain.
    published: u64,
    written: u64,
    received_through: u64,
    /// How often such messages may have been lost with a connection, and with the last of which.
    losses: u64,
    lost_at: Arc<str>,
    pending: BTreeMap<u64, Pending>,
    next_sid: u64,
    subscriptions: BTreeMap<u64, Arc<Entry>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Connected,
    Reconnecting,
    Closed,
}

/// A subscription.
struct Entry {
    subject: String,
    queue: Option<String>,
    /// `None` for the answers to requests.
    messages: Option<Sender<Message>>,
    /// How many messages were dropped because the channel was full.
    dropped: Arc<AtomicU64>,
}

/// What the writer does next.
pub(crate) enum Work {
    Batch(Vec<u8>),
    Stop,
}

impl Shared {
    pub(crate) fn new(options: Options, jobs: Sender<Job>) -> Shared {
        let inbox = format!("_INBOX.{}", unique());
        let replies = Entry {
            subject: format!("{inbox}.*"),
            queue: None,
            messages: None,
            dropped: Arc::default(),
        };
        let link = Link {
            phase: Phase::Reconnecting,
            ends: false,
            received: false,
            ended: None,
            generation: 0,
            server: "".into(),
            info: Arc::default(),
            out: Vec::new(),
            renewing: 0,
            spare: Vec::new(),
            reply: String::new(),
            owes: false,
            asks: false,
            owed_pongs: 0,
            next_token: 1,
            sent: 1,
            pongs: VecDeque::new(),
            published: 0,
            written: 0,
            received_through: 0,
            losses: 0,
            lost_at: "".into(),
            pending: BTreeMap::new(),
            next_sid: REPLIES + 1,
            subscriptions: BTreeMap::from([(REPLIES, Arc::new(replies))]),
        };
        Shared {
            acks: options.acks(),
            options,
            inbox,
            salts: Salts::new(),
            link: Mutex::new(link),
            work: WaitList::new(),
            room: WaitList::new(),
            changes: WaitList::new(),
            jobs,
            ending: OnceLock::new(),
            events: channel::sliding(EVENTS),
        }
    }

    pub(crate) fn link(&self) -> MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn tell(&self, event: Event) {
        let _ = self.events.0.try_send(event);
    }

    pub(crate) fn events(&self) -> Receiver<Event> {
        self.events.1.clone()
    }

    /// Waits until the output has room.
    fn wait_for_room(&self) -> Result<(), Error> {
        // A loop that only publishes can be cancelled although it seldom waits.
        ecru::checkpoint()?;
        if !self.has_room() {
            Room(self).wait()?;
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        let link = self.link();
        link.phase == Phase::Closed || link.out.len() < self.options.send_buffer
    }

    /// Checks a message against the server's limit.
    fn check_size(link: &Link, message: &Message) -> Result<(), Error> {
        let (size, limit) = (message.size(), link.info.max_payload);
        if size <= limit {
            return Ok(());
        }
        let text = format!(
            "the message to {} has {size} bytes, and the server accepts {limit}; send less at once \
             or raise max_payload in the server's configuration",
            message.subject()
        );
        Err(Error::new(ErrorKind::TooLarge, text).at(&link.server))
    }

    /// Queues a message. With `wait`, there must be room first.
    pub(crate) fn publish(&self, message: &Message, wait: bool) -> Result<(), Error> {
        if wait {
            self.wait_for_room()?;
        }
        let mut link = self.open_link()?;
        Shared::check_size(&link, message)?;
        wire::write_publish(
            &mut link.out,
            message.subject.as_bytes(),
            message.reply.as_ref().map(Text::as_bytes),
            &message.headers,
            &message.payload,
        );
        // The client's own messages are repeated in another way.
        link.published += u64::from(wait);
        drop(link);
        self.work.notify_one();
        Ok(())
    }

    /// Queues a `PING`, whose answer shows that all before it has been processed.
    pub(crate) fn ping(&self) -> Result<Queued, Error> {
        let (answer, receiver) = channel::oneshot();
        let mut link = self.open_link()?;
        let token = link.register(answer, Text::fixed("PING"), None);
        let published = link.published;
        link.pongs.push_back((token, published));
        link.out.extend_from_slice(b"PING\r\n");
        drop(link);
        self.work.notify_one();
        Ok((token, receiver))
    }

    /// Asks the server whether it is there.
    pub(crate) fn ask_for_life(&self) {
        self.link().asks = true;
        self.work.notify_one();
    }

    /// Answers a `PING`. A server that asks without reading the answers gets few of them.
    pub(crate) fn pong(&self) {
        let mut link = self.link();
        link.owed_pongs = (link.owed_pongs + 1).min(16);
        drop(link);
        self.work.notify_one();
    }

    /// Adds a subscription. Returns its number and the count of dropped messages. The link alone
    /// keeps the sender, so that the end of the client disconnects the receiver.
    pub(crate) fn subscribe(
        &self,
        subject: &str,
        queue: Option<&str>,
        messages: Sender<Message>,
    ) -> Result<(u64, Arc<AtomicU64>), Error> {
        self.wait_for_room()?;
        let dropped: Arc<AtomicU64> = Arc::default();
        let entry = Arc::new(Entry {
            subject: subject.to_owned(),
            queue: queue.map(str::to_owned),
            messages: Some(messages),
            dropped: Arc::clone(&dropped),
        });
        let mut link = self.open_link()?;
        let sid = link.next_sid;
        link.next_sid += 1;
        link.subscriptions.insert(sid, entry);
        // Without a connection, the next one begins with all subscriptions.
        if link.phase == Phase::Connected {
            wire::write_subscribe(&mut link.out, subject, queue, sid);
        }
        drop(link);
        self.work.notify_one();
        Ok((sid, dropped))
    }

    /// Tells the server to send no more messages to a subscription, which stays until it is removed.
    pub(crate) fn mute(&self, sid: u64) {
        let mut link = self.link();
        if link.phase == Phase::Connected {
            wire::write_unsubscribe(&mut link.out, sid);
        }
        drop(link);
        self.work.notify_one();
    }

    /// Removes a subscription.
    pub(crate) fn unsubscribe(&self, sid: u64) {
        let mut link = self.link();
        let removed = link.subscriptions.remove(&sid);
        // The output may begin it on the next connection, too.
        if removed.is_some() && link.phase != Phase::Closed {
            wire::write_unsubscribe(&mut link.out, sid);
        }
        drop(link);
        self.work.notify_one();
        drop(removed);
    }

    fn open_link(&self) -> Result<MutexGuard<'_, Link>, Error> {
        let link = self.link();
        if link.phase == Phase::Closed { Err(Error::closed()) } else { Ok(link) }
    }

    /// Gives a message to its subscription or request.
    pub(crate) fn deliver(&self, sid: u64, message: Message) {
        if sid == REPLIES {
            if let Some(token) = self.token(message.subject.as_bytes()) {
                self.answer(token, Ok(message));
            }
            return;
        }
        let Some(entry) = self.link().subscriptions.get(&sid).map(Arc::clone) else { return };
        let Some(messages) = &entry.messages else { return };
        match messages.try_send(message) {
            Ok(()) => {}
            Err(channel::TrySendError::Full(_)) => {
                if entry.dropped.fetch_add(1, Ordering::Relaxed) == 0 {
                    self.tell(Event::SlowConsumer { subject: entry.subject.clone() });
                }
            }
            Err(channel::TrySendError::Disconnected(_)) => self.unsubscribe(sid),
        }
    }

    /// Handles a `PONG`.
    pub(crate) fn ponged(&self) {
        let mut link = self.link();
        let answered = link.pongs.pop_front();
        if let Some((_, published)) = answered {
            link.received_through = link.received_through.max(published);
        }
        drop(link);
        match answered {
            None | Some((0, _)) => {}
            Some((token, _)) => self.answer(token, Ok(Message::new("PONG", ""))),
        }
    }

    /// Notes a new connection, which begins with all subscriptions.
    /// Returns the number of its generation.
    pub(crate) fn connected(&self, server: &Server, info: ServerInfo) -> u64 {
        let mut link = self.link();
        let mut begin = Vec::new();
        for (sid, entry) in &link.subscriptions {
            wire::write_subscribe(&mut begin, &entry.subject, entry.queue.as_deref(), *sid);
        }
        link.renewing = begin.len();
        begin.append(&mut link.out);
        link.out = begin;
        (link.owes, link.asks, link.owed_pongs) = (false, false, 0);
        link.phase = Phase::Connected;
        link.generation += 1;
        let generation = link.generation;
        link.server = server.to_string().into();
        link.info = Arc::new(info);
        let server = Arc::clone(&link.server);
        drop(link);
        self.changes.notify_all();
        self.work.notify_one();
        self.tell(Event::Connected { server: server.to_string() });
        generation
    }

    pub(crate) fn set_info(&self, info: ServerInfo) {
        self.link().info = Arc::new(info);
    }

    /// Notes the loss of the connection. Requests that were sent fail.
    pub(crate) fn lost(&self, why: &str) {
        let mut link = self.link();
        link.phase = Phase::Reconnecting;
        link.generation += 1;
        // The next connection begins with all subscriptions again.
        let renewing = mem::take(&mut link.renewing);
        link.out.drain(..renewing);
        let (sent, server) = (link.sent, Arc::clone(&link.server));
        // An answer to a `PING` belongs to its connection. Those not sent stay in line.
        link.pongs.retain(|(token, _)| *token >= sent);
        if link.written > link.received_through {
            link.received_through = link.written;
            link.losses += 1;
            link.lost_at = Arc::clone(&server);
        }
        let kept = link.pending.split_off(&sent);
        let failed = mem::replace(&mut link.pending, kept);
        drop(link);
        self.changes.notify_all();
        self.work.notify_all();
        // What the writer had taken is lost, and has left its room.
        self.room.notify_all();
        for pending in failed.into_values() {
            let text = format!(
                "the connection was lost before {} was answered, so it may have been processed: \
                 {why}",
                pending.subject.as_str()
            );
            let error = Error::new(ErrorKind::Disconnected, text).at(&server);
            let _ = pending.answer.try_send(Err(error));
        }
        self.tell(Event::Disconnected { server: server.to_string(), why: why.to_owned() });
    }

    /// Lets the client end as it does with its scope. Its task may not have begun.
    pub(crate) fn end(&self) {
        self.link().ends = true;
        if let Some(ending) = self.ending.get() {
            ending.cancel();
        }
    }

    /// Takes what cancels the client's task, when that begins.
    pub(crate) fn end_by(&self, ending: CancelHandle) {
        let _ = self.ending.set(ending);
        if self.link().ends {
            self.end();
        }
    }

    /// Waits until the client has ended. Returns whether nothing was lost.
    pub(crate) fn wait_for_end(&self) -> Result<bool, Error> {
        Ok(Ended(self).wait()?)
    }

    /// Notes that the server has received everything.
    pub(crate) fn all_received(&self) {
        self.link().received = true;
    }

    /// Notes that the server has received what was given to its connection.
    pub(crate) fn all_written_received(&self) {
        let mut link = self.link();
        link.received_through = link.written;
    }

    /// Returns how often published messages may have been lost with a connection, and the server of
    /// the last one.
    pub(crate) fn losses(&self) -> (u64, Arc<str>) {
        let link = self.link();
        (link.losses, Arc::clone(&link.lost_at))
    }

    /// Ends the client: nothing is accepted any more, and all that waits gets an error.
    pub(crate) fn close(&self) {
        let mut link = self.link();
        let is_idle = link.phase == Phase::Reconnecting && link.out.is_empty();
        link.ended = Some(link.received || is_idle);
        link.phase = Phase::Closed;
        link.generation += 1;
        let pending = mem::take(&mut link.pending);
        let subscriptions = mem::take(&mut link.subscriptions);
        link.out = Vec::new();
        drop(link);
        for pending in pending.into_values() {
            let _ = pending.answer.try_send(Err(Error::closed()));
        }
        drop(subscriptions);
        self.jobs.close_now();
        self.events.0.close();
        self.changes.notify_all();
        self.room.notify_all();
        self.work.notify_all();
    }

    /// Ends the writer of this connection.
    pub(crate) fn stop_writer(&self) {
        self.link().generation += 1;
        self.work.notify_all();
    }

    /// Marks that the encryption has something to send.
    pub(crate) fn owe(&self) {
        self.link().owes = true;
        self.work.notify_one();
    }

    /// Takes all of the output, for this connection.
    pub(crate) fn take_output(&self, generation: u64) -> Option<Work> {
        self.link().take_output(generation)
    }

    /// Takes all of the output, for the last time. If there is none, nothing is accepted any more,
    /// so that nothing is accepted that is not sent.
    pub(crate) fn take_rest(&self, generation: u64) -> Option<Work> {
        let mut link = self.link();
        let rest = link.take_output(generation);
        if rest.is_none() {
            link.phase = Phase::Closed;
        }
        rest
    }

    /// Takes back the buffer of a batch that was written, and announces that there is room.
    pub(crate) fn written(&self, mut batch: Vec<u8>) {
        batch.clear();
        // A buffer that a burst made large is not kept.
        if batch.capacity() <= 1 << 20 {
            self.link().spare = batch;
        }
        self.room.notify_all();
    }

    /// Returns a source of the writer's work for this connection.
    pub(crate) fn work(&self, generation: u64) -> impl Source<Item = Work> {
        Output { shared: self, generation }
    }
}

impl Link {
    fn take_output(&mut self, generation: u64) -> Option<Work> {
        if self.generation != generation {
            return Some(Work::Stop);
        }
        if self.out.is_empty() && !self.owes && !self.asks && self.owed_pongs == 0 {
            return None;
        }
        let spare = mem::take(&mut self.spare);
        let mut batch = mem::replace(&mut self.out, spare);
        self.renewing = 0;
        for _ in 0..mem::take(&mut self.owed_pongs) {
            batch.extend_from_slice(b"PONG\r\n");
        }
        if mem::take(&mut self.asks) {
            batch.extend_from_slice(b"PING\r\n");
            self.pongs.push_back((0, self.published));
        }
        self.owes = false;
        self.sent = self.next_token;
        self.written = self.published;
        Some(Work::Batch(batch))
    }
}

/// Ready when the output has room.
struct Room<'a>(&'a Shared);

impl Source for Room<'_> {
    type Item = ();

    fn try_take(&self) -> Option<()> {
        self.0.has_room().then_some(())
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.0.room);
    }
}

/// The writer's work.
struct Output<'a> {
    shared: &'a Shared,
    generation: u64,
}

impl Source for Output<'_> {
    type Item = Work;

    fn try_take(&self) -> Option<Work> {
        self.shared.take_output(self.generation)
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.shared.work);
    }
}

/// Ready when the client's generation is another one.
pub(crate) struct Changed<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) from: u64,
}

impl Source for Changed<'_> {
    type Item = (u64, Phase);

    fn try_take(&self) -> Option<(u64, Phase)> {
        let link = self.shared.link();
        (link.generation != self.from).then_some((link.generation, link.phase))
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.shared.changes);
    }
}

/// Ready when the client has ended.
struct Ended<'a>(&'a Shared);

impl Source for Ended<'_> {
    type Item = bool;

    fn try_take(&self) -> Option<bool> {
        self.0.link().ended
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.0.changes);
    }
}

/// Returns a name that no other client has.
pub(crate) fn unique() -> String {
    random::name(22)
}
