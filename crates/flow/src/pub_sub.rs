//! A hub from one channel to the subscribers of each value's topic.
//!
//! A topic exists as long as it has subscribers. The values of a topic are sent to its subscribers
//! in lockstep, one at a time. Further values wait in the topic's buffer. If that is full, the hub
//! keeps the value in hand and reads no further value. So one slow subscriber stalls all topics if
//! its topic has no buffer or the buffer is full.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ecru::Cancelled;
use ecru::channel::{Receiver, Sender, bounded};

use crate::mailbox::Mailbox;
use crate::pending::{Event, PendingSends, next_event};

/// A hub that sends each value of a channel to the subscribers of its topic. A value whose topic
/// has no subscribers is dropped.
///
/// Within a topic, every subscriber receives every value in order. A value is sent only after all
/// of them have accepted the previous one. A topic's [buffer](PubSub::with_buffers) keeps its slow
/// subscribers from stalling other topics, until the buffer is full. When the source ends, the
/// subscribers of each topic receive the values that are left in the topic's buffer, and then
/// `Disconnected`.
///
/// # Examples
/// ```
/// use ecru_flow::PubSub;
///
/// ecru::run(|| {
///     let news = PubSub::new(ecru_flow::from_iter([1, 2, 3, 4]), |n| n % 2 == 0);
///     let even = news.subscribe(true);
///     ecru::scope(|s| {
///         s.spawn(|| news.run().unwrap());
///         assert_eq!(even.iter().collect::<Vec<_>>(), [2, 4]);
///     });
/// });
/// ```
pub struct PubSub<'a, T, K> {
    mailbox: Mailbox<PubSubRequest<T, K>, PubSubState<'a, T, K>>,
    last_subscription: AtomicU64,
}

enum PubSubRequest<T, K> {
    Subscribe { topic: K, subscriber: Subscriber<T> },
    Unsubscribe { id: u64 },
}

struct Subscriber<T> {
    id: u64,
    to: Sender<T>,
}

impl<T> Borrow<Sender<T>> for Subscriber<T> {
    fn borrow(&self) -> &Sender<T> {
        &self.to
    }
}

struct Topic<T, K> {
    /// The name of the topic, which is shared with the key in `numbers`.
    name: Arc<K>,
    subscribers: Vec<Subscriber<T>>,
    /// Empty unless sends of this topic are pending.
    buffer: VecDeque<T>,
    capacity: usize,
    /// The number of this topic's pending sends.
    underway: usize,
}

struct PubSubState<'a, T, K> {
    /// `None` after the source has ended.
    source: Option<Receiver<T>>,
    topic_of: Box<dyn FnMut(&T) -> K + Send + 'a>,
    buffer_of: Box<dyn FnMut(&K) -> usize + Send + 'a>,
    /// The numbers of the topics, which are the groups of their pending sends.
    numbers: HashMap<Arc<K>, u64>,
    topics: HashMap<u64, Topic<T, K>>,
    last_topic: u64,
    /// The topic of each subscription.
    subscriptions: HashMap<u64, u64>,
    /// A value, and the number of its topic, which has no room for it.
    in_hand: Option<(u64, T)>,
    pending: PendingSends<T>,
}

impl<'a, T, K> PubSub<'a, T, K> {
    /// Creates a hub for the values of `source`. `topic_of` returns the topic of a value. Topics
    /// have no buffers.
    #[must_use]
    pub fn new(source: Receiver<T>, topic_of: impl FnMut(&T) -> K + Send + 'a) -> PubSub<'a, T, K> {
        PubSub::with_buffers(source, topic_of, |_| 0)
    }

    /// Creates a hub whose topics have buffers. `buffer_of` returns the number of values that a
    /// topic's buffer holds. It is called when the topic gets its first subscriber.
    ///
    /// # Examples
    /// ```
    /// use ecru_flow::PubSub;
    ///
    /// ecru::run(|| {
    ///     let news = PubSub::with_buffers(ecru_flow::from_iter([1, 2, 3, 4]), |n| n % 2, |_| 8);
    ///     let (even, odd) = (news.subscribe(0), news.subscribe(1));
    ///     ecru::scope(|s| {
    ///         s.spawn(|| news.run().unwrap());
    ///         // The odd numbers are not read yet, and do not hold up the even ones.
    ///         assert_eq!(even.iter().collect::<Vec<_>>(), [2, 4]);
    ///         assert_eq!(odd.iter().collect::<Vec<_>>(), [1, 3]);
    ///     });
    /// });
    /// ```
    #[must_use]
    pub fn with_buffers(
        source: Receiver<T>,
        topic_of: impl FnMut(&T) -> K + Send + 'a,
        buffer_of: impl FnMut(&K) -> usize + Send + 'a,
    ) -> PubSub<'a, T, K> {
        let state = PubSubState {
            source: Some(source),
            topic_of: Box::new(topic_of),
            buffer_of: Box::new(buffer_of),
            numbers: HashMap::new(),
            topics: HashMap::new(),
            last_topic: 0,
            subscriptions: HashMap::new(),
            in_hand: None,
            pending: PendingSends::new(),
        };
        PubSub { mailbox: Mailbox::new(state), last_subscription: AtomicU64::new(0) }
    }

