//! Closures that block, in a simulation. They run on the simulation's thread, the only one.
#![expect(unsafe_code, reason = "runs a closure on a stack of its own")]

use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe};

use super::on_this_stack;
use crate::coroutine::Stack;
use crate::coroutine::switch::{Fiber, FiberState, Suspender};
use crate::sched::simulation::Simulation;
use crate::task;

/// The size of the stack on which a simulation runs a closure. It is that of a thread.
const SIMULATED_STACK: usize = 8 << 20;

/// Runs a closure in a simulated task, on a stack of its own. Its waits are waits of the task.
#[inline(never)]
pub(super) fn in_place<F: FnOnce() -> T, T>(simulation: &Simulation, closure: F) -> T {
    // Elsewhere other tasks run meanwhile.
    task::spend_budget();
    let stack = simulation.take_large_stack().or_else(|| Stack::new(SIMULATED_STACK).ok());
    // Less stack is better than none.
    let Some(stack) = stack else { return on_this_stack(closure) };
    let body = |_: &Suspender<(), ()>, ()| panic::catch_unwind(AssertUnwindSafe(closure));
    // SAFETY: C-contract of `Fiber::new`: the fiber ends in the call below, or this frame, which it
    // borrows from, never runs again. It is not dropped before.
    let mut fiber = ManuallyDrop::new(unsafe { Fiber::new(stack, body) });
    let FiberState::Complete(result) = fiber.resume(()) else {
        unreachable!("only its task suspends it")
    };
    simulation.keep_large_stack(ManuallyDrop::into_inner(fiber).into_stack());
    match result {
        Ok(value) => value,
        Err(payload) => panic::resume_unwind(payload),
    }
}
