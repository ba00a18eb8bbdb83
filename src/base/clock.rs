//! The clock. All of ecru reads the time here, and `cargo xtask layers` makes sure of that.

use std::time::Instant;
#[cfg(feature = "sim")]
use std::time::{Duration, SystemTime};

use super::simulated;

/// Returns the current time. In a simulation this is the virtual time, as the clock of the host
/// shows it on which the code runs.
#[inline(always)]
pub(crate) fn now() -> Instant {
    match simulated::now() {
        None => std_now(),
        Some(now) => now,
    }
}

/// Returns the current time. In a simulation this is the virtual time, which is the same on all
/// hosts.
#[cfg(feature = "sim")]
pub(crate) fn common_now() -> Instant {
    simulated::common_now().unwrap_or_else(std_now)
}

/// Returns the machine's time. It is for code that keeps a thread busy, or puts a thread to sleep,
/// for some real time.
pub(crate) fn real_now() -> Instant {
    simulated::aside(std_now)
}

/// Returns the time that std shows. On the thread of a simulation, it is the machine's time unless
/// the crate `ecru-sim-libc` replaces it by the virtual time.
#[inline(always)]
pub(crate) fn std_now() -> Instant {
    Instant::now()
}

/// Returns the time of day that std shows, as the time since the epoch. The same holds for it.
#[cfg(feature = "sim")]
pub(crate) fn std_wall_clock() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
