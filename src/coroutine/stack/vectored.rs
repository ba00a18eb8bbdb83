//! One system call for many ranges, so that entering the kernel and finding the mapping is paid
//! once for each batch.
//!
//! `process_madvise` on the process itself accepts every advice since Linux 6.13, and `PIDFD_SELF`
//! since 6.14. Where either is missing or forbidden, this module does nothing. The callers then
//! handle each range separately (guards) or leave the pages to page faults.

use std::ptr::NonNull;
// Not `base::sync`: a hint that takes part in no protocol.
use std::sync::atomic::{AtomicBool, Ordering};

/// The value that names the calling process in place of a process descriptor. `libc` does not
/// define it yet.
const PIDFD_SELF: libc::c_int = -10_000;

/// The largest number of ranges in one call.
pub(super) const MOST: usize = 32;

/// Set when a call was refused for a permanent reason.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Returns whether the system does not support this.
#[cfg(test)]
pub(super) fn is_refused() -> bool {
    REFUSED.load(Ordering::Relaxed)
}

/// Applies `advice` to up to [`MOST`] ranges of `len` bytes each. Returns how many of them, from
/// the first, it was applied to.
///
/// # Safety
/// C2: the ranges are mapped, and the advice destroys nothing that is in use.
pub(super) unsafe fn advise(
    starts: impl Iterator<Item = NonNull<u8>>,
    len: usize,
    advice: i32,
) -> usize {
    if cfg!(any(miri, loom)) || REFUSED.load(Ordering::Relaxed) {
        return 0;
    }
    let mut ranges = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: len }; MOST];
    let mut count = 0;
    for (range, start) in ranges.iter_mut().zip(starts) {
        range.iov_base = start.as_ptr().cast();
        count += 1;
    }
    // SAFETY: C2, by this function's contract. The array outlives the call.
    let done = unsafe {
        libc::syscall(libc::SYS_process_madvise, PIDFD_SELF, ranges.as_ptr(), count, advice, 0)
    };
    if let Ok(done) = usize::try_from(done) {
        return done / len;
    }
    let error = std::io::Error::last_os_error().raw_os_error();
    // Lack of memory and signals are temporary.
    if !matches!(error, Some(libc::ENOMEM | libc::EINTR | libc::EAGAIN)) {
        REFUSED.store(true, Ordering::Relaxed);
    }
    0
}
