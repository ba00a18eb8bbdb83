//! Receiving everything into one value.

use std::borrow::Borrow;
use std::ops::ControlFlow;

use crate::channel::{Receiver, RecvError, errors};
use crate::task::Cancelled;

/// Receives until the channel ends, and gives what `f` makes of it all, one value after another, beginning with `initial`.
///
/// # Errors
/// [`Cancelled`] when a wait was cancelled. What has been made so far is dropped; where it matters, keep it outside and let `f` change it.
///
/// # Cancellation
/// A cancel point at each value.
///
/// # Examples
/// ```
/// use ecru::channel;
///
/// assert_eq!(channel::fold(channel::from_iter(1..=4), 0, |sum, n| sum + n), Ok(10));
/// ```
#[track_caller]
pub fn fold<T, B>(
    from: impl Borrow<Receiver<T>>,
    initial: B,
    mut f: impl FnMut(B, T) -> B,
) -> Result<B, Cancelled> {
    let folded =
        try_fold(from, initial, |made, value| ControlFlow::<B, B>::Continue(f(made, value)))?;
    let (ControlFlow::Continue(made) | ControlFlow::Break(made)) = folded;
    Ok(made)
}

/// [`fold`], which stops when `f` says so: nothing further is received.
///
/// # Errors
/// As [`fold`].
///
/// # Cancellation
/// As [`fold`].
///
/// # Examples
/// ```
/// use ecru::channel;
/// use std::ops::ControlFlow::{Break, Continue};
///
/// let numbers = channel::from_iter(1..=100);
/// let first_above_ten =
///     channel::try_fold(&numbers, 0, |sum, n| if sum > 10 { Break(sum) } else { Continue(sum + n) });
/// assert_eq!(first_above_ten, Ok(Break(15)));
/// assert_eq!(numbers.recv(), Ok(7));
/// ```
#[track_caller]
pub fn try_fold<T, B, C>(
    from: impl Borrow<Receiver<T>>,
    initial: B,
    mut f: impl FnMut(B, T) -> ControlFlow<C, B>,
) -> Result<ControlFlow<C, B>, Cancelled> {
    let from = from.borrow();
    let mut made = initial;
    loop {
        match from.recv() {
            Ok(value) => match f(made, value) {
                ControlFlow::Continue(more) => made = more,
                done => return Ok(done),
            },
            Err(RecvError::Disconnected) => return Ok(ControlFlow::Continue(made)),
            Err(RecvError::Cancelled) => return Err(errors::cancelled_now()),
        }
    }
}

/// Receives until the channel ends, and gives everything that came.
///
/// # Errors
/// [`Cancelled`] when a wait was cancelled. What has come so far is dropped; [`Receiver::results`] lets you keep it.
///
/// # Cancellation
/// A cancel point at each value.
///
/// # Examples
/// ```
/// use ecru::channel;
///
/// assert_eq!(channel::collect(channel::from_iter("abc".chars())), Ok(vec!['a', 'b', 'c']));
/// ```
#[track_caller]
pub fn collect<T>(from: impl Borrow<Receiver<T>>) -> Result<Vec<T>, Cancelled> {
    fold(from, Vec::new(), |mut all, value| {
        all.push(value);
        all
    })
}
