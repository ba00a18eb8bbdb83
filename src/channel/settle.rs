//! Restoring a channel's invariants after a value has moved, and the end of a channel. The
//! invariants are in [`core`](super::core).
#![expect(unsafe_code, reason = "moves values out of the frames of waiting senders")]

use std::collections::VecDeque;
use std::mem::ManuallyDrop;

use super::core::{ChannelGuard, DISCONNECTED};
use super::hand_over::read_from;
use super::state::{ChannelKind, ChannelState, Phase, ROOM};
use crate::park::{Queue, Role, Woken};

impl<T> ChannelGuard<'_, T> {
    /// Completes a send after the value has been accepted: closes a oneshot channel.
    #[inline(always)]
    pub(super) fn sent(&mut self) {
        if self.state.is_oneshot() {
            self.close_oneshot();
        }
    }

    #[cold]
    fn close_oneshot(&mut self) {
        self.close();
        // These senders waited for the only place, which was reserved. It has been used now.
        claim_all(&self.state.senders, Role::Value, &mut self.woken);
    }

    /// Gives memory back if the buffer is much larger than its content.
    #[inline(always)]
    pub(super) fn shrink_if_large(&mut self) {
        if self.state.wastes_memory() {
            self.shrink();
        }
    }

    /// Halves the buffer. The old one is freed after the lock has been released.
    #[cold]
    #[inline(never)]
    fn shrink(&mut self) {
        let buffer = &mut self.state.buffer;
        let mut smaller = VecDeque::with_capacity(buffer.capacity() / 2);
        smaller.append(buffer);
        let old = ManuallyDrop::new(Vec::from(std::mem::replace(buffer, smaller)));
        let (at, places) = (old.as_ptr().cast_mut().cast::<()>(), old.capacity());
        let free: unsafe fn(*mut (), usize) = free_values::<T>;
        // SAFETY: H1: the memory belongs to the call alone, and holds no value.
        self.woken.push_put_off(vec![Box::new(move || unsafe { free(at, places) })]);
    }

    /// Restores the invariants after a value has left the buffer.
    #[inline]
    pub(super) fn took(&mut self) {
        self.shrink_if_large();
        if !self.state.senders.is_empty() || !self.receivers.is_empty() || self.state.is_closed() {
            self.settle();
        }
    }

    /// Restores the invariants.
    pub(super) fn settle(&mut self) {
        loop {
            while self.state.has_room() && self.admit_sender() {
                if !self.state.buffer.is_empty() {
                    self.sent();
                }
            }
            if self.receivers.is_empty() {
                break;
            }
            let Some(front) = self.state.buffer.pop_front() else { break };
            if let Err(back) = self.hand_over(front) {
                self.state.buffer.push_front(back);
                break;
            }
        }
        if self.state.capacity == 0
            && self.state.buffer.is_empty()
            && !self.state.senders.is_empty()
        {
            // A value that was given back was in front of the senders' values. A receiver that
            // refused it has not seen theirs yet.
            self.receivers.look_again(&mut self.woken);
        }
        self.disconnect_if_drained();
    }

    /// Lets the sender in that has waited longest. Moves the value of a `Value` node into the
    /// buffer, and reserves room for an `Offer` node. Returns whether there was a sender.
    fn admit_sender(&mut self) -> bool {
        let ChannelState { senders, buffer, reserved, .. } = &mut *self.state;
        let senders: &Queue = senders;
        let admitted = senders.seek(|node| {
            senders.remove(node);
            if !node.claim() {
                return None;
            }
            if node.role() == Role::Value {
                // SAFETY: N2: the node was claimed just now, and has the role `Value`.
                buffer.push_back(unsafe { read_from(node, &mut self.woken) });
                return Some(());
            }
            self.woken.push(node);
            if node.role() != Role::Offer {
                // This waiter only looks, and does not use the room.
                return None;
            }
            *reserved += 1;
            node.reserved.set(ROOM);
            Some(())
        });
        admitted.is_some()
    }

    /// Returns whether no value can be received any more.
    #[inline]
    pub(super) fn is_drained(&self) -> bool {
        self.state.is_closed() && self.has_no_value_left()
    }

    #[cold]
    fn has_no_value_left(&self) -> bool {
        let state = &*self.state;
        // After `close_now`, reservations deliver nothing. Neither does a value that was handed
        // over and is given back.
        let undecided =
            state.reserved != 0 || !state.senders.is_empty() || !state.handed.is_empty();
        let over = state.phase == Phase::Discarding || !undecided;
        over && state.buffer.is_empty() && state.next_due().is_none()
    }

    #[inline]
    pub(super) fn disconnect_if_drained(&mut self) {
        if self.is_drained() {
            // The waiters that can fetch a value find out themselves that there will be none.
            claim_all(&self.receivers, Role::Slot, &mut self.woken);
        }
    }

    /// Rejects new sends. Values that are already in the channel are still delivered.
    pub(super) fn close(&mut self) {
        self.state.enter(Phase::Closed);
        self.notify_end_waiters();
        let senders = &self.state.senders;
        senders.seek(|node| -> Option<()> {
            // A sender that has not made its value yet has nothing to deliver.
            if node.role() != Role::Value || node.is_dead() {
                senders.remove(node);
                if node.claim() {
                    self.woken.push(node);
                }
            }
            None
        });
        self.disconnect_if_drained();
    }

    /// Rejects new sends and delivers nothing any more. Waiting senders keep their values. Returns
    /// the values of the buffer, which the caller drops after it has released the lock.
    #[must_use]
    pub(super) fn close_now(&mut self) -> VecDeque<T> {
        self.state.enter(Phase::Discarding);
        self.notify_end_waiters();
        if let ChannelKind::Timed(clockwork) = &mut self.state.kind {
            clockwork.next = None;
        }
        claim_all(&self.state.senders, Role::Value, &mut self.woken);
        let dropped = std::mem::take(&mut self.state.buffer);
        self.disconnect_if_drained();
        dropped
    }
}

/// Frees the memory of an empty `Vec<T>`. No user code runs.
///
/// # Safety
/// The pointer and the capacity come from such a vector, which is not used any more.
unsafe fn free_values<T>(at: *mut (), places: usize) {
    // SAFETY: the caller's promise.
    drop(unsafe { Vec::from_raw_parts(at.cast::<T>(), 0, places) });
}

/// Ends all waits in a line. Nodes with the role `blind`, and `Meet` nodes, are claimed as
/// disconnected, because their owners do not look again.
fn claim_all(queue: &Queue, blind: Role, woken: &mut Woken) {
    queue.seek(|node| -> Option<()> {
        queue.remove(node);
        let is_blind = node.role() == blind || node.role() == Role::Meet;
        let claimed = if is_blind { node.claim_arm(DISCONNECTED) } else { node.claim() };
        if claimed {
            woken.push(node);
        }
        None
    });
}
