//! A channel whose every receiver gets every value.
//!
//! The values are in one buffer, which all receivers share. Values are numbered in the order of
//! their sends. The buffer holds the values from the number `first` up to, but not including,
//! `next`. Each receiver has a *position*: the number of the value that it receives next. An entry
//! counts the receivers that have not received its value yet. When that number reaches zero, all
//! earlier entries have left the buffer, because a receiver that lacks an earlier value lacks this
//! one, too. So entries leave at the front only.
//!
//! The values are in `Arc`s, so that no `clone` and no destructor of a value runs under the lock.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use ecru::channel::{SendError, TrySendError};
use ecru::source::{Source, WaitList};
use ecru::sync::Semaphore;

use crate::base::{AtomicU64, Mutex, MutexGuard};
use crate::broadcast_errors::{BroadcastRecvError, BroadcastTryRecvError};

/// The treatment of receivers that lack the oldest value of a full [`broadcast`].
///
/// # Examples
/// ```
/// use ecru_flow::{BroadcastRecvError, SlowReceivers, broadcast_with};
///
/// let (sender, prices) = broadcast_with(1, SlowReceivers::Disconnect);
/// sender.send(17).unwrap();
/// // There is no room, so the only receiver is left behind, and none is left for 18.
/// assert!(sender.send(18).is_err());
/// assert_eq!(prices.recv(), Err(BroadcastRecvError::Lagged(1)));
/// assert_eq!(prices.recv(), Err(BroadcastRecvError::Disconnected));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum SlowReceivers {
    /// The oldest value is dropped. A receiver that lacks it gets
    /// [`Lagged`](BroadcastRecvError::Lagged), which has the number of missed values. Then it
    /// continues with the oldest value that is left.
    #[default]
    Lag,
    /// The sender waits until all receivers have received the oldest value.
    Block,
    /// The oldest value is dropped, and so are the subscriptions of the receivers that lack it. Such
    /// a receiver gets [`Lagged`](BroadcastRecvError::Lagged) once, and then `Disconnected`.
    Disconnect,
}

struct Entry<T> {
    value: Arc<T>,
    /// The number of receivers that have not received it yet. It is at least 1 outside the lock.
    unread: usize,
}

struct State<T> {
    buffer: VecDeque<Entry<T>>,
    /// The number of the value that is sent next.
    next: u64,
    senders: usize,
    receivers: usize,
}

impl<T> State<T> {
    /// Returns the number of the oldest value in the buffer.
    fn first(&self) -> u64 {
        self.next - self.buffer.len() as u64
    }

    /// Subtracts `count` receivers from the entries from `position` on. Moves those that no receiver
    /// lacks to `out`, whose destructor must run after the lock has been released.
    fn discount(&mut self, position: u64, count: usize, out: &mut Vec<Entry<T>>) {
        let skipped = position.saturating_sub(self.first());
        for entry in self.buffer.iter_mut().skip(skipped as usize) {
            entry.unread -= count;
        }
        while let Some(read) = self.pop_read() {
            out.push(read);
        }
    }

    /// Takes the first entry if no receiver lacks it.
    fn pop_read(&mut self) -> Option<Entry<T>> {
        self.buffer
            .front()
            .is_some_and(|entry| entry.unread == 0)
            .then(|| self.buffer.pop_front())?
    }
}

struct Shared<T> {
    /// Held only to look at the state or to change it.
    state: Mutex<State<T>>,
    capacity: usize,
    slow: SlowReceivers,
    /// A permit for each free place of the buffer, if senders wait for places.
    places: Option<Semaphore>,
    /// Notified of each value, and of the end of the last sender.
    news: WaitList,
}

