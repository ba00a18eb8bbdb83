//! Detects whether a stack is being unwound, that is, whether one of its frames is running a
//! destructor because of a panic.
//!
//! `std` counts panics per thread, and tells only whether there is one. A coroutine that suspends
//! in such a destructor leaves its panic behind in that count. Only the frames themselves tell
//! which of the thread's stacks the panic belongs to. When unwinding calls a destructor, the call
//! appears in the caller's table of call sites with a filter that nothing passes, because a second
//! panic must not leave it.
//!
//! The tables are those of the Itanium C++ ABI (`.gcc_except_table`), as `rustc` and GCC write
//! them. A table of another kind is ignored. Tables are read only if a coroutine suspends while its
//! thread counts a panic. This takes some microseconds.

use std::ptr;

use crate::coroutine::unwinder::{self, Frame};

/// The encodings of numbers in the tables. Call sites use no others.
const ABSOLUTE: u8 = 0x00;
const ULEB128: u8 = 0x01;
const UDATA2: u8 = 0x02;
const UDATA4: u8 = 0x03;
const UDATA8: u8 = 0x04;
const OMITTED: u8 = 0xff;

/// Returns whether the frame runs a destructor because of a panic.
pub(in crate::coroutine) fn is_unwound(frame: &Frame) -> bool {
    let table = frame.table();
    if table.is_null() {
        return false;
    }
    // SAFETY: C10: this is the table of the function that the frame belongs to.
    let table = unsafe { Table::at(table) };
    table.filters(frame.call().wrapping_sub(frame.start()))
}

/// Returns whether the stack of `size` bytes below `top`, on which the caller runs, is being
/// unwound.
#[cold]
pub(super) fn is_running_on(top: usize, size: usize) -> bool {
    let mut found = false;
    unwinder::walk(|frame| {
        // A frame elsewhere belongs to the resumer.
        let is_own = top.wrapping_sub(frame.address()) <= size;
        found = is_own && is_unwound(frame);
        is_own && !found
    });
    found
}

/// A position in a function's table.
#[derive(Clone, Copy)]
struct Table(*const u8);

impl Table {
    /// Returns the table that begins at `start`.
    ///
    /// # Safety
    /// C10: a table begins there, and it stays while this value is used.
    unsafe fn at(start: *const u8) -> Table {
        Table(start)
    }

    /// Returns whether a filter stops a panic that leaves the call at this distance from the
    /// function's start.
    fn filters(mut self, call: usize) -> bool {
        if self.byte() != OMITTED {
            // Compilers for Rust do not write this.
            return false;
        }
        if self.byte() != OMITTED {
            self.uleb128();
        }
        let encoding = self.byte();
        let length = self.uleb128();
        let actions = self.0.wrapping_add(length);
        while self.0 < actions {
            let (Some(start), Some(length), Some(landing)) =
                (self.number(encoding), self.number(encoding), self.number(encoding))
            else {
                return false;
            };
            let action = self.uleb128();
            if (start..start.saturating_add(length)).contains(&call) {
                return landing != 0
                    && action != 0
                    && Table(actions.wrapping_add(action - 1)).has_filter();
            }
        }
        false
    }

    /// Returns whether the chain of actions that begins here contains a filter.
    fn has_filter(mut self) -> bool {
        loop {
            let (kind, at, next) = (self.sleb128(), self.0, self.sleb128());
            if kind < 0 || next == 0 {
                return kind < 0;
            }
            self.0 = at.wrapping_offset(next);
        }
    }

    fn byte(&mut self) -> u8 {
        self.fixed::<u8>()
    }

    fn fixed<T: Copy>(&mut self) -> T {
        // SAFETY: C10: by its own contents, the table continues here.
        let value = unsafe { ptr::read_unaligned(self.0.cast::<T>()) };
        self.0 = self.0.wrapping_add(size_of::<T>());
        value
    }

    fn number(&mut self, encoding: u8) -> Option<usize> {
        match encoding {
            ABSOLUTE => Some(self.fixed::<usize>()),
            ULEB128 => Some(self.uleb128()),
            UDATA2 => Some(self.fixed::<u16>().into()),
            UDATA4 => usize::try_from(self.fixed::<u32>()).ok(),
            UDATA8 => usize::try_from(self.fixed::<u64>()).ok(),
            _ => None,
        }
    }

    fn uleb128(&mut self) -> usize {
        let (mut value, mut shift) = (0, 0_u32);
        loop {
            let byte = self.byte();
            value |= usize::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if byte & 0x80 == 0 {
                return value;
            }
        }
    }

    fn sleb128(&mut self) -> isize {
        let (mut value, mut shift) = (0_isize, 0_u32);
        loop {
            let byte = self.byte();
            value |= isize::from(byte & 0x7f).checked_shl(shift).unwrap_or(0);
            shift += 7;
            if byte & 0x80 == 0 {
                let negative = byte & 0x40 != 0;
                let sign = if negative { (-1_isize).checked_shl(shift).unwrap_or(0) } else { 0 };
                return value | sign;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of three call sites: one without a landing pad, one that only cleans up, and one
    /// with a filter behind a catch.
    #[test]
    fn a_table_is_read() {
        let table: [u8; 24] = [
            OMITTED, OMITTED, ULEB128, 13, // 3 call sites of 4 bytes, the last of 5
            0, 4, 0, 0, // from 0, 4 bytes: no landing pad
            4, 4, 9, 0, // from 4: cleans up
            8, 0x84, 0x00, 9, 3, // from 8: the action at 2
            0, 0, // 0: cleans up
            1, 1, // 2: catches, and the action after it
            0x7f, 0, // 4: a filter
            0,
        ];
        // SAFETY: C10: this is a table.
        let table = unsafe { Table::at(table.as_ptr()) };
        let filters = |call| table.filters(call);
        assert_eq!(
            [0, 3, 4, 7, 8, 11, 12].map(filters),
            [false, false, false, false, true, true, false]
        );
    }
}
