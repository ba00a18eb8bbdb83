//! The deadline of a wait: a timer of the worker, on the stack of the task that waits.
#![expect(unsafe_code, reason = "reaches timers and waiters by pointer")]

use std::time::Instant;

use super::timers::Timer;
use super::worker::Worker;
use crate::park::Waiter;

#[repr(C)]
struct WaitTimer {
    timer: Timer,
    waiter: *const Waiter,
}

/// Ends a wait whose deadline has passed.
unsafe fn ring_wait(timer: *const Timer) {
    // SAFETY: W1: the timer is the first field of an alarm, on the stack of the parked task.
    let waiter = unsafe { (*timer.cast::<WaitTimer>()).waiter };
    // SAFETY: S4: the alarm is cancelled before the frame of the wait ends.
    unsafe { Waiter::time_out(waiter) };
}

/// Calls `wait`, which returns when the wait is over, with a timer set that ends the wait.
pub(super) fn ending_at(worker: &Worker, waiter: &Waiter, deadline: Instant, wait: impl FnOnce()) {
    let alarm = WaitTimer { timer: Timer::new(ring_wait), waiter };
    // SAFETY: W1: the alarm stays on this stack, and is cancelled below if it has not rung.
    unsafe { worker.timers.set(&alarm.timer, deadline) };
    wait();
    worker.timers.cancel(&alarm.timer);
}