impl<T> Shared<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells senders that entries have left the buffer.
    fn has_left(&self, entries: usize) {
        if let Some(places) = self.places.as_ref().filter(|_| entries > 0) {
            places.add_permits(entries);
        }
    }

    /// Puts a value into the buffer, and returns the number of receivers. If senders wait for
    /// places, the caller has one. Returns the value if there are no receivers.
    fn push(&self, value: T) -> Result<usize, T> {
        // Dropped last: destructors of values may do anything.
        let mut out = Vec::new();
        let mut state = self.lock();
        if state.buffer.len() == self.capacity && state.receivers > 0 {
            debug_assert!(self.places.is_none(), "the caller has a place");
            let first = state.first();
            let oldest = state.buffer.pop_front();
            let lacking = oldest.as_ref().map_or(0, |oldest| oldest.unread);
            out.extend(oldest);
            if self.slow == SlowReceivers::Disconnect {
                // All of them are at the oldest value, and lack the others, too.
                state.receivers -= lacking;
                state.discount(first, lacking, &mut out);
            }
        }
        let receivers = state.receivers;
        if receivers == 0 {
            return Err(value);
        }
        state.buffer.push_back(Entry { value: Arc::new(value), unread: receivers });
        state.next += 1;
        drop(state);
        self.news.notify_all();
        Ok(receivers)
    }

    fn subscribe(shared: &Arc<Shared<T>>) -> BroadcastReceiver<T> {
        let mut state = shared.lock();
        state.receivers += 1;
        let position = AtomicU64::new(state.next);
        drop(state);
        BroadcastReceiver { shared: Arc::clone(shared), position }
    }
}

/// Creates a channel whose every receiver gets every value. It has room for `capacity` values, and
/// slow receivers [lag](SlowReceivers::Lag).
///
/// No task is needed, unlike for a [`Fanout`](crate::Fanout), whose taps are channels. All receivers
/// share one buffer. A value leaves it when all receivers have received it. Each receiver gets a
/// clone, and the last one may get the value itself.
///
/// A receiver gets the values that are sent after it has subscribed. When all senders have been
/// dropped, it gets the values that are left, and then `Disconnected`.
///
/// # Panics
/// Panics if `capacity` is 0, or greater than [`Semaphore::MAX_PERMITS`].
///
/// # Examples
/// ```
/// use ecru_flow::BroadcastRecvError;
///
/// let (sender, slow) = ecru_flow::broadcast(2);
/// let quick = sender.subscribe();
/// for n in 1..=3 {
///     sender.send(n).unwrap();
///     assert_eq!(quick.recv(), Ok(n));
/// }
/// assert_eq!(slow.recv(), Err(BroadcastRecvError::Lagged(1)));
/// assert_eq!((slow.recv(), slow.recv()), (Ok(2), Ok(3)));
/// drop(sender);
/// assert_eq!(slow.recv(), Err(BroadcastRecvError::Disconnected));
/// ```
#[track_caller]
pub fn broadcast<T>(capacity: usize) -> (BroadcastSender<T>, BroadcastReceiver<T>) {
    broadcast_with(capacity, SlowReceivers::default())
}

/// Creates a channel as [`broadcast`] does, with a choice of what happens to slow receivers.
///
/// # Panics
/// Panics in the same cases as `broadcast`.
///
/// # Examples
/// ```
/// use ecru_flow::{SlowReceivers, broadcast_with};
///
/// ecru::run(|| {
///     let (sender, receiver) = broadcast_with(1, SlowReceivers::Block);
///     ecru::scope(|s| {
///         // Each send waits until the value before it has been received.
///         s.spawn(move || (0..100).for_each(|n| _ = sender.send(n).unwrap()));
///         (0..100).for_each(|n| assert_eq!(receiver.recv(), Ok(n)));
///     });
/// });
/// ```
#[track_caller]
pub fn broadcast_with<T>(
    capacity: usize,
    slow: SlowReceivers,
) -> (BroadcastSender<T>, BroadcastReceiver<T>) {
    assert!(
        (1..=Semaphore::MAX_PERMITS).contains(&capacity),
        "a broadcast cannot have room for {capacity} values; pass at least 1, and at most `Semaphore::MAX_PERMITS`"
    );
    let state = State { buffer: VecDeque::new(), next: 0, senders: 1, receivers: 0 };
    let places = (slow == SlowReceivers::Block).then(|| Semaphore::new(capacity));
    let (state, news) = (Mutex::new(state), WaitList::new());
    let shared = Arc::new(Shared { state, capacity, slow, places, news });
    let receiver = Shared::subscribe(&shared);
    (BroadcastSender { shared }, receiver)
}

