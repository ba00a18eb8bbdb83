//! From any number of channels to any number of channels, everything to everybody.

use std::borrow::Borrow;
use std::{error, fmt};

use super::desk::Desk;
use super::parcels::{Event, Parcels, next_event};
use crate::channel::{Receiver, Sender};
use crate::task::Cancelled;

/// A [`Multiplexer`] has been closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the multiplexer has been closed")
    }
}

impl error::Error for Closed {}

/// Sends everything that its publishers send to every one of its subscribers, in the same order to all. A value's turn comes when every
/// subscriber has accepted the one before: one slow subscriber stalls all.
///
/// Publishers and subscribers come and go at any time, also while a subscriber stalls. Those whose channels have closed leave by
/// themselves. The multiplexer closes no channel of theirs.
///
/// Where a channel has no buffer, read it with `recv` or a select: [`try_recv`](Receiver::try_recv) does not see what waits for it.
///
/// # Examples
/// ```
/// use ecru::channel::{self, Closed, Multiplexer};
///
/// ecru::run(|| {
///     let everybody = Multiplexer::new();
///     let (to_ada, ada) = channel::unbounded();
///     let (to_emmy, emmy) = channel::unbounded();
///     everybody.add_subscriber(to_ada).unwrap();
///     everybody.add_subscriber(to_emmy).unwrap();
///     everybody.add_publisher(channel::from_iter(["hello"])).unwrap();
///     ecru::scope(|s| {
///         s.spawn(|| everybody.run().unwrap());
///         assert_eq!(ada.recv(), Ok(Ok("hello")));
///         assert_eq!(emmy.recv(), Ok(Ok("hello")));
///         everybody.close();
///         assert_eq!(ada.recv(), Ok(Err(Closed)));
///     });
/// });
/// ```
pub struct Multiplexer<T> {
    desk: Desk<Message<T>, State<T>>,
}

type Subscriber<T> = Sender<Result<T, Closed>>;

enum Message<T> {
    AddPublisher(Receiver<T>),
    RemovePublisher(Receiver<T>),
    AddSubscriber(Subscriber<T>),
    RemoveSubscriber(Subscriber<T>),
}

struct State<T> {
    publishers: Vec<Receiver<T>>,
    subscribers: Vec<Subscriber<T>>,
    parcels: Parcels<Result<T, Closed>>,
    closing: Closing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    No,
    /// The value that is on its way is delivered first.
    Asked,
    /// The subscribers are being told.
    Told,
}

impl<T> Multiplexer<T> {
    /// One without publishers and subscribers.
    #[must_use]
    pub fn new() -> Multiplexer<T> {
        Multiplexer {
            desk: Desk::new(State {
                publishers: Vec::new(),
                subscribers: Vec::new(),
                parcels: Parcels::new(),
                closing: Closing::No,
            }),
        }
    }

    fn tell(&self, message: Message<T>) -> Result<(), Closed> {
        self.desk.tell(message).map_err(|_| Closed)
    }

    /// Adds a channel to read. One that is there already is not added again.
    ///
    /// # Errors
    /// [`Closed`] after [`close`](Multiplexer::close).
    ///
    /// # Examples
    /// ```
    /// use ecru::channel::{self, Closed, Multiplexer};
    ///
    /// let multiplexer = Multiplexer::new();
    /// multiplexer.add_publisher(channel::from_iter([1])).unwrap();
    /// multiplexer.close();
    /// assert_eq!(multiplexer.add_publisher(channel::from_iter([2])), Err(Closed));
    /// ```
    pub fn add_publisher(&self, publisher: Receiver<T>) -> Result<(), Closed> {
        self.tell(Message::AddPublisher(publisher))
    }

    /// Takes a channel out again. What is in it stays there. One that is not there does not matter.
    ///
    /// # Errors
    /// As [`add_publisher`](Multiplexer::add_publisher).
    pub fn remove_publisher(&self, publisher: impl Borrow<Receiver<T>>) -> Result<(), Closed> {
        self.tell(Message::RemovePublisher(publisher.borrow().clone()))
    }

