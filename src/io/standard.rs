//! The process's standard streams as inherited: fds 0, 1 and 2, whose open files are shared with
//! other processes.
//!
//! Their mode is never changed, because a shell breaks if its terminal is suddenly in non-blocking
//! mode. A regular file never waits for another process, only for the disk. Data that the kernel
//! does not have in memory is read on a thread that may block.
#![expect(unsafe_code, reason = "borrows fds that stay open")]

use std::io::{self, IoSlice, IoSliceMut, IsTerminal as _};
use std::os::fd::{AsFd, BorrowedFd, RawFd};

use crate::driver::request::{AwaitsStandardStreams, FileKind, KindOf, WriteOnce};
use crate::driver::{Backing, CURSOR, Descriptor, LentCall, LentOp, Manner, request};
use crate::sched::io::perform;
use crate::task;

/// The most bytes of a regular file that are copied at once.
const PIECE: u32 = 256 << 10;

/// One of the three standard streams.
#[derive(Debug)]
pub(super) struct Standard {
    fd: Descriptor,
    manner: Manner,
    regular: bool,
}

impl Standard {
    /// Returns the stream with this fd number.
    pub(super) fn new(number: RawFd) -> Standard {
        let fd = Descriptor::of(&number);
        let mut standard = Standard { fd, manner: Manner::Shared, regular: false };
        if standard.is_terminal() {
            standard.manner = Manner::Terminal;
        } else if let Ok(kind) = request(KindOf { fd: &standard.fd }) {
            standard.regular = matches!(kind, FileKind::RegularFile | FileKind::BlockDevice);
        }
        standard
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.as_fd().is_terminal()
    }

    /// Returns the descriptor.
    pub(super) fn fd(&self) -> &Descriptor {
        &self.fd
    }

    /// Reads. A closed stream reads as empty.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        if !are_awaited() {
            task::begin_wait()?;
            return Ok(0);
        }
        let op = if self.regular {
            self.file(LentCall::read(buffer))
        } else {
            LentOp::read(&self.fd, buffer, self.manner)
        };
        let outcome = perform(&op);
        if_closed(outcome.map(|count| count as usize), 0)
    }

    /// Writes. Bytes written to a closed stream are discarded.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        if !are_awaited() {
            return if_closed(request(WriteOnce { fd: &self.fd, bytes }), bytes.len());
        }
        let op = if self.regular {
            self.file(LentCall::write(bytes))
        } else {
            LentOp::write(&self.fd, bytes, self.manner)
        };
        let outcome = perform(&op);
        if_closed(outcome.map(|count| count as usize), bytes.len())
    }

    /// Reads like [`Standard::read`], into the buffers in turn.
    pub(super) fn read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        if !are_awaited() {
            return self.read(&mut []);
        }
        let op = if self.regular {
            self.file(LentCall::read_vectored(buffers))
        } else {
            LentOp::read_vectored(&self.fd, buffers, self.manner)
        };
        let outcome = perform(&op);
        if_closed(outcome.map(|count| count as usize), 0)
    }

    /// Writes like [`Standard::write`], from the slices in turn.
    pub(super) fn write_vectored(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        if !are_awaited() {
            return in_turn(slices, |bytes| self.write(bytes));
        }
        let op = if self.regular {
            self.file(LentCall::write_vectored(slices))
        } else {
            LentOp::write_vectored(&self.fd, slices, self.manner)
        };
        let outcome = perform(&op);
        let total = slices.iter().map(|slice| slice.len()).sum();
        if_closed(outcome.map(|count| count as usize), total)
    }

    /// Returns the op for a call on a regular file. Cached data is copied on this thread. The limit
    /// keeps other tasks from waiting long.
    fn file<'a>(&'a self, call: LentCall<'a>) -> LentOp<'a> {
        LentOp::of_file(&self.fd, call, CURSOR, Backing::Inherited, PIECE)
    }
}

impl AsFd for Standard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: a standard stream is never closed by ecru. If it was closed before, calls on it
        // fail.
        unsafe { BorrowedFd::borrow_raw(self.fd.number()) }
    }
}

/// Returns whether a driver carries reads and writes of standard streams. Otherwise the input is at
/// its end, and a write may block the thread.
pub(super) fn are_awaited() -> bool {
    request(AwaitsStandardStreams {}).unwrap_or(true)
}

/// Writes the slices in turn, until one is not taken as a whole. Returns the number of bytes taken.
/// An error after the first bytes is left for the next call to meet.
pub(super) fn in_turn(
    slices: &[IoSlice<'_>],
    mut write: impl FnMut(&[u8]) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut total = 0;
    for slice in slices.iter().filter(|slice| !slice.is_empty()) {
        let count = match write(slice) {
            Err(_) if total > 0 => break,
            outcome => outcome?,
        };
        total += count;
        if count < slice.len() {
            break;
        }
    }
    Ok(total)
}

/// Ignores the error of a closed stream, as std does, so that a program also works if it was
/// started without the stream.
fn if_closed(outcome: io::Result<usize>, instead: usize) -> io::Result<usize> {
    match outcome {
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => Ok(instead),
        outcome => outcome,
    }
}
