//! The wait for one of many sources, under `Source::wait`, `select!` and `Select`.
//!
//! # Protocol
//! Each round has these steps:
//! 1. Try to take an item without waiting. Nothing is registered yet, so at most this one item is
//!    taken.
//! 2. Register for notification with the sources that only notify, and try again, because an item
//!    may have arrived before the registration. If an item is found, the wait is given up, and a
//!    notification that arrived meanwhile is passed on. The wait is also given up if the attempt,
//!    which may be user code, waits itself.
//! 3. Register with the sources that hand items over (channels, semaphores). Each of them looks
//!    once more under its own lock. From the first of these registrations on, an item may be handed
//!    to this wait at any moment. So from then on this wait takes nothing itself and claims no
//!    other wait. If a source turns out to be ready, the wait aborts its own claim, withdraws, and
//!    begins again. Therefore two selects that meet cannot both give. On a channel without a
//!    buffer, a select with a `send` arm would make a value for a waiting receiver. Telling that
//!    select means claiming it, so this wait aborts as well, and begins again with that one
//!    registration alone.
//! 4. Park. The claim decides which arm has won.
//! 5. Withdraw all other nodes, and let the arm that won finish.
//!
//! # Finding nothing at one moment
//! A choice that does not wait, or whose time is up, must not report "nothing" because a value
//! moved from a source that it had not looked at yet to one that it had. [`at_once`] therefore
//! looks twice if the first look finds nothing:
//! 1. Register with every source, with a waiter that has been aborted. Nothing is given through
//!    such a node. But an event that makes its source ready takes it out of the line, as it does
//!    with every node whose wait is over.
//! 2. Look again at every source. If all of them have nothing, each had nothing at its own moment.
//! 3. Take the nodes out. If each was still in its line, no source has become ready since step 2.
//!    So all of them had nothing at the moment between steps 2 and 3. Otherwise begin again:
//!    another task or thread has made progress.
//!
//! A source that becomes ready by the clock takes no node out of a line. For such sources
//! [`Arms::deadline`] is compared with the time.
//!
//! # Where each step is
//! This file carries the steps out. If a select loses a wake-up, one of these does not hold:
//!
//! | step | what must hold | where |
//! |---|---|---|
//! | 1 | nothing is registered, and one item is taken at most | [`choose`]; an arm's attempt is in `channel::select::arm`, or a source's `try_take` |
//! | 2 | a node is in its line before the source is tried again | [`Arms::notified`], then `attempt` in `Round::go_with` |
//! | 2 | a wait that is given up passes its notification on | [`Arms::abandon`] |
//! | 3 | under its lock, a source registers a node and then looks, or looks and then registers | [`Arms::push`]; a channel's `register` in `channel::source` and `channel::select::arm` |
//! | 3 | a value is made for one claimed wait at a time | `channel::meeting`, `channel::reservation` |
//! | 4 | one claim decides, and the claimer unparks | `park::waiter`; a giver takes the node out and claims in `park::wait_list` |
//! | 5 | no node stays in a line, and an arm that won and finds nothing passes on | [`Arms::wait`], `finish`, [`PassOn`], [`Won::refused`] |
//!
//! The models in `loom_models` beside this file have three arms that notify. Those of `channel`
//! have three arms that hand values over.
#![expect(unsafe_code, reason = "describes the objects of waits")]

use std::cell::UnsafeCell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic;
use std::ptr;
use std::time::Instant;

use super::arms::{ArmNode, Arms, Pass, Room, Won};
use crate::base::clock;
use crate::coroutine::OpenFrame;
use crate::park::{self, About, Mode, Object, Outcome, Wait, WaitList, Waiter, What, last_look};
use crate::task::{self, Cancelled};

/// A set of sources that [`choose`] can wait for.
pub(crate) trait Choice {
    /// The result of a wait.
    type Output;

    /// Takes an item that is available.
    fn attempt(&self) -> Option<Self::Output>;

    /// Takes an item that is available, for a choice that does not wait.
    fn poll(&self) -> Option<Self::Output> {
        self.attempt()
    }

    /// Returns whether there is at most one source. If so, one attempt shows the state of all
    /// sources at one moment.
    fn is_single(&self) -> bool {
        false
    }

    /// Performs the current pass of `arms`.
    fn register<'a>(&'a self, arms: &mut Arms<'a>);

