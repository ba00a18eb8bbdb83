//! Permits: the right to send one value that has not been made yet, as an owned value.
//!
//! A [`Permit`] is a [`Reservation`] that the user holds. An [`OwnedPermit`] is one together with
//! its sender.

use std::fmt;

use super::errors::{SendError, TrySendError};
use super::reservation::Reservation;
use super::select::expansion::{Both, How, NoMoreArms, Pick, ReserveArm, Selection, run};
use super::sender::{Sender, send_error};

impl<T> Sender<T> {
    /// Waits until a value can be sent without waiting, and reserves the place for it. The value can
    /// then be made when it is certain that it will not have to wait.
    ///
    /// On a channel without a buffer, a receiver that waits is reserved. If it leaves before the
    /// value is sent, or refuses the value, the value stays in the channel for the next receiver.
    ///
    /// Dropping the permit gives the place back to the next sender. A permit that is forgotten, as
    /// by [`mem::forget`](std::mem::forget), keeps its place for good: the channel has less room, or
    /// one receiver is not served. If the place is in a buffer, and the channel is then closed, its
    /// receivers wait for the value until they are cancelled.
    ///
    /// In a [`select!`](crate::select), the arm `reserve(sender) -> permit` does the same.
    ///
    /// # Errors
    /// Returns [`SendError::Disconnected`] if the channel has no receiver left or was closed, and
    /// [`SendError::Cancelled`] if the wait is cancelled.
    ///
    /// # Panics
    /// Panics inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is a cancellation point. A cancelled call has reserved nothing.
    ///
    /// # Examples
    /// ```
    /// let (sender, receiver) = ecru::channel::bounded(1);
    /// let permit = sender.reserve().unwrap();
    /// assert!(sender.try_send(1).unwrap_err().is_full());
    /// permit.send(2).unwrap();
    /// assert_eq!(receiver.recv(), Ok(2));
    /// ```
    #[track_caller]
    pub fn reserve(&self) -> Result<Permit<'_, T>, SendError<()>> {
        match run(&Both::new(ReserveArm(self), NoMoreArms), true, How::Wait, false) {
            Selection::Picked(Pick::This(permit)) => permit,
            Selection::Picked(Pick::Rest(_)) | Selection::Default | Selection::Cancelled(_) => {
                unreachable!("the only arm is picked, cancelled or not")
            }
        }
    }

    /// Reserves like [`reserve`](Sender::reserve), if that needs no wait.
    ///
    /// # Errors
    /// Returns [`TrySendError::Full`] if `reserve` would wait, or would reserve a receiver that filters
    /// its values, and [`TrySendError::Disconnected`] if the channel is disconnected.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    ///
    /// # Examples
    /// ```
    /// let (sender, _receiver) = ecru::channel::bounded::<u32>(1);
    /// let permit = sender.try_reserve().unwrap();
    /// assert!(sender.try_reserve().unwrap_err().is_full());
    /// drop(permit);
    /// assert!(sender.try_reserve().is_ok());
    /// ```
    pub fn try_reserve(&self) -> Result<Permit<'_, T>, TrySendError<()>> {
        match self.channel().try_reserve(false) {
            None => Err(TrySendError::Full(())),
            Some(reservation) if reservation.is_void() => Err(TrySendError::Disconnected(())),
            Some(reservation) => Ok(Permit { reservation }),
        }
    }

    /// Reserves like [`reserve`](Sender::reserve). The permit owns the sender, and returns it when
    /// the value is sent.
    ///
    /// # Errors
    /// Returns the errors of `reserve`, with the sender.
    ///
    /// # Panics
    /// Panics like `reserve`.
    ///
    /// # Cancellation
    /// Behaves like `reserve`.
    ///
    /// # Examples
    /// ```
    /// let (sender, receiver) = ecru::channel::bounded(1);
    /// let permit = sender.reserve_owned().unwrap();
    /// let sending = std::thread::spawn(|| permit.send("from a thread").unwrap());
    /// assert_eq!(receiver.recv(), Ok("from a thread"));
    /// let sender = sending.join().unwrap();
    /// # drop(sender);
    /// ```
    #[track_caller]
    pub fn reserve_owned(self) -> Result<OwnedPermit<T>, SendError<Sender<T>>> {
        match self.reserve().map(Permit::into_number) {
            Ok(number) => Ok(OwnedPermit { sender: Some(self), number }),
            Err(SendError::Disconnected(())) => Err(SendError::Disconnected(self)),
            Err(SendError::Cancelled(())) => Err(SendError::Cancelled(self)),
        }
    }

    /// Reserves like [`reserve_owned`](Sender::reserve_owned), if that needs no wait.
    ///
    /// # Errors
    /// Returns the errors of [`try_reserve`](Sender::try_reserve), with the sender.
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    ///
    /// # Examples
    /// ```
    /// use ecru::channel::{self, TrySendError};
    ///
    /// let (sender, receiver) = channel::bounded(1);
    /// let other = sender.clone();
    /// let permit = sender.try_reserve_owned().unwrap();
    /// let refused = other.try_reserve_owned();
    /// let Err(TrySendError::Full(other)) = refused else { panic!("there is no room") };
    /// permit.send(7).unwrap();
    /// assert_eq!(receiver.recv(), Ok(7));
    /// assert!(other.try_reserve_owned().is_ok());
    /// ```
    pub fn try_reserve_owned(self) -> Result<OwnedPermit<T>, TrySendError<Sender<T>>> {
        match self.try_reserve().map(Permit::into_number) {
            Ok(number) => Ok(OwnedPermit { sender: Some(self), number }),
            Err(TrySendError::Full(())) => Err(TrySendError::Full(self)),
            Err(TrySendError::Disconnected(())) => Err(TrySendError::Disconnected(self)),
        }
    }
}

