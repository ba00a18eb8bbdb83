//! Which frames std's backtraces leave out, unless `RUST_BACKTRACE=full`: those of this library around the program's closures.
//!
//! std prints a frame only if no function whose name contains `__rust_begin_short_backtrace` lies further in, or one whose name contains
//! `__rust_end_short_backtrace` lies between the two. It uses this for its own threads. Both functions here are always inlined and
//! cost nothing: debug information knows them all the same.
//!
//! ```text
//!   the program's closure      printed
//!   begin                      from here on outwards: left out
//!   .. this library ..
//!   end                        from here on outwards: printed
//!   `ecru::scope`
//!   the program
//! ```

/// Calls a closure of the program's. What lies around it is not worth printing.
#[inline(always)]
pub(crate) fn __rust_begin_short_backtrace<T>(closure: impl FnOnce() -> T) -> T {
    closure()
}

/// [`begin`], for a closure that takes something: one around it would be printed.
#[inline(always)]
pub(crate) fn __rust_begin_short_backtrace_with<A, T>(
    closure: impl FnOnce(A) -> T,
    argument: A,
) -> T {
    closure(argument)
}

/// Calls what sooner or later calls a closure of the program's. What lies around this is worth printing again.
#[inline(always)]
pub(crate) fn __rust_end_short_backtrace<T>(closure: impl FnOnce() -> T) -> T {
    closure()
}

pub(crate) use self::{
    __rust_begin_short_backtrace as begin, __rust_begin_short_backtrace_with as begin_with,
    __rust_end_short_backtrace as end,
};
