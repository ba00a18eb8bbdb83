//! Waits in line for room or for a value. Sends and receives with a deadline, and those of plain
//! threads, are here too. Those of tasks without a deadline begin in [`halves`](super::halves).
#![expect(unsafe_code, reason = "registers waits in frames")]

use std::mem::MaybeUninit;
use std::time::{Duration, Instant};

use super::core::{Channel, ChannelGuard, DISCONNECTED};
use super::fast_path::{TryRecv, TrySend};
use super::state::ROOMY;
use crate::base::clock;
use crate::base::sync::keep_away;
use crate::park::{
    self, About, CANCELLED, LOOK_AGAIN, Mode, Node, Role, TIMED_OUT, WOKEN, Waiter, host,
};
use crate::task;

/// The number of times that a plain thread looks again before it waits in line.
const LOOKS: u32 = 16;

/// The pause between two of these looks. In this time the other side can move a hundred values, so
/// the two sides do not contend for each value. Measured in the same way as the bursts of the
/// locks: 75 ns for a value with 1.5 µs, 61 with 3, 74 with 6.
const MOMENT: Duration = Duration::from_micros(3);

/// The number of looks of a task that would listen (see [`park`]) and whose worker has nothing else
/// to do. Measured on an AMD EPYC, where Go takes 29 ns, with bursts of 1 µs: 26 ns with a pause of
/// 1 µs, 24 with 1.5, 27 with 2, 35 with 3. With room for 32 values: 56 with 1 µs, 78 with 2.
const LOOKS_OF_A_TASK: u32 = 3;
const MOMENT_OF_A_TASK: Duration = Duration::from_micros(1);

impl<T> ChannelGuard<'_, T> {
    /// Returns how often to look again before waiting in line. The other side is likely to move
    /// many values in the time that it takes to put this thread to sleep and wake it.
    #[cold]
    fn looks(&self) -> u32 {
        let bounded_and_roomy = (ROOMY..usize::MAX).contains(&self.state.capacity);
        if !bounded_and_roomy || cfg!(loom) || self.state.next_due().is_some() {
            return 0;
        }
        match host() {
            None => LOOKS,
            Some(_) if park::listens() && task::current_header().is_some() => LOOKS_OF_A_TASK,
            Some(_) => 0,
        }
    }
}

/// Stays away from the channel for a moment. Returns whether this thread has nothing else to do
/// meanwhile.
fn pass_a_moment() -> bool {
    match host() {
        None => {
            keep_away(MOMENT);
            true
        }
        Some(host) => {
            let may = (host.may_listen)();
            if may {
                keep_away(MOMENT_OF_A_TASK);
            }
            may
        }
    }
}

/// The reason why a send failed.
pub(super) enum NotSent<T> {
    Disconnected(T),
    TimedOut(T),
    Cancelled(T),
}

impl<T> NotSent<T> {
    /// Returns the error for a sender's wait that ended with `outcome`.
    fn after(outcome: u32, value: T) -> NotSent<T> {
        match outcome {
            DISCONNECTED => NotSent::Disconnected(value),
            TIMED_OUT => NotSent::TimedOut(value),
            _ => {
                debug_assert_eq!(outcome, CANCELLED);
                task::cancelled_wait();
                NotSent::Cancelled(value)
            }
        }
    }
}

/// The reason why a receive failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotReceived {
    Disconnected,
    TimedOut,
    Cancelled,
}

/// A wait in line. It is in the frame of the function that switches away, where the claimer finds
/// it. The layout serves a claimer on another core. If the value is a word, all that the claimer
/// accesses of a listener is in one cache line: the end of the waiter, the value, and the beginning
/// of the node.
#[repr(C, align(64))]
pub(super) struct Waiting<T> {
    waiter: Waiter,
    /// The value that is to be sent, or the place for the value that is to be received.
    value: MaybeUninit<T>,
    node: Node,
}

