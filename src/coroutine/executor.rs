//! A queue of closures that is run by hand.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;

/// A queue of closures that runs when its owner says so.
///
/// For programs that have a loop of their own, such as the frames of a game or the events of a user
/// interface, and want coroutines and callbacks to go on from there. It needs no runtime, starts no
/// thread, and stays on the thread that made it.
///
/// # Examples
/// ```
/// use ecru::coroutine::{Coroutine, Executor, Yielder};
/// use std::cell::Cell;
/// use std::rc::Rc;
///
/// let executor = Executor::new();
/// let frames = Rc::new(Cell::new(0));
/// let counted = Rc::clone(&frames);
/// let coroutine = Coroutine::new(move |yielder: &Yielder<(), ()>, ()| {
///     counted.set(1);
///     yielder.suspend(());
///     counted.set(2);
/// });
/// executor.run_soon(move || {
///     coroutine.resume(());
/// });
/// assert!(executor.tick());
/// assert_eq!(frames.get(), 1);
/// assert!(!executor.tick());
/// ```
#[derive(Default)]
pub struct Executor {
    queue: RefCell<VecDeque<Box<dyn FnOnce()>>>,
}

impl Executor {
    /// Creates an executor with an empty queue.
    #[must_use]
    pub fn new() -> Executor {
        Executor::default()
    }

    /// Queues a closure for the next [`tick`](Executor::tick). A closure that runs may queue more.
    pub fn run_soon(&self, closure: impl FnOnce() + 'static) {
        self.queue.borrow_mut().push_back(Box::new(closure));
    }

    /// Runs the closures that were queued before this call, in the order of queueing. Closures that
    /// they queue wait for the next tick.
    ///
    /// Returns whether the queue held a closure.
    ///
    /// # Panics
    /// Passes on the panic of a closure. The closures behind it stay queued.
    pub fn tick(&self) -> bool {
        let queued = self.queue.borrow().len();
        for _ in 0..queued {
            // A closure may call `tick` itself, which leaves fewer closures than were counted.
            let Some(closure) = self.queue.borrow_mut().pop_front() else { break };
            closure();
        }
        queued > 0
    }
}

impl fmt::Debug for Executor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Executor").field("queued", &self.queue.borrow().len()).finish()
    }
}
