//! The core of all kinds of channels: the buffer, the waiters on both sides, and how a sender and a
//! receiver meet.
//!
//! # State
//! One lock guards everything in a channel's [`State`]: the lock of the line of waiting receivers.
//! It is held for a few moves only. The only user code that runs under it is predicates (see
//! [`Source::filter`](crate::Source::filter)).
//!
//! Whenever the lock is free, these invariants hold:
//! 1. Senders wait only while there is no room: `buffer.len() + reserved == capacity`, unless the
//!    policy makes room.
//! 2. Receivers wait only while there is nothing for them: the buffer is empty, or they have
//!    refused the value at its front. On a rendezvous channel, they have refused the value of each
//!    waiting sender.
//! 3. A lock holder that breaks one of these restores it before it unlocks, by [`Locked::settle`].
//!
//! # Meeting
//! A sender that finds a waiting receiver claims it and hands the value over. The role of the
//! receiver's node decides how:
//! - `Slot`: the sender writes the value into the receiver's frame.
//! - `Take`: the receiver waits for other things too. The value goes into `handed`, under the
//!   address of the receiver's node, and the receiver fetches it from there.
//! - `Notify`: the receiver is only notified, and looks into the buffer itself.
//!
//! A receiver that makes room serves the sender that has waited longest. It moves the value of a
//! `Value` node into the buffer. It reserves the room for an `Offer` node: see
//! [`super::reservation`].
#![expect(unsafe_code, reason = "the list's lock guards the state; values move between stacks")]

use super::state::{Handed, Overflow, ROOMY, State};
use crate::base::alarm::Ring;
use crate::base::clock;
use crate::base::sync::BiasedGuard;
use crate::base::sync::atomic::AtomicUsize;
use crate::park::{Node, Queue, Role, WaitList, Woken, no_suspend};
use crate::task::drop_quietly;
use std::cell::UnsafeCell;
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};

/// The ends of a wait with a single node: the value was handed over, or the channel is
/// disconnected.
pub(super) const GIVEN: u32 = 0;
pub(super) const DISCONNECTED: u32 = 1;

/// A channel. The fields that change with each value come first, so that they share a cache line:
/// the lock, the buffer's ends and the lines of waiters.
#[repr(C, align(64))]
pub(super) struct Channel<T> {
    /// The line of waiting receivers. Its lock guards `state`.
    receivers: WaitList,
    state: UnsafeCell<State<T>>,
    /// The number of existing `Sender`s and `Receiver`s.
    pub(super) sender_count: AtomicUsize,
    pub(super) receiver_count: AtomicUsize,
}

// SAFETY: H1: the lock guards the state, and values move from thread to thread.
unsafe impl<T: Send> Sync for Channel<T> {}
// SAFETY: H1, as above.
unsafe impl<T: Send> Send for Channel<T> {}

/// The result of an attempt to send.
pub(super) enum Offered<T> {
    Accepted,
    /// The value was accepted and displaced this one. The caller drops it after it has released the
    /// lock.
    Evicted(T),
    Full(T),
    Disconnected(T),
}

/// The result of an attempt to receive.
pub(super) enum Taken<T> {
    Value(T),
    Empty,
    Disconnected,
}

impl<T> Channel<T> {
    pub(super) fn new(state: State<T>) -> Channel<T> {
        // With a small buffer, each side has to wait for the other anyway. A burst would only delay
        // both.
        let in_bursts = state.capacity >= ROOMY;
        Channel {
            receivers: if in_bursts { WaitList::for_bursts() } else { WaitList::new() },
            state: UnsafeCell::new(state),
            sender_count: AtomicUsize::new(1),
            receiver_count: AtomicUsize::new(1),
        }
    }

    /// Calls `work`, for a destructor. If this thread is running a predicate under the channel's
    /// lock, the call is made after the lock has been released.
    #[inline]
    pub(super) fn do_unlocked<A: 'static>(&self, with: A, work: fn(&Channel<T>, A)) {
        if self.receivers.is_asking() {
            self.do_later(with, work);
        } else {
            work(self, with);
        }
    }

    #[cold]
    fn do_later<A: 'static>(&self, with: A, work: fn(&Channel<T>, A)) {
        let channel = ptr::from_ref(self);
        let quietly = move || {
            // SAFETY: L5: the channel is lent to the lock holder.
            let channel = unsafe { &*channel };
            drop_quietly(panic::catch_unwind(AssertUnwindSafe(|| work(channel, with))));
        };
        // SAFETY: L5: the work uses only the lock holder's channel and what the closure owns.
        unsafe { self.receivers.put_off(quietly) };
    }

    /// Returns the list that is notified when there is something to receive.
    pub(super) fn list(&self) -> &WaitList {
        &self.receivers
    }

    #[inline(always)]
    pub(super) fn lock(&self) -> Locked<'_, T> {
        self.locked(self.receivers.lock())
    }

    /// Returns the locked channel. The caller has already taken the list's lock.
    #[inline(always)]
    pub(super) fn locked<'a>(&'a self, queue: BiasedGuard<'a, Queue>) -> Locked<'a, T> {
        let state = NonNull::new(self.state.get()).expect("a cell's place is not null");
        Locked { queue, state: Held { state, _borrowed: PhantomData }, woken: Woken::none() }
    }
}

