//! The system calls that map address space, unmap it, and give pages back.
//!
//! Miri and loom do not support mappings. Under them, address space is plain zeroed memory.

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
        // SAFETY: a new mapping at an address of the kernel's choice affects nothing that exists.
        let start = unsafe {
            rustix::mm::mmap_anonymous(
                ptr::null_mut(),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                flags,
            )
        }?;
        // A huge page would make 2 MiB resident for each stack that is touched. Kernels without
        // huge pages refuse the advice.
        // SAFETY: the range was just mapped, and the advice does not change its contents.
        let _ = unsafe { rustix::mm::madvise(start, len, Advice::LinuxNoHugepage) };
        Ok(NonNull::new(start.cast()).expect("the kernel maps nothing at address 0"))
    }

    pub(super) unsafe fn unmap(start: NonNull<u8>, len: usize) {
        // SAFETY: C2: by the caller's contract, nothing in the range is owned.
        let result = unsafe { rustix::mm::munmap(start.as_ptr().cast(), len) };
        debug_assert!(result.is_ok(), "{result:?}");
    }

    pub(super) unsafe fn discard(start: NonNull<u8>, len: usize) {
        // SAFETY: C2: by the caller's contract, the contents of the range are not needed.
        let result =
            unsafe { rustix::mm::madvise(start.as_ptr().cast(), len, Advice::LinuxDontNeed) };
        // Locked memory cannot be given back. It then stays resident, which costs only memory.
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
        // SAFETY: C2: the memory came from `map` with this length, and nothing in it is owned.
        unsafe { dealloc(start.as_ptr(), layout(len)) };
    }

    pub(super) unsafe fn discard(_start: NonNull<u8>, _len: usize) {}
}

/// Maps `len` bytes of address space, readable and writable, without reserving memory for them.
pub(super) fn map(len: usize) -> io::Result<NonNull<u8>> {
    imp::map(len)
}

/// Unmaps address space.
///
/// # Safety
/// C2: the range came from [`map`] as a whole, and no `Stack` owns a slot in it.
pub(super) unsafe fn unmap(start: NonNull<u8>, len: usize) {
    // SAFETY: C2, by this function's contract.
    unsafe { imp::unmap(start, len) };
}

/// Gives the memory of a range back to the system. The range reads as zero afterwards. Guards in it
/// stay.
///
/// # Safety
/// C2: no `Stack` owns a slot in the range.
pub(super) unsafe fn discard(start: NonNull<u8>, len: usize) {
    // SAFETY: C2, by this function's contract.
    unsafe { imp::discard(start, len) };
}

/// Takes the memory of the topmost pages of a batch from the system, as the first use of each
/// would. This is a hint and may do nothing.
pub(super) fn populate_tops(stacks: &[Stack]) {
    let page = page_size();
    let tops = stacks.iter().map(|stack| {
        stack.top().map_addr(|top| {
            NonZeroUsize::new(top.get() & !(page - 1)).expect("no stack lies in the first page")
        })
    });
    // SAFETY: C1: these pages belong to the stacks, and their contents do not change.
    unsafe { vectored::advise(tops, page, libc::MADV_POPULATE_WRITE) };
}
