//! Reads and writes without waiting on fds that are not sockets.
//!
//! A socket has a flag for each call that says "do not wait". A pipe or a terminal has only the
//! mode of the open file, which every process that has inherited the file shares. So on a shared
//! file each call says for itself that it must not wait, where the kernel supports that
//! (`RWF_NOWAIT`: pipes since Linux 6.4, most files and sockets).
//!
//! Elsewhere the caller asks poll(2) first. Between the two calls another process may take what was
//! there, and then the second call waits. Only the ring avoids that, which is why terminals are
//! left to it.
#![expect(unsafe_code, reason = "system calls on raw pointers")]

use super::op::{Backing, FileOp, Interest, Manner, Op, check};
use std::io;
use std::os::fd::RawFd;
use std::ptr::NonNull;

/// The least room of a pipe that is ready for a write (`PIPE_BUF`). A write of no more than this
/// does not wait.
const SURE_ROOM: usize = 4096;

/// Calls read(2).
///
/// # Safety
/// `buf` is valid for writes of `len` bytes.
pub(super) unsafe fn read(fd: RawFd, buf: *mut u8, len: usize, manner: Manner) -> io::Result<u32> {
    if manner == Manner::Shared {
        let part = libc::iovec { iov_base: buf.cast(), iov_len: len };
        // SAFETY: one part, which the caller promises to be valid.
        let result = unsafe { libc::preadv2(fd, &raw const part, 1, -1, libc::RWF_NOWAIT) };
        if let Some(outcome) = unless_unsupported(result) {
            return outcome;
        }
    }
    if manner != Manner::Nonblocking {
        is_ready(fd, Interest::Read)?;
    }
    // SAFETY: the caller's promise.
    check(unsafe { libc::read(fd, buf.cast(), len) })
}

/// Calls write(2).
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
        // SAFETY: one part, which the caller promises to be valid. It is only read.
        let result = unsafe { libc::pwritev2(fd, &raw const part, 1, -1, libc::RWF_NOWAIT) };
        if let Some(outcome) = unless_unsupported(result) {
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

/// Calls readv(2).
///
/// # Safety
/// The `count` buffers are valid for writes.
pub(super) unsafe fn read_vectored(
    fd: RawFd,
    buffers: *const libc::iovec,
    count: u32,
    manner: Manner,
) -> io::Result<u32> {
    // SAFETY: the caller's promise.
    let result = unsafe { libc::preadv2(fd, buffers, count.cast_signed(), -1, nowait(manner)) };
    unless_unsupported(result).unwrap_or_else(|| {
        // SAFETY: the caller's promise.
        let part = unsafe { first(buffers, count) };
        // SAFETY: one of the caller's buffers.
        unsafe { read(fd, part.iov_base.cast(), part.iov_len, manner) }
    })
}

/// Calls writev(2).
///
/// # Safety
/// The `count` buffers are valid for reads.
pub(super) unsafe fn write_vectored(
    fd: RawFd,
    buffers: *const libc::iovec,
    count: u32,
    manner: Manner,
) -> io::Result<u32> {
    // SAFETY: the caller's promise. The buffers are only read.
    let result = unsafe { libc::pwritev2(fd, buffers, count.cast_signed(), -1, nowait(manner)) };
    unless_unsupported(result).unwrap_or_else(|| {
        // SAFETY: the caller's promise.
        let part = unsafe { first(buffers, count) };
        // SAFETY: one of the caller's buffers.
        unsafe { write(fd, part.iov_base.cast(), part.iov_len, manner) }
    })
}

/// Returns the flags of a call that must not wait.
fn nowait(manner: Manner) -> i32 {
    if manner == Manner::Nonblocking { 0 } else { libc::RWF_NOWAIT }
}

/// Returns the first buffer that is not empty, or an empty one. After a call for one buffer, it is
/// not known whether a call for the next would wait.
///
/// # Safety
/// The `count` entries of the list are valid.
unsafe fn first(buffers: *const libc::iovec, count: u32) -> libc::iovec {
    let mut found = libc::iovec { iov_base: NonNull::<u8>::dangling().as_ptr().cast(), iov_len: 0 };
    for index in 0..count as usize {
        // SAFETY: the caller's promise: the list has more entries than `index`.
        let entry = unsafe { buffers.add(index) };
        // SAFETY: the caller's promise: the entry is valid.
        let buffer = unsafe { entry.read() };
        if buffer.iov_len != 0 {
            found = buffer;
            break;
        }
    }
    found
}

/// Returns the outcome of a call with `RWF_NOWAIT`, or `None` if this kernel or this file does not
/// support the flag.
fn unless_unsupported(result: isize) -> Option<io::Result<u32>> {
    match check(result) {
        Err(error) => match error.raw_os_error() {
            Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL) => None,
            _ => Some(Err(error)),
        },
        outcome => Some(outcome),
    }
}

/// Calls poll(2) without waiting. Returns the bits that it reports, or `WouldBlock` if there are
/// none.
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

impl Op<'_> {
    /// Returns the readiness to await before a thread blocks for the op, and whether the op may be
    /// attempted again and again after it.
    pub(crate) fn awaited_first(&self) -> Option<(Interest, bool)> {
        match *self {
            Op::File(FileOp { fd, call, backing: Backing::Stream { tells }, .. })
                if !is_in_nonblocking_mode(fd.fd) =>
            {
                Some((call.interest(), tells))
            }
            _ => None,
        }
    }
}

/// Returns whether the open file is in non-blocking mode now. Returns false if the fd is not open.
pub(super) fn is_in_nonblocking_mode(fd: RawFd) -> bool {
    // SAFETY: the call reads an integer, and refuses an fd that is not open.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags != -1 && flags & libc::O_NONBLOCK != 0
}

/// Returns whether nothing more comes to be read from the socket, because it or its peer has been
/// shut.
pub(super) fn is_shut_for_reading(fd: RawFd) -> bool {
    let mut asked = libc::pollfd { fd, events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: one valid pollfd, which outlives the call.
    unsafe { libc::poll(&raw mut asked, 1, 0) };
    asked.revents & libc::POLLRDHUP != 0
}

/// Returns whether the fd is a socket that carries a stream.
pub(super) fn is_stream_socket(fd: RawFd) -> bool {
    socket_option(fd, libc::SO_TYPE) == Some(libc::SOCK_STREAM)
}

/// Returns an option of a socket that is an integer, or `None` if the fd is not a socket.
pub(super) fn socket_option(fd: RawFd, option: i32) -> Option<i32> {
    let (mut value, mut length) = (0_i32, size_of::<i32>() as libc::socklen_t);
    let (room, size) = ((&raw mut value).cast(), &raw mut length);
    // SAFETY: there is room for the value, and `length` says how much. The call refuses an fd that
    // is not open.
    let asked = unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, option, room, size) };
    (asked == 0).then_some(value)
}
