//! The library's thread-locals: one block of plain cells per OS thread.
//!
//! There is one block, so that the thread-baton backend of [`crate::coroutine`] (which gives each coroutine an OS thread of
//! its own) can lend the resumer's block to the thread that stands for the coroutine: "current task" then means the same on
//! both backends. The block is const-initialised and has no destructor, so a user's thread-local destructor may still call
//! into ecru.
//!
//! A slot belongs to one layer, named beside it; the others do not touch it. Pointers are untyped here because the types
//! they point to live higher up.

use std::cell::Cell;
use std::ptr;

use super::sync::StaticPtr;

/// What one logical thread knows. All cells start out empty.
#[derive(Debug)]
pub(crate) struct Local {
    /// `base::blocks`: the free blocks of the worker that this thread is.
    pub(crate) blocks: Cell<*const ()>,
    /// `base::sync`: the thread's number, 0 while it has none.
    pub(crate) thread: Cell<u16>,
    /// `base::sync`: the locks under which user code of this thread runs, innermost first.
    pub(crate) asking: Cell<*const ()>,
    /// `base::random`: the state of the generator.
    pub(crate) random: Cell<u32>,
    /// `coroutine`: scopes, timeouts and the like that are open in the coroutine being executed; it must not suspend then.
    pub(crate) open_frames: Cell<u32>,
    /// `park`: depth of `no_suspend` sections.
    pub(crate) no_suspend: Cell<u32>,
    /// `park`: the wait that looks once more while it is registered, if that is what is being executed.
    pub(crate) last_look: Cell<*const ()>,
    /// `park`: how waits of this thread are carried out; null means that they block it.
    pub(crate) context: Cell<*const ()>,
    /// `park`: a wait of a task may listen before it parks.
    pub(crate) listens: Cell<bool>,
    /// `task`: the header of the task being executed.
    pub(crate) task: Cell<*const ()>,
    /// `task`: the innermost cancel node.
    pub(crate) cancel: Cell<*const ()>,
    /// `task`: the innermost task-local binding.
    pub(crate) bindings: Cell<*const ()>,
    /// `task`: what other threads are told of the task being executed; they read it by its address.
    pub(crate) busy_with: StaticPtr<()>,
    /// `task`: this thread calls the process's hook at switches.
    pub(crate) hooked: Cell<bool>,
    /// `coroutine`: how many tasks and coroutines of this thread are at rest in the middle of an unwinding.
    pub(crate) unwinding_at_rest: Cell<u32>,
    /// `coroutine`: how many coroutines are being unwound because they were dropped, by code that did not panic.
    pub(crate) forced_unwindings: Cell<u32>,
    /// `sched`: the blocking pool that this thread works for.
    pub(crate) blocking: Cell<*const ()>,
    /// `sched`: the worker that this thread is.
    pub(crate) worker: Cell<*const ()>,
    /// `sched`: waits that the current task may still get through without yielding.
    pub(crate) budget: Cell<u32>,
}

impl Local {
    const fn new() -> Local {
        Local {
            blocks: Cell::new(ptr::null()),
            thread: Cell::new(0),
            asking: Cell::new(ptr::null()),
            random: Cell::new(0),
            open_frames: Cell::new(0),
            no_suspend: Cell::new(0),
            last_look: Cell::new(ptr::null()),
            context: Cell::new(ptr::null()),
            listens: Cell::new(false),
            task: Cell::new(ptr::null()),
            cancel: Cell::new(ptr::null()),
            bindings: Cell::new(ptr::null()),
            busy_with: StaticPtr::new(ptr::null_mut()),
            hooked: Cell::new(false),
            unwinding_at_rest: Cell::new(0),
            forced_unwindings: Cell::new(0),
            blocking: Cell::new(ptr::null()),
            worker: Cell::new(ptr::null()),
            budget: Cell::new(0),
        }
    }
}

#[cfg(not(any(ecru_baton, miri, loom)))]
mod imp {
    #![expect(unsafe_code, reason = "reaches the block by its address")]

    use super::Local;
    use std::ptr;

    thread_local! {
        static LOCAL: Local = const { Local::new() };
    }

    /// Reads or writes this thread's block.
    #[inline(always)]
    pub(crate) fn with<R>(f: impl FnOnce(&Local) -> R) -> R {
        // By way of the address: `f` inside of `LocalKey::with` would be compiled as a function of its own wherever it is not tiny.
        let block = LOCAL.with(ptr::from_ref);
        // SAFETY: const-initialised and without a destructor, the block is there for as long as its thread, which runs this.
        f(unsafe { &*block })
    }
}

#[cfg(any(ecru_baton, miri, loom))]
mod imp {
    #![expect(unsafe_code, reason = "the baton lends one thread's block to another")]

    use super::Local;
    use std::cell::Cell;
    use std::ptr;

    #[cfg(not(loom))]
    thread_local! {
        static OWN: Local = const { Local::new() };
    }

    // A model's threads share one of the system's.
    #[cfg(loom)]
    loom::thread_local! {
        static OWN: Local = Local::new();
    }

    thread_local! {
        static LENT: Cell<*const Local> = const { Cell::new(ptr::null()) };
    }

    /// Reads or writes the block of the logical thread that is running here.
    pub(crate) fn with<R>(f: impl FnOnce(&Local) -> R) -> R {
        let lent = LENT.get();
        if lent.is_null() {
            return OWN.with(f);
        }
        // SAFETY: B1 (baton): the lender waits, blocked, for as long as its block is lent, so the block is alive and
        // nobody else touches it.
        f(unsafe { &*lent })
    }

    /// The block of the logical thread that is running here, to be lent to a coroutine's thread.
    pub(crate) fn lend() -> *const Local {
        with(ptr::from_ref)
    }

    /// Makes this OS thread stand for the logical thread whose block this is.
    ///
    /// # Safety
    /// B1: the lender must not touch its block, nor end, until this thread has given the baton back.
    pub(crate) unsafe fn borrow(block: *const Local) {
        LENT.set(block);
    }
}

pub(crate) use imp::*;
