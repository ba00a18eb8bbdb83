//! What the kinds of handles have in common.
#![expect(unsafe_code, reason = "puts results back into the boxes of tasks")]

use std::mem::ManuallyDrop;
use std::ops::Deref;

use super::join::JoinHandle;
use super::join_error::JoinError;
use super::shared_handle::SharedHandle;
use crate::task::Header;

/// A handle that a task can be joined by, or a reference to one: what functions over several tasks take, such as
/// [`zip`](crate::zip).
///
/// [`JoinHandle`] and [`SharedHandle`] are such handles; nothing else can be.
pub trait Joinable: Internals {}

impl<H: Internals> Joinable for H {}

/// Keeps the methods away from users: the trait cannot be named outside.
#[expect(unnameable_types, reason = "seals `Joinable`")]
pub trait Internals {
    /// What the task returns.
    type Output;
    /// Its task.
    fn task(&self) -> TaskRef<'_>;
    /// Asks it to stop.
    fn ask_to_stop(&self);
    /// See [`JoinHandle::join`].
    fn join_it(&self) -> Result<Self::Output, JoinError>;
    /// The result of a task that has ended.
    fn claim(&self) -> Result<Self::Output, JoinError>;
    /// Puts a result back.
    ///
    /// # Safety
    /// T1: it was claimed through this handle, and not put back since.
    unsafe fn put_back(&self, value: Self::Output);
}

/// The task behind a handle.
#[derive(Clone, Copy, Debug)]
#[expect(unnameable_types, reason = "part of what is sealed")]
pub struct TaskRef<'h>(pub(crate) &'h Header);

impl<T> Internals for JoinHandle<'_, T> {
    type Output = T;

    fn task(&self) -> TaskRef<'_> {
        TaskRef(self.header())
    }

    fn ask_to_stop(&self) {
        self.cancel();
    }

    #[track_caller]
    fn join_it(&self) -> Result<T, JoinError> {
        self.join()
    }

    fn claim(&self) -> Result<T, JoinError> {
        self.take()
    }

    unsafe fn put_back(&self, value: T) {
        let header = self.header();
        let mut value = ManuallyDrop::new(value);
        // SAFETY: T1: claimed (the caller's promise), and the value is given away: it is not used again.
        unsafe { (header.vtable.put_back)(header, (&raw mut value).cast()) };
        // SAFETY: T1: it is in the box again.
        unsafe { header.unclaim_result() };
    }
}

impl<T: Clone + Sync> Internals for SharedHandle<'_, T> {
    type Output = T;

    fn task(&self) -> TaskRef<'_> {
        TaskRef(self.header())
    }

    fn ask_to_stop(&self) {
        self.cancel();
    }

    #[track_caller]
    fn join_it(&self) -> Result<T, JoinError> {
        self.join()
    }

    fn claim(&self) -> Result<T, JoinError> {
        self.copy()
    }

    /// It was a copy.
    unsafe fn put_back(&self, value: T) {
        drop(value);
    }
}

impl<H: Internals + ?Sized> Internals for &H {
    type Output = H::Output;

    fn task(&self) -> TaskRef<'_> {
        (**self).task()
    }

    fn ask_to_stop(&self) {
        (**self).ask_to_stop();
    }

    #[track_caller]
    fn join_it(&self) -> Result<H::Output, JoinError> {
        (**self).join_it()
    }

    fn claim(&self) -> Result<H::Output, JoinError> {
        (**self).claim()
    }

    unsafe fn put_back(&self, value: H::Output) {
        // SAFETY: T1, the caller's promise.
        unsafe { (**self).put_back(value) };
    }
}

/// A result that has been taken through a handle and goes back to its task unless it is [kept](Claimed::keep).
pub(crate) struct Claimed<'h, H: Internals + ?Sized> {
    handle: &'h H,
    value: ManuallyDrop<H::Output>,
}

impl<'h, H: Internals + ?Sized> Claimed<'h, H> {
    /// Takes the result of a task that has ended.
    pub(crate) fn new(handle: &'h H) -> Result<Self, JoinError> {
        Ok(Claimed { handle, value: ManuallyDrop::new(handle.claim()?) })
    }

    /// Takes it for good.
    pub(crate) fn keep(self) -> H::Output {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: T1: `this` is not used again, nor dropped.
        unsafe { ManuallyDrop::take(&mut this.value) }
    }
}

impl<H: Internals + ?Sized> Deref for Claimed<'_, H> {
    type Target = H::Output;

    fn deref(&self) -> &H::Output {
        &self.value
    }
}

impl<H: Internals + ?Sized> Drop for Claimed<'_, H> {
    fn drop(&mut self) {
        // SAFETY: T1: taken once: `keep` does not come here.
        let value = unsafe { ManuallyDrop::take(&mut self.value) };
        // SAFETY: T1: `new` claimed it.
        unsafe { self.handle.put_back(value) };
    }
}
