//! The holder of a lock, as a dump names it. It is stored only in builds with `debug_assertions`.
//! Otherwise the type is empty and its functions do nothing.
#![cfg_attr(debug_assertions, expect(unsafe_code, reason = "stores the address of a static"))]

#[cfg(debug_assertions)]
use std::panic::Location;
#[cfg(debug_assertions)]
use std::ptr;

#[cfg(debug_assertions)]
use crate::base::sync::{StaticPtr, StaticU64, atomic::Ordering};
#[cfg(debug_assertions)]
use crate::task;

/// The task or thread that has a lock, and where it was acquired.
#[derive(Debug)]
pub(super) struct Holder {
    /// See [`task::current_identity`], or 0.
    #[cfg(debug_assertions)]
    who: StaticU64,
    #[cfg(debug_assertions)]
    at: StaticPtr<Location<'static>>,
}

#[cfg(debug_assertions)]
impl Holder {
    pub(super) const fn new() -> Holder {
        Holder { who: StaticU64::new(0), at: StaticPtr::new(ptr::null_mut()) }
    }

    /// Records that the caller has acquired the lock, at its caller's place.
    #[track_caller]
    pub(super) fn set(&self) {
        self.at.store(ptr::from_ref(Location::caller()).cast_mut(), Ordering::Relaxed);
        self.who.store(task::current_identity(), Ordering::Relaxed);
    }

    /// Records that the lock is about to be released.
    pub(super) fn clear(&self) {
        self.who.store(0, Ordering::Relaxed);
    }

    /// Describes the holder for a dump. The lock may change hands meanwhile.
    pub(super) fn describe(&self) -> String {
        let who = self.who.load(Ordering::Relaxed);
        // SAFETY: P1: only `set` writes it, and it writes references to statics.
        let at = unsafe { self.at.load(Ordering::Relaxed).as_ref() };
        let Some(at) = at.filter(|_| who != 0) else { return String::new() };
        match who & 1 {
            1 => format!(", which task #{} acquired at {at}", who >> 1),
            _ => format!(", which a thread acquired at {at}"),
        }
    }
}

#[cfg(not(debug_assertions))]
impl Holder {
    pub(super) const fn new() -> Holder {
        Holder {}
    }

    #[inline(always)]
    pub(super) fn set(&self) {}

    #[inline(always)]
    pub(super) fn clear(&self) {}

    pub(super) fn describe(&self) -> String {
        String::new()
    }
}
