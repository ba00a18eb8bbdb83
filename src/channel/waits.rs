//! Waits in line for room or for a value. Sends and receives with a deadline, and those of plain
//! threads, are here too. Those of tasks without a deadline begin in [`halves`](super::halves).
#![expect(unsafe_code, reason = "registers waits in frames")]

use std::any::type_name;
use std::mem::MaybeUninit;
use std::ptr;
use std::time::{Duration, Instant};

use super::core::{Channel, GIVEN, Locked, Offered, Taken};
use super::state::ROOMY;
use crate::base::clock;
use crate::base::sync::keep_away;
use crate::park::{self, About, Mode, Outcome, Patience, Queue, Role, Wait, Waiting, What};
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

/// Describes a channel by its address and capacity.
fn describe<T>(channel: *const (), capacity: usize) -> About {
    let kind = match capacity {
        usize::MAX => String::from("unbounded"),
        capacity => format!("bounded({capacity})"),
    };
    About::Object(format!("of {} ({kind}, {channel:p})", type_name::<T>()))
}

/// What waits in a channel are for.
impl<T> Locked<'_, T> {
    // SAFETY: O1: only the address of the object is used.
    const ROOM: &'static What =
        &unsafe { What::about(|at, capacity| ("room in a channel", describe::<T>(at, capacity))) };
    // SAFETY: O1, as above.
    const A_VALUE: &'static What = &unsafe {
        What::about(|at, capacity| ("a value from a channel", describe::<T>(at, capacity)))
    };
    // SAFETY: O1, as above.
    const AN_OFFER: &'static What = &unsafe {
        What::about(|at, capacity| {
            ("a value that a select is making for a channel", describe::<T>(at, capacity))
        })
    };

    /// Returns a wait in one of the channel's lines.
    #[inline(always)]
    fn wait(&self, what: &'static What, role: Role, mode: Mode) -> Wait {
        let object = ptr::from_ref::<Queue>(&self.queue).cast();
        Wait { role, object, detail: self.state.capacity, ..Wait::new(what, mode) }
    }

    /// Returns how often to look again before waiting in line. The other side is likely to move
    /// many values in the time that it takes to put this thread to sleep and wake it.
    #[cold]
    fn looks(&self) -> u32 {
        let bounded_and_roomy = (ROOMY..usize::MAX).contains(&self.state.capacity);
        if !bounded_and_roomy || cfg!(loom) || self.state.clockwork.is_some() {
            return 0;
        }
        if park::is_plain_thread() {
            LOOKS
        } else if park::listens() && task::current_header().is_some() {
            LOOKS_OF_A_TASK
        } else {
            0
        }
    }
}

/// Stays away from the channel for a moment. Returns whether this thread has nothing else to do
/// meanwhile.
fn pass_a_moment() -> bool {
    if park::is_plain_thread() {
        keep_away(MOMENT);
        return true;
    }
    let may = park::may_listen();
    if may {
        keep_away(MOMENT_OF_A_TASK);
    }
    may
}

/// The reason why a send failed.
pub(super) enum NotSent<T> {
    Disconnected(T),
    TimedOut(T),
    Cancelled(T),
}

/// The reason why a receive failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotReceived {
    Disconnected,
    TimedOut,
    Cancelled,
}

