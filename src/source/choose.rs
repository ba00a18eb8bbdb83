//! The wait for one of many things: under `Source::wait`, `select!` and `Select`.
//!
//! # Protocol
//! Each round:
//! 1. Try what can be had without waiting. Nothing is registered at this point, so what is taken is all there is.
//! 2. Register to be notified where a source knows nothing better, and try again: something may have come before the registration.
//!    If something is found, the wait is given up; a notification that came meanwhile is passed on. So it is if what is tried, which
//!    may be anybody's code, waits itself.
//! 3. Register with those who hand over (channels, semaphores), each of whom looks once more under its own lock. From the first of
//!    these on, somebody may give us something at any moment, and then this wait takes nothing else, and claims nobody else's: what
//!    turns out to be there makes it abort its own claim, withdraw, and begin again. Two selects that meet cannot both give.
//!    Where somebody would make a value for whoever waits for it (a select's `send` without a buffer), to tell it so is to claim it: so
//!    the wait aborts too, and begins again with that one registration alone.
//! 4. Park. Whoever claims the waiter decides which arm it is.
//! 5. Withdraw everywhere else, and let the arm that won finish.
//!
//! # Nothing at one moment
//! A choice that does not wait, or whose time is up, must not say "nothing" because a value went from a source that it had not looked at yet to
//! one that it had. [`at_once`] therefore looks twice if the first look finds nothing:
//! 1. Register with every source, with a waiter that has been aborted. Nothing is given through such a node. But whatever makes its source
//!    ready takes it out of the line, as it does with every node whose wait is over.
//! 2. Look again at every source. If all of them have nothing, each had nothing at its own moment.
//! 3. Take the nodes out. If each was still in its line, no source has become ready since step 2. So all of them had nothing at the moment between
//!    steps 2 and 3. Otherwise begin again: another task or thread has made progress.
//!
//! What becomes ready by the clock puts nobody out of a line; [`Arms::deadline`] is compared with the time instead.
use std::cell::UnsafeCell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic;
use std::time::Instant;

use super::arms::{Arms, Entry, Pass, Room, Won};
use crate::base::clock;
use crate::coroutine::OpenFrame;
use crate::park::{ABORTED, About, CANCELLED, Mode, TIMED_OUT, WaitList, Waiter, last_look};
use crate::task::{self, Cancelled};

/// What can be waited for with [`choose`].
pub(crate) trait Choice {
    /// What comes of it.
    type Output;

    /// Takes something that is there.
    fn attempt(&self) -> Option<Self::Output>;

    /// The same for a choice that does not wait.
    fn poll(&self) -> Option<Self::Output> {
        self.attempt()
    }

    /// Whether there is one source at most: then a single look is a look at one moment.
    fn is_single(&self) -> bool {
        false
    }

    /// Does what the current pass of `arms` asks for.
    fn register<'a>(&'a self, arms: &mut Arms<'a>);

    /// The wait ended through `won`: fetches what it brought. None: it was notified, and others were faster.
    fn finish(&self, won: &Won<'_>) -> Option<Self::Output>;
}

/// How a wait ended.
#[derive(Debug)]
pub(crate) enum Chosen<T> {
    Ready(T),
    TimedOut,
    Cancelled(Cancelled),
}

/// Waits until one of them is there, or the deadline has passed, or the wait is cancelled.
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

/// Places enough for most selects, and for most of the rest: a frame on a small stack is not the place for more.
const FEW: usize = 4;
const SOME: usize = 24;

/// Takes something that is there; `None` if at some moment during the call no source had anything.
#[inline]
pub(crate) fn at_once<C: Choice + ?Sized>(choice: &C) -> Option<C::Output> {
    match choice.poll() {
        None if !choice.is_single() => at_one_moment(choice),
        output => output,
    }
}

/// Each round fails because another thread has moved something, so this many in a row do not come to pass. But code of the user's that a source calls may
/// move things at each look, for ever.
const ROUNDS: u32 = 1_000;

/// What one round of [`at_one_moment`] found.
enum View<T> {
    Something(T),
    Nothing,
    /// Something has changed meanwhile; or this many more places are needed.
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
    // The nodes are on this stack: a bare coroutine must not be suspended, and left so, by what is called below.
    let _frame = OpenFrame::enter();
    let waiter = Waiter::new();
    waiter.claim(ABORTED);
    let mut arms = Arms::watching(&waiter, room);
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
    let mut wanted = {
        let waiter = Waiter::new();
        let mut arms = Arms::new(&waiter, &[]);
        choice.register(&mut arms);
        arms.wanted()
    };
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

fn place() -> UnsafeCell<MaybeUninit<Entry>> {
    UnsafeCell::new(MaybeUninit::uninit())
}

enum Turn<T> {
    Over(Chosen<T>),
    /// So many places were wanted.
    Again(usize),
}

struct Round<'c, C: ?Sized> {
    choice: &'c C,
    deadline: Option<Instant>,
    /// Rounds that ended with nothing.
    vain: u32,
    /// The one list that the next round waits in: see [`Arms::wait_only_for`].
    only: Option<*const WaitList>,
}

impl<C: Choice + ?Sized> Round<'_, C> {
    fn with_places<const N: usize>(&mut self) -> Turn<C::Output> {
        self.go(&[const { UnsafeCell::new(MaybeUninit::uninit()) }; N])
    }

    fn go(&mut self, room: &Room) -> Turn<C::Output> {
        let choice = self.choice;
        let waiter = Waiter::new();
        waiter.set_purpose("a source, or one of several", About::Nothing);
        let mut arms = Arms::new(&waiter, room);
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
        let outcome = task::wait(&waiter, until, Mode::Cancellable);
        arms.withdraw();
        match outcome {
            CANCELLED => {
                arms.close();
                Turn::Over(Chosen::Cancelled(task::cancelled_wait()))
            }
            TIMED_OUT => {
                arms.close();
                self.look_again(room.len())
            }
            outcome => {
                let won = arms.won(outcome).expect("claimed by the number of an arm");
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

    /// Nothing is registered: is something there after all, or the time up?
    fn look_again(&mut self, wanted: usize) -> Turn<C::Output> {
        if let Some(output) = self.choice.attempt() {
            return Turn::Over(Chosen::Ready(output));
        }
        if self.deadline.is_some_and(|deadline| deadline <= clock::now()) {
            return Turn::Over(at_once(self.choice).map_or(Chosen::TimedOut, Chosen::Ready));
        }
        self.vain += 1;
        if self.vain.is_multiple_of(8) {
            // Two selects that find each other at the same moment, again and again; or one that is notified for nothing.
            if let Err(cancelled) = task::begin_wait() {
                return Turn::Over(Chosen::Cancelled(cancelled));
            }
            if let Some(host) = crate::park::host() {
                task::while_parked(host.yield_now);
            } else {
                std::thread::yield_now();
            }
        } else if let Some(cancelled) = task::cancelled() {
            return Turn::Over(Chosen::Cancelled(task::answer(cancelled)));
        }
        Turn::Again(wanted)
    }
}

/// Around the last step, which may be user code: if it panics, a notification is for somebody else.
pub(super) struct PassOn<'a, 'w>(pub(super) &'a Won<'w>);

impl Drop for PassOn<'_, '_> {
    fn drop(&mut self) {
        self.0.pass_on();
    }
}
