//! A minimal event loop, which runs queued closures on the current thread.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;

/// A queue of closures for programs that have their own main loop, such as the frames of a game or
/// the event loop of a user interface. When that loop calls [`tick`](LocalRuntime::tick), the
/// queued closures run, for example to resume coroutines. It needs no runtime and starts no thread.
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
    /// Creates an empty queue.
    #[must_use]
    pub fn new() -> LocalRuntime {
        LocalRuntime::default()
    }

    /// Queues a closure for the next [`tick`](LocalRuntime::tick). A running closure may queue
    /// more.
    pub fn run_soon(&self, closure: impl FnOnce() + 'static) {
        self.queue.borrow_mut().push_back(Box::new(closure));
    }

    /// Runs the closures that were queued before this call, in the order in which they were queued.
    /// Closures that they queue wait for the next tick. Returns whether there was anything to run.
    ///
    /// # Panics
    /// Panics if a closure panics. The closures behind it stay queued.
    pub fn tick(&self) -> bool {
        let queued = self.queue.borrow().len();
        for _ in 0..queued {
            // A closure may itself call `tick`, and so leave fewer closures than there were.
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