    /// Fetches what the wait brought that ended through `won`. Returns `None` if it was only
    /// notified and another waiter has taken the item.
    fn finish(&self, won: &Won<'_>) -> Option<Self::Output>;

    /// Adds descriptions of the sources, for a dump. It does not wait, and calls no code of the user,
    /// because the task is parked.
    fn describe(&self, each: &mut Vec<String>) {
        let _ = each;
    }
}

/// The greatest number of sources that are described.
const DESCRIBED_MAX: usize = 8;

/// Describes a wait for a choice.
///
/// # Safety
/// O1: `choice` points to a reference to a choice of this type.
unsafe fn describe<C: Choice + ?Sized>(choice: *const (), _: usize) -> (&'static str, About) {
    // SAFETY: O1, the caller's promise.
    let choice = unsafe { *choice.cast::<&C>() };
    let mut each = Vec::new();
    choice.describe(&mut each);
    if each.len() > DESCRIBED_MAX {
        let more = each.len() - DESCRIBED_MAX;
        each.truncate(DESCRIBED_MAX);
        each.push(format!("{more} more"));
    }
    let about = if each.is_empty() {
        About::Nothing
    } else {
        let text = format!("({})", each.join(", or "));
        About::Object(Box::new(Object { text, ..Object::default() }))
    };
    ("a source, or one of several", about)
}

/// The end of a wait.
#[derive(Debug)]
pub(crate) enum Chosen<T> {
    Ready(T),
    TimedOut,
    Cancelled(Cancelled),
}

/// Waits until an item is available, the deadline passes, or the wait is cancelled.
#[inline]
#[track_caller]
pub(crate) fn choose<C: Choice + ?Sized>(
    choice: &C,
    deadline: Option<Instant>,
) -> Chosen<C::Output> {
    if let Err(cancelled) = task::begin_wait() {
        return Chosen::Cancelled(cancelled);
    }
    if let Some(output) = choice.attempt() {
        return Chosen::Ready(output);
    }
    wait_for(choice, deadline)
}

/// The numbers of places that fit in a frame: enough for most selects, and for most of the others.
/// More do not fit on a small stack and are allocated.
const FEW: usize = 4;
const SOME: usize = 24;

/// Takes an item that is available. Returns `None` if at some moment during the call no source had
/// an item.
#[inline]
pub(crate) fn at_once<C: Choice + ?Sized>(choice: &C) -> Option<C::Output> {
    match choice.poll() {
        None if !choice.is_single() => at_one_moment(choice),
        output => output,
    }
}

/// The most rounds of [`at_one_moment`]. A round fails only if another thread has moved something,
/// so this many failures in a row do not happen in practice. But user code that a source calls may
/// move something at every look, forever.
const ROUNDS: u32 = 1_000;

/// The result of one round of [`at_one_moment`].
enum View<T> {
    Something(T),
    Nothing,
    /// Something has changed meanwhile, or this many more places are needed.
    Unclear(usize),
}

#[inline(never)]
fn at_one_moment<C: Choice + ?Sized>(choice: &C) -> Option<C::Output> {
    let mut wanted = 0;
    for _ in 0..ROUNDS {
        let view = if wanted <= FEW {
            view(choice, &[const { UnsafeCell::new(MaybeUninit::uninit()) }; FEW])
        } else if wanted <= SOME {
            view(choice, &[const { UnsafeCell::new(MaybeUninit::uninit()) }; SOME])
        } else {
            let room: Vec<_> = (0..wanted).map(|_| place()).collect();
            view(choice, &room)
        };
        match view {
            View::Something(output) => return Some(output),
            View::Nothing => return None,
            View::Unclear(0) => {}
            View::Unclear(more) => wanted = wanted.max(FEW) + more,
        }
    }
    None
}

#[inline(never)]
fn view<C: Choice + ?Sized>(choice: &C, room: &Room) -> View<C::Output> {
    // The nodes are on this stack. A bare coroutine must not be suspended by the calls below,
    // because it may never be resumed.
    let _frame = OpenFrame::enter();
    Waiter::over(|waiter| view_with(choice, Arms::watching(waiter, room)))
}

fn view_with<'w, C: Choice + ?Sized>(choice: &'w C, mut arms: Arms<'w>) -> View<C::Output> {
    for pass in [Pass::Notify, Pass::Take] {
        arms.begin(pass);
        if !arms.is_ready() {
            choice.register(&mut arms);
        }
    }
    let output = choice.poll();
    let due = arms.deadline().is_some_and(|due| due <= clock::now());
    let undisturbed = arms.withdraw_undisturbed();
    let (is_ready, wanted) = (arms.is_ready(), arms.wanted());
    arms.close();
    match output {
        Some(output) => View::Something(output),
        None if undisturbed && !is_ready && !due => View::Nothing,
        None => View::Unclear(wanted),
    }
}

#[inline(never)]
fn wait_for<C: Choice + ?Sized>(choice: &C, deadline: Option<Instant>) -> Chosen<C::Output> {
    if deadline.is_some_and(|deadline| deadline <= clock::now()) {
        return at_once(choice).map_or(Chosen::TimedOut, Chosen::Ready);
    }
    let mut wanted = Arms::counted(|arms| choice.register(arms));
    let mut round = Round { choice, deadline, vain: 0, only: None };
    loop {
        let turn = if wanted <= FEW {
            round.with_places::<FEW>()
        } else if wanted <= SOME {
            round.with_places::<SOME>()
        } else {
            let room: Vec<_> = (0..wanted).map(|_| place()).collect();
            round.go(&room)
        };
        match turn {
            Turn::Over(chosen) => return chosen,
            Turn::Again(more) => wanted = wanted.max(more),
        }
    }
}

