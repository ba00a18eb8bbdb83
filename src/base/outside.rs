//! Whether something may still come from outside the process, for which no worker can be seen to wait: a signal that somebody
//! listens to, an fd that is watched. A run in which all tasks wait is not stuck then.

use super::sync::StaticU64;
use super::sync::atomic::Ordering;

static EXPECTED: StaticU64 = StaticU64::new(0);

/// Something is expected, until this is dropped. That must be after those who wait for it have been told.
#[derive(Debug)]
pub(crate) struct Expectation(());

impl Expectation {
    pub(crate) fn new() -> Expectation {
        EXPECTED.fetch_add(1, Ordering::Relaxed);
        Expectation(())
    }
}

impl Drop for Expectation {
    fn drop(&mut self) {
        // Release, with the acquire below: who sees that it is over sees who was told.
        EXPECTED.fetch_sub(1, Ordering::Release);
    }
}

/// Whether anything is.
pub(crate) fn is_anything_expected() -> bool {
    EXPECTED.load(Ordering::Acquire) != 0
}
