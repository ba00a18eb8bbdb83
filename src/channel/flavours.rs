//! The kinds of channels.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::core::Channel;
use super::receiver::Receiver;
use super::sender::Sender;
use super::state::{Clockwork, Overflow, State};
use crate::base::alarm::Ring;
use crate::base::clock;

fn ends<T>(state: State<T>) -> (Sender<T>, Receiver<T>) {
    let channel = Arc::new(Channel::new(state));
    (Sender::new(Arc::clone(&channel)), Receiver::new(channel))
}

/// A channel in which `capacity` values fit; senders wait for room. With 0 it has no buffer: each send waits for its receiver.
///
/// Memory is taken as values come, so any capacity will do.
///
/// # Examples
/// ```
/// let (sender, receiver) = ecru::channel::bounded(2);
/// sender.send(1).unwrap();
/// sender.send(2).unwrap();
/// assert!(sender.try_send(3).unwrap_err().is_full());
/// assert_eq!(receiver.recv(), Ok(1));
/// ```
#[must_use]
pub fn bounded<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    // The largest number stands for "any"; nobody will see the difference.
    ends(State::new(capacity.min(usize::MAX - 1)))
}

/// A channel in which any number of values fit; sending never waits.
///
/// # Examples
/// ```
/// let (sender, receiver) = ecru::channel::unbounded();
/// sender.send(1).unwrap();
/// sender.send(2).unwrap();
/// assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2]);
/// ```
#[must_use]
pub fn unbounded<T>() -> (Sender<T>, Receiver<T>) {
    ends(State::new(usize::MAX))
}

/// A channel in which `capacity` values fit, and that drops those for which there is no room: sending never waits, and says that it
/// went well.
///
/// # Panics
/// With a capacity of 0.
///
/// # Examples
/// ```
/// let (sender, receiver) = ecru::channel::dropping(2);
/// for number in 1..=3 {
///     sender.send(number).unwrap();
/// }
/// assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2]);
/// ```
#[must_use]
#[track_caller]
pub fn dropping<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(
        capacity > 0,
        "a dropping channel without room would drop everything; give it a capacity of 1 or more"
    );
    ends(State { overflow: Overflow::DropNewest, ..State::new(capacity.min(usize::MAX - 1)) })
}

/// A channel in which `capacity` values fit, and that drops the oldest one when another comes for which there is no room: sending
/// never waits.
///
/// # Panics
/// With a capacity of 0.
///
/// # Examples
/// ```
/// let (sender, receiver) = ecru::channel::sliding(2);
/// for number in 1..=3 {
///     sender.send(number).unwrap();
/// }
/// assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [2, 3]);
/// ```
#[must_use]
#[track_caller]
pub fn sliding<T>(capacity: usize) -> (Sender<T>, Receiver<T>) {
    assert!(
        capacity > 0,
        "a sliding channel without room would drop everything; give it a capacity of 1 or more"
    );
    ends(State { overflow: Overflow::DropOldest, ..State::new(capacity.min(usize::MAX - 1)) })
}

/// A channel for one value: the first send succeeds without waiting, and closes it.
///
/// # Examples
/// ```
/// let (sender, receiver) = ecru::channel::oneshot();
/// sender.send(7).unwrap();
/// assert!(sender.send(8).is_err());
/// assert_eq!(receiver.recv(), Ok(7));
/// ```
#[must_use]
pub fn oneshot<T>() -> (Sender<T>, Receiver<T>) {
    ends(State::once())
}

/// The receiving end of a channel that nobody sends to, and that is never disconnected.
fn lone<T>(state: State<T>) -> Receiver<T> {
    // The sender that is counted when a channel is made is never dropped.
    Receiver::new(Arc::new(Channel::new(state)))
}

/// The same for one that has values by itself.
fn clocked(next: Instant, period: Option<Duration>) -> Receiver<Instant> {
    Receiver::new(Arc::new_cyclic(|channel: &Weak<Channel<Instant>>| {
        let channel: Weak<dyn Ring> = channel.clone();
        let clockwork = Clockwork { next, period, make: |due| due, channel };
        Channel::new(State::with_clockwork(clockwork))
    }))
}

/// A channel that has one value, the moment `duration` from now, when that has come; and never another.
///
/// # Examples
/// ```
/// use std::time::{Duration, Instant};
///
/// let start = Instant::now();
/// let due = ecru::channel::after(Duration::from_millis(1)).recv().unwrap();
/// assert!(due >= start + Duration::from_millis(1) && Instant::now() >= due);
/// ```
#[must_use]
pub fn after(duration: Duration) -> Receiver<Instant> {
    match clock::now().checked_add(duration) {
        Some(due) => at(due),
        // Past the end of time.
        None => never(),
    }
}

/// A channel that has one value, `due`, when that moment has come; and never another.
///
/// # Examples
/// ```
/// use std::time::Instant;
///
/// let due = Instant::now();
/// assert_eq!(ecru::channel::at(due).recv(), Ok(due));
/// ```
#[must_use]
pub fn at(due: Instant) -> Receiver<Instant> {
    clocked(due, None)
}

/// A channel that has a value, the moment when it was due, every `period` from now on. A value that nobody has fetched when the next
/// would be due delays that one: there are no bursts. A period of zero always has a value.
///
/// # Examples
/// ```
/// use std::time::{Duration, Instant};
///
/// let start = Instant::now();
/// let ticks = ecru::channel::tick(Duration::from_millis(1));
/// ticks.recv().unwrap();
/// ticks.recv().unwrap();
/// assert!(start.elapsed() >= Duration::from_millis(2));
/// ```
#[must_use]
pub fn tick(period: Duration) -> Receiver<Instant> {
    let Some(next) = clock::now().checked_add(period) else { return never() };
    clocked(next, Some(period))
}

/// Returns the receiver of a channel that never has a value and is never disconnected.
///
/// For [`same_channel`](Receiver::same_channel) all of these are the same channel.
///
/// # Examples
/// ```
/// assert!(ecru::channel::never::<u32>().try_recv().unwrap_err().is_empty());
/// ```
#[must_use]
pub fn never<T>() -> Receiver<T> {
    lone(State { is_never: true, ..State::new(0) })
}
