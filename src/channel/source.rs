//! Receivers as sources.
#![expect(unsafe_code, reason = "registers nodes that may be given values")]

use std::ptr;

use super::core::{Channel, ChannelGuard, Panic, call_predicate};
use super::errors::RecvError;
use super::fast_path::TryRecv;
use super::receiver::Receiver;
use super::state::{ChannelKind, ChannelState, Phase};
use crate::base::clock;
use crate::park::{Node, Predicate, Role, WaitList};
use crate::source::{Arms, Asked, Pass, Selective, Source, Won};
use crate::task::drop_quietly;

impl<T> Source for Receiver<T> {
    type Item = Result<T, RecvError>;

    fn try_take(&self) -> Option<Self::Item> {
        item(self.channel().lock().try_recv())
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        self.channel().set_alarm();
        each(self.channel().list());
    }

    fn __register<'a>(&'a self, arms: &mut Arms<'a>) {
        register(self.channel(), arms, None);
    }

    fn __finish(&self, won: &Won<'_>) -> Option<Self::Item> {
        finish(self.channel(), won)
    }

    fn __give_back(&self, won: &Won<'_>) {
        if won.is_of(self.channel().list()) {
            self.channel().give_back(won.node().ticket(), false);
        }
    }
}

impl<T> Selective for Receiver<T> {
    type Value = T;

    fn __try_take_if(&self, accepts: &dyn Fn(&T) -> bool) -> Option<Self::Item> {
        item(self.channel().lock().try_recv_if(accepts))
    }

    fn __register_if<'a>(&'a self, arms: &mut Arms<'a>, asked: Asked<'a, T>) {
        register(self.channel(), arms, Some(asked.predicate()));
    }
}

impl<T> Channel<T> {
    /// Puts a value that was handed over under `ticket`, and will not be fetched, back to the front
    /// of the channel. `buffered` tells whether its slot in the buffer is still reserved.
    pub(super) fn give_back(&self, ticket: usize, buffered: bool) {
        self.do_unlocked((ticket, buffered), Channel::give_back_now);
    }

    fn give_back_now(&self, (ticket, buffered): (usize, bool)) {
        let mut locked = self.lock();
        let Some(value) = locked.fetch(ticket) else { return };
        if buffered {
            locked.state.reserved -= 1;
        }
        if locked.state.phase == Phase::Discarding {
            drop(locked);
            drop(value);
            return;
        }
        locked.state.buffer.push_front(value);
        let ChannelState { buffer, capacity, reserved, kind, .. } = &mut *locked.state;
        let over = matches!(kind, ChannelKind::Sliding) && buffer.len() + *reserved > *capacity;
        // On a sliding channel the reserved slot does not keep senders out, so it may have been
        // filled. Then the oldest value is dropped.
        let oldest = if over { buffer.pop_front() } else { None };
        locked.settle();
        drop(locked);
        drop(oldest);
    }
}

fn item<T>(taken: TryRecv<T>) -> Option<Result<T, RecvError>> {
    match taken {
        TryRecv::Value(value) => Some(Ok(value)),
        TryRecv::Empty => None,
        TryRecv::Disconnected => Some(Err(RecvError::Disconnected)),
    }
}

pub(super) fn register<'a, T>(
    channel: &'a Channel<T>,
    arms: &mut Arms<'a>,
    predicate: Option<Predicate>,
) {
    if arms.watches() {
        return watch_values(channel, arms);
    }
    match arms.pass() {
        Pass::Count => arms.count(),
        Pass::Notify => {}
        Pass::Take => {
            let mut locked = channel.lock();
            // The clock is read before the look. A value that becomes due between two looks at the
            // clock then ends the wait at once.
            let next = locked.state.next_due().filter(|next| *next > clock::now());
            let found = locked.has_something(predicate.as_ref());
            if !matches!(found, Ok(false)) {
                drop(locked);
                // If the predicate panicked, the payload is dropped here. The waiter gets the panic
                // when it tries again, with nothing registered.
                drop_quietly(found);
                arms.set_ready();
                return;
            }
            // A timed value that was due before has been refused by the predicate. It is left for
            // other receivers, and taking it notifies the waiters.
            if let Some(next) = next {
                arms.ends_at(next);
            }
            if arms.leaves_alone(channel.list()) {
                return;
            }
            if arms.only().is_some() && arms.any() {
                // The channel is listed twice, and a value is already being made for the first
                // registration.
                return;
            }
            let offered = locked.has_offer_but(|node| arms.is_own(node));
            if offered && arms.any() {
                // Telling the offering select means claiming it, and a wait that can be claimed
                // itself must not claim others. So this round is aborted, and the next one waits in
                // this list alone.
                drop(locked);
                arms.wait_only_for(channel.list());
                arms.set_ready();
                return;
            }
            if !offered && arms.only().is_some() {
                // The offer is gone.
                drop(locked);
                arms.set_only(None);
                arms.set_ready();
                return;
            }
            let (role, predicate) = match predicate {
                Some(_) if arms.refuses_predicates() => (Role::Look, None),
                predicate => (Role::Take, predicate),
            };
            // SAFETY: N1: the channel's list is borrowed for `'a`. N2: there is no data, and the
            // predicate is one for `T`.
            let node = unsafe {
                arms.push(channel.list(), &locked.receivers, role, ptr::null_mut(), predicate)
            };
            if let Some(node) = node
                && locked.pair(node)
            {
                drop(locked);
                arms.wait_only_for(channel.list());
            }
        }
    }
}

