//! Whether an event from outside the process is still expected that no worker is visibly waiting
//! for: a signal that a task listens for, or a watched fd. If so, a run in which all tasks wait is
//! not stuck.

use super::sync::StaticU64;
use super::sync::atomic::Ordering;

static EXPECTED: StaticU64 = StaticU64::new(0);

/// A guard that marks an event as expected. It must be dropped only after the waiters for the event
/// have been told.
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
        // Release pairs with the Acquire below: a thread that sees the end of the expectation also
        // sees that the waiters have been told.
        EXPECTED.fetch_sub(1, Ordering::Release);
    }
}

/// Returns whether any event is expected.
pub(crate) fn is_anything_expected() -> bool {
    EXPECTED.load(Ordering::Acquire) != 0
}