/// The sending end of a [`broadcast`]. Clones send to the same receivers.
pub struct BroadcastSender<T> {
    shared: Arc<Shared<T>>,
}

impl<T> BroadcastSender<T> {
    /// Sends a value to all current receivers, and returns their number.
    ///
    /// If slow receivers [block](SlowReceivers::Block), the call waits for room. Senders that wait
    /// are served in the order in which they arrived. Otherwise it never waits.
    ///
    /// # Errors
    /// Returns [`SendError::Disconnected`] if there is no receiver. A later call may succeed, since
    /// receivers can [subscribe](BroadcastSender::subscribe) later. Returns
    /// [`SendError::Cancelled`] if the caller is cancelled. Both hold the value.
    ///
    /// # Panics
    /// Panics inside [`no_suspend`](ecru::no_suspend). Panics if the destructor of a dropped value
    /// panics. The value has been sent then.
    ///
    /// # Cancellation
    /// This is a cancellation point, even if the call would not wait. A cancelled call has sent the
    /// value to no receiver.
    ///
    /// # Examples
    /// ```
    /// let (sender, receiver) = ecru_flow::broadcast(4);
    /// let second = sender.subscribe();
    /// assert_eq!(sender.send("news").unwrap(), 2);
    /// drop((receiver, second));
    /// assert_eq!(sender.send("more").unwrap_err().into_inner(), "more");
    /// ```
    #[track_caller]
    pub fn send(&self, value: T) -> Result<usize, SendError<T>> {
        let place = match &self.shared.places {
            Some(places) => places.acquire().map(Some),
            None => ecru::checkpoint().map(|()| None),
        };
        let Ok(place) = place else { return Err(SendError::Cancelled(value)) };
        let sent = self.shared.push(value).map_err(SendError::Disconnected)?;
        if let Some(place) = place {
            place.forget();
        }
        Ok(sent)
    }

    /// Sends a value to all current receivers if that needs no wait, and returns their number.
    ///
    /// # Errors
    /// Returns [`TrySendError::Disconnected`] if there is no receiver. Returns
    /// [`TrySendError::Full`] if slow receivers [block](SlowReceivers::Block), and there is no room
    /// or other senders wait for it. Both hold the value.
    ///
    /// # Panics
    /// Panics if the destructor of a dropped value panics. The value has been sent then.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    ///
    /// # Examples
    /// ```
    /// use ecru_flow::{SlowReceivers, broadcast_with};
    ///
    /// let (sender, _receiver) = broadcast_with(1, SlowReceivers::Block);
    /// sender.try_send(1).unwrap();
    /// assert!(sender.try_send(2).unwrap_err().is_full());
    /// ```
    pub fn try_send(&self, value: T) -> Result<usize, TrySendError<T>> {
        let place = match &self.shared.places {
            Some(places) => match places.try_acquire() {
                Ok(place) => Some(place),
                Err(_) => return Err(TrySendError::Full(value)),
            },
            None => None,
        };
        let sent = self.shared.push(value).map_err(TrySendError::Disconnected)?;
        if let Some(place) = place {
            place.forget();
        }
        Ok(sent)
    }

    /// Creates a receiver of the values that are sent from now on.
    ///
    /// # Examples
    /// ```
    /// let (sender, early) = ecru_flow::broadcast(4);
    /// sender.send(1).unwrap();
    /// let late = sender.subscribe();
    /// sender.send(2).unwrap();
    /// assert_eq!((early.recv(), late.recv()), (Ok(1), Ok(2)));
    /// ```
    pub fn subscribe(&self) -> BroadcastReceiver<T> {
        Shared::subscribe(&self.shared)
    }

