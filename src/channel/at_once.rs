//! The fast paths of sending and receiving. A value goes into the buffer, out of it, or directly
//! from one side to a waiter on the other side, in a few instructions. If anything else might be
//! necessary, a fast path changes nothing, and the caller uses the general path in
//! [`core`](super::core).
#![expect(unsafe_code, reason = "values move between stacks")]

use super::core::Locked;
use super::state::{Overflow, State};
use crate::park::{Queue, Role};

impl<T> Locked<'_, T> {
    /// Puts the value into the buffer if there is room and no receiver waits. Otherwise returns it.
    #[inline(always)]
    pub(super) fn offer_at_once(&mut self, value: T) -> Result<(), T> {
        let state = &mut *self.state;
        if state.is_plain && self.queue.is_empty() && state.has_room() {
            state.buffer.push_back(value);
            return Ok(());
        }
        Err(value)
    }

    /// Takes a value out of the buffer, if there is one and neither side has waiters.
    #[inline(always)]
    pub(super) fn take_at_once(&mut self) -> Option<T> {
        let state = &mut *self.state;
        if state.senders.is_empty() && self.queue.is_empty() {
            return state.buffer.pop_front();
        }
        None
    }

    /// Gives a value to the first waiting receiver, if it accepts any value and no other value is
    /// in front. Otherwise returns the value.
    #[inline(always)]
    pub(super) fn hand_over_at_once(&mut self, value: T) -> Result<(), T> {
        let Locked { queue, state, woken } = self;
        let queue: &Queue = queue;
        if state.is_plain
            && state.buffer.is_empty()
            && let Some(node) = queue.first()
            && node.takes_anything()
        {
            queue.remove(node);
            if node.claim() {
                // SAFETY: N2: a receiver's node points to a place for a `T`, and the claim gives
                // this thread access to it.
                unsafe { node.data.cast::<T>().write(value) };
                woken.push(node);
                return Ok(());
            }
        }
        Err(value)
    }

    /// Receives the value of the first waiting sender on a rendezvous channel, if the sender has
    /// made it already and no value that was given back is in front.
    #[inline(always)]
    pub(super) fn take_over_at_once(&mut self) -> Option<T> {
        let Locked { state, woken, .. } = self;
        let state: &State<T> = state;
        let node = state.senders.first()?;
        let at_once = state.is_plain && state.capacity == 0 && state.buffer.is_empty();
        if !at_once || node.role() != Role::Value {
            return None;
        }
        state.senders.remove(node);
        if !node.claim() {
            return None;
        }
        woken.push(node);
        // SAFETY: N2: the node has been claimed, so this thread may move the value out.
        Some(unsafe { node.data.cast::<T>().read() })
    }

    /// Returns whether there is certainly nothing to receive. If this returns `false`, `take`
    /// decides.
    #[inline(always)]
    pub(super) fn is_plainly_empty(&self) -> bool {
        self.state.is_plain && self.state.buffer.is_empty() && self.state.senders.is_empty()
    }

    /// Returns whether there is certainly no room. If this returns `false`, `offer` decides.
    #[inline(always)]
    pub(super) fn is_plainly_full(&self) -> bool {
        let state = &*self.state;
        state.is_plain
            && self.queue.is_empty()
            && state.overflow == Overflow::Wait
            && !state.has_room()
    }
}
