//! The library's thread-locals: one block of plain cells per OS thread.
//!
//! It is one block so that the baton backend of [`crate::coroutine`] can lend it. That backend
//! gives each coroutine an OS thread of its own, and lends the resumer's block to that thread.
//! "Current task" then means the same on both backends. The block is const-initialized and has no
//! destructor, so destructors of a user's thread-locals may still call into ecru.
//!
//! Each slot belongs to one layer, which its comment names. The other layers do not access it. The
//! pointers are untyped, because the types that they point to are defined in higher layers.

use std::cell::Cell;
use std::ptr;

use super::list::Ring;
use super::sync::StaticPtr;

/// The state of one logical thread. All cells are empty at first.
#[derive(Debug)]
pub(crate) struct Local {
    /// `base::blocks`: the free blocks of this thread's worker.
    pub(crate) blocks: Cell<*const ()>,
    /// `base::record`: the ring of this thread's events, or null if it has none.
    pub(crate) recorder: Cell<*const ()>,
    /// `base::sync`: the locks under which user code of this thread runs, innermost first.
    pub(crate) asking: Cell<*const ()>,
    /// `base::simulated`: the simulation whose thread this is. Null on all other threads.
    #[cfg(feature = "sim")]
    pub(crate) simulated: Cell<*const ()>,
    /// `base::random`: the state of the generator, or 0 while it has not been seeded.
    pub(crate) random: Cell<u64>,
    /// `coroutine`: the number of open frames (scopes, timeouts and similar) in the running code. A
    /// coroutine must not suspend over its own open frames.
    pub(crate) open_frames: Cell<u32>,
    /// `park`: the depth of nested `no_suspend` sections, with two flags.
    pub(crate) no_suspend: Cell<u32>,
    /// `park`: the wait whose last look is being executed, or null. A wait takes this look after it
    /// has registered and before it parks.
    pub(crate) last_look: Cell<*const ()>,
    /// `park`: how waits of this thread are carried out. Null means that they block the thread.
    pub(crate) context: Cell<*const ()>,
    /// `park`: the limits of the waits of a plain thread, or null if it has none.
    pub(crate) limits: Cell<*const ()>,
    /// `park`: a wait of a task may listen before it parks.
    pub(crate) listens: Cell<bool>,
    /// `park`: tasks note themselves as holders of locks.
    pub(crate) explains: Cell<bool>,
    /// `park`: when the thread's worker looked around last, in units of 2^20 nanoseconds since its
    /// pool was made, modulo 2^31.
    pub(crate) moment: Cell<u32>,
    /// `source`: the work that the thread's outermost poke does after its own, or null if the
    /// thread is in no poke.
    pub(crate) poking: Cell<*const ()>,
    /// `task`: the header of the running task.
    pub(crate) task: Cell<*const ()>,
    /// `task`: one more than the operations that may be ready in the current poll of a future. 0 if
    /// there is none.
    pub(crate) polls: Cell<u32>,
    /// `task`: the task of that poll.
    pub(crate) polling: Cell<*const ()>,
    /// `task`: the innermost cancel node.
    pub(crate) cancel: Cell<*const ()>,
    /// `task`: the innermost task-local binding.
    pub(crate) bindings: Cell<*const ()>,
    /// `task`: the note about the running task that other threads read by this cell's address.
    pub(crate) busy_with: StaticPtr<()>,
    /// `task`: flags that say what this thread does at each switch.
    pub(crate) hooked: Cell<u8>,
    /// `coroutine`: how many tasks and coroutines of this thread are suspended during unwinding.
    pub(crate) unwinding_at_rest: Cell<u32>,
    /// `coroutine`: a variable in the frame in which the thread's run begins.
    pub(crate) run_frame: Cell<*const ()>,
    /// `coroutine`: how many coroutines are being unwound because code that does not panic has
    /// dropped them.
    pub(crate) forced_unwindings: Cell<u32>,
    /// `coroutine`: set if the thread has made a coroutine, so that `coroutines` is closed.
    pub(crate) has_coroutines: Cell<bool>,
    /// `coroutine`: the control blocks of this thread's coroutines.
    pub(crate) coroutines: Ring,
    /// `sched`: the blocking pool that this thread works for.
    pub(crate) blocking: Cell<*const ()>,
    /// `sched`: this thread's worker.
    pub(crate) worker: Cell<*const ()>,
    /// `sched`: how many operations the current task may still complete without yielding.
    pub(crate) budget: Cell<u32>,
}

impl Local {
    const fn new() -> Local {
        Local {
            blocks: Cell::new(ptr::null()),
            recorder: Cell::new(ptr::null()),
            asking: Cell::new(ptr::null()),
            #[cfg(feature = "sim")]
            simulated: Cell::new(ptr::null()),
            random: Cell::new(0),
            open_frames: Cell::new(0),
            no_suspend: Cell::new(0),
            last_look: Cell::new(ptr::null()),
            context: Cell::new(ptr::null()),
            limits: Cell::new(ptr::null()),
            explains: Cell::new(false),
            moment: Cell::new(0),
            poking: Cell::new(ptr::null()),
            listens: Cell::new(false),
            task: Cell::new(ptr::null()),
            polls: Cell::new(0),
            polling: Cell::new(ptr::null()),
            cancel: Cell::new(ptr::null()),
            bindings: Cell::new(ptr::null()),
            busy_with: StaticPtr::new(ptr::null_mut()),
            hooked: Cell::new(0),
            unwinding_at_rest: Cell::new(0),
            run_frame: Cell::new(ptr::null()),
            forced_unwindings: Cell::new(0),
            has_coroutines: Cell::new(false),
            coroutines: Ring::new(),
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

    /// Calls `f` with this thread's block.
    #[inline(always)]
    pub(crate) fn with<R>(f: impl FnOnce(&Local) -> R) -> R {
        // This goes through the address because `f` inside `LocalKey::with` would be compiled as a
        // separate function unless it is tiny.
        let block = LOCAL.with(ptr::from_ref);
        // SAFETY: the block is const-initialized and has no destructor. It exists as long as its
        // thread, which runs this.
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

    // The threads of a model share one OS thread.
    #[cfg(loom)]
    loom::thread_local! {
        static OWN: Local = Local::new();
    }

    thread_local! {
        static LENT: Cell<*const Local> = const { Cell::new(ptr::null()) };
    }

    /// Calls `f` with the block of the logical thread that runs here.
    pub(crate) fn with<R>(f: impl FnOnce(&Local) -> R) -> R {
        let lent = LENT.get();
        if lent.is_null() {
            return OWN.with(f);
        }
        // SAFETY: B1 (baton): the lender is blocked while its block is lent. So the block is alive,
        // and nothing else accesses it.
        f(unsafe { &*lent })
    }

    /// Returns the block of the logical thread that runs here, to be lent to a coroutine's thread.
    pub(crate) fn lend() -> *const Local {
        with(ptr::from_ref)
    }

    /// Makes this OS thread run as the logical thread with this block.
    ///
    /// # Safety
    /// B1: the lender must neither access its block nor end before this thread has passed the baton
    /// back.
    pub(crate) unsafe fn borrow(block: *const Local) {
        LENT.set(block);
    }
}

pub(crate) use imp::*;
