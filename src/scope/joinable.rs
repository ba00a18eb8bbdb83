//! The interface that all join handles have in common.
#![expect(unsafe_code, reason = "puts results back into the boxes of tasks")]

use std::mem::ManuallyDrop;
use std::ops::Deref;

use super::join::JoinHandle;
use super::join_error::JoinError;
use super::shared_handle::SharedHandle;
use crate::task::Header;

/// A handle that joins a task, or a reference to such a handle. Functions over several tasks, such
/// as [`zip`](crate::zip), accept any `Joinable`.
///
/// The trait is sealed. It is implemented for [`JoinHandle`], [`SharedHandle`] and references to
/// them.
///
/// # Examples
/// ```
/// use ecru::combine::Joinable;
///
/// /// Returns the sum of two tasks' results, whatever handles the caller has of them.
/// fn sum(one: impl Joinable<Output = u32>, other: impl Joinable<Output = u32>) -> u32 {
///     ecru::join_all((one, other)).into_iter().map(|result| result.unwrap()).sum()
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the handle of a task",
    label = "this is not a `JoinHandle`, a `SharedHandle`, or a reference to one",
    note = "tasks are spawned first, by `s.spawn(|| ..)`; `join!` spawns its expressions itself"
)]
pub trait Joinable: Internals {}

impl<H: Internals> Joinable for H {}

/// The methods of [`Joinable`]. The trait cannot be named outside the crate, which hides them from
/// users.
#[expect(unnameable_types, reason = "seals `Joinable`")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the handle of a task",
    label = "this is not a `JoinHandle`, a `SharedHandle`, or a reference to one",
    note = "tasks are spawned first, by `s.spawn(|| ..)`; `join!` spawns its expressions itself"
)]
pub trait Internals {
    /// What the task returns.
    type Output;
    /// Returns the handle's task.
    fn task(&self) -> TaskRef<'_>;
    /// Cancels the task.
    fn cancel_task(&self);
    /// See [`JoinHandle::join`].
    fn join_it(&self) -> Result<Self::Output, JoinError>;
    /// Takes the result of a task that has ended.
    fn claim(&self) -> Result<Self::Output, JoinError>;
    /// Puts a result back into its task.
    ///
    /// # Safety
    /// T1: `value` was claimed through this handle, and has not been put back since.
    unsafe fn put_back(&self, value: Self::Output);
}

/// The task behind a handle.
#[derive(Clone, Copy, Debug)]
#[expect(unnameable_types, reason = "part of a sealed interface")]
pub struct TaskRef<'h>(pub(crate) &'h Header);

impl<T> Internals for JoinHandle<'_, T> {
    type Output = T;

    fn task(&self) -> TaskRef<'_> {
        TaskRef(self.header())
    }

    fn cancel_task(&self) {
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
        // SAFETY: T1: the result is claimed, by this function's contract. `value` is given away and
        // not used again.
        unsafe { (header.vtable.put_back)(header, (&raw mut value).cast()) };
        // SAFETY: T1: the result is in the box again.
        unsafe { header.unclaim_result() };
    }
}

impl<T: Clone + Sync> Internals for SharedHandle<'_, T> {
    type Output = T;

    fn task(&self) -> TaskRef<'_> {
        TaskRef(self.header())
    }

    fn cancel_task(&self) {
        self.cancel();
    }

    #[track_caller]
    fn join_it(&self) -> Result<T, JoinError> {
        self.join()
    }

    fn claim(&self) -> Result<T, JoinError> {
        self.copy()
    }

    /// Drops the value, which was a clone.
    unsafe fn put_back(&self, value: T) {
        drop(value);
    }
}

impl<H: Internals + ?Sized> Internals for &H {
    type Output = H::Output;

    fn task(&self) -> TaskRef<'_> {
        (**self).task()
    }

    fn cancel_task(&self) {
        (**self).cancel_task();
    }

    #[track_caller]
    fn join_it(&self) -> Result<H::Output, JoinError> {
        (**self).join_it()
    }

    fn claim(&self) -> Result<H::Output, JoinError> {
        (**self).claim()
    }

    unsafe fn put_back(&self, value: H::Output) {
        // SAFETY: T1, by this function's contract.
        unsafe { (**self).put_back(value) };
    }
}

/// A result taken through a handle. It goes back to its task unless it is [kept](Claimed::keep).
pub(crate) struct Claimed<'h, H: Internals + ?Sized> {
    handle: &'h H,
    value: ManuallyDrop<H::Output>,
}

impl<'h, H: Internals + ?Sized> Claimed<'h, H> {
    /// Takes the result of a task that has ended.
    pub(crate) fn new(handle: &'h H) -> Result<Self, JoinError> {
        Ok(Claimed { handle, value: ManuallyDrop::new(handle.claim()?) })
    }

    /// Returns the result for good.
    pub(crate) fn keep(self) -> H::Output {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: T1: `this` is neither used again nor dropped.
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
        // SAFETY: T1: the value is taken once, because `keep` does not run this destructor.
        let value = unsafe { ManuallyDrop::take(&mut self.value) };
        // SAFETY: T1: `new` claimed the result.
        unsafe { self.handle.put_back(value) };
    }
}
