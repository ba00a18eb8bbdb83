//! A hub from any number of channels to any number of channels.

use std::borrow::Borrow;
use std::{error, fmt};

use ecru::Cancelled;
use ecru::channel::{Receiver, Sender};

use crate::mailbox::Mailbox;
use crate::pending::{Event, PendingSends, next_event};

/// The error of a closed [`Multiplexer`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Closed;

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the multiplexer has been closed")
    }
}

impl error::Error for Closed {}

/// A hub that sends each value of all publishers to all subscribers, in the same order to each.
///
/// A value is sent only after every subscriber has accepted the previous one, so a slow subscriber
/// stalls all.
///
/// Publishers and subscribers can be added and removed at any time, even while a subscriber stalls.
/// They are removed when their channels end. The multiplexer closes no channel.
///
/// # Examples
/// ```
/// use ecru::channel;
/// use ecru_flow::{Closed, Multiplexer};
///
/// ecru::run(|| {
///     let all = Multiplexer::new();
///     let (to_ada, ada) = channel::unbounded();
///     let (to_emmy, emmy) = channel::unbounded();
///     all.add_subscriber(to_ada).unwrap();
///     all.add_subscriber(to_emmy).unwrap();
///     all.add_publisher(ecru_flow::from_iter(["hello"])).unwrap();
///     ecru::scope(|s| {
///         s.spawn(|| all.run().unwrap());
///         assert_eq!(ada.recv(), Ok(Ok("hello")));
///         assert_eq!(emmy.recv(), Ok(Ok("hello")));
///         all.close();
///         assert_eq!(ada.recv(), Ok(Err(Closed)));
///     });
/// });
/// ```
pub struct Multiplexer<T> {
    mailbox: Mailbox<MultiplexerRequest<T>, MultiplexerState<T>>,
}

type Subscriber<T> = Sender<Result<T, Closed>>;

enum MultiplexerRequest<T> {
    AddPublisher(Receiver<T>),
    RemovePublisher(Receiver<T>),
    AddSubscriber(Subscriber<T>),
    RemoveSubscriber(Subscriber<T>),
}

struct MultiplexerState<T> {
    publishers: Vec<Receiver<T>>,
    subscribers: Vec<Subscriber<T>>,
    pending: PendingSends<Result<T, Closed>>,
    closing: Closing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Closing {
    No,
    /// `close` was called. The pending sends are completed first.
    Asked,
    /// `Err(Closed)` is being sent to the subscribers.
    Told,
}

impl<T> Multiplexer<T> {
    /// Creates a multiplexer without publishers and subscribers.
    #[must_use]
    pub fn new() -> Multiplexer<T> {
        Multiplexer {
            mailbox: Mailbox::new(MultiplexerState {
                publishers: Vec::new(),
                subscribers: Vec::new(),
                pending: PendingSends::new(),
                closing: Closing::No,
            }),
        }
    }

    fn post(&self, request: MultiplexerRequest<T>) -> Result<(), Closed> {
        self.mailbox.post(request).map_err(|_| Closed)
    }

    /// Adds a channel from which values are read. A channel that is a publisher already is not
    /// added again.
    ///
    /// # Errors
    /// Returns [`Closed`] after [`close`](Multiplexer::close).
    ///
    /// # Examples
    /// ```
    /// use ecru_flow::{Closed, Multiplexer};
    ///
    /// let multiplexer = Multiplexer::new();
    /// multiplexer.add_publisher(ecru_flow::from_iter([1])).unwrap();
    /// multiplexer.close();
    /// assert_eq!(multiplexer.add_publisher(ecru_flow::from_iter([2])), Err(Closed));
    /// ```
    pub fn add_publisher(&self, publisher: Receiver<T>) -> Result<(), Closed> {
        self.post(MultiplexerRequest::AddPublisher(publisher))
    }

    /// Removes a publisher. Its values stay in its channel. If the channel is not a publisher,
    /// nothing happens.
    ///
    /// # Errors
    /// Returns the errors of [`add_publisher`](Multiplexer::add_publisher).
    pub fn remove_publisher(&self, publisher: impl Borrow<Receiver<T>>) -> Result<(), Closed> {
        self.post(MultiplexerRequest::RemovePublisher(publisher.borrow().clone()))
    }

