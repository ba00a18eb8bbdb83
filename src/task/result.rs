//! The typed part of a task's box: its closure, and later its result.
#![expect(unsafe_code, reason = "the box is erased to its header")]

use std::alloc::Layout;
use std::any::{self, Any};
use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};

use super::header::Header;
use super::unseen;
use crate::base::blocks;

/// The reason why a task has no value.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The body panicked.
    Panicked(Box<dyn Any + Send>),
    /// The task was cancelled before it began.
    NeverRan,
    /// The body passed its error to the scope.
    Failed,
}

/// The work of a task: a closure, and the scope's way of treating its failures.
pub(crate) trait Body {
    type Output;
    /// Runs the body. Panics are caught.
    fn run(self) -> Result<Self::Output, Failure>;
}

enum BodyStage<B: Body> {
    Waiting(B),
    Ended(Result<B::Output, Failure>),
    Empty,
}

/// Drops a user's value at a place where a panic of its destructor cannot be passed on. The panic
/// is caught. Its payload is leaked, since dropping it might panic as well.
pub(crate) fn drop_quietly<T>(value: T) {
    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(|| drop(value))) {
        let _ = ManuallyDrop::new(payload);
    }
}

/// A task's box.
#[repr(C)]
pub(crate) struct TaskBox<B: Body> {
    header: Header,
    stage: UnsafeCell<BodyStage<B>>,
}

impl<B: Body> TaskBox<B> {
    /// The layout of the whole box, for which the head's memory is allocated.
    pub(crate) const LAYOUT: Layout = Layout::new::<TaskBox<B>>();

    /// Stores a task's body in the box, behind its head.
    ///
    /// # Safety
    /// M1: the box was allocated with this type's layout, and no other thread knows it yet.
    #[inline(always)]
    pub(crate) unsafe fn fill(this: *const Header, body: B) {
        // SAFETY: M1, by this function's contract.
        unsafe { Self::put(this, BodyStage::Waiting(body)) };
    }

    /// Replaces the stage in the box, and returns the old one.
    ///
    /// # Safety
    /// T1: the caller owns the stage.
    #[inline]
    unsafe fn swap(this: *const Header, stage: BodyStage<B>) -> BodyStage<B> {
        // SAFETY: T2: the owner of the stage holds a reference.
        let stage_of = unsafe { &raw const (*this.cast::<TaskBox<B>>()).stage };
        // SAFETY: T1, by this function's contract.
        std::mem::replace(unsafe { &mut *UnsafeCell::raw_get(stage_of) }, stage)
    }

    /// Stores a stage over one that needs no drop.
    ///
    /// # Safety
    /// T1: the caller owns the stage.
    #[inline]
    unsafe fn put(this: *const Header, stage: BodyStage<B>) {
        // SAFETY: T2: the owner of the stage holds a reference.
        let stage_of = unsafe { &raw const (*this.cast::<TaskBox<B>>()).stage };
        // SAFETY: T1, by this function's contract. The old stage needs no drop.
        unsafe { UnsafeCell::raw_get(stage_of).write(stage) };
    }

    /// See [`VTable::run`](super::VTable).
    ///
    /// # Safety
    /// T3: called once, by the worker that started the task, on the task's stack.
    ///
    /// std's backtraces know this name, even without debug information. They do not print the
    /// frames further out; see [`short_trace`](crate::base::short_trace).
    pub(crate) unsafe fn __rust_begin_short_backtrace(this: *const Header) -> bool {
        // SAFETY: T1: the running task owns its stage until it announces the result.
        let BodyStage::Waiting(body) = (unsafe { Self::swap(this, BodyStage::Empty) }) else {
            unreachable!("a task runs once")
        };
        // SAFETY: T2: the running task holds a reference.
        let result = if unsafe { &*this }.begins() { body.run() } else { Err(dropped(body)) };
        let panicked = matches!(result, Err(Failure::Panicked(_)));
        // SAFETY: T1: the running task still owns its stage.
        unsafe { Self::put(this, BodyStage::Ended(result)) };
        // SAFETY: T3: the result is stored and this is the task's own stack.
        unsafe { Header::end(this, panicked) }
    }

