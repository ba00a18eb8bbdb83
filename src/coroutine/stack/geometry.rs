//! The layout of a slot: its sizes, and the arithmetic from a stack's top to its slot.

use std::io;
use std::sync::OnceLock;

use super::{HEAD_SIZE, STACK_FLOOR};

/// The size of the guard in pages of 4 KiB. A frame that C code allocates without probing must not
/// jump over it.
const GUARD_PAGES: usize = 16;

/// The size of the guard in bytes. It is raised to one page on systems whose pages are larger.
const GUARD_BYTES: usize = GUARD_PAGES * 4096;

/// The tops of neighbouring slots are staggered by this many bytes, so that they do not all fall
/// into the same cache sets.
const TINT_STEP: usize = 128;

/// The number of different tints. `TINT_STEP * TINTS` fits in the topmost page.
const TINTS: usize = 16;

/// The maximal size of a stack. A larger size is assumed to be an arithmetic mistake.
const LARGEST: usize = 1 << 40;

/// The sizes of one kind of stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    usable: usize,
    guard: usize,
}

impl Geometry {
    /// Returns the layout of stacks with at least `size` usable bytes.
    pub(super) fn new(size: usize) -> io::Result<Geometry> {
        let page = page_size();
        if size < STACK_FLOOR {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "a stack of {size} bytes is too small: ask for at least {STACK_FLOOR} bytes"
                ),
            ));
        }
        if size > LARGEST {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "a stack of {size} bytes is more than can be mapped: ask for at most {LARGEST} bytes"
                ),
            ));
        }
        Ok(Geometry { usable: size.next_multiple_of(page), guard: GUARD_BYTES.max(page) })
    }

    /// Returns the number of bytes of frames, head and tint together.
    pub(crate) fn usable(self) -> usize {
        self.usable
    }

    /// Returns the number of bytes of the guard.
    pub(crate) fn guard(self) -> usize {
        self.guard
    }

    /// Returns the distance from slot to slot.
    pub(crate) fn stride(self) -> usize {
        self.usable + self.guard
    }

    /// Returns how far the top of slot `index` lies below the slot's end.
    pub(super) fn inset(index: usize) -> usize {
        HEAD_SIZE + (index % TINTS) * TINT_STEP
    }

    /// Returns the end of the slot with this top.
    pub(super) fn end_of(self, top: usize) -> usize {
        // A slot ends at the end of a page, and the inset is smaller than a page.
        top.next_multiple_of(page_size())
    }

    /// Returns the lowest usable address of the slot with this top.
    pub(super) fn limit_of(self, top: usize) -> usize {
        self.end_of(top) - self.usable
    }
}

// A top must lie strictly inside the slot's last page, and be aligned for a call.
const _: () = assert!(HEAD_SIZE + (TINTS - 1) * TINT_STEP < 4096 && HEAD_SIZE.is_multiple_of(16));

/// Returns the system's page size.
pub(crate) fn page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| if cfg!(miri) { 4096 } else { rustix::param::page_size() })
}
