//! Small blocks of memory, kept for reuse by the thread that freed them.
//!
//! A task's box is allocated and freed once for each spawn, mostly by the same worker, and mostly
//! in one of a few sizes. A list of free blocks for each size does this in a dozen instructions.
//! The general allocator takes a hundred and fifty. Blocks come from that allocator, always with
//! the size of a whole class. So it does not matter which thread frees a block, or whether that
//! thread keeps any.
//!
//! # Magazines
//! If one worker spawns tasks that others run, it only allocates, and they only free. The general
//! allocator would then lock the spawner's memory for each block, and the workers would wait for
//! each other. So blocks move between threads in *magazines* of [`MAGAZINE`] (Bonwick and Adams,
//! "Magazines and Vmem", 2001). A thread has a list that it works on, and one magazine in reserve.
//! If both are full, or empty, it brings a magazine to the *depot* of the size, or fetches one. A
//! depot keeps [`DEPOT_BYTES`] at most. What goes beyond that, and what is missing, is the general
//! allocator's.
#![expect(unsafe_code, reason = "allocates")]

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::local;

/// The sizes of the classes are multiples of this.
const STEP: usize = 64;
/// The number of classes. Blocks above `STEP * CLASSES` bytes are not kept.
const CLASSES: usize = 16;
/// The number of blocks in a magazine. A thread keeps twice as many of each class.
const MAGAZINE: usize = 512;
/// After an empty depot, this many blocks come from the general allocator before the depot is asked
/// again.
const ASKED_ONE_IN: usize = 64;
/// The most memory in the depot of a class.
const DEPOT_BYTES: usize = 4 << 20;
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

/// A thread's free blocks of one class.
#[derive(Debug)]
struct Class {
    /// The list that the thread works on, with at most [`MAGAZINE`] blocks.
    first: Cell<*mut Free>,
    count: Cell<usize>,
    /// A full magazine, or null.
    reserve: Cell<*mut Free>,
    /// How many blocks come from the general allocator before the depot, which was empty, is asked
    /// again.
    until_asked: Cell<usize>,
}

impl Default for Class {
    fn default() -> Class {
        let null = || Cell::new(ptr::null_mut());
        Class { first: null(), count: Cell::new(0), reserve: null(), until_asked: Cell::new(0) }
    }
}

/// A free block.
#[repr(C)]
struct Free {
    next: *mut Free,
    /// The next magazine, if this is the first block of a magazine in a depot.
    next_magazine: *mut Free,
}

/// The full magazines of one class, which any thread may fetch.
struct Depot {
    first: *mut Free,
    count: usize,
}

// SAFETY: M1: the blocks are free memory, and belong to the depot.
unsafe impl Send for Depot {}

/// A depot on a cache line of its own.
#[repr(align(64))]
struct Shelf(Mutex<Depot>);

static DEPOTS: [Shelf; CLASSES] =
    [const { Shelf(Mutex::new(Depot { first: ptr::null_mut(), count: 0 })) }; CLASSES];

fn depot(class: usize) -> MutexGuard<'static, Depot> {
    DEPOTS[class].0.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Depot {
    /// Takes a magazine. If the depot is full, gives it back.
    ///
    /// # Safety
    /// M1: the blocks are free memory of this class, linked to a list, and are given away.
    unsafe fn bring(&mut self, class: usize, magazine: *mut Free) -> Option<*mut Free> {
        if self.count * MAGAZINE * class_layout(class).size() >= DEPOT_BYTES {
            return Some(magazine);
        }
        // SAFETY: M1, the caller's promise.
        unsafe { (*magazine).next_magazine = self.first };
        self.first = magazine;
        self.count += 1;
        None
    }

    /// Returns a magazine, or null if there is none.
    fn fetch(&mut self) -> *mut Free {
        let magazine = self.first;
        if !magazine.is_null() {
            // SAFETY: M1: a magazine in the depot is free memory with this link.
            self.first = unsafe { (*magazine).next_magazine };
            self.count -= 1;
        }
        magazine
    }
}

/// Returns the blocks of a list to the general allocator.
///
/// # Safety
/// M1: the blocks are free memory of this class, and are given away.
unsafe fn give_back(class: usize, mut block: *mut Free) {
    while !block.is_null() {
        // SAFETY: M1: a block in a list is free memory that begins with its link.
        let next = unsafe { (*block).next };
        // SAFETY: M1: blocks of a class are allocated with the class's layout.
        unsafe { dealloc(block.cast(), class_layout(class)) };
        block = next;
    }
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
        let list = &blocks.classes[class];
        if list.first.get().is_null() {
            list.refill(class);
        }
        let first = list.first.get();
        if !first.is_null() {
            // SAFETY: M1: a block in the list is free memory that begins with its link.
            list.first.set(unsafe { (*first).next });
            list.count.set(list.count.get() - 1);
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
        if class.count.get() == MAGAZINE {
            blocks.make_room(class_index);
        }
        let free = block.cast::<Free>();
        // SAFETY: M1: the block is free memory, and at least as large and as aligned as the links.
        // The first one begins it, and the second is written in a depot.
        unsafe { free.cast::<*mut Free>().write(class.first.get()) };
        class.first.set(free.as_ptr());
        class.count.set(class.count.get() + 1);
    });
    if kept.is_none() {
        // SAFETY: M1: blocks of a class are allocated with the class's layout.
        unsafe { dealloc(block.as_ptr(), class_layout(class_index)) };
    }
}

