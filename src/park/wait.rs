//! How anything waits: the one primitive under every wait of the library.
//!
//! # Steps
//! Every wait has the same steps. A wait of a callback or a future has no fourth step.
//! 1. The owner makes a [`Waiter`] in a frame that stays until the wait is over.
//! 2. It *registers* the waiter: it puts it where other threads find it, and then releases the
//!    lock under which it found that it has to wait.
//! 3. It may *listen* for a moment: see [`Patience`].
//! 4. It *parks*. A task switches away, and a plain thread sleeps. A task that has been cancelled
//!    does not park.
//! 5. One claim ends the wait. The [`Outcome`] says which.
//! 6. If the waiter was not claimed through its registration, the owner takes the lock again and
//!    *withdraws* the registration. The outcome then contains that lock.
//!
//! # Forms
//! The forms differ in what is registered.
//!
//! | form | registration | used by |
//! |---|---|---|
//! | [`Wait::in_line`] | one node in one line | locks, joins |
//! | [`Wait::registered`] | one node, put in and taken out by the caller's functions | permits |
//! | [`Wait::single`] | a pointer to the wait, for one claimer | scopes, operations, `unblock` |
//! | [`Wait::alone`] | nothing | sleeping |
//! | [`Wait::for_many`] | any number of nodes | selects |
//! | [`Waiting`] | one node, with room for a value, in the frame of the user's function | channels |
//! | [`Unattended`] | any number of nodes, but nothing is parked | callbacks, futures |
//!
//! # Parking
//! | | a task | a plain thread |
//! |---|---|---|
//! | sleeps | in its worker, which runs other tasks | on the waiter's `Signal` |
//! | deadline | a timer of its worker claims the waiter | the thread claims it itself |
//! | cancellation | its worker claims the waiter, or calls the [`Mode`]'s hook | not noticed |
//! | enclosing limits | cancellations | deadlines: see [`Limits`](super::Limits) |
//!
//! Before a cancellable wait parks, it asks whether the task has been cancelled. The flag
//! `is_clear` in the task's [`Parker`] saves the question:
//!
//! | event, always on the task's own worker | `is_clear` |
//! |---|---|
//! | the task starts | false |
//! | its innermost cancel node changes | false |
//! | a request has reached it, or its message has arrived | false |
//! | a wait asks, and is told that the task has not been cancelled | true |
//!
//! The question also links the task's cancel nodes. So from then on each request sends a message.
//! It is handled either before the wait reads the flag, or when the task is parked.
//!
//! # Waits in two halves
//! The processor predicts that a return goes back to its most recent call. After a switch, that
//! call was made by another task. So the next return is mispredicted, and so is the switch back.
//! Together this costs some forty nanoseconds, more than everything else in a wait. The most
//! frequent waits are therefore split into two halves. Each half is called and returns on its own
//! side of the switch. The switch between them is inlined into the user's own function, which then
//! continues without a return (`doc/decisions/0011-waits-in-two-halves.md`). [`in_halves`] is the
//! only place that does this. All other waits have the switch in the function that registers them.
//!
//! # Panics
//! No registered waiter is left behind by a panic. If the function that registers a waiter panics,
//! the wait is given up: the owner claims the waiter itself, or waits until the claimer has
//! unparked it, and then withdraws.
#![expect(unsafe_code, reason = "registers waiters, and reaches them in frames of other stacks")]

use std::convert::Infallible;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::Location;
use std::process;
use std::ptr::{self, NonNull};
use std::thread;
use std::time::Instant;

use super::host::{self, host, limits};
use super::parker::{Parker, Switch};
use super::waiter::{ABORTED, CANCELLED, LOOK_AGAIN, PENDING, TIMED_OUT, WOKEN};
use super::{Node, Queue, Role, Waiter, What};
use crate::base::report;
use crate::coroutine::panics;

/// How a wait ended. Unless the waiter was claimed through a registration, the registration has
/// been withdrawn, and `L` is what was locked for that.
#[derive(Debug)]
pub(crate) enum Outcome<L> {
    /// The waiter was claimed through the registration with this number, and has what it waited
    /// for.
    Woken(u32),
    /// The waiter was told to look again. Nothing has been given to it.
    Again(L),
    /// The deadline has passed.
    TimedOut(L),
    /// The wait was cancelled. The caller reports it with `task::cancelled_wait`.
    Cancelled(L),
}

