//! The handle with which a coroutine's body suspends the coroutine.

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ptr::{self, NonNull};
use std::thread;

use super::control::{Control, OVERTAKEN, PANICKING, SUSPENDED, SUSPENDING, UNWINDING};
use super::initializers::{self, Bound};
use super::scoped::abort;
use super::switch::Suspender;
use super::{frames, panics};

/// The handle with which a coroutine's body suspends its coroutine.
///
/// It may be lent to any function that the body calls. It suspends only its own coroutine, and only
/// from that coroutine's own stack. In a task, a run or another coroutine that the body has
/// started, [`suspend`](Yielder::suspend) panics.
///
/// # Examples
/// ```
/// use ecru::coroutine::{Coroutine, CoroutineState, Yielder};
///
/// /// Suspends from inside a recursion.
/// fn count_down(yielder: &Yielder<(), u32>, from: u32) {
///     if from > 0 {
///         yielder.suspend(from);
///         count_down(yielder, from - 1);
///     }
/// }
///
/// let mut numbers = Coroutine::new(|yielder, (): ()| count_down(yielder, 2));
/// assert_eq!(numbers.resume(()), CoroutineState::Yielded(2));
/// assert_eq!(numbers.resume(()), CoroutineState::Yielded(1));
/// assert_eq!(numbers.resume(()), CoroutineState::Complete(()));
/// ```
#[repr(transparent)]
pub struct Yielder<In, Yield> {
    /// A yielder is the control block under another name. Lending it costs nothing, and using it
    /// costs one load.
    control: Control,
    types: PhantomData<fn(Yield) -> In>,
}

impl<In, Yield> Yielder<In, Yield> {
    /// Returns the yielder of the coroutine with this control block and suspender.
    #[inline]
    pub(super) fn of<'c>(control: &'c Control, suspender: &'c Suspender<In, Yield>) -> &'c Self {
        control.suspender.set(ptr::from_ref(suspender).cast());
        // SAFETY: `Yielder` is a transparent wrapper of exactly this type.
        unsafe { &*ptr::from_ref(control).cast() }
    }

