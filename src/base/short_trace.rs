//! Markers for std's backtraces: without `RUST_BACKTRACE=full`, they leave out this library's
//! frames around the program's closures.
//!
//! std hides a frame if a function whose name contains `__rust_begin_short_backtrace` lies further
//! in, unless a function whose name contains `__rust_end_short_backtrace` lies between the two. std
//! uses these names for its own threads. Both functions here are always inlined and cost nothing.
//! Debug information records them nevertheless.
//!
//! ```text
//!   the program's closure      printed
//!   begin                      from here on outwards: left out
//!   .. this library ..
//!   end                        from here on outwards: printed
//!   `ecru::scope`
//!   the program
//! ```

/// Calls a closure of the program. The frames around this call are not printed.
#[inline(always)]
pub(crate) fn __rust_begin_short_backtrace<T>(closure: impl FnOnce() -> T) -> T {
    closure()
}

/// Calls a closure that takes an argument, as [`begin`] does. A closure around it would be printed.
#[inline(always)]
pub(crate) fn __rust_begin_short_backtrace_with<A, T>(
    closure: impl FnOnce(A) -> T,
    argument: A,
) -> T {
    closure(argument)
}

/// Calls a function of this library that eventually calls a closure of the program. The frames
/// around this call are printed again.
#[inline(always)]
pub(crate) fn __rust_end_short_backtrace<T>(closure: impl FnOnce() -> T) -> T {
    closure()
}

pub(crate) use self::{
    __rust_begin_short_backtrace as begin, __rust_begin_short_backtrace_with as begin_with,
    __rust_end_short_backtrace as end,
};
