//! Calls to signal handlers that were installed before the library's own handler.
#![expect(unsafe_code, reason = "calls a function by its address")]

use std::mem;

use libc::{c_int, c_void, sigaction, siginfo_t};

/// Calls the function of an action, as the kernel would.
///
/// # Safety
/// Z3: the action was returned by sigaction(2), and its handler is a function, neither `SIG_DFL`
/// nor `SIG_IGN`. The other arguments are those with which the kernel has called the caller.
pub(crate) unsafe fn call(
    action: &sigaction,
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) {
    let function = action.sa_sigaction;
    if action.sa_flags & libc::SA_SIGINFO != 0 {
        type Function = extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
        // SAFETY: Z3: with SA_SIGINFO, the function has this type.
        let function = unsafe { mem::transmute::<usize, Function>(function) };
        function(signal, info, context);
    } else {
        // SAFETY: Z3: without SA_SIGINFO, the function has this type.
        let function = unsafe { mem::transmute::<usize, extern "C" fn(c_int)>(function) };
        function(signal);
    }
}
