//! What all flavours have in common: the buffer, those who wait on both sides, and who meets whom.
//!
//! # State
//! One lock, that of the line of waiting receivers, guards everything in a channel's [`State`]. What runs under it is a handful of moves, and
//! of user code nothing but predicates (see [`Source::filter`](crate::Source::filter)).
//!
//! Between two holders of the lock this is so:
//! 1. Senders wait only while there is no room: `buffer.len() + reserved == capacity`, unless the policy makes room.
//! 2. Receivers wait only while there is nothing for them: the buffer is empty, or they have refused what is at its front;
//!    where there is no buffer, they have refused what each waiting sender holds.
//! 3. Who finds that one of these is not so any more because of what it did, makes it so before it unlocks: [`Locked::settle`].
//!
//! # Meeting
//! A sender that finds a waiting receiver claims it and gives it the value: into its frame (`Slot`), or, where the receiver waits
//! for other things too, into `handed` under the address of its node (`Take`), to be fetched. One that is only to be
//! notified (`Notify`) looks into the buffer itself. A receiver that makes room moves the value of the sender who has waited
//! longest (`Value`) into the buffer, or promises the room to it (`Offer`): see [`super::reservation`].
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

/// A wait ends because nobody will ever come.
pub(super) const DISCONNECTED: u32 = u32::MAX - 1;

/// What changes with each value comes first: the lock, the buffer's ends and the lines of those who wait, in one cache line.
#[repr(C, align(64))]
pub(super) struct Channel<T> {
    /// Those who wait to receive. Its lock guards `state`.
    receivers: WaitList,
    state: UnsafeCell<State<T>>,
    /// `Sender`s and `Receiver`s that exist.
    pub(super) sender_count: AtomicUsize,
    pub(super) receiver_count: AtomicUsize,
}

// SAFETY: H1: the lock guards the state, and values move from thread to thread.
unsafe impl<T: Send> Sync for Channel<T> {}
// SAFETY: H1, as above.
unsafe impl<T: Send> Send for Channel<T> {}

/// What became of a value.
pub(super) enum Offered<T> {
    Accepted,
    /// Accepted, and this one, which is to be dropped without the lock, had to go.
    Evicted(T),
    Full(T),
    Disconnected(T),
}

/// What a look for a value found.
pub(super) enum Taken<T> {
    Value(T),
    Empty,
    Disconnected,
}

impl<T> Channel<T> {
    pub(super) fn new(state: State<T>) -> Channel<T> {
        // Where little fits, each side waits for the other anyway, and a pause would only delay both.
        let in_bursts = state.capacity >= ROOMY;
        Channel {
            receivers: if in_bursts { WaitList::for_bursts() } else { WaitList::new() },
            state: UnsafeCell::new(state),
            sender_count: AtomicUsize::new(1),
            receiver_count: AtomicUsize::new(1),
        }
    }

    /// Does what a destructor has to do. If this thread runs a predicate under the channel's lock, it is done when the lock has been released.
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
            // SAFETY: L5: lent to the lock holder.
            let channel = unsafe { &*channel };
            drop_quietly(panic::catch_unwind(AssertUnwindSafe(|| work(channel, with))));
        };
        // SAFETY: L5: the work uses the lock holder's channel, and what it owns.
        unsafe { self.receivers.put_off(quietly) };
    }

    /// The list that is notified when there is something to receive.
    pub(super) fn list(&self) -> &WaitList {
        &self.receivers
    }

    #[inline(always)]
    pub(super) fn lock(&self) -> Locked<'_, T> {
        self.locked(self.receivers.lock())
    }

    /// The same with the list's lock, which has been taken.
    #[inline(always)]
    pub(super) fn locked<'a>(&'a self, queue: BiasedGuard<'a, Queue>) -> Locked<'a, T> {
        let state = NonNull::new(self.state.get()).expect("a cell's place is not null");
        Locked { queue, state: Held { state, _borrowed: PhantomData }, woken: Woken::none() }
    }
}

impl<T: Send> Ring for Channel<T> {
    fn ring(&self) {
        // All: whoever finds nothing waits again, and so says that there is to be another alarm.
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

/// The channel while its lock is held. Those who have been served are let go on when it no longer is.
pub(super) struct Locked<'a, T> {
    // The order of the fields is that in which they are dropped: unlocked first.
    pub(super) queue: BiasedGuard<'a, Queue>,
    pub(super) state: Held<'a, T>,
    pub(super) woken: Woken,
}

/// The state of a channel whose lock is held. Not a `&mut`: a function that is given one may rely on it until it returns, but those that are given a [`Locked`] unlock it
/// before they wait.
pub(super) struct Held<'a, T> {
    state: NonNull<State<T>>,
    _borrowed: PhantomData<&'a mut State<T>>,
}

impl<T> Deref for Held<'_, T> {
    type Target = State<T>;

    #[inline(always)]
    fn deref(&self) -> &State<T> {
        // SAFETY: H1: the lock is held for as long as this is there.
        unsafe { self.state.as_ref() }
    }
}

impl<T> DerefMut for Held<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut State<T> {
        // SAFETY: H1, as above; borrowed mutably, so nothing else is made of it meanwhile.
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

    /// Sends where there is room.
    pub(super) fn put(&mut self, value: T) {
        let back = if self.state.buffer.is_empty() { self.hand_over(value) } else { Some(value) };
        if let Some(value) = back {
            self.state.buffer.push_back(value);
        }
        self.sent();
        self.settle();
    }

    /// A value has gone in.
    #[inline]
    fn sent(&mut self) {
        if self.state.once {
            self.close();
            // Those who waited, because the one place was reserved, came too late.
            claim_all(&self.state.senders, Role::Value, &mut self.woken);
        }
    }

