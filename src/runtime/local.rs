//! The smallest event loop: closures that are run soon, on this thread.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;

/// A queue of closures, for programs that have a loop of their own (a frame of a game, a turn of a user interface) and want
/// coroutines and callbacks to go on from there. It needs no runtime and starts no thread.
///
/// # Examples
/// ```
/// use std::cell::Cell;
/// use std::rc::Rc;
///
/// let local = ecru::LocalRuntime::new();
/// let frames = Rc::new(Cell::new(0));
/// let counted = Rc::clone(&frames);
/// local.run_soon(move || counted.set(counted.get() + 1));
/// assert!(local.tick());
/// assert!(!local.tick());
/// assert_eq!(frames.get(), 1);
/// ```
#[derive(Default)]
pub struct LocalRuntime {
    queue: RefCell<VecDeque<Box<dyn FnOnce()>>>,
}

impl LocalRuntime {
    /// One with nothing queued.
    #[must_use]
    pub fn new() -> LocalRuntime {
        LocalRuntime::default()
    }

    /// Queues a closure for the next [`tick`](LocalRuntime::tick). Closures that run may queue more.
    pub fn run_soon(&self, closure: impl FnOnce() + 'static) {
        self.queue.borrow_mut().push_back(Box::new(closure));
    }

    /// Runs what was queued before this call, in the order of queueing; what it queues itself waits for the next tick. Returns
    /// whether there was anything to run.
    ///
    /// # Panics
    /// With the panic of a closure; those behind it stay queued.
    pub fn tick(&self) -> bool {
        let queued = self.queue.borrow().len();
        for _ in 0..queued {
            // A closure may call `tick` itself, and so leave less than there was.
            let Some(closure) = self.queue.borrow_mut().pop_front() else { break };
            closure();
        }
        queued > 0
    }
}

impl fmt::Debug for LocalRuntime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LocalRuntime").field("queued", &self.queue.borrow().len()).finish()
    }
}
