//! What most sends and receives are, in a few instructions each: a value goes into the buffer, out of it, or from one who waits to one who
//! does not. Where anything else may have to be done they do nothing, and [`core`](super::core) knows the rest.
#![expect(unsafe_code, reason = "values move between stacks")]

use super::core::Locked;
use super::state::{Overflow, State};
use crate::park::{Queue, Role};

impl<T> Locked<'_, T> {
    /// Sends where that is all there is to it: there is room, and nobody waits. What most sends are, in a few instructions.
    #[inline(always)]
    pub(super) fn offer_at_once(&mut self, value: T) -> Result<(), T> {
        let state = &mut *self.state;
        if state.is_plain && self.queue.is_empty() && state.has_room() {
            state.buffer.push_back(value);
            return Ok(());
        }
        Err(value)
    }

    /// Receives where that is all there is to it: there is a value, and nobody waits.
    #[inline(always)]
    pub(super) fn take_at_once(&mut self) -> Option<T> {
        let state = &mut *self.state;
        if state.senders.is_empty() && self.queue.is_empty() {
            return state.buffer.pop_front();
        }
        None
    }

    /// Gives a value to the receiver whose turn it is, where that is one like most: it takes any value, and none is in front.
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
                // SAFETY: N2: a receiver's node points to a place for a `T`, and the claim makes it ours.
                unsafe { node.data.cast::<T>().write(value) };
                woken.push(node);
                return Ok(());
            }
        }
        Err(value)
    }

    /// Receives from the sender whose turn it is, where there is no buffer and that is one like most: it has its value with it, and
    /// none is in front that had been given back.
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
        // SAFETY: N2: claimed, hence ours to move out.
        Some(unsafe { node.data.cast::<T>().read() })
    }

    /// Whether there is plainly nothing to receive. No: `take` knows.
    #[inline(always)]
    pub(super) fn is_plainly_empty(&self) -> bool {
        self.state.is_plain && self.state.buffer.is_empty() && self.state.senders.is_empty()
    }

    /// Whether there is plainly no room. No: `offer` knows.
    #[inline(always)]
    pub(super) fn is_plainly_full(&self) -> bool {
        let state = &*self.state;
        state.is_plain
            && self.queue.is_empty()
            && state.overflow == Overflow::Wait
            && !state.has_room()
    }
}
