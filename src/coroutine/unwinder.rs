//! A walk over the frames of the running stack, by the unwinder that `std` is linked to.

use std::ffi::{c_int, c_void};

/// `_URC_NO_REASON`: continues the walk.
const GO_ON: c_int = 0;
/// `_URC_END_OF_STACK`: ends the walk.
const STOP: c_int = 5;

/// `struct _Unwind_Context`.
#[repr(C)]
struct Context {
    _opaque: [u8; 0],
}

type Visitor = extern "C" fn(*mut Context, *mut c_void) -> c_int;

unsafe extern "C" {
    fn _Unwind_Backtrace(visit: Visitor, data: *mut c_void) -> c_int;
    fn _Unwind_GetCFA(context: *mut Context) -> usize;
    fn _Unwind_GetIPInfo(context: *mut Context, before: *mut c_int) -> usize;
    #[cfg(panic = "unwind")]
    fn _Unwind_GetLanguageSpecificData(context: *mut Context) -> *const u8;
    #[cfg(panic = "unwind")]
    fn _Unwind_GetRegionStart(context: *mut Context) -> usize;
}

/// A frame of the walk.
pub(super) struct Frame(*mut Context);

impl Frame {
    /// Returns an address of the frame on its stack.
    pub(super) fn address(&self) -> usize {
        // SAFETY: C10: this is the unwinder's own context, valid during the call of the visitor.
        unsafe { _Unwind_GetCFA(self.0) }
    }

    /// Returns the address of the call that the frame is in, or of an instruction within it.
    pub(super) fn call(&self) -> usize {
        let mut before = 0;
        // SAFETY: C10: the context is valid during the call of the visitor.
        let at = unsafe { _Unwind_GetIPInfo(self.0, &raw mut before) };
        // A return address is the address of the instruction after the call.
        if before == 0 { at.wrapping_sub(1) } else { at }
    }

    /// Returns the table of call sites of the frame's function, or null if it has none.
    #[cfg(panic = "unwind")]
    pub(super) fn table(&self) -> *const u8 {
        // SAFETY: C10: the context is valid during the call of the visitor.
        unsafe { _Unwind_GetLanguageSpecificData(self.0) }
    }

    /// Returns where the frame's function begins.
    #[cfg(panic = "unwind")]
    pub(super) fn start(&self) -> usize {
        // SAFETY: C10: the context is valid during the call of the visitor.
        unsafe { _Unwind_GetRegionStart(self.0) }
    }
}

/// Calls `visit` with the frames of the running stack and of the stacks from which it was resumed,
/// innermost first, until it returns `false`. It must not panic.
#[cold]
pub(super) fn walk(mut visit: impl FnMut(&Frame) -> bool) {
    let mut visit: &mut dyn FnMut(&Frame) -> bool = &mut visit;
    // SAFETY: C10: the visitor gets this value, and nothing else uses it until the walk is over.
    unsafe { _Unwind_Backtrace(call, (&raw mut visit).cast()) };
}

extern "C" fn call(context: *mut Context, visit: *mut c_void) -> c_int {
    // SAFETY: C10: this is the value that `walk` has passed.
    let visit = unsafe { &mut *visit.cast::<&mut dyn FnMut(&Frame) -> bool>() };
    if visit(&Frame(context)) { GO_ON } else { STOP }
}
