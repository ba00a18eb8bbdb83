//! The checkable switch: each fiber has an OS thread, and a baton says which one of them runs.
//!
//! A fiber has two slots, each a lock and a condition: one carries values in, one carries values out. Whoever resumes puts
//! a value in and waits at the other end; whoever suspends does the opposite. So of all threads that stand for one logical
//! thread exactly one runs, and the locks order what one did before what the next one does.
//!
//! A fiber that is suspended from the thread of an inner one simply waits there: its input is taken by whoever called
//! `suspend`, which is where it has to go on.
//!
//! Invariant B1: the lender of a [`crate::base::local`] block waits. A block belongs to the OS thread that resumed the outermost
//! fiber; it is passed along with each value in, and everybody but the one who runs is blocked. Fibers do not change that
//! thread once they have started (S2), so that a thread which goes on after a wait still has the right block.
//!
//! The slots use `std`'s locks, loom or not: loom does not look into a switch, it takes it as one step.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};

use super::FiberState;
use crate::base::local::{self, Local};
use crate::coroutine::leaked;
use crate::coroutine::stack::Stack;

thread_local! {
    /// The fiber that this thread stands for; 0 if it stands for none.
    static HERE: Cell<usize> = const { Cell::new(0) };
}

/// Added to a thread's stack, for what `std` puts there before a fiber begins.
const THREAD_EXTRA: usize = 128 * 1024;

/// A place for one value, and a way to wait for it.
struct Slot<T> {
    value: Mutex<Option<T>>,
    filled: Condvar,
}

impl<T> Slot<T> {
    fn new() -> Slot<T> {
        Slot { value: Mutex::new(None), filled: Condvar::new() }
    }

    fn put(&self, value: T) {
        *self.value.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(value);
        self.filled.notify_one();
    }

    fn take(&self) -> T {
        let mut value = self.value.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        loop {
            if let Some(value) = value.take() {
                return value;
            }
            value = self.filled.wait(value).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }
}

/// What goes in: a value or, for `None`, the order to unwind; and the block of thread-locals.
struct Input<In> {
    value: Option<In>,
    block: *const Local,
}

/// What both sides share. The output is a value of `suspend`, or `None` once the result is there.
struct Shared<In, Yield, Out> {
    input: Slot<Input<In>>,
    output: Slot<Option<Yield>>,
    result: Mutex<Option<thread::Result<Out>>>,
}

/// The payload that unwinds the fiber with this address.
struct ForcedUnwind(usize);

/// Carries what is not `Send` to the fiber's thread.
struct Carried<T>(T);

// SAFETY: B1: of the threads that stand for one logical thread only one runs at a time, ordered by the slots' locks, so that
// for the value they are one thread.
unsafe impl<T> Send for Carried<T> {}

impl<T> Carried<T> {
    fn open(self) -> T {
        self.0
    }
}

type Body<'f, In, Yield, Out> = Box<dyn FnOnce(&Suspender<In, Yield>, In) -> Out + 'f>;

/// A computation on a thread of its own.
pub(crate) struct Fiber<In, Yield, Out> {
    /// Not run on; it carries the control block and this very value in its head, and goes back like the real one.
    stack: Option<Stack>,
    shared: Arc<Shared<In, Yield, Out>>,
    /// Until it has started. The lifetime is a lie that `new`'s contract makes good.
    body: Option<Body<'static, In, Yield, Out>>,
    thread: Option<JoinHandle<()>>,
    complete: bool,
}

/// The way back from inside a [`Fiber`].
pub(crate) struct Suspender<In, Yield> {
    input: *const Slot<Input<In>>,
    output: *const Slot<Option<Yield>>,
    fiber: usize,
}

impl<In, Yield, Out> Fiber<In, Yield, Out> {
    /// Prepares `f` to run.
    ///
    /// # Safety
    /// Whatever `f`, `In`, `Yield` and `Out` borrow must stay valid until the fiber is complete, or is never resumed, unwound or
    /// dropped again.
    pub(crate) unsafe fn new<F>(stack: Stack, f: F) -> Self
    where
        F: FnOnce(&Suspender<In, Yield>, In) -> Out,
    {
        let body: Body<'_, In, Yield, Out> = Box::new(f);
        // SAFETY: the caller vouches for everything that the body borrows.
        let body = unsafe {
            std::mem::transmute::<Body<'_, In, Yield, Out>, Body<'static, In, Yield, Out>>(body)
        };
        let shared = Shared { input: Slot::new(), output: Slot::new(), result: Mutex::new(None) };
        Fiber {
            stack: Some(stack),
            shared: Arc::new(shared),
            body: Some(body),
            thread: None,
            complete: false,
        }
    }

    /// Runs it until it suspends or ends.
    pub(crate) fn resume(&mut self, value: In) -> FiberState<Yield, Out> {
        assert!(!self.complete, "a complete fiber is resumed");
        if let Some(body) = self.body.take() {
            self.start(body);
        }
        match self.pass(Some(value)) {
            Some(value) => FiberState::Suspended(value),
            None => match self.end() {
                Ok(value) => FiberState::Complete(value),
                Err(payload) => panic::resume_unwind(payload),
            },
        }
    }

