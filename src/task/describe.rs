//! The part of a stack overflow's report that describes the task.
#![expect(unsafe_code, reason = "looks at the running task from a signal handler")]

use super::header::Header;
use crate::base::{local, simulated};
use crate::coroutine::overflow::{Report, set_describe};

/// Makes reports of stack overflows name their task.
pub(crate) fn describe_overflows() {
    set_describe(describe);
}

/// Describes the running task. This runs in a signal handler, on the thread that overflowed, so it
/// only reads.
fn describe(report: &mut Report) {
    let header = local::with(|local| local.task.get()).cast::<Header>();
    // SAFETY: T4: the cell names the running task, which the handler has interrupted.
    let Some(header) = (unsafe { header.as_ref() }) else { return };
    // SAFETY: T4: the pointer is that of the interrupted task. It is null for a task that is just
    // starting or ending.
    let Some(running) = (unsafe { header.running.get().as_ref() }) else { return };
    if !report.is_about(running.parker.suspender().addr()) {
        // The overflow is on the stack of a coroutine that the task has resumed.
        return;
    }
    report.push("task ");
    if let Some(name) = header.name() {
        report.push("'");
        report.push(name);
        report.push("' ");
    }
    report.push("#");
    report.push_number(simulated::shown_number(header.id()));
    report.push(", spawned at ");
    report.push(header.spawned_at().file());
    report.push(":");
    report.push_number(u64::from(header.spawned_at().line()));
    report.push(":");
    report.push_number(u64::from(header.spawned_at().column()));
}