/// The right to send one value without waiting: see [`Sender::reserve`]. Dropping it gives the place
/// back.
#[must_use = "if unused, the place is given back immediately"]
pub struct Permit<'a, T> {
    reservation: Reservation<'a, T>,
}

impl<'a, T> Permit<'a, T> {
    /// Makes a permit of a reservation, unless the channel is disconnected.
    pub(super) fn new(reservation: Reservation<'a, T>) -> Result<Permit<'a, T>, SendError<()>> {
        if reservation.is_void() {
            return Err(SendError::Disconnected(()));
        }
        Ok(Permit { reservation })
    }

    fn into_number(self) -> usize {
        self.reservation.into_number()
    }

    /// Sends the value. Never waits. If the channel has been [closed](Sender::close) meanwhile, the
    /// value is still received, provided that the channel keeps a place in a buffer for it: a
    /// bounded, an unbounded or a oneshot channel does. The others refuse it then.
    ///
    /// # Errors
    /// Returns [`SendError::Disconnected`] with the value if no receiver is left, the channel has been
    /// closed and kept no place for the value, or [`close_now`](Sender::close_now) has been called.
    pub fn send(self, value: T) -> Result<(), SendError<T>> {
        self.reservation.send_at_once(value).map_err(send_error)
    }
}

impl<T> fmt::Debug for Permit<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").finish_non_exhaustive()
    }
}

/// The right to send one value without waiting, together with its sender: see
/// [`Sender::reserve_owned`]. Dropping it gives the place back, and drops the sender.
#[must_use = "if unused, the place is given back immediately"]
pub struct OwnedPermit<T> {
    /// `None` once the permit has been used.
    sender: Option<Sender<T>>,
    /// The reservation, as [`Reservation::into_number`] has made it.
    number: usize,
}

impl<T> OwnedPermit<T> {
    /// Sends the value like [`Permit::send`], and returns the sender.
    ///
    /// # Errors
    /// Returns [`SendError::Disconnected`] with the value if no receiver is left. The sender is then
    /// dropped.
    pub fn send(mut self, value: T) -> Result<Sender<T>, SendError<T>> {
        let sender = self.take_sender();
        let reservation = Reservation::from_number(sender.channel(), self.number);
        let sent = reservation.send_at_once(value);
        sent.map(|()| sender).map_err(send_error)
    }

    /// Gives the place back, and returns the sender.
    ///
    /// # Examples
    /// ```
    /// let (sender, _receiver) = ecru::channel::bounded(1);
    /// let sender = sender.reserve_owned().unwrap().release();
    /// assert!(sender.try_send(7).is_ok());
    /// ```
    #[must_use]
    pub fn release(mut self) -> Sender<T> {
        let sender = self.take_sender();
        drop(Reservation::from_number(sender.channel(), self.number));
        sender
    }

    /// Takes the sender out. The caller uses the reservation.
    fn take_sender(&mut self) -> Sender<T> {
        self.sender.take().expect("only the methods that consume the permit take it")
    }
}

impl<T> Drop for OwnedPermit<T> {
    fn drop(&mut self) {
        if let Some(sender) = &self.sender {
            drop(Reservation::from_number(sender.channel(), self.number));
        }
    }
}

impl<T> fmt::Debug for OwnedPermit<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OwnedPermit").finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
mod loom_models;