/// Registers a node that is notified, or only taken out of its line, when there may be something to
/// receive.
pub(super) fn watch_values<'a, T>(channel: &'a Channel<T>, arms: &mut Arms<'a>) {
    match arms.pass() {
        Pass::Count => arms.count(),
        Pass::Notify => {
            let locked = channel.lock();
            // A value that is already due is seen by the attempt that follows, unless it is
            // refused.
            if let Some(next) = locked.state.next_due()
                && next > clock::now()
            {
                arms.ends_at(next);
            }
            // SAFETY: N1: the channel's list is borrowed for `'a`. N2: no data.
            unsafe {
                arms.push(channel.list(), &locked.receivers, Role::Peek, ptr::null_mut(), None)
            };
        }
        Pass::Take => {}
    }
}

/// Registers like [`watch_values`], but for space in the buffer or a waiting receiver.
pub(super) fn watch_room<'a, T>(channel: &'a Channel<T>, arms: &mut Arms<'a>) {
    match arms.pass() {
        Pass::Count => arms.count(),
        Pass::Notify => {
            let locked = channel.lock();
            if locked.state.is_closed() {
                // Closing has emptied the line of senders for good. Whether the channel is drained
                // depends on this line, so nothing may be added to it.
                drop(locked);
                arms.set_ready();
                return;
            }
            let senders = &locked.state.senders;
            // An event that makes space, or a receiver that arrives, notifies all `Peek` nodes and
            // continues with the next node. So these waiters never have to pass a notification on.
            // SAFETY: N1: the channel is borrowed for `'a`, and the line of senders is in it. N2:
            // there is no data.
            unsafe { arms.push(channel.list(), senders, Role::Peek, ptr::null_mut(), None) };
        }
        Pass::Take => {}
    }
}

pub(super) fn finish<T>(channel: &Channel<T>, won: &Won<'_>) -> Option<Result<T, RecvError>> {
    if !won.is_of(channel.list()) || won.role() == Role::Look || won.is_for_a_filter() {
        return None;
    }
    let mut locked = channel.lock();
    if won.role() == Role::Take
        && let Some(value) = locked.fetch(won.node().ticket())
    {
        locked.disconnect_if_drained();
        return Some(Ok(value));
    }
    // No value was handed over. The waiter was woken because the channel is disconnected, or to
    // look again.
    if won.role() == Role::Take && !locked.is_drained() {
        return None;
    }
    item(locked.try_recv())
}

impl<T> ChannelGuard<'_, T> {
    /// Returns the value that was handed over under `ticket`, if it is there.
    pub(super) fn fetch(&mut self, ticket: usize) -> Option<T> {
        let at = self.state.handed.iter().position(|handed| handed.ticket == ticket)?;
        Some(self.state.handed.swap_remove(at).value)
    }

    /// Returns whether a receive would succeed without waiting. If the predicate panics, the caller
    /// must drop the payload after it has released the lock.
    pub(super) fn has_something(&mut self, predicate: Option<&Predicate>) -> Result<bool, Panic> {
        if self.is_drained() {
            return Ok(true);
        }
        let ChannelGuard { receivers, state, woken } = self;
        let state: &ChannelState<T> = state;
        let mut wanted = |value: &T| match predicate {
            None => Ok(true),
            Some(predicate) => call_predicate(receivers, woken, || {
                // SAFETY: N2: the predicates of a channel's nodes are made for its values.
                unsafe { predicate.accepts(value) }
            }),
        };
        if let Some(front) = state.buffer.front() {
            return wanted(front);
        }
        if let ChannelKind::Timed(clockwork) = &state.kind
            && let Some(next) = clockwork.next
        {
            if next > clock::now() {
                return Ok(false);
            }
            return wanted(&(clockwork.make)(next));
        }
        let waiting = |node: &Node| {
            if node.role() != Role::Value || node.is_dead() {
                return None;
            }
            // SAFETY: N2: a sender's node points to its value, which stays in place while the lock
            // is held.
            match wanted(unsafe { &*node.data.cast::<T>() }) {
                Ok(false) => None,
                found => Some(found),
            }
        };
        if state.capacity != 0 {
            return Ok(false);
        }
        state.senders.seek(waiting).unwrap_or(Ok(false))
    }
}
