//! What the crate `ecru-sim-libc` asks: the clock and the random numbers that std and other crates
//! get from the system. It is no part of the public interface, and changes with that crate.
//!
//! The replaced functions of libc are called anywhere: in an allocator, in a destructor of a
//! thread-local, in a signal handler. So the first two functions read and write plain cells of the
//! current thread. They are no decision points, never panic, never allocate, and leave the numbers
//! of [`random_u64`](super::random_u64) what they are without that crate.

use std::time::Duration;

use super::course::Course;
use crate::base::simulated;
use crate::task;

/// Returns what the wall clock of the current host shows, as the time since the epoch. Returns
/// `None` on a thread that is not in a simulation.
#[must_use]
pub fn clock() -> Option<Duration> {
    simulated::wall_clock()
}

/// Returns the next of the numbers that stand for the system's randomness. Returns `None` on a
/// thread that is not in a simulation.
#[must_use]
pub fn random() -> Option<u64> {
    simulated::entropy()
}

/// Calls `wait`, which waits in the system for a lock, a condition variable or a thread. If the
/// current thread is in a simulation and does not come back in time, the run fails with
/// [`Failure::Stuck`](super::Failure::Stuck), which names the tasks that may be waited for.
///
/// It allocates. If the allocator waits meanwhile, that wait is made as it is.
pub fn blocks<T>(wait: impl FnOnce() -> T) -> T {
    // Outside of tasks, the library itself waits.
    match Course::here().filter(|_| task::current_header().is_some()) {
        Some(course) => course.block(wait),
        None => wait(),
    }
}

/// Returns whether a call must not be made here whose effect no seed decides, because the current
/// thread is in a simulation. The run then fails with [`Failure::Foreign`](super::Failure::Foreign),
/// which names the call.
#[must_use]
pub fn refuses(call: &str) -> bool {
    let Some(course) = Course::here() else { return false };
    course.refuse(call);
    true
}