impl Outcome<()> {
    /// Calls `withdraw` unless the wait ended through the registration.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn withdrawn<L>(self, withdraw: impl FnOnce() -> L) -> Outcome<L> {
        let ended = match self {
            Outcome::Woken(arm) => return Outcome::Woken(arm),
            Outcome::Again(()) => Outcome::Again,
            Outcome::TimedOut(()) => Outcome::TimedOut,
            Outcome::Cancelled(()) => Outcome::Cancelled,
        };
        ended(withdraw())
    }
}

/// The effect of a cancellation on a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    /// The cancellation ends the wait.
    Cancellable,
    /// The cancellation has no effect: the wait ends when what it waits for is there.
    Uninterruptible,
    /// The cancellation asks for an early end: this function is called with the waiter, and the
    /// wait itself continues. Kernel operations use this.
    Hook(unsafe fn(*const Waiter)),
}

/// What a wait does before it parks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// It parks at once.
    Parks,
    /// It first looks at its own waiter for a few microseconds, if its worker has nothing else to
    /// do and the last messages from other workers came soon
    /// (`doc/decisions/0019-pairs-on-two-cores.md`).
    Listens,
}

/// The parameters of a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    /// What is waited for.
    pub(crate) what: &'static What,
    /// The object that is waited for, if `what` describes one.
    pub(crate) object: *const (),
    /// More about the object.
    pub(crate) detail: usize,
    /// The place of the waiting call, if it is not the caller of the function that waits.
    pub(crate) at: Option<&'static Location<'static>>,
    pub(crate) role: Role,
    /// A number that the code which serves the line can read: the node's data.
    pub(crate) tag: usize,
    pub(crate) deadline: Option<Instant>,
    pub(crate) mode: Mode,
}

impl Wait {
    /// Creates a wait without a deadline, in the role `Notify`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn new(what: &'static What, mode: Mode) -> Wait {
        Wait {
            what,
            object: ptr::null(),
            detail: 0,
            at: None,
            role: Role::Notify,
            tag: 0,
            deadline: None,
            mode,
        }
    }

    #[cfg_attr(not(debug_assertions), inline(always))]
    #[track_caller]
    fn waiter(&self) -> Waiter {
        let at = match self.at {
            Some(at) => at,
            None => Location::caller(),
        };
        let on_cancel = match self.mode {
            Mode::Cancellable => Some(Waiter::cancel as unsafe fn(*const Waiter)),
            Mode::Uninterruptible => None,
            Mode::Hook(hook) => Some(hook),
        };
        Waiter::new(self.what, self.object, self.detail, at, on_cancel)
    }

    /// Waits in the line that `line` finds in the locked state `locked`. Calls `unlocked` after
    /// releasing that lock and before parking. `lock_again` takes the same lock.
    #[inline]
    #[track_caller]
    pub(crate) fn in_line<L>(
        &self,
        locked: L,
        line: impl Fn(&L) -> &Queue,
        unlocked: impl FnOnce(),
        lock_again: impl FnOnce() -> L,
    ) -> Outcome<L> {
        self.registered(
            locked,
            |locked, node| {
                // SAFETY: N1: `registered` keeps the node until it has been claimed or withdrawn.
                // N2: the data is a number.
                unsafe { line(&locked).push(node) };
                drop(locked);
                unlocked();
            },
            |node| {
                let locked = lock_again();
                line(&locked).remove(node);
                locked
            },
        )
    }

    /// Waits with a node that `register` puts into a line. It also releases the lock that it is
    /// given. `withdraw` takes the lock again and takes the node out if it is still in the line.
    ///
    /// The node stays in place until a claim through it has been acknowledged or `withdraw` has
    /// returned (N1).
    #[cfg_attr(not(debug_assertions), inline(always))]
    #[track_caller]
    pub(crate) fn registered<L, M>(
        &self,
        locked: L,
        register: impl FnOnce(L, &Node),
        withdraw: impl FnOnce(&Node) -> M,
    ) -> Outcome<M> {
        let waiter = self.waiter();
        let tag = ptr::without_provenance_mut(self.tag);
        let node = Node::new(&raw const waiter, 0, self.role, tag);
        let registered = Registered { waiter: &waiter, withdraw: Some(|| withdraw(&node)) };
        register(locked, &node);
        let withdraw = registered.stays();
        let outcome = park(&waiter, self.deadline, self.mode).withdrawn(withdraw);
        debug_assert!(!node.is_listed(), "a node was left in its line");
        outcome
    }

    /// Waits for the one claimer to which `register` gives a pointer to the wait. The claimer calls
    /// [`Single::wake`]. The wait cannot be ended in any other way, so it has no deadline, and its
    /// mode is not [`Mode::Cancellable`].
    ///
    /// If `register` panics, the process is aborted, because the pointer could not be taken back.
    #[cfg_attr(not(debug_assertions), inline(always))]
    #[track_caller]
    pub(crate) fn single<T>(&self, shared: T, register: impl FnOnce(&Single<T>)) -> T {
        let registered = self.single_unless(shared, |single| {
            register(single);
            Ok::<(), Infallible>(())
        });
        match registered {
            Ok(shared) => shared,
        }
    }

    /// Waits like [`Wait::single`]. If `register` returns an error, no other thread has the
    /// pointer, and there is no wait.
    ///
    /// # Errors
    /// Returns the error of `register`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    #[track_caller]
    pub(crate) fn single_unless<T, E>(
        &self,
        shared: T,
        register: impl FnOnce(&Single<T>) -> Result<(), E>,
    ) -> Result<T, E> {
        debug_assert!(self.deadline.is_none() && !matches!(self.mode, Mode::Cancellable));
        let single = Single { waiter: self.waiter(), shared };
        let no_panic = NoPanic;
        let registered = register(&single);
        let _ = ManuallyDrop::new(no_panic);
        registered?;
        park(&single.waiter, None, self.mode);
        Ok(single.shared)
    }

    /// Waits without a registration, until the deadline or a cancellation.
    #[inline]
    #[track_caller]
    pub(crate) fn alone(&self) -> Outcome<()> {
        park(&self.waiter(), self.deadline, self.mode)
    }

    /// Calls `body` with a waiter that it may register in any number of lines (N1), and with which
    /// it parks by [`Waiter::park`]. Before `body` returns or unwinds, it withdraws all
    /// registrations, and calls [`Waiter::abandon`] before if it has not parked.
    #[cfg_attr(not(debug_assertions), inline(always))]
    #[track_caller]
    pub(crate) fn for_many<R>(&self, body: impl FnOnce(&Waiter) -> R) -> R {
        body(&self.waiter())
    }
}

