//! The handle of a coroutine, which resumes it.

use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use super::Yielder;
use super::control::{
    COMPLETE, Control, Ending, Head, OVERTAKEN, PANICKING, STRANDED, SUSPENDED, SUSPENDING,
    UNSTARTED, UNWINDING,
};
use super::stack::{STACK_DEFAULT, Stack};
use super::switch::{Fiber, FiberState, Suspender};
use super::{frames, leaked, panics, thread_end};

/// The result of [`Coroutine::resume`].
///
/// # Examples
/// ```
/// use ecru::coroutine::{Coroutine, CoroutineState};
///
/// let mut doubling = Coroutine::new(|yielder, first: u32| {
///     let second = yielder.suspend(2 * first);
///     second.to_string()
/// });
/// assert_eq!(doubling.resume(3), CoroutineState::Yielded(6));
/// assert_eq!(doubling.resume(4), CoroutineState::Complete(String::from("4")));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CoroutineState<Yield, Out> {
    /// The coroutine suspended with this value, and can be resumed.
    Yielded(Yield),
    /// The coroutine returned this value, and is complete.
    Complete(Out),
}

/// The state of a [`Coroutine`].
///
/// # Examples
/// ```
/// use ecru::coroutine::{Coroutine, CoroutineStatus};
///
/// let mut once = Coroutine::new(|yielder, (): ()| yielder.suspend(7));
/// assert_eq!(once.state(), CoroutineStatus::Unstarted);
/// once.resume(());
/// assert_eq!(once.state(), CoroutineStatus::Suspended);
/// once.resume(());
/// assert_eq!(once.state(), CoroutineStatus::Complete);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CoroutineStatus {
    /// The coroutine has not been resumed yet.
    Unstarted,
    /// The coroutine is suspended in [`Yielder::suspend`].
    Suspended,
    /// The coroutine is running, or waits for another coroutine that it has resumed.
    Running,
    /// The coroutine has returned, panicked or been unwound.
    Complete,
}

/// A computation that suspends in the middle with a value, and is resumed later with another value.
///
/// A coroutine runs on a stack of its own and may suspend from any depth of calls. It belongs to
/// the thread that created it, runs only inside [`Coroutine::resume`], and needs no runtime. A
/// panic in it is propagated to the resumer.
///
/// # Dropping
/// Dropping a suspended coroutine unwinds it: the destructors of its frames run. The panic hook is
/// not called for that, and guards of [`sync::poison`](crate::sync::poison) do not poison their
/// locks.
///
/// As in any unwinding, a destructor that panics then aborts the process.
///
/// A coroutine cannot be unwound if it is suspended in a destructor that runs because of a panic in
/// the coroutine, or if the program is built with `panic = "abort"`. Dropping it then leaks its
/// stack: no destructor runs, and nothing on the stack is ever freed.
/// [`leaked_stacks`](super::leaked_stacks) counts these stacks. A panic that is leaked in this way
/// keeps [`std::thread::panicking`] true on its thread.
///
/// # Thread-locals
/// Do not keep a suspended coroutine in a thread-local. Keep it where it is dropped before the
/// thread ends. When a thread ends, its thread-locals are destroyed one after another. If the
/// coroutine is suspended inside [`LocalKey::with`](std::thread::LocalKey::with) of another
/// thread-local, that one may be destroyed first. At the end of a thread, dropping a suspended
/// coroutine leaks its stack, and `resume` panics. A coroutine that has not been resumed before can
/// still run, but not suspend. There is one case that ecru cannot detect: a thread-local that the
/// thread uses for the first time after it has made its first coroutine. If the coroutine is kept
/// there and uses a thread-local that is first used even later, it reads freed memory.
///
/// # Borrowing
/// The body and all values are `'static`. Safe code can forget a suspended coroutine
/// (`std::mem::forget`, a cycle of `Rc`). Its frames then never run again and are never freed. For
/// a body that borrows, use [`scoped`](super::scoped()).
///
/// # Examples
/// ```
/// use ecru::coroutine::{Coroutine, CoroutineState};
///
/// let words = ["ecru", "is", "undyed"];
/// let reader = Coroutine::new(move |yielder, skip: usize| {
///     let mut at = skip;
///     while at < words.len() {
///         at += 1 + yielder.suspend(words[at]);
///     }
///     at
/// });
/// assert_eq!(reader.resume(0), CoroutineState::Yielded("ecru"));
/// assert_eq!(reader.resume(1), CoroutineState::Yielded("undyed"));
/// assert_eq!(reader.resume(0), CoroutineState::Complete(3));
/// ```
pub struct Coroutine<In, Yield, Out> {
    /// Points into the head of the stack. The fiber in the head owns that stack.
    head: NonNull<Head<In, Yield, Out>>,
    /// Keeps the coroutine on its thread.
    not_send: PhantomData<*mut ()>,
}