impl<T: Send> Ring for Channel<T> {
    fn ring(&self) {
        // All waiters are woken. Each one that finds nothing waits again, and so sets the next
        // alarm.
        self.receivers.notify_all();
    }
}

impl<T> fmt::Debug for Channel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let locked = self.lock();
        let (len, capacity, closed) =
            (locked.state.buffer.len(), locked.state.capacity, locked.state.closed);
        drop(locked);
        let capacity = (capacity != usize::MAX).then_some(capacity);
        f.debug_struct("Channel")
            .field("len", &len)
            .field("capacity", &capacity)
            .field("closed", &closed)
            .finish()
    }
}

/// A channel whose lock is held. The waiters that were served under the lock are unparked after it
/// has been released.
pub(super) struct Locked<'a, T> {
    // The fields are dropped in this order, so the lock is released first.
    pub(super) queue: BiasedGuard<'a, Queue>,
    pub(super) state: Held<'a, T>,
    pub(super) woken: Woken,
}

/// The state of a channel whose lock is held. It is not a `&mut`, because a function with a `&mut`
/// parameter may rely on it until it returns. Functions that are given a [`Locked`] unlock it
/// before they wait.
pub(super) struct Held<'a, T> {
    state: NonNull<State<T>>,
    _borrowed: PhantomData<&'a mut State<T>>,
}

