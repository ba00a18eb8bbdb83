//! The right to send one value that has not been made yet. The `send` arm of a select gets one, and
//! so does a [`Permit`](super::Permit).
//!
//! # Protocol
//! - On a channel with a buffer, a reservation is room in the buffer, counted in `reserved`.
//! - On a rendezvous channel, it is a waiting receiver, whose node carries the reservation's
//!   number. The receiver keeps its place in the line, and other senders pass it over. It may still
//!   leave: by its deadline, a cancellation or another arm. The value then goes to another
//!   receiver, or its sender waits like any other.
//! - A select that waits to send has an `Offer` node. The receiver that makes a send possible
//!   claims it. A receiver that makes room reserves the room for the offer. A receiver that starts
//!   to wait is itself reserved for the offer. The offer's node then carries [`ROOM`] or the
//!   number.
//! - A poll is a `try_recv`, or a select that does not wait. If it finds an offer but no value, it
//!   claims the offer and waits in line as [`Role::Meet`], reserved from the beginning. The wait
//!   ends when the value has been made or the reservation is given back. Otherwise only the end of
//!   the channel and a short time limit end it. A cancellation does not, and neither does the value
//!   of another sender.
//! - If the receiver has left or refuses the value, a select that may wait lines up as a sender. A
//!   select with a `default` leaves the value in the channel for the next receiver.
//! - An unused reservation is given back. Room goes to the next sender. A receiver is free again,
//!   and keeps its place.
//! - A value that is sent without room while the receiver is reserved goes into the buffer. A
//!   receiver that becomes free gets it, before the value of the reservation is sent. If the
//!   receiver is not served in the end, it looks again at the senders that have passed it over.

use std::fmt;
use std::mem;
use std::ptr;

use super::blocking::NotSent;
use super::core::{Channel, ChannelGuard};
use super::fast_path::TrySend;
use super::state::{Phase, ROOM};

use crate::park::{self, Node, Queue, Role};
use crate::task;

/// A reservation, which is given back when it is dropped.
pub(crate) struct Reservation<'a, T> {
    channel: &'a Channel<T>,
    target: ReservedFor,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReservedFor {
    Room,
    /// The receiver whose node carries this number.
    Receiver(usize),
    /// There was nothing to reserve: the channel is closed, or it never makes a sender wait.
    Nothing,
}

impl<T> Channel<T> {
    /// Reserves without waiting. If `picky` is false, receivers that may refuse the value are
    /// passed over, because the send might then have to wait.
    pub(super) fn try_reserve(&self, picky: bool) -> Option<Reservation<'_, T>> {
        let target = self.lock().reserve(picky)?;
        Some(Reservation { channel: self, target })
    }

    /// Returns the reservation that the claimer of an offer has made for it.
    pub(super) fn reserved_for(&self, offer: &Node) -> Option<Reservation<'_, T>> {
        let target = match offer.reserved.get() {
            // The channel has been closed. The owner of the offer finds that out itself.
            0 => return None,
            ROOM => ReservedFor::Room,
            // If the receiver has left again, the select continues with all its arms.
            number if !self.lock().still_waits(number) => return None,
            number => ReservedFor::Receiver(number),
        };
        Some(Reservation { channel: self, target })
    }
}

/// Returns whether the node's wait would receive a value that is handed to it.
fn would_receive(node: &Node) -> bool {
    !matches!(node.role(), Role::Notify | Role::Peek)
}