impl<In: 'static, Yield: 'static, Out: 'static> Coroutine<In, Yield, Out> {
    /// Creates a coroutine on a stack of [`STACK_DEFAULT`] bytes. Nothing runs before the first
    /// [`Coroutine::resume`]. The value passed to that call becomes the body's second argument.
    ///
    /// # Panics
    /// Panics if the system refuses a stack. [`Coroutine::with_stack`] allows that error to be
    /// handled.
    ///
    /// # Examples
    /// ```
    /// use ecru::coroutine::{Coroutine, CoroutineState};
    ///
    /// let double = Coroutine::new(|yielder, mut number: u32| {
    ///     for _ in 0..2 {
    ///         number = yielder.suspend(number * 2);
    ///     }
    /// });
    /// assert_eq!(double.resume(2), CoroutineState::Yielded(4));
    /// assert_eq!(double.resume(5), CoroutineState::Yielded(10));
    /// assert_eq!(double.resume(0), CoroutineState::Complete(()));
    /// ```
    #[must_use]
    pub fn new<F>(body: F) -> Self
    where
        F: FnOnce(&Yielder<In, Yield>, In) -> Out + 'static,
    {
        Coroutine::with_stack(default_stack(), body)
    }

    /// Creates a coroutine on the given stack. [`Coroutine::into_stack`] returns the stack.
    ///
    /// # Examples
    /// ```
    /// use ecru::coroutine::{Coroutine, Stack, Yielder};
    ///
    /// let mut stack = Stack::new(16 * 1024)?;
    /// for round in 0..3 {
    ///     let coroutine = Coroutine::with_stack(stack, move |_: &Yielder<(), ()>, ()| round);
    ///     coroutine.resume(());
    ///     stack = coroutine.into_stack();
    /// }
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[inline]
    #[must_use]
    pub fn with_stack<F>(stack: Stack, body: F) -> Self
    where
        F: FnOnce(&Yielder<In, Yield>, In) -> Out + 'static,
    {
        // SAFETY: C7: the body and the values borrow nothing.
        unsafe { Coroutine::borrowing(stack, body) }
    }
}

/// Returns a stack for a coroutine that is created without one.
#[track_caller]
pub(super) fn default_stack() -> Stack {
    match Stack::new(STACK_DEFAULT) {
        Ok(stack) => stack,
        Err(error) => panic!("no stack for a coroutine: {error}"),
    }
}

impl<In, Yield, Out> Coroutine<In, Yield, Out> {
    /// Creates a coroutine whose body and values may borrow.
    ///
    /// # Safety
    /// C7: everything that the body and the values borrow outlives the coroutine's end. The frame
    /// that lends it does not go on before that end.
    #[inline]
    pub(super) unsafe fn borrowing<F>(stack: Stack, body: F) -> Self
    where
        F: FnOnce(&Yielder<In, Yield>, In) -> Out,
    {
        let () = Head::<In, Yield, Out>::FITS;
        let size = stack.size();
        let head = stack.head().cast::<Head<In, Yield, Out>>();
        // The control block is the first field of the head.
        let control = head.cast::<Control>();
        let body = move |suspender: &Suspender<In, Yield>, first: In| {
            // SAFETY: C6: the control block is in the head of the stack that this code runs on.
            let control = unsafe { control.as_ref() };
            let _ending = Ending(control);
            thread_end::on_start(control);
            body(Yielder::of(control, suspender), first)
        };
        // SAFETY: C7, by this function's contract.
        let fiber = unsafe { Fiber::new(stack, body) };
        let value = Head { control: Control::new(size), fiber: UnsafeCell::new(fiber) };
        // SAFETY: C1: the fiber owns the stack, and this value owns the fiber. Frames never touch
        // the head.
        unsafe { head.write(value) };
        // SAFETY: L3: the block was just made. It does not move, and `leave` is called before the
        // stack is given back.
        unsafe { thread_end::enter(control) };
        Coroutine { head, not_send: PhantomData }
    }