impl<T> Waiting<T> {
    /// Writes a wait to `at`. Its node is in no line yet.
    ///
    /// # Safety
    /// N1: only the caller uses the place at `at`, and its previous content is not used any more.
    #[inline(always)]
    #[track_caller]
    unsafe fn put(at: *mut Waiting<T>, role: Role, what: &'static str, value: MaybeUninit<T>) {
        let waiter = Waiter::new();
        waiter.set_purpose(what, About::Nothing);
        // SAFETY: N1: the place exists, and so do its parts.
        let its_waiter = unsafe { &raw const (*at).waiter };
        // SAFETY: N1, as above.
        let its_value = unsafe { Waiting::place(at) };
        // A node needs to be dropped only if it has a predicate, which this one never has.
        let node = Node::only(its_waiter, role, its_value.cast());
        // SAFETY: N1, the caller's promise.
        unsafe { at.write(Waiting { node, value, waiter }) };
    }

    /// # Safety
    /// N1: there is a place at `at`.
    #[inline(always)]
    unsafe fn place(at: *mut Waiting<T>) -> *mut MaybeUninit<T> {
        // SAFETY: N1, the caller's promise.
        unsafe { &raw mut (*at).value }
    }

    /// # Safety
    /// N1: there is a wait at `at` as long as the result is used.
    #[inline(always)]
    pub(super) unsafe fn waiter<'w>(at: *mut Waiting<T>) -> &'w Waiter {
        // SAFETY: N1, the caller's promise.
        unsafe { &(*at).waiter }
    }

    /// # Safety
    /// N1: as [`Waiting::waiter`].
    #[inline(always)]
    unsafe fn node<'w>(at: *mut Waiting<T>) -> &'w Node {
        // SAFETY: N1, the caller's promise.
        unsafe { &(*at).node }
    }

    /// Makes the wait listen before it parks, if its worker hears from other cores.
    ///
    /// # Safety
    /// N1: there is a wait at `at`, whose node has not been in a line.
    #[inline(always)]
    unsafe fn prepare_to_listen(at: *mut Waiting<T>) {
        // SAFETY: N1, the caller's promise: no other thread knows the wait yet.
        let waiting = unsafe { &mut *at };
        let listens = waiting.waiter.prepare_to_listen();
        waiting.node.set_listens(listens);
    }

    /// Listens if the wait was prepared for that. Then parks if the wait is not over yet.
    ///
    /// # Safety
    /// N1: as [`Waiting::waiter`].
    #[inline]
    #[track_caller]
    unsafe fn wait_patiently(at: *mut Waiting<T>, deadline: Option<Instant>) -> u32 {
        // SAFETY: N1, the caller's promise.
        let waiter = unsafe { Waiting::waiter(at) };
        // SAFETY: N1, as above.
        if unsafe { Waiting::node(at) }.listens()
            && let Some(outcome) = waiter.listen()
        {
            return outcome;
        }
        task::wait(waiter, deadline, Mode::Cancellable)
    }

    /// Writes a received value to its place.
    ///
    /// # Safety
    /// N1: only the caller uses the place at `at`.
    #[inline(always)]
    pub(super) unsafe fn leave(
        at: *mut Waiting<T>,
        received: Result<T, NotReceived>,
    ) -> Result<(), NotReceived> {
        // SAFETY: N1, the caller's promise.
        let place = unsafe { Waiting::place(at) };
        // SAFETY: N1, as above.
        received.map(|value| unsafe { place.write(MaybeUninit::new(value)) })
    }

    /// Moves the value out of its place.
    ///
    /// # Safety
    /// N2: the value is there, and only this call moves it out.
    #[inline(always)]
    pub(super) unsafe fn take(at: *mut Waiting<T>) -> T {
        // SAFETY: N2, the caller's promise.
        let place = unsafe { Waiting::place(at) };
        // SAFETY: N2, as above.
        unsafe { place.cast::<T>().read() }
    }
}

/// The first action of a wait's owner after it has registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Patience {
    /// The owner parks.
    Parks,
    /// The owner listens before it parks, where that helps.
    Listens,
}

