//! Guards: 16 pages below each stack, at which every access faults.
//!
//! Linux 6.13 and later can mark pages as guards inside a mapping (`MADV_GUARD_INSTALL`). A million
//! such guards cost page-table entries but no mappings. On older kernels, and in memory locked by
//! `mlockall`, guards are made by `mprotect`. There each guard splits a mapping in three. A process
//! may have `vm.max_map_count` mappings. So these guards are counted, and further stacks are
//! refused before the program runs out of mappings for anything else
//! (`doc/decisions/0001-no-unguarded-stacks.md`).
//!
//! The environment variable `ECRU_GUARD=mprotect`, which is read once, forces the use of
//! `mprotect`.

use std::fs;
use std::io;
use std::ptr::NonNull;
// Not from `base::sync`: this is a count for the whole process and takes part in no protocol.
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::vectored;

/// Available since Linux 6.13. `libc` does not define it yet.
const MADV_GUARD_INSTALL: i32 = 102;

/// The default of Linux.
const MAX_MAP_COUNT_DEFAULT: usize = 65_530;

/// The percentage of `vm.max_map_count` to which the number of `mprotect` guards is limited. Each
/// takes two mappings, so 40 percent leave a fifth of the mappings to the rest of the program.
const SHARE_PERCENT: usize = 40;

/// The way in which a guard was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Made by `MADV_GUARD_INSTALL`. It costs no mapping.
    Marked,
    /// Made by `mprotect`. It is counted.
    Protected,
}

/// The number of `mprotect` guards that exist now.
static PROTECTED: AtomicUsize = AtomicUsize::new(0);

/// Makes a guard of `len` bytes at `start`.
///
/// # Safety
/// C2: nothing in the range is owned.
pub(super) unsafe fn install(start: NonNull<u8>, len: usize) -> io::Result<Kind> {
    if cfg!(any(miri, loom)) {
        return Ok(Kind::Marked);
    }
    if preferred() == Kind::Marked {
        // SAFETY: C2: the range belongs to the caller, and the guard replaces nothing that is in
        // use.
        let result = unsafe { libc::madvise(start.as_ptr().cast(), len, MADV_GUARD_INSTALL) };
        if result == 0 {
            return Ok(Kind::Marked);
        }
        let error = io::Error::last_os_error();
        // The kernel is old, or the memory is locked. After any other error, `mprotect` would fail
        // as well.
        if error.raw_os_error() != Some(libc::EINVAL) {
            return Err(explained("guarded", &error));
        }
    }
    reserve()?;
    // SAFETY: C2: the range belongs to the caller.
    let result = unsafe { libc::mprotect(start.as_ptr().cast(), len, libc::PROT_NONE) };
    if result == 0 {
        return Ok(Kind::Protected);
    }
    let error = io::Error::last_os_error();
    forget(1);
    Err(explained("guarded", &error))
}

/// Makes guards of `len` bytes at many places by one system call, where the system supports that.
/// Returns how many were made, from the first. The caller makes the others by [`install`].
///
/// # Safety
/// C2: nothing in the ranges is owned.
pub(super) unsafe fn install_many(starts: impl Iterator<Item = NonNull<u8>>, len: usize) -> usize {
    if preferred() == Kind::Protected {
        return 0;
    }
    // SAFETY: C2, by this function's contract.
    unsafe { vectored::advise(starts, len, MADV_GUARD_INSTALL) }
}

/// Subtracts `count` guards made by `mprotect` from the count, because their slab has been
/// unmapped.
pub(super) fn forget(count: usize) {
    PROTECTED.fetch_sub(count, Ordering::Relaxed);
}

/// Returns the error for a stack that the system refuses.
pub(super) fn explained(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(
        io::ErrorKind::OutOfMemory,
        format!(
            "a stack cannot be {what}: {error}; ask for smaller stacks or fewer at once, or raise the limits \
             (ulimit -v, vm.max_map_count, vm.overcommit_memory)"
        ),
    )
}

fn reserve() -> io::Result<()> {
    let limit = allowed();
    let before = PROTECTED.fetch_add(1, Ordering::Relaxed);
    if before < limit {
        return Ok(());
    }
    forget(1);
    Err(io::Error::new(
        io::ErrorKind::OutOfMemory,
        format!(
            "{limit} stacks are guarded by mprotect, which takes two mappings each and leaves too few of vm.max_map_count: \
             raise it (sysctl -w vm.max_map_count=..), or use Linux 6.13 or later, where guards take no mapping"
        ),
    ))
}

fn allowed() -> usize {
    static ALLOWED: OnceLock<usize> = OnceLock::new();
    *ALLOWED.get_or_init(|| {
        let text = fs::read_to_string("/proc/sys/vm/max_map_count").unwrap_or_default();
        text.trim().parse().unwrap_or(MAX_MAP_COUNT_DEFAULT) / 100 * SHARE_PERCENT
    })
}

fn preferred() -> Kind {
    static PREFERRED: OnceLock<Kind> = OnceLock::new();
    *PREFERRED.get_or_init(|| match std::env::var_os("ECRU_GUARD") {
        Some(value) if value == "mprotect" => Kind::Protected,
        _ => Kind::Marked,
    })
}
