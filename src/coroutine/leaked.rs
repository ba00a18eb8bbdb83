//! Counts the stacks that could not be unwound and so stay for ever.

// Not `base::sync`: a statistic without a protocol.
use std::sync::atomic::{AtomicUsize, Ordering};

static LEAKED: AtomicUsize = AtomicUsize::new(0);

/// One more.
pub(crate) fn count() {
    LEAKED.fetch_add(1, Ordering::Relaxed);
}

/// Returns how many suspended coroutines were dropped without being unwound.
///
/// That is so if a coroutine is suspended in a destructor that a panic of its own has called, and if the program is built with
/// `panic = "abort"`. Their stacks, and what lives on them, stay as they are until the process ends.
///
/// # Examples
/// ```
/// assert_eq!(ecru::coroutine::leaked_stacks(), 0);
/// ```
pub fn leaked_stacks() -> usize {
    LEAKED.load(Ordering::Relaxed)
}
