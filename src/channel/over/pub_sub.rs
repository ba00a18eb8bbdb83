//! From one channel to those who have asked for a topic.
//!
//! A topic exists while it has subscribers. Its values wait in its own buffer while one of them is on its way to the subscribers, in
//! lockstep. A value for which its topic has no room is kept in hand, and no further one is read: so without buffers one slow
//! subscriber holds everybody up, and with them those of its own topic.

use std::borrow::Borrow;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;

use super::desk::Desk;
use super::parcels::{Event, Parcels, next_event};
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::channel::{Receiver, Sender, bounded};
use crate::task::Cancelled;

/// Sends each value of a channel to those who have subscribed to its topic. What nobody has subscribed to is dropped.
///
/// Within a topic, every subscriber gets every value in order, and the next one when all have accepted this one. A topic's
/// [buffer](PubSub::with_buffers) keeps a slow subscriber of it from holding up other topics, until it is full. When the source ends,
/// the subscribers of each topic get what is left of it, and then `Disconnected`.
///
/// # Examples
/// ```
/// use ecru::channel::{self, PubSub};
///
/// ecru::run(|| {
///     let news = PubSub::new(channel::from_iter([1, 2, 3, 4]), |n| n % 2 == 0);
///     let even = news.subscribe(true);
///     ecru::scope(|s| {
///         s.spawn(|| news.run().unwrap());
///         assert_eq!(even.iter().collect::<Vec<_>>(), [2, 4]);
///     });
/// });
/// ```
pub struct PubSub<'a, T, K> {
    desk: Desk<Message<T, K>, State<'a, T, K>>,
    last_subscription: AtomicU64,
}

enum Message<T, K> {
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
    /// Shared with the key in `numbers`.
    name: Arc<K>,
    subscribers: Vec<Subscriber<T>>,
    /// Empty unless something is underway.
    buffer: VecDeque<T>,
    capacity: usize,
    /// Parcels on their way.
    underway: usize,
}

struct State<'a, T, K> {
    /// None: it has ended.
    source: Option<Receiver<T>>,
    topic_of: Box<dyn FnMut(&T) -> K + Send + 'a>,
    buffer_of: Box<dyn FnMut(&K) -> usize + Send + 'a>,
    /// The numbers of the topics, which are the groups of their parcels.
    numbers: HashMap<Arc<K>, u64>,
    topics: HashMap<u64, Topic<T, K>>,
    last_topic: u64,
    /// Which topic a subscription is to.
    subscriptions: HashMap<u64, u64>,
    /// A value, and the topic that has no room for it.
    in_hand: Option<(u64, T)>,
    parcels: Parcels<T>,
}

impl<'a, T, K> PubSub<'a, T, K> {
    /// One for what `source` receives; `topic_of` says what a value's topic is. No topic has a buffer.
    #[must_use]
    pub fn new(source: Receiver<T>, topic_of: impl FnMut(&T) -> K + Send + 'a) -> PubSub<'a, T, K> {
        PubSub::with_buffers(source, topic_of, |_| 0)
    }

    /// The same with buffers: `buffer_of` says how many values a topic keeps. It is asked once for a topic, when its first subscriber
    /// comes.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel::{self, PubSub};
    ///
    /// ecru::run(|| {
    ///     let news = PubSub::with_buffers(channel::from_iter([1, 2, 3, 4]), |n| n % 2, |_| 8);
    ///     let (even, odd) = (news.subscribe(0), news.subscribe(1));
    ///     ecru::scope(|s| {
    ///         s.spawn(|| news.run().unwrap());
    ///         // The odd ones do not hold the even ones up, although nobody reads them yet.
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
        let state = State {
            source: Some(source),
            topic_of: Box::new(topic_of),
            buffer_of: Box::new(buffer_of),
            numbers: HashMap::new(),
            topics: HashMap::new(),
            last_topic: 0,
            subscriptions: HashMap::new(),
            in_hand: None,
            parcels: Parcels::new(),
        };
        PubSub { desk: Desk::new(state), last_subscription: AtomicU64::new(0) }
    }

    /// Subscribes to a topic, from the next value on, until the subscription is dropped. When the source has ended it gets nothing but
    /// `Disconnected`.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel::{self, PubSub};
    ///
    /// let (sender, source) = channel::unbounded();
    /// let news = PubSub::new(source, |n: &u32| n % 2);
    /// let odd = news.subscribe(1);
    /// drop(news.subscribe(0));
    /// std::thread::scope(|s| {
    ///     s.spawn(|| news.run());
    ///     channel::send_all(sender, [1, 2, 3]).unwrap();
    ///     assert_eq!((odd.recv(), odd.recv()), (Ok(1), Ok(3)));
    /// });
    /// ```
    pub fn subscribe(&self, topic: K) -> Subscription<T, K> {
        self.subscribe_buffered(topic, 0)
    }

    /// [`subscribe`](PubSub::subscribe), with so much room in the subscription itself.
    pub fn subscribe_buffered(&self, topic: K, capacity: usize) -> Subscription<T, K> {
        let (to, receiver) = bounded(capacity);
        let id = self.last_subscription.fetch_add(1, Ordering::Relaxed) + 1;
        // If it has ended, the sender is dropped with the message.
        let _ = self.desk.tell(Message::Subscribe { topic, subscriber: Subscriber { id, to } });
        Subscription { receiver, id, desk: self.desk.sender() }
    }