impl<T> ChannelGuard<'_, T> {
    fn reserve(&mut self, picky: bool) -> Option<ReservedFor> {
        if self.state.is_closed() || !self.state.makes_senders_wait() {
            return Some(ReservedFor::Nothing);
        }
        if self.state.capacity == 0 {
            let number = self.next_number();
            self.receivers.seek(|node| {
                let refuses = node.predicate().is_some() || node.role() == Role::Look;
                let free = node.reserved.get() == 0 && would_receive(node) && (picky || !refuses);
                (free && !node.is_dead()).then(|| node.reserved.set(number))
            })?;
            return Some(ReservedFor::Receiver(number));
        }
        if self.state.has_room() {
            self.state.reserved += 1;
            return Some(ReservedFor::Room);
        }
        None
    }

    /// Returns whether [`ChannelGuard::reserve`] would succeed.
    pub(super) fn can_reserve(&self) -> bool {
        self.can_reserve_but(|_| false)
    }

    /// Returns whether [`ChannelGuard::reserve`] would succeed without the receivers that are the
    /// caller's `own`.
    pub(super) fn can_reserve_but(&self, own: impl Fn(&Node) -> bool) -> bool {
        let state = &*self.state;
        if state.is_closed() || !state.makes_senders_wait() {
            return true;
        }
        if state.capacity != 0 {
            return state.has_room();
        }
        let free = |node: &Node| {
            let free = node.reserved.get() == 0 && would_receive(node);
            (free && !node.is_dead() && !own(node)).then_some(())
        };
        self.receivers.seek(free).is_some()
    }

    pub(super) fn next_number(&mut self) -> usize {
        // The number is neither 0 nor `ROOM`.
        self.state.last_number = self.state.last_number % (ROOM - 1) + 1;
        self.state.last_number
    }

    /// Returns whether a select waits to make a value for a receiver, on a rendezvous channel.
    #[inline(always)]
    pub(super) fn has_offer(&self) -> bool {
        self.state.capacity == 0 && !self.state.senders.is_empty() && self.has_offer_but(|_| false)
    }

    /// Does the same as [`ChannelGuard::has_offer`], without the offers that are the caller's
    /// `own`.
    #[inline(never)]
    pub(super) fn has_offer_but(&self, own: impl Fn(&Node) -> bool) -> bool {
        let offer = |node: &Node| {
            (node.role() == Role::Offer && !node.is_dead() && !own(node)).then_some(())
        };
        self.state.capacity == 0 && self.state.senders.seek(offer).is_some()
    }

    /// Pairs a receiver that starts to wait with the offer that has waited longest, on a rendezvous
    /// channel. Returns whether there was one.
    pub(super) fn pair(&mut self, receiver: &Node) -> bool {
        if self.state.capacity != 0 || self.state.senders.is_empty() {
            return false;
        }
        let number = self.next_number();
        let senders = &self.state.senders;
        let paired = senders.seek(|offer| {
            // A select that would both send and receive here must not become its own peer.
            if offer.role() == Role::Value || offer.is_of_same_wait(receiver) {
                return None;
            }
            senders.remove(offer);
            if !offer.claim() {
                return None;
            }
            if offer.role() != Role::Offer {
                // This waiter only looks.
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
        self.receivers.seek(waits).is_some()
    }

    /// Makes the receiver with this number free again. It gets the value at the front of the buffer
    /// if it is the first to want it. Returns the receiver's node, or `None` if it has left.
    fn free_receiver(&mut self, number: usize) -> Option<*const Node> {
        let freed = self.receivers.seek(|node| {
            (node.reserved.get() == number).then(|| {
                node.reserved.set(0);
                ptr::from_ref(node)
            })
        });
        if !self.state.buffer.is_empty() {
            // This value came without room, when the receiver was reserved and was passed over.
            self.settle();
        }
        freed
    }

    /// Lets a receiver look again that was reserved and has not been served. It keeps its place in
    /// the line if there is nothing to look for.
    ///
    /// The node is one that [`ChannelGuard::free_receiver`] has returned since the channel was
    /// locked. It is only compared with those in the line.
    fn look_again_if_unserved(&mut self, freed: Option<*const Node>) {
        let Some(freed) = freed else { return };
        let queue: &Queue = &self.receivers;
        queue.seek(|node| {
            if !ptr::eq(node, freed) {
                return None;
            }
            // Other senders may have started to wait meanwhile, and have passed this receiver over.
            // A third party cannot claim both sides for each other, so the receiver looks again
            // itself. A poll does so too, because it does not wait for another sender. So does a
            // select, because it may have ignored its other arms for this one.
            if !self.state.senders.is_empty() || node.role() != Role::Slot {
                queue.remove(node);
                let claimed = match node.role() {
                    Role::Slot | Role::Meet => node.claim_to_look_again(),
                    _ => node.claim(),
                };
                if claimed {
                    self.woken.push(node);
                }
            }
            Some(())
        });
    }

    /// Makes the receiver with this number free again, for a reservation that is not used.
    fn release_receiver(&mut self, number: usize) {
        let freed = self.free_receiver(number);
        self.look_again_if_unserved(freed);
    }
}

impl<'a, T> Reservation<'a, T> {
    /// Converts the reservation into a number. It is not given back. [`Reservation::from_number`]
    /// converts the number into a reservation again.
    pub(super) fn into_number(mut self) -> usize {
        match mem::replace(&mut self.target, ReservedFor::Nothing) {
            ReservedFor::Nothing => 0,
            ReservedFor::Room => ROOM,
            ReservedFor::Receiver(number) => number,
        }
    }

    /// Returns the reservation that the number stands for.
    pub(super) fn from_number(channel: &'a Channel<T>, number: usize) -> Reservation<'a, T> {
        let target = match number {
            0 => ReservedFor::Nothing,
            ROOM => ReservedFor::Room,
            number => ReservedFor::Receiver(number),
        };
        Reservation { channel, target }
    }

    /// Returns whether nothing is reserved, because the channel is closed.
    pub(super) fn is_void(&self) -> bool {
        self.target == ReservedFor::Nothing && self.channel.is_closed()
    }

    /// Sends the value for which this reservation was made. Waits only if the receiver has left
    /// meanwhile or refuses the value.
    pub(super) fn send(mut self, value: T) -> Result<(), NotSent<T>> {
        let channel = self.channel;
        let (locked, attempt) = self.use_up(value);
        match attempt {
            TrySend::Full(value) if !park::may_suspend() || task::is_unwinding() => {
                drop(locked);
                park::refuse_if_no_suspend();
                task::cancelled_wait();
                Err(NotSent::Cancelled(value))
            }
            attempt => channel.complete_send(locked, attempt, None),
        }
    }

    /// Sends the value without waiting. If the receiver has left meanwhile or refuses the value,
    /// the next receiver gets the value, as if the first had taken it and given it back.
    pub(super) fn send_at_once(mut self, value: T) -> Result<(), NotSent<T>> {
        let channel = self.channel;
        let (mut locked, attempt) = self.use_up(value);
        match attempt {
            TrySend::Full(value) => {
                locked.overfill(value);
                Ok(())
            }
            attempt => channel.complete_send(locked, attempt, None),
        }
    }

    fn use_up(&mut self, value: T) -> (ChannelGuard<'a, T>, TrySend<T>) {
        let mut locked = self.channel.lock();
        let attempt = match mem::replace(&mut self.target, ReservedFor::Nothing) {
            ReservedFor::Room => {
                locked.state.reserved -= 1;
                if locked.state.phase == Phase::Discarding {
                    TrySend::Disconnected(value)
                } else {
                    // There is a place for the value, even if the channel has been closed
                    // meanwhile, or overfilled.
                    match locked.admit(value) {
                        TrySend::Full(value) => locked.overfill(value),
                        _ => locked.settle(),
                    }
                    TrySend::Accepted
                }
            }
            ReservedFor::Receiver(number) => {
                let freed = locked.free_receiver(number);
                let attempt = locked.try_send(value);
                // The receiver may have refused the value, or an older one may have received it.
                locked.look_again_if_unserved(freed);
                attempt
            }
            ReservedFor::Nothing => locked.try_send(value),
        };
        (locked, attempt)
    }
}

impl<T> Drop for Reservation<'_, T> {
    fn drop(&mut self) {
        match self.target {
            ReservedFor::Nothing => {}
            ReservedFor::Room => self.channel.do_unlocked((), |channel, ()| {
                let mut locked = channel.lock();
                locked.state.reserved -= 1;
                locked.settle();
            }),
            ReservedFor::Receiver(number) => self.channel.do_unlocked(number, |channel, number| {
                channel.lock().release_receiver(number);
            }),
        }
    }
}

impl<T> fmt::Debug for Reservation<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reservation").field("target", &self.target).finish_non_exhaustive()
    }
}