    /// Returns the number of receivers. Those that were [disconnected](SlowReceivers::Disconnect) are
    /// not counted.
    #[must_use]
    pub fn receiver_count(&self) -> usize {
        self.shared.lock().receivers
    }

    /// Returns the number of senders.
    #[must_use]
    pub fn sender_count(&self) -> usize {
        self.shared.lock().senders
    }

    /// Returns the number of values that the buffer has room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.shared.capacity
    }

    /// Returns whether both send to the same receivers.
    #[must_use]
    pub fn same_channel(&self, other: &BroadcastSender<T>) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }
}

impl<T> Clone for BroadcastSender<T> {
    fn clone(&self) -> BroadcastSender<T> {
        self.shared.lock().senders += 1;
        BroadcastSender { shared: Arc::clone(&self.shared) }
    }
}

impl<T> Drop for BroadcastSender<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.senders -= 1;
        let was_last = state.senders == 0;
        drop(state);
        if was_last {
            self.shared.news.notify_all();
        }
    }
}

impl<T> fmt::Debug for BroadcastSender<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastSender").field("receivers", &self.receiver_count()).finish()
    }
}

/// A receiver of a [`broadcast`]. Dropping it unsubscribes.
///
/// It is a [`Source`] of what [`recv`](BroadcastReceiver::recv) returns, so it can be one of several
/// sources in a `select!`. Several tasks may share a receiver by reference. Each value then goes to
/// one of them. For a receiver of all values, call
/// [`resubscribe`](BroadcastReceiver::resubscribe).
///
/// # Examples
/// ```
/// use ecru::select;
/// use std::time::Duration;
///
/// ecru::run(|| {
///     let (sender, news) = ecru_flow::broadcast(16);
///     sender.send("rain").unwrap();
///     select! {
///         wait(&news) -> heard => assert_eq!(heard.unwrap(), Ok("rain")),
///         default(Duration::from_secs(60)) => unreachable!(),
///     }
/// });
/// ```
#[must_use = "dropping it unsubscribes"]
pub struct BroadcastReceiver<T> {
    shared: Arc<Shared<T>>,
    /// The number of the value that is received next, or [`ENDED`]. It changes only under the lock.
    position: AtomicU64,
}

/// The position of a receiver that was disconnected and has been told.
const ENDED: u64 = u64::MAX;

impl<T> BroadcastReceiver<T> {
    /// Waits for the next value.
    ///
    /// # Errors
    /// - [`BroadcastRecvError::Lagged`] if values were dropped that this receiver had not received.
    /// - [`BroadcastRecvError::Disconnected`] if all senders have been dropped and this receiver has
    ///   received all values, or if it was [disconnected](SlowReceivers::Disconnect).
    /// - [`BroadcastRecvError::Cancelled`] if the wait is cancelled.
    ///
    /// # Panics
    /// Panics inside [`no_suspend`](ecru::no_suspend). Panics if the value's `clone` panics. The
    /// value is lost for this receiver then.
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled call has received nothing.
    ///
    /// # Examples
    /// ```
    /// let (sender, receiver) = ecru_flow::broadcast(4);
    /// std::thread::scope(|s| {
    ///     s.spawn(|| assert_eq!(receiver.recv(), Ok(7)));
    ///     sender.send(7).unwrap();
    /// });
    /// ```
    #[track_caller]
    pub fn recv(&self) -> Result<T, BroadcastRecvError>
    where
        T: Clone,
    {
        self.wait()?
    }