    /// Does the work, until the source has ended and every subscriber has everything.
    ///
    /// # Errors
    /// [`Cancelled`] when a wait was cancelled.
    ///
    /// # Panics
    /// While another call of `run` is at work; and with a panic of the function that tells topics, whose value is dropped, or of `T`'s
    /// `clone`, after which some subscribers lack a value.
    ///
    /// # Cancellation
    /// A cancel point. Nothing is lost: a later call goes on with what was on its way.
    #[track_caller]
    pub fn run(&self) -> Result<(), Cancelled>
    where
        T: Clone,
        K: Eq + Hash,
    {
        let mut seat = self.desk.sit_down("PubSub");
        let state = &mut *seat;
        while state.source.is_some() || !state.parcels.is_empty() {
            let inputs = if state.in_hand.is_none() { state.source.as_slice() } else { &[] };
            match next_event(Some(&self.desk.messages), &mut state.parcels, inputs)? {
                Event::Told(message) => state.heed(message),
                Event::Closed => unreachable!("closed by the end of `run` only"),
                Event::Input(_, value) => state.route(value),
                Event::InputEnded(_) => state.end(),
                Event::Delivered(topic) => state.has_left(topic, 1),
                Event::Gone(to, topic) => state.is_gone(&to, topic),
            }
        }
        self.desk.close();
        self.desk.messages.try_iter().for_each(drop);
        state.topics.clear();
        state.numbers.clear();
        state.subscriptions.clear();
        Ok(())
    }
}

impl<T: Clone, K: Eq + Hash> State<'_, T, K> {
    fn heed(&mut self, message: Message<T, K>) {
        match message {
            // Too late: it is dropped, and with it the subscription has ended.
            Message::Subscribe { .. } if self.source.is_none() => {}
            Message::Subscribe { topic, subscriber } => {
                let number = self.numbers.get(&topic).copied();
                let number = number.unwrap_or_else(|| self.begin_topic(topic));
                self.subscriptions.insert(subscriber.id, number);
                let topic = self.topics.get_mut(&number).expect("every number has its topic");
                topic.subscribers.push(subscriber);
            }
            Message::Unsubscribe { id } => {
                let Some(number) = self.subscriptions.remove(&id) else { return };
                let Some(topic) = self.topics.get_mut(&number) else { return };
                let Some(at) = topic.subscribers.iter().position(|other| other.id == id) else {
                    return;
                };
                let old = topic.subscribers.remove(at);
                let recalled = self.parcels.recall(&old.to);
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

    /// A value has come.
    fn route(&mut self, value: T) {
        let Some(&number) = self.numbers.get(&(self.topic_of)(&value)) else { return };
        self.put(number, value);
    }

    /// Passes a value on, or keeps it.
    fn put(&mut self, number: u64, value: T) {
        let Some(topic) = self.topics.get_mut(&number) else { return };
        if topic.underway == 0 {
            let before = self.parcels.len();
            self.parcels.send_to_all(&mut topic.subscribers, value, number);
            topic.underway = self.parcels.len() - before;
            self.end_if_deserted(number);
        } else if topic.buffer.len() < topic.capacity {
            topic.buffer.push_back(value);
        } else {
            self.in_hand = Some((number, value));
        }
    }

    /// So many parcels of a topic are not underway any more.
    fn has_left(&mut self, number: u64, parcels: usize) {
        if let Some(topic) = self.topics.get_mut(&number) {
            topic.underway -= parcels;
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

    /// There will be no more values. A topic ends when its last one has been delivered, however slow others are.
    fn end(&mut self) {
        self.source = None;
        let numbers: Vec<u64> = self.topics.keys().copied().collect();
        numbers.into_iter().for_each(|number| self.end_if_delivered(number));
    }

    fn end_if_delivered(&mut self, number: u64) {
        if self.topics.get(&number).is_some_and(|topic| topic.underway == 0) {
            self.end_topic(number);
        }
    }

    /// A subscriber's channel has closed.
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

/// From [`PubSub::subscribe`]: a [`Receiver`] of a topic's values. Unsubscribes when it is dropped.
#[must_use = "dropping it unsubscribes"]
pub struct Subscription<T, K> {
    receiver: Receiver<T>,
    id: u64,
    desk: Sender<Message<T, K>>,
}

impl<T, K> Deref for Subscription<T, K> {
    type Target = Receiver<T>;

    fn deref(&self) -> &Receiver<T> {
        &self.receiver
    }
}

impl<T, K> Drop for Subscription<T, K> {
    fn drop(&mut self) {
        // Clones of the receiver get no more either.
        self.receiver.channel().receivers_have_gone();
        let _ = self.desk.try_send(Message::Unsubscribe { id: self.id });
    }
}

impl<T, K> fmt::Debug for Subscription<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Subscription").field(&self.receiver).finish()
    }
}

impl<T, K> fmt::Debug for PubSub<'_, T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PubSub").field("ended", &self.desk.is_closed()).finish_non_exhaustive()
    }
}
