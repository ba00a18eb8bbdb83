//! Small blocks of memory, kept for reuse by the thread that freed them.
//!
//! A task's box is allocated and freed once for each spawn, mostly by the same worker, and mostly in one of a few sizes. A list
//! of free blocks for each size does that in a dozen instructions, where the general allocator takes a hundred and fifty.
//! Blocks come from that allocator, always in whole classes, so it does not matter which thread frees one, or whether it keeps
//! any.
#![expect(unsafe_code, reason = "allocates")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::{self, NonNull};

use super::local;

/// Classes are multiples of this.
const STEP: usize = 64;
/// Blocks above `STEP * CLASSES` bytes are not kept.
const CLASSES: usize = 16;
/// Blocks of a class that a thread keeps.
const KEPT: usize = 1024;
/// What the general allocator aligns to anyway.
const ALIGN: usize = 16;

/// A thread's free blocks.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    classes: [Class; CLASSES],
    /// Blocks that went back to the general allocator since the last trim.
    returned: Cell<usize>,
}

/// So many blocks given back are worth asking the general allocator to pass their pages on to the system.
const MANY: usize = 1 << 16;

#[derive(Debug)]
struct Class {
    first: Cell<*mut Free>,
    count: Cell<usize>,
}

impl Default for Class {
    fn default() -> Class {
        Class { first: Cell::new(ptr::null_mut()), count: Cell::new(0) }
    }
}

struct Free {
    next: *mut Free,
}

/// The class of a layout, if it has one.
#[inline]
const fn class_of(layout: Layout) -> Option<usize> {
    // Miri is to see who uses what has been freed.
    if cfg!(not(miri))
        && layout.align() <= ALIGN
        && layout.size() > 0
        && layout.size() <= STEP * CLASSES
    {
        Some((layout.size() - 1) / STEP)
    } else {
        None
    }
}

#[inline]
const fn class_layout(class: usize) -> Layout {
    match Layout::from_size_align((class + 1) * STEP, ALIGN) {
        Ok(layout) => layout,
        Err(_) => unreachable!(),
    }
}

#[inline]
fn of_this_thread<R>(f: impl FnOnce(&Blocks) -> R) -> Option<R> {
    let blocks = local::with(|local| local.blocks.get()).cast::<Blocks>();
    // SAFETY: R1: a worker's blocks are there for as long as the cell names them, and only its thread reads the cell.
    unsafe { blocks.as_ref() }.map(f)
}

/// Allocates memory for a layout, to be given back by [`free`].
#[inline]
pub(crate) fn allocate(layout: Layout) -> NonNull<u8> {
    let Some(class) = class_of(layout) else { return from_system(layout) };
    let kept = of_this_thread(|blocks| {
        let class = &blocks.classes[class];
        let first = class.first.get();
        if !first.is_null() {
            // SAFETY: M1: a block in the list is free memory that begins with its link.
            class.first.set(unsafe { (*first).next });
            class.count.set(class.count.get() - 1);
        }
        first
    });
    match kept.and_then(NonNull::new) {
        Some(block) => block.cast(),
        None => from_system(class_layout(class)),
    }
}

#[cold]
fn from_system(layout: Layout) -> NonNull<u8> {
    // SAFETY: M1: classes are not empty, and no task's box is.
    let block =
        NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
    // Whoever frees it may know it by a shared reference only, with which nothing may be written: see `free`.
    block.expose_provenance();
    block
}

/// Gives back what [`allocate`] gave out.
///
/// # Safety
/// M1: `block` came from `allocate` with this layout, and is not used again.
#[inline]
pub(crate) unsafe fn free(block: NonNull<u8>, layout: Layout) {
    // The pointer that it was allocated with.
    let block = NonNull::<u8>::with_exposed_provenance(block.addr());
    let Some(class_index) = class_of(layout) else {
        // SAFETY: M1, the caller's promise.
        unsafe { dealloc(block.as_ptr(), layout) };
        return;
    };
    let kept = of_this_thread(|blocks| {
        let class = &blocks.classes[class_index];
        if class.count.get() == KEPT {
            blocks.returned.set(blocks.returned.get() + 1);
            return false;
        }
        let free = block.cast::<Free>();
        // SAFETY: M1: the block is free memory, at least as large and as aligned as a link.
        unsafe { free.write(Free { next: class.first.get() }) };
        class.first.set(free.as_ptr());
        class.count.set(class.count.get() + 1);
        true
    });
    if kept != Some(true) {
        // SAFETY: M1: blocks of a class are allocated with its layout.
        unsafe { dealloc(block.as_ptr(), class_layout(class_index)) };
    }
}

impl Blocks {
    /// Gives everything back to the general allocator; after very many blocks, makes it give their pages to the system, which
    /// it does not do by itself while anything that was allocated later is still in use.
    pub(crate) fn tidy(&self, last_time: bool) {
        self.trim();
        let returned = if last_time { self.returned.take() } else { self.returned.get() };
        if returned >= MANY {
            #[cfg(all(target_os = "linux", target_env = "gnu"))]
            // SAFETY: M1: has no conditions.
            unsafe {
                libc::malloc_trim(0);
            }
        }
    }

    fn trim(&self) {
        for (index, class) in self.classes.iter().enumerate() {
            let mut block = class.first.replace(ptr::null_mut());
            class.count.set(0);
            while !block.is_null() {
                // SAFETY: M1: a block in the list is free memory that begins with its link.
                let next = unsafe { (*block).next };
                // SAFETY: M1: blocks of a class are allocated with its layout.
                unsafe { dealloc(block.cast(), class_layout(index)) };
                block = next;
            }
        }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        self.trim();
    }
}
