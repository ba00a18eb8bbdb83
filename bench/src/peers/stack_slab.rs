//! A slab of stacks for corosensei: one mapping, cut into strides. It is the fastest peer that a
//! program could build on corosensei.
//!
//! It has no guard pages, while ecru's stacks have. It is a peer for speed, not for use.

#![expect(unsafe_code, reason = "maps memory and tells corosensei where the stacks in it are")]

use std::num::NonZeroUsize;
use std::ptr;

use corosensei::stack::{Stack, StackPointer};
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};

/// The virtual size of one stack, which is ecru's default.
const STRIDE: usize = 256 * 1024;

/// Stack tops at the same offset within a page share the same few cache sets. This distance spreads
/// them.
const STAGGER: usize = 128;

/// The number of different tops when staggered.
const STAGGERED_TOPS: usize = 16;

/// The mapping. It is never unmapped, because its stacks live as long as the child process that
/// measures with them.
pub(crate) struct StackSlab {
    base: usize,
    count: usize,
}

impl StackSlab {
    /// Maps room for `count` stacks, without touching any page.
    pub(crate) fn new(count: usize) -> Self {
        let length = count * STRIDE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address that the kernel chooses overlaps nothing.
        let base = unsafe {
            mmap_anonymous(ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, flags)
        };
        let base = base.expect("the address space has room for the slab");
        // SAFETY: the range is the mapping just made, and the advice does not change its contents.
        unsafe { madvise(base, length, Advice::LinuxNoHugepage) }
            .expect("the kernel takes the advice");
        Self { base: base.expose_provenance(), count }
    }

    /// Returns all its stacks. With `staggered`, their tops are at different offsets within a page.
    pub(crate) fn stacks(&self, staggered: bool) -> impl Iterator<Item = SlabStack> + use<> {
        let base = self.base;
        (0..self.count).map(move |index| {
            let lowered = if staggered { index % STAGGERED_TOPS * STAGGER } else { 0 };
            SlabStack { base: base + (index + 1) * STRIDE - lowered, limit: base + index * STRIDE }
        })
    }
}

/// One stack of a slab.
pub(crate) struct SlabStack {
    base: usize,
    limit: usize,
}

// SAFETY: both ends are aligned to 128 bytes and are within the slab, no two stacks overlap, and a
// stack is far larger than the minimum size. The required guard page is missing: the rows run a
// loop that needs a few hundred bytes of the 256 KiB.
unsafe impl Stack for SlabStack {
    fn base(&self) -> StackPointer {
        NonZeroUsize::new(self.base).expect("a mapping is never at zero")
    }

    fn limit(&self) -> StackPointer {
        NonZeroUsize::new(self.limit).expect("a mapping is never at zero")
    }
}
