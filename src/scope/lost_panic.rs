//! The panic of a task without a handle, in a simulation.
#![expect(unsafe_code, reason = "follows the scopes of a task by pointer")]

use super::core::ScopeCore;
use crate::base::simulated;
use crate::task::Header;

/// Fails the run of a simulation, if the panic of a task without a handle cannot be joined further
/// up either. The scopes would pass it on, but only when their other tasks have ended.
///
/// # Safety
/// T2, S5: the caller holds a reference to the task, which is alive.
#[cold]
pub(super) unsafe fn lose_panic(task: *const Header) {
    // SAFETY: T2: the caller holds a reference.
    let lost = unsafe { &*task }.id();
    let mut at = task;
    loop {
        // SAFETY: S5: the scope of a task that is alive has not returned. Nor has the task that has
        // opened it.
        let Some(header) = (unsafe { at.as_ref() }) else { return };
        if simulated::is_never_joined(header.id()) {
            return simulated::lose_that_of(lost);
        }
        // The panic of a hushed task is unwanted, or does not reach its scope.
        if header.is_hushed() || (at != task && header.has_handle()) {
            return;
        }
        // SAFETY: S5: that scope has not returned either, because the task is alive.
        let Some(core) = (unsafe { header.scope.cast::<ScopeCore>().as_ref() }) else { return };
        at = core.group.owner();
    }
}
