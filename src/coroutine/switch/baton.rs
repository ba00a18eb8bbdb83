//! The backend that tools can check: each fiber has an OS thread, and a baton determines which of
//! them runs.
//!
//! A fiber has two slots, each consisting of a lock and a condition. One slot carries values in,
//! the other carries values out. A resumer puts a value into the first and waits at the second. A
//! fiber that suspends does the opposite. So exactly one of the OS threads that form one logical
//! thread runs. The locks order the actions of one before those of the next.
//!
//! A fiber that is suspended from the thread of an inner fiber simply waits there. The caller of
//! `suspend` takes its input, and that is where the fiber must continue.
//!
//! Invariant B1: the lender of a [`crate::base::local`] block waits. A block belongs to the OS
//! thread that resumed the outermost fiber. It is passed along with each value that goes in, and
//! all these threads but the running one are blocked. Fibers do not change that OS thread once they
//! have started (S2). So a thread that continues after a wait still has the right block.
//!
//! The slots use `std`'s locks, also under loom, which treats a switch as one step.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};

use super::FiberState;
use crate::base::local::{self, Local};
use crate::base::simulated;
use crate::coroutine::leaked;
use crate::coroutine::stack::Stack;

thread_local! {
    /// The fiber that this thread runs, or 0.
    static HERE: Cell<usize> = const { Cell::new(0) };
}

/// Added to the size of a thread's stack, for the frames that `std` needs before a fiber begins.
const THREAD_EXTRA: usize = 128 * 1024;

/// A slot for one value, which a thread can wait for.
struct BatonSlot<T> {
    value: Mutex<Option<T>>,
    filled: Condvar,
}

impl<T> BatonSlot<T> {
    fn new() -> BatonSlot<T> {
        BatonSlot { value: Mutex::new(None), filled: Condvar::new() }
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

/// The input of a fiber: a value, or `None` as the order to unwind, and the block of thread-locals.
struct Input<In> {
    value: Option<In>,
    block: *const Local,
}

/// The state that both sides share. The output is a value of `suspend`, or `None` once the result
/// is there.
struct Shared<In, Yield, Out> {
    input: BatonSlot<Input<In>>,
    output: BatonSlot<Option<Yield>>,
    result: Mutex<Option<thread::Result<Out>>>,
}

/// The payload that unwinds the fiber with this address.
struct ForcedUnwind(usize);

/// Carries a value that is not `Send` to the fiber's thread.
struct Carried<T>(T);

// SAFETY: B1: of the threads that form one logical thread, only one runs at a time, ordered by the
// slots' locks. For the value, they are one thread.
unsafe impl<T> Send for Carried<T> {}

impl<T> Carried<T> {
    fn open(self) -> T {
        self.0
    }
}

type Body<'f, In, Yield, Out> = Box<dyn FnOnce(&Suspender<In, Yield>, In) -> Out + 'f>;

/// A computation on a thread of its own.
pub(crate) struct Fiber<In, Yield, Out> {
    /// Nothing runs on this stack. Its head carries the control block and this fiber, and it is
    /// given back as in the native backend.
    stack: Option<Stack>,
    shared: Arc<Shared<In, Yield, Out>>,
    /// `Some` until the fiber has started. The lifetime is extended under `new`'s contract.
    body: Option<Body<'static, In, Yield, Out>>,
    thread: Option<JoinHandle<()>>,
    complete: bool,
}

/// The handle with which the body of a [`Fiber`] suspends the fiber.
pub(crate) struct Suspender<In, Yield> {
    input: *const BatonSlot<Input<In>>,
    output: *const BatonSlot<Option<Yield>>,
    fiber: usize,
}

impl<In, Yield, Out> Fiber<In, Yield, Out> {
    /// Prepares `f` to run.
    ///
    /// # Safety
    /// Everything that `f`, `In`, `Yield` and `Out` borrow must stay valid until the fiber is
    /// complete, or the fiber must never again be resumed, unwound or dropped.
    pub(crate) unsafe fn new<F>(stack: Stack, f: F) -> Self
    where
        F: FnOnce(&Suspender<In, Yield>, In) -> Out,
    {
        let body: Body<'_, In, Yield, Out> = Box::new(f);
        // SAFETY: the caller guarantees everything that the body borrows.
        let body = unsafe {
            std::mem::transmute::<Body<'_, In, Yield, Out>, Body<'static, In, Yield, Out>>(body)
        };
        let shared =
            Shared { input: BatonSlot::new(), output: BatonSlot::new(), result: Mutex::new(None) };
        Fiber {
            stack: Some(stack),
            shared: Arc::new(shared),
            body: Some(body),
            thread: None,
            complete: false,
        }
    }

    /// Runs the fiber until it suspends or ends.
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
            // From here on this thread belongs to no logical thread. Destructors of its
            // thread-locals use its own block.
            // SAFETY: B1: nothing is borrowed any more.
            unsafe { local::borrow(ptr::null()) };
            shared.output.put(None);
        };
        let size = self.stack.as_ref().map_or(0, Stack::size) + THREAD_EXTRA;
        // SAFETY: the creator of the fiber guarantees its borrows. The thread of a complete fiber
        // is joined before the fiber reports that it is complete.
        let spawn = || unsafe { thread::Builder::new().stack_size(size).spawn_unchecked(run) };
        let thread = simulated::aside(spawn);
        self.thread = Some(thread.expect("a thread for a fiber"));
    }

