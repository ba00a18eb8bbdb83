//! The backend that switches stacks, by `corosensei`.

use std::mem::{ManuallyDrop, MaybeUninit, offset_of};
use std::ptr;

use corosensei::CoroutineResult;
use corosensei::stack::StackPointer;

use super::FiberState;
use crate::coroutine::leaked;
use crate::coroutine::overflow;
use crate::coroutine::stack::Stack;

/// The memory of the [`Stack`] that the fiber owns, as `corosensei` sees it. `corosensei` does not
/// own the stack itself, so that the stack can be taken out of a complete fiber without moving the
/// rest.
struct Memory {
    top: StackPointer,
}

// SAFETY: C3: every stack has its guard below. `top` is aligned to 16, and `STACK_FLOOR` is above
// the minimum. By C1, nothing else uses the memory.
unsafe impl corosensei::stack::Stack for Memory {
    #[inline]
    fn base(&self) -> StackPointer {
        self.top
    }

    #[inline]
    fn limit(&self) -> StackPointer {
        // Only trap handlers and sanitizers read this, and ecru uses neither.
        self.top
    }
}

/// The size of the largest closure that is passed to `corosensei` without a box.
const IN_PLACE: usize = 1024;

/// Returns an address on the stack that the caller runs on.
///
/// It is the address of a local variable and not the stack pointer register, because the compiler
/// folds it into the comparison. AddressSanitizer moves locals off the stack if it checks for use
/// after return. Every `suspend` would then be refused, so that option must be off.
#[inline(always)]
fn stack_pointer() -> usize {
    let here = std::mem::MaybeUninit::<u8>::uninit();
    here.as_ptr().addr()
}

/// A computation on a stack of its own.
pub(crate) struct Fiber<In, Yield, Out> {
    inner: ManuallyDrop<corosensei::Coroutine<In, Yield, Out, Memory>>,
    /// The stack that `inner` runs on. It is dropped after `inner`.
    stack: ManuallyDrop<Stack>,
}

/// The handle with which the body of a [`Fiber`] suspends the fiber.
#[repr(transparent)]
pub(crate) struct Suspender<In, Yield> {
    inner: corosensei::Yielder<In, Yield>,
}

impl<In, Yield, Out> Fiber<In, Yield, Out> {
    /// For debuggers: the offset of the address of the stack's top.
    pub(crate) const TOP: Option<usize> = Some(offset_of!(Self, stack) + Stack::TOP);

    /// For debuggers: returns the offsets of the stack pointer and of the first stack pointer. The
    /// former is the address of what the switch has saved of a suspended fiber, and 0 while the
    /// fiber runs. Returns `None` if they are not found.
    ///
    /// `corosensei` does not publish them. So this examines a coroutine that never runs, before and
    /// after the stack pointer is set to 0.
    #[cold]
    pub(crate) fn stack_pointers() -> Option<(usize, usize)> {
        const WORDS: usize = 4;
        type Inner<In, Yield, Out> = corosensei::Coroutine<In, Yield, Out, Memory>;

        // With this size it has the memory, two stack pointers, a function, and no padding.
        if size_of::<Inner<In, Yield, Out>>() != WORDS * size_of::<usize>() {
            return None;
        }
        let words = |inner: &Inner<In, Yield, Out>| {
            // SAFETY: it consists of this number of words, all of which are initialized.
            unsafe { ptr::from_ref(inner).cast::<[usize; WORDS]>().read() }
        };
        let mut room = MaybeUninit::<[u128; 16]>::uninit();
        let top = (&raw mut room).wrapping_add(1).expose_provenance();
        let memory = Memory { top: StackPointer::new(top)? };
        let body = |_: &corosensei::Yielder<In, Yield>, _| -> Out { unreachable!("it never runs") };
        // SAFETY: nothing runs on this stack, so it needs no guard. The body borrows nothing. There
        // is room for it and for three words, which is all that is written.
        let mut inner = unsafe { Inner::<In, Yield, Out>::with_stack_unchecked(memory, body) };
        let before = words(&inner);
        // SAFETY: S1: the coroutine has no frames, and its body needs no drop.
        unsafe { inner.force_reset() };
        let after = words(&inner);
        let now = (0..WORDS).find(|&n| after[n] == 0 && before[n] != 0)?;
        let first = (0..WORDS).find(|&n| n != now && after[n] == before[now])?;
        let offset = |n| offset_of!(Self, inner) + n * size_of::<usize>();
        Some((offset(now), offset(first)))
    }

    /// Prepares `f` to run on `stack`.
    ///
    /// # Safety
    /// Everything that `f`, `In` and `Yield` borrow must stay valid until the fiber is complete, or
    /// the fiber must never again be resumed, unwound or dropped.
    #[inline(always)]
    pub(crate) unsafe fn new<F>(stack: Stack, f: F) -> Self
    where
        F: FnOnce(&Suspender<In, Yield>, In) -> Out,
    {
        if size_of::<F>() > IN_PLACE {
            let f = Box::new(f);
            let f = move |suspender: &Suspender<In, Yield>, first: In| f(suspender, first);
            // SAFETY: by this function's contract, for the contents of the box.
            unsafe { Fiber::in_place(stack, f) }
        } else {
            // SAFETY: by this function's contract.
            unsafe { Fiber::in_place(stack, f) }
        }
    }