    /// Runs the coroutine until it suspends or returns.
    ///
    /// # Panics
    /// Panics if the coroutine is complete, if it is running (the call comes from inside it), or if
    /// it is about to be suspended (the call comes from the function of its
    /// [`Yielder::suspend_with`]). Panics if the coroutine was suspended when its thread ended (the
    /// call comes from the destructor of a thread-local). Propagates a panic of the coroutine, with
    /// its payload.
    ///
    /// # Examples
    /// ```
    /// use ecru::coroutine::{Coroutine, CoroutineState, Yielder};
    ///
    /// let coroutine = Coroutine::new(|yielder: &Yielder<i32, i32>, first| yielder.suspend(first + 1) * 2);
    /// assert_eq!(coroutine.resume(1), CoroutineState::Yielded(2));
    /// assert_eq!(coroutine.resume(21), CoroutineState::Complete(42));
    /// ```
    #[inline]
    #[track_caller]
    pub fn resume(&self, value: In) -> CoroutineState<Yield, Out> {
        let control = self.control();
        if control.gate.get() < SUSPENDED {
            self.refuse();
        }
        control.gate.set(frames::open());
        // SAFETY: C5: the coroutine was unstarted or suspended. Its gate now says that it runs, so
        // there is no other user.
        let fiber = unsafe { &mut *self.head().fiber.get() };
        // SAFETY: C5: the gate said that it was unstarted or suspended, so it is not complete.
        // Without this, `resume` would check that a second time.
        unsafe { std::hint::assert_unchecked(!fiber.is_complete()) };
        match fiber.resume(value) {
            FiberState::Suspended(value) => {
                if control.gate.get() != SUSPENDED {
                    self.call_after();
                }
                CoroutineState::Yielded(value)
            }
            FiberState::Complete(value) => CoroutineState::Complete(value),
        }
    }

