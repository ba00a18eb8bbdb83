//! The clock. All of ecru reads the time here.

use std::time::Instant;

/// Returns the current time.
#[inline]
pub(crate) fn now() -> Instant {
    Instant::now()
}
