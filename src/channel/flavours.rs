//! The kinds of channels.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use super::core::Channel;
use super::receiver::Receiver;
use super::sender::Sender;
use super::state::{ChannelKind, ChannelState, Clockwork};
use crate::base::alarm::Ring;
use crate::base::clock;

/// Creates both ends of a channel. `capacity` is `usize::MAX` for an unbounded channel.
fn ends<T>(kind: ChannelKind<T>, capacity: usize) -> (Sender<T>, Receiver<T>) {
    let channel = Arc::new(Channel::new(ChannelState::new(kind, capacity)));
    (Sender::new(Arc::clone(&channel)), Receiver::new(channel))
}

/// Creates a channel that holds at most `capacity` values. A send waits while the channel is full.
/// With a capacity of 0 the channel has no buffer: each send waits until a receiver takes its
/// value.
///
/// Memory is allocated as values arrive, so any capacity is possible.
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
    // `usize::MAX` stands for an unbounded channel. The difference of one cannot be observed.
    ends(ChannelKind::Blocking, capacity.min(usize::MAX - 1))
}

/// Creates a channel that holds any number of values. A send never waits.
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
    ends(ChannelKind::Blocking, usize::MAX)
}

/// Creates a channel that holds at most `capacity` values and drops new values while it is full. A
/// send never waits and never reports that its value was dropped.
///
/// # Panics
/// Panics if the capacity is 0.
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
    ends(ChannelKind::Dropping, capacity.min(usize::MAX - 1))
}

/// Creates a channel that holds at most `capacity` values and drops the oldest one when a value
/// arrives while it is full. A send never waits.
///
/// # Panics
/// Panics if the capacity is 0.
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
    ends(ChannelKind::Sliding, capacity.min(usize::MAX - 1))
}

/// Creates a channel for one value. The first send succeeds without waiting and closes the channel.
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
    ends(ChannelKind::Oneshot, 1)
}

/// Returns the receiver of a channel whose values are produced by a clock.
fn clocked(next: Instant, period: Option<Duration>) -> Receiver<Instant> {
    Receiver::new(Arc::new_cyclic(|channel: &Weak<Channel<Instant>>| {
        let channel: Weak<dyn Ring> = channel.clone();
        let clockwork = Clockwork { next: Some(next), period, make: |due| due, channel };
        Channel::new(ChannelState::new(ChannelKind::Timed(clockwork), 1))
    }))
}

/// Returns the receiver of a channel that delivers one value: the instant `duration` from now, when
/// it has come.
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
        // The instant is beyond what `Instant` can represent.
        None => never(),
    }
}

/// Returns the receiver of a channel that delivers one value: `due`, when that instant has come.
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

/// Returns the receiver of a channel that delivers a value every `period` from now on: the instant
/// at which it was due. If a value has not been received when the next one would be due, the next
/// one is delayed, so there are no bursts. With a period of zero the channel always has a value.
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
/// [`same_channel`](Receiver::same_channel) treats all of these receivers as receivers of one
/// channel.
///
/// # Examples
/// ```
/// assert!(ecru::channel::never::<u32>().try_recv().unwrap_err().is_empty());
/// ```
#[must_use]
pub fn never<T>() -> Receiver<T> {
    // The count of senders starts at one, and nothing ever decrements it.
    Receiver::new(Arc::new(Channel::new(ChannelState::new(ChannelKind::Never, 0))))
}
