//! Guards: 16 pages below each stack that no access survives.
//!
//! Linux 6.13 and later mark pages as guards inside a mapping (`MADV_GUARD_INSTALL`): a million of them cost page-table
//! entries and no mappings. Older kernels, and memory locked by `mlockall`, get `mprotect` instead, where each guard
//! splits a mapping in three. A process may have `vm.max_map_count` mappings, so such guards are counted, and further
//! stacks are refused before the program runs out of mappings for anything else
//! (`doc/decisions/0001-no-unguarded-stacks.md`).
//!
//! `ECRU_GUARD=mprotect` in the environment, read once, forces the second way.

use std::fs;
use std::io;
use std::ptr::NonNull;
// Not `base::sync`: this counts what the whole process holds and takes part in no protocol.
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::vectored;

/// Since Linux 6.13; `libc` does not name it yet.
const MADV_GUARD_INSTALL: i32 = 102;

/// What Linux allows unless told otherwise.
const MAX_MAP_COUNT_DEFAULT: usize = 65_530;

/// The share of `vm.max_map_count` that `mprotect` guards may be in number. Each takes two mappings, so that at 40 percent
/// a fifth of the mappings is left to the rest of the program.
const SHARE_PERCENT: usize = 40;

/// How a guard was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// By `MADV_GUARD_INSTALL`: costs no mapping.
    Marked,
    /// By `mprotect`: counted.
    Protected,
}

/// `mprotect` guards that exist now.
static PROTECTED: AtomicUsize = AtomicUsize::new(0);

/// Makes `len` bytes at `start` a guard.
///
/// # Safety
/// C2: nobody owns anything in the range.
pub(super) unsafe fn install(start: NonNull<u8>, len: usize) -> io::Result<Kind> {
    if cfg!(any(miri, loom)) {
        return Ok(Kind::Marked);
    }
    if preferred() == Kind::Marked {
        // SAFETY: the range is ours (C2), and a guard takes the place of nothing that is used.
        let result = unsafe { libc::madvise(start.as_ptr().cast(), len, MADV_GUARD_INSTALL) };
        if result == 0 {
            return Ok(Kind::Marked);
        }
        let error = io::Error::last_os_error();
        // An old kernel, or locked memory. Anything else will not get better by `mprotect`.
        if error.raw_os_error() != Some(libc::EINVAL) {
            return Err(explained("guarded", &error));
        }
    }
    reserve()?;
    // SAFETY: as above.
    let result = unsafe { libc::mprotect(start.as_ptr().cast(), len, libc::PROT_NONE) };
    if result == 0 {
        return Ok(Kind::Protected);
    }
    let error = io::Error::last_os_error();
    forget(1);
    Err(explained("guarded", &error))
}

/// Makes guards of `len` bytes at many places in one go, where the system can do that; returns how many, from the first. The
/// others are left to [`install`].
///
/// # Safety
/// C2: nobody owns anything in the ranges.
pub(super) unsafe fn install_many(starts: impl Iterator<Item = NonNull<u8>>, len: usize) -> usize {
    if preferred() == Kind::Protected {
        return 0;
    }
    // SAFETY: C2, as promised by the caller.
    unsafe { vectored::advise(starts, len, MADV_GUARD_INSTALL) }
}

/// `count` guards made by `mprotect` are gone, with their slab.
pub(super) fn forget(count: usize) {
    PROTECTED.fetch_sub(count, Ordering::Relaxed);
}

/// The error for a stack that the system refuses.
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
