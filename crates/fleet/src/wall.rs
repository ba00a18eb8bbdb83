//! The clock on the wall, which processes of a fleet have in common.

use std::time::{Duration, SystemTime};

/// Returns the time since 1970. In a simulation it begins then.
pub(crate) fn wall() -> Duration {
    #[cfg(feature = "sim")]
    if is_simulated() {
        return ecru::sim::elapsed();
    }
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

#[cfg(feature = "sim")]
pub(crate) use ecru::sim::is_simulated;

/// Returns `false`: without the feature there are no simulations.
#[cfg(not(feature = "sim"))]
pub(crate) fn is_simulated() -> bool {
    false
}
