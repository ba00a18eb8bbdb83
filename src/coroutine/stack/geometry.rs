//! How a slot is laid out: sizes, and the arithmetic from a stack's top to its slot.

use std::io;
use std::sync::OnceLock;

use super::{HEAD_SIZE, STACK_FLOOR};

/// Pages of the guard. A frame that C code allocates without probing must not jump over it.
const GUARD_PAGES: usize = 16;

/// The guard on systems whose pages are larger than 4 KiB, in bytes.
const GUARD_BYTES: usize = GUARD_PAGES * 4096;

/// Tops of neighbouring slots are staggered by this much, so that they do not all fall into the same cache sets.
const TINT_STEP: usize = 128;

/// Number of different tints; `TINT_STEP * TINTS` stays within the topmost page.
const TINTS: usize = 16;

/// No stack is larger than this: mistakes in arithmetic are told from wishes here.
const LARGEST: usize = 1 << 40;

/// The sizes of one kind of stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    usable: usize,
    guard: usize,
}

impl Geometry {
    /// The layout for stacks of at least `size` usable bytes.
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

    /// Bytes that frames, head and tint have together.
    pub(crate) fn usable(self) -> usize {
        self.usable
    }

    /// Bytes of the guard.
    pub(crate) fn guard(self) -> usize {
        self.guard
    }

    /// Distance from slot to slot.
    pub(crate) fn stride(self) -> usize {
        self.usable + self.guard
    }

    /// How far below the end of slot `index` its top lies.
    pub(super) fn inset(self, index: usize) -> usize {
        HEAD_SIZE + (index % TINTS) * TINT_STEP
    }

    /// The end of the slot whose top is `top`.
    pub(super) fn end_of(self, top: usize) -> usize {
        // A slot ends at a page's end, and the inset is smaller than a page.
        top.next_multiple_of(page_size())
    }

    /// The lowest usable address of the slot whose top is `top`.
    pub(super) fn limit_of(self, top: usize) -> usize {
        self.end_of(top) - self.usable
    }
}

// A top must lie strictly inside its last page, and be aligned for a call.
const _: () = assert!(HEAD_SIZE + (TINTS - 1) * TINT_STEP < 4096 && HEAD_SIZE.is_multiple_of(16));

/// The system's page size.
pub(crate) fn page_size() -> usize {
    static SIZE: OnceLock<usize> = OnceLock::new();
    *SIZE.get_or_init(|| if cfg!(miri) { 4096 } else { rustix::param::page_size() })
}
