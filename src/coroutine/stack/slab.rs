//! Slabs: mappings that are cut into slots, which are handed out in order.

use std::io;
use std::ptr::NonNull;

#[cfg(feature = "valgrind")]
use corosensei::stack::valgrind::ValgrindStackRegistration;

use super::geometry::Geometry;
use super::guard::{self, Kind};
use super::map;
use super::registry::{self, SlabEntry};

/// How many slots are guarded at a time, so that a burst of first uses does not enter the kernel
/// for each.
const GUARD_BATCH: u32 = 32;

/// One mapping of many slots.
#[derive(Debug)]
pub(super) struct Slab {
    base: NonNull<u8>,
    slots: u32,
    /// Slots below this index have been handed out since the slab was last reset.
    used: u32,
    /// Slots below this index have their guard.
    guarded: u32,
    /// How many of the guards count against `vm.max_map_count`.
    protected: u32,
    entry: &'static SlabEntry,
    /// The slots that valgrind knows, which are the first ones.
    #[cfg(feature = "valgrind")]
    known: Vec<ValgrindStackRegistration>,
}

// SAFETY: C2: a slab is owned by its pool, which gives access to one thread at a time.
unsafe impl Send for Slab {}

impl Slab {
    /// Maps a slab of about `bytes`, with at least one slot. Halves the size while the system
    /// refuses.
    pub(super) fn map(geometry: Geometry, bytes: usize) -> io::Result<Slab> {
        let mut slots = (bytes / geometry.stride()).clamp(1, u32::MAX as usize);
        loop {
            let len = slots * geometry.stride();
            match map::map(len) {
                Ok(base) => {
                    let entry = registry::enter(base.addr().get(), len, geometry);
                    let slots = u32::try_from(slots).expect("clamped above");
                    return Ok(Slab {
                        base,
                        slots,
                        used: 0,
                        guarded: 0,
                        protected: 0,
                        entry,
                        #[cfg(feature = "valgrind")]
                        known: Vec::new(),
                    });
                }
                Err(_) if slots > 1 => slots /= 2,
                Err(error) => return Err(guard::explained("mapped", &error)),
            }
        }
    }

    /// Returns the top of a slot that has not been used yet, or `None` if there is none left.
    pub(super) fn take(&mut self, geometry: Geometry) -> io::Result<Option<NonNull<u8>>> {
        if self.used == self.slots {
            return Ok(None);
        }
        if self.used == self.guarded {
            self.guard_more(geometry)?;
        }
        let index = self.used as usize;
        self.used += 1;
        #[cfg(feature = "valgrind")]
        if index == self.known.len() {
            let limit = index * geometry.stride() + geometry.guard();
            let start = self.base.as_ptr().wrapping_add(limit);
            self.known.push(ValgrindStackRegistration::new(start, geometry.usable()));
        }
        let offset = (index + 1) * geometry.stride() - Geometry::inset(index);
        // SAFETY: the slot lies within the mapping.
        Ok(Some(unsafe { self.base.add(offset) }))
    }

    fn guard_more(&mut self, geometry: Geometry) -> io::Result<()> {
        let end = self.slots.min(self.guarded + GUARD_BATCH);
        // SAFETY: the slots lie within the mapping.
        let start = |slot: u32| unsafe { self.base.add(slot as usize * geometry.stride()) };
        // SAFETY: C2: the slots have never been handed out.
        let made = unsafe { guard::install_many((self.guarded..end).map(start), geometry.guard()) };
        self.guarded += u32::try_from(made).expect("no more than a batch");
        // Guards the slots that the batch left over.
        while self.guarded < end {
            // SAFETY: the slot lies within the mapping.
            let start = unsafe { self.base.add(self.guarded as usize * geometry.stride()) };
            // SAFETY: C2: the slot has never been handed out.
            match unsafe { guard::install(start, geometry.guard()) } {
                Ok(Kind::Marked) => {}
                Ok(Kind::Protected) => self.protected += 1,
                // Some unused slots are guarded, which is enough for now.
                Err(_) if self.guarded > self.used => return Ok(()),
                Err(error) => return Err(error),
            }
            self.guarded += 1;
        }
        Ok(())
    }

    /// Returns how many slots have been handed out since the slab was mapped or reset.
    pub(super) fn used(&self) -> usize {
        self.used as usize
    }

    /// Returns whether there are slots that have not been used.
    pub(super) fn has_fresh(&self) -> bool {
        self.used < self.slots
    }

    /// Returns the address of the slab's first byte.
    pub(super) fn start(&self) -> usize {
        self.base.addr().get()
    }

    /// Returns the slab's length in bytes.
    pub(super) fn len(&self, geometry: Geometry) -> usize {
        self.slots as usize * geometry.stride()
    }

    /// Gives all memory back to the system, and marks all slots as unused. The guards stay.
    ///
    /// # Safety
    /// C2: no `Stack` owns a slot of this slab.
    pub(super) unsafe fn reset(&mut self, geometry: Geometry) {
        // SAFETY: C2, by this function's contract.
        unsafe { map::discard(self.base, self.len(geometry)) };
        self.used = 0;
    }

    /// Unmaps the slab.
    ///
    /// # Safety
    /// C2: no `Stack` owns a slot of this slab.
    pub(super) unsafe fn unmap(self, geometry: Geometry) {
        registry::leave(self.entry);
        // SAFETY: C2, by this function's contract.
        unsafe { map::unmap(self.base, self.len(geometry)) };
        guard::forget(self.protected as usize);
    }
}
