//! Sending and receiving under the channel's lock, without waiting.
//!
//! There is one way to send, [`ChannelGuard::try_send`], and one to receive,
//! [`ChannelGuard::try_recv`]. The first step of each is also a function of its own, which is small
//! enough to be inlined into the user's function: [`ChannelGuard::push`] and [`ChannelGuard::pop`].

use std::panic;

use super::core::{ChannelGuard, call_predicate};
use super::state::{ChannelKind, Phase};

/// The result of an attempt to send.
pub(super) enum TrySend<T> {
    Accepted,
    /// The value was accepted and displaced this one, or was dropped itself. The caller drops this
    /// value after it has released the lock.
    Evicted(T),
    Full(T),
    Disconnected(T),
}

/// The result of an attempt to receive.
pub(super) enum TryRecv<T> {
    Value(T),
    Empty,
    Disconnected,
}

/// A predicate of a receiver that takes a value itself.
pub(super) type Accepts<'a, T> = dyn Fn(&T) -> bool + 'a;

impl<T> ChannelGuard<'_, T> {
    /// Puts the value into the buffer if there is room, no receiver waits, and the send has no
    /// other effect. Otherwise returns it.
    #[inline(always)]
    pub(super) fn push(&mut self, value: T) -> Result<(), T> {
        let state = &mut *self.state;
        if state.phase == Phase::Open && self.receivers.is_empty() && state.has_room() {
            state.buffer.push_back(value);
            return Ok(());
        }
        Err(value)
    }

    /// Takes a value out of the buffer, if there is one, neither side has waiters, and the buffer
    /// is not much too large. Nothing is called here that could put work off until the lock is
    /// released, so the caller need not look for such work.
    #[inline(always)]
    pub(super) fn pop(&mut self) -> Option<T> {
        let state = &mut *self.state;
        if state.senders.is_empty() && self.receivers.is_empty() && !state.wastes_memory() {
            return state.buffer.pop_front();
        }
        None
    }

    /// Sends without waiting.
    #[inline(always)]
    pub(super) fn try_send(&mut self, value: T) -> TrySend<T> {
        if self.state.is_closed() {
            return TrySend::Disconnected(value);
        }
        self.admit(value)
    }

    /// Sends without waiting, whether the channel is closed or not.
    #[inline(always)]
    pub(super) fn admit(&mut self, mut value: T) -> TrySend<T> {
        if !self.receivers.is_empty() && self.state.buffer.is_empty() {
            match self.hand_over(value) {
                Ok(()) => {
                    self.sent();
                    return TrySend::Accepted;
                }
                Err(back) => value = back,
            }
        }
        if self.state.has_room() {
            self.state.buffer.push_back(value);
            self.sent();
            return TrySend::Accepted;
        }
        match self.state.kind {
            ChannelKind::Dropping => TrySend::Evicted(value),
            ChannelKind::Sliding => {
                let oldest = self.state.buffer.pop_front();
                self.state.buffer.push_back(value);
                self.settle();
                oldest.map_or(TrySend::Accepted, TrySend::Evicted)
            }
            _ => TrySend::Full(value),
        }
    }

    /// Sends even if there is no room: the next receiver gets the value.
    pub(super) fn overfill(&mut self, value: T) {
        self.state.buffer.push_back(value);
        self.settle();
        // On a rendezvous channel, `settle` passes over waiters that only look.
        self.notify_receiver();
    }

    /// Receives without waiting.
    #[inline(always)]
    pub(super) fn try_recv(&mut self) -> TryRecv<T> {
        match self.state.buffer.pop_front() {
            Some(value) => {
                self.took();
                TryRecv::Value(value)
            }
            None => self.try_recv_unbuffered(None),
        }
    }

    /// Receives without waiting, if `accepts` returns true for the next value.
    pub(super) fn try_recv_if(&mut self, accepts: &Accepts<'_, T>) -> TryRecv<T> {
        let Some(front) = self.state.buffer.front() else {
            return self.try_recv_unbuffered(Some(accepts));
        };
        match call_predicate(&self.receivers, &mut self.woken, || accepts(front)) {
            Ok(true) => self.try_recv(),
            Ok(false) => TryRecv::Empty,
            Err(payload) => panic::resume_unwind(payload),
        }
    }

    /// Receives when the buffer is empty: from a waiting sender or from the clock.
    #[inline(always)]
    fn try_recv_unbuffered(&mut self, accepts: Option<&Accepts<'_, T>>) -> TryRecv<T> {
        if self.state.capacity == 0 {
            if let Some(value) = self.take_over(accepts) {
                return TryRecv::Value(value);
            }
        } else if self.state.is_timed() {
            return self.try_recv_timed(accepts);
        }
        if self.is_drained() { TryRecv::Disconnected } else { TryRecv::Empty }
    }
}
