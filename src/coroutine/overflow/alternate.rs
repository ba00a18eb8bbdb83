//! The stack that the handler runs on: one per thread, as the thread's other stack is the one that is used up.
//!
//! `std` gives its threads one of 8 KiB, which a frame of wide vector registers nearly fills; threads that `std` did not start
//! may have none. So each thread that runs coroutines gets a larger one, which goes when the thread ends.

use std::cell::Cell;
use std::mem;
use std::ptr;

use libc::stack_t;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};

use crate::coroutine::stack::page_size;

/// Room for the handlers, beside what the kernel itself puts there.
const ROOM: usize = 64 * 1024;

/// Asks the kernel how much it puts on a signal stack; `libc` does not name it everywhere.
const AT_MINSIGSTKSZ: libc::c_ulong = 51;

thread_local! {
    static ENSURED: Cell<bool> = const { Cell::new(false) };
    /// Only for its destructor, at the thread's end.
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
    // At the end of a thread, when its destructors run, it is too late for one that would have to be removed.
    let _ = OWN.try_with(|_| ());
}

/// The mapping, and what was there before.
struct Alternate {
    start: *mut libc::c_void,
    len: usize,
    before: stack_t,
}

impl Alternate {
    fn make() -> Alternate {
        // SAFETY: all zero is a valid value of this plain struct.
        let mut before: stack_t = unsafe { mem::zeroed() };
        // SAFETY: only asks.
        unsafe { libc::sigaltstack(ptr::null(), &raw mut before) };
        let mut this = Alternate { start: ptr::null_mut(), len: 0, before };
        // SAFETY: asks the auxiliary vector; 0 if it does not know.
        let least = unsafe { libc::getauxval(AT_MINSIGSTKSZ) };
        let room = ROOM + usize::try_from(least).unwrap_or(0);
        if before.ss_flags & libc::SS_DISABLE == 0 && before.ss_size >= room {
            return this;
        }
        let page = page_size();
        let len = room.next_multiple_of(page) + page;
        let (protection, flags) =
            (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::STACK);
        // SAFETY: a fresh mapping at an address of the kernel's choice.
        let mapped = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), len, protection, flags) };
        let Ok(start) = mapped else { return this };
        // SAFETY: the lowest page of the new mapping, which nobody uses yet.
        let _ = unsafe { rustix::mm::mprotect(start, page, MprotectFlags::empty()) };
        let usable =
            stack_t { ss_sp: start.wrapping_byte_add(page), ss_flags: 0, ss_size: len - page };
        // SAFETY: the memory is ours, and stays until it is replaced in `drop`.
        if unsafe { libc::sigaltstack(&raw const usable, ptr::null_mut()) } == 0 {
            (this.start, this.len) = (start, len);
        } else {
            // SAFETY: mapped above, and not in use.
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
        // SAFETY: puts back what was there when the thread first ran a coroutine; `std` removes its own later.
        if unsafe { libc::sigaltstack(&raw const self.before, ptr::null_mut()) } == 0 {
            // SAFETY: it is not the alternate stack any more, and nothing else refers to it.
            let _ = unsafe { rustix::mm::munmap(self.start, self.len) };
        }
    }
}
