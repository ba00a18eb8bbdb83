//! Receivers as sources.
#![expect(unsafe_code, reason = "registers waits that may be given values")]

use std::ptr;
use std::sync::Weak;

use super::core::{Channel, Locked, Panic, Taken, ask};
use super::errors::RecvError;
use super::receiver::Receiver;
use super::state::{Overflow, State};
use crate::base::alarm::Alarm;
use crate::base::clock;
use crate::park::{Node, Predicate, Role, WaitList};
use crate::source::{Arms, Asked, Pass, Selective, Source, Won};
use crate::task::drop_quietly;

impl<T> Source for Receiver<T> {
    type Item = Result<T, RecvError>;

    fn try_take(&self) -> Option<Self::Item> {
        item(self.channel().lock().take())
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
        item(self.channel().lock().take_if(accepts))
    }

    fn __register_if<'a>(&'a self, arms: &mut Arms<'a>, asked: Asked<'a, T>) {
        register(self.channel(), arms, Some(asked.predicate()));
    }
}

impl<T> Channel<T> {
    /// What has been handed over under this number, and nobody fetches, is the next value again. `buffered`: its room in the buffer
    /// was kept.
    pub(super) fn give_back(&self, ticket: usize, buffered: bool) {
        self.do_unlocked((ticket, buffered), Channel::give_back_now);
    }

    fn give_back_now(&self, (ticket, buffered): (usize, bool)) {
        let mut locked = self.lock();
        let Some(value) = locked.fetch(ticket) else { return };
        if buffered {
            locked.state.reserved -= 1;
        }
        if locked.state.discards {
            drop(locked);
            drop(value);
            return;
        }
        locked.state.buffer.push_front(value);
        let State { buffer, capacity, reserved, overflow, .. } = &mut *locked.state;
        let over = *overflow == Overflow::DropOldest && buffer.len() + *reserved > *capacity;
        // Its room, which nobody was kept out of, has been taken.
        let oldest = if over { buffer.pop_front() } else { None };
        locked.settle();
        drop(locked);
        drop(oldest);
    }

    /// Whoever got hold of the list does not know when something comes by itself: makes the list be notified then.
    fn set_alarm(&self) {
        let locked = self.lock();
        let Some(clockwork) = &locked.state.clockwork else { return };
        let next = clockwork.next;
        if locked.state.alarm.as_ref().is_some_and(|alarm| alarm.due() == next)
            || next <= clock::now()
        {
            return;
        }
        let channel = Weak::clone(&clockwork.channel);
        drop(locked);
        let alarm = Alarm::set(next, channel);
        let before = self.lock().state.alarm.replace(alarm);
        drop(before);
    }
}

fn item<T>(taken: Taken<T>) -> Option<Result<T, RecvError>> {
    match taken {
        Taken::Value(value) => Some(Ok(value)),
        Taken::Empty => None,
        Taken::Disconnected => Some(Err(RecvError::Disconnected)),
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
            let found = locked.has_something(predicate.as_ref());
            if !matches!(found, Ok(false)) {
                drop(locked);
                // A panic is the waiter's own affair: it meets it when it looks again, with nothing registered.
                drop_quietly(found);
                arms.set_ready();
                return;
            }
            // One that is due already has been refused: it is for others, and who takes it says so.
            if let Some(clockwork) = &locked.state.clockwork
                && clockwork.next > clock::now()
            {
                arms.ends_at(clockwork.next);
            }
            if arms.leaves_alone(channel.list()) {
                return;
            }
            if arms.only().is_some() && arms.any() {
                // The same channel twice: somebody is making a value for the first of the two already.
                return;
            }
            let offered = locked.has_offer_but(|node| arms.is_own(node));
            if offered && arms.any() {
                // To tell it is to claim it, which nobody does who can be claimed himself.
                drop(locked);
                arms.wait_only_for(channel.list());
                arms.set_ready();
                return;
            }
            if !offered && arms.only().is_some() {
                // It has gone.
                drop(locked);
                arms.set_only(None);
                arms.set_ready();
                return;
            }
            let (role, predicate) = match predicate {
                Some(_) if arms.asks_itself() => (Role::Look, None),
                predicate => (Role::Take, predicate),
            };
            // SAFETY: N1: the channel's list is borrowed for `'a`. N2: no data; the predicate is one for `T`.
            let node = unsafe {
                arms.push(channel.list(), &locked.queue, role, ptr::null_mut(), predicate)
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

/// Registers to be told, or passed over, when there may be something to receive.
pub(super) fn watch_values<'a, T>(channel: &'a Channel<T>, arms: &mut Arms<'a>) {
    match arms.pass() {
        Pass::Count => arms.count(),
        Pass::Notify => {
            let locked = channel.lock();
            // What is due already is seen by the look that follows, unless it is refused.
            if let Some(clockwork) = &locked.state.clockwork
                && clockwork.next > clock::now()
            {
                arms.ends_at(clockwork.next);
            }
            // SAFETY: N1: the channel's list is borrowed for `'a`. N2: no data.
            unsafe { arms.push(channel.list(), &locked.queue, Role::Peek, ptr::null_mut(), None) };
        }
        Pass::Take => {}
    }
}

/// The same for room, or a receiver.
pub(super) fn watch_room<'a, T>(channel: &'a Channel<T>, arms: &mut Arms<'a>) {
    match arms.pass() {
        Pass::Count => arms.count(),
        Pass::Notify => {
            let locked = channel.lock();
            if locked.state.closed {
                // Closing has emptied the line of senders for good: whether the channel is drained depends on it.
                drop(locked);
                arms.set_ready();
                return;
            }
            let senders = &locked.state.senders;
            // Whatever makes room, or a receiver that comes, tells all who look, and goes on to the next. So it is not for them to tell another.
            // SAFETY: N1: the channel is borrowed for `'a`, and the line of senders is in it. N2: no data.
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
    // It was woken because nobody will ever send; or to look again.
    if won.role() == Role::Take && !locked.is_drained() {
        return None;
    }
    item(locked.take())
}

impl<T> Locked<'_, T> {
    /// What has been given to a wait for many things, through the node at that address.
    pub(super) fn fetch(&mut self, ticket: usize) -> Option<T> {
        let at = self.state.handed.iter().position(|handed| handed.ticket == ticket)?;
        Some(self.state.handed.swap_remove(at).value)
    }

    /// Whether a receive would not wait. What the predicate panics with is to be dropped without the lock.
    pub(super) fn has_something(&mut self, predicate: Option<&Predicate>) -> Result<bool, Panic> {
        if self.is_drained() {
            return Ok(true);
        }
        let Locked { queue, state, woken } = self;
        let state: &State<T> = state;
        let mut wanted = |value: &T| match predicate {
            None => Ok(true),
            // SAFETY: N2: predicates of a channel's nodes are made for its values.
            Some(predicate) => ask(queue, woken, || unsafe { predicate.accepts(value) }),
        };
        if let Some(front) = state.buffer.front() {
            return wanted(front);
        }
        if let Some(clockwork) = &state.clockwork {
            if clockwork.next > clock::now() {
                return Ok(false);
            }
            return wanted(&(clockwork.make)(clockwork.next));
        }
        let waiting = |node: &Node| {
            if node.role() != Role::Value || node.is_dead() {
                return None;
            }
            // SAFETY: N2: a sender's node points to its value, which stays where it is while the lock is held.
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