impl<T> Deref for Held<'_, T> {
    type Target = State<T>;

    #[inline(always)]
    fn deref(&self) -> &State<T> {
        // SAFETY: H1: the lock is held as long as this value exists.
        unsafe { self.state.as_ref() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut State<T> {
        // SAFETY: H1, as above. The mutable borrow of `self` excludes any other reference to the
        // state.
        unsafe { self.state.as_mut() }
    }
}

impl<T> Locked<'_, T> {
    /// Sends without waiting.
    #[inline]
    pub(super) fn offer(&mut self, mut value: T) -> Offered<T> {
        if self.state.closed {
            return Offered::Disconnected(value);
        }
        if !self.queue.is_empty() && self.state.buffer.is_empty() {
            match self.hand_over(value) {
                None => {
                    self.sent();
                    return Offered::Accepted;
                }
                Some(back) => value = back,
            }
        }
        if self.state.has_room() {
            self.state.buffer.push_back(value);
            self.sent();
            return Offered::Accepted;
        }
        match self.state.overflow {
            Overflow::Wait => Offered::Full(value),
            Overflow::DropNewest => Offered::Evicted(value),
            Overflow::DropOldest => {
                let oldest = self.state.buffer.pop_front();
                self.state.buffer.push_back(value);
                self.settle();
                oldest.map_or(Offered::Accepted, Offered::Evicted)
            }
        }
    }

    /// Puts a value into the channel. The caller has made sure that there is room.
    pub(super) fn put(&mut self, value: T) {
        let back = if self.state.buffer.is_empty() { self.hand_over(value) } else { Some(value) };
        if let Some(value) = back {
            self.state.buffer.push_back(value);
        }
        self.sent();
        self.settle();
    }

    /// Ends a send after the value has been accepted.
    #[inline]
    fn sent(&mut self) {
        if self.state.once {
            self.close();
            // These senders waited for the only place, which was reserved. It has been used now.
            claim_all(&self.state.senders, Role::Value, &mut self.woken);
        }
    }

    /// Gives a value to the first waiting receiver that accepts it. Returns the value if there is
    /// no such receiver.
    pub(super) fn hand_over(&mut self, value: T) -> Option<T> {
        let Locked { queue: guard, state, woken } = self;
        let mut value = Some(value);
        let queue: &Queue = guard;
        queue.seek(|node| {
            if node.reserved.get() != 0 {
                return None;
            }
            if let (Some(predicate), Some(value)) = (node.predicate(), &value) {
                if node.is_dead() {
                    queue.remove(node);
                    return None;
                }
                // SAFETY: N2: predicates of a channel's nodes are made for its values.
                match ask(guard, woken, || unsafe { predicate.accepts(value) }) {
                    Ok(true) => {}
                    Ok(false) => return None,
                    Err(payload) => {
                        queue.remove(node);
                        // The payload is stored even if the wait has ended meanwhile. The owner
                        // still has to take this lock, and drops the payload after releasing it.
                        node.panic.set(Some(payload));
                        if node.claim() {
                            woken.push(node);
                        }
                        return None;
                    }
                }
            }
            if matches!(node.role(), Role::Notify | Role::Peek) && state.capacity == 0 {
                // There is no buffer to which the value could go. This node is notified when the
                // sender waits.
                return None;
            }
            queue.remove(node);
            if !node.claim() {
                return None;
            }
            woken.push(node);
            match (node.role(), value.take()) {
                // SAFETY: N2: a receiver's node points to a place for a `T`, and the claim gives
                // this thread access to it.
                (Role::Slot | Role::Meet, Some(value)) => unsafe {
                    node.data.cast::<T>().write(value);
                },
                (Role::Take, Some(value)) => {
                    state.handed.push(Handed { ticket: node.ticket(), value })
                }
                // The waiter has yet to decide whether it wants the value. Until then the value is
                // offered to other waiters.
                (Role::Look | Role::Peek, back) => {
                    value = back;
                    return None;
                }
                // This waiter looks into the buffer, to which the value goes.
                (_, back) => value = back,
            }
            Some(())
        });
        value
    }

    /// Receives without waiting.
    #[inline]
    pub(super) fn take(&mut self) -> Taken<T> {
        if let Some(value) = self.state.buffer.pop_front() {
            self.took();
            return Taken::Value(value);
        }
        let State { capacity, closed, clockwork, .. } = &*self.state;
        if *capacity != 0 && !closed && clockwork.is_none() {
            return Taken::Empty;
        }
        self.take_elsewhere(None)
    }

    /// Receives without waiting, if `accepts` returns true for the next value.
    pub(super) fn take_if(&mut self, accepts: &dyn Fn(&T) -> bool) -> Taken<T> {
        let Some(front) = self.state.buffer.front() else {
            return self.take_elsewhere(Some(accepts));
        };
        match ask(&self.queue, &mut self.woken, || accepts(front)) {
            Ok(true) => {
                let value = self.state.buffer.pop_front().expect("looked at just now");
                self.took();
                Taken::Value(value)
            }
            Ok(false) => Taken::Empty,
            Err(payload) => panic::resume_unwind(payload),
        }
    }

    /// Receives when the buffer is empty: from a waiting sender or from the clockwork.
    fn take_elsewhere(&mut self, accepts: Option<&dyn Fn(&T) -> bool>) -> Taken<T> {
        if self.state.capacity == 0
            && let Some(value) = self.take_from_sender(accepts)
        {
            return Taken::Value(value);
        }
        if self.state.clockwork.is_some() {
            return self.take_from_clockwork(accepts);
        }
        if self.is_drained() { Taken::Disconnected } else { Taken::Empty }
    }

    /// Receives the value of a waiting sender, on a rendezvous channel.
    fn take_from_sender(&mut self, accepts: Option<&dyn Fn(&T) -> bool>) -> Option<T> {
        let senders = &self.state.senders;
        let value = senders.seek(|node| {
            if node.role() != Role::Value {
                return None;
            }
            if let Some(accepts) = accepts {
                // SAFETY: N2: a sender's node points to its value, which stays in place while the
                // lock is held.
                let value = unsafe { &*node.data.cast::<T>() };
                match ask(&self.queue, &mut self.woken, || accepts(value)) {
                    Ok(true) => {}
                    Ok(false) => return None,
                    Err(payload) => panic::resume_unwind(payload),
                }
            }
            senders.remove(node);
            if !node.claim() {
                return None;
            }
            self.woken.push(node);
            // SAFETY: N2: the node has been claimed, so this thread may move the value out.
            Some(unsafe { node.data.cast::<T>().read() })
        })?;
        self.disconnect_if_drained();
        Some(value)
    }

    fn take_from_clockwork(&mut self, accepts: Option<&dyn Fn(&T) -> bool>) -> Taken<T> {
        let clockwork = self.state.clockwork.as_mut().expect("asked before");
        let (due, now) = (clockwork.next, clock::now());
        if now < due {
            return Taken::Empty;
        }
        let value = (clockwork.make)(due);
        if let Some(accepts) = accepts {
            match ask(&self.queue, &mut self.woken, || accepts(&value)) {
                Ok(true) => {}
                Ok(false) => return Taken::Empty,
                Err(payload) => panic::resume_unwind(payload),
            }
        }
        match clockwork.period {
            // The next period begins now if this value was fetched late, so there is no burst of
            // missed values.
            Some(period) => match now.max(due).checked_add(period) {
                Some(next) => clockwork.next = next,
                None => self.state.clockwork = None,
            },
            None => self.state.clockwork = None,
        }
        // A waiter that refused this value does not know when the next one is due.
        let picky =
            |node: &Node| (node.predicate().is_some() || node.role() == Role::Look).then_some(());
        if self.queue.seek(picky).is_some() {
            self.queue.look_again(&mut self.woken);
        }
        Taken::Value(value)
    }

    /// Restores the invariants after a value has left the buffer.
    #[inline]
    fn took(&mut self) {
        if !self.state.senders.is_empty() || !self.queue.is_empty() || self.state.closed {
            self.settle();
        }
    }

    /// Restores the invariants of this module.
    pub(super) fn settle(&mut self) {
        loop {
            while self.state.has_room() && self.admit_sender() {
                if self.state.once && !self.state.buffer.is_empty() {
                    self.sent();
                }
            }
            if self.queue.is_empty() {
                break;
            }
            let Some(front) = self.state.buffer.pop_front() else { break };
            if let Some(back) = self.hand_over(front) {
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
            self.queue.look_again(&mut self.woken);
        }
        self.disconnect_if_drained();
    }

    /// Lets the sender in that has waited longest. Returns whether there was one.
    fn admit_sender(&mut self) -> bool {
        let State { senders, buffer, reserved, .. } = &mut *self.state;
        let senders: &Queue = senders;
        let admitted = senders.seek(|node| {
            senders.remove(node);
            if !node.claim() {
                return None;
            }
            self.woken.push(node);
            match node.role() {
                Role::Offer => {
                    *reserved += 1;
                    node.reserved.set(ROOM);
                }
                // SAFETY: N2: the node has been claimed, so this thread may move the value out.
                Role::Value => buffer.push_back(unsafe { node.data.cast::<T>().read() }),
                // This waiter only looks, and does not use the room.
                _ => return None,
            }
            Some(())
        });
        admitted.is_some()
    }

    /// Returns whether no value can be received any more.
    pub(super) fn is_drained(&self) -> bool {
        let state = &*self.state;
        // After `close_now`, reservations deliver nothing. Neither does a value that was handed
        // over and is given back.
        let undecided =
            state.reserved != 0 || !state.senders.is_empty() || !state.handed.is_empty();
        let over = state.discards || !undecided;
        state.closed && over && state.buffer.is_empty() && state.clockwork.is_none()
    }

    pub(super) fn disconnect_if_drained(&mut self) {
        if self.is_drained() {
            // The waiters that can fetch a value find out themselves that there will be none.
            claim_all(&self.queue, Role::Slot, &mut self.woken);
        }
    }

    /// Rejects new sends. Values that are already in the channel are still delivered.
    pub(super) fn close(&mut self) {
        self.state.closed = true;
        self.state.is_plain = false;
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
        self.state.closed = true;
        self.state.is_plain = false;
        self.state.discards = true;
        self.state.clockwork = None;
        claim_all(&self.state.senders, Role::Value, &mut self.woken);
        let dropped = std::mem::take(&mut self.state.buffer);
        self.disconnect_if_drained();
        dropped
    }

    /// Tells receivers that a sender has started to wait: the first `Notify` node, and all `Peek`
    /// nodes before it.
    pub(super) fn notify_receiver(&mut self) {
        notify(&self.queue, &mut self.woken);
    }

    /// Tells all `Peek` nodes that a select waits to send. `Notify` nodes are not told: they take a
    /// value, and the select has not made one.
    pub(super) fn notify_onlookers(&mut self) {
        let Locked { queue, woken, .. } = self;
        let queue: &Queue = queue;
        queue.seek(|node| -> Option<()> {
            if node.role() == Role::Peek {
                queue.remove(node);
                if node.claim() {
                    woken.push(node);
                }
            }
            None
        });
    }
}

/// Wakes the first `Notify` node in a line, and all `Peek` nodes before it.
fn notify(queue: &Queue, woken: &mut Woken) {
    queue.seek(|node| {
        if !matches!(node.role(), Role::Notify | Role::Peek) {
            return None;
        }
        queue.remove(node);
        if !node.claim() {
            return None;
        }
        woken.push(node);
        (node.role() == Role::Notify).then_some(())
    });
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

/// In a node's `reserved`: room in the buffer has been reserved for the node.
pub(super) const ROOM: usize = usize::MAX;

pub(super) type Panic = Box<dyn std::any::Any + Send>;

/// Calls a predicate, which is user code, while the channel is locked. Destructors in it that need
/// the lock are put off until the lock is free.
pub(super) fn ask(
    queue: &BiasedGuard<'_, Queue>,
    woken: &mut Woken,
    question: impl FnOnce() -> bool,
) -> Result<bool, Panic> {
    let (answer, put_off) = queue.asking(|| no_suspend(question));
    woken.push_put_off(put_off);
    answer
}