/// A registration that is withdrawn if the code that makes it panics.
struct Registered<'w, L, W: FnOnce() -> L> {
    waiter: &'w Waiter,
    withdraw: Option<W>,
}

impl<L, W: FnOnce() -> L> Registered<'_, L, W> {
    /// Returns the function that withdraws the registration later.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn stays(mut self) -> W {
        self.withdraw.take().expect("only taken here")
    }
}

impl<L, W: FnOnce() -> L> Drop for Registered<'_, L, W> {
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn drop(&mut self) {
        if let Some(withdraw) = self.withdraw.take() {
            self.waiter.abandon();
            drop(withdraw());
        }
    }
}

/// Aborts the process if it is dropped, which only a panic does.
struct NoPanic;

impl Drop for NoPanic {
    #[cold]
    fn drop(&mut self) {
        report::last_words(String::from("ecru: a panic would have left a wait registered"));
        process::abort();
    }
}

/// A wait that only one other party can end. That party has a pointer to it.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Single<T> {
    waiter: Waiter,
    /// What the owner and the claimer share.
    pub(crate) shared: T,
}

impl<T> Single<T> {
    /// Ends the wait.
    ///
    /// # Safety
    /// S4: the wait has not been ended before, and the caller does not touch it afterwards.
    #[inline]
    pub(crate) unsafe fn wake(this: *const Single<T>) {
        // SAFETY: S4: the owner's frame stays until the unpark below.
        let waiter = unsafe { &raw const (*this).waiter };
        // SAFETY: S4, as above.
        let claimed = unsafe { &*waiter }.claim(WOKEN);
        debug_assert!(claimed, "a wait with a single claimer was claimed before");
        // SAFETY: S4: this call has just won the claim.
        unsafe { Waiter::unpark(waiter) };
    }

    /// Returns the wait that this waiter belongs to, for the hook of a [`Mode::Hook`].
    ///
    /// # Safety
    /// S4: the waiter is that of a `Single` with this type.
    pub(crate) unsafe fn of<'a>(waiter: *const Waiter) -> &'a Single<T> {
        // SAFETY: S4, the caller's promise. The waiter is the first field.
        unsafe { &*waiter.cast() }
    }
}

