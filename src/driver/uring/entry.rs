//! The conversion of an [`Op`] to a submission queue entry.

use crate::driver::InFlight;
use crate::driver::op::{Backing, FileCall, FileOp, Interest, Manner, Op};
use crate::driver::stream::is_in_nonblocking_mode;
use io_uring::opcode;
use io_uring::squeue::{Entry, Flags};
use io_uring::types::{Fd, FsyncFlags};

/// Tells the kernel to wait for readiness at once, without an attempt of its own: the caller has
/// just made one, or knows that it would fail. The value is from the kernel's UAPI, since Linux
/// 5.19. The kernel still notices what is already ready.
const RECVSEND_POLL_FIRST: u16 = 1;

/// Returns the entry for an op, without its user data. `poll_first` says whether the kernel knows
/// [`RECVSEND_POLL_FIRST`].
pub(super) fn of(flight: &InFlight<'_>, poll_first: bool) -> Entry {
    let how = if poll_first { RECVSEND_POLL_FIRST } else { 0 };
    let op = flight.op();
    if flight.by_readiness.get() {
        return readiness(op.descriptor().fd, op.interest());
    }
    match *op {
        Op::Recv { fd, buf, len, flags, .. } => {
            opcode::Recv::new(Fd(fd.fd), buf, len).flags(flags).ioprio(how).build()
        }
        Op::RecvMsg { fd, message, flags } => opcode::RecvMsg::new(Fd(fd.fd), message)
            .flags(flags.cast_unsigned())
            .ioprio(how)
            .build(),
        Op::Accept { .. } | Op::Connect { .. } | Op::Send { .. } | Op::SendMsg { .. } => {
            unreachable!("stand for readiness")
        }
        // This reads at the file's own position. A stream has none.
        Op::Read { fd, buf, len, .. } => {
            opcode::Read::new(Fd(fd.fd), buf, len).offset(u64::MAX).build()
        }
        Op::Write { fd, buf, len, .. } => {
            opcode::Write::new(Fd(fd.fd), buf, len).offset(u64::MAX).build()
        }
        Op::ReadVectored { fd, buffers, count, .. } => {
            opcode::Readv::new(Fd(fd.fd), buffers, count).offset(u64::MAX).build()
        }
        Op::WriteVectored { fd, buffers, count, .. } => {
            opcode::Writev::new(Fd(fd.fd), buffers, count).offset(u64::MAX).build()
        }
        Op::Readiness { fd, interest } => readiness(fd.fd, interest),
        Op::File(ref op) => of_file(op, flight.was_attempted()),
    }
}

/// Returns the entry for an op on a file, without its user data.
fn of_file(op: &FileOp<'_>, would_wait: bool) -> Entry {
    let (fd, offset) = (Fd(op.fd.fd), op.offset);
    let (entry, reads) = match op.call {
        FileCall::Read { buf, len } => {
            (opcode::Read::new(fd, buf, len).offset(offset).build(), true)
        }
        FileCall::Write { buf, len } => {
            (opcode::Write::new(fd, buf, len).offset(offset).build(), false)
        }
        FileCall::ReadVectored { buffers, count } => {
            (opcode::Readv::new(fd, buffers, count).offset(offset).build(), true)
        }
        FileCall::WriteVectored { buffers, count } => {
            (opcode::Writev::new(fd, buffers, count).offset(offset).build(), false)
        }
        FileCall::Sync { data_only } => {
            let flags = if data_only { FsyncFlags::DATASYNC } else { FsyncFlags::empty() };
            (opcode::Fsync::new(fd).flags(flags).build(), false)
        }
    };
    match op.backing {
        Backing::Stream { .. } => entry,
        // If the file could tell that a read would wait, the kernel waits without a thread.
        Backing::Memory | Backing::Device | Backing::Inherited if reads && would_wait => entry,
        // The kernel blocks a thread of its own right away. Without that it would only find out
        // that it needs one.
        Backing::Memory | Backing::Device | Backing::Inherited => entry.flags(Flags::ASYNC),
    }
}

/// Returns whether the kernel is asked only for readiness, so that the driver attempts the op when
/// the entry completes.
pub(super) fn stands_for_readiness(op: &Op) -> bool {
    match op {
        // The earlier attempt has begun to connect. A connect by the kernel would fail with
        // EALREADY. So this waits for the end, and the next attempt fetches the outcome.
        Op::Connect { .. } => true,
        // If the kernel carries out a send and has to wait a second time, it continues after the
        // bytes that it read the first time. A Unix datagram whose receiver was full arrived empty
        // (seen on Linux 6.18).
        Op::Send { .. } | Op::SendMsg { .. } => true,
        // Of all accepts in rings, the kernel would give a connection to one. The worker of that
        // one may have begun to compute since it asked, while another worker has nothing to do.
        // Readiness is told to all, and the first to make an attempt has the connection. (If
        // several workers accept from one listener, `acceptors` wakes one that sleeps.)
        Op::Accept { .. } => true,
        // In non-blocking mode the kernel does not wait for these. It fails with EAGAIN at once.
        Op::Read { fd, manner, .. }
        | Op::Write { fd, manner, .. }
        | Op::ReadVectored { fd, manner, .. }
        | Op::WriteVectored { fd, manner, .. } => match manner {
            Manner::Nonblocking => true,
            Manner::Shared | Manner::Terminal => is_in_nonblocking_mode(fd.fd),
        },
        _ => false,
    }
}

/// Returns an entry that completes whenever the fd becomes readable, until it is cancelled.
pub(super) fn watch(fd: std::os::fd::RawFd) -> Entry {
    opcode::PollAdd::new(Fd(fd), events(Interest::Read)).multi(true).build()
}

/// Returns an entry that completes once the fd is readable.
pub(super) fn readable(fd: std::os::fd::RawFd) -> Entry {
    readiness(fd, Interest::Read)
}

/// Returns an entry that completes once the fd is readable. Of several such polls, in any rings,
/// one completes for each connection.
pub(super) fn listen(fd: std::os::fd::RawFd) -> Entry {
    let events = events(Interest::Read) | libc::EPOLLEXCLUSIVE.cast_unsigned();
    opcode::PollAdd::new(Fd(fd), events).build()
}

/// Returns an entry that removes a poll. It completes only if the removal fails.
pub(super) fn stop_listening(user_data: u64) -> Entry {
    opcode::PollRemove::new(user_data).build().flags(Flags::SKIP_SUCCESS)
}

fn readiness(fd: std::os::fd::RawFd, interest: Interest) -> Entry {
    opcode::PollAdd::new(Fd(fd), events(interest)).build()
}

fn events(interest: Interest) -> u32 {
    u32::from(interest.events().cast_unsigned())
}
