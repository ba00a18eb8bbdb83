//! Calls on files: without waiting as far as the kernel can, or on a thread that may block.
#![expect(unsafe_code, reason = "system calls on raw pointers")]

use super::op::{Backing, CURSOR, FileCall, FileOp, Manner};
use super::stream;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::slice;

impl FileOp<'_> {
    /// Returns whether the op may still succeed after its attempt has failed with this error, which
    /// is not `WouldBlock`: the file or the kernel may be unable to tell whether the call would
    /// wait.
    pub(super) fn is_left_open_by(&self, error: &io::Error) -> bool {
        let cannot_tell = [libc::EOPNOTSUPP, libc::ENOSYS, libc::EPERM];
        match self.backing {
            Backing::Memory | Backing::Inherited => false,
            Backing::Device => true,
            Backing::Stream { .. } => {
                error.raw_os_error().is_some_and(|code| cannot_tell.contains(&code))
            }
        }
    }
}

/// Does a transfer of at most [`FileOp::at_once`] bytes as far as nothing has to be waited for.
/// Fails with `WouldBlock` if the data is not there, and with an error of another kind if this
/// file cannot tell.
///
/// # Safety
/// What the op points to is valid for the call, and nothing else touches it meanwhile.
pub(super) unsafe fn attempt(op: &FileOp<'_>) -> io::Result<u32> {
    let call = match op.call {
        FileCall::Read { buf, len } => FileCall::Read { buf, len: len.min(op.at_once) },
        FileCall::Write { buf, len } => FileCall::Write { buf, len: len.min(op.at_once) },
        other => other,
    };
    let op = FileOp { call, ..*op };
    match op.backing {
        // SAFETY: the caller's promise, passed on.
        Backing::Memory => unsafe { call_in_memory(&op) },
        // SAFETY: the caller's promise, passed on.
        Backing::Device | Backing::Stream { .. } => unsafe { retried(&op, libc::RWF_NOWAIT) },
        // SAFETY: the caller's promise, passed on.
        Backing::Inherited => unsafe { call_inherited(&op) },
    }
}

/// Does the op, and blocks the thread for as long as it takes. Never fails with `Interrupted`.
///
/// # Safety
/// As [`attempt`].
pub(super) unsafe fn block(op: &FileOp<'_>) -> io::Result<u32> {
    // SAFETY: the caller's promise, passed on.
    unsafe { retried(op, 0) }
}

/// Does an op that is known to wait for nothing. A plain read or write is a few per cent faster
/// without the list of buffers, and without libc, which makes each of its calls a point where a
/// thread may be cancelled.
///
/// # Safety
/// As [`attempt`].
unsafe fn call_in_memory(op: &FileOp<'_>) -> io::Result<u32> {
    // SAFETY: the caller promises an open fd.
    let fd = unsafe { BorrowedFd::borrow_raw(op.fd.fd) };
    loop {
        let result = match op.call {
            FileCall::Read { buf, len } => {
                let buffer = buf.cast::<MaybeUninit<u8>>();
                // SAFETY: the caller promises a buffer of this length, which nothing else uses.
                let buffer = unsafe { slice::from_raw_parts_mut(buffer, len as usize) };
                match op.offset {
                    CURSOR => rustix::io::read(fd, buffer).map(|(read, _)| read.len()),
                    offset => rustix::io::pread(fd, buffer, offset).map(|(read, _)| read.len()),
                }
            }
            FileCall::Write { buf, len } => {
                // SAFETY: the caller promises a buffer of this length, which nothing changes
                // meanwhile.
                let buffer = unsafe { slice::from_raw_parts(buf, len as usize) };
                match op.offset {
                    CURSOR => rustix::io::write(fd, buffer),
                    offset => rustix::io::pwrite(fd, buffer, offset),
                }
            }
            // SAFETY: the caller's promise, passed on.
            _ => return unsafe { block(op) },
        };
        match result {
            Ok(count) => return Ok(u32::try_from(count).expect("no more than was asked for")),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Reads or writes as on a stream. Where the kernel cannot tell whether the call would wait, the
/// thread waits for the device.
///
/// # Safety
/// As [`attempt`].
unsafe fn call_inherited(op: &FileOp<'_>) -> io::Result<u32> {
    let fd = op.fd.fd;
    match op.call {
        // SAFETY: the caller promises a buffer of this length.
        FileCall::Read { buf, len } => unsafe {
            stream::read(fd, buf, len as usize, Manner::Shared)
        },
        // SAFETY: the caller promises a buffer of this length.
        FileCall::Write { buf, len } => unsafe {
            stream::write(fd, buf, len as usize, Manner::Shared)
        },
        // SAFETY: the caller's promise, passed on.
        _ => unsafe { retried(op, libc::RWF_NOWAIT) },
    }
}

/// Makes the system call, again after each interruption.
///
/// # Safety
/// As [`attempt`].
unsafe fn retried(op: &FileOp<'_>, flags: i32) -> io::Result<u32> {
    loop {
        // SAFETY: the caller's promise, passed on.
        match u32::try_from(unsafe { raw(op, flags) }) {
            Ok(result) => return Ok(result),
            Err(_) => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::Interrupted => {}
                error => return Err(error),
            },
        }
    }
}

/// Makes the system call once.
///
/// # Safety
/// As [`attempt`].
unsafe fn raw(op: &FileOp<'_>, flags: i32) -> isize {
    let (fd, offset) = (op.fd.fd, op.offset.cast_signed());
    match op.call {
        FileCall::Read { buf, len } => {
            let buffer = libc::iovec { iov_base: buf.cast(), iov_len: len as usize };
            // SAFETY: the caller promises a buffer of this length.
            unsafe { libc::preadv2(fd, &raw const buffer, 1, offset, flags) }
        }
        FileCall::Write { buf, len } => {
            let buffer = libc::iovec { iov_base: buf.cast_mut().cast(), iov_len: len as usize };
            // SAFETY: the caller promises a buffer of this length, which is only read.
            unsafe { libc::pwritev2(fd, &raw const buffer, 1, offset, flags) }
        }
        FileCall::ReadVectored { buffers, count } => {
            // SAFETY: the caller promises `count` valid buffers.
            unsafe { libc::preadv2(fd, buffers, count.cast_signed(), offset, flags) }
        }
        FileCall::WriteVectored { buffers, count } => {
            // SAFETY: the caller promises `count` valid buffers, which are only read.
            unsafe { libc::pwritev2(fd, buffers, count.cast_signed(), offset, flags) }
        }
        // SAFETY: no memory is involved.
        FileCall::Sync { data_only: true } => unsafe { libc::fdatasync(fd) as isize },
        // SAFETY: no memory is involved.
        FileCall::Sync { data_only: false } => unsafe { libc::fsync(fd) as isize },
    }
}
