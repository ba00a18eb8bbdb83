//! Stack overflow: when a coroutine or task runs into its guard, a report names it before the
//! process ends.
//!
//! The steps, in order:
//! 1. The access to the guard raises SIGSEGV (SIGBUS on some systems). The frame that made it has
//!    no stack left, so the handler runs on the thread's alternate stack ([`alternate`]).
//! 2. [`handler`] looks up the address in the list of slabs ([`super::stack::registry`]). The
//!    address decides, not `si_code`: a guard made by `MADV_GUARD_INSTALL` reports an unmapped
//!    page, and a guard made by `mprotect` a forbidden one.
//! 3. If the address is in a guard, a [`Report`] is written to standard error. It names the task or
//!    coroutine that overflowed and the size of its stack, and says what to do. The task layer adds
//!    the name by [`set_describe`].
//! 4. The handler that was installed before is called, whatever the address was. It may be `std`'s
//!    or a crash reporter's. If it returns after an overflow, the signal's default action ends the
//!    process.
//!
//! Everything in the handler is async-signal-safe. It waits for no lock, allocates nothing, and
//! uses only `write(2)`. In a simulation, it also says the last words of the run, and so does the
//! handler of aborts.
//!
//! On the baton backend, coroutines run on the stacks of threads, where `std` reports an overflow.

#[cfg(not(any(ecru_baton, miri, loom)))]
mod alternate;
#[cfg(not(any(ecru_baton, miri, loom)))]
mod handler;
mod report;

pub(crate) use self::report::{Report, set_describe};

#[cfg(not(any(ecru_baton, miri, loom)))]
pub(crate) use self::{alternate::ensure_alternate_stack, handler::install};

#[cfg(all(feature = "sim", not(any(ecru_baton, miri, loom))))]
pub(crate) use self::handler::install_for_aborts;

#[cfg(all(feature = "sim", any(ecru_baton, miri, loom)))]
pub(crate) fn install_for_aborts() {}

#[cfg(any(ecru_baton, miri, loom))]
pub(crate) fn install() {}
