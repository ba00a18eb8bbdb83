//! Ops on files. They cannot wait for readiness, because a file is always "ready" and its calls
//! block all the same.
//!
//! So they have a protocol of their own. The caller first [attempts](FileOp::attempt) what the
//! kernel can do from memory. The rest goes to a driver that [carries
//! files](super::AnyDriver::carries_files), or else to a thread that may block, which
//! [calls](FileOp::call) it.
#![expect(unsafe_code, reason = "system calls on raw pointers")]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, RawFd};
use std::slice;

/// The offset that stands for the file's own cursor, which the op then moves.
pub(crate) const CURSOR: u64 = u64::MAX;

/// How the kernel carries out a file op that it cannot complete at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileManner {
    /// The kernel waits for the device, or for the other end, without a thread, as far as it can.
    Event,
    /// The kernel blocks a thread of its own right away. Without that it would only find out that
    /// it needs one.
    Thread,
}

/// One request about a file. The submitter is responsible for the pointers, as for those of
/// [`Op`](super::Op).
#[derive(Clone, Copy, Debug)]
pub(crate) enum FileOp {
    /// preadv2(2) into one buffer. Result: bytes, 0 at the end.
    Read { fd: RawFd, buf: *mut u8, len: u32, offset: u64 },
    /// pwritev2(2) from one buffer. Result: bytes taken.
    Write { fd: RawFd, buf: *const u8, len: u32, offset: u64 },
    /// preadv2(2).
    ReadVectored { fd: RawFd, buffers: *const libc::iovec, count: u32, offset: u64 },
    /// pwritev2(2).
    WriteVectored { fd: RawFd, buffers: *const libc::iovec, count: u32, offset: u64 },
    /// fsync(2), or fdatasync(2). Result: 0.
    Sync { fd: RawFd, data_only: bool },
}

// SAFETY: U1: plain data. The code that makes an op keeps what it points to until the op has ended,
// on whatever thread that is.
unsafe impl Send for FileOp {}

impl FileOp {
    /// Does a transfer as far as no device is needed for it, from the page cache. Fails with
    /// `WouldBlock` if the data is not there, and with `Unsupported` if this file cannot tell.
    ///
    /// # Safety
    /// What the op points to is valid for the call, and nothing else touches it meanwhile.
    pub(crate) unsafe fn attempt(&self) -> io::Result<u32> {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.retried(libc::RWF_NOWAIT) }
    }

    /// Does the op, and blocks the thread for as long as it takes. Never fails with `Interrupted`.
    ///
    /// # Safety
    /// As [`FileOp::attempt`].
    pub(crate) unsafe fn call(&self) -> io::Result<u32> {
        // SAFETY: the caller's promise, passed on.
        unsafe { self.retried(0) }
    }

    /// Does the op as [`FileOp::call`] does, if it is known to wait for nothing. A plain read or
    /// write is a few per cent faster without the list of buffers, and without libc, which makes
    /// each of its calls a point where a thread may be cancelled.
    ///
    /// # Safety
    /// As [`FileOp::attempt`].
    pub(crate) unsafe fn call_at_once(&self) -> io::Result<u32> {
        loop {
            let result = match *self {
                FileOp::Read { fd, buf, len, offset } => {
                    // SAFETY: the caller promises an open fd.
                    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
                    let buffer = buf.cast::<MaybeUninit<u8>>();
                    // SAFETY: the caller promises a buffer of this length, which nothing else uses.
                    let buffer = unsafe { slice::from_raw_parts_mut(buffer, len as usize) };
                    match offset {
                        CURSOR => rustix::io::read(fd, buffer).map(|(read, _)| read.len()),
                        offset => rustix::io::pread(fd, buffer, offset).map(|(read, _)| read.len()),
                    }
                }
                FileOp::Write { fd, buf, len, offset } => {
                    // SAFETY: the caller promises an open fd.
                    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
                    // SAFETY: the caller promises a buffer of this length, which nothing changes
                    // meanwhile.
                    let buffer = unsafe { slice::from_raw_parts(buf, len as usize) };
                    match offset {
                        CURSOR => rustix::io::write(fd, buffer),
                        offset => rustix::io::pwrite(fd, buffer, offset),
                    }
                }
                // SAFETY: the caller's promise, passed on.
                _ => return unsafe { self.call() },
            };
            match result {
                Ok(count) => return Ok(u32::try_from(count).expect("no more than was asked for")),
                Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Makes the system call, again after each interruption.
    /// # Safety
    /// As [`FileOp::attempt`].
    unsafe fn retried(&self, flags: i32) -> io::Result<u32> {
        loop {
            // SAFETY: the caller's promise, passed on.
            match u32::try_from(unsafe { self.raw(flags) }) {
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
    /// As [`FileOp::attempt`].
    unsafe fn raw(&self, flags: i32) -> isize {
        match *self {
            FileOp::Read { fd, buf, len, offset } => {
                let buffer = libc::iovec { iov_base: buf.cast(), iov_len: len as usize };
                // SAFETY: the caller promises a buffer of this length.
                unsafe { libc::preadv2(fd, &raw const buffer, 1, offset.cast_signed(), flags) }
            }
            FileOp::Write { fd, buf, len, offset } => {
                let buffer = libc::iovec { iov_base: buf.cast_mut().cast(), iov_len: len as usize };
                // SAFETY: the caller promises a buffer of this length, which is only read.
                unsafe { libc::pwritev2(fd, &raw const buffer, 1, offset.cast_signed(), flags) }
            }
            FileOp::ReadVectored { fd, buffers, count, offset } => {
                // SAFETY: the caller promises `count` valid buffers.
                unsafe {
                    libc::preadv2(fd, buffers, count.cast_signed(), offset.cast_signed(), flags)
                }
            }
            FileOp::WriteVectored { fd, buffers, count, offset } => {
                // SAFETY: the caller promises `count` valid buffers, which are only read.
                unsafe {
                    libc::pwritev2(fd, buffers, count.cast_signed(), offset.cast_signed(), flags)
                }
            }
            // SAFETY: no memory is involved.
            FileOp::Sync { fd, data_only: true } => unsafe { libc::fdatasync(fd) as isize },
            // SAFETY: no memory is involved.
            FileOp::Sync { fd, data_only: false } => unsafe { libc::fsync(fd) as isize },
        }
    }

    /// Returns what a wait for the op waits for, in words.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            FileOp::Read { .. } | FileOp::ReadVectored { .. } => "bytes of the file",
            FileOp::Write { .. } | FileOp::WriteVectored { .. } => "bytes to be taken by the file",
            FileOp::Sync { .. } => "the device to have everything of the file",
        }
    }

    pub(crate) fn fd(&self) -> RawFd {
        match *self {
            FileOp::Read { fd, .. }
            | FileOp::Write { fd, .. }
            | FileOp::ReadVectored { fd, .. }
            | FileOp::WriteVectored { fd, .. }
            | FileOp::Sync { fd, .. } => fd,
        }
    }
}
