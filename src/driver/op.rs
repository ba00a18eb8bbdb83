//! Ops: what can be asked of the kernel, as plain data, and how to do each without waiting.
#![expect(unsafe_code, reason = "system calls on raw pointers")]

use super::descriptor::Descriptor;
use super::stream;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// What to wait for on an fd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Something to read, a connection to accept, the end of the stream.
    Read,
    /// Room to write, the end of a connection attempt.
    Write,
}

impl Interest {
    /// The bits of poll(2)'s `events`.
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

/// How to read or write without waiting, on what is not a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// The fd is ours and in non-blocking mode.
    Nonblocking,
    /// Other processes may have the same open file, so its mode is theirs, and may change at any moment.
    Shared,
    /// A shared terminal: it can only be asked whether there is something, and somebody else may be faster then.
    Terminal,
}

/// One request to the kernel. The pointers are the submitter's business: see [`Op::attempt`] and
/// [`Driver::submit`](super::Driver::submit).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// recv(2). Result: bytes, 0 at the end of the stream. `drained`: the last one left nothing behind, as far as known.
    Recv { fd: Descriptor, buf: *mut u8, len: u32, flags: i32, drained: bool },
    /// send(2). Result: bytes taken.
    Send { fd: Descriptor, buf: *const u8, len: u32, flags: i32 },
    /// recvmsg(2): into several buffers, or with the sender's address. Result: bytes.
    RecvMsg { fd: Descriptor, message: *mut libc::msghdr, flags: i32 },
    /// sendmsg(2). Result: bytes taken.
    SendMsg { fd: Descriptor, message: *const libc::msghdr, flags: i32 },
    /// accept4(2) with `SOCK_NONBLOCK | SOCK_CLOEXEC`. Result: the new fd, which the caller owns. `shared`: others accept from the same
    /// listener, and one of them is enough for each connection.
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

/// The largest length that one op can carry, as the kernel's own limit for a single transfer (it cuts longer ones short).
const MAX_LENGTH: usize = 0x7fff_f000;

/// Cuts a buffer's length to what one op can carry.
pub(crate) fn clamp_length(length: usize) -> u32 {
    u32::try_from(length.min(MAX_LENGTH)).expect("fits by the line above")
}

impl Op {
    /// Does the op once, without waiting. Returns `WouldBlock` if it would have to wait; never `Interrupted`.
    ///
    /// It may be repeated: a `Connect` that has begun goes on, and reports its end when it is attempted again.
    /// On fds in blocking mode `Accept` and `Connect` do wait.
    ///
    /// # Safety
    /// What the op points to is valid for the system call that it stands for, and touched by nobody else meanwhile.
    pub(crate) unsafe fn attempt(&self) -> io::Result<u32> {
        loop {
            // SAFETY: the caller's promise, passed on.
            let outcome = unsafe { self.call() };
            let errno = outcome.as_ref().err().and_then(io::Error::raw_os_error);
            match errno {
                Some(libc::EINTR) => {}
                // Both mean that the attempt has begun and goes on without us.
                Some(libc::EINPROGRESS | libc::EALREADY) if matches!(self, Op::Connect { .. }) => {
                    return Err(io::Error::from_raw_os_error(libc::EAGAIN));
                }
                // Somebody saw the end of the attempt before us.
                Some(libc::EISCONN) if matches!(self, Op::Connect { .. }) => return Ok(0),
                _ => return outcome,
            }
        }
    }

    /// The system call itself.
    ///
    /// # Safety
    /// As [`Op::attempt`].
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

    /// Whether to attempt the op before it is submitted. It is always right to, but a waste of a system call where it
    /// cannot but find that it has to wait: measured, some 5% of the work for an echoed request.
    pub(crate) fn is_worth_attempting(&self) -> bool {
        !matches!(
            self,
            Op::Recv { drained: true, .. }
                | Op::Readiness { .. }
                | Op::Read { manner: Manner::Terminal, .. }
                | Op::Write { manner: Manner::Terminal, .. }
        )
    }

    /// Whether somebody else may have put another file under the fd's number, and will not have told us.
    pub(super) fn may_be_of_another_file(&self) -> bool {
        matches!(
            self,
            Op::Read { manner: Manner::Shared | Manner::Terminal, .. }
                | Op::Write { manner: Manner::Shared | Manner::Terminal, .. }
        )
    }

    /// Whether the news for which this op waits is told to it alone, so that it has to make an attempt: see [`super::acceptors`].
    pub(crate) fn is_told_alone(&self) -> bool {
        matches!(self, Op::Accept { shared: true, .. })
    }

    /// What a wait for the op waits for, in words.
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

    /// What to wait for, by poll(2) or the like, before the op is worth attempting again.
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

    /// Blocks the calling thread by poll(2) until the op is worth attempting again (true), or the time is up. May return early.
    ///
    /// # Errors
    /// Those of poll(2). Errors of the fd show when the op is attempted.
    ///
    /// # Safety
    /// The op's fd is open until this returns.
    pub(crate) unsafe fn block_until_ready(&self, timeout: Option<Duration>) -> io::Result<bool> {
        let (fd, interest) = self.readiness();
        // SAFETY: the caller promises that the fd is open.
        let fd = unsafe { BorrowedFd::borrow_raw(fd.fd) };
        let mut fds = [PollFd::from_borrowed_fd(fd, interest.poll_flags())];
        // What does not fit is centuries away.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        match rustix::event::poll(&mut fds, timeout.as_ref()) {
            Ok(ready) => Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Says how much room there is for an address.
///
/// # Safety
/// `length` is valid for a write.
unsafe fn reset_length(length: *mut libc::socklen_t) {
    const ROOM: libc::socklen_t = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: the caller's promise.
    unsafe { length.write(ROOM) };
}

/// The result of a system call that gives -1 and sets errno when it fails.
pub(super) fn check(result: isize) -> io::Result<u32> {
    u32::try_from(result).map_err(|_| io::Error::last_os_error())
}
