//! Ops: requests to the kernel as plain data, and how to carry each out without waiting.
#![expect(unsafe_code, reason = "system calls on raw pointers")]

use super::descriptor::Descriptor;
use super::stream;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// What a wait for an fd waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// The fd has bytes to read, has a connection to accept, or is at the end of its stream.
    Read,
    /// The fd has room to write, or its connection attempt has ended.
    Write,
}

impl Interest {
    /// Returns the bits of poll(2)'s `events`.
    pub(super) fn events(self) -> i16 {
        match self {
            Interest::Read => libc::POLLIN,
            Interest::Write => libc::POLLOUT,
        }
    }

    pub(super) fn poll_flags(self) -> PollFlags {
        match self {
            Interest::Read => PollFlags::IN,
            Interest::Write => PollFlags::OUT,
        }
    }
}

/// How to read or write without waiting on an fd that is not a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// The fd is ours alone and in non-blocking mode.
    Nonblocking,
    /// Other processes may have the same open file. They decide its mode, and may change it at any
    /// moment.
    Shared,
    /// A shared terminal. The only way not to wait is to ask for readiness first, and another
    /// process may take the input between the two calls.
    Terminal,
}

/// One request to the kernel. The submitter answers for the pointers: see [`Op::attempt`] and
/// [`Driver::submit`](super::Driver::submit).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// recv(2). Result: bytes, 0 at the end of the stream. `drained` is true if the last receive
    /// is known to have left nothing behind.
    Recv { fd: Descriptor, buf: *mut u8, len: u32, flags: i32, drained: bool },
    /// send(2). Result: bytes taken.
    Send { fd: Descriptor, buf: *const u8, len: u32, flags: i32 },
    /// recvmsg(2): into several buffers, or with the sender's address. Result: bytes.
    RecvMsg { fd: Descriptor, message: *mut libc::msghdr, flags: i32 },
    /// sendmsg(2). Result: bytes taken.
    SendMsg { fd: Descriptor, message: *const libc::msghdr, flags: i32 },
    /// accept4(2) with `SOCK_NONBLOCK | SOCK_CLOEXEC`. Result: the new fd, which the caller owns.
    /// `shared`: other tasks accept from the same listener, and telling one of them of each
    /// connection is enough.
    Accept {
        fd: Descriptor,
        address: *mut libc::sockaddr_storage,
        length: *mut libc::socklen_t,
        shared: bool,
    },
    /// connect(2) on a non-blocking socket. Result: 0.
    Connect { fd: Descriptor, address: *const libc::sockaddr_storage, length: libc::socklen_t },
    /// read(2) on a stream: a pipe, a terminal, an eventfd. Result: bytes, 0 at the end.
    Read { fd: Descriptor, buf: *mut u8, len: u32, manner: Manner },
    /// write(2) on a stream. Result: bytes taken.
    Write { fd: Descriptor, buf: *const u8, len: u32, manner: Manner },
    /// Waits until the fd is ready. Result: the bits of poll(2)'s `revents`.
    Readiness { fd: Descriptor, interest: Interest },
}

/// The largest length that one op can carry. It is the kernel's own limit for a single transfer, to
/// which it cuts longer ones.
const MAX_LENGTH: usize = 0x7fff_f000;

/// Cuts a buffer's length to what one op can carry.
pub(crate) fn clamp_length(length: usize) -> u32 {
    u32::try_from(length.min(MAX_LENGTH)).expect("fits by the line above")
}

impl Op {
    /// Carries the op out once, without waiting. Returns `WouldBlock` if it would have to wait, and
    /// never returns `Interrupted`.
    ///
    /// It may be repeated. A `Connect` that has begun continues, and reports its end when it is
    /// attempted again. On fds in blocking mode, `Accept` and `Connect` do wait.
    ///
    /// # Safety
    /// Everything that the op points to is valid for the op's system call, and no other code
    /// accesses it meanwhile.
    pub(crate) unsafe fn attempt(&self) -> io::Result<u32> {
        loop {
            // SAFETY: the caller's promise, passed on.
            let outcome = unsafe { self.call() };
            let errno = outcome.as_ref().err().and_then(io::Error::raw_os_error);
            match errno {
                Some(libc::EINTR) => {}
                // Both mean that the attempt has begun and continues by itself.
                Some(libc::EINPROGRESS | libc::EALREADY) if matches!(self, Op::Connect { .. }) => {
                    return Err(io::Error::from_raw_os_error(libc::EAGAIN));
                }
                // An earlier call has already reported the end of the attempt.
                Some(libc::EISCONN) if matches!(self, Op::Connect { .. }) => return Ok(0),
                _ => return outcome,
            }
        }
    }

