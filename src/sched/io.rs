//! Waiting for the kernel: the only way in which the IO modules above reach it.
//!
//! This is the plain thread's way: try; if it would wait, block by poll(2); try again.
#![expect(unsafe_code, reason = "passes on promises about raw pointers")]

use crate::driver::Op;
use std::io;
use std::time::Instant;

/// Does the op, waiting as long as it takes.
///
/// # Safety
/// S3: what the op points to is valid, and touched by nobody else, until this returns; its fd is open for as long.
pub(crate) unsafe fn perform(op: Op) -> io::Result<u32> {
    // SAFETY: the caller's promise, passed on.
    unsafe { perform_before(op, None) }
}

/// Does the op, waiting until the deadline at most, and then fails with `TimedOut`.
///
/// # Safety
/// As [`perform`].
pub(crate) unsafe fn perform_before(op: Op, deadline: Option<Instant>) -> io::Result<u32> {
    let mut attempts = op.is_worth_attempting();
    loop {
        if attempts {
            // SAFETY: the caller's promise, passed on.
            match unsafe { op.attempt() } {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                outcome => return outcome,
            }
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if attempts && left.is_some_and(|left| left.is_zero()) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        // SAFETY: the caller promises that the fd is open.
        unsafe { op.block_until_ready(left)? };
        attempts = true;
    }
}