    /// Prepares `f` to run on `stack`. `f` fits without a box.
    ///
    /// # Safety
    /// As for [`Fiber::new`].
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
        // SAFETY: the caller guarantees the borrows. The stack of a forgotten fiber is never
        // reused, because only `Drop` and `into_stack` give it back.
        let inner = unsafe { corosensei::Coroutine::with_stack_unchecked(memory, body) };
        Fiber { inner: ManuallyDrop::new(inner), stack: ManuallyDrop::new(stack) }
    }

    /// Runs the fiber until it suspends or ends.
    #[inline]
    pub(crate) fn resume(&mut self, value: In) -> FiberState<Yield, Out> {
        match self.inner.resume(value) {
            CoroutineResult::Yield(value) => FiberState::Suspended(value),
            CoroutineResult::Return(value) => FiberState::Complete(value),
        }
    }

    /// Returns whether the fiber has been resumed.
    #[inline]
    pub(crate) fn is_started(&self) -> bool {
        self.inner.started()
    }

    /// Returns whether the fiber has returned or unwound.
    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        self.inner.done()
    }

    /// Unwinds a suspended fiber, or drops the closure of an unstarted one. The fiber is complete
    /// afterwards.
    ///
    /// # Panics
    /// Propagates a panic of a destructor. Must not be called under `panic = "abort"` on a started
    /// fiber.
    pub(crate) fn unwind(&mut self) {
        /// Marks the fiber as complete, however the unwinding ends: nothing is left to be dropped.
        struct Done<'i, In, Yield, Out>(&'i mut corosensei::Coroutine<In, Yield, Out, Memory>);
        impl<In, Yield, Out> Drop for Done<'_, In, Yield, Out> {
            fn drop(&mut self) {
                // corosensei does not record this if the destructor of a closure that never ran has
                // panicked. It would then drop the closure again: see
                // `doc/decisions/0013-a-body-that-panics-as-it-is-dropped.md`.
                // SAFETY: S1: the fiber's frames have been unwound. Or it never had any, and its
                // closure has been dropped.
                unsafe { self.0.force_reset() };
            }
        }
        Done(&mut self.inner).0.force_unwind();
    }

    /// Returns the stack of a complete fiber.
    #[inline]
    pub(crate) fn into_stack(self) -> Stack {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: `this` is not used or dropped after this.
        unsafe { this.take_stack() }
    }

    /// Returns the stack of a complete fiber, as [`Fiber::into_stack`] does, without moving the
    /// fiber.
    ///
    /// # Safety
    /// The fiber must not be used or dropped afterwards.
    #[inline]
    pub(crate) unsafe fn take_stack(&mut self) -> Stack {
        assert!(self.is_complete(), "a fiber that is not complete keeps its stack");
        // A complete `inner` owns nothing.
        // SAFETY: the stack is taken once, by this function's contract, and nothing runs on it
        // (S1).
        unsafe { ManuallyDrop::take(&mut self.stack) }
    }
}

impl<In, Yield, Out> Drop for Fiber<In, Yield, Out> {
    fn drop(&mut self) {
        if cfg!(panic = "abort") && self.is_started() && !self.is_complete() {
            leaked::count();
            return;
        }
        // corosensei aborts if a destructor panics while its own `Drop` unwinds. The fiber is
        // therefore unwound before. If that panics, the fiber is complete and its stack is still
        // given back.
        struct Finish<'f, In, Yield, Out>(&'f mut Fiber<In, Yield, Out>);
        impl<In, Yield, Out> Drop for Finish<'_, In, Yield, Out> {
            fn drop(&mut self) {
                // SAFETY: this is the end of the fiber's own `Drop`, and `inner` is not used
                // afterwards.
                unsafe { ManuallyDrop::drop(&mut self.0.inner) };
                // SAFETY: this is the end of the fiber's own `Drop`. `inner` is complete, so
                // nothing runs on the stack (S1).
                unsafe { ManuallyDrop::drop(&mut self.0.stack) };
            }
        }
        Finish(self).0.unwind();
    }
}

impl<In, Yield> Suspender<In, Yield> {
    /// Returns whether the caller runs on the stack of `size` bytes below `top`.
    #[expect(clippy::unused_self, reason = "the other backend uses it")]
    #[inline(always)]
    pub(crate) fn is_here(&self, top: usize, size: usize) -> bool {
        top.wrapping_sub(stack_pointer()) <= size
    }

    /// Returns whether the stack of `size` bytes below `top`, on which the caller runs, is being
    /// unwound. The caller's thread panics, because of this stack or of another one.
    #[expect(clippy::unused_self, reason = "the other backend uses it")]
    #[cold]
    pub(crate) fn is_unwinding(&self, top: usize, size: usize) -> bool {
        #[cfg(all(panic = "unwind", not(target_arch = "arm")))]
        return super::cleanup::is_running_on(top, size);
        // On these targets this cannot be found out. Leaving a stack as it is does less harm than
        // unwinding it twice.
        #[cfg(not(all(panic = "unwind", not(target_arch = "arm"))))]
        {
            let _ = (top, size);
            true
        }
    }

    /// Switches back to the most recent resumer. Returns the value of the next resumption.
    #[inline]
    pub(crate) fn suspend(&self, value: Yield) -> In {
        self.inner.suspend(value)
    }
}
