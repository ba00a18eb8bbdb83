//! Clocks, and the loop that times an operation.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The length of the timed window of a contender: long compared with the clock's own cost and a
/// scheduler tick, and short enough for many rounds.
const WINDOW: Duration = Duration::from_millis(80);

/// A batch of this length shows how many operations fill the window, and warms everything up.
const CALIBRATION: Duration = Duration::from_millis(10);

/// Runs `batch(k)` with a growing k until it takes long enough to be reliable, then once over the
/// whole window.
///
/// `batch(k)` performs k operations.
pub(crate) fn nanoseconds_per_operation(mut batch: impl FnMut(u64)) -> f64 {
    let mut operations = 1;
    let calibrated = loop {
        let start = Instant::now();
        batch(operations);
        let taken = start.elapsed();
        if taken >= CALIBRATION {
            break taken;
        }
        operations *= 2;
    };
    let fitting = operations as f64 * WINDOW.as_secs_f64() / calibrated.as_secs_f64();
    let operations = (fitting as u64).max(1);
    let start = Instant::now();
    batch(operations);
    start.elapsed().as_secs_f64() * 1e9 / operations as f64
}

/// Returns the wall time of one call.
pub(crate) fn seconds<T>(work: impl FnOnce() -> T) -> (f64, T) {
    let start = Instant::now();
    let value = work();
    (start.elapsed().as_secs_f64(), value)
}

/// Returns the CPU time of this process so far, in user and kernel mode, over all threads: the sum
/// of `getrusage`, in steps of nanoseconds.
pub(crate) fn cpu_seconds() -> f64 {
    let now = clock_gettime(ClockId::ProcessCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 / 1e9
}
