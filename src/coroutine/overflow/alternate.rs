//! The alternate stack that the signal handler runs on. Each thread needs one, because the other
//! stack of the thread is used up.
//!
//! `std` gives its threads an alternate stack of 8 KiB, which a frame of wide vector registers
//! nearly fills. Threads that `std` did not start may have none. So each thread that runs
//! coroutines gets a larger one, which is unmapped when the thread ends.

use std::cell::Cell;
use std::mem;
use std::ptr;

use libc::stack_t;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

use crate::coroutine::stack::page_size;

/// The size for the handlers, in addition to the part that the kernel uses itself.
const ROOM: usize = 64 * 1024;

/// The key of the size that the kernel uses on a signal stack. `libc` does not define it on all
/// targets.
const AT_MINSIGSTKSZ: libc::c_ulong = 51;

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

/// The mapping, and the alternate stack that was installed before.
struct Alternate {
    start: *mut libc::c_void,
    len: usize,
    before: stack_t,
}

impl Alternate {
    fn make() -> Alternate {
        // SAFETY: all zero is a valid value of this plain struct.
        let mut before: stack_t = unsafe { mem::zeroed() };
        // SAFETY: the call only queries the present state.
        unsafe { libc::sigaltstack(ptr::null(), &raw mut before) };
        let mut this = Alternate { start: ptr::null_mut(), len: 0, before };
        // SAFETY: reads the auxiliary vector, and returns 0 if the key is unknown.
        let least = unsafe { libc::getauxval(AT_MINSIGSTKSZ) };
        let room = ROOM + usize::try_from(least).unwrap_or(0);
        if before.ss_flags & libc::SS_DISABLE == 0 && before.ss_size >= room {
            return this;
        }
        let page = page_size();
        let len = room.next_multiple_of(page) + page;
        let (protection, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::STACK);
        // SAFETY: this is a new mapping at an address of the kernel's choice.
        let mapped = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), len, protection, flags) };
        let Ok(start) = mapped else { return this };
        // SAFETY: this is the lowest page of the new mapping, which nothing uses yet.
        let _ = unsafe { rustix::mm::mprotect(start, page, MprotectFlags::empty()) };
        let usable =
            stack_t { ss_sp: start.wrapping_byte_add(page), ss_flags: 0, ss_size: len - page };
        // SAFETY: this function owns the memory, which stays mapped until `drop` replaces it.
        if unsafe { libc::sigaltstack(&raw const usable, ptr::null_mut()) } == 0 {
            (this.start, this.len) = (start, len);
        } else {
            // SAFETY: the range was mapped above and is not in use.
            let _ = unsafe { rustix::mm::munmap(start, len) };
        }
        this
    }
}

impl Drop for Alternate {
    fn drop(&mut self) {
        if self.start.is_null() {
            return;
        }
        // SAFETY: this restores the state from before the thread first ran a coroutine. `std`
        // removes its own alternate stack later.
        if unsafe { libc::sigaltstack(&raw const self.before, ptr::null_mut()) } == 0 {
            // SAFETY: the memory is no longer the alternate stack, and nothing else refers to it.
            let _ = unsafe { rustix::mm::munmap(self.start, self.len) };
        }
    }
}
