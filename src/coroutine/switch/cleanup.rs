//! Tells whether a stack is in the middle of an unwinding: whether one of its frames is running a destructor because of a panic.
//!
//! `std` counts panics by thread, and says only whether there is one. A coroutine that suspends in such a destructor leaves its panic
//! behind in that count. Which of the thread's stacks the panic belongs to is not written down anywhere but in the frames themselves: the call
//! of a destructor by an unwinding stands in the caller's table of call sites with a filter that nothing passes, because a second
//! panic must not leave it.
//!
//! The tables are those of the Itanium C++ ABI (`.gcc_except_table`), as `rustc` and GCC write them. A table of another kind says nothing. It is read
//! only where a coroutine suspends while its thread counts a panic, which takes some microseconds.

use std::ffi::{c_int, c_void};
use std::ptr;

/// Encodings of numbers in the tables; others are not used for call sites.
const ABSOLUTE: u8 = 0x00;
const ULEB128: u8 = 0x01;
const UDATA2: u8 = 0x02;
const UDATA4: u8 = 0x03;
const UDATA8: u8 = 0x04;
const OMITTED: u8 = 0xff;

/// `_URC_NO_REASON`: the walk goes on.
const GO_ON: c_int = 0;
/// `_URC_END_OF_STACK`: the walk is over.
const STOP: c_int = 5;

/// `struct _Unwind_Context`.
#[repr(C)]
struct Context {
    _opaque: [u8; 0],
}

type Visitor = extern "C" fn(*mut Context, *mut c_void) -> c_int;

// The unwinder that `std` is linked to.
unsafe extern "C" {
    fn _Unwind_Backtrace(visit: Visitor, data: *mut c_void) -> c_int;
    fn _Unwind_GetCFA(context: *mut Context) -> usize;
    fn _Unwind_GetIPInfo(context: *mut Context, before: *mut c_int) -> usize;
    fn _Unwind_GetLanguageSpecificData(context: *mut Context) -> *const u8;
    fn _Unwind_GetRegionStart(context: *mut Context) -> usize;
}

struct Walk {
    top: usize,
    size: usize,
    found: bool,
}

/// Returns whether the stack of this many bytes below an address, on which the caller runs, is in the middle of an unwinding.
#[cold]
pub(super) fn is_running_on(top: usize, size: usize) -> bool {
    let mut walk = Walk { top, size, found: false };
    // SAFETY: C10: the visitor gets this value, which nothing else uses until the walk is over.
    unsafe { _Unwind_Backtrace(visit, (&raw mut walk).cast()) };
    walk.found
}

extern "C" fn visit(context: *mut Context, walk: *mut c_void) -> c_int {
    // SAFETY: C10: it is the one that `is_running_on` has passed.
    let walk = unsafe { &mut *walk.cast::<Walk>() };
    // SAFETY: C10: the unwinder's own context, for the length of this call.
    let frame = unsafe { _Unwind_GetCFA(context) };
    if walk.top.wrapping_sub(frame) > walk.size {
        // The resumer's frames.
        return STOP;
    }
    // SAFETY: C10, as above.
    let table = unsafe { _Unwind_GetLanguageSpecificData(context) };
    if !table.is_null() {
        let mut before = 0;
        // SAFETY: C10, as above.
        let at = unsafe { _Unwind_GetIPInfo(context, &raw mut before) };
        // A return address is that of the instruction after the call.
        let call = if before == 0 { at.wrapping_sub(1) } else { at };
        // SAFETY: C10, as above.
        let start = unsafe { _Unwind_GetRegionStart(context) };
        // SAFETY: C10: it is the table of the function that this frame belongs to.
        let table = unsafe { Table::at(table) };
        walk.found = table.filters(call.wrapping_sub(start));
    }
    if walk.found { STOP } else { GO_ON }
}

/// A place in a function's table.
#[derive(Clone, Copy)]
struct Table(*const u8);

impl Table {
    /// The table that begins at an address.
    ///
    /// # Safety
    /// C10: it does, and stays while this value is used.
    unsafe fn at(start: *const u8) -> Table {
        Table(start)
    }

    /// Returns whether a panic that leaves the call at this distance from the function's start would be kept from going on.
    fn filters(mut self, call: usize) -> bool {
        if self.byte() != OMITTED {
            // Not what compilers for Rust write.
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

    /// Returns whether one of the actions in the chain that begins here is a filter.
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
        // SAFETY: C10: the table goes on, as what has been read of it says.
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

    /// A table of three call sites: one without a landing pad, one that only cleans up, one with a filter behind a catch.
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
        // SAFETY: C10: it is one.
        let table = unsafe { Table::at(table.as_ptr()) };
        let filters = |call| table.filters(call);
        assert_eq!(
            [0, 3, 4, 7, 8, 11, 12].map(filters),
            [false, false, false, false, true, true, false]
        );
    }
}
