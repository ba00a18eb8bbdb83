//! The alternate stack that the signal handler runs on. Each thread needs one, because the other
//! stack of the thread is used up.
//!
//! `std` gives its threads an alternate stack of 8 KiB, which a frame of wide vector registers
//! nearly fills. Threads that `std` did not start may have none. So each thread that runs
//! coroutines gets a larger one. A few of them are kept when their threads end, because runs that
//! are short begin and end one after another: each simulation has a thread of its own.

use std::cell::Cell;
use std::mem;
use std::ptr;
use std::sync::{Mutex, PoisonError};

use libc::stack_t;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

use crate::coroutine::stack::page_size;

/// The size for the handlers, in addition to the part that the kernel uses itself.
const ROOM: usize = 64 * 1024;

/// The key of the size that the kernel uses on a signal stack. `libc` does not define it on all
/// targets.
const AT_MINSIGSTKSZ: libc::c_ulong = 51;

/// The most mappings that are kept.
const MOST_KEPT: usize = 4;

/// The mappings of threads that have ended.
static KEPT: Mutex<Vec<Mapping>> = Mutex::new(Vec::new());

thread_local! {
    static ENSURED: Cell<bool> = const { Cell::new(false) };
    /// Exists only for its destructor, which runs at the thread's end.
    static OWN: Alternate = Alternate::make();
}

/// Makes sure that an overflow on this thread can be reported.
#[inline]
pub(crate) fn ensure_alternate_stack() {
    if !ENSURED.get() {
        ensure();
    }
}

#[cold]
fn ensure() {
    ENSURED.set(true);
    // If the thread's destructors are already running, no alternate stack is made, because it could
    // not be removed.
    let _ = OWN.try_with(|_| ());
}

/// Memory for an alternate stack, with a guard as its lowest page.
struct Mapping {
    start: *mut libc::c_void,
    len: usize,
}

// SAFETY: it is owned memory, which no thread uses as a stack while it is a value of this type.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Takes one that is kept and has this size, or makes one.
    fn take(len: usize, page: usize) -> Option<Mapping> {
        let kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner).pop();
        // The size is the same on all threads.
        if let Some(mapping) = kept.filter(|mapping| mapping.len == len) {
            return Some(mapping);
        }
        let (protection, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::STACK);
        // SAFETY: this is a new mapping at an address of the kernel's choice.
        let mapped = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), len, protection, flags) };
        let start = mapped.ok()?;
        // SAFETY: this is the lowest page of the new mapping, which nothing uses yet.
        let _ = unsafe { rustix::mm::mprotect(start, page, MprotectFlags::empty()) };
        Some(Mapping { start, len })
    }

    /// Keeps it for another thread, or unmaps it.
    fn give_back(self) {
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() < MOST_KEPT {
            kept.push(self);
        } else {
            drop(kept);
            // SAFETY: the range is owned, and no thread uses it.
            let _ = unsafe { rustix::mm::munmap(self.start, self.len) };
        }
    }
}

/// The thread's alternate stack, if it needed one, and the one that was installed before.
struct Alternate {
    own: Option<Mapping>,
    before: stack_t,
}

impl Alternate {
    fn make() -> Alternate {
        // SAFETY: all zero is a valid value of this plain struct.
        let mut before: stack_t = unsafe { mem::zeroed() };
        // SAFETY: the call only queries the present state.
        unsafe { libc::sigaltstack(ptr::null(), &raw mut before) };
        let mut this = Alternate { own: None, before };
        // SAFETY: reads the auxiliary vector, and returns 0 if the key is unknown.
        let least = unsafe { libc::getauxval(AT_MINSIGSTKSZ) };
        let room = ROOM + usize::try_from(least).unwrap_or(0);
        if before.ss_flags & libc::SS_DISABLE == 0 && before.ss_size >= room {
            return this;
        }
        let page = page_size();
        let len = room.next_multiple_of(page) + page;
        let Some(mapping) = Mapping::take(len, page) else { return this };
        let usable = stack_t {
            ss_sp: mapping.start.wrapping_byte_add(page),
            ss_flags: 0,
            ss_size: len - page,
        };
        // SAFETY: this function owns the memory, which stays mapped until `drop` replaces it.
        if unsafe { libc::sigaltstack(&raw const usable, ptr::null_mut()) } == 0 {
            this.own = Some(mapping);
        } else {
            mapping.give_back();
        }
        this
    }
}

impl Drop for Alternate {
    fn drop(&mut self) {
        let Some(mapping) = self.own.take() else { return };
        // SAFETY: this restores the state from before the thread first ran a coroutine. `std`
        // removes its own alternate stack later.
        if unsafe { libc::sigaltstack(&raw const self.before, ptr::null_mut()) } == 0 {
            // The memory is no longer the alternate stack, and nothing else refers to it.
            mapping.give_back();
        }
    }
}
