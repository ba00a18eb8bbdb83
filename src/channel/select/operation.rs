//! The operations of a [`Select`](super::Select), independent of the types of their values.

use std::ptr;

use super::super::fast_path::TryRecv;
use super::super::receiver::Receiver;
use super::super::reservation::Reservation;
use super::super::sender::Sender;
use super::super::source::{watch_room, watch_values};
use super::super::state::Handed;
use super::arm::{Attempt, finish_offer, register_offer};
use crate::park::Role;
use crate::source::{Arms, Source, Won};

/// The steps of a select for one operation, independent of the type of the channel's values.
pub(super) trait Operation: Sync {
    /// Tries the operation, and reserves the space, the receiver or the value that it needs.
    fn attempt(&self, waits: bool) -> Attempt<SelectToken>;
    fn register<'a>(&'a self, arms: &mut Arms<'a>);
    fn finish(&self, won: &Won<'_>) -> Option<SelectToken>;
    /// Returns whether the operation is possible now.
    fn is_ready(&self) -> bool;
    fn register_to_look<'a>(&'a self, arms: &mut Arms<'a>);
    /// Releases what was reserved.
    fn give_back(&self, token: SelectToken);
    fn address(&self) -> *const ();
    /// Describes what the operation waits for.
    fn describe(&self) -> String;
}

/// The reservation of a selected operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SelectToken {
    /// A value that the channel keeps under this ticket. The flag tells whether it came from the
    /// buffer, where its slot stays reserved.
    Value(usize, bool),
    /// The content of a reservation, as returned by [`Reservation::into_number`].
    Send(usize),
    /// The channel is disconnected. Nothing is reserved.
    Disconnected,
    /// The select was cancelled. Nothing is reserved.
    Cancelled,
}

impl<T: Send> Operation for Receiver<T> {
    fn attempt(&self, waits: bool) -> Attempt<SelectToken> {
        let mut locked = self.channel().lock();
        let buffered = !locked.state.buffer.is_empty();
        if buffered {
            // The value may be put back, so its slot stays reserved until the value has been
            // fetched.
            locked.state.reserved += 1;
        }
        let taken = match locked.try_recv() {
            TryRecv::Empty if locked.has_offer() => {
                if waits {
                    return Attempt::Offer;
                }
                let taken = self.channel().meet(locked);
                locked = self.channel().lock();
                taken
            }
            taken => taken,
        };
        match taken {
            TryRecv::Value(value) => {
                let number = locked.next_number();
                // Tickets made here are odd. Tickets of nodes are even.
                let ticket = number.wrapping_mul(2) | 1;
                locked.state.handed.push(Handed { ticket, value });
                Attempt::Done(SelectToken::Value(ticket, buffered))
            }
            TryRecv::Empty => Attempt::Nothing,
            TryRecv::Disconnected => Attempt::Done(SelectToken::Disconnected),
        }
    }

    fn register<'a>(&'a self, arms: &mut Arms<'a>) {
        self.__register(arms);
    }

    fn finish(&self, won: &Won<'_>) -> Option<SelectToken> {
        if !won.is_of(self.channel().list()) || won.role() != Role::Take {
            return None;
        }
        let given = won.node().ticket();
        let mut locked = self.channel().lock();
        // The node's frame may be reused after this, and the next node may have the same address.
        // So the value is kept under a fresh ticket from here on.
        let ticket = locked.next_number().wrapping_mul(2) | 1;
        if let Some(handed) = locked.state.handed.iter_mut().find(|handed| handed.ticket == given) {
            handed.ticket = ticket;
            return Some(SelectToken::Value(ticket, false));
        }
        locked.is_drained().then_some(SelectToken::Disconnected)
    }

    fn is_ready(&self) -> bool {
        let mut locked = self.channel().lock();
        matches!(locked.has_something(None), Ok(true)) || locked.has_offer()
    }

    fn register_to_look<'a>(&'a self, arms: &mut Arms<'a>) {
        watch_values(self.channel(), arms);
    }

    fn give_back(&self, token: SelectToken) {
        if let SelectToken::Value(ticket, buffered) = token {
            self.channel().give_back(ticket, buffered);
        }
    }

    fn address(&self) -> *const () {
        ptr::from_ref(self.channel()).cast()
    }

    fn describe(&self) -> String {
        self.channel().describe_recv()
    }
}

impl<T: Send> Operation for Sender<T> {
    fn attempt(&self, waits: bool) -> Attempt<SelectToken> {
        Attempt::of(
            self.channel()
                .try_reserve(waits)
                .map(|reservation| SelectToken::Send(reservation.into_number())),
        )
    }

    fn register<'a>(&'a self, arms: &mut Arms<'a>) {
        register_offer(self.channel(), arms);
    }

    fn finish(&self, won: &Won<'_>) -> Option<SelectToken> {
        let reservation = finish_offer(self, won)?;
        Some(SelectToken::Send(reservation.into_number()))
    }

    fn is_ready(&self) -> bool {
        self.channel().lock().can_reserve()
    }

    fn register_to_look<'a>(&'a self, arms: &mut Arms<'a>) {
        watch_room(self.channel(), arms);
    }

    fn give_back(&self, token: SelectToken) {
        if let SelectToken::Send(number) = token {
            drop(Reservation::from_number(self.channel(), number));
        }
    }

    fn address(&self) -> *const () {
        ptr::from_ref(self.channel()).cast()
    }

    fn describe(&self) -> String {
        self.channel().describe_send()
    }
}
