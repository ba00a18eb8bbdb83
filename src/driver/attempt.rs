//! Attempts: carrying an op out without waiting. They need nothing but the op and its descriptor,
//! so they are the same for all drivers of the kernel, and neither open a ring nor reach a worker.
#![expect(unsafe_code, reason = "system calls on raw pointers")]

use super::descriptor::Descriptor;
use super::lent::LentOp;
use super::op::{FileOp, Manner, Op, check};
use super::{file, stream};
use std::io;

#[cfg(test)]
std::thread_local! {
    /// The number of attempts that this thread has made.
    pub(super) static ATTEMPTS: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// What [`at_once`] found.
#[derive(Debug)]
pub(crate) enum AtOnce {
    /// The op has ended.
    Done(io::Result<u32>),
    /// An attempt was made, and the op has to wait.
    WouldWait,
    /// Whether the op has to wait is not known: an attempt would probably be in vain, or this file
    /// cannot tell.
    Unknown,
}

/// Carries the op out if that is likely to need no wait. Otherwise the op has to be
/// [started](super::Driver::start). This is the fast path of every start.
///
/// # Safety
/// Everything that the op points to is valid for this call, and no other code accesses it
/// meanwhile. The fd is open.
#[inline(always)]
pub(crate) unsafe fn at_once(op: &Op<'_>) -> AtOnce {
    if !is_worth_attempting(op) {
        return AtOnce::Unknown;
    }
    // SAFETY: the caller's promise, passed on.
    match unsafe { without_waiting(op) } {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => AtOnce::WouldWait,
        Err(error) if matches!(op, Op::File(op) if op.is_left_open_by(&error)) => AtOnce::Unknown,
        Err(error) => AtOnce::Done(Err(reported(error))),
        outcome => AtOnce::Done(outcome),
    }
}

/// Returns the error that a call reports.
#[inline(always)]
fn reported(error: io::Error) -> io::Error {
    #[cfg(feature = "sim")]
    let error = super::sim::error_on_this_host(error);
    error
}

/// Returns whether to attempt the op before it is handed to a driver. An attempt is always correct,
/// but it wastes a system call if it is certain to find that the op has to wait. Measured, that is
/// some 5% of the work for an echoed request.
#[inline(always)]
fn is_worth_attempting(op: &Op<'_>) -> bool {
    match *op {
        Op::Recv { fd, stream: true, .. } => !fd.is_drained(),
        Op::Readiness { .. }
        | Op::Read { manner: Manner::Terminal, .. }
        | Op::Write { manner: Manner::Terminal, .. }
        | Op::ReadVectored { manner: Manner::Terminal, .. }
        | Op::WriteVectored { manner: Manner::Terminal, .. }
        | Op::File(FileOp { at_once: 0, .. }) => false,
        _ => true,
    }
}

/// Carries the op out once, as [`without_waiting`] does.
#[inline]
pub(crate) fn try_now(op: &LentOp<'_>) -> io::Result<u32> {
    // SAFETY: S3: the op holds the borrows of its memory and its fd until this returns.
    unsafe { without_waiting(op.op()) }
}

/// Carries the op out once, without waiting. Returns `WouldBlock` if it would have to wait, and
/// never returns `Interrupted`.
///
/// It may be repeated. A `Connect` that has begun continues, and reports its end when it is
/// attempted again. On fds in blocking mode, `Accept` and `Connect` do wait.
///
/// # Safety
/// The conditions are those of [`at_once`].
#[inline(always)]
pub(super) unsafe fn without_waiting(op: &Op<'_>) -> io::Result<u32> {
    loop {
        // SAFETY: the caller's promise, passed on.
        let outcome = unsafe { call(op) };
        match outcome {
            Ok(result) => {
                observe(op, result);
                return Ok(result);
            }
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR) => {}
                // Both mean that the attempt has begun and continues by itself.
                Some(libc::EINPROGRESS | libc::EALREADY) if matches!(op, Op::Connect { .. }) => {
                    return Err(io::Error::from_raw_os_error(libc::EAGAIN));
                }
                // An earlier call has already reported the end of the attempt.
                Some(libc::EISCONN) if matches!(op, Op::Connect { .. }) => return Ok(0),
                _ => return Err(error),
            },
        }
    }
}

