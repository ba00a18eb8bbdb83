//! The arms of a `select!`.
#![expect(unsafe_code, reason = "registers nodes of waits")]

use std::any::type_name;
use std::fmt;
use std::ptr;

use super::super::core::Channel;
use super::super::errors::{RecvError, SendError};
use super::super::fast_path::TryRecv;
use super::super::permit::Permit;
use super::super::receiver::Receiver;
use super::super::reservation::Reservation;
use super::super::sender::{Sender, send_error};
use super::super::source::watch_room;
use crate::park::Role;
use crate::source::{Arms, Pass, Source, Won};
use crate::task::Cancelled;

/// The result of trying an arm.
#[derive(Debug)]
pub enum Attempt<T> {
    /// The operation was possible, and this is its output.
    Done(T),
    /// The operation is not possible now.
    Nothing,
    /// There is no value, but a waiting select would make one for a receiver. Only a select that
    /// waits gets this result.
    Offer,
}

impl<T> Attempt<T> {
    pub(super) fn of(done: Option<T>) -> Attempt<T> {
        done.map_or(Attempt::Nothing, Attempt::Done)
    }

    pub(super) fn map<U>(self, f: impl FnOnce(T) -> U) -> Attempt<U> {
        match self {
            Attempt::Done(value) => Attempt::Done(f(value)),
            Attempt::Nothing => Attempt::Nothing,
            Attempt::Offer => Attempt::Offer,
        }
    }
}

/// One of the operations that a select waits for.
pub trait Arm {
    /// The output of the operation.
    type Output;

    /// Returns whether the operation may be selected at all.
    #[doc(hidden)]
    fn is_on(&self) -> bool {
        true
    }

    /// Tries the operation. `waits` tells whether the select may wait afterwards.
    #[doc(hidden)]
    fn attempt(&self, waits: bool) -> Attempt<Self::Output>;
    #[doc(hidden)]
    fn register<'a>(&'a self, arms: &mut Arms<'a>);
    #[doc(hidden)]
    fn finish(&self, won: &Won<'_>) -> Option<Self::Output>;
    #[doc(hidden)]
    fn cancelled(&self, cancelled: Cancelled) -> Self::Output;
    /// Describes what the operation waits for. It calls no code of the user.
    #[doc(hidden)]
    fn describe(&self) -> String;
}

/// `recv(receiver)`.
#[derive(Debug)]
pub struct RecvArm<'a, T>(pub &'a Receiver<T>);

impl<T> Arm for RecvArm<'_, T> {
    type Output = Result<T, RecvError>;

    #[inline(always)]
    fn attempt(&self, waits: bool) -> Attempt<Self::Output> {
        let channel = self.0.channel();
        let mut locked = channel.lock();
        let received = match locked.try_recv() {
            TryRecv::Empty if locked.has_offer() => {
                if waits {
                    return Attempt::Offer;
                }
                channel.meet(locked)
            }
            received => received,
        };
        match received {
            TryRecv::Value(value) => Attempt::Done(Ok(value)),
            TryRecv::Disconnected => Attempt::Done(Err(RecvError::Disconnected)),
            TryRecv::Empty => Attempt::Nothing,
        }
    }

    fn register<'a>(&'a self, arms: &mut Arms<'a>) {
        self.0.__register(arms);
    }

    fn finish(&self, won: &Won<'_>) -> Option<Self::Output> {
        self.0.__finish(won)
    }

    fn cancelled(&self, _: Cancelled) -> Self::Output {
        Err(RecvError::Cancelled)
    }

    fn describe(&self) -> String {
        self.0.channel().describe_recv()
    }
}

/// `wait(source)`.
#[derive(Debug)]
pub struct WaitArm<'a, S: ?Sized>(pub &'a S);

impl<S: Source + ?Sized> Arm for WaitArm<'_, S> {
    type Output = Result<S::Item, Cancelled>;

    fn attempt(&self, _: bool) -> Attempt<Self::Output> {
        Attempt::of(self.0.try_take().map(Ok))
    }

    fn register<'a>(&'a self, arms: &mut Arms<'a>) {
        self.0.__register(arms);
    }

    fn finish(&self, won: &Won<'_>) -> Option<Self::Output> {
        self.0.__finish(won).map(Ok)
    }

    fn cancelled(&self, cancelled: Cancelled) -> Self::Output {
        Err(cancelled)
    }

    fn describe(&self) -> String {
        String::from(type_name::<S>())
    }
}

/// `send(sender, ..)`.
#[derive(Debug)]
pub struct SendArm<'a, T>(pub &'a Sender<T>);

impl<'s, T> Arm for SendArm<'s, T> {
    type Output = Grant<'s, T>;

    fn attempt(&self, waits: bool) -> Attempt<Self::Output> {
        Attempt::of(self.0.channel().try_reserve(waits).map(Grant::reserved))
    }

