//! What the handler of stack overflows says about the task that overflowed.
#![expect(unsafe_code, reason = "looks at the running task from a signal handler")]

use super::header::Header;
use crate::base::local;
use crate::coroutine::overflow::{Report, set_describe};

/// From here on overflows name their task.
pub(crate) fn describe_overflows() {
    set_describe(describe);
}

/// Runs in a signal handler, on the thread that overflowed: reads, and does nothing else.
fn describe(report: &mut Report) {
    let header = local::with(|local| local.task.get()).cast::<Header>();
    // SAFETY: T4: the cell names the running task, which the handler has interrupted.
    let Some(header) = (unsafe { header.as_ref() }) else { return };
    // SAFETY: T4, as above; null for a task that is just starting or ending.
    let Some(running) = (unsafe { header.running.get().as_ref() }) else { return };
    if !report.is_about(running.suspender.get().addr()) {
        // Some coroutine's that the task was resuming.
        return;
    }
    report.push("task ");
    if let Some(name) = header.name() {
        report.push("'");
        report.push(name);
        report.push("' ");
    }
    report.push("#");
    report.push_number(header.id());
    report.push(", spawned at ");
    report.push(header.spawned_at().file());
    report.push(":");
    report.push_number(u64::from(header.spawned_at().line()));
    report.push(":");
    report.push_number(u64::from(header.spawned_at().column()));
}
