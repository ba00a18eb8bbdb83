//! One number for the process, which grows when what many have noted may no longer be so.
//!
//! Whoever notes something that others can change notes the number with it, and looks again when the number has moved. The notes
//! are all of one kind: `task::cancel` says which, and when it grows.

use super::atomic::{AtomicU64, Ordering};

/// A number that the epoch never has: what was noted with it is always looked up again.
pub(crate) const NEVER: u64 = u64::MAX;

/// It is read all the time and written seldom: alone on its cache line.
#[cfg(not(loom))]
#[repr(align(128))]
struct Alone(AtomicU64);

#[cfg(not(loom))]
static EPOCH: Alone = Alone(AtomicU64::new(0));

#[cfg(not(loom))]
#[inline(always)]
fn epoch() -> &'static AtomicU64 {
    &EPOCH.0
}

#[cfg(loom)]
loom::lazy_static! {
    static ref EPOCH: AtomicU64 = AtomicU64::new(0);
}

#[cfg(loom)]
fn epoch() -> &'static AtomicU64 {
    // Each model has its own.
    &EPOCH
}

/// The number now. Acquire: with it comes what its change was about.
#[inline(always)]
pub(crate) fn now() -> u64 {
    epoch().load(Ordering::Acquire)
}

/// Moves on. Release: who sees the new number sees what was done before.
pub(crate) fn advance() {
    epoch().fetch_add(1, Ordering::AcqRel);
}
