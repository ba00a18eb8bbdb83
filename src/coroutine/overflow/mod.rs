//! Stack overflow: a coroutine or task that runs into its guard is named before the process ends.
//!
//! What happens, in order:
//! 1. The access to the guard raises SIGSEGV (SIGBUS on some systems). The frame that made it has no stack left, so the handler
//!    runs on the thread's alternate one ([`alternate`]).
//! 2. [`handler`] looks up the address in the list of slabs ([`super::stack::registry`]). Addresses decide, not `si_code`: a
//!    guard made by `MADV_GUARD_INSTALL` reports an unmapped page, one made by `mprotect` a forbidden one.
//! 3. If it lies in a guard, a [`Report`] is written to standard error: who overflowed, how large the stack is, what to do.
//!    The task layer says who, by [`set_describe`].
//! 4. The handler that was installed before is called, whatever the address was: `std`'s, a crash reporter's. If it returns
//!    after an overflow, the signal's default action ends the process.
//!
//! Everything in the handler is async-signal-safe: no lock, no allocation, `write(2)` only.
//!
//! On the baton backend coroutines run on threads' own stacks, where `std` reports an overflow.

#[cfg(not(any(ecru_baton, miri, loom)))]
mod alternate;
#[cfg(not(any(ecru_baton, miri, loom)))]
mod handler;
mod report;

pub(crate) use self::report::{Report, set_describe};

#[cfg(not(any(ecru_baton, miri, loom)))]
pub(crate) use self::{alternate::ensure_alternate_stack, handler::install};

#[cfg(any(ecru_baton, miri, loom))]
pub(crate) fn install() {}
