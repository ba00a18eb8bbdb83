//! From one channel to others, and from an iterator into one.

use std::borrow::Borrow;

use crate::channel::{Receiver, RecvError, SendError, Sender, unbounded};

/// What is in hand when a send fails.
pub(super) fn in_hand<T>(error: SendError<T>) -> SendError<Option<T>> {
    match error {
        SendError::Disconnected(value) => SendError::Disconnected(Some(value)),
        SendError::Cancelled(value) => SendError::Cancelled(Some(value)),
    }
}

/// The next value; none: there will be none.
pub(super) fn next<T, U>(from: &Receiver<T>) -> Result<Option<T>, SendError<Option<U>>> {
    match from.recv() {
        Ok(value) => Ok(Some(value)),
        Err(RecvError::Disconnected) => Ok(None),
        Err(RecvError::Cancelled) => Err(SendError::Cancelled(None)),
    }
}

/// Moves values from one channel to another until the first one ends.
///
/// # Errors
/// [`SendError::Disconnected`] when `to` has closed, [`SendError::Cancelled`] when a wait was cancelled: with the value in hand, which has
/// been received and not sent, if there is one. A `to` that is closed already is seen before anything is received.
///
/// # Cancellation
/// A cancel point. Nothing is lost: see above.
///
/// # Examples
/// ```
/// use ecru::channel;
///
/// let (to, there) = channel::bounded(8);
/// channel::pipe(channel::from_iter(1..=3), to).unwrap();
/// // `to` was given, not lent, and has been dropped.
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

/// Moves the values that `accepts` says yes to into one channel and the others into another, until `from` ends. A slow reader of
/// either holds both up.
///
/// # Errors
/// As [`pipe`], when either of the two has closed.
///
/// # Cancellation
/// As [`pipe`].
///
/// # Examples
/// ```
/// use ecru::channel;
///
/// let (even, evens) = channel::unbounded();
/// let (odd, odds) = channel::unbounded();
/// channel::partition(channel::from_iter(1..=5), even, odd, |n| n % 2 == 0).unwrap();
/// assert_eq!(channel::collect(evens), Ok(vec![2, 4]));
/// assert_eq!(channel::collect(odds), Ok(vec![1, 3, 5]));
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

/// Sends everything that an iterator gives. The iterator may be endless, and may be lent (`&mut`), to go on with it afterwards.
///
/// # Errors
/// As [`Sender::send`], with the item that did not go; no further one has been taken.
///
/// # Cancellation
/// A cancel point at each item.
///
/// # Examples
/// ```
/// use ecru::channel;
///
/// let (sender, receiver) = channel::bounded(4);
/// let mut numbers = 1..;
/// channel::send_all(&sender, numbers.by_ref().take(3)).unwrap();
/// drop(receiver);
/// assert_eq!(channel::send_all(&sender, &mut numbers).unwrap_err().into_inner(), 4);
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

/// A channel that has everything an iterator gives, and is closed. All of it is taken from the iterator at once: for an endless one, or
/// one that is too large to keep, spawn [`send_all`].
///
/// # Examples
/// ```
/// let numbers = ecru::channel::from_iter(1..=3);
/// assert_eq!(numbers.len(), 3);
/// assert_eq!(numbers.iter().sum::<u32>(), 6);
/// ```
#[must_use]
pub fn from_iter<I: IntoIterator>(items: I) -> Receiver<I::Item> {
    let (sender, receiver) = unbounded();
    for item in items {
        let sent = sender.try_send(item);
        debug_assert!(sent.is_ok(), "there is room for any number, and we have the receiver");
    }
    receiver
}