    /// Adds a channel to send to: each value as `Ok`, and when the multiplexer is closed, one `Err`. One that is there already is not
    /// added again.
    ///
    /// # Errors
    /// As [`add_publisher`](Multiplexer::add_publisher).
    pub fn add_subscriber(&self, subscriber: Sender<Result<T, Closed>>) -> Result<(), Closed> {
        self.tell(Message::AddSubscriber(subscriber))
    }

    /// Takes a channel out again. A value that waits for room in it is dropped. One that is not there does not matter.
    ///
    /// # Errors
    /// As [`add_publisher`](Multiplexer::add_publisher).
    pub fn remove_subscriber(
        &self,
        subscriber: impl Borrow<Sender<Result<T, Closed>>>,
    ) -> Result<(), Closed> {
        self.tell(Message::RemoveSubscriber(subscriber.borrow().clone()))
    }

    /// Ends it: nothing further is read, what is on its way is delivered, every subscriber is sent `Err(`[`Closed`]`)`, and
    /// [`run`](Multiplexer::run) returns. Closing again changes nothing.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel::{self, Closed, Multiplexer};
    ///
    /// let multiplexer = Multiplexer::<u32>::new();
    /// let (to, heard) = channel::unbounded();
    /// multiplexer.add_subscriber(to).unwrap();
    /// multiplexer.close();
    /// multiplexer.run().unwrap();
    /// assert_eq!(heard.recv(), Ok(Err(Closed)));
    /// ```
    pub fn close(&self) {
        self.desk.close();
    }

    /// Whether it has been closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.desk.is_closed()
    }

    /// Does the work, until the multiplexer is closed. Without publishers or subscribers it waits for some; without subscribers, what
    /// publishers send is dropped.
    ///
    /// # Errors
    /// [`Cancelled`] when a wait was cancelled.
    ///
    /// # Panics
    /// While another call of `run` is at work; and with a panic of `T`'s `clone`, after which some subscribers lack a value.
    ///
    /// # Cancellation
    /// A cancel point. Nothing is lost: a later call goes on with what was on its way.
    #[track_caller]
    pub fn run(&self) -> Result<(), Cancelled>
    where
        T: Clone,
    {
        let mut seat = self.desk.sit_down("Multiplexer");
        let state = &mut *seat;
        loop {
            if state.closing != Closing::No && state.parcels.is_empty() {
                if state.closing == Closing::Told {
                    state.subscribers.clear();
                    return Ok(());
                }
                state.closing = Closing::Told;
                state.publishers.clear();
                state.parcels.send_to_all(&mut state.subscribers, Err(Closed), 0);
                continue;
            }
            let at_work = state.closing == Closing::No;
            let messages = at_work.then_some(&self.desk.messages);
            let reads = at_work && state.parcels.is_empty();
            let inputs = if reads { &state.publishers[..] } else { &[] };
            match next_event(messages, &mut state.parcels, inputs)? {
                Event::Told(message) => state.heed(message),
                Event::Closed => state.closing = Closing::Asked,
                Event::Input(_, value) => {
                    state.parcels.send_to_all(&mut state.subscribers, Ok(value), 0);
                }
                Event::InputEnded(at) => drop(state.publishers.swap_remove(at)),
                Event::Delivered(_) => {}
                Event::Gone(gone, _) => {
                    state.subscribers.retain(|other| !other.same_channel(&gone))
                }
            }
        }
    }
}

impl<T> State<T> {
    fn heed(&mut self, message: Message<T>) {
        match message {
            Message::AddPublisher(new) => {
                if !self.publishers.iter().any(|other| other.same_channel(&new)) {
                    self.publishers.push(new);
                }
            }
            Message::RemovePublisher(old) => {
                self.publishers.retain(|other| !other.same_channel(&old))
            }
            Message::AddSubscriber(new) => {
                if !self.subscribers.iter().any(|other| other.same_channel(&new)) {
                    self.subscribers.push(new);
                }
            }
            Message::RemoveSubscriber(old) => {
                self.parcels.recall(&old);
                self.subscribers.retain(|other| !other.same_channel(&old));
            }
        }
    }
}

impl<T> Default for Multiplexer<T> {
    fn default() -> Multiplexer<T> {
        Multiplexer::new()
    }
}

impl<T> fmt::Debug for Multiplexer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Multiplexer").field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}
