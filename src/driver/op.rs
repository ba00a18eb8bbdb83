//! Ops: requests to the kernel as plain data.
#![expect(unsafe_code, reason = "sends ops, which carry raw pointers, to other threads")]

use super::descriptor::Descriptor;
use std::io;

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

/// One request to the kernel. The code that makes it answers for the pointers: see
/// [`Driver::start`](super::Driver::start).
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op<'a> {
    /// recv(2). Result: bytes, 0 at the end of the stream. `stream`: the socket carries a stream,
    /// of which a read that does not fill its buffer leaves nothing behind.
    Recv { fd: &'a Descriptor, buf: *mut u8, len: u32, flags: i32, stream: bool },
    /// send(2). Result: bytes taken.
    Send { fd: &'a Descriptor, buf: *const u8, len: u32, flags: i32 },
    /// recvmsg(2): into several buffers, or with the sender's address. Result: bytes.
    RecvMsg { fd: &'a Descriptor, message: *mut libc::msghdr, flags: i32 },
    /// sendmsg(2). Result: bytes taken.
    SendMsg { fd: &'a Descriptor, message: *const libc::msghdr, flags: i32 },
    /// accept4(2) with `SOCK_NONBLOCK | SOCK_CLOEXEC`. Result: the new fd, which the caller owns.
    /// `shared`: other tasks accept from the same listener, and it is enough if one of them wakes
    /// up for each connection.
    Accept {
        fd: &'a Descriptor,
        address: *mut libc::sockaddr_storage,
        length: *mut libc::socklen_t,
        shared: bool,
    },
    /// connect(2) on a non-blocking socket. Result: 0.
    Connect { fd: &'a Descriptor, address: *const libc::sockaddr_storage, length: libc::socklen_t },
    /// read(2) on a stream: a pipe, a terminal, an eventfd. Result: bytes, 0 at the end.
    Read { fd: &'a Descriptor, buf: *mut u8, len: u32, manner: Manner },
    /// write(2) on a stream. Result: bytes taken.
    Write { fd: &'a Descriptor, buf: *const u8, len: u32, manner: Manner },
    /// readv(2) on a stream. Result: bytes, 0 at the end.
    ReadVectored { fd: &'a Descriptor, buffers: *const libc::iovec, count: u32, manner: Manner },
    /// writev(2) on a stream. Result: bytes taken.
    WriteVectored { fd: &'a Descriptor, buffers: *const libc::iovec, count: u32, manner: Manner },
    /// Waits until the fd is ready. Result: the bits of poll(2)'s `revents`.
    Readiness { fd: &'a Descriptor, interest: Interest },
    /// A call on an open file of a file system.
    File(FileOp<'a>),
}

/// A call on an open file of a file system. It has no readiness, because a file is always "ready"
/// and its calls block all the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileOp<'a> {
    pub(crate) fd: &'a Descriptor,
    pub(crate) call: FileCall,
    /// Where in the file, or [`CURSOR`].
    pub(crate) offset: u64,
    pub(crate) backing: Backing,
    /// The most bytes to move without waiting, so that other tasks run in between. If this is 0,
    /// nothing is attempted.
    pub(crate) at_once: u32,
}

/// The offset that stands for the file's own cursor, which the op then moves.
pub(crate) const CURSOR: u64 = u64::MAX;

/// What to do with a file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FileCall {
    /// preadv2(2) into one buffer. Result: bytes, 0 at the end.
    Read { buf: *mut u8, len: u32 },
    /// pwritev2(2) from one buffer. Result: bytes taken.
    Write { buf: *const u8, len: u32 },
    /// preadv2(2).
    ReadVectored { buffers: *const libc::iovec, count: u32 },
    /// pwritev2(2).
    WriteVectored { buffers: *const libc::iovec, count: u32 },
    /// fsync(2), or fdatasync(2). Result: 0.
    Sync { data_only: bool },
}

/// What a call on a file may have to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Backing {
    /// Nothing: the file lives in memory.
    Memory,
    /// A device, unless the data is in the page cache.
    Device,
    /// A device, as far as the file or the kernel can tell. The open file is shared with other
    /// processes.
    Inherited,
    /// The other end, as with a FIFO. `tells`: poll(2) says reliably whether the call would wait.
    Stream { tells: bool },
}

impl FileCall {
    pub(super) fn interest(self) -> Interest {
        match self {
            FileCall::Read { .. } | FileCall::ReadVectored { .. } => Interest::Read,
            FileCall::Write { .. } | FileCall::WriteVectored { .. } | FileCall::Sync { .. } => {
                Interest::Write
            }
        }
    }

    fn name(self) -> &'static str {
        match self {
            FileCall::Read { .. } | FileCall::ReadVectored { .. } => "bytes of the file",
            FileCall::Write { .. } | FileCall::WriteVectored { .. } => {
                "bytes to be taken by the file"
            }
            FileCall::Sync { .. } => "the device to have everything of the file",
        }
    }
}

// SAFETY: U1: plain data. The code that makes an op keeps what it points to until the op has ended,
// on whatever thread that is.
unsafe impl Send for Op<'_> {}

/// The largest length that one op can carry. It is the kernel's own limit for a single transfer, to
/// which it cuts longer ones.
const MAX_LENGTH: usize = 0x7fff_f000;

/// The most buffers that one vectored call takes (`UIO_MAXIOV`). The rest is left for the next
/// call, as with std.
const MOST_BUFFERS: usize = 1024;

/// Cuts a number of buffers to what one op can carry.
pub(crate) fn clamp_buffers(count: usize) -> u32 {
    u32::try_from(count.min(MOST_BUFFERS)).expect("fits by the line above")
}

/// Cuts a buffer's length to what one op can carry.
pub(crate) fn clamp_length(length: usize) -> u32 {
    u32::try_from(length.min(MAX_LENGTH)).expect("fits by the line above")
}

impl<'a> Op<'a> {
    /// Returns what the op names.
    #[inline]
    pub(crate) fn descriptor(&self) -> &'a Descriptor {
        match *self {
            Op::Recv { fd, .. }
            | Op::Send { fd, .. }
            | Op::RecvMsg { fd, .. }
            | Op::SendMsg { fd, .. }
            | Op::Accept { fd, .. }
            | Op::Connect { fd, .. }
            | Op::Read { fd, .. }
            | Op::Write { fd, .. }
            | Op::ReadVectored { fd, .. }
            | Op::WriteVectored { fd, .. }
            | Op::Readiness { fd, .. }
            | Op::File(FileOp { fd, .. }) => fd,
        }
    }

    /// Returns the side of the fd that the op waits for.
    #[inline]
    pub(super) fn interest(&self) -> Interest {
        match *self {
            Op::Recv { .. }
            | Op::RecvMsg { .. }
            | Op::Accept { .. }
            | Op::Read { .. }
            | Op::ReadVectored { .. } => Interest::Read,
            Op::Send { .. }
            | Op::SendMsg { .. }
            | Op::Connect { .. }
            | Op::Write { .. }
            | Op::WriteVectored { .. } => Interest::Write,
            Op::Readiness { interest, .. } => interest,
            Op::File(FileOp { call, .. }) => call.interest(),
        }
    }

    /// Returns whether the op ends if its socket is shut for reading, although an attempt of it
    /// would still have to wait.
    #[inline]
    pub(super) fn ends_by_shutdown(&self) -> bool {
        matches!(self, Op::Recv { stream: false, .. } | Op::RecvMsg { .. } | Op::Accept { .. })
    }

    /// Returns whether the fd's number may name another file by now, without this process having
    /// been told.
    pub(super) fn may_be_of_another_file(&self) -> bool {
        matches!(
            self,
            Op::Read { manner: Manner::Shared | Manner::Terminal, .. }
                | Op::Write { manner: Manner::Shared | Manner::Terminal, .. }
                | Op::ReadVectored { manner: Manner::Shared | Manner::Terminal, .. }
                | Op::WriteVectored { manner: Manner::Shared | Manner::Terminal, .. }
        )
    }

    /// Describes what a wait for the op waits for. A phrase that begins with "to" follows "waits",
    /// and the others follow "waits for".
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Op::Recv { .. } | Op::RecvMsg { .. } | Op::Read { .. } | Op::ReadVectored { .. } => {
                "to read from"
            }
            Op::Send { .. } | Op::SendMsg { .. } | Op::Write { .. } | Op::WriteVectored { .. } => {
                "to write to"
            }
            Op::Accept { .. } => "to accept a connection on",
            Op::Connect { .. } => "to connect",
            Op::Readiness { interest: Interest::Read, .. } => "something to read from",
            Op::Readiness { interest: Interest::Write, .. } => "room to write to",
            Op::File(FileOp { call, .. }) => call.name(),
        }
    }
}

/// Returns the result of a system call that returns -1 and sets errno when it fails.
pub(super) fn check(result: isize) -> io::Result<u32> {
    u32::try_from(result).map_err(|_| io::Error::last_os_error())
}
