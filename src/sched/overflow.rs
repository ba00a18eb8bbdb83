//! Tells the report of a stack overflow which task it was.

use std::ptr;

use crate::coroutine::overflow::{Report, set_describe};
use crate::task;

pub(super) fn install() {
    set_describe(describe);
}

/// Runs in a signal handler on the thread whose stack has overflowed: reads what does not change while the task runs.
fn describe(report: &mut Report) {
    let Some(header) = task::current_header() else { return };
    if !report.is_about(ptr::from_ref(header.running()).addr()) {
        // A coroutine's stack, which the task was resuming; or the task is the root, on the thread's own stack.
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
    report.push(header.spawned_at.file());
    report.push(":");
    report.push_number(u64::from(header.spawned_at.line()));
}