/// Calls `each` with the free blocks that this thread keeps.
#[cfg(not(any(ecru_baton, miri, loom)))]
pub(crate) fn each_free(mut each: impl FnMut(std::ops::Range<usize>)) {
    of_this_thread(|blocks| {
        for (class, list) in blocks.classes.iter().enumerate() {
            for first in [list.first.get(), list.reserve.get()] {
                let mut block = first;
                while !block.is_null() {
                    each(block.addr()..block.addr() + class_layout(class).size());
                    // SAFETY: M1: a block in a list is free memory that begins with its link.
                    block = unsafe { (*block).next };
                }
            }
        }
    });
}

impl Class {
    /// Fills the empty list from the reserve or the depot, if one of them has a magazine.
    #[cold]
    fn refill(&self, class: usize) {
        let mut magazine = self.reserve.replace(ptr::null_mut());
        if magazine.is_null() {
            if let Some(left) = self.until_asked.get().checked_sub(1) {
                return self.until_asked.set(left);
            }
            magazine = depot(class).fetch();
        }
        if magazine.is_null() {
            self.until_asked.set(ASKED_ONE_IN - 1);
        } else {
            self.first.set(magazine);
            self.count.set(MAGAZINE);
        }
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

    /// Makes room in a full list: it becomes the reserve, and the old reserve goes to the depot.
    #[cold]
    fn make_room(&self, index: usize) {
        let class = &self.classes[index];
        class.count.set(0);
        let full = class.first.replace(ptr::null_mut());
        let reserve = class.reserve.replace(full);
        if reserve.is_null() {
            return;
        }
        // SAFETY: M1: the reserve was this thread's.
        let rest = unsafe { depot(index).bring(index, reserve) };
        if let Some(rest) = rest {
            self.returned.set(self.returned.get() + MAGAZINE);
            // SAFETY: M1: the reserve was this thread's.
            unsafe { give_back(index, rest) };
        }
    }

    /// Returns this thread's blocks, and those of the depots, to the general allocator.
    fn trim(&self) {
        for (index, class) in self.classes.iter().enumerate() {
            class.count.set(0);
            for list in [&class.first, &class.reserve] {
                // SAFETY: M1: the lists are this thread's.
                unsafe { give_back(index, list.replace(ptr::null_mut())) };
            }
            loop {
                let magazine = depot(index).fetch();
                if magazine.is_null() {
                    break;
                }
                // SAFETY: M1: the magazine was the depot's.
                unsafe { give_back(index, magazine) };
            }
        }
    }
}

impl Drop for Blocks {
    fn drop(&mut self) {
        self.trim();
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use super::*;

    /// A class that no task of another test has.
    const CLASS: usize = CLASSES - 2;
    const LAYOUT: Layout = class_layout(CLASS);

    /// Runs `body` on a thread with free blocks of its own.
    fn with_blocks<T: Send>(body: impl FnOnce(&Blocks) -> T + Send) -> T {
        std::thread::scope(|s| {
            let thread = s.spawn(|| {
                let blocks = Blocks::default();
                local::with(|local| local.blocks.set((&raw const blocks).cast()));
                let done = body(&blocks);
                local::with(|local| local.blocks.set(ptr::null()));
                done
            });
            thread.join().unwrap()
        })
    }

    fn address(block: &NonNull<u8>) -> usize {
        block.addr().get()
    }

    fn allocate_many(count: usize) -> Vec<usize> {
        (0..count).map(|_| address(&allocate(LAYOUT))).collect()
    }

    fn free_all(blocks: &[usize]) {
        for block in blocks {
            // SAFETY: M1: each was allocated with this layout, and is freed once.
            unsafe {
                free(NonNull::new(ptr::with_exposed_provenance_mut(*block)).unwrap(), LAYOUT)
            };
        }
    }

    /// One test, because the depots belong to the process.
    #[test]
    fn blocks_that_one_thread_frees_are_allocated_by_another() {
        let count = 5 * MAGAZINE;
        let mut first = with_blocks(|_| allocate_many(count));
        let mut second = with_blocks(|blocks| {
            free_all(&first);
            // A list and one magazine in reserve stay with the thread.
            assert_eq!(depot(CLASS).count, 3);
            let list = &blocks.classes[CLASS];
            assert_eq!(list.count.get(), MAGAZINE);
            assert!(!list.reserve.get().is_null());
            with_blocks(|_| {
                let second = allocate_many(3 * MAGAZINE);
                assert_eq!(depot(CLASS).count, 0);
                second
            })
        });
        first.sort_unstable();
        second.sort_unstable();
        second.dedup();
        assert_eq!(second.len(), 3 * MAGAZINE, "no block twice");
        assert!(second.iter().all(|block| first.binary_search(block).is_ok()));

        // A depot does not grow without end, and the blocks are returned in the end.
        let most = DEPOT_BYTES / (MAGAZINE * LAYOUT.size());
        with_blocks(|blocks| {
            let more = allocate_many((most + 6) * MAGAZINE);
            free_all(&more);
            free_all(&second);
            let kept = depot(CLASS).count;
            assert!(kept >= most && kept <= most + 1, "{kept} of {most}");
            assert!(blocks.returned.get() >= 4 * MAGAZINE);
            blocks.tidy(true);
            assert_eq!((depot(CLASS).count, blocks.returned.get()), (0, 0));
            assert!(blocks.classes[CLASS].first.get().is_null());
        });
    }
}
