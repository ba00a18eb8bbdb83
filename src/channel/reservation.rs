//! The right to send one value, before there is one: what a select's `send` arm gets.
//!
//! # Protocol
//! - Where there is a buffer, a reservation is room in it, counted in `reserved`.
//! - Where there is none, it is a waiting receiver, whose node carries the reservation's number. It goes on waiting in its place,
//!   passed over by others. It may still leave (its deadline, a cancellation, another arm); then the value goes to somebody else, or
//!   its sender waits as any other does.
//! - A select that waits to send (`Offer`) is claimed by whoever brings the one or the other: a receiver that makes room promises
//!   it the room; one that comes to wait itself is reserved for it. The offer's node then carries [`ROOM`], or the number.
//! - A poll (`try_recv`, or a select that does not wait) that finds an offer and no value claims the offer and waits in line as [`Role::Meet`],
//!   reserved from the beginning, until the value has been made or the reservation is given back. Nothing else ends this wait but the end of
//!   the channel and a short time limit: not a cancellation, nor another sender's value.
//! - If the receiver has left, or refuses the value, a select that may wait lines up as a sender. One with a `default` leaves the value in the
//!   channel for the next receiver.
//! - What is reserved and not used is given back: room lets the next sender in; a receiver is free again, in its old place.

use std::fmt;
use std::mem;

use super::core::{Channel, Locked, Offered, ROOM};
use super::state::Overflow;
use super::waits::NotSent;
use crate::park::{self, LOOK_AGAIN, Node, Queue, Role};
use crate::task;

/// Gives itself back when it is dropped.
pub(crate) struct Reservation<'a, T> {
    channel: &'a Channel<T>,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Room,
    /// The receiver whose node carries this number.
    Receiver(usize),
    /// Nothing need be reserved: values are dropped, or nobody will ever receive.
    Nothing,
}

impl<T> Channel<T> {
    /// Reserves without waiting.
    pub(super) fn try_reserve(&self) -> Option<Reservation<'_, T>> {
        self.try_reserve_from(true)
    }

    /// The same; not `picky`: without receivers that may refuse the value.
    pub(super) fn try_reserve_from(&self, picky: bool) -> Option<Reservation<'_, T>> {
        let what = self.lock().reserve(picky)?;
        Some(Reservation { channel: self, what })
    }

    /// What whoever claimed an offer has reserved for it.
    pub(super) fn reserved_for(&self, offer: &Node) -> Option<Reservation<'_, T>> {
        let what = match offer.reserved.get() {
            // The channel has been closed: its owner finds that out.
            0 => return None,
            ROOM => What::Room,
            // If the receiver has left again, the select goes on with all its arms.
            number if !self.lock().still_waits(number) => return None,
            number => What::Receiver(number),
        };
        Some(Reservation { channel: self, what })
    }
}

/// Whether the node's wait would receive a value that came to it.
fn would_receive(node: &Node) -> bool {
    !matches!(node.role(), Role::Notify | Role::Peek)
}

impl<T> Locked<'_, T> {
    fn reserve(&mut self, picky: bool) -> Option<What> {
        if self.state.closed || self.state.overflow != Overflow::Wait {
            return Some(What::Nothing);
        }
        if self.state.capacity == 0 {
            let number = self.next_number();
            self.queue.seek(|node| {
                let refuses = node.predicate().is_some() || node.role() == Role::Look;
                let free = node.reserved.get() == 0 && would_receive(node) && (picky || !refuses);
                (free && !node.is_dead()).then(|| node.reserved.set(number))
            })?;
            return Some(What::Receiver(number));
        }
        if self.state.has_room() {
            self.state.reserved += 1;
            return Some(What::Room);
        }
        None
    }

    /// Whether [`Locked::reserve`] would give something.
    pub(super) fn can_reserve(&self) -> bool {
        self.can_reserve_but(|_| false)
    }

    /// The same, without receivers that are one's own.
    pub(super) fn can_reserve_but(&self, own: impl Fn(&Node) -> bool) -> bool {
        let state = &*self.state;
        if state.closed || state.overflow != Overflow::Wait {
            return true;
        }
        if state.capacity != 0 {
            return state.has_room();
        }
        let free = |node: &Node| {
            let free = node.reserved.get() == 0 && would_receive(node);
            (free && !node.is_dead() && !own(node)).then_some(())
        };
        self.queue.seek(free).is_some()
    }

    pub(super) fn next_number(&mut self) -> usize {
        // Neither 0 nor `ROOM`.
        self.state.last_number = self.state.last_number % (ROOM - 1) + 1;
        self.state.last_number
    }

    /// Whether somebody waits to make a value for whoever waits for it.
    #[inline]
    pub(super) fn has_offer(&self) -> bool {
        self.has_offer_but(|_| false)
    }

    /// The same, without offers that are one's own.
    #[inline]
    pub(super) fn has_offer_but(&self, own: impl Fn(&Node) -> bool) -> bool {
        let offer = |node: &Node| {
            (node.role() == Role::Offer && !node.is_dead() && !own(node)).then_some(())
        };
        self.state.capacity == 0
            && !self.state.senders.is_empty()
            && self.state.senders.seek(offer).is_some()
    }

    /// A receiver has come to wait. Where there is no buffer, the offer that has waited longest is for it. Whether there was one.
    pub(super) fn pair(&mut self, receiver: &Node) -> bool {
        if self.state.capacity != 0 || self.state.senders.is_empty() {
            return false;
        }
        let number = self.next_number();
        let senders = &self.state.senders;
        let paired = senders.seek(|offer| {
            // A select that would both send and receive here must not be its own peer.
            if offer.role() == Role::Value || offer.is_of_same_wait(receiver) {
                return None;
            }
            senders.remove(offer);
            if !offer.claim() {
                return None;
            }
            if offer.role() != Role::Offer {
                // It only looks.
                self.woken.push(offer);
                return None;
            }
            receiver.reserved.set(number);
            offer.reserved.set(number);
            self.woken.push(offer);
            Some(())
        });
        paired.is_some()
    }

    fn still_waits(&self, number: usize) -> bool {
        let waits = |node: &Node| (node.reserved.get() == number && !node.is_dead()).then_some(());
        self.queue.seek(waits).is_some()
    }

    /// Puts a value where the next receiver finds it, although there may be no room.
    pub(super) fn keep_for_the_next(&mut self, value: T) {
        self.state.buffer.push_back(value);
        self.settle();
        // Settling passes over those who only look on, where there is no buffer.
        self.notify_receiver();
    }

    /// A value has been sent, and an older receiver may have got it instead of the poll that it was made for: then the poll ends.
    fn dismiss_poll(&mut self) {
        let Locked { queue, woken, .. } = self;
        let queue: &Queue = queue;
        queue.seek(|node| -> Option<()> {
            if node.role() == Role::Meet && node.reserved.get() == 0 {
                queue.remove(node);
                if node.claim_as(LOOK_AGAIN) {
                    woken.push(node);
                }
            }
            None
        });
    }

    /// The receiver that a number was given to is free again, in its place.
    fn release_receiver(&mut self, number: usize) {
        let queue: &Queue = &self.queue;
        queue.seek(|node| {
            if node.reserved.get() != number {
                return None;
            }
            node.reserved.set(0);
            // A poll does not wait for anyone else. Others may have come to send meanwhile and passed a receiver over. Neither side can be claimed for the other by a third, so it
            // looks again itself. So does a select: it may have left its other arms alone for this one.
            if !self.state.senders.is_empty() || node.role() != Role::Slot {
                queue.remove(node);
                let claimed = match node.role() {
                    Role::Slot | Role::Meet => node.claim_as(LOOK_AGAIN),
                    _ => node.claim(),
                };
                if claimed {
                    self.woken.push(node);
                }
            }
            Some(())
        });
    }
}