    /// Waits for the thread's end, and returns the result.
    fn end(&mut self) -> thread::Result<Out> {
        self.complete = true;
        if let Some(thread) = self.thread.take() {
            // The thread catches every panic, so this fails only if a destructor of a thread-local
            // panics.
            let _ = thread.join();
        }
        let result =
            self.shared.result.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).take();
        result.expect("a fiber that ended has a result")
    }

    /// Returns whether the fiber has been resumed.
    pub(crate) fn is_started(&self) -> bool {
        self.body.is_none()
    }

    /// Returns whether the fiber has returned or unwound.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Unwinds a suspended fiber, or drops the closure of an unstarted one. The fiber is complete
    /// afterwards.
    ///
    /// # Panics
    /// Propagates a panic of the body that is not this unwinding itself.
    pub(crate) fn unwind(&mut self) {
        if self.complete {
            return;
        }
        if self.body.take().is_some() {
            self.complete = true;
            return;
        }
        // A body that suspends while it is unwound is ordered to unwind again.
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

    /// Returns the stack of a complete fiber.
    pub(crate) fn into_stack(mut self) -> Stack {
        // SAFETY: `self` ends here, and its destructor allows for a missing stack.
        unsafe { self.take_stack() }
    }

    /// Returns the stack of a complete fiber, as [`Fiber::into_stack`] does, without moving the
    /// fiber.
    ///
    /// # Safety
    /// As in the native backend, the fiber must not be used or dropped afterwards.
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
                // The stack's head is still in use.
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

    /// Returns whether the fiber is being unwound. The caller runs on the fiber's thread, and that
    /// thread panics.
    pub(crate) fn is_unwinding(&self, _top: usize, _size: usize) -> bool {
        true
    }

    /// Switches back to the most recent resumer. Returns the value of the next resumption.
    pub(crate) fn suspend(&self, value: Yield) -> In {
        // SAFETY: the fiber's own thread keeps the slot alive, and has not ended.
        unsafe { &*self.output }.put(Some(value));
        self.wait()
    }

    fn wait(&self) -> In {
        // SAFETY: the fiber's own thread keeps the slot alive, and has not ended.
        let Input { value, block } = unsafe { &*self.input }.take();
        // SAFETY: B1: the thread that passed the baton waits.
        unsafe { local::borrow(block) };
        match value {
            Some(value) => value,
            None => panic::resume_unwind(Box::new(ForcedUnwind(self.fiber))),
        }
    }
}
