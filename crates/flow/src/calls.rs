//! Calls that move values from a channel to others, or from an iterator into a channel.

use std::borrow::Borrow;

use ecru::channel::{Receiver, RecvError, SendError, Sender, unbounded};

/// Converts the error of a send, so that its value is the value in hand.
pub(crate) fn in_hand<T>(error: SendError<T>) -> SendError<Option<T>> {
    match error {
        SendError::Disconnected(value) => SendError::Disconnected(Some(value)),
        SendError::Cancelled(value) => SendError::Cancelled(Some(value)),
    }
}

/// Receives the next value, or `None` after the last one.
pub(crate) fn next<T, U>(from: &Receiver<T>) -> Result<Option<T>, SendError<Option<U>>> {
    match from.recv() {
        Ok(value) => Ok(Some(value)),
        Err(RecvError::Disconnected) => Ok(None),
        Err(RecvError::Cancelled) => Err(SendError::Cancelled(None)),
    }
}

/// Moves values from one channel to another until the first one ends.
///
/// # Errors
/// Returns [`SendError::Disconnected`] if `to` is closed, and [`SendError::Cancelled`] if a wait is
/// cancelled. Both hold the value that has been received and not sent, if there is one. If `to` is
/// closed from the start, nothing is received.
///
/// # Cancellation
/// This is a cancellation point. Nothing is lost: the error holds the value in hand.
///
/// # Examples
/// ```
/// use ecru::channel;
///
/// let (to, there) = channel::bounded(8);
/// ecru_flow::pipe(ecru_flow::from_iter(1..=3), to).unwrap();
/// // `to` was passed by value, and has been dropped.
/// assert_eq!(there.iter().collect::<Vec<_>>(), [1, 2, 3]);
/// ```
#[track_caller]
pub fn pipe<T>(
    from: impl Borrow<Receiver<T>>,
    to: impl Borrow<Sender<T>>,
) -> Result<(), SendError<Option<T>>> {
    let (from, to) = (from.borrow(), to.borrow());
    loop {
        if to.is_closed() {
            return Err(SendError::Disconnected(None));
        }
        let Some(value) = next(from)? else { return Ok(()) };
        to.send(value).map_err(in_hand)?;
    }
}

/// Moves the values for which `accepts` returns true into one channel, and the others into another,
/// until `from` ends.
///
/// A slow reader of either channel holds up both.
///
/// # Errors
/// Returns the errors of [`pipe`]. Here `SendError::Disconnected` means that either of the two
/// channels is closed.
///
/// # Cancellation
/// This is a cancellation point. Nothing is lost: the error holds the value in hand.
///
/// # Examples
/// ```
/// use ecru::channel;
///
/// let (even, evens) = channel::unbounded();
/// let (odd, odds) = channel::unbounded();
/// ecru_flow::partition(ecru_flow::from_iter(1..=5), even, odd, |n| n % 2 == 0).unwrap();
/// assert_eq!(ecru_flow::collect(evens), Ok(vec![2, 4]));
/// assert_eq!(ecru_flow::collect(odds), Ok(vec![1, 3, 5]));
/// ```
#[track_caller]
pub fn partition<T>(
    from: impl Borrow<Receiver<T>>,
    accepted: impl Borrow<Sender<T>>,
    refused: impl Borrow<Sender<T>>,
    mut accepts: impl FnMut(&T) -> bool,
) -> Result<(), SendError<Option<T>>> {
    let (from, accepted, refused) = (from.borrow(), accepted.borrow(), refused.borrow());
    loop {
        if accepted.is_closed() || refused.is_closed() {
            return Err(SendError::Disconnected(None));
        }
        let Some(value) = next(from)? else { return Ok(()) };
        let to = if accepts(&value) { accepted } else { refused };
        to.send(value).map_err(in_hand)?;
    }
}

/// Sends all items of an iterator, which may be endless. Pass `&mut iterator` to continue with it
/// after an error.
///
/// # Errors
/// Returns the errors of [`Sender::send`], with the item that was not sent. No further item has
/// been taken from the iterator.
///
/// # Cancellation
/// Each send is a cancellation point.
///
/// # Examples
/// ```
/// use ecru::channel;
///
/// let (sender, receiver) = channel::bounded(4);
/// let mut numbers = 1..;
/// ecru_flow::send_all(&sender, numbers.by_ref().take(3)).unwrap();
/// drop(receiver);
/// assert_eq!(ecru_flow::send_all(&sender, &mut numbers).unwrap_err().into_inner(), 4);
/// assert_eq!(numbers.next(), Some(5));
/// ```
#[track_caller]
pub fn send_all<I: IntoIterator>(
    to: impl Borrow<Sender<I::Item>>,
    items: I,
) -> Result<(), SendError<I::Item>> {
    let to = to.borrow();
    items.into_iter().try_for_each(|item| to.send(item))
}

/// Returns the receiver of a closed channel that holds all items of an iterator.
///
/// The call takes all items from the iterator. If the iterator is endless, or its items are too
/// many to keep, spawn a task that calls [`send_all`] instead.
///
/// # Examples
/// ```
/// let numbers = ecru_flow::from_iter(1..=3);
/// assert_eq!(numbers.len(), 3);
/// assert_eq!(numbers.iter().sum::<u32>(), 6);
/// ```
#[must_use]
pub fn from_iter<I: IntoIterator>(items: I) -> Receiver<I::Item> {
    let (sender, receiver) = unbounded();
    for item in items {
        let sent = sender.try_send(item);
        debug_assert!(sent.is_ok(), "the channel is unbounded, and its receiver is here");
    }
    receiver
}
