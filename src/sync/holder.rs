//! The holder of a lock, as a dump names it. It is stored only in builds with `debug_assertions`.
//! Otherwise the type is empty and its functions do nothing.

#[cfg(debug_assertions)]
use std::panic::Location;
#[cfg(debug_assertions)]
use std::sync::{Mutex, PoisonError};

#[cfg(debug_assertions)]
use crate::task;

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

    /// Describes the holder for a dump.
    pub(super) fn describe(&self) -> String {
        let held = *self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let Some((identity, at)) = held else { return String::new() };
        match task::number_of(identity) {
            Some(number) => format!(", which task #{number} acquired at {at}"),
            None => format!(", which a thread acquired at {at}"),
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

    pub(super) fn describe(&self) -> String {
        let _ = self;
        String::new()
    }
}
