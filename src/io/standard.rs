//! The process's standard streams as they come from outside: fds 0, 1 and 2, whose open files other processes have as well.
//!
//! Their mode is never changed: a shell whose terminal is suddenly in non-blocking mode is broken. A regular file never makes
//! anybody wait for somebody else, only for the disk: what the kernel does not have at hand is left to a thread that may block.
#![expect(unsafe_code, reason = "makes ops of borrowed buffers, and borrows fds that stay open")]

use std::io;
use std::os::fd::{AsFd, BorrowedFd, RawFd};

use rustix::fs::FileType;

use crate::driver::{Descriptor, Manner, Op, clamp_length};
use crate::sched::io::perform;
use crate::sched::unblock;
use crate::task;

/// The most that is read of a regular file at once.
const PIECE: usize = 256 << 10;

/// One of the three.
#[derive(Debug)]
pub(super) struct Standard {
    fd: Descriptor,
    manner: Manner,
    regular: bool,
}

impl Standard {
    /// The stream with this number.
    pub(super) fn new(number: RawFd) -> Standard {
        let fd = Descriptor::of(&number);
        let mut standard = Standard { fd, manner: Manner::Shared, regular: false };
        if rustix::termios::isatty(&standard) {
            standard.manner = Manner::Terminal;
        } else if let Ok(stat) = rustix::fs::fstat(&standard) {
            let kind = FileType::from_raw_mode(stat.st_mode);
            standard.regular = matches!(kind, FileType::RegularFile | FileType::BlockDevice);
        }
        standard
    }

    pub(super) fn is_terminal(&self) -> bool {
        rustix::termios::isatty(self)
    }

    /// Reads; of a stream that has been closed, nothing.
    pub(super) fn read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        // What a file in memory has is read at once, on this thread: not more than others can wait for.
        let most = if self.regular { buffer.len().min(PIECE) } else { buffer.len() };
        let (buf, len) = (buffer.as_mut_ptr(), clamp_length(most));
        let op = Op::Read { fd: self.fd, buf, len, manner: self.manner };
        // SAFETY: S3: the buffer is borrowed until this returns, and nobody closes a standard stream.
        let outcome = unsafe { self.transfer(op) };
        if_closed(outcome, 0)
    }

    /// Writes; to a stream that has been closed, into the void.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        let (buf, len) = (bytes.as_ptr(), clamp_length(bytes.len()));
        let op = Op::Write { fd: self.fd, buf, len, manner: self.manner };
        // SAFETY: S3: as above; the kernel only reads them.
        let outcome = unsafe { self.transfer(op) };
        if_closed(outcome, bytes.len())
    }

    /// # Safety
    /// As [`perform`].
    unsafe fn transfer(&self, op: Op) -> io::Result<usize> {
        if !self.regular {
            // SAFETY: the caller's promise.
            return unsafe { perform(op) }.map(|count| count as usize);
        }
        task::begin_wait()?;
        // SAFETY: the caller's promise.
        match unsafe { op.attempt() } {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            other => return other.map(|count| count as usize),
        }
        let op = Plain(op);
        // SAFETY: the caller's promise: `unblock` returns after the call.
        unblock(move || unsafe { op.call() })
    }
}

/// Of a regular file: read or written by whoever calls it, however long that takes.
struct Plain(Op);

// SAFETY: S3: what it points to is valid, and nobody else's, wherever it is called.
unsafe impl Send for Plain {}

impl Plain {
    /// # Safety
    /// As [`perform`].
    unsafe fn call(self) -> io::Result<usize> {
        loop {
            let result = match self.0 {
                // SAFETY: the caller's promise.
                Op::Read { fd, buf, len, .. } => unsafe {
                    libc::read(fd.fd, buf.cast(), len as usize)
                },
                // SAFETY: the caller's promise.
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
        // SAFETY: nobody closes a standard stream; if it was closed before, calls on it fail.
        unsafe { BorrowedFd::borrow_raw(self.fd.fd) }
    }
}

/// As std: a program that was started without the stream need not notice.
fn if_closed(outcome: io::Result<usize>, instead: usize) -> io::Result<usize> {
    match outcome {
        Err(error) if error.raw_os_error() == Some(libc::EBADF) => Ok(instead),
        outcome => outcome,
    }
}