    /// Subscribes to a topic, from the next value on, until the subscription is dropped.
    ///
    /// After the source has ended, the subscription receives `Disconnected`.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel;
    /// use ecru_flow::PubSub;
    ///
    /// let (sender, source) = channel::unbounded();
    /// let news = PubSub::new(source, |n: &u32| n % 2);
    /// let odd = news.subscribe(1);
    /// drop(news.subscribe(0));
    /// std::thread::scope(|s| {
    ///     s.spawn(|| news.run());
    ///     ecru_flow::send_all(sender, [1, 2, 3]).unwrap();
    ///     assert_eq!((odd.recv(), odd.recv()), (Ok(1), Ok(3)));
    /// });
    /// ```
    pub fn subscribe(&self, topic: K) -> TopicReceiver<T, K> {
        self.subscribe_buffered(topic, 0)
    }

    /// Subscribes as [`subscribe`](PubSub::subscribe) does, but the subscription's own channel has
    /// room for `capacity` values.
    pub fn subscribe_buffered(&self, topic: K, capacity: usize) -> TopicReceiver<T, K> {
        let (to, receiver) = bounded(capacity);
        let id = self.last_subscription.fetch_add(1, Ordering::Relaxed) + 1;
        // After the end, the sender is dropped with the request.
        let _ = self
            .mailbox
            .post(PubSubRequest::Subscribe { topic, subscriber: Subscriber { id, to } });
        TopicReceiver { receiver, id, mailbox: self.mailbox.sender() }
    }

    /// Runs the hub until the source has ended and every subscriber has accepted every value of its
    /// topic.
    ///
    /// # Errors
    /// Returns [`Cancelled`] if a wait is cancelled.
    ///
    /// # Panics
    /// - Panics if another call of `run` is running.
    /// - Panics if the function that returns topics panics. Its value is dropped.
    /// - Panics if `T`'s `clone` panics. Some subscribers then lack a value.
    /// - Panics if `K`'s `Hash`, `Eq` or `Drop` panics. A value of the topic may then be dropped, or
    ///   a subscription ended.
    ///
    /// # Cancellation
    /// This is a cancellation point. Nothing is lost: the next call continues with the pending
    /// sends.
    #[track_caller]
    pub fn run(&self) -> Result<(), Cancelled>
    where
        T: Clone + Send,
        K: Eq + Hash + Send,
    {
        let mut state = self.mailbox.state("PubSub");
        let state = &mut *state;
        while state.source.is_some() || !state.pending.is_empty() {
            let inputs = if state.in_hand.is_none() { state.source.as_slice() } else { &[] };
            match next_event(Some(&self.mailbox.requests), &mut state.pending, inputs)? {
                Event::Request(request) => state.handle(request),
                Event::Closed => unreachable!("only the end of `run` closes the mailbox"),
                Event::Input(_, value) => state.route(value),
                Event::InputEnded(_) => state.end(),
                Event::Sent(topic) => state.has_left(topic, 1),
                Event::Gone(to, topic) => state.is_gone(&to, topic),
            }
        }
        self.mailbox.close();
        self.mailbox.requests.try_iter().for_each(drop);
        state.topics.clear();
        state.numbers.clear();
        state.subscriptions.clear();
        Ok(())
    }
}

