//! The system calls: take address space, give it back, give pages back.
//!
//! Under Miri and loom, which know no mappings, address space is plain zeroed memory.

use std::io;
use std::num::NonZeroUsize;
use std::ptr::NonNull;

use super::geometry::page_size;
use super::{Stack, vectored};

#[cfg(not(any(miri, loom)))]
mod imp {
    use rustix::mm::{Advice, MapFlags, ProtFlags};
    use std::io;
    use std::ptr::{self, NonNull};

    pub(super) fn map(len: usize) -> io::Result<NonNull<u8>> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::STACK;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
            )
        }?;
        // A huge page would make 2 MiB resident for each stack that is touched. Kernels without huge pages refuse.
        // SAFETY: the range was just mapped; the advice does not change what is in it.
        let _ = unsafe { rustix::mm::madvise(start, len, Advice::LinuxNoHugepage) };
        Ok(NonNull::new(start.cast()).expect("the kernel maps nothing at address 0"))
    }

    pub(super) unsafe fn unmap(start: NonNull<u8>, len: usize) {
        // SAFETY: C2: nobody owns anything in the range, as the caller promises.
        let result = unsafe { rustix::mm::munmap(start.as_ptr().cast(), len) };
        debug_assert!(result.is_ok(), "{result:?}");
    }

    pub(super) unsafe fn discard(start: NonNull<u8>, len: usize) {
        // SAFETY: C2: nobody relies on what is in the range, as the caller promises.
        let result =
            unsafe { rustix::mm::madvise(start.as_ptr().cast(), len, Advice::LinuxDontNeed) };
        // Locked memory cannot be given back; it then stays, which costs memory and nothing else.
        let _ = result;
    }
}

#[cfg(any(miri, loom))]
mod imp {
    use std::alloc::{Layout, alloc_zeroed, dealloc};
    use std::io;
    use std::ptr::NonNull;

    fn layout(len: usize) -> Layout {
        Layout::from_size_align(len, 4096).expect("a slab's length is a whole number of pages")
    }

    pub(super) fn map(len: usize) -> io::Result<NonNull<u8>> {
        // SAFETY: the length is not 0.
        let start = unsafe { alloc_zeroed(layout(len)) };
        NonNull::new(start).ok_or_else(|| io::ErrorKind::OutOfMemory.into())
    }

    pub(super) unsafe fn unmap(start: NonNull<u8>, len: usize) {
        // SAFETY: C2: the memory came from `map` with this length and nobody owns anything in it.
        unsafe { dealloc(start.as_ptr(), layout(len)) };
    }

    pub(super) unsafe fn discard(_start: NonNull<u8>, _len: usize) {}
}

/// Takes `len` bytes of address space, readable and writable, without reserving memory for it.
pub(super) fn map(len: usize) -> io::Result<NonNull<u8>> {
    imp::map(len)
}

/// Gives address space back.
///
/// # Safety
/// C2: the range came from [`map`] as a whole, and no `Stack` owns a slot in it.
pub(super) unsafe fn unmap(start: NonNull<u8>, len: usize) {
    // SAFETY: C2, as promised by the caller.
    unsafe { imp::unmap(start, len) };
}

/// Gives the memory of a range back; it reads as zero afterwards. Guards in it stay.
///
/// # Safety
/// C2: no `Stack` owns a slot in the range.
pub(super) unsafe fn discard(start: NonNull<u8>, len: usize) {
    // SAFETY: C2, as promised by the caller.
    unsafe { imp::discard(start, len) };
}

/// Takes the memory of the topmost pages of a batch from the system, as its first use would. A hint: it may do nothing.
pub(super) fn populate_tops(stacks: &[Stack]) {
    let page = page_size();
    let tops = stacks.iter().map(|stack| {
        stack.top().map_addr(|top| {
            NonZeroUsize::new(top.get() & !(page - 1)).expect("no stack lies in the first page")
        })
    });
    // SAFETY: C1: these pages are the stacks'; nothing in them changes.
    unsafe { vectored::advise(tops, page, libc::MADV_POPULATE_WRITE) };
}