fn place() -> UnsafeCell<MaybeUninit<ArmNode>> {
    UnsafeCell::new(MaybeUninit::uninit())
}

enum Turn<T> {
    Over(Chosen<T>),
    /// Another round is needed, with this many places.
    Again(usize),
}

struct Round<'c, C: ?Sized> {
    choice: &'c C,
    deadline: Option<Instant>,
    /// The number of rounds that ended without an item.
    vain: u32,
    /// The only list that the next round waits in: see [`Arms::wait_only_for`].
    only: Option<*const WaitList>,
}

impl<C: Choice + ?Sized> Round<'_, C> {
    fn with_places<const N: usize>(&mut self) -> Turn<C::Output> {
        self.go(&[const { UnsafeCell::new(MaybeUninit::uninit()) }; N])
    }

    fn go(&mut self, room: &Room) -> Turn<C::Output> {
        let what = const {
            // SAFETY: O1: the object is in a frame around the wait, like the choice.
            &unsafe { What::ending_by_itself_about("one of several sources", describe::<C>) }
        };
        let object = ptr::from_ref(&self.choice).cast();
        let wait = Wait { object, ..Wait::new(what, Mode::Cancellable) };
        wait.for_many(|waiter| self.go_with(waiter, room))
    }

    #[inline(always)]
    fn go_with(&mut self, waiter: &Waiter, room: &Room) -> Turn<C::Output> {
        let choice = self.choice;
        let mut arms = Arms::new(waiter, room);
        arms.set_only(self.only.take());
        arms.begin(Pass::Notify);
        choice.register(&mut arms);
        if arms.any() {
            let (output, given_up) = last_look(&|| arms.abandon(), || choice.attempt());
            if output.is_some() || given_up {
                arms.abandon();
                arms.close();
                return match output {
                    Some(output) => Turn::Over(Chosen::Ready(output)),
                    None => self.look_again(room.len()),
                };
            }
        }
        arms.begin(Pass::Take);
        if !arms.is_ready() {
            choice.register(&mut arms);
        }
        if arms.is_ready() && arms.abort() {
            arms.withdraw();
            let wanted = arms.wanted();
            self.only = arms.only();
            arms.close();
            return self.look_again(room.len() + wanted);
        }
        let until = match (self.deadline, arms.deadline()) {
            (Some(own), Some(theirs)) => Some(own.min(theirs)),
            (own, theirs) => own.or(theirs),
        };
        match arms.wait(until) {
            Outcome::Cancelled(()) => {
                arms.close();
                Turn::Over(Chosen::Cancelled(task::cancelled_wait()))
            }
            Outcome::TimedOut(()) | Outcome::Again(()) => {
                arms.close();
                self.look_again(room.len())
            }
            Outcome::Woken(arm) => {
                let won = arms.won(arm).expect("claimed by the number of an arm");
                if let Some(payload) = won.panic() {
                    arms.close();
                    panic::resume_unwind(payload);
                }
                let pass_on = PassOn(&won);
                let output = choice.finish(&won);
                let _ = ManuallyDrop::new(pass_on);
                if output.is_none() {
                    won.refused();
                }
                arms.close();
                match output {
                    Some(output) => Turn::Over(Chosen::Ready(output)),
                    None => self.look_again(room.len()),
                }
            }
        }
    }

    /// Checks, with nothing registered, whether an item is available or the time is up. Otherwise
    /// asks for another round.
    fn look_again(&mut self, wanted: usize) -> Turn<C::Output> {
        if let Some(output) = self.choice.attempt() {
            return Turn::Over(Chosen::Ready(output));
        }
        if self.deadline.is_some_and(|deadline| deadline <= clock::now()) {
            return Turn::Over(at_once(self.choice).map_or(Chosen::TimedOut, Chosen::Ready));
        }
        self.vain += 1;
        if self.vain.is_multiple_of(8) {
            // Two selects may meet at the same moment again and again, or a select may be notified
            // repeatedly without an item. Other tasks get a chance to run.
            if let Err(cancelled) = task::begin_wait() {
                return Turn::Over(Chosen::Cancelled(cancelled));
            }
            match park::host() {
                Some(host) => park::while_parked(host.yield_now),
                None => std::thread::yield_now(),
            }
        } else if let Some(cancelled) = task::cancelled() {
            return Turn::Over(Chosen::Cancelled(task::answer(cancelled)));
        }
        Turn::Again(wanted)
    }
}

/// A guard around the last step, which may be user code. If that step panics, the notification is
/// passed on to another waiter.
pub(super) struct PassOn<'a, 'w>(pub(super) &'a Won<'w>);

impl Drop for PassOn<'_, '_> {
    fn drop(&mut self) {
        self.0.pass_on();
    }
}

#[cfg(all(test, loom))]
mod loom_models;