impl<T: Clone, K: Eq + Hash> PubSubState<'_, T, K> {
    fn handle(&mut self, request: PubSubRequest<T, K>) {
        match request {
            // The source has ended. Dropping the sender ends the subscription.
            PubSubRequest::Subscribe { .. } if self.source.is_none() => {}
            PubSubRequest::Subscribe { topic, subscriber } => {
                let number = self.numbers.get(&topic).copied();
                let number = number.unwrap_or_else(|| self.begin_topic(topic));
                self.subscriptions.insert(subscriber.id, number);
                let topic = self.topics.get_mut(&number).expect("every number has its topic");
                topic.subscribers.push(subscriber);
            }
            PubSubRequest::Unsubscribe { id } => {
                let Some(number) = self.subscriptions.remove(&id) else { return };
                let Some(topic) = self.topics.get_mut(&number) else { return };
                let Some(at) = topic.subscribers.iter().position(|other| other.id == id) else {
                    return;
                };
                let old = topic.subscribers.remove(at);
                let recalled = self.pending.withdraw(&old.to);
                self.has_left(number, recalled);
            }
        }
    }

    fn begin_topic(&mut self, name: K) -> u64 {
        let capacity = (self.buffer_of)(&name);
        let (subscribers, buffer) = (Vec::new(), VecDeque::new());
        let name = Arc::new(name);
        let topic = Topic { name: Arc::clone(&name), subscribers, buffer, capacity, underway: 0 };
        self.last_topic += 1;
        self.numbers.insert(name, self.last_topic);
        self.topics.insert(self.last_topic, topic);
        self.last_topic
    }

    /// Handles a value of the source.
    fn route(&mut self, value: T) {
        let Some(&number) = self.numbers.get(&(self.topic_of)(&value)) else { return };
        self.put(number, value);
    }

    /// Sends a value to the subscribers of its topic, or keeps it.
    fn put(&mut self, number: u64, value: T) {
        let Some(topic) = self.topics.get_mut(&number) else { return };
        if topic.underway == 0 {
            let before = self.pending.len();
            self.pending.send_to_all(&mut topic.subscribers, value, number);
            topic.underway = self.pending.len() - before;
            self.end_if_deserted(number);
        } else if topic.buffer.len() < topic.capacity {
            topic.buffer.push_back(value);
        } else {
            self.in_hand = Some((number, value));
        }
    }

    /// Subtracts completed sends from those of a topic. When none is left, continues with the
    /// topic's next value.
    fn has_left(&mut self, number: u64, sends: usize) {
        if let Some(topic) = self.topics.get_mut(&number) {
            topic.underway -= sends;
        }
        self.end_if_deserted(number);
        while let Some(topic) = self.topics.get_mut(&number)
            && topic.underway == 0
            && let Some(next) = topic.buffer.pop_front()
        {
            self.put(number, next);
        }
        if let Some((topic, value)) = self.in_hand.take_if(|(topic, _)| *topic == number) {
            self.put(topic, value);
        }
        if self.source.is_none() {
            self.end_if_delivered(number);
        }
    }

    /// Handles the end of the source. Each topic ends when its own last value has been accepted.
    fn end(&mut self) {
        self.source = None;
        // In a simulation, the order must not be that of a hash.
        let mut numbers: Vec<u64> = self.topics.keys().copied().collect();
        numbers.sort_unstable();
        numbers.into_iter().for_each(|number| self.end_if_delivered(number));
    }

    fn end_if_delivered(&mut self, number: u64) {
        if self.topics.get(&number).is_some_and(|topic| topic.underway == 0) {
            self.end_topic(number);
        }
    }

    /// Handles the end of a subscriber's channel.
    fn is_gone(&mut self, to: &Sender<T>, number: u64) {
        if let Some(topic) = self.topics.get_mut(&number) {
            topic.subscribers.retain(|other| !other.to.same_channel(to));
        }
        self.has_left(number, 1);
    }

    fn end_topic(&mut self, number: u64) {
        if let Some(topic) = self.topics.remove(&number) {
            self.numbers.remove(&topic.name);
        }
    }

    fn end_if_deserted(&mut self, number: u64) {
        if self.topics.get(&number).is_some_and(|topic| topic.subscribers.is_empty()) {
            self.end_topic(number);
        }
    }
}

/// A [`Receiver`] of a topic's values, which [`PubSub::subscribe`] returns. Dropping it
/// unsubscribes.
#[must_use = "dropping it unsubscribes"]
pub struct TopicReceiver<T, K> {
    receiver: Receiver<T>,
    id: u64,
    mailbox: Sender<PubSubRequest<T, K>>,
}

impl<T, K> Deref for TopicReceiver<T, K> {
    type Target = Receiver<T>;

    fn deref(&self) -> &Receiver<T> {
        &self.receiver
    }
}

impl<T, K> Drop for TopicReceiver<T, K> {
    fn drop(&mut self) {
        // Clones of the receiver get no more values either.
        self.receiver.close_now();
        let _ = self.mailbox.try_send(PubSubRequest::Unsubscribe { id: self.id });
    }
}

impl<T, K> fmt::Debug for TopicReceiver<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TopicReceiver").field(&self.receiver).finish()
    }
}

impl<T, K> fmt::Debug for PubSub<'_, T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PubSub").field("ended", &self.mailbox.is_closed()).finish_non_exhaustive()
    }
}
