//! The holder of a lock, as a dump names it. The lock stores it only in builds with
//! `debug_assertions`. Otherwise the type is empty and its functions do nothing.
//!
//! In a simulation, the holder is stored in each build: not in the lock, but with the simulation.
//! The state of such a lock has a bit `NOTED`, which the holder sets, and with which the fast path
//! of `unlock` fails. So a lock has at most one such record, and it belongs to its present holder.
//! On the fast path of `lock`, the look that finds `no_suspend` also finds the simulation.

#[cfg(any(debug_assertions, feature = "sim"))]
use std::panic::Location;
#[cfg(debug_assertions)]
use std::sync::{Mutex, PoisonError};

#[cfg(feature = "sim")]
use crate::base::simulated;
use crate::park::About;
#[cfg(any(debug_assertions, feature = "sim"))]
use crate::task;

/// Stores the caller as the holder of a lock of a simulation, at its caller's place.
#[cfg(feature = "sim")]
#[cold]
#[track_caller]
pub(super) fn note(lock: *const ()) {
    simulated::note_holder(lock, task::current_identity(), Location::caller());
}

/// Describes the holder of a lock of a simulation for a dump, if it is known to this thread.
#[cfg(feature = "sim")]
pub(super) fn describe_noted(lock: *const ()) -> Option<String> {
    simulated::holder_of(lock).map(|(identity, at)| describe(identity, at))
}

#[cfg(any(debug_assertions, feature = "sim"))]
fn describe(identity: u64, at: &Location<'_>) -> String {
    match task::task_of(identity) {
        Some(task) => format!(", which task {task} acquired at {at}"),
        None => format!(", which a thread acquired at {at}"),
    }
}

/// The task or thread that has a lock, and where it was acquired.
#[derive(Debug)]
pub(super) struct Holder {
    /// The number is a [`task::current_identity`].
    #[cfg(debug_assertions)]
    held: Mutex<Option<(u64, &'static Location<'static>)>>,
}

#[cfg(debug_assertions)]
impl Holder {
    pub(super) const fn new() -> Holder {
        Holder { held: Mutex::new(None) }
    }

    /// Records that the caller has acquired the lock, at its caller's place.
    #[track_caller]
    pub(super) fn set(&self) {
        self.store(Some((task::current_identity(), Location::caller())));
    }

    /// Records that the lock is about to be released.
    pub(super) fn clear(&self) {
        self.store(None);
    }

    fn store(&self, held: Option<(u64, &'static Location<'static>)>) {
        *self.held.lock().unwrap_or_else(PoisonError::into_inner) = held;
    }

    /// Describes the lock, which is shown as `lock`, and its holder for a dump.
    pub(super) fn describe(&self, lock: &str) -> About {
        match *self.held.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((identity, at)) => {
                About::Held(format!("({lock}){}", describe(identity, at)), identity)
            }
            None => About::Object(format!("({lock})")),
        }
    }
}

#[cfg(not(debug_assertions))]
impl Holder {
    pub(super) const fn new() -> Holder {
        Holder {}
    }

    #[inline(always)]
    pub(super) fn set(&self) {
        let _ = self;
    }

    #[inline(always)]
    pub(super) fn clear(&self) {
        let _ = self;
    }

    pub(super) fn describe(&self, lock: &str) -> About {
        let _ = self;
        About::Object(format!("({lock})"))
    }
}