    /// Makes the system call.
    ///
    /// # Safety
    /// The conditions are those of [`Op::attempt`].
    unsafe fn call(&self) -> io::Result<u32> {
        match *self {
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
                // SAFETY: as above; the length says that the whole storage may be written.
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
            Op::Readiness { fd, interest } => stream::is_ready(fd.fd, interest),
        }
    }

    /// Returns whether to attempt the op before it is submitted. An attempt is always correct, but
    /// it wastes a system call if it is certain to find that the op has to wait. Measured, that is
    /// some 5% of the work for an echoed request.
    pub(crate) fn is_worth_attempting(&self) -> bool {
        !matches!(
            self,
            Op::Recv { drained: true, .. }
                | Op::Readiness { .. }
                | Op::Read { manner: Manner::Terminal, .. }
                | Op::Write { manner: Manner::Terminal, .. }
        )
    }

    /// Returns whether the fd's number may name another file by now, without this process having
    /// been told.
    pub(super) fn may_be_of_another_file(&self) -> bool {
        matches!(
            self,
            Op::Read { manner: Manner::Shared | Manner::Terminal, .. }
                | Op::Write { manner: Manner::Shared | Manner::Terminal, .. }
        )
    }

    /// Returns whether this op alone is told of the news it waits for, so that it has to make an
    /// attempt: see [`super::acceptors`].
    pub(crate) fn is_told_alone(&self) -> bool {
        matches!(self, Op::Accept { shared: true, .. })
    }

    /// Describes what a wait for the op waits for.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Op::Recv { .. } | Op::RecvMsg { .. } | Op::Read { .. } => "bytes to read from",
            Op::Send { .. } | Op::SendMsg { .. } | Op::Write { .. } => "room to write to",
            Op::Accept { .. } => "a connection to",
            Op::Connect { .. } => "an answer to the connecting",
            Op::Readiness { interest: Interest::Read, .. } => "something to read from",
            Op::Readiness { interest: Interest::Write, .. } => "room to write to",
        }
    }

    /// Returns what to wait for, by poll(2) or a similar call, before the op is worth attempting
    /// again.
    pub(crate) fn readiness(&self) -> (Descriptor, Interest) {
        match *self {
            Op::Recv { fd, .. }
            | Op::RecvMsg { fd, .. }
            | Op::Accept { fd, .. }
            | Op::Read { fd, .. } => (fd, Interest::Read),
            Op::Send { fd, .. }
            | Op::SendMsg { fd, .. }
            | Op::Connect { fd, .. }
            | Op::Write { fd, .. } => (fd, Interest::Write),
            Op::Readiness { fd, interest } => (fd, interest),
        }
    }

    /// Blocks the calling thread by poll(2). Returns true once the op is worth attempting again,
    /// and false if the time is up. May return false early.
    ///
    /// # Errors
    /// Returns the errors of poll(2). An attempt of the op shows the errors of the fd.
    ///
    /// # Safety
    /// The op's fd is open until this returns.
    pub(crate) unsafe fn block_until_ready(&self, timeout: Option<Duration>) -> io::Result<bool> {
        let (fd, interest) = self.readiness();
        // SAFETY: the caller promises that the fd is open.
        let fd = unsafe { BorrowedFd::borrow_raw(fd.fd) };
        let mut fds = [PollFd::from_borrowed_fd(fd, interest.poll_flags())];
        // A timeout that does not fit ends in centuries.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
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

/// Returns the result of a system call that returns -1 and sets errno when it fails.
pub(super) fn check(result: isize) -> io::Result<u32> {
    u32::try_from(result).map_err(|_| io::Error::last_os_error())
}
