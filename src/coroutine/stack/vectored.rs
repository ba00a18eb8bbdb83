//! One system call for many ranges: entering the kernel, and finding the mapping, is paid once per batch.
//!
//! `process_madvise` on the process itself takes every advice since Linux 6.13, and `PIDFD_SELF` since 6.14. Where either is
//! missing or forbidden, nothing is done, and the callers do it piece by piece (guards) or leave it to the page faults.

use std::ptr::NonNull;
// Not `base::sync`: a hint that takes part in no protocol.
use std::sync::atomic::{AtomicBool, Ordering};

/// Names the calling process where a descriptor of one is asked for; `libc` does not know it yet.
const PIDFD_SELF: libc::c_int = -10_000;

/// Ranges of one call.
pub(super) const MOST: usize = 32;

/// It was refused for a reason that will not go away.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Whether the system does not do this.
#[cfg(test)]
pub(super) fn is_refused() -> bool {
    REFUSED.load(Ordering::Relaxed)
}

/// Gives one advice on up to [`MOST`] ranges of `len` bytes each, and returns how many of them, from the first, it was
/// carried out on.
///
/// # Safety
/// C2: the ranges are mapped, and the advice harms nothing that anybody relies on.
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
    // SAFETY: C2, as promised by the caller; the array outlives the call.
    let done = unsafe {
        libc::syscall(libc::SYS_process_madvise, PIDFD_SELF, ranges.as_ptr(), count, advice, 0)
    };
    if let Ok(done) = usize::try_from(done) {
        return done / len;
    }
    let error = std::io::Error::last_os_error().raw_os_error();
    // Want of memory and signals come and go.
    if !matches!(error, Some(libc::ENOMEM | libc::EINTR | libc::EAGAIN)) {
        REFUSED.store(true, Ordering::Relaxed);
    }
    0
}
