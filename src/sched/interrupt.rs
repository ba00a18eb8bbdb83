//! The effect of a request to cancel on a wait in progress.
#![expect(unsafe_code, reason = "reaches a parked task by pointer")]

use crate::task::Header;

/// Ends the wait of a task of this worker if its innermost node has been flagged and the wait can
/// be cancelled.
pub(super) fn interrupt(header: &Header) {
    if header.is_polled() {
        return header.wake();
    }
    // SAFETY: T4: on the task's worker, and null before its start and after its end.
    let Some(running) = (unsafe { header.running.get().as_ref() }) else { return };
    // SAFETY: K1: a started task's innermost node is on its stack or in its header.
    running.parker.interrupt(|| unsafe { &*running.node_top() }.cancelled().is_some());
}

#[cfg(all(test, loom))]
mod loom_models;
