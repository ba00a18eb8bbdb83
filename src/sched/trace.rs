//! How a parked task captures its own stack trace.
#![expect(unsafe_code, reason = "writes to the slot of the worker that asks")]

use std::backtrace::Backtrace;
use std::cell::Cell;
use std::ptr;

use crate::coroutine::remaining_stack;
use crate::task::TraceSlot;

/// The stack that a task must have left to capture its trace.
const TRACE_ROOM: usize = 8 * 1024;

/// Captures the trace of the current stack for the worker that asked for it.
#[cold]
#[inline(never)]
pub(super) fn leave(asked: &Cell<*const TraceSlot>) {
    let slot = asked.replace(ptr::null());
    if remaining_stack() >= TRACE_ROOM {
        // SAFETY: T6: the slot stays until this task has switched away again.
        unsafe { &*slot }.set(Some(Backtrace::force_capture()));
    }
}
