//! Small blocks of memory, kept for reuse by the thread that freed them.
//!
//! A task's box is allocated and freed once for each spawn, mostly by the same worker, and mostly
//! in one of a few sizes. A list of free blocks for each size does this in a dozen instructions.
//! The general allocator takes a hundred and fifty. Blocks come from that allocator, always with
//! the size of a whole class. So it does not matter which thread frees a block, or whether that
//! thread keeps any.
#![expect(unsafe_code, reason = "allocates")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::{self, NonNull};

use super::local;

/// The sizes of the classes are multiples of this.
const STEP: usize = 64;
/// The number of classes. Blocks above `STEP * CLASSES` bytes are not kept.
const CLASSES: usize = 16;
/// The number of blocks of each class that a thread keeps.
const KEPT: usize = 1024;
/// The alignment that the general allocator guarantees anyway.
const ALIGN: usize = 16;

/// A thread's free blocks.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    classes: [Class; CLASSES],
    /// How many blocks went back to the general allocator since the last trim.
    returned: Cell<usize>,
}

/// After this many returned blocks, the general allocator is asked to give their pages to the
/// system.
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

/// Returns the class of a layout, or `None` if it has none.
#[inline]
const fn class_of(layout: Layout) -> Option<usize> {
    // Blocks are not reused under Miri, so that it detects uses after free.
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
    // SAFETY: R1: a worker's blocks exist as long as the cell names them, and only its thread reads
    // the cell.
    unsafe { blocks.as_ref() }.map(f)
}

/// Allocates memory for a layout. It is freed by [`free`].
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
    // SAFETY: M1: neither a class nor a task's box has size 0.
    let block =
        NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
    // `free` may be called with a pointer made from a shared reference, through which nothing may
    // be written. It gets this pointer's provenance instead.
    block.expose_provenance();
    block
}

/// Frees memory that came from [`allocate`].
///
/// # Safety
/// M1: `block` came from `allocate` with this layout, and is not used again.
#[inline]
pub(crate) unsafe fn free(block: NonNull<u8>, layout: Layout) {
    // Restores the provenance of the pointer that was allocated.
    let block = NonNull::<u8>::with_exposed_provenance(block.addr());
    let Some(class_index) = class_of(layout) else {
        // SAFETY: M1, by this function's contract.
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
        // SAFETY: M1: the block is free memory, and at least as large and as aligned as a link.
        unsafe { free.write(Free { next: class.first.get() }) };
        class.first.set(free.as_ptr());
        class.count.set(class.count.get() + 1);
        true
    });
    if kept != Some(true) {
        // SAFETY: M1: blocks of a class are allocated with the class's layout.
        unsafe { dealloc(block.as_ptr(), class_layout(class_index)) };
    }
}

impl Blocks {
    /// Returns all blocks to the general allocator. After very many blocks, also makes that
    /// allocator give their pages to the system. It does not do so by itself while memory that was
    /// allocated later is in use.
    pub(crate) fn tidy(&self, last_time: bool) {
        self.trim();
        let returned = if last_time { self.returned.take() } else { self.returned.get() };
        if returned >= MANY {
            #[cfg(all(target_os = "linux", target_env = "gnu"))]
            // SAFETY: M1: the call has no preconditions.
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
                // SAFETY: M1: blocks of a class are allocated with the class's layout.
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