impl<'a, T> Reservation<'a, T> {
    /// Makes a number of it, which stands for it until [`Reservation::from_number`] makes one of that. Nothing is given back.
    pub(super) fn into_number(mut self) -> usize {
        match mem::replace(&mut self.what, What::Nothing) {
            What::Nothing => 0,
            What::Room => ROOM,
            What::Receiver(number) => number,
        }
    }

    /// The reservation that the number stands for.
    pub(super) fn from_number(channel: &'a Channel<T>, number: usize) -> Reservation<'a, T> {
        let what = match number {
            0 => What::Nothing,
            ROOM => What::Room,
            number => What::Receiver(number),
        };
        Reservation { channel, what }
    }

    /// Sends the value for which this was reserved. Waits only where the receiver has left meanwhile.
    pub(super) fn send(mut self, value: T) -> Result<(), NotSent<T>> {
        let channel = self.channel;
        let (locked, offered) = self.use_up(value);
        if let Offered::Full(value) = offered {
            if park::may_suspend() && !task::is_unwinding() {
                return channel.send_in_line(locked, value, None);
            }
            drop(locked);
            park::refuse_if_no_suspend();
            task::cancelled_wait();
            return Err(NotSent::Cancelled(value));
        }
        drop(locked);
        sent(offered)
    }

    /// The same, and never waits: if the receiver has left meanwhile, or refuses the value, the next receiver gets it, as if the first had
    /// taken it and given it back.
    pub(super) fn send_at_once(mut self, value: T) -> Result<(), NotSent<T>> {
        let (mut locked, offered) = self.use_up(value);
        if let Offered::Full(value) = offered {
            locked.keep_for_the_next(value);
            return Ok(());
        }
        drop(locked);
        sent(offered)
    }

    fn use_up(&mut self, value: T) -> (Locked<'a, T>, Offered<T>) {
        let mut locked = self.channel.lock();
        let offered = match mem::replace(&mut self.what, What::Nothing) {
            What::Room => {
                locked.state.reserved -= 1;
                if locked.state.discards {
                    Offered::Disconnected(value)
                } else {
                    // There is room, whatever has happened since, and even if the channel has been closed.
                    locked.put(value);
                    Offered::Accepted
                }
            }
            What::Receiver(number) => {
                locked
                    .queue
                    .seek(|node| (node.reserved.get() == number).then(|| node.reserved.set(0)));
                let offered = locked.offer(value);
                locked.dismiss_poll();
                offered
            }
            What::Nothing => locked.offer(value),
        };
        (locked, offered)
    }
}

/// What came of a send that did not wait. What it evicts is dropped here: without the lock.
fn sent<T>(offered: Offered<T>) -> Result<(), NotSent<T>> {
    match offered {
        Offered::Accepted | Offered::Evicted(_) => Ok(()),
        Offered::Disconnected(value) | Offered::Full(value) => Err(NotSent::Disconnected(value)),
    }
}

impl<T> Drop for Reservation<'_, T> {
    fn drop(&mut self) {
        match self.what {
            What::Nothing => {}
            What::Room => self.channel.do_unlocked((), |channel, ()| {
                let mut locked = channel.lock();
                locked.state.reserved -= 1;
                locked.settle();
            }),
            What::Receiver(number) => self.channel.do_unlocked(number, |channel, number| {
                channel.lock().release_receiver(number);
            }),
        }
    }
}

impl<T> fmt::Debug for Reservation<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("what", &self.what).finish_non_exhaustive()
    }
}
