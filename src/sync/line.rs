//! The first step of each wait of this module's types. The rest is [`park::Wait`].

use crate::park::{self, Mode, Node};
use crate::task::{self, Cancelled};

/// Begins a wait that cannot fail. Such a wait does not check for cancellation.
#[inline]
#[track_caller]
pub(super) fn begin_uninterruptible() {
    park::refuse_if_no_suspend();
    task::spend_budget();
}

/// Called when a wait of the mode `Unfailing` was cancelled, which a simulation does by force.
/// Unwinds the task, unless it unwinds already. In that case the wait begins again, and is not
/// ended a second time.
#[cold]
#[inline(never)]
pub(super) fn end_by_force<T>(wait_again: impl FnOnce(Mode) -> T) -> T {
    task::unwind_by_force();
    wait_again(Mode::Uninterruptible)
}

/// Begins a wait of either kind.
#[inline]
#[track_caller]
pub(super) fn begin(mode: Mode) -> Result<(), Cancelled> {
    if matches!(mode, Mode::Cancellable) {
        return task::begin_wait();
    }
    begin_uninterruptible();
    Ok(())
}

/// Returns the number in the data of a node that was pushed by a [`Wait`](crate::park::Wait).
#[inline]
pub(super) fn tag(node: &Node) -> usize {
    node.data.addr()
}
