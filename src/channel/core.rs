//! The core of all kinds of channels: the lock, what it guards, and the invariants.
//!
//! # State
//! One lock guards everything in a channel's [`ChannelState`]: the lock of the line of waiting
//! receivers. It is held for a few moves only. The only user code that runs under it is predicates
//! (see [`Source::filter`](crate::Source::filter)).
//!
//! Whenever the lock is free, these invariants hold:
//! 1. Senders wait only while there is no room: `buffer.len() + reserved == capacity`, unless the
//!    channel's kind makes room.
//! 2. Receivers that are not reserved wait only while there is nothing for them: the buffer is
//!    empty, or they have refused the value at its front. On a rendezvous channel, they have
//!    refused the value of each waiting sender.
//! 3. A lock holder that breaks one of these restores it before it unlocks, by
//!    [`ChannelGuard::settle`].
//!
//! # Parts
//! | module | content |
//! |---|---|
//! | [`fast_path`](super::fast_path) | sending and receiving under the lock, without waiting |
//! | [`hand_over`](super::hand_over) | how a sender and a receiver meet |
//! | [`settle`](super::settle) | restoring the invariants, closing |
//! | [`blocking`](super::blocking) | sends and receives that wait |
//! | [`reservation`](super::reservation) | the right to send a value that has not been made yet |
//! | [`disconnected`](super::disconnected) | waiting for the end of the channel |
//! | [`meeting`](super::meeting) | receives that do not wait, when such a value is offered |
#![expect(unsafe_code, reason = "the list's lock guards the state")]

use super::state::{ChannelState, ROOMY};
use crate::base::sync::QueueGuard;
use crate::base::sync::atomic::AtomicUsize;
use crate::base::tag::Tag;
use crate::park::{Queue, WaitList, Woken, no_suspend};
use crate::task::drop_quietly;
use std::cell::UnsafeCell;
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
    state: UnsafeCell<ChannelState<T>>,
    /// The number of existing `Sender`s and `Receiver`s.
    pub(super) sender_count: AtomicUsize,
    pub(super) receiver_count: AtomicUsize,
    pub(super) tag: Tag,
}

// SAFETY: H1: the lock guards the state, and values move from thread to thread.
unsafe impl<T: Send> Sync for Channel<T> {}
// SAFETY: H1: the lock guards the state, and values move from thread to thread.
unsafe impl<T: Send> Send for Channel<T> {}

impl<T> Channel<T> {
    pub(super) fn new(state: ChannelState<T>) -> Channel<T> {
        // With a small buffer, each side has to wait for the other anyway. A burst would only delay
        // both.
        let in_bursts = state.capacity >= ROOMY;
        Channel {
            receivers: if in_bursts { WaitList::for_bursts() } else { WaitList::new() },
            state: UnsafeCell::new(state),
            sender_count: AtomicUsize::new(1),
            receiver_count: AtomicUsize::new(1),
            tag: Tag::new(),
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
    pub(super) fn lock(&self) -> ChannelGuard<'_, T> {
        self.locked(self.receivers.lock())
    }

    /// Locks the channel if its lock is free.
    pub(super) fn lock_at_once(&self) -> Option<ChannelGuard<'_, T>> {
        self.receivers.lock_at_once().map(|receivers| self.locked(receivers))
    }

    /// Returns the locked channel. The caller has already taken the list's lock.
    #[inline(always)]
    pub(super) fn locked<'a>(&'a self, receivers: QueueGuard<'a, Queue>) -> ChannelGuard<'a, T> {
        let state = NonNull::new(self.state.get()).expect("a cell's place is not null");
        ChannelGuard {
            receivers,
            state: StateRef { state, _borrowed: PhantomData },
            woken: Woken::none(),
        }
    }
}

impl<T> fmt::Debug for Channel<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let locked = self.lock();
        let (len, capacity, closed) =
            (locked.state.buffer.len(), locked.state.capacity, locked.state.is_closed());
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
pub(super) struct ChannelGuard<'a, T> {
    // The fields are dropped in this order, so the lock is released first.
    pub(super) receivers: QueueGuard<'a, Queue>,
    pub(super) state: StateRef<'a, T>,
    pub(super) woken: Woken,
}

/// The state of a channel whose lock is held. It is not a `&mut`, because a function with a `&mut`
/// parameter may rely on it until it returns. Functions that are given a [`ChannelGuard`] unlock it
/// before they wait.
pub(super) struct StateRef<'a, T> {
    state: NonNull<ChannelState<T>>,
    _borrowed: PhantomData<&'a mut ChannelState<T>>,
}

impl<T> Deref for StateRef<'_, T> {
    type Target = ChannelState<T>;

    #[inline(always)]
    fn deref(&self) -> &ChannelState<T> {
        // SAFETY: H1: the lock is held as long as this value exists.
        unsafe { self.state.as_ref() }
    }
}

impl<T> DerefMut for StateRef<'_, T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut ChannelState<T> {
        // SAFETY: H1: the lock guards the state. The mutable borrow of `self` excludes any other
        // reference to the state.
        unsafe { self.state.as_mut() }
    }
}

pub(super) type Panic = Box<dyn std::any::Any + Send>;

/// Calls a predicate, which is user code, while the channel is locked. Destructors in it that need
/// the lock are put off until the lock is free.
pub(super) fn call_predicate(
    queue: &QueueGuard<'_, Queue>,
    woken: &mut Woken,
    question: impl FnOnce() -> bool,
) -> Result<bool, Panic> {
    let (answer, put_off) = queue.asking(|| no_suspend(question));
    woken.push_put_off(put_off);
    answer
}
