//! The process's standard streams as inherited: fds 0, 1 and 2, whose open files are shared with
//! other processes.
//!
//! Their mode is never changed, because a shell breaks if its terminal is suddenly in non-blocking
//! mode. A regular file never waits for another process, only for the disk. Data that the kernel
//! does not have in memory is read on a thread that may block.
#![expect(unsafe_code, reason = "builds ops from borrowed buffers; borrows fds that stay open")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};

use crate::driver::request::{AwaitsStandardStreams, FileKind, KindOf, WriteOnce};
use crate::driver::{
    Backing, CURSOR, Descriptor, FileCall, FileOp, Manner, Op, clamp_length, request,
};
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
        if rustix::termios::isatty(&standard) {
            standard.manner = Manner::Terminal;
        } else if let Ok(kind) = request(KindOf { fd: &standard.fd }) {
            standard.regular = matches!(kind, FileKind::RegularFile | FileKind::BlockDevice);
        }
        standard
    }

    pub(super) fn is_terminal(&self) -> bool {
        rustix::termios::isatty(self)
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
        let (buf, len) = (buffer.as_mut_ptr(), clamp_length(buffer.len()));
        let op = if self.regular {
            self.file(FileCall::Read { buf, len })
        } else {
            Op::Read { fd: &self.fd, buf, len, manner: self.manner }
        };
        // SAFETY: S3: the buffer is borrowed until this returns, and a standard stream is never
        // closed.
        let outcome = unsafe { perform(op) };
        if_closed(outcome.map(|count| count as usize), 0)
    }

    /// Writes. Bytes written to a closed stream are discarded.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        if !are_awaited() {
            return if_closed(request(WriteOnce { fd: &self.fd, bytes }), bytes.len());
        }
        let (buf, len) = (bytes.as_ptr(), clamp_length(bytes.len()));
        let op = if self.regular {
            self.file(FileCall::Write { buf, len })
        } else {
            Op::Write { fd: &self.fd, buf, len, manner: self.manner }
        };
        // SAFETY: S3, as in `read`. The kernel only reads the bytes.
        let outcome = unsafe { perform(op) };
        if_closed(outcome.map(|count| count as usize), bytes.len())
    }

    /// Returns the op for a call on a regular file. Cached data is copied on this thread. The limit
    /// keeps other tasks from waiting long.
    fn file(&self, call: FileCall) -> Op<'_> {
        let backing = Backing::Inherited;
        Op::File(FileOp { fd: &self.fd, call, offset: CURSOR, backing, at_once: PIECE })
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

/// Ignores the error of a closed stream, as std does, so that a program also works if it was
/// started without the stream.
fn if_closed(outcome: io::Result<usize>, instead: usize) -> io::Result<usize> {
    match outcome {
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => Ok(instead),
        outcome => outcome,
    }
}
