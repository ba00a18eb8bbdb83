//! The registry of slabs: a list of all slabs of the process, which a signal handler may read.
//!
//! With it, nothing has to be recorded at a switch. The overflow handler finds the stack by the
//! address that faulted, and `remaining_stack` finds it by the address that it runs at.
//!
//! The list of entries only grows. When a slab is unmapped, its entry's base is set to 0, and the
//! entry is reused later. Writers hold the pool's lock and [`WRITERS`]. Readers take no lock. A
//! reader that asks for an address in a slab that is in use always finds it, because that slab's
//! entry does not change meanwhile. For other addresses, a reader may at worst get `None`, or see
//! an entry during a change. It detects that by reading the base a second time.

use std::ptr;
use std::sync::Mutex;
// Not from `base::sync`: these are statics that a signal handler reads, and loom has no part in
// them.
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::geometry::Geometry;

/// The entry of one slab.
#[derive(Debug)]
pub(crate) struct SlabEntry {
    /// The slab's address, or 0 if the entry is vacant. Written last, with Release, which pairs
    /// with the Acquire in [`find`].
    base: AtomicUsize,
    len: AtomicUsize,
    usable: AtomicUsize,
    guard: AtomicUsize,
    next: Option<&'static SlabEntry>,
}

/// The slot that contains an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundSlot {
    /// The slot's lowest usable address.
    pub(crate) limit: usize,
    /// The slot's usable bytes.
    pub(crate) usable: usize,
    /// Where the frames of the slot begin.
    pub(crate) top: usize,
    /// Whether the address lies in the guard.
    pub(crate) in_guard: bool,
}

static FIRST: AtomicPtr<SlabEntry> = AtomicPtr::new(ptr::null_mut());
static WRITERS: Mutex<()> = Mutex::new(());

/// Registers a slab.
pub(super) fn enter(base: usize, len: usize, geometry: Geometry) -> &'static SlabEntry {
    let writers = WRITERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let entry = entries().find(|entry| entry.base.load(Ordering::Relaxed) == 0);
    let entry = entry.unwrap_or_else(|| {
        let entry = Box::leak(Box::new(SlabEntry {
            base: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            usable: AtomicUsize::new(0),
            guard: AtomicUsize::new(0),
            next: entries().next(),
        }));
        FIRST.store(ptr::from_mut(entry), Ordering::Release);
        // The list now contains a pointer to the entry, so only shared references are used from
        // here on.
        entries().next().expect("it was just entered")
    });
    entry.len.store(len, Ordering::Relaxed);
    entry.usable.store(geometry.usable(), Ordering::Relaxed);
    entry.guard.store(geometry.guard(), Ordering::Relaxed);
    entry.base.store(base, Ordering::Release);
    drop(writers);
    entry
}

/// Removes a slab, before it is unmapped.
pub(super) fn leave(entry: &'static SlabEntry) {
    let writers = WRITERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    entry.base.store(0, Ordering::Release);
    drop(writers);
}

/// Returns the slot that contains an address, if it lies in a slab. Async-signal-safe.
pub(crate) fn find(address: usize) -> Option<FoundSlot> {
    entries().find_map(|entry| {
        let base = entry.base.load(Ordering::Acquire);
        let offset = address.wrapping_sub(base);
        if base == 0 || offset >= entry.len.load(Ordering::Relaxed) {
            return None;
        }
        let usable = entry.usable.load(Ordering::Relaxed);
        let guard = entry.guard.load(Ordering::Acquire);
        if entry.base.load(Ordering::Relaxed) != base {
            return None;
        }
        let slot = offset - offset % (usable + guard);
        let end = base + slot + guard + usable;
        let top = end - Geometry::inset(slot / (usable + guard));
        Some(FoundSlot { limit: end - usable, usable, top, in_guard: offset - slot < guard })
    })
}

fn entries() -> impl Iterator<Item = &'static SlabEntry> {
    // SAFETY: C4 (registry): entries are leaked, so a pointer to one is valid for ever. They are
    // written only through their atomics.
    let first = unsafe { FIRST.load(Ordering::Acquire).as_ref() };
    std::iter::successors(first, |entry| entry.next)
}
