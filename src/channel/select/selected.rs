//! An operation that a `Select` has selected.

use std::fmt;
use std::ptr;

use super::super::errors::{RecvError, SendError};
use super::super::receiver::Receiver;
use super::super::reservation::Reservation;
use super::super::sender::{Sender, send_error};
use super::operation::{Operation, SelectToken};

/// An operation that a [`Select`](super::Select) has selected, and that is possible now with what
/// has been reserved for it.
///
/// If it is dropped without having been done, the reservation is released: a value goes back to the
/// front of its channel, and space or a receiver becomes free again.
///
/// # Examples
/// ```
/// use ecru::channel::{self, Select};
///
/// let (sender, receiver) = channel::bounded(1);
/// let mut select = Select::new();
/// let send = select.send(&sender);
/// let recv = select.recv(&receiver);
/// for _ in 0..2 {
///     let selected = select.select();
///     match selected.index() {
///         // There is room first, and then a value.
///         index if index == send => selected.send(&sender, "hello").unwrap(),
///         index if index == recv => assert_eq!(selected.recv(&receiver), Ok("hello")),
///         _ => unreachable!("there are two operations"),
///     }
/// }
/// ```
pub struct SelectedOperation<'a> {
    operation: &'a dyn Operation,
    index: usize,
    token: SelectToken,
    /// Whether the select had no time limit. Then the send has none either, if its receiver has
    /// left.
    waits: bool,
}

impl<'a> SelectedOperation<'a> {
    pub(super) fn new(
        operation: &'a dyn Operation,
        index: usize,
        token: SelectToken,
        waits: bool,
    ) -> SelectedOperation<'a> {
        SelectedOperation { operation, index, token, waits }
    }

    /// Returns the index of the operation, as returned by [`Select::send`](super::Select::send) or
    /// [`Select::recv`](super::Select::recv).
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Performs the selected send.
    ///
    /// On a channel without a buffer, the receiver for which this operation was selected may have
    /// left meanwhile. After [`Select::select`](super::Select::select), the send then waits for
    /// another receiver. After a select that does not wait or has a time limit, the send does not
    /// wait: the value stays in the channel for the next receiver.
    ///
    /// # Errors
    /// Returns the errors of [`Sender::send`].
    ///
    /// # Panics
    /// Panics if the sender of another channel is passed, or if the selected operation is a
    /// receive.
    ///
    /// # Cancellation
    /// This is a cancellation point only if the send waits.
    #[track_caller]
    pub fn send<T: Send>(mut self, sender: &Sender<T>, value: T) -> Result<(), SendError<T>> {
        self.check(sender, "`SelectedOperation::send`: this is not the sender that was selected");
        match std::mem::replace(&mut self.token, SelectToken::Cancelled) {
            SelectToken::Send(number) => {
                let reservation = Reservation::from_number(sender.channel(), number);
                let sent = if self.waits {
                    reservation.send(value)
                } else {
                    reservation.send_at_once(value)
                };
                sent.map_err(send_error)
            }
            SelectToken::Cancelled => Err(SendError::Cancelled(value)),
            token => {
                self.token = token;
                panic!(
                    "`SelectedOperation::send`: the selected operation is a receive; call `recv`"
                )
            }
        }
    }

    /// Performs the selected receive.
    ///
    /// # Errors
    /// Returns the errors of [`Receiver::recv`].
    ///
    /// # Panics
    /// Panics if the receiver of another channel is passed, or if the selected operation is a send.
    #[track_caller]
    pub fn recv<T: Send>(mut self, receiver: &Receiver<T>) -> Result<T, RecvError> {
        let wrong = "`SelectedOperation::recv`: this is not the receiver that was selected";
        self.check(receiver, wrong);
        match self.token {
            SelectToken::Value(ticket, buffered) => {
                // In a predicate of this channel this panics, and the drop then puts the value
                // back.
                let mut locked = receiver.channel().lock();
                self.token = SelectToken::Cancelled;
                let value = locked.fetch(ticket).expect("kept until the operation is done");
                if buffered {
                    locked.state.reserved -= 1;
                    locked.settle();
                }
                locked.disconnect_if_drained();
                Ok(value)
            }
            SelectToken::Disconnected => Err(RecvError::Disconnected),
            SelectToken::Cancelled => Err(RecvError::Cancelled),
            SelectToken::Send(_) => {
                panic!("`SelectedOperation::recv`: the selected operation is a send; call `send`")
            }
        }
    }

    #[track_caller]
    fn check(&self, given: &dyn Operation, wrong: &str) {
        assert!(ptr::eq(given.address(), self.operation.address()), "{wrong}");
    }
}

impl Drop for SelectedOperation<'_> {
    fn drop(&mut self) {
        self.operation.give_back(self.token);
    }
}

impl fmt::Debug for SelectedOperation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SelectedOperation").field("index", &self.index).finish_non_exhaustive()
    }
}
