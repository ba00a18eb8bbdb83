//! The idea of this module: each item becomes a *job*, each job runs in a task of its own, and the
//! results are read in the order of the items.
//!
//! | | started | results |
//! |---|---|---|
//! | `par::map`, `map_until` | at once, by [`all`] | a `Vec` |
//! | `par::map_buffered` | by [`all`], when `Window` has a place | a `Vec` |
//! | `par::for_each` | by [`each`], when `Window` has a place | none |
//! | `Scope::map` | at once | an iterator, `Mapped` |
//! | `Scope::map_buffered` | by the reader, ahead of it | `Mapped`, which is refilled |
//! | `Scope::map_chunks` | by the reader, a chunk at a time | the handles in `Mapped` |
//!
//! The functions of `par` have a scope of their own. Each of their jobs begins, even in a cancelled
//! task, and the results are joined under a shield. The methods of a scope use tasks of that scope,
//! which a cancellation reaches like any other.

use std::panic::Location;
use std::sync::Arc;

use super::results;
use crate::scope::{self, JoinHandle};

/// Runs all jobs, and returns the results in the order of the jobs.
///
/// # Panics
/// Continues the panic of the first job that panicked, after all have ended.
#[track_caller]
pub(super) fn all<R: Send, J: FnOnce() -> R + Send>(jobs: impl Iterator<Item = J>) -> Vec<R> {
    let at = Location::caller();
    results::values(scope::scope(|s| {
        let handles: Vec<_> = jobs.map(|job| s.spawn_always_at(at, job)).collect();
        scope::shield(|| handles.iter().map(JoinHandle::join).collect::<Vec<_>>())
    }))
}

/// Runs all jobs, which do not panic, and keeps nothing of them.
#[track_caller]
pub(super) fn each<J: FnOnce() + Send>(jobs: impl Iterator<Item = J>) {
    let at = Location::caller();
    scope::scope(|s| jobs.for_each(|job| drop(s.spawn_always_at(at, job))));
}

/// Returns the job of an item, for a task that may outlive this call.
#[inline]
pub(super) fn job<T, R, F: Fn(T) -> R>(f: &Arc<F>, item: T) -> impl FnOnce() -> R + use<T, R, F> {
    let f = Arc::clone(f);
    move || f(item)
}

/// Checks the size of a window or a chunk.
#[track_caller]
pub(super) fn refuse_zero(what: &str, size: usize) {
    assert!(size > 0, "{what} would never start a task; pass at least 1");
}
