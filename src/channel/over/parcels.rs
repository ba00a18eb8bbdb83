//! Values on their way to several channels, and the one wait that the hubs have.
//!
//! A *parcel* is a value for which its channel had no room. All parcels are offered at once: the wait for the next event is
//! registered with every one of their channels, with the desk, and with the inputs; none is waited for before another. The desk comes
//! first, then the parcels, and among the inputs chance decides.

use std::borrow::Borrow;
use std::cell::Cell;

use crate::base::random;
use crate::channel::core::Offered;
use crate::channel::reservation::Reservation;
use crate::channel::select::{finish_offer, register_offer};
use crate::channel::{Receiver, RecvError, Sender, TrySendError};
use crate::source::{Arms, Choice, Chosen, Source, Won, choose};
use crate::task::Cancelled;

struct Parcel<U> {
    to: Sender<U>,
    /// None only while it is being delivered.
    value: Cell<Option<U>>,
    /// Of the hub's own choosing.
    group: u64,
}

/// What has not been delivered yet.
pub(super) struct Parcels<U> {
    waiting: Vec<Parcel<U>>,
}

impl<U> Parcels<U> {
    pub(super) const fn new() -> Parcels<U> {
        Parcels { waiting: Vec::new() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Sends a value, if need be later. False: nobody will ever receive it.
    pub(super) fn send(&mut self, to: &Sender<U>, value: U, group: u64) -> bool {
        match to.try_send(value) {
            Ok(()) => true,
            Err(TrySendError::Disconnected(_)) => false,
            Err(TrySendError::Full(value)) => {
                let value = Cell::new(Some(value));
                self.waiting.push(Parcel { to: to.clone(), value, group });
                true
            }
        }
    }

    /// Sends a value to each, and strikes off those of whom nobody receives any more.
    pub(super) fn send_to_all<R>(&mut self, to: &mut Vec<R>, value: U, group: u64)
    where
        R: Borrow<Sender<U>>,
        U: Clone,
    {
        let mut left = to.len();
        let mut value = Some(value);
        to.retain(|recipient| {
            left -= 1;
            // The last one gets the value itself.
            let own = if left == 0 { value.take() } else { value.clone() };
            own.is_none_or(|own| self.send(recipient.borrow(), own, group))
        });
    }

    /// Drops what has not been delivered to a channel; tells how many parcels that was.
    pub(super) fn recall(&mut self, to: &Sender<U>) -> usize {
        let before = self.waiting.len();
        self.waiting.retain(|parcel| !parcel.to.same_channel(to));
        before - self.waiting.len()
    }

    pub(super) fn recall_all(&mut self) {
        self.waiting.clear();
    }
}

/// What a hub has waited for.
pub(super) enum Event<C, T, U> {
    /// Somebody has left a message.
    Told(C),
    /// There will be no more messages.
    Closed,
    Input(usize, T),
    InputEnded(usize),
    /// A parcel of the group has gone out.
    Delivered(u64),
    /// A parcel of the group cannot be delivered any more, nor anything else to that channel.
    Gone(Sender<U>, u64),
}

/// Waits for the next thing that happens.
#[track_caller]
pub(super) fn next_event<C, T, U>(
    messages: Option<&Receiver<C>>,
    parcels: &mut Parcels<U>,
    inputs: &[Receiver<T>],
) -> Result<Event<C, T, U>, Cancelled> {
    loop {
        let (at, offered) = match happen(messages, &parcels.waiting, inputs)? {
            Happened::Told(message) => return Ok(message.map_or(Event::Closed, Event::Told)),
            Happened::Came(at, Ok(value)) => return Ok(Event::Input(at, value)),
            Happened::Came(at, Err(_)) => return Ok(Event::InputEnded(at)),
            Happened::Room(at, room) => {
                let value = parcels.waiting[at].value.take();
                let Some(value) = value else { unreachable!("it is here until it has gone") };
                (at, room.offer(value))
            }
        };
        match offered {
            Offered::Accepted | Offered::Evicted(_) => {
                return Ok(Event::Delivered(parcels.waiting.swap_remove(at).group));
            }
            Offered::Disconnected(_) => {
                let parcel = parcels.waiting.swap_remove(at);
                return Ok(Event::Gone(parcel.to, parcel.group));
            }
            // The receiver has left meanwhile: the others must not wait for another one to come.
            Offered::Full(value) => parcels.waiting[at].value.set(Some(value)),
        }
    }
}

#[track_caller]
fn happen<'n, C, T, U>(
    messages: Option<&'n Receiver<C>>,
    waiting: &'n [Parcel<U>],
    inputs: &'n [Receiver<T>],
) -> Result<Happened<'n, C, T, U>, Cancelled> {
    match choose(&Next { messages, waiting, inputs }, None) {
        Chosen::Ready(happened) => Ok(happened),
        Chosen::Cancelled(cancelled) => Err(cancelled),
        Chosen::TimedOut => unreachable!("there is no deadline"),
    }
}

struct Next<'a, C, T, U> {
    messages: Option<&'a Receiver<C>>,
    waiting: &'a [Parcel<U>],
    inputs: &'a [Receiver<T>],
}

enum Happened<'a, C, T, U> {
    Told(Result<C, RecvError>),
    Room(usize, Reservation<'a, U>),
    Came(usize, Result<T, RecvError>),
}

impl<'n, C, T, U> Choice for Next<'n, C, T, U> {
    type Output = Happened<'n, C, T, U>;

    fn attempt(&self) -> Option<Self::Output> {
        if let Some(message) = self.messages.and_then(Source::try_take) {
            return Some(Happened::Told(message));
        }
        let room = |(at, parcel): (usize, &'n Parcel<U>)| {
            Some(Happened::Room(at, parcel.to.try_reserve()?))
        };
        if let Some(room) = self.waiting.iter().enumerate().find_map(room) {
            return Some(room);
        }
        let count = self.inputs.len();
        let start = if count < 2 { 0 } else { random::below(count) };
        let come = |at: usize| Some(Happened::Came(at, self.inputs[at].try_take()?));
        (start..count).find_map(come).or_else(|| (0..start).find_map(come))
    }

    fn register<'a>(&'a self, arms: &mut Arms<'a>) {
        if let Some(messages) = self.messages {
            messages.__register(arms);
        }
        for parcel in self.waiting {
            if arms.is_ready() {
                return;
            }
            register_offer(parcel.to.channel(), arms);
        }
        for input in self.inputs {
            if arms.is_ready() {
                return;
            }
            input.__register(arms);
        }
    }

    fn finish(&self, won: &Won<'_>) -> Option<Self::Output> {
        if let Some(message) = self.messages.and_then(|messages| messages.__finish(won)) {
            return Some(Happened::Told(message));
        }
        let room = |(at, parcel): (usize, &'n Parcel<U>)| {
            Some(Happened::Room(at, finish_offer(&parcel.to, won)?))
        };
        if let Some(room) = self.waiting.iter().enumerate().find_map(room) {
            return Some(room);
        }
        let come =
            |(at, input): (usize, &Receiver<T>)| Some(Happened::Came(at, input.__finish(won)?));
        self.inputs.iter().enumerate().find_map(come)
    }
}
