//! What is open in a coroutine and so keeps it from being suspended.
//!
//! A bare coroutine can be forgotten while it is suspended (`std::mem::forget`), and then the destructors of its frames never
//! run. Whatever must end before its frame does (a scope whose children borrow from it, a timeout, a shield) therefore holds
//! an [`OpenFrame`], and [`Yielder::suspend`](super::Yielder::suspend) panics while one that was opened inside of its coroutine
//! exists. Tasks are not concerned: they are never forgotten, and may park over open frames.
//!
//! The count is one number per logical thread. A coroutine notes how high it stood when it was resumed; what was added since
//! was opened inside of it, or inside of a coroutine that it resumed.

use std::marker::PhantomData;

use crate::base::local;

/// Holds the coroutine that it was made in, if any, from being suspended.
#[derive(Debug)]
pub(crate) struct OpenFrame {
    /// It counts for the thread that it was made on.
    not_send: PhantomData<*const ()>,
}

impl OpenFrame {
    /// Opens a frame, until the value is dropped.
    #[inline]
    pub(crate) fn enter() -> OpenFrame {
        local::with(|local| local.open_frames.set(local.open_frames.get() + 1));
        OpenFrame { not_send: PhantomData }
    }
}

impl Drop for OpenFrame {
    #[inline]
    fn drop(&mut self) {
        local::with(|local| local.open_frames.set(local.open_frames.get() - 1));
    }
}

/// How many frames are open now.
#[inline]
pub(super) fn open() -> u32 {
    local::with(|local| local.open_frames.get())
}
