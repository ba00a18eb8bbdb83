//! Which address belongs to which stack: a list of all slabs of the process that a signal handler may read.
//!
//! Nothing has to be recorded on a switch that way: the overflow handler finds the stack from the address that faulted,
//! `remaining_stack` from the address it runs at.
//!
//! Entries form a list that only grows. An entry whose slab was unmapped is marked by a base of 0 and used again.
//! Writers hold the pool's lock and [`WRITERS`]; readers take no lock. A reader that asks about an address of a slab that
//! is in use always finds it, as that slab's entry does not change meanwhile; about other addresses it may at worst hear
//! "no" or see an entry half way, which the second reading of its base detects.

use std::ptr;
use std::sync::Mutex;
// Not `base::sync`: statics, read in a signal handler; loom has no part in it.
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use super::geometry::Geometry;

/// One slab.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Address of the slab, 0 if the entry is vacant. Written last, Release; pairs with the Acquire in [`find`].
    base: AtomicUsize,
    len: AtomicUsize,
    usable: AtomicUsize,
    guard: AtomicUsize,
    next: Option<&'static Entry>,
}

/// What lies around an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// The slot's lowest usable address.
    pub(crate) limit: usize,
    /// The slot's usable bytes.
    pub(crate) usable: usize,
    /// Whether the address lies in the guard.
    pub(crate) in_guard: bool,
}

static FIRST: AtomicPtr<Entry> = AtomicPtr::new(ptr::null_mut());
static WRITERS: Mutex<()> = Mutex::new(());

/// Enters a slab.
pub(super) fn enter(base: usize, len: usize, geometry: Geometry) -> &'static Entry {
    let writers = WRITERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let entry = entries().find(|entry| entry.base.load(Ordering::Relaxed) == 0);
    let entry = entry.unwrap_or_else(|| {
        let entry = Box::leak(Box::new(Entry {
            base: AtomicUsize::new(0),
            len: AtomicUsize::new(0),
            usable: AtomicUsize::new(0),
            guard: AtomicUsize::new(0),
            next: entries().next(),
        }));
        FIRST.store(ptr::from_mut(entry), Ordering::Release);
        // The list holds a pointer to it now, so that it is shared from here on.
        entries().next().expect("it was just entered")
    });
    entry.len.store(len, Ordering::Relaxed);
    entry.usable.store(geometry.usable(), Ordering::Relaxed);
    entry.guard.store(geometry.guard(), Ordering::Relaxed);
    entry.base.store(base, Ordering::Release);
    drop(writers);
    entry
}

/// Takes a slab out, before it is unmapped.
pub(super) fn leave(entry: &'static Entry) {
    let writers = WRITERS.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    entry.base.store(0, Ordering::Release);
    drop(writers);
}

/// The slot that an address lies in, if it lies in a slab. Async-signal-safe.
pub(crate) fn find(address: usize) -> Option<Place> {
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
        Some(Place { limit: base + slot + guard, usable, in_guard: offset - slot < guard })
    })
}

fn entries() -> impl Iterator<Item = &'static Entry> {
    // SAFETY: C4 (registry): entries are leaked, so that a pointer to one is valid for ever, and never written to except
    // through their atomics.
    let first = unsafe { FIRST.load(Ordering::Acquire).as_ref() };
    std::iter::successors(first, |entry| entry.next)
}
