//! The calls for files, sockets and processes, which are refused on the thread of a simulation.
//!
//! What they do is real, so no seed decides it, and it outlives the run. ecru has calls of its own
//! for it. Where ecru itself needs the system, it calls as if its thread were in no simulation.
#![expect(unsafe_code, reason = "defines functions of libc")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::{mem, ptr};

use ecru::sim::interposer;
use libc::{mode_t, pid_t, size_t, ssize_t};

use super::interpose::{Next, failed};

/// Returns whether the call is refused. `path` is null, or a C string.
///
/// # Safety
/// The pointer is as described.
unsafe fn refuses(call: &str, of: &str, path: *const c_char) -> bool {
    // The report of a panic opens the program to find the names of functions.
    if !ecru::sim::is_simulated() || std::thread::panicking() {
        return false;
    }
    if path.is_null() {
        return interposer::refuses(&format!("`{call}`, which `{of}` calls"));
    }
    // SAFETY: by this function's contract.
    let path = unsafe { CStr::from_ptr(path) };
    interposer::refuses(&format!("`{call}` for {path:?}, which `{of}` calls"))
}

/// Defines functions of libc. On the thread of a simulation, they set `EPERM` as the error, and
/// return what is behind `or`.
macro_rules! refused {
    ($($name:ident of $of:literal ($($arg:ident: $type:ty),*) -> $result:ty, about $path:expr, or $refused:expr;)*) => {
        /// The next definitions.
        #[expect(non_upper_case_globals, reason = "they have the names of the functions")]
        mod next {
            use super::Next;

            $(pub(super) static $name: Next = Next::named(concat!(stringify!($name), "\0"));)*
            pub(in crate) static ALL: &[&Next] = &[$(&$name),*];
        }

        $(
            /// # Safety
            /// The arguments are as POSIX or Linux describes them.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($arg: $type),*) -> $result {
                // SAFETY: the caller guarantees the path.
                if unsafe { refuses(stringify!($name), $of, $path) } {
                    failed(libc::EPERM);
                    return $refused;
                }
                type Function = unsafe extern "C" fn($($type),*) -> $result;
                let next = next::$name.address();
                // SAFETY: null, or a function of this type.
                let next = unsafe { mem::transmute::<*mut c_void, Option<Function>>(next) };
                let Some(next) = next else {
                    failed(libc::ENOSYS);
                    return $refused;
                };
                // SAFETY: the caller's guarantees are those that it needs.
                unsafe { next($($arg),*) }
            }
        )*
    };
}

// `open` and `openat` have a variable number of arguments, of which the last one may be missing. On
// the architectures of this crate, such arguments are where those of these functions are.
refused! {
    open of "std::fs" (path: *const c_char, flags: c_int, mode: mode_t) -> c_int, about path, or -1;
    open64 of "std::fs" (path: *const c_char, flags: c_int, mode: mode_t) -> c_int, about path, or -1;
    openat of "std::fs" (at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, about path, or -1;
    openat64 of "std::fs" (at: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, about path, or -1;
    opendir of "std::fs" (path: *const c_char) -> *mut c_void, about path, or ptr::null_mut();
    statx of "std::fs" (at: c_int, path: *const c_char, flags: c_int, mask: c_uint, to: *mut c_void) -> c_int, about path, or -1;
    mkdir of "std::fs" (path: *const c_char, mode: mode_t) -> c_int, about path, or -1;
    rmdir of "std::fs" (path: *const c_char) -> c_int, about path, or -1;
    unlink of "std::fs" (path: *const c_char) -> c_int, about path, or -1;
    unlinkat of "std::fs" (at: c_int, path: *const c_char, flags: c_int) -> c_int, about path, or -1;
    rename of "std::fs" (from: *const c_char, to: *const c_char) -> c_int, about from, or -1;
    symlink of "std::fs" (to: *const c_char, path: *const c_char) -> c_int, about path, or -1;
    linkat of "std::fs" (at: c_int, from: *const c_char, to_at: c_int, to: *const c_char, flags: c_int) -> c_int, about from, or -1;
    chmod of "std::fs" (path: *const c_char, mode: mode_t) -> c_int, about path, or -1;
    readlink of "std::fs" (path: *const c_char, to: *mut c_char, length: size_t) -> ssize_t, about path, or -1;
    realpath of "std::fs" (path: *const c_char, to: *mut c_char) -> *mut c_char, about path, or ptr::null_mut();
    socket of "std::net" (domain: c_int, kind: c_int, protocol: c_int) -> c_int, about ptr::null(), or -1;
    socketpair of "std::net" (domain: c_int, kind: c_int, protocol: c_int, pair: *mut c_int) -> c_int, about ptr::null(), or -1;
    getaddrinfo of "std::net" (host: *const c_char, service: *const c_char, hints: *const c_void, found: *mut *mut c_void) -> c_int, about host, or libc::EAI_FAIL;
    pipe2 of "std::io" (pair: *mut c_int, flags: c_int) -> c_int, about ptr::null(), or -1;
    fork of "std::process" () -> pid_t, about ptr::null(), or -1;
    posix_spawnp of "std::process" (pid: *mut pid_t, file: *const c_char, actions: *const c_void, attributes: *const c_void, arguments: *const *mut c_char, environment: *const *mut c_char) -> c_int, about file, or libc::EPERM;
}

pub(crate) use next::ALL;