impl Waiter {
    /// Calls `body` with a waiter whose wait is over from the start. Nothing is ever given through
    /// its nodes.
    pub(crate) fn over<R>(body: impl FnOnce(&Waiter) -> R) -> R {
        static WHAT: What = What::new("nothing");
        let waiter = Waiter::new(&WHAT, ptr::null(), 0, Location::caller(), None);
        waiter.claim(ABORTED);
        body(&waiter)
    }

    /// Parks until the wait is over. The caller then withdraws all registrations.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) fn park(&self, deadline: Option<Instant>, mode: Mode) -> Outcome<()> {
        park(self, deadline, mode)
    }

    /// Gives the wait up without parking. Returns false if the wait has already been decided.
    #[inline]
    pub(crate) fn abort(&self) -> bool {
        self.claim(ABORTED)
    }

    /// Gives the wait up, or waits until the claimer has finished with it. Returns `None` if the
    /// wait was given up.
    #[cold]
    pub(crate) fn abandon(&self) -> Option<Outcome<()>> {
        if self.outcome() == ABORTED || self.abort() {
            return None;
        }
        Some(park(self, None, Mode::Uninterruptible))
    }

    /// Ends a wait that a request has reached. Called on the worker of the parked task.
    ///
    /// # Safety
    /// S4: the task is parked on this waiter.
    pub(super) unsafe fn cancel(this: *const Waiter) {
        // SAFETY: S4, the caller's promise.
        unsafe { Waiter::end(this, CANCELLED) };
    }

    /// Ends a wait whose deadline has passed, unless it has ended already.
    ///
    /// # Safety
    /// S4: the owner's frame stays during the call, if the waiter is not claimed meanwhile.
    pub(crate) unsafe fn time_out(this: *const Waiter) {
        // SAFETY: S4, the caller's promise.
        unsafe { Waiter::end(this, TIMED_OUT) };
    }

    /// # Safety
    /// S4: as [`Waiter::time_out`].
    unsafe fn end(this: *const Waiter, outcome: u32) {
        // SAFETY: S4: the frame stays until the wait has been claimed and unparked.
        if unsafe { &*this }.claim(outcome) {
            // SAFETY: S4: claimed just now.
            unsafe { Waiter::unpark(this) };
        }
    }

    /// Returns how the wait ended. It is over, and was not aborted.
    #[cfg_attr(not(debug_assertions), inline(always))]
    fn ended(&self) -> Outcome<()> {
        match self.outcome() {
            WOKEN => Outcome::Woken(0),
            CANCELLED => Outcome::Cancelled(()),
            TIMED_OUT => Outcome::TimedOut(()),
            LOOK_AGAIN => Outcome::Again(()),
            arm => {
                debug_assert!(arm > WOKEN && arm != ABORTED, "the wait is not over: {arm}");
                Outcome::Woken(arm - WOKEN)
            }
        }
    }

    /// Returns whether the wait has been decided.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.outcome() != PENDING
    }
}

/// A wait in one line, with room for a value. It is in the frame of the function that switches
/// away, where the claimer finds it. The layout serves a claimer on another core. If the value is a
/// word, all that the claimer accesses of a listener is in one cache line: the end of the waiter,
/// the value, and the beginning of the node.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Waiting<T> {
    waiter: Waiter,
    /// The value that is to be given away, or the place for the value that is to be received.
    value: MaybeUninit<T>,
    node: Node,
}

impl<T> Waiting<T> {
    /// Writes a wait to `at`. The caller then puts its [node](Waiting::node) in a line.
    ///
    /// # Safety
    /// N1: only the caller uses the place at `at`, and its previous content is not used any more.
    #[cfg_attr(not(debug_assertions), inline(always))]
    #[track_caller]
    pub(crate) unsafe fn put(
        at: *mut Waiting<T>,
        wait: Wait,
        value: MaybeUninit<T>,
        patience: Patience,
    ) {
        let waiter = wait.waiter();
        // SAFETY: N1: the place exists, and so do its parts.
        let its_waiter = unsafe { &raw const (*at).waiter };
        // SAFETY: N1, as above.
        let its_value = unsafe { &raw mut (*at).value };
        // A node needs to be dropped only if it has a predicate, which this one never has.
        let node = Node::only(its_waiter, wait.role, its_value.cast());
        // SAFETY: N1, the caller's promise.
        unsafe { at.write(Waiting { node, value, waiter }) };
        if patience == Patience::Listens && host::listens() {
            // SAFETY: N1: no other thread knows the wait yet.
            let waiting = unsafe { &mut *at };
            let listens = waiting.waiter.become_listener();
            waiting.node.set_listens(listens);
        }
    }