    /// Passes the baton, and waits until it comes back.
    fn pass(&self, value: Option<In>) -> Option<Yield> {
        self.shared.input.put(Input { value, block: local::lend() });
        self.shared.output.take()
    }

    fn start(&mut self, body: Body<'static, In, Yield, Out>) {
        let carried = Carried((body, Arc::clone(&self.shared)));
        let run = move || {
            let (body, shared) = carried.open();
            HERE.set(Arc::as_ptr(&shared).addr());
            let suspender = Suspender {
                input: &raw const shared.input,
                output: &raw const shared.output,
                fiber: Arc::as_ptr(&shared).addr(),
            };
            let result =
                panic::catch_unwind(AssertUnwindSafe(|| body(&suspender, suspender.wait())));
            *shared.result.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = Some(result);
            // From here on this thread stands for nobody; what its thread-locals' destructors ask is their own.
            // SAFETY: B1: nothing is borrowed any more.
            unsafe { local::borrow(ptr::null()) };
            shared.output.put(None);
        };
        let size = self.stack.as_ref().map_or(0, Stack::size) + THREAD_EXTRA;
        // SAFETY: whoever created the fiber vouches for its borrows; a complete fiber's thread is joined before anybody hears
        // that it is complete.
        let thread = unsafe { thread::Builder::new().stack_size(size).spawn_unchecked(run) };
        self.thread = Some(thread.expect("a thread for a fiber"));
    }

    /// Collects the result, and waits for the thread's end.
    fn end(&mut self) -> thread::Result<Out> {
        self.complete = true;
        if let Some(thread) = self.thread.take() {
            // It catches every panic, so that only a thread-local's destructor could make this fail.
            let _ = thread.join();
        }
        let result =
            self.shared.result.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        result.expect("a fiber that ended has a result")
    }

    /// Whether it has been resumed.
    pub(crate) fn is_started(&self) -> bool {
        self.body.is_none()
    }

    /// Whether it has returned or unwound.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Unwinds a suspended one, or drops the closure of one that has not started; afterwards it is complete.
    ///
    /// # Panics
    /// With the panic of the body, if it was not this unwinding that ended it.
    pub(crate) fn unwind(&mut self) {
        if self.complete {
            return;
        }
        if self.body.take().is_some() {
            self.complete = true;
            return;
        }
        // A body that suspends while it is unwound is told to unwind again.
        while self.pass(None).is_some() {}
        if let Err(payload) = self.end() {
            self.expect_own(payload);
        }
    }

    fn expect_own(&self, payload: Box<dyn Any + Send>) {
        let own = payload.downcast_ref().map(|&ForcedUnwind(fiber)| fiber);
        if own != Some(Arc::as_ptr(&self.shared).addr()) {
            panic::resume_unwind(payload);
        }
    }

    /// The stack of a complete one.
    pub(crate) fn into_stack(mut self) -> Stack {
        // SAFETY: `self` ends here, and its drop is prepared for a missing stack.
        unsafe { self.take_stack() }
    }

    /// As [`Fiber::into_stack`], without moving the fiber.
    ///
    /// # Safety
    /// As the native one's: the fiber must not be used or dropped afterwards.
    pub(crate) unsafe fn take_stack(&mut self) -> Stack {
        assert!(self.complete, "a fiber that is not complete keeps its stack");
        self.stack.take().expect("it is there until this call")
    }
}

impl<In, Yield, Out> Drop for Fiber<In, Yield, Out> {
    fn drop(&mut self) {
        if cfg!(panic = "abort") && self.is_started() && !self.is_complete() {
            leaked::count();
            if let Some(stack) = self.stack.take() {
                // Its head is still being used.
                let _ = std::mem::ManuallyDrop::new(stack);
            }
            return;
        }
        self.unwind();
    }
}

impl<In, Yield> Suspender<In, Yield> {
    /// Returns whether the caller runs on the thread of the suspender's own fiber.
    pub(crate) fn is_here(&self, _top: usize, _size: usize) -> bool {
        HERE.get() == self.fiber
    }

    /// Returns whether the fiber's thread, which the caller is and which panics, is in the middle of an unwinding.
    pub(crate) fn is_unwinding(&self, _top: usize, _size: usize) -> bool {
        true
    }

    /// Goes back to whoever resumed last, and returns what the next resumption passes.
    pub(crate) fn suspend(&self, value: Yield) -> In {
        // SAFETY: the slot is kept alive by the fiber's own thread, which has not ended.
        unsafe { &*self.output }.put(Some(value));
        self.wait()
    }

    fn wait(&self) -> In {
        // SAFETY: as in `suspend`.
        let Input { value, block } = unsafe { &*self.input }.take();
        // SAFETY: B1: the one who passed the baton waits.
        unsafe { local::borrow(block) };
        match value {
            Some(value) => value,
            None => panic::resume_unwind(Box::new(ForcedUnwind(self.fiber))),
        }
    }
}
