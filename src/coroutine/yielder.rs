//! The inside of a coroutine: how its body gives values out and waits to be resumed.

use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ptr::{self, NonNull};

use super::control::{COMPLETE, Control, SUSPENDED, SUSPENDING, UNWINDING};
use super::frames;
use super::switch::Suspender;

/// Handed to the body of a [`Coroutine`](super::Coroutine) or a [`Generator`](super::Generator), which suspends itself with it.
///
/// It may be lent to functions, and to coroutines that the body resumes in turn: suspending from inside of those puts all
/// of them to rest, and the next resumption goes on there.
#[repr(transparent)]
pub struct Yielder<In, Yield> {
    /// A yielder is the control block under another name: lending it costs nothing, and asking it one load.
    control: Control,
    types: PhantomData<fn(Yield) -> In>,
}

impl<In, Yield> Yielder<In, Yield> {
    /// The yielder of the coroutine whose control block and way back these are.
    #[inline]
    pub(super) fn of<'c>(control: &'c Control, suspender: &'c Suspender<In, Yield>) -> &'c Self {
        control.suspender.set(ptr::from_ref(suspender).cast());
        // SAFETY: a transparent wrapper of exactly this type.
        unsafe { &*ptr::from_ref(control).cast() }
    }

    /// Goes back to whoever resumed the coroutine, with `value`, and returns what the next resumption passes.
    ///
    /// If the coroutine is dropped instead, this call does not return: it unwinds.
    ///
    /// # Panics
    /// If something that must not be left open was opened in the coroutine and is still open (an `ecru::scope`, a timeout, a
    /// shield and the like); if the coroutine is being dropped, by a destructor or by a body that caught the
    /// unwinding; if the coroutine is not the one that is running.
    ///
    /// # Examples
    /// ```
    /// use ecru::coroutine::{Coroutine, CoroutineState, Yielder};
    ///
    /// fn ask(yielder: &Yielder<u32, &'static str>, question: &'static str) -> u32 {
    ///     yielder.suspend(question)
    /// }
    ///
    /// let sum = Coroutine::new(|yielder: &Yielder<u32, &'static str>, first: u32| first + ask(yielder, "more?"));
    /// assert_eq!(sum.resume(1), CoroutineState::Yielded("more?"));
    /// assert_eq!(sum.resume(2), CoroutineState::Complete(3));
    /// ```
    #[inline]
    #[track_caller]
    pub fn suspend(&self, value: Yield) -> In {
        self.check();
        self.control.gate.set(SUSPENDED);
        self.suspender().suspend(value)
    }

    /// As [`Yielder::suspend`], and calls `function` on the resumer's side, once the coroutine is suspended and before the
    /// resumer gets `value`.
    ///
    /// This is for handing the coroutine to something that may want it resumed at once: when `function` enters it into a
    /// queue, it is at rest already. `function` may do anything except resume this very coroutine.
    ///
    /// A panic of `function` reaches the resumer in place of `value`; the coroutine stays suspended.
    ///
    /// # Panics
    /// As [`Yielder::suspend`].
    ///
    /// # Examples
    /// ```
    /// use ecru::coroutine::{Coroutine, CoroutineState, CoroutineStatus, Yielder};
    /// use std::cell::RefCell;
    ///
    /// let ready = RefCell::new(Vec::new());
    /// let coroutine = Coroutine::new(|yielder: &Yielder<u32, ()>, _| {
    ///     yielder.suspend_with((), || ready.borrow_mut().push("coroutine"))
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
        // SAFETY: C5: only the lifetime changes. The resumer calls it at once, while this frame is at rest, which it stays
        // for so long, as a coroutine that is `SUSPENDING` can neither be resumed nor dropped.
        let call = unsafe {
            mem::transmute::<NonNull<dyn FnMut() + '_>, NonNull<dyn FnMut() + 'static>>(call)
        };
        self.control.after.set(Some(call));
        self.control.gate.set(SUSPENDING);
        self.suspender().suspend(value)
    }

    #[inline]
    #[track_caller]
    fn check(&self) {
        if frames::open() != self.control.gate.get() {
            self.refuse();
        }
    }

    #[cold]
    #[inline(never)]
    #[track_caller]
    fn refuse(&self) -> ! {
        match self.control.gate.get() {
            running if running < COMPLETE => panic!(
                "`suspend` called while a scope, timeout, shield or the like that was opened in this coroutine is open: \
                 close it first"
            ),
            UNWINDING => panic!(
                "`suspend` called while this coroutine is being dropped: a destructor must not suspend it, nor its body go on \
                 after catching the unwinding"
            ),
            _ => panic!("`suspend` called from outside of its coroutine"),
        }
    }

    #[inline]
    fn suspender(&self) -> &Suspender<In, Yield> {
        // SAFETY: C6: a yielder is lent to the coroutine's body only; its suspender has these types and lives as long as that
        // runs.
        unsafe { &*self.control.suspender.get().cast() }
    }
}

impl<In, Yield> fmt::Debug for Yielder<In, Yield> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Yielder").finish_non_exhaustive()
    }
}
