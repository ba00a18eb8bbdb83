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
//! `ends` holds what the forms have in common: parking on a waiter, giving a wait up, ending it.
//!
//! # Parking
//! | | a task | a plain thread |
//! |---|---|---|
//! | sleeps | in its worker, which runs other tasks | on the waiter's `Signal` |
//! | deadline | a timer of its worker claims the waiter | the thread claims it itself |
//! | cancellation | its worker claims the waiter, or calls the [`Mode`]'s hook | not noticed |
//! | enclosing limits | cancellations | deadlines: see [`Limits`](super::Limits) |
//!
//! Before a cancellable wait parks, it asks whether the task has been cancelled. It skips this if
//! the flag `is_clear` in the task's [`Parker`](super::Parker) is set:
//!
//! | event, always on the task's own worker | `is_clear` |
//! |---|---|
//! | the task starts | false |
//! | its innermost cancel node changes | false |
//! | a request has reached it, or its message has arrived | false |
//! | a wait has asked, and the task has not been cancelled | true |
//!
//! A wait that asks also links the task's cancel nodes. From then on, each cancel request sends a
//! message to the worker. The worker handles it either before the wait reads the flag, or after the
//! task has parked.
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

mod ends;
mod parking;
mod single;
mod waiting;

use std::convert::Infallible;
use std::mem::ManuallyDrop;
use std::panic::Location;
use std::process;
use std::ptr;
use std::time::Instant;

use self::parking::park;
use super::{Node, Queue, Role, Waiter, What};
use crate::base::report;

pub(crate) use self::ends::Unattended;
pub(crate) use self::parking::{begin_parked, end_parked, while_parked};
pub(crate) use self::single::Single;
pub(crate) use self::waiting::{Begun, Waiting, in_halves};

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
    /// As above, but a simulation may end the wait by force, if it has failed or the task's host
    /// has crashed. The outcome is then `Cancelled`, and the caller unwinds.
    Unfailing,
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
            #[cfg(not(feature = "sim"))]
            Mode::Unfailing => None,
            #[cfg(feature = "sim")]
            Mode::Unfailing => Some(Waiter::cancel_by_force as unsafe fn(*const Waiter)),
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
    #[cfg_attr(not(debug_assertions), inline(always))]
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

#[cfg(all(test, loom))]
mod loom_models;

#[cfg(all(test, not(loom)))]
mod tests;