    /// Returns the node of the wait.
    ///
    /// # Safety
    /// N1: there is a wait at `at` as long as the result is used.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn node<'w>(at: *mut Waiting<T>) -> &'w Node {
        // SAFETY: N1, the caller's promise.
        unsafe { &(*at).node }
    }

    /// The first half of the wait, which has been registered and does not listen. The result is for
    /// [`in_halves`], or it is the outcome.
    ///
    /// # Safety
    /// N1: there is a wait at `at`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn begin(at: *mut Waiting<T>) -> Result<Switch, Outcome<()>> {
        // SAFETY: N1, the caller's promise.
        begin(unsafe { &(*at).waiter }, None, Mode::Cancellable)
    }

    /// The second half of the wait.
    ///
    /// # Safety
    /// N1: [`Waiting::begin`] has returned a switch, which has been made.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn end(at: *mut Waiting<T>) -> Outcome<()> {
        // SAFETY: N1, the caller's promise.
        end(unsafe { &(*at).waiter })
    }

    /// Waits, after the registration. Listens before if the wait was [put](Waiting::put) for that.
    ///
    /// # Safety
    /// N1: there is a wait at `at`.
    #[inline]
    pub(crate) unsafe fn wait(
        at: *mut Waiting<T>,
        deadline: Option<Instant>,
        mode: Mode,
    ) -> Outcome<()> {
        // SAFETY: N1, the caller's promise.
        let waiting = unsafe { &*at };
        if waiting.node.listens() && waiting.waiter.listen() {
            return waiting.waiter.ended();
        }
        park(&waiting.waiter, deadline, mode)
    }

    /// Writes a received value to its place.
    ///
    /// # Safety
    /// N1: only the caller uses the place at `at`.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn leave(at: *mut Waiting<T>, value: T) {
        // SAFETY: N1, the caller's promise.
        let place = unsafe { &raw mut (*at).value };
        // SAFETY: N1, as above.
        unsafe { place.write(MaybeUninit::new(value)) };
    }

    /// Moves the value out of its place.
    ///
    /// # Safety
    /// N2: the value is there, and only this call moves it out.
    #[cfg_attr(not(debug_assertions), inline(always))]
    pub(crate) unsafe fn take(at: *mut Waiting<T>) -> T {
        // SAFETY: N2, the caller's promise.
        let place = unsafe { &raw const (*at).value };
        // SAFETY: N2, as above.
        unsafe { place.cast::<T>().read() }
    }
}

/// The result of the first half of a wait.
pub(crate) enum Begun<R> {
    Done(R),
    /// The task must switch away, and then execute the second half.
    Parks(Switch),
}

/// Executes both halves of a wait, with the switch between them inlined into the caller.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) fn in_halves<R>(begun: Begun<R>, end: impl FnOnce() -> R) -> R {
    match begun {
        Begun::Done(result) => result,
        Begun::Parks(switch) => {
            switch.go();
            end()
        }
    }
}

/// A wait without a parked owner: that of a callback or a future. It lies in a frame on the heap.
#[derive(Debug)]
pub(crate) struct Unattended {
    waiter: Waiter,
}

impl Unattended {
    /// Creates a pending wait. The thread that ends it calls `ended` once, with `owner`.
    pub(crate) fn new(owner: NonNull<()>, ended: unsafe fn(*const ())) -> Unattended {
        Unattended { waiter: Waiter::with_owner(owner, ended) }
    }

    /// Returns the waiter, for registrations.
    pub(crate) fn waiter(&self) -> &Waiter {
        &self.waiter
    }

    /// Returns the outcome of a wait that was not aborted and is over.
    pub(crate) fn outcome(&self) -> Outcome<()> {
        self.waiter.ended()
    }

    /// Ends the wait because a deadline has passed, unless it has ended already.
    pub(crate) fn time_out(&self) {
        // SAFETY: S4: the frame is borrowed. Its last reference is released after this.
        unsafe { Waiter::time_out(&raw const self.waiter) };
    }
}