    /// Calls the function of `suspend_with`, if the coroutine was suspended by that.
    #[cold]
    #[inline(never)]
    fn call_after(&self) {
        if self.control().gate.get() != SUSPENDING {
            return;
        }
        /// Sets the gate to the suspended state, even if the function panics.
        struct Rest<'c>(&'c Control);
        impl Drop for Rest<'_> {
            fn drop(&mut self) {
                self.0.gate.set(self.0.rest.get());
            }
        }
        let _rest = Rest(self.control());
        if let Some(mut function) = self.control().after.take() {
            // SAFETY: C5: the coroutine is suspended in the call that owns the function.
            // `SUSPENDING` keeps it there.
            let function = unsafe { function.as_mut() };
            function();
        }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn refuse(&self) -> ! {
        match self.control().gate.get() {
            running if running < COMPLETE || running == OVERTAKEN => {
                panic!("`resume` called from inside of the coroutine that it would resume")
            }
            STRANDED => panic!(
                "`resume` called on a suspended coroutine while its thread ends: the thread-locals that it uses may be destroyed \
                 already; do not keep a suspended coroutine in a thread-local, but where it is dropped before the thread ends"
            ),
            SUSPENDING => panic!(
                "`resume` called by the function of the coroutine's own `suspend_with`: put it into a queue there, and resume it \
                 afterwards"
            ),
            UNWINDING => panic!("`resume` called while the coroutine is being dropped"),
            _ => panic!("`resume` called on a coroutine that is complete"),
        }
    }

    /// Returns the coroutine's state. This may also be called inside the coroutine.
    ///
    /// # Examples
    /// ```
    /// use ecru::coroutine::{Coroutine, CoroutineStatus, Yielder};
    ///
    /// let coroutine = Coroutine::new(|yielder: &Yielder<(), ()>, ()| yielder.suspend(()));
    /// assert_eq!(coroutine.state(), CoroutineStatus::Unstarted);
    /// coroutine.resume(());
    /// assert_eq!(coroutine.state(), CoroutineStatus::Suspended);
    /// coroutine.resume(());
    /// assert_eq!(coroutine.state(), CoroutineStatus::Complete);
    /// ```
    pub fn state(&self) -> CoroutineStatus {
        match self.control().gate.get() {
            UNSTARTED => CoroutineStatus::Unstarted,
            SUSPENDED | PANICKING | SUSPENDING | STRANDED => CoroutineStatus::Suspended,
            COMPLETE => CoroutineStatus::Complete,
            _ => CoroutineStatus::Running,
        }
    }

    /// Returns the stack of a complete coroutine, for reuse.
    ///
    /// # Panics
    /// Panics if the coroutine is not complete.
    ///
    /// # Examples
    /// See [`Coroutine::with_stack`].
    #[inline]
    #[track_caller]
    pub fn into_stack(self) -> Stack {
        assert!(
            self.control().gate.get() == COMPLETE,
            "`into_stack` called on a coroutine that is not complete"
        );
        let this = ManuallyDrop::new(self);
        // SAFETY: L3: it has been in the ring since it was created.
        unsafe { thread_end::leave(this.control()) };
        // SAFETY: C5: the coroutine is complete, so there is no other user.
        let fiber = unsafe { &mut *this.head().fiber.get() };
        // SAFETY: neither `this` nor the fiber is used or dropped after this.
        unsafe { fiber.take_stack() }
    }

    #[inline]
    fn head(&self) -> &Head<In, Yield, Out> {
        // SAFETY: C6: it is in the head of the stack that its fiber owns.
        unsafe { self.head.as_ref() }
    }

    #[inline]
    pub(super) fn control(&self) -> &Control {
        &self.head().control
    }

    /// Returns whether the coroutine is suspended during unwinding.
    #[inline]
    pub(super) fn is_panicking(&self) -> bool {
        match self.control().gate.get() {
            PANICKING => true,
            SUSPENDING => self.control().rest.get() == PANICKING,
            _ => false,
        }
    }

    /// Returns whether the coroutine was suspended when its thread ended.
    #[inline]
    fn is_stranded(&self) -> bool {
        match self.control().gate.get() {
            STRANDED => true,
            SUSPENDING => self.control().rest.get() == STRANDED,
            _ => false,
        }
    }

    /// Runs the destructors of a suspended coroutine's frames.
    #[cold]
    fn unwind(&self) {
        self.control().gate.set(UNWINDING);
        let _forced = panics::Forced::begin();
        // SAFETY: C5: the coroutine was suspended. Its gate now says that it runs, so there is no
        // other user.
        unsafe { &mut *self.head().fiber.get() }.unwind();
    }
}

impl<In, Yield, Out> Drop for Coroutine<In, Yield, Out> {
    #[inline]
    fn drop(&mut self) {
        /// Drops the fiber last. The fiber drops a body that never ran, and gives its stack back or
        /// leaks it.
        struct Rest<In, Yield, Out>(NonNull<Head<In, Yield, Out>>);
        impl<In, Yield, Out> Drop for Rest<In, Yield, Out> {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: C6: the head still exists.
                let fiber = unsafe { self.0.as_ref() }.fiber.get();
                // SAFETY: C6: the fiber is not used afterwards. It is moved out first,
                // because it gives away the memory that it lies in.
                drop(unsafe { fiber.read() });
            }
        }
        // SAFETY: L3: it has been in the ring since it was created.
        unsafe { thread_end::leave(self.control()) };
        if self.is_panicking() || self.is_stranded() {
            // Its frames are never touched again, and its panic, if any, stays in the thread's
            // count.
            leaked::count();
            return;
        }
        let suspended = matches!(self.control().gate.get(), SUSPENDED | SUSPENDING);
        let _rest = Rest(self.head);
        if cfg!(panic = "unwind") && suspended {
            self.unwind();
        }
    }
}

impl<In, Yield, Out> fmt::Debug for Coroutine<In, Yield, Out> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coroutine").field("state", &self.state()).finish_non_exhaustive()
    }
}
