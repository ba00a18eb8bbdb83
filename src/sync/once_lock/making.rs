//! Which task or thread computes the value of a [`OnceLock`](super::OnceLock), as a dump shows it.
#![expect(unsafe_code, reason = "describes the objects of waits")]

use std::panic::Location;
use std::ptr;

use crate::base::sync::StaticPtr;
use crate::base::sync::atomic::{AtomicU64, Ordering};
use crate::base::tag::{Hold, Tag};
use crate::park::{About, Object, What};
use crate::sync::holder;
use crate::task;

pub(super) struct Making {
    /// The [`task::current_identity`] of the task or thread that is computing the value, or 0.
    maker: AtomicU64,
    /// A `&'static Location<'static>`: where the maker has begun. It is written before `maker`, so
    /// that a dump that reads it between two equal makers has that maker's place.
    at: StaticPtr<Location<'static>>,
    /// The name.
    pub(super) tag: Tag,
}

/// A wait for the value of a [`OnceLock`](super::OnceLock).
// SAFETY: O1: the object is the lock's `Making`, which the wait borrows.
pub(super) static A_VALUE: What = unsafe { What::about("a value to be made", describe) };

/// Describes a wait for a value that is being made.
///
/// # Safety
/// O1: `making` is a [`Making`].
unsafe fn describe(making: *const (), _: usize) -> (&'static str, About) {
    // SAFETY: O1, the caller's promise.
    let this = unsafe { &*making.cast::<Making>() };
    let object = Object {
        holds: this.maker().into_iter().collect(),
        holders: Some(1),
        needs_holders: true,
        ..holder::describe(making, &this.tag, "")
    };
    ("a value to be made", About::Object(Box::new(object)))
}

impl Making {
    #[cfg(not(loom))]
    pub(super) const fn new() -> Making {
        Making { maker: AtomicU64::new(0), at: StaticPtr::new(ptr::null_mut()), tag: Tag::new() }
    }

    #[cfg(loom)]
    pub(super) fn new() -> Making {
        Making { maker: AtomicU64::new(0), at: StaticPtr::new(ptr::null_mut()), tag: Tag::new() }
    }

    /// Notes the caller as the maker. Called by the one that may compute the value.
    pub(super) fn begin(&self, at: &'static Location<'static>) {
        // Release: pairs with the acquire in `maker`. What ended the maker before comes before
        // this.
        self.at.store(ptr::from_ref(at).cast_mut(), Ordering::Release);
        self.maker.store(task::current_identity(), Ordering::Release);
    }

    /// Forgets the maker. Called by it.
    pub(super) fn end(&self) {
        self.maker.store(0, Ordering::Relaxed);
    }

    /// Returns whether this is the identity of the maker, for a caller whose own identity it is. No
    /// other task or thread can have stored it, so a relaxed load is enough.
    pub(super) fn is_by(&self, identity: u64) -> bool {
        self.maker.load(Ordering::Relaxed) == identity
    }

    fn maker(&self) -> Option<Hold> {
        let identity = self.maker.load(Ordering::Acquire);
        let at = self.at.load(Ordering::Acquire);
        let is_still = self.maker.load(Ordering::Relaxed) == identity;
        // SAFETY: only `begin` stores pointers here, and each is a reference to a static.
        let at = unsafe { at.as_ref() }.filter(|_| is_still);
        (identity != 0).then(|| Hold::of(identity, at))
    }
}
