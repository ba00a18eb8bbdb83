//! The real switch, by `corosensei`.

use std::mem::ManuallyDrop;
use std::ptr;

use corosensei::CoroutineResult;
use corosensei::stack::StackPointer;

use super::FiberState;
use crate::coroutine::leaked;
use crate::coroutine::overflow;
use crate::coroutine::stack::Stack;

/// The memory of a [`Stack`] that the fiber beside it owns: what `corosensei` keeps, so that the stack itself can be taken out
/// of a complete fiber without moving the rest.
struct Memory {
    top: StackPointer,
}

// SAFETY: C3: every stack has its guard below; `top` is aligned to 16, `STACK_FLOOR` is above the minimum, and C1 says that nobody
// else uses the memory.
unsafe impl corosensei::stack::Stack for Memory {
    #[inline]
    fn base(&self) -> StackPointer {
        self.top
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        // Asked by trap handlers and sanitizers only, neither of which ecru uses.
        self.top
    }
}

/// The size of the largest closure that `corosensei` takes.
const IN_PLACE: usize = 1024;

/// An address on the stack that the caller runs on.
///
/// The address of a local variable and not the register: the compiler folds it into the comparison. AddressSanitizer moves locals off the
/// stack if it looks for uses after a return; then every `suspend` is refused, and that option has to be off.
#[inline(always)]
fn stack_pointer() -> usize {
    let here = std::mem::MaybeUninit::<u8>::uninit();
    here.as_ptr().addr()
}

/// A computation on a stack of its own.
pub(crate) struct Fiber<In, Yield, Out> {
    inner: ManuallyDrop<corosensei::Coroutine<In, Yield, Out, Memory>>,
    /// What `inner` runs on; goes after it.
    stack: ManuallyDrop<Stack>,
}

/// The way back from inside a [`Fiber`].
#[repr(transparent)]
pub(crate) struct Suspender<In, Yield> {
    inner: corosensei::Yielder<In, Yield>,
}

impl<In, Yield, Out> Fiber<In, Yield, Out> {
    /// Prepares `f` to run on `stack`.
    ///
    /// # Safety
    /// Whatever `f`, `In` and `Yield` borrow must stay valid until the fiber is complete, or is never resumed, unwound or
    /// dropped again.
    #[inline(always)]
    pub(crate) unsafe fn new<F>(stack: Stack, f: F) -> Self
    where
        F: FnOnce(&Suspender<In, Yield>, In) -> Out,
    {
        if size_of::<F>() > IN_PLACE {
            let f = Box::new(f);
            let f = move |suspender: &Suspender<In, Yield>, first: In| f(suspender, first);
            // SAFETY: the caller's promise, for what is in the box.
            unsafe { Fiber::in_place(stack, f) }
        } else {
            // SAFETY: the caller's promise.
            unsafe { Fiber::in_place(stack, f) }
        }
    }

    /// Prepares `f`, which fits, to run on `stack`.
    ///
    /// # Safety
    /// As [`Fiber::new`].
    #[inline]
    unsafe fn in_place<F>(stack: Stack, f: F) -> Self
    where
        F: FnOnce(&Suspender<In, Yield>, In) -> Out,
    {
        overflow::ensure_alternate_stack();
        let body = move |yielder: &corosensei::Yielder<In, Yield>, first: In| {
            // SAFETY: `Suspender` is a transparent wrapper of exactly this type.
            let suspender = unsafe { &*ptr::from_ref(yielder).cast::<Suspender<In, Yield>>() };
            f(suspender, first)
        };
        let memory = Memory { top: stack.top().addr() };
        // SAFETY: the caller vouches for the borrows; a forgotten fiber's stack is never reused, as only `Drop` and
        // `into_stack` give it back.
        let inner = unsafe { corosensei::Coroutine::with_stack_unchecked(memory, body) };
        Fiber { inner: ManuallyDrop::new(inner), stack: ManuallyDrop::new(stack) }
    }

    /// Runs it until it suspends or ends.
    #[inline]
    pub(crate) fn resume(&mut self, value: In) -> FiberState<Yield, Out> {
        match self.inner.resume(value) {
            CoroutineResult::Yield(value) => FiberState::Suspended(value),
            CoroutineResult::Return(value) => FiberState::Complete(value),
        }
    }