    /// See [`VTable::fail`](super::VTable).
    ///
    /// # Safety
    /// T1: the caller owns the stage, and it is empty.
    pub(crate) unsafe fn fail(this: *const Header, failure: Failure) {
        // SAFETY: T1, by this function's contract.
        unsafe { Self::put(this, BodyStage::Ended(Err(failure))) };
    }

    /// See [`VTable::discard`](super::VTable).
    ///
    /// # Safety
    /// T1: the caller owns the stage.
    pub(crate) unsafe fn discard(this: *const Header) {
        // SAFETY: T1, by this function's contract.
        let stage = unsafe { Self::swap(this, BodyStage::Empty) };
        if let BodyStage::Ended(Ok(value)) = &stage
            && unseen::is_err(value)
        {
            // SAFETY: T1: the owner of the stage holds a reference.
            unseen::report(unsafe { &*this }, any::type_name::<B::Output>());
        }
        // The task has no result any more, and its scope did not fail, so a panic cannot be passed
        // on.
        drop_quietly(stage);
    }

    /// See [`VTable::take`](super::VTable).
    ///
    /// # Safety
    /// T1: the caller owns the result ([`Header::claim_result`]), and `to` points to memory for a
    /// `Result<B::Output, Failure>`.
    pub(crate) unsafe fn take(this: *const Header, to: *mut ()) {
        // SAFETY: T1, by this function's contract.
        let stage = unsafe { Self::swap(this, BodyStage::Empty) };
        let BodyStage::Ended(result) = stage else {
            unreachable!("a result is taken once, after it was announced")
        };
        // SAFETY: T1: `to` points to memory for the result, by this function's contract.
        unsafe { ptr::write(to.cast(), result) };
    }

    /// See [`VTable::put_back`](super::VTable).
    ///
    /// # Safety
    /// T1: the caller owns the result and has taken it. `from` points to a `B::Output` that the
    /// caller gives away.
    pub(crate) unsafe fn put_back(this: *const Header, from: *mut ()) {
        // SAFETY: T1, by this function's contract.
        let value = unsafe { ptr::read(from.cast::<B::Output>()) };
        // SAFETY: T1, by this function's contract.
        unsafe { Self::put(this, BodyStage::Ended(Ok(value))) };
    }

    /// See [`VTable::take_panic`](super::VTable).
    ///
    /// # Safety
    /// T1: the caller owns the result.
    pub(crate) unsafe fn take_panic(this: *const Header) -> Option<Box<dyn Any + Send>> {
        // SAFETY: T1, by this function's contract.
        let stage = unsafe { Self::swap(this, BodyStage::Empty) };
        match stage {
            BodyStage::Ended(Err(Failure::Panicked(payload))) => Some(payload),
            _ => None,
        }
    }

    /// See [`VTable::free`](super::VTable).
    ///
    /// # Safety
    /// T2: there is no reference to the box any more.
    pub(crate) unsafe fn free(this: *const Header) {
        let raw = this.cast_mut().cast::<TaskBox<B>>();
        // SAFETY: T2: nothing else uses the box any more.
        unsafe { raw.drop_in_place() };
        if let Some(block) = NonNull::new(raw) {
            // SAFETY: M1: the box was allocated with this layout.
            unsafe { blocks::free(block.cast(), Self::LAYOUT) };
        }
    }
}

/// Drops the body of a task that was cancelled before it began. Returns the task's failure.
#[cold]
pub(crate) fn dropped<B>(body: B) -> Failure {
    match panic::catch_unwind(AssertUnwindSafe(|| drop(body))) {
        Ok(()) => Failure::NeverRan,
        Err(payload) => Failure::Panicked(payload),
    }
}
