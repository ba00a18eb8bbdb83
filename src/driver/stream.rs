//! Reading and writing without waiting on what is no socket.
//!
//! A socket has a flag for each call that says "do not wait"; a pipe or a terminal has only the mode of the open file, which every process
//! that has inherited it shares. So on what is shared each call says for itself that it must not wait, where the kernel knows how
//! (`RWF_NOWAIT`: pipes since Linux 6.4, most files and sockets). Where it does not, poll(2) is asked first. Between the two
//! calls another process may take what was there, and then the second one waits: that cannot be helped without the ring,
//! which is why terminals are left to it.
#![expect(unsafe_code, reason = "system calls on raw pointers")]

use super::op::{Interest, Manner, check};
use std::io;
use std::os::fd::RawFd;

/// What a pipe that is ready for a write has room for at least, so that writing no more than this does not wait (`PIPE_BUF`).
const SURE_ROOM: usize = 4096;

/// read(2).
///
/// # Safety
/// `buf` is valid for writes of `len` bytes.
pub(super) unsafe fn read(fd: RawFd, buf: *mut u8, len: usize, manner: Manner) -> io::Result<u32> {
    if manner == Manner::Shared {
        let part = libc::iovec { iov_base: buf.cast(), iov_len: len };
        // SAFETY: one part, which the caller promises to be valid.
        let result = unsafe { libc::preadv2(fd, &raw const part, 1, -1, libc::RWF_NOWAIT) };
        if let Some(outcome) = told(result) {
            return outcome;
        }
    }
    if manner != Manner::Nonblocking {
        is_ready(fd, Interest::Read)?;
    }
    // SAFETY: the caller's promise.
    check(unsafe { libc::read(fd, buf.cast(), len) })
}

/// write(2).
///
/// # Safety
/// `buf` is valid for reads of `len` bytes.
pub(super) unsafe fn write(
    fd: RawFd,
    buf: *const u8,
    mut len: usize,
    manner: Manner,
) -> io::Result<u32> {
    if manner == Manner::Shared {
        let part = libc::iovec { iov_base: buf.cast_mut().cast(), iov_len: len };
        // SAFETY: one part, which the caller promises to be valid; it is only read.
        let result = unsafe { libc::pwritev2(fd, &raw const part, 1, -1, libc::RWF_NOWAIT) };
        if let Some(outcome) = told(result) {
            return outcome;
        }
    }
    if manner != Manner::Nonblocking {
        is_ready(fd, Interest::Write)?;
        len = len.min(SURE_ROOM);
    }
    // SAFETY: the caller's promise.
    check(unsafe { libc::write(fd, buf.cast(), len) })
}

/// The outcome of a call with `RWF_NOWAIT`; none: this kernel or this file does not know it.
fn told(result: isize) -> Option<io::Result<u32>> {
    match check(result) {
        Err(error) => match error.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL) => None,
            _ => Some(Err(error)),
        },
        outcome => Some(outcome),
    }
}

/// poll(2) without waiting: the bits that it gives, or `WouldBlock`.
pub(super) fn is_ready(fd: RawFd, interest: Interest) -> io::Result<u32> {
    let events = interest.events();
    let mut asked = libc::pollfd { fd, events, revents: 0 };
    // SAFETY: one valid pollfd, which outlives the call.
    check(unsafe { libc::poll(&raw mut asked, 1, 0) } as isize)?;
    match asked.revents {
        0 => Err(io::Error::from_raw_os_error(libc::EAGAIN)),
        invalid if invalid & libc::POLLNVAL != 0 => Err(io::Error::from_raw_os_error(libc::EBADF)),
        events => Ok(u32::from(events.cast_unsigned())),
    }
}

/// Whether the open file is in non-blocking mode now; not, if the fd is not open.
pub(crate) fn is_in_nonblocking_mode(fd: RawFd) -> bool {
    // SAFETY: asks for an integer; an fd that is not open is refused.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags != -1 && flags & libc::O_NONBLOCK != 0
}
