//! Waiting in a queue: the steps that all types of this module have in common.
#![expect(unsafe_code, reason = "registers waiters that live on this stack")]

use std::ptr;
use std::time::Instant;

use crate::park::{self, About, CANCELLED, LOOK_AGAIN, Mode, Node, Queue, Role, TIMED_OUT, Waiter};
use crate::task::{self, Cancelled};

/// Begins a wait that cannot fail. Such a wait does not check for cancellation.
#[inline]
#[track_caller]
pub(super) fn begin_uninterruptible() {
    park::refuse_if_no_suspend();
    task::spend_budget();
}

/// Begins a wait of either kind.
#[inline]
#[track_caller]
pub(super) fn begin(mode: Mode) -> Result<(), Cancelled> {
    if mode == Mode::Cancellable {
        return task::begin_wait();
    }
    begin_uninterruptible();
    Ok(())
}

/// The parameters of a wait in a queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wait {
    /// What the waiter waits for, as shown in a dump.
    pub(super) what: &'static str,
    pub(super) role: Role,
    /// A number that the code which serves the queue can read: the node's data.
    pub(super) tag: usize,
    pub(super) deadline: Option<Instant>,
    pub(super) mode: Mode,
}

/// How a wait ended. In every variant but `Woken`, the node has been removed from the queue, and
/// the queue's lock is held again.
#[derive(Debug)]
pub(super) enum Ended<L> {
    /// The waiter was claimed through the queue.
    Woken,
    /// The waiter was told to look again.
    Again(L),
    TimedOut(L),
    /// The caller has to report it with `task::cancelled_wait`.
    Cancelled(L),
}

impl Wait {
    pub(super) fn new(what: &'static str, role: Role, mode: Mode) -> Wait {
        Wait { what, role, tag: 0, deadline: None, mode }
    }

    /// Waits in the queue that `line` finds in the locked state `locked`. Calls `unlocked` after
    /// releasing that lock and before parking.
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
        // SAFETY: N1: this frame stays until the wait is over and the node is out of the queue. A
        // claim through the queue takes the node out. In all other cases it is removed below. N2:
        // the data is a number.
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

/// Returns the number in the data of a node that was pushed by [`Wait::in_line`] or by a wait for
/// permits.
#[inline]
pub(super) fn tag(node: &Node) -> usize {
    node.data.addr()
}