/// Returns whether the op waits for room in the queue of another Unix socket, of which no event
/// tells. A datagram of a connected socket is no such op, because its socket tells.
///
/// # Safety
/// Everything that the op points to is valid for this call. An attempt of the op has found that it
/// has to wait.
#[inline]
pub(super) unsafe fn is_untold(op: &Op<'_>) -> bool {
    let to = match *op {
        Op::Connect { address, .. } => address.cast::<libc::c_void>(),
        // SAFETY: the caller promises a valid message.
        Op::SendMsg { message, .. } => unsafe { (*message).msg_name }.cast_const(),
        _ => return false,
    };
    // SAFETY: the caller promises a valid address, or there is none. Each begins with its family.
    let family: Option<&libc::sa_family_t> = unsafe { to.cast::<libc::sa_family_t>().as_ref() };
    family.is_some_and(|family| i32::from(*family) == libc::AF_UNIX)
}

/// Draws the conclusions from an op that has ended on this thread with this result.
#[inline(always)]
pub(super) fn observe(op: &Op<'_>, result: u32) {
    match *op {
        Op::Recv { fd, len, flags, stream: true, .. } => {
            fd.note_drained(result > 0 && result < len && flags & libc::MSG_PEEK == 0);
        }
        // How much of the buffers was filled is not known here.
        Op::RecvMsg { fd, .. } => forget_hint(fd),
        _ => {}
    }
}

/// Forgets a hint that may be wrong from now on.
#[inline(always)]
pub(super) fn forget_hint(fd: &Descriptor) {
    if fd.is_drained() {
        fd.note_drained(false);
    }
}

/// Makes the system call.
///
/// # Safety
/// The conditions are those of [`at_once`].
#[inline(always)]
unsafe fn call(op: &Op<'_>) -> io::Result<u32> {
    #[cfg(test)]
    ATTEMPTS.set(ATTEMPTS.get() + 1);
    #[cfg(feature = "sim")]
    if let Some(file) = op.descriptor().file() {
        // SAFETY: the caller's promise, passed on.
        return unsafe { file.attempt(op) };
    }
    match *op {
        Op::Recv { fd, buf, len, flags, .. } => {
            // SAFETY: the caller promises a buffer of this length.
            check(unsafe {
                libc::recv(fd.fd, buf.cast(), len as usize, flags | libc::MSG_DONTWAIT)
            })
        }
        Op::Send { fd, buf, len, flags } => {
            // SAFETY: the caller promises a buffer of this length.
            check(unsafe {
                libc::send(fd.fd, buf.cast(), len as usize, flags | libc::MSG_DONTWAIT)
            })
        }
        Op::RecvMsg { fd, message, flags } => {
            // SAFETY: the caller promises a message whose parts are all valid.
            check(unsafe { libc::recvmsg(fd.fd, message, flags | libc::MSG_DONTWAIT) })
        }
        Op::SendMsg { fd, message, flags } => {
            // SAFETY: the caller promises a message whose parts are all valid.
            check(unsafe { libc::sendmsg(fd.fd, message, flags | libc::MSG_DONTWAIT) })
        }
        Op::Accept { fd, address, length, .. } => {
            // SAFETY: the caller promises room for an address and for its length.
            unsafe { reset_length(length) };
            let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            // SAFETY: the caller promises room for an address. The length says that all of it may
            // be written.
            check(unsafe { libc::accept4(fd.fd, address.cast(), length, flags) } as isize)
        }
        Op::Connect { fd, address, length } => {
            // SAFETY: the caller promises an address of this length.
            check(unsafe { libc::connect(fd.fd, address.cast(), length) } as isize)
        }
        Op::Read { fd, buf, len, manner } => {
            // SAFETY: the caller promises a buffer of this length.
            unsafe { stream::read(fd.fd, buf, len as usize, manner) }
        }
        Op::Write { fd, buf, len, manner } => {
            // SAFETY: the caller promises a buffer of this length.
            unsafe { stream::write(fd.fd, buf, len as usize, manner) }
        }
        Op::ReadVectored { fd, buffers, count, manner } => {
            // SAFETY: the caller promises `count` valid buffers.
            unsafe { stream::read_vectored(fd.fd, buffers, count, manner) }
        }
        Op::WriteVectored { fd, buffers, count, manner } => {
            // SAFETY: the caller promises `count` valid buffers.
            unsafe { stream::write_vectored(fd.fd, buffers, count, manner) }
        }
        Op::Readiness { fd, interest } => stream::is_ready(fd.fd, interest),
        Op::File(op) => {
            // SAFETY: the caller promises valid buffers.
            unsafe { file::attempt(&op) }
        }
    }
}

/// Writes the size of an address's storage to `length`.
///
/// # Safety
/// `length` is valid for a write.
unsafe fn reset_length(length: *mut libc::socklen_t) {
    const ROOM: libc::socklen_t = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: the caller's promise.
    unsafe { length.write(ROOM) };
}