    /// Gives a value to the waiting receiver whose turn it is; back: none of them wants it.
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
                        // Also where the wait has ended meanwhile: the owner, who still has to come by for this lock, drops it without.
                        node.panic.set(Some(payload));
                        if node.claim() {
                            woken.push(node);
                        }
                        return None;
                    }
                }
            }
            if matches!(node.role(), Role::Notify | Role::Peek) && state.capacity == 0 {
                // There is nowhere to put the value for it; its turn comes when the sender waits.
                return None;
            }
            queue.remove(node);
            if !node.claim() {
                return None;
            }
            woken.push(node);
            match (node.role(), value.take()) {
                // SAFETY: N2: a receiver's node points to a place for a `T`, and the claim makes it ours.
                (Role::Slot | Role::Meet, Some(value)) => unsafe {
                    node.data.cast::<T>().write(value);
                },
                (Role::Take, Some(value)) => {
                    state.handed.push(Handed { ticket: node.ticket(), value })
                }
                // Whether it wants it will be seen; until then it is for others.
                (Role::Look | Role::Peek, back) => {
                    value = back;
                    return None;
                }
                // It looks into the buffer, where the value goes.
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

    /// The same, if `accepts` says yes.
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

    /// The buffer is empty.
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

    /// Where there is no buffer: the value of a waiting sender.
    fn take_from_sender(&mut self, accepts: Option<&dyn Fn(&T) -> bool>) -> Option<T> {
        let senders = &self.state.senders;
        let value = senders.seek(|node| {
            if node.role() != Role::Value {
                return None;
            }
            if let Some(accepts) = accepts {
                // SAFETY: N2: a sender's node points to its value, which stays where it is while the lock is held.
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
            // SAFETY: N2: claimed, hence ours to move out.
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
            // The next pause begins now if this one was fetched late: no burst.
            Some(period) => match now.max(due).checked_add(period) {
                Some(next) => clockwork.next = next,
                None => self.state.clockwork = None,
            },
            None => self.state.clockwork = None,
        }
        // Who refused this one does not know when the next is due.
        let picky =
            |node: &Node| (node.predicate().is_some() || node.role() == Role::Look).then_some(());
        if self.queue.seek(picky).is_some() {
            self.queue.look_again(&mut self.woken);
        }
        Taken::Value(value)
    }

    /// A value has left the buffer.
    #[inline]
    fn took(&mut self) {
        if !self.state.senders.is_empty() || !self.queue.is_empty() || self.state.closed {
            self.settle();
        }
    }

    /// Makes the rules of the module so again.
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
            // A value that had been given back was in front of theirs: who refused it has not seen them.
            self.queue.look_again(&mut self.woken);
        }
        self.disconnect_if_drained();
    }

    /// Lets the sender in who has waited longest.
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
                // SAFETY: N2: claimed, hence ours to move out.
                Role::Value => buffer.push_back(unsafe { node.data.cast::<T>().read() }),
                // It only looks, and may not use the room.
                _ => return None,
            }
            Some(())
        });
        admitted.is_some()
    }

    /// Whether nothing will ever come any more.
    pub(super) fn is_drained(&self) -> bool {
        let state = &*self.state;
        // What is reserved comes to nothing where nothing is delivered any more.
        // So does what has been handed over and is given back.
        let undecided =
            state.reserved != 0 || !state.senders.is_empty() || !state.handed.is_empty();
        let over = state.discards || !undecided;
        state.closed && over && state.buffer.is_empty() && state.clockwork.is_none()
    }

    pub(super) fn disconnect_if_drained(&mut self) {
        if self.is_drained() {
            // Who can fetch a value finds that there will be none.
            claim_all(&self.queue, Role::Slot, &mut self.woken);
        }
    }

    /// No new sends; what is there is delivered.
    pub(super) fn close(&mut self) {
        self.state.closed = true;
        self.state.is_plain = false;
        let senders = &self.state.senders;
        senders.seek(|node| -> Option<()> {
            // Those who have no value yet have nothing to be delivered.
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

    /// Nothing is delivered any more: waiting senders keep their values. The buffer's are for the caller to drop without the lock.
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

    /// A sender has come to wait: the first of those who were to be notified sees it, and all who only look on.
    pub(super) fn notify_receiver(&mut self) {
        notify(&self.queue, &mut self.woken);
    }

    /// A select has come to send: all receivers that only look on see it. Others that are notified take what is there, and there is nothing.
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

/// Wakes the first in a line of those who were to be notified, and before it all who only look on.
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

/// Ends the waits of everybody in a line; of those with the given role as disconnected, since they look at nothing else.
fn claim_all(queue: &Queue, blind: Role, woken: &mut Woken) {
    queue.seek(|node| -> Option<()> {
        queue.remove(node);
        let is_blind = node.role() == blind || node.role() == Role::Meet;
        let claimed = if is_blind { node.claim_as(DISCONNECTED) } else { node.claim() };
        if claimed {
            woken.push(node);
        }
        None
    });
}

/// In a node's `reserved`: what was reserved for it is room in the buffer.
pub(super) const ROOM: usize = usize::MAX;

pub(super) type Panic = Box<dyn std::any::Any + Send>;

/// Asks a predicate, which is user code, with the channel locked. What it has dropped, and needs the lock, goes when the lock is free.
pub(super) fn ask(
    queue: &BiasedGuard<'_, Queue>,
    woken: &mut Woken,
    question: impl FnOnce() -> bool,
) -> Result<bool, Panic> {
    let (answer, put_off) = queue.asking(|| no_suspend(question));
    woken.push_put_off(put_off);
    answer
}
