//! A counter of the stacks that could not be unwound and are therefore never freed.

// Not from `base::sync`: this is a statistic without a protocol.
use std::sync::atomic::{AtomicUsize, Ordering};

static LEAKED: AtomicUsize = AtomicUsize::new(0);

/// Counts one more leaked stack.
pub(crate) fn count() {
    LEAKED.fetch_add(1, Ordering::Relaxed);
}

/// Returns how many suspended coroutines were dropped without being unwound.
///
/// A coroutine cannot be unwound if it is suspended in a destructor that runs because of a panic in
/// the coroutine, or if the program is built with `panic = "abort"`. Nor is it unwound if a
/// thread-local drops it at the end of its thread. Its stack, with everything on it, then stays as
/// it is until the process ends.
///
/// # Examples
/// ```
/// assert_eq!(ecru::coroutine::leaked_stacks(), 0);
/// ```
pub fn leaked_stacks() -> usize {
    LEAKED.load(Ordering::Relaxed)
}