/// Parks the current task or thread until the wait is over, or until `deadline`.
///
/// Always inlined, because each return between two switches is mispredicted. Without optimization,
/// an inlined function would only add its variables to the caller's frame, which stays on the stack
/// while the task is parked.
#[cfg_attr(not(debug_assertions), inline(always))]
fn park(waiter: &Waiter, deadline: Option<Instant>, mode: Mode) -> Outcome<()> {
    if let (Some(_), Some(parker)) = (deadline, Parker::current()) {
        return park_and_count(parker, waiter, deadline, mode);
    }
    match begin(waiter, deadline, mode) {
        Err(outcome) => outcome,
        Ok(switch) => {
            switch.go();
            end(waiter)
        }
    }
}

/// The first half of parking. A task has no deadline here. Returns an error, the outcome, if the
/// wait is over.
#[cfg_attr(not(debug_assertions), inline(always))]
fn begin(waiter: &Waiter, deadline: Option<Instant>, mode: Mode) -> Result<Switch, Outcome<()>> {
    let Some(parker) = Parker::current() else {
        return Err(block(waiter, deadline, mode));
    };
    if thread::panicking() {
        return Err(park_and_count(parker, waiter, deadline, mode));
    }
    if parker.is_cancelled(mode) && waiter.claim(CANCELLED) {
        return Err(Outcome::Cancelled(()));
    }
    parker.park_on(waiter);
    Ok(parker.switch())
}

/// The second half of parking.
#[cfg_attr(not(debug_assertions), inline(always))]
fn end(waiter: &Waiter) -> Outcome<()> {
    if let Some(parker) = Parker::current() {
        parker.resumed();
    }
    waiter.ended()
}

/// Parks a task with a deadline, which the host watches, or a task that unwinds, which
/// [`while_parked`] must count.
#[inline(never)]
fn park_and_count(
    parker: &Parker,
    waiter: &Waiter,
    deadline: Option<Instant>,
    mode: Mode,
) -> Outcome<()> {
    if parker.is_cancelled(mode) && waiter.claim(CANCELLED) {
        return Outcome::Cancelled(());
    }
    parker.park_on(waiter);
    let unwinding = thread::panicking();
    begin_parked(unwinding);
    match (deadline, host()) {
        (Some(deadline), Some(host)) => (host.park_until)(parker, waiter, deadline),
        _ => parker.wait_out(),
    }
    end_parked(unwinding);
    parker.resumed();
    waiter.ended()
}

/// Switches away from the running task, or runs another task on top of it. If the thread is
/// panicking, the task counts as unwinding meanwhile: see [`panics`].
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) fn while_parked<T>(switch: impl FnOnce() -> T) -> T {
    let unwinding = thread::panicking();
    begin_parked(unwinding);
    // The closure is called in one place only, so that it is inlined.
    let result = switch();
    end_parked(unwinding);
    result
}

/// The first half of [`while_parked`], for a switch that is too large to be inlined as a closure.
/// `unwinding` is whether the thread is panicking, for both halves.
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) fn begin_parked(unwinding: bool) {
    if unwinding {
        panics::leave_behind();
    }
}

/// The second half of [`while_parked`].
#[cfg_attr(not(debug_assertions), inline(always))]
pub(crate) fn end_parked(unwinding: bool) {
    if unwinding {
        panics::take_up();
    }
}

/// Blocks a plain thread, which takes the nearest enclosing limit as a deadline.
#[cold]
#[inline(never)]
fn block(waiter: &Waiter, deadline: Option<Instant>, mode: Mode) -> Outcome<()> {
    let limits = limits().filter(|_| !matches!(mode, Mode::Uninterruptible));
    let nearest = limits.and_then(|limits| Some((limits, (limits.nearest)()?)));
    match nearest {
        Some((limits, (at, limit))) if deadline.is_none_or(|own| at < own) => {
            waiter.block(Some(at));
            match waiter.ended() {
                Outcome::TimedOut(()) => {
                    // SAFETY: K1: the enclosing frames are open.
                    unsafe { (limits.expire)(limit) };
                    Outcome::Cancelled(())
                }
                outcome => outcome,
            }
        }
        _ => {
            waiter.block(deadline);
            waiter.ended()
        }
    }
}

#[cfg(all(test, loom))]
mod loom_models;

#[cfg(all(test, not(loom)))]
mod tests;
