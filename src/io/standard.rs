//! The process's standard streams as inherited: fds 0, 1 and 2, whose open files are shared with
//! other processes.
//!
//! Their mode is never changed, because a shell breaks if its terminal is suddenly in non-blocking
//! mode. A regular file never waits for another process, only for the disk. Data that the kernel
//! does not have in memory is read on a thread that may block.
#![expect(unsafe_code, reason = "builds ops from borrowed buffers; borrows fds that stay open")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};

use crate::driver::request::{FileKind, KindOf};
use crate::driver::{Descriptor, Manner, Op, clamp_length, request};
use crate::sched::io::perform;
use crate::sched::unblock;
use crate::task;

/// The most bytes read from a regular file at once.
const PIECE: usize = 256 << 10;

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
        } else if let Ok(kind) = request(KindOf { fd: standard.as_fd() }) {
            standard.regular = matches!(kind, FileKind::RegularFile | FileKind::BlockDevice);
        }
        standard
    }

    pub(super) fn is_terminal(&self) -> bool {
        rustix::termios::isatty(self)
    }

    /// Reads. A closed stream reads as empty.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // Cached data of a regular file is copied on this thread. The limit keeps other tasks from
        // waiting long.
        let most = if self.regular { buffer.len().min(PIECE) } else { buffer.len() };
        let (buf, len) = (buffer.as_mut_ptr(), clamp_length(most));
        let op = Op::Read { fd: self.fd, buf, len, manner: self.manner };
        // SAFETY: S3: the buffer is borrowed until this returns, and a standard stream is never
        // closed.
        let outcome = unsafe { self.transfer(op) };
        if_closed(outcome, 0)
    }

    /// Writes. Bytes written to a closed stream are discarded.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let (buf, len) = (bytes.as_ptr(), clamp_length(bytes.len()));
        let op = Op::Write { fd: self.fd, buf, len, manner: self.manner };
        // SAFETY: S3, as in `read`. The kernel only reads the bytes.
        let outcome = unsafe { self.transfer(op) };
        if_closed(outcome, bytes.len())
    }

    /// Performs an op. For a regular file, only an attempt is made on this thread.
    ///
    /// # Safety
    /// The caller must uphold the contract of [`perform`].
    unsafe fn transfer(&self, op: Op) -> io::Result<usize> {
        if !self.regular {
            // SAFETY: the caller upholds the same contract.
            return unsafe { perform(op) }.map(|count| count as usize);
        }
        task::begin_wait()?;
        // SAFETY: the caller upholds the same contract.
        match unsafe { op.attempt() } {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other.map(|count| count as usize),
        }
        let op = Plain(op);
        // SAFETY: the caller upholds the same contract, and `unblock` returns only after the call.
        unblock(move || unsafe { op.call() })
    }
}

/// An op on a regular file that is performed by a blocking system call.
struct Plain(Op);

// SAFETY: S3: the memory that the op points to is valid and not accessed by other code, on
// whichever thread it is called.
unsafe impl Send for Plain {}

impl Plain {
    /// Performs the op by a system call that may block.
    ///
    /// # Safety
    /// The caller must uphold the contract of [`perform`].
    unsafe fn call(self) -> io::Result<usize> {
        loop {
            let result = match self.0 {
                // SAFETY: the caller upholds the same contract.
                Op::Read { fd, buf, len, .. } => unsafe {
                    libc::read(fd.fd, buf.cast(), len as usize)
                },
                // SAFETY: the caller upholds the same contract.
                Op::Write { fd, buf, len, .. } => unsafe {
                    libc::write(fd.fd, buf.cast(), len as usize)
                },
                _ => unreachable!("only these two are made here"),
            };
            match usize::try_from(result) {
                Ok(count) => return Ok(count),
                Err(_) => {
                    let error = io::Error::last_os_error();
                    if error.kind() != io::ErrorKind::Interrupted {
                        return Err(error);
                    }
                }
            }
        }
    }
}

impl AsFd for Standard {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: a standard stream is never closed by ecru. If it was closed before, calls on it
        // fail.
        unsafe { BorrowedFd::borrow_raw(self.fd.fd) }
    }
}

/// Ignores the error of a closed stream, as std does, so that a program also works if it was
/// started without the stream.
fn if_closed(outcome: io::Result<usize>, instead: usize) -> io::Result<usize> {
    match outcome {
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => Ok(instead),
        outcome => outcome,
    }
}