    /// Whether it has been resumed.
    #[inline]
    pub(crate) fn is_started(&self) -> bool {
        self.inner.started()
    }

    /// Whether it has returned or unwound.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.inner.done()
    }

    /// Unwinds a suspended one, or drops the closure of one that has not started; afterwards it is complete.
    ///
    /// # Panics
    /// With the panic of a destructor. Not to be called under `panic = "abort"` once it has started.
    pub(crate) fn unwind(&mut self) {
        /// Whichever way the unwinding ends, nothing is left to be dropped.
        struct Done<'i, In, Yield, Out>(&'i mut corosensei::Coroutine<In, Yield, Out, Memory>);
        impl<In, Yield, Out> Drop for Done<'_, In, Yield, Out> {
            fn drop(&mut self) {
                // corosensei forgets to note this if the destructor of a closure that never ran has panicked, and would drop the closure
                // again: see `doc/decisions/0013-a-body-that-panics-as-it-is-dropped.md`.
                // SAFETY: S1: its frames have been unwound, or it never had any and its closure has been dropped.
                unsafe { self.0.force_reset() };
            }
        }
        Done(&mut self.inner).0.force_unwind();
    }

    /// The stack of a complete one.
    #[inline]
    pub(crate) fn into_stack(self) -> Stack {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used or dropped after this.
        unsafe { this.take_stack() }
    }

    /// As [`Fiber::into_stack`], without moving the fiber.
    ///
    /// # Safety
    /// The fiber must not be used or dropped afterwards.
    #[inline]
    pub(crate) unsafe fn take_stack(&mut self) -> Stack {
        assert!(self.is_complete(), "a fiber that is not complete keeps its stack");
        // A complete `inner` owns nothing.
        // SAFETY: it is taken once, as the caller promises; nothing runs on it (S1).
        unsafe { ManuallyDrop::take(&mut self.stack) }
    }
}

impl<In, Yield, Out> Drop for Fiber<In, Yield, Out> {
    fn drop(&mut self) {
        if cfg!(panic = "abort") && self.is_started() && !self.is_complete() {
            leaked::count();
            return;
        }
        // corosensei aborts if a destructor panics while it unwinds in its own `Drop`, so it is asked to beforehand; should
        // that panic, the fiber is complete and the stack still goes back.
        struct Finish<'f, In, Yield, Out>(&'f mut Fiber<In, Yield, Out>);
        impl<In, Yield, Out> Drop for Finish<'_, In, Yield, Out> {
            fn drop(&mut self) {
                // SAFETY: this is the end of the fiber's own `Drop`; `inner` is not used afterwards.
                unsafe { ManuallyDrop::drop(&mut self.0.inner) };
                // SAFETY: as above; `inner` is complete, so that nothing runs on the stack any more (S1).
                unsafe { ManuallyDrop::drop(&mut self.0.stack) };
            }
        }
        Finish(self).0.unwind();
    }
}

impl<In, Yield> Suspender<In, Yield> {
    /// Returns whether the caller runs on the stack of this many bytes below an address.
    #[expect(clippy::unused_self, reason = "the other backend asks it")]
    #[inline(always)]
    pub(crate) fn is_here(&self, top: usize, size: usize) -> bool {
        top.wrapping_sub(stack_pointer()) <= size
    }

    /// Returns whether the stack of this many bytes below an address, on which the caller runs, is in the middle of an unwinding. The
    /// caller's thread panics: for itself, or for another of its stacks.
    #[expect(clippy::unused_self, reason = "the other backend asks it")]
    #[cold]
    pub(crate) fn is_unwinding(&self, top: usize, size: usize) -> bool {
        #[cfg(all(panic = "unwind", not(target_arch = "arm")))]
        return super::cleanup::is_running_on(top, size);
        // It cannot be told. To leave a stack as it is harms less than to unwind it twice.
        #[cfg(not(all(panic = "unwind", not(target_arch = "arm"))))]
        {
            let _ = (top, size);
            true
        }
    }

    /// Goes back to whoever resumed last, and returns what the next resumption passes.
    #[inline]
    pub(crate) fn suspend(&self, value: Yield) -> In {
        self.inner.suspend(value)
    }
}