    /// Receives the next value if that needs no wait.
    ///
    /// # Errors
    /// Returns [`BroadcastTryRecvError::Empty`] if there is no value yet, and otherwise the errors of
    /// [`recv`](BroadcastReceiver::recv).
    ///
    /// # Panics
    /// Panics if the value's `clone` panics.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    ///
    /// # Examples
    /// ```
    /// use ecru_flow::BroadcastTryRecvError;
    ///
    /// let (sender, receiver) = ecru_flow::broadcast(4);
    /// assert_eq!(receiver.try_recv(), Err(BroadcastTryRecvError::Empty));
    /// sender.send(7).unwrap();
    /// assert_eq!(receiver.try_recv(), Ok(7));
    /// ```
    pub fn try_recv(&self) -> Result<T, BroadcastTryRecvError>
    where
        T: Clone,
    {
        match self.try_take() {
            Some(Ok(value)) => Ok(value),
            Some(Err(BroadcastRecvError::Lagged(missed))) => {
                Err(BroadcastTryRecvError::Lagged(missed))
            }
            Some(Err(_)) => Err(BroadcastTryRecvError::Disconnected),
            None => Err(BroadcastTryRecvError::Empty),
        }
    }

    /// Creates another receiver, of the values that are sent from now on.
    pub fn resubscribe(&self) -> BroadcastReceiver<T> {
        Shared::subscribe(&self.shared)
    }

    /// Returns the number of values that this receiver can receive without waiting.
    ///
    /// # Examples
    /// ```
    /// let (sender, receiver) = ecru_flow::broadcast(2);
    /// (1..=3).for_each(|n| _ = sender.send(n).unwrap());
    /// assert_eq!(receiver.len(), 2);
    /// ```
    #[must_use]
    pub fn len(&self) -> usize {
        let state = self.shared.lock();
        if self.is_cut_off(&state) {
            return 0;
        }
        (state.next - self.position().max(state.first())) as usize
    }

    /// Returns whether the receiver would have to wait for a value.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of receivers. Those that were [disconnected](SlowReceivers::Disconnect) are
    /// not counted.
    #[must_use]
    pub fn receiver_count(&self) -> usize {
        self.shared.lock().receivers
    }

    /// Returns the number of senders. If it is 0, no further value is sent.
    #[must_use]
    pub fn sender_count(&self) -> usize {
        self.shared.lock().senders
    }

    fn position(&self) -> u64 {
        self.position.load(Ordering::Relaxed)
    }

    /// Returns whether the receiver is none any more, because it was too slow.
    fn is_cut_off(&self, state: &State<T>) -> bool {
        let position = self.position();
        position == ENDED
            || self.shared.slow == SlowReceivers::Disconnect && position < state.first()
    }
}

impl<T: Clone> Source for BroadcastReceiver<T> {
    type Item = Result<T, BroadcastRecvError>;

    fn try_take(&self) -> Option<Self::Item> {
        let mut state = self.shared.lock();
        let (position, first) = (self.position(), state.first());
        if position == ENDED {
            return Some(Err(BroadcastRecvError::Disconnected));
        }
        if position < first {
            let (reached, missed) = match self.shared.slow {
                SlowReceivers::Disconnect => (ENDED, state.next - position),
                _ => (first, first - position),
            };
            self.position.store(reached, Ordering::Relaxed);
            return Some(Err(BroadcastRecvError::Lagged(missed)));
        }
        if position == state.next {
            return (state.senders == 0).then_some(Err(BroadcastRecvError::Disconnected));
        }
        self.position.store(position + 1, Ordering::Relaxed);
        let entry = &mut state.buffer[(position - first) as usize];
        entry.unread -= 1;
        let value = Arc::clone(&entry.value);
        let read = state.pop_read();
        drop(state);
        self.shared.has_left(usize::from(read.is_some()));
        drop(read);
        Some(Ok(Arc::unwrap_or_clone(value)))
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.shared.news);
    }
}

impl<T> Drop for BroadcastReceiver<T> {
    fn drop(&mut self) {
        // Dropped last: destructors of values may do anything.
        let mut out = Vec::new();
        let mut state = self.shared.lock();
        if self.is_cut_off(&state) {
            return;
        }
        state.receivers -= 1;
        state.discount(self.position(), 1, &mut out);
        drop(state);
        self.shared.has_left(out.len());
    }
}

impl<T> fmt::Debug for BroadcastReceiver<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastReceiver").field("len", &self.len()).finish()
    }
}

#[cfg(all(test, loom))]
mod loom_models;