impl<T> Channel<T> {
    /// Registers a send for which there was no room, with its value.
    ///
    /// # Safety
    /// N1: the place at `at` stays until the wait is over and [`Channel::sent`] has returned.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn line_up_to_send(
        locked: &mut Locked<'_, T>,
        value: T,
        at: *mut Waiting<T>,
        patience: Patience,
    ) {
        let wait = locked.wait(Locked::<T>::ROOM, Role::Value, Mode::Cancellable);
        // SAFETY: the caller's promise.
        unsafe { Waiting::put(at, wait, MaybeUninit::new(value), patience) };
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
    pub(super) unsafe fn sent(
        &self,
        at: *mut Waiting<T>,
        outcome: Outcome<()>,
    ) -> Result<(), NotSent<T>> {
        if let Outcome::Woken(GIVEN) = outcome {
            // The claimer has moved the value out.
            return Ok(());
        }
        // SAFETY: N1, the caller's promise.
        Err(unsafe { self.not_sent(at, outcome) })
    }

    /// # Safety
    /// N1: as [`Channel::sent`].
    #[cold]
    unsafe fn not_sent(&self, at: *mut Waiting<T>, outcome: Outcome<()>) -> NotSent<T> {
        let mut locked = self.lock();
        // SAFETY: N1, the caller's promise.
        locked.state.senders.remove(unsafe { Waiting::node(at) });
        locked.disconnect_if_drained();
        drop(locked);
        // SAFETY: N2: the value has not been moved out, and no other thread can find it any more.
        let value = unsafe { Waiting::take(at) };
        match outcome {
            Outcome::TimedOut(()) => NotSent::TimedOut(value),
            Outcome::Cancelled(()) => {
                task::cancelled_wait();
                NotSent::Cancelled(value)
            }
            // A sender is not told to look again.
            Outcome::Woken(_) | Outcome::Again(()) => NotSent::Disconnected(value),
        }
    }

    /// Registers a receive that found nothing, with the place for its value.
    ///
    /// # Safety
    /// N1: the place at `at` stays until the wait is over and [`Channel::received`] has returned.
    #[inline(always)]
    #[track_caller]
    pub(super) unsafe fn line_up_to_receive(
        locked: &mut Locked<'_, T>,
        at: *mut Waiting<T>,
        patience: Patience,
    ) {
        let wait = locked.wait(Locked::<T>::A_VALUE, Role::Slot, Mode::Cancellable);
        // SAFETY: the caller's promise.
        unsafe { Waiting::put(at, wait, MaybeUninit::uninit(), patience) };
        // SAFETY: N1, the caller's promise.
        let node = unsafe { Waiting::node(at) };
        // SAFETY: N1, as above.
        unsafe { locked.queue.push(node) };
        locked.pair(node);
    }

    /// Registers a receive that found nothing but an offer, and claims the offer. Returns `false`
    /// if the offer is gone. Then nothing is registered.
    ///
    /// # Safety
    /// N1: the place at `at` stays until the wait is over and [`Channel::received`] has returned.
    #[track_caller]
    pub(super) unsafe fn line_up_to_meet(locked: &mut Locked<'_, T>, at: *mut Waiting<T>) -> bool {
        let wait = locked.wait(Locked::<T>::AN_OFFER, Role::Meet, Mode::Uninterruptible);
        // SAFETY: the caller's promise.
        unsafe { Waiting::put(at, wait, MaybeUninit::uninit(), Patience::Parks) };
        // SAFETY: N1, the caller's promise.
        let node = unsafe { Waiting::node(at) };
        // SAFETY: N1, as above.
        unsafe { locked.queue.push(node) };
        let paired = locked.pair(node);
        if !paired {
            locked.queue.remove(node);
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
        outcome: &Outcome<()>,
    ) -> Result<(), Locked<'_, T>> {
        if let Outcome::Woken(GIVEN) = outcome {
            // The claimer has written the value.
            return Ok(());
        }
        let locked = self.lock();
        // SAFETY: N1, the caller's promise.
        locked.queue.remove(unsafe { Waiting::node(at) });
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
        let offered = self.lock().offer(value);
        match offered {
            Offered::Accepted | Offered::Evicted(_) => Ok(()),
            Offered::Full(value) => Err(NotSent::Cancelled(value)),
            Offered::Disconnected(value) => Err(NotSent::Disconnected(value)),
        }
    }

    /// Sends, and waits until the deadline if there is no room.
    #[track_caller]
    pub(super) fn send_until(&self, value: T, deadline: Option<Instant>) -> Result<(), NotSent<T>> {
        if task::begin_wait().is_err() {
            return self.send_without_a_wait(value);
        }
        let mut locked = self.lock();
        let offered = locked.offer(value);
        self.send_offered(locked, offered, deadline)
    }

    /// Completes a send, given the result of its offer. Waits if there was no room.
    #[track_caller]
    pub(super) fn send_offered(
        &self,
        locked: Locked<'_, T>,
        offered: Offered<T>,
        deadline: Option<Instant>,
    ) -> Result<(), NotSent<T>> {
        match offered {
            Offered::Accepted => Ok(()),
            Offered::Full(value) => match locked.looks() {
                0 => self.send_in_line(locked, value, deadline),
                looks => {
                    drop(locked);
                    self.send_after_a_moment(value, deadline, looks)
                }
            },
            Offered::Evicted(old) => {
                drop(locked);
                drop(old);
                Ok(())
            }
            Offered::Disconnected(value) => {
                drop(locked);
                Err(NotSent::Disconnected(value))
            }
        }
    }

    /// Waits in line for room, of which there was none. The caller passes the lock.
    #[track_caller]
    pub(super) fn send_in_line(
        &self,
        mut locked: Locked<'_, T>,
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
        let outcome = unsafe { Waiting::wait(at, deadline, Mode::Cancellable) };
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
        mut locked: Locked<'_, T>,
        deadline: Option<Instant>,
    ) -> Result<T, NotReceived> {
        match locked.take() {
            Taken::Value(value) => Ok(value),
            Taken::Disconnected => Err(NotReceived::Disconnected),
            Taken::Empty => self.recv_later(locked, deadline),
        }
    }

    /// Waits for a value, of which there was none. The caller passes the lock.
    #[track_caller]
    pub(super) fn recv_later(
        &self,
        locked: Locked<'_, T>,
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
        locked: Locked<'_, T>,
        outcome: &Outcome<()>,
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
            value = match locked.offer(value) {
                // `Evicted` does not occur: a channel that was full makes senders wait.
                Offered::Accepted | Offered::Evicted(_) => return Ok(()),
                Offered::Full(value) if is_last => {
                    return self.send_in_line(locked, value, deadline);
                }
                Offered::Full(value) => value,
                Offered::Disconnected(value) => {
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
            match locked.take() {
                Taken::Value(value) => return Ok(value),
                Taken::Disconnected => return Err(NotReceived::Disconnected),
                Taken::Empty if is_last => return self.recv_in_line(locked, deadline),
                Taken::Empty => {}
            }
        }
        unreachable!("the last look returns")
    }

    /// Waits in line for a value, of which there was none. The caller passes the lock.
    #[track_caller]
    fn recv_in_line<'a>(
        &'a self,
        mut locked: Locked<'a, T>,
        deadline: Option<Instant>,
    ) -> Result<T, NotReceived> {
        loop {
            if deadline.is_some_and(|deadline| deadline <= clock::now()) {
                return Err(NotReceived::TimedOut);
            }
            let due = locked.state.clockwork.as_ref().map(|clockwork| clockwork.next);
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
            let outcome = unsafe { Waiting::wait(at, until, Mode::Cancellable) };
            // SAFETY: N1: the wait is over.
            let back = match unsafe { self.received(at, &outcome) } {
                // SAFETY: N2: the value is in its place.
                Ok(()) => return Ok(unsafe { Waiting::take(at) }),
                Err(back) => back,
            };
            locked = match Ended::by(&outcome, back) {
                Ended::Otherwise(error) => return Err(error),
                Ended::ToLookAgain(locked) => locked,
            };
            match locked.take() {
                Taken::Value(value) => return Ok(value),
                Taken::Disconnected => return Err(NotReceived::Disconnected),
                Taken::Empty => {}
            }
            if matches!(outcome, Outcome::TimedOut(())) && until == deadline {
                return Err(NotReceived::TimedOut);
            }
        }
    }
}

/// The end of a receiver's wait that got no value.
enum Ended<'a, T> {
    Otherwise(NotReceived),
    ToLookAgain(Locked<'a, T>),
}

impl<'a, T> Ended<'a, T> {
    fn by(outcome: &Outcome<()>, locked: Locked<'a, T>) -> Ended<'a, T> {
        match outcome {
            Outcome::Woken(_) => Ended::Otherwise(NotReceived::Disconnected),
            Outcome::Cancelled(()) => {
                drop(locked);
                task::cancelled_wait();
                Ended::Otherwise(NotReceived::Cancelled)
            }
            Outcome::TimedOut(()) | Outcome::Again(()) => Ended::ToLookAgain(locked),
        }
    }
}