    /// Suspends the coroutine and passes `value` to its resumer. Returns the value of the next
    /// [`resume`](super::Coroutine::resume).
    ///
    /// If the coroutine is dropped instead, this call does not return but unwinds. A call in a
    /// destructor that runs because of a panic in the coroutine neither returns nor unwinds then:
    /// the coroutine's stack is leaked.
    ///
    /// A lazy iterator such as that of [`Scope::map_buffered`](crate::Scope::map_buffered) may be
    /// left half read if its scope was opened outside the coroutine. Its tasks belong to that
    /// scope, which waits for them.
    ///
    /// # Panics
    /// - Panics if a scope, a timeout, a shield or a similar construct that was opened in the
    ///   coroutine is still open.
    /// - Panics if the call is not made on the coroutine's own stack. That is so in a task or a run
    ///   that the coroutine has started, in another coroutine that it has resumed, and in a
    ///   function that the scheduler calls.
    /// - Panics if the coroutine is being dropped. A destructor must not suspend it, and neither
    ///   may a body that has caught the unwinding. A coroutine of [`scoped`](super::scoped())
    ///   aborts the process in this case.
    /// - Panics if the coroutine's thread ends. That is so if the destructor of a thread-local
    ///   starts a coroutine that was made before, or if [`std::process::exit`] is called inside the
    ///   coroutine and the destructor of a thread-local suspends it.
    /// - In a debug build, and if the environment variable `ECRU_CHECK` is set, panics if the call
    ///   is made in the initializer of a `std::thread_local!`, or in a coroutine that such an
    ///   initializer resumes. [SOUNDNESS.md](crate::soundness) says why.
    ///
    /// # Examples
    /// ```
    /// use ecru::coroutine::{Coroutine, CoroutineState, Yielder};
    ///
    /// fn ask(yielder: &Yielder<u32, &'static str>, question: &'static str) -> u32 {
    ///     yielder.suspend(question)
    /// }
    ///
    /// let sum = Coroutine::new(|yielder: &Yielder<u32, &'static str>, first: u32| first +
    /// ask(yielder, "more?")); assert_eq!(sum.resume(1), CoroutineState::Yielded("more?"));
    /// assert_eq!(sum.resume(2), CoroutineState::Complete(3));
    /// ```
    #[inline]
    #[track_caller]
    pub fn suspend(&self, value: Yield) -> In {
        // All unusual cases share one branch, which keeps the switch short.
        if !self.may_suspend(self.control.unsearched) || thread::panicking() {
            return self.suspend_slowly(value);
        }
        self.control.gate.set(SUSPENDED);
        self.suspender().suspend(value)
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn suspend_slowly(&self, value: Yield) -> In {
        self.check();
        let rest = self.begin_rest();
        self.control.gate.set(rest);
        let value = self.suspender().suspend(value);
        Self::end_rest(rest);
        value
    }

    /// Suspends the coroutine as [`Yielder::suspend`] does, and calls `function` on the resumer's
    /// stack. The call is made after the coroutine has been suspended and before the resumer gets
    /// `value`.
    ///
    /// This is for passing the coroutine to code that may want to resume it at once. When
    /// `function` puts the coroutine into a queue, the coroutine is already suspended. `function`
    /// may do anything except resume this coroutine.
    ///
    /// A panic of `function` reaches the resumer instead of `value`. The coroutine stays suspended.
    ///
    /// # Panics
    /// Panics in the same cases as [`Yielder::suspend`].
    ///
    /// # Examples
    /// ```
    /// use ecru::coroutine::{Coroutine, CoroutineState, CoroutineStatus, Yielder};
    /// use std::cell::RefCell;
    /// use std::rc::Rc;
    ///
    /// let ready = Rc::new(RefCell::new(Vec::new()));
    /// let queue = Rc::clone(&ready);
    /// let coroutine = Coroutine::new(move |yielder: &Yielder<u32, ()>, _| {
    ///     yielder.suspend_with((), || queue.borrow_mut().push("coroutine"))
    /// });
    /// assert_eq!(coroutine.resume(0), CoroutineState::Yielded(()));
    /// assert_eq!(ready.borrow_mut().pop(), Some("coroutine"));
    /// assert_eq!(coroutine.resume(7), CoroutineState::Complete(7));
    /// ```
    #[track_caller]
    pub fn suspend_with<F: FnOnce()>(&self, value: Yield, function: F) -> In {
        self.check();
        let mut function = Some(function);
        let mut call = || {
            if let Some(function) = function.take() {
                function();
            }
        };
        let call: NonNull<dyn FnMut() + '_> = NonNull::from(&mut call);
        // SAFETY: C5: only the lifetime changes. The resumer calls the function at once, while this
        // frame is suspended. The frame stays suspended meanwhile, because a coroutine in state
        // `SUSPENDING` can be neither resumed nor dropped.
        let call = unsafe {
            mem::transmute::<NonNull<dyn FnMut() + '_>, NonNull<dyn FnMut() + 'static>>(call)
        };
        self.control.after.set(Some(call));
        let rest = self.begin_rest();
        self.control.rest.set(rest);
        self.control.gate.set(SUSPENDING);
        let value = self.suspender().suspend(value);
        Self::end_rest(rest);
        value
    }

    /// Returns the suspended state that the coroutine, which is about to suspend, will have.
    fn begin_rest(&self) -> u32 {
        let top = ptr::from_ref(&self.control).addr();
        if !thread::panicking() {
            return SUSPENDED;
        }
        refuse_in_hook(top, self.control.size);
        if !self.suspender().is_unwinding(top, self.control.size) {
            return SUSPENDED;
        }
        panics::leave_behind();
        PANICKING
    }

    /// Records that the coroutine has been resumed.
    fn end_rest(rest: u32) {
        if rest == PANICKING {
            panics::take_up();
        }
    }

    #[inline]
    #[track_caller]
    fn check(&self) {
        if !self.may_suspend(self.control.size) {
            self.refuse();
        }
        if self.control.unsearched != self.control.size
            && let Some(kind) = initializers::find(Bound::Thread)
        {
            if thread::panicking() {
                // A second panic would end the process without this text.
                abort(kind.refusal());
            }
            panic!("{}", kind.refusal());
        }
    }

    /// Returns whether the caller runs on the coroutine's own stack of this size, and all frames
    /// that were opened in the coroutine are closed.
    #[inline]
    fn may_suspend(&self, size: usize) -> bool {
        self.is_here(size) && frames::open() == self.control.gate.get()
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn refuse(&self) -> ! {
        assert!(
            self.is_here(self.control.size),
            "`suspend` called outside its coroutine's own stack: in a task, a run or another coroutine that it has started, or in a \
             function that the scheduler calls"
        );
        assert!(
            self.control.gate.get() != OVERTAKEN,
            "`suspend` called while the coroutine's thread ends: the coroutine could not be resumed"
        );
        if self.control.gate.get() != UNWINDING {
            panic!(
                "`suspend` called while a scope, timeout, shield or similar that was opened in this coroutine is open: \
                 close it first"
            );
        }
        if self.control.scoped.get() {
            abort("the coroutine of `coroutine::scoped` suspends while it is unwound");
        }
        panic!(
            "`suspend` called while this coroutine is being dropped: a destructor must not suspend it, nor its body go on \
             after catching the unwinding"
        )
    }

    /// Returns whether the caller runs on the coroutine's own stack (C9). If so, no task, run or
    /// coroutine that the coroutine has started is running.
    #[inline]
    fn is_here(&self, size: usize) -> bool {
        self.suspender().is_here(ptr::from_ref(&self.control).addr(), size)
    }

    #[inline]
    fn suspender(&self) -> &Suspender<In, Yield> {
        // SAFETY: C6: a yielder is lent to the coroutine's body only. Its suspender has these types
        // and lives as long as the body runs.
        unsafe { &*self.control.suspender.get().cast() }
    }
}

impl<In, Yield> fmt::Debug for Yielder<In, Yield> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Yielder").finish_non_exhaustive()
    }
}

/// Aborts the process if the panic hook runs on a coroutine's own stack, which has these bounds and
/// is about to be suspended.
fn refuse_in_hook(top: usize, size: usize) {
    #[cfg(all(panic = "unwind", not(target_arch = "arm"), not(any(ecru_baton, miri, loom))))]
    if super::panic_hook::is_running_on(top, size) {
        crate::base::report::last_words(
            "ecru: the panic hook called `suspend` in the coroutine that panics. The next panic on this thread would abort \
             the process, so it is aborted now. Let the hook neither suspend nor resume its own coroutine",
        );
        std::process::abort();
    }
    let _ = (top, size);
}
