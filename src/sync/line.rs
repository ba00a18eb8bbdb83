//! Waiting in line: the steps that all the types here have in common.
#![expect(unsafe_code, reason = "registers waits on this stack")]

use std::ptr;
use std::time::Instant;

use crate::park::{self, About, CANCELLED, LOOK_AGAIN, Mode, Node, Queue, Role, TIMED_OUT, Waiter};
use crate::task::{self, Cancelled};

/// The first step of a wait that cannot fail: it has no cancellation to answer.
#[inline]
#[track_caller]
pub(super) fn begin_uninterruptible() {
    park::refuse_if_no_suspend();
    task::spend_budget();
}

/// The first step of either kind of wait.
#[inline]
#[track_caller]
pub(super) fn begin(mode: Mode) -> Result<(), Cancelled> {
    if mode == Mode::Cancellable {
        return task::begin_wait();
    }
    begin_uninterruptible();
    Ok(())
}

/// How a wait in line is to be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    /// What for, in a dump.
    pub(super) what: &'static str,
    pub(super) role: Role,
    /// For whoever serves the line: the node's data.
    pub(super) tag: usize,
    pub(super) deadline: Option<Instant>,
    pub(super) mode: Mode,
}

/// How it ended. Where nobody from the line ended it, it has been taken out of the line, whose lock is held again.
#[derive(Debug)]
pub(super) enum Ended<L> {
    /// Whoever serves the line has claimed it.
    Woken,
    /// It was told to look again.
    Again(L),
    TimedOut(L),
    /// The caller has yet to say so with `task::cancelled_wait`.
    Cancelled(L),
}

impl Wait {
    pub(super) fn new(what: &'static str, role: Role, mode: Mode) -> Wait {
        Wait { what, role, tag: 0, deadline: None, mode }
    }

    /// Waits in the line that `line` finds in what is locked. Calls `unlocked` before it parks.
    #[track_caller]
    pub(super) fn in_line<L>(
        self,
        locked: L,
        line: impl Fn(&L) -> &Queue,
        unlocked: impl FnOnce(),
        lock_again: impl FnOnce() -> L,
    ) -> Ended<L> {
        let waiter = Waiter::new();
        waiter.set_purpose(self.what, About::Nothing);
        let tag = ptr::without_provenance_mut(self.tag);
        let node = Node::new(&raw const waiter, 0, self.role, tag);
        // SAFETY: N1: this frame stays until the wait is over and the node is out of the line: who claims it takes it out, and
        // otherwise that is done below. N2: the data is a number.
        unsafe { line(&locked).push(&raw const node) };
        drop(locked);
        unlocked();
        let outcome = task::wait(&waiter, self.deadline, self.mode);
        let ended = match outcome {
            TIMED_OUT => Ended::TimedOut,
            CANCELLED => Ended::Cancelled,
            LOOK_AGAIN => Ended::Again,
            _ => return Ended::Woken,
        };
        let locked = lock_again();
        line(&locked).remove(&node);
        ended(locked)
    }
}

/// The number that a node in one of these lines carries.
#[inline]
pub(super) fn tag(node: &Node) -> usize {
    node.data.addr()
}
