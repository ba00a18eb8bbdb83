//! Calls that receive all values of a channel and combine them into one.

use std::borrow::Borrow;
use std::ops::ControlFlow;

use ecru::Cancelled;
use ecru::channel::Receiver;

/// Receives until the channel ends, and folds all values into one, starting with `initial`.
///
/// # Errors
/// Returns [`Cancelled`] if a wait is cancelled. The result so far is dropped. To keep it, store it
/// outside and let `f` change it there.
///
/// # Cancellation
/// Each receive is a cancellation point.
///
/// # Examples
/// ```
/// assert_eq!(ecru_flow::fold(ecru_flow::from_iter(1..=4), 0, |sum, n| sum + n), Ok(10));
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

/// Folds as [`fold`] does, but stops when `f` returns `Break`. No value is received after that.
///
/// # Errors
/// Returns the errors of [`fold`].
///
/// # Cancellation
/// Each receive is a cancellation point.
///
/// # Examples
/// ```
/// use std::ops::ControlFlow::{Break, Continue};
///
/// let numbers = ecru_flow::from_iter(1..=100);
/// let first_above_ten = ecru_flow::try_fold(&numbers, 0, |sum, n| {
///     if sum > 10 { Break(sum) } else { Continue(sum + n) }
/// });
/// assert_eq!(first_above_ten, Ok(Break(15)));
/// assert_eq!(numbers.recv(), Ok(7));
/// ```
#[track_caller]
pub fn try_fold<T, B, C>(
    from: impl Borrow<Receiver<T>>,
    initial: B,
    mut f: impl FnMut(B, T) -> ControlFlow<C, B>,
) -> Result<ControlFlow<C, B>, Cancelled> {
    let mut made = initial;
    for value in from.borrow().results() {
        match f(made, value?) {
            ControlFlow::Continue(more) => made = more,
            done => return Ok(done),
        }
    }
    Ok(ControlFlow::Continue(made))
}

/// Receives until the channel ends, and returns all values.
///
/// # Errors
/// Returns [`Cancelled`] if a wait is cancelled. The values so far are dropped. To keep them, use
/// [`Receiver::results`].
///
/// # Cancellation
/// Each receive is a cancellation point.
///
/// # Examples
/// ```
/// assert_eq!(ecru_flow::collect(ecru_flow::from_iter("abc".chars())), Ok(vec!['a', 'b', 'c']));
/// ```
#[track_caller]
pub fn collect<T>(from: impl Borrow<Receiver<T>>) -> Result<Vec<T>, Cancelled> {
    fold(from, Vec::new(), |mut all, value| {
        all.push(value);
        all
    })
}
