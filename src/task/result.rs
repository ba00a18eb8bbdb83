//! The typed part of a task's box: its closure, and later its result.
#![expect(unsafe_code, reason = "the box is erased to its header")]

use std::alloc::Layout;
use std::any::Any;
use std::cell::UnsafeCell;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::{self, NonNull};

use super::header::Header;
use super::observer::{self, Ending};
use super::switch_hook::calls_observer;
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

/// What a task's box holds until there is a result.
pub(crate) trait Work {
    type Output;
}

/// The work of a task with a stack: a closure, and the scope's way of treating its failures.
pub(crate) trait Body: Work {
    /// Runs the body. Panics are caught.
    fn run(self) -> Result<Self::Output, Failure>;
}

pub(super) enum Stage<W: Work> {
    Waiting(W),
    Ended(Result<W::Output, Failure>),
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
pub(crate) struct TaskBox<W: Work> {
    header: Header,
    stage: UnsafeCell<Stage<W>>,
}

impl<B: Body> TaskBox<B> {
    /// See [`VTable::run`](super::VTable).
    ///
    /// # Safety
    /// T3: called once, by the worker that started the task, on the task's stack.
    ///
    /// std's backtraces know this name, even without debug information. They do not print the
    /// frames further out; see [`short_trace`](crate::base::short_trace).
    pub(crate) unsafe fn __rust_begin_short_backtrace(this: *const Header) -> bool {
        // SAFETY: T1: the running task owns its stage until it announces the result.
        let Stage::Waiting(body) = (unsafe { Self::swap(this, Stage::Empty) }) else {
            unreachable!("a task runs once")
        };
        // SAFETY: T2: the running task holds a reference.
        let result = if unsafe { &*this }.begins() { body.run() } else { Err(dropped(body)) };
        if result.is_ok() {
            // SAFETY: T2: the running task holds a reference.
            unseen::excuse_if_cancelled::<B::Output>(unsafe { &*this });
        }
        let panicked = matches!(result, Err(Failure::Panicked(_)));
        if calls_observer() {
            // SAFETY: T2: the running task holds a reference.
            observer::ended(unsafe { &*this }, Ending::of(&result));
        }
        // SAFETY: T1: the running task still owns its stage.
        unsafe { Self::put(this, Stage::Ended(result)) };
        // SAFETY: T3: the result is stored and this is the task's own stack.
        unsafe { Header::end(this, panicked) }
    }
}

impl<W: Work> TaskBox<W> {
    /// The layout of the whole box, for which the head's memory is allocated.
    pub(crate) const LAYOUT: Layout = Layout::new::<TaskBox<W>>();

    /// Stores a task's work in the box, behind its head.
    ///
    /// # Safety
    /// M1: the box was allocated with this type's layout, and no other thread knows it yet.
    #[inline(always)]
    pub(crate) unsafe fn fill(this: *const Header, work: W) {
        // SAFETY: M1, by this function's contract.
        unsafe { Self::put(this, Stage::Waiting(work)) };
    }

    /// Returns the place of the stage in the box.
    ///
    /// # Safety
    /// T2: the caller holds a reference to the task.
    #[inline]
    pub(super) unsafe fn stage_of(this: *const Header) -> *mut Stage<W> {
        // SAFETY: T2, by this function's contract.
        UnsafeCell::raw_get(unsafe { &raw const (*this.cast::<TaskBox<W>>()).stage })
    }

    /// Replaces the stage in the box, and returns the old one.
    ///
    /// # Safety
    /// T1: the caller owns the stage.
    #[inline]
    unsafe fn swap(this: *const Header, stage: Stage<W>) -> Stage<W> {
        // SAFETY: T2: the owner of the stage holds a reference.
        let stage_of = unsafe { Self::stage_of(this) };
        // SAFETY: T1, by this function's contract.
        std::mem::replace(unsafe { &mut *stage_of }, stage)
    }

    /// Stores a stage over one that needs no drop.
    ///
    /// # Safety
    /// T1: the caller owns the stage.
    #[inline]
    pub(super) unsafe fn put(this: *const Header, stage: Stage<W>) {
        // SAFETY: T2: the owner of the stage holds a reference.
        let stage_of = unsafe { Self::stage_of(this) };
        // SAFETY: T1, by this function's contract. The old stage needs no drop.
        unsafe { stage_of.write(stage) };
    }

    /// See [`VTable::fail`](super::VTable).
    ///
    /// # Safety
    /// T1: the caller owns the stage, and it is empty.
    pub(crate) unsafe fn fail(this: *const Header, failure: Failure) {
        // SAFETY: T1, by this function's contract.
        unsafe { Self::put(this, Stage::Ended(Err(failure))) };
    }

    /// See [`VTable::discard`](super::VTable).
    ///
    /// # Safety
    /// T1: the caller owns the stage.
    pub(crate) unsafe fn discard(this: *const Header) {
        // SAFETY: T1, by this function's contract.
        let stage = unsafe { Self::swap(this, Stage::Empty) };
        if let Stage::Ended(Ok(value)) = &stage {
            // SAFETY: T1: the owner of the stage holds a reference.
            unseen::look(unsafe { &*this }, value);
        }
        // The task has no result any more, and its scope did not fail, so a panic cannot be passed
        // on.
        drop_quietly(stage);
    }

    /// See [`VTable::take`](super::VTable).
    ///
    /// # Safety
    /// T1: the caller owns the result ([`Header::claim_result`]), and `to` points to memory for a
    /// `Result<W::Output, Failure>`.
    pub(crate) unsafe fn take(this: *const Header, to: *mut ()) {
        // SAFETY: T1, by this function's contract.
        let stage = unsafe { Self::swap(this, Stage::Empty) };
        let Stage::Ended(result) = stage else {
            unreachable!("a result is taken once, after it was announced")
        };
        // SAFETY: T1: `to` points to memory for the result, by this function's contract.
        unsafe { ptr::write(to.cast(), result) };
    }

    /// See [`VTable::put_back`](super::VTable).
    ///
    /// # Safety
    /// T1: the caller owns the result and has taken it. `from` points to a `W::Output` that the
    /// caller gives away.
    pub(crate) unsafe fn put_back(this: *const Header, from: *mut ()) {
        // SAFETY: T1, by this function's contract.
        let value = unsafe { ptr::read(from.cast::<W::Output>()) };
        // SAFETY: T1, by this function's contract.
        unsafe { Self::put(this, Stage::Ended(Ok(value))) };
    }

    /// See [`VTable::take_panic`](super::VTable).
    ///
    /// # Safety
    /// T1: the caller owns the result.
    pub(crate) unsafe fn take_panic(this: *const Header) -> Option<Box<dyn Any + Send>> {
        // SAFETY: T1, by this function's contract.
        let stage = unsafe { Self::swap(this, Stage::Empty) };
        match stage {
            Stage::Ended(Err(Failure::Panicked(payload))) => Some(payload),
            _ => None,
        }
    }

    /// See [`VTable::free`](super::VTable).
    ///
    /// # Safety
    /// T2: there is no reference to the box any more.
    pub(crate) unsafe fn free(this: *const Header) {
        let raw = this.cast_mut().cast::<TaskBox<W>>();
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
