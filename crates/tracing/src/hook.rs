//! The hook at ecru's switches.

use ecru::task::{LeaveReason, SwitchHook};

use crate::entered::{self, Spans};

/// Moves the entered spans between the thread and the task's slot.
#[derive(Debug)]
pub(crate) struct Hook;

impl SwitchHook for Hook {
    type Kept = Spans;

    fn spawn(&self) -> Option<Box<Spans>> {
        entered::for_child()
    }

    fn enter(&self, kept: &mut Option<Box<Spans>>) {
        // The box stays allocated for the next switch.
        entered::enter(kept.as_deref_mut().map(std::mem::take).unwrap_or_default());
    }

    fn leave(&self, kept: &mut Option<Box<Spans>>, why: LeaveReason) {
        let spans = entered::leave();
        if why == LeaveReason::Suspended && !(spans.is_empty() && kept.is_none()) {
            **kept.get_or_insert_default() = spans;
        }
    }
}