    fn register<'a>(&'a self, arms: &mut Arms<'a>) {
        register_offer(self.0.channel(), arms);
    }

    fn finish(&self, won: &Won<'_>) -> Option<Self::Output> {
        finish_offer(self.0, won).map(Grant::reserved)
    }

    fn cancelled(&self, _: Cancelled) -> Self::Output {
        Grant { reservation: None }
    }

    fn describe(&self) -> String {
        self.0.channel().describe_send()
    }
}

pub(super) fn register_offer<'a, T>(channel: &'a Channel<T>, arms: &mut Arms<'a>) {
    if arms.watches() {
        return watch_room(channel, arms);
    }
    match arms.pass() {
        Pass::Count => arms.count(),
        Pass::Notify => {}
        Pass::Take => {
            if arms.only().is_some() {
                return;
            }
            let mut locked = channel.lock();
            if locked.can_reserve_but(|node| arms.is_own(node)) {
                drop(locked);
                arms.set_ready();
                return;
            }
            let senders = &locked.state.senders;
            // SAFETY: N1: the channel is borrowed for `'a`, and the line of senders is in it. N2:
            // an offer has no data.
            unsafe { arms.push(channel.list(), senders, Role::Offer, ptr::null_mut(), None) };
            if locked.state.capacity == 0 {
                locked.notify_onlookers();
            }
        }
    }
}

pub(super) fn finish_offer<'s, T>(
    sender: &'s Sender<T>,
    won: &Won<'_>,
) -> Option<Reservation<'s, T>> {
    if !won.is_of(sender.channel().list()) || won.role() != Role::Offer {
        return None;
    }
    // If nothing was reserved, the channel has been closed, and the send will report that.
    let channel = sender.channel();
    channel.reserved_for(won.node()).or_else(|| channel.try_reserve(true))
}

/// `reserve(sender)`.
#[derive(Debug)]
pub struct ReserveArm<'a, T>(pub &'a Sender<T>);

impl<'s, T> Arm for ReserveArm<'s, T> {
    type Output = Result<Permit<'s, T>, SendError<()>>;

    fn attempt(&self, waits: bool) -> Attempt<Self::Output> {
        Attempt::of(self.0.channel().try_reserve(waits).map(Permit::new))
    }

    fn register<'a>(&'a self, arms: &mut Arms<'a>) {
        register_offer(self.0.channel(), arms);
    }

    fn finish(&self, won: &Won<'_>) -> Option<Self::Output> {
        finish_offer(self.0, won).map(Permit::new)
    }

    fn cancelled(&self, _: Cancelled) -> Self::Output {
        Err(SendError::Cancelled(()))
    }

    fn describe(&self) -> String {
        self.0.channel().describe_send()
    }
}

/// An arm with the condition `if on`. If that is false, the arm is never possible.
#[derive(Debug)]
pub struct IfArm<A> {
    on: bool,
    arm: A,
}

impl<A> IfArm<A> {
    /// Adds a condition to an arm.
    pub fn new(on: bool, arm: A) -> IfArm<A> {
        IfArm { on, arm }
    }
}

impl<A: Arm> Arm for IfArm<A> {
    type Output = A::Output;

    fn is_on(&self) -> bool {
        self.on
    }

    fn attempt(&self, waits: bool) -> Attempt<A::Output> {
        if self.on { self.arm.attempt(waits) } else { Attempt::Nothing }
    }

    fn register<'a>(&'a self, arms: &mut Arms<'a>) {
        if self.on {
            self.arm.register(arms);
        }
    }

    fn finish(&self, won: &Won<'_>) -> Option<A::Output> {
        self.arm.finish(won)
    }

    fn cancelled(&self, cancelled: Cancelled) -> A::Output {
        self.arm.cancelled(cancelled)
    }

    fn describe(&self) -> String {
        self.arm.describe()
    }
}

/// The right to send one value. Dropping it releases the reservation.
pub struct Grant<'a, T> {
    /// `None` if the select was cancelled.
    reservation: Option<Reservation<'a, T>>,
}

impl<'a, T> Grant<'a, T> {
    fn reserved(reservation: Reservation<'a, T>) -> Grant<'a, T> {
        Grant { reservation: Some(reservation) }
    }

    /// Sends the value.
    ///
    /// # Errors
    /// Returns the errors of [`Sender::send`].
    #[track_caller]
    pub fn send(self, value: T) -> Result<(), SendError<T>> {
        match self.reservation {
            Some(reservation) => reservation.send(value).map_err(send_error),
            None => Err(SendError::Cancelled(value)),
        }
    }

    /// Sends the value without waiting, for a select with a `default`.
    ///
    /// # Errors
    /// Returns the errors of [`Sender::send`].
    pub fn send_at_once(self, value: T) -> Result<(), SendError<T>> {
        match self.reservation {
            Some(reservation) => reservation.send_at_once(value).map_err(send_error),
            None => Err(SendError::Cancelled(value)),
        }
    }
}

impl<T> fmt::Debug for Grant<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Grant").field("reservation", &self.reservation).finish()
    }
}
