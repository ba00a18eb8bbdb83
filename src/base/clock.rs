//! The clock. All of ecru reads the time here, and `cargo xtask layers` makes sure of that.

use std::time::Instant;

/// Returns the current time.
#[inline(always)]
pub(crate) fn now() -> Instant {
    real_now()
}

/// Returns the machine's time. It is for code that keeps a thread busy, or puts a thread to sleep,
/// for some real time.
#[inline(always)]
pub(crate) fn real_now() -> Instant {
    Instant::now()
}