impl<T> Channel<T> {
    /// Registers a send for which there was no room, with its value.
    ///
    /// # Safety
    /// N1: the place at `at` stays until the wait is over and [`Channel::sent`] has returned.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn line_up_to_send(
        locked: &mut ChannelGuard<'_, T>,
        value: T,
        at: *mut Waiting<T>,
        patience: Patience,
    ) {
        // SAFETY: the caller's promise.
        unsafe { Waiting::put(at, Role::Value, "room in a channel", MaybeUninit::new(value)) };
        if patience == Patience::Listens {
            // SAFETY: N1, the caller's promise.
            unsafe { Waiting::prepare_to_listen(at) };
        }
        // SAFETY: N1, the caller's promise.
        let node = unsafe { Waiting::node(at) };
        // SAFETY: N1, as above.
        unsafe { locked.state.senders.push(node) };
        if locked.state.capacity == 0 {
            // Waiters that only look are told that there is a value to see.
            locked.notify_receiver();
        }
    }

    /// Returns the result of a send that has waited.
    ///
    /// # Safety
    /// N1: the wait at `at` is over.
    #[inline(always)]
    pub(super) unsafe fn sent(&self, at: *mut Waiting<T>, outcome: u32) -> Result<(), NotSent<T>> {
        if outcome == WOKEN {
            // The claimer has moved the value out.
            return Ok(());
        }
        // SAFETY: N1, the caller's promise.
        Err(unsafe { self.not_sent(at, outcome) })
    }

    /// # Safety
    /// N1: as [`Channel::sent`].
    #[cold]
    unsafe fn not_sent(&self, at: *mut Waiting<T>, outcome: u32) -> NotSent<T> {
        let mut locked = self.lock();
        // SAFETY: N1, the caller's promise.
        locked.state.senders.remove(unsafe { Waiting::node(at) });
        locked.disconnect_if_drained();
        drop(locked);
        // SAFETY: N2: the value has not been moved out, and no other thread can find it any more.
        NotSent::after(outcome, unsafe { Waiting::take(at) })
    }

    /// Registers a receive that found nothing, with the place for its value.
    ///
    /// # Safety
    /// N1: the place at `at` stays until the wait is over and [`Channel::received`] has returned.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn line_up_to_receive(
        locked: &mut ChannelGuard<'_, T>,
        at: *mut Waiting<T>,
        patience: Patience,
    ) {
        // SAFETY: the caller's promise.
        unsafe { Waiting::put(at, Role::Slot, "a value from a channel", MaybeUninit::uninit()) };
        if patience == Patience::Listens {
            // SAFETY: N1, the caller's promise.
            unsafe { Waiting::prepare_to_listen(at) };
        }
        // SAFETY: N1, the caller's promise.
        let node = unsafe { Waiting::node(at) };
        // SAFETY: N1, as above.
        unsafe { locked.receivers.push(node) };
        locked.pair(node);
    }

    /// Registers a receive that found nothing but an offer, and claims the offer. Returns `false`
    /// if the offer is gone. Then nothing is registered.
    ///
    /// # Safety
    /// N1: the place at `at` stays until the wait is over and [`Channel::received`] has returned.
    #[track_caller]
    pub(super) unsafe fn line_up_to_meet(
        locked: &mut ChannelGuard<'_, T>,
        at: *mut Waiting<T>,
    ) -> bool {
        // SAFETY: the caller's promise.
        unsafe {
            Waiting::put(at, Role::Meet, "a value that a select is making", MaybeUninit::uninit());
        }
        // SAFETY: N1, the caller's promise.
        let node = unsafe { Waiting::node(at) };
        // SAFETY: N1, as above.
        unsafe { locked.receivers.push(node) };
        let paired = locked.pair(node);
        if !paired {
            locked.receivers.remove(node);
        }
        paired
    }

    /// Returns `Ok` if the wait has received a value, which is in its place. Otherwise takes the
    /// node out of the line and returns the locked channel.
    ///
    /// # Safety
    /// N1: the wait at `at` is over.
    #[inline(always)]
    pub(super) unsafe fn received(
        &self,
        at: *mut Waiting<T>,
        outcome: u32,
    ) -> Result<(), ChannelGuard<'_, T>> {
        if outcome == WOKEN {
            // The claimer has written the value.
            return Ok(());
        }
        let locked = self.lock();
        // SAFETY: N1, the caller's promise.
        locked.receivers.remove(unsafe { Waiting::node(at) });
        Err(locked)
    }

    /// Ends the send of a task that must not wait. A task that unwinds still sends if that needs no
    /// wait, so that a destructor can report what happened. An error there would often become a
    /// second panic.
    #[cold]
    pub(super) fn send_without_a_wait(&self, value: T) -> Result<(), NotSent<T>> {
        if !task::is_unwinding() {
            return Err(NotSent::Cancelled(value));
        }
        let offered = self.lock().try_send(value);
        match offered {
            TrySend::Accepted | TrySend::Evicted(_) => Ok(()),
            TrySend::Full(value) => Err(NotSent::Cancelled(value)),
            TrySend::Disconnected(value) => Err(NotSent::Disconnected(value)),
        }
    }

    /// Sends, and waits until the deadline if there is no room.
    #[track_caller]
    pub(super) fn send_until(&self, value: T, deadline: Option<Instant>) -> Result<(), NotSent<T>> {
        if task::begin_wait().is_err() {
            return self.send_without_a_wait(value);
        }
        let mut locked = self.lock();
        let offered = locked.try_send(value);
        self.send_offered(locked, offered, deadline)
    }

    /// Completes a send, given the result of its offer. Waits if there was no room.
    #[track_caller]
    pub(super) fn send_offered(
        &self,
        locked: ChannelGuard<'_, T>,
        offered: TrySend<T>,
        deadline: Option<Instant>,
    ) -> Result<(), NotSent<T>> {
        match offered {
            TrySend::Accepted => Ok(()),
            TrySend::Full(value) => match locked.looks() {
                0 => self.send_in_line(locked, value, deadline),
                looks => {
                    drop(locked);
                    self.send_after_a_moment(value, deadline, looks)
                }
            },
            TrySend::Evicted(old) => {
                drop(locked);
                drop(old);
                Ok(())
            }
            TrySend::Disconnected(value) => {
                drop(locked);
                Err(NotSent::Disconnected(value))
            }
        }
    }

    /// Waits in line for room, of which there was none. The caller passes the lock.
    #[track_caller]
    pub(super) fn send_in_line(
        &self,
        mut locked: ChannelGuard<'_, T>,
        value: T,
        deadline: Option<Instant>,
    ) -> Result<(), NotSent<T>> {
        if deadline.is_some_and(|deadline| deadline <= clock::now()) {
            drop(locked);
            return Err(NotSent::TimedOut(value));
        }
        let mut waiting = MaybeUninit::uninit();
        let at = waiting.as_mut_ptr();
        // SAFETY: N1: this frame stays until the wait is over and the node is out of the line.
        unsafe { Channel::line_up_to_send(&mut locked, value, at, Patience::Listens) };
        drop(locked);
        // SAFETY: N1: written just now.
        let outcome = unsafe { Waiting::wait_patiently(at, deadline) };
        // SAFETY: N1: the wait is over.
        unsafe { self.sent(at, outcome) }
    }

    /// Receives, and waits until the deadline if there is nothing.
    #[track_caller]
    pub(super) fn recv_until(&self, deadline: Option<Instant>) -> Result<T, NotReceived> {
        if task::begin_wait().is_err() {
            return Err(NotReceived::Cancelled);
        }
        self.recv_now_or_until(self.lock(), deadline)
    }

    /// Receives like [`Channel::recv_until`]. The caller has begun the wait and taken the lock.
    #[track_caller]
    fn recv_now_or_until(
        &self,
        mut locked: ChannelGuard<'_, T>,
        deadline: Option<Instant>,
    ) -> Result<T, NotReceived> {
        match locked.try_recv() {
            TryRecv::Value(value) => Ok(value),
            TryRecv::Disconnected => Err(NotReceived::Disconnected),
            TryRecv::Empty => self.recv_later(locked, deadline),
        }
    }

    /// Waits for a value, of which there was none. The caller passes the lock.
    #[track_caller]
    pub(super) fn recv_later(
        &self,
        locked: ChannelGuard<'_, T>,
        deadline: Option<Instant>,
    ) -> Result<T, NotReceived> {
        match locked.looks() {
            0 => self.recv_in_line(locked, deadline),
            looks => {
                drop(locked);
                self.recv_after_a_moment(deadline, looks)
            }
        }
    }

    /// Completes a receive without a deadline after its wait ended without a value.
    #[cold]
    #[track_caller]
    pub(super) fn recv_after(
        &self,
        locked: ChannelGuard<'_, T>,
        outcome: u32,
    ) -> Result<T, NotReceived> {
        match Ended::by(outcome, locked) {
            Ended::Otherwise(error) => Err(error),
            Ended::ToLookAgain(locked) => self.recv_now_or_until(locked, None),
        }
    }

    /// Looks again for room a few times before it waits in line.
    #[cold]
    #[track_caller]
    fn send_after_a_moment(
        &self,
        mut value: T,
        deadline: Option<Instant>,
        looks: u32,
    ) -> Result<(), NotSent<T>> {
        for look in 1.. {
            let is_last = !pass_a_moment() || look == looks;
            let mut locked = self.lock();
            value = match locked.try_send(value) {
                // `Evicted` does not occur: a channel that was full makes senders wait.
                TrySend::Accepted | TrySend::Evicted(_) => return Ok(()),
                TrySend::Full(value) if is_last => {
                    return self.send_in_line(locked, value, deadline);
                }
                TrySend::Full(value) => value,
                TrySend::Disconnected(value) => {
                    drop(locked);
                    return Err(NotSent::Disconnected(value));
                }
            };
        }
        unreachable!("the last look returns")
    }

    /// Looks again for a value a few times before it waits in line.
    #[cold]
    #[track_caller]
    fn recv_after_a_moment(&self, deadline: Option<Instant>, looks: u32) -> Result<T, NotReceived> {
        for look in 1.. {
            let is_last = !pass_a_moment() || look == looks;
            let mut locked = self.lock();
            match locked.try_recv() {
                TryRecv::Value(value) => return Ok(value),
                TryRecv::Disconnected => return Err(NotReceived::Disconnected),
                TryRecv::Empty if is_last => return self.recv_in_line(locked, deadline),
                TryRecv::Empty => {}
            }
        }
        unreachable!("the last look returns")
    }

    /// Waits in line for a value, of which there was none. The caller passes the lock.
    #[track_caller]
    fn recv_in_line<'a>(
        &'a self,
        mut locked: ChannelGuard<'a, T>,
        deadline: Option<Instant>,
    ) -> Result<T, NotReceived> {
        loop {
            if deadline.is_some_and(|deadline| deadline <= clock::now()) {
                return Err(NotReceived::TimedOut);
            }
            let due = locked.state.next_due();
            let until = match (deadline, due) {
                (Some(own), Some(due)) => Some(own.min(due)),
                (own, due) => own.or(due),
            };
            let mut waiting = MaybeUninit::uninit();
            let at = waiting.as_mut_ptr();
            // SAFETY: N1: this frame stays until the wait is over and the node is out of the line.
            unsafe { Channel::line_up_to_receive(&mut locked, at, Patience::Listens) };
            drop(locked);
            // SAFETY: N1: written just now.
            let outcome = unsafe { Waiting::wait_patiently(at, until) };
            // SAFETY: N1: the wait is over.
            let back = match unsafe { self.received(at, outcome) } {
                // SAFETY: N2: the value is in its place.
                Ok(()) => return Ok(unsafe { Waiting::take(at) }),
                Err(back) => back,
            };
            locked = match Ended::by(outcome, back) {
                Ended::Otherwise(error) => return Err(error),
                Ended::ToLookAgain(locked) => locked,
            };
            match locked.try_recv() {
                TryRecv::Value(value) => return Ok(value),
                TryRecv::Disconnected => return Err(NotReceived::Disconnected),
                TryRecv::Empty => {}
            }
            if outcome == TIMED_OUT && until == deadline {
                return Err(NotReceived::TimedOut);
            }
        }
    }
}

/// The end of a receiver's wait that got no value.
enum Ended<'a, T> {
    Otherwise(NotReceived),
    ToLookAgain(ChannelGuard<'a, T>),
}

impl<'a, T> Ended<'a, T> {
    fn by(outcome: u32, locked: ChannelGuard<'a, T>) -> Ended<'a, T> {
        match outcome {
            DISCONNECTED => Ended::Otherwise(NotReceived::Disconnected),
            CANCELLED => {
                drop(locked);
                task::cancelled_wait();
                Ended::Otherwise(NotReceived::Cancelled)
            }
            _ => {
                debug_assert!(outcome == TIMED_OUT || outcome == LOOK_AGAIN);
                Ended::ToLookAgain(locked)
            }
        }
    }
}
