//! A number for the whole process that advances when cached results may have become invalid.
//!
//! Code that caches a result which others can change also notes the epoch. It looks again when the
//! epoch has advanced. There is one kind of such results: `task::cancel` says which, and when the
//! epoch advances.

use super::atomic::{AtomicU64, Ordering};

/// A number that the epoch never has. A result noted with it is always looked up again.
pub(crate) const NEVER: u64 = u64::MAX;

/// The epoch is read all the time and written seldom, so it has a cache line of its own.
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
    // Each model has its own epoch.
    &EPOCH
}

/// Returns the current epoch. Acquire: the change for which the epoch advanced is visible.
#[inline(always)]
pub(crate) fn now() -> u64 {
    epoch().load(Ordering::Acquire)
}

/// Advances the epoch. Release: a thread that sees the new number also sees everything done before.
pub(crate) fn advance() {
    epoch().fetch_add(1, Ordering::AcqRel);
}