    /// Adds a channel to which values are sent. It receives each value as `Ok`, and one `Err` when
    /// the multiplexer is closed. A channel that is a subscriber already is not added again.
    ///
    /// # Errors
    /// Returns the errors of [`add_publisher`](Multiplexer::add_publisher).
    pub fn add_subscriber(&self, subscriber: Sender<Result<T, Closed>>) -> Result<(), Closed> {
        self.post(MultiplexerRequest::AddSubscriber(subscriber))
    }

    /// Removes a subscriber. A value that is pending for it is dropped. If the channel is not a
    /// subscriber, nothing happens.
    ///
    /// # Errors
    /// Returns the errors of [`add_publisher`](Multiplexer::add_publisher).
    pub fn remove_subscriber(
        &self,
        subscriber: impl Borrow<Sender<Result<T, Closed>>>,
    ) -> Result<(), Closed> {
        self.post(MultiplexerRequest::RemoveSubscriber(subscriber.borrow().clone()))
    }

    /// Closes the multiplexer. Closing it again changes nothing.
    ///
    /// It reads no more values, completes the pending sends, and sends `Err(`[`Closed`]`)` to each
    /// subscriber. Then [`run`](Multiplexer::run) returns.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel;
    /// use ecru_flow::{Closed, Multiplexer};
    ///
    /// let multiplexer = Multiplexer::<u32>::new();
    /// let (to, heard) = channel::unbounded();
    /// multiplexer.add_subscriber(to).unwrap();
    /// multiplexer.close();
    /// multiplexer.run().unwrap();
    /// assert_eq!(heard.recv(), Ok(Err(Closed)));
    /// ```
    pub fn close(&self) {
        self.mailbox.close();
    }

    /// Returns whether the multiplexer is closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.mailbox.is_closed()
    }

    /// Runs the hub until it is closed. Without publishers, it waits for one to be added. Without
    /// subscribers, values are dropped.
    ///
    /// # Errors
    /// Returns [`Cancelled`] if a wait is cancelled.
    ///
    /// # Panics
    /// - Panics if another call of `run` is running.
    /// - Panics if `T`'s `clone` panics. Some subscribers then lack a value.
    ///
    /// # Cancellation
    /// This is a cancellation point. Nothing is lost: the next call continues with the pending
    /// sends.
    #[track_caller]
    pub fn run(&self) -> Result<(), Cancelled>
    where
        T: Clone + Send,
    {
        let mut state = self.mailbox.state("Multiplexer");
        let state = &mut *state;
        loop {
            if state.closing != Closing::No && state.pending.is_empty() {
                if state.closing == Closing::Told {
                    state.subscribers.clear();
                    return Ok(());
                }
                state.closing = Closing::Told;
                state.publishers.clear();
                state.pending.send_to_all(&mut state.subscribers, Err(Closed), 0);
                continue;
            }
            let at_work = state.closing == Closing::No;
            let requests = at_work.then_some(&self.mailbox.requests);
            let reads = at_work && state.pending.is_empty();
            let inputs = if reads { &state.publishers[..] } else { &[] };
            match next_event(requests, &mut state.pending, inputs)? {
                Event::Request(request) => state.handle(request),
                Event::Closed => state.closing = Closing::Asked,
                Event::Input(_, value) => {
                    state.pending.send_to_all(&mut state.subscribers, Ok(value), 0);
                }
                Event::InputEnded(at) => drop(state.publishers.swap_remove(at)),
                Event::Sent(_) => {}
                Event::Gone(gone, _) => {
                    state.subscribers.retain(|other| !other.same_channel(&gone))
                }
            }
        }
    }
}

impl<T> MultiplexerState<T> {
    fn handle(&mut self, request: MultiplexerRequest<T>) {
        match request {
            MultiplexerRequest::AddPublisher(new) => {
                if !self.publishers.iter().any(|other| other.same_channel(&new)) {
                    self.publishers.push(new);
                }
            }
            MultiplexerRequest::RemovePublisher(old) => {
                self.publishers.retain(|other| !other.same_channel(&old))
            }
            MultiplexerRequest::AddSubscriber(new) => {
                if !self.subscribers.iter().any(|other| other.same_channel(&new)) {
                    self.subscribers.push(new);
                }
            }
            MultiplexerRequest::RemoveSubscriber(old) => {
                self.pending.withdraw(&old);
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
