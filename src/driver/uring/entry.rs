//! From an [`Op`] to a submission queue entry.
#![expect(unsafe_code, reason = "prepares the room that an accept fills")]

use crate::driver::op::{Interest, Op, reset_length};
use io_uring::opcode;
use io_uring::squeue::Entry;
use io_uring::types::Fd;
use rustix::event::PollFlags;

/// "Do not try first, wait for readiness at once": the caller has just tried, or knows better. From the kernel's UAPI;
/// Linux 5.19. What is ready already is noticed all the same.
const RECVSEND_POLL_FIRST: u16 = 1;

/// The entry for an op, its user data still unset. `poll_first`: whether the kernel knows [`RECVSEND_POLL_FIRST`].
///
/// # Safety
/// An `Accept`'s length is valid for a write. (Nothing else is looked at.)
pub(super) unsafe fn of(op: &Op, poll_first: bool) -> Entry {
    let how = if poll_first { RECVSEND_POLL_FIRST } else { 0 };
    match *op {
        Op::Recv { fd, buf, len, flags, .. } => {
            opcode::Recv::new(Fd(fd), buf, len).flags(flags).ioprio(how).build()
        }
        Op::Send { fd, buf, len, flags } => {
            opcode::Send::new(Fd(fd), buf, len).flags(flags).ioprio(how).build()
        }
        Op::RecvMsg { fd, message, flags } => {
            opcode::RecvMsg::new(Fd(fd), message).flags(flags.cast_unsigned()).ioprio(how).build()
        }
        Op::SendMsg { fd, message, flags } => {
            opcode::SendMsg::new(Fd(fd), message).flags(flags.cast_unsigned()).ioprio(how).build()
        }
        Op::Accept { fd, address, length } => {
            // SAFETY: the caller's promise.
            unsafe { reset_length(length) };
            let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
            opcode::Accept::new(Fd(fd), address.cast(), length).flags(flags).build()
        }
        // The attempt that came before has begun to connect. A connect of the kernel's own would fail with EALREADY, so
        // this waits for the end, and the caller's next attempt fetches the outcome.
        Op::Connect { fd, .. } => readiness(fd, Interest::Write),
        Op::Readiness { fd, interest } => readiness(fd, interest),
    }
}

/// Whether the completion of this op's entry only says that it is time to attempt it again.
pub(super) fn stands_for_readiness(op: &Op) -> bool {
    matches!(op, Op::Connect { .. })
}

/// An entry that completes whenever the fd becomes readable, until it is cancelled.
pub(super) fn watch(fd: std::os::fd::RawFd) -> Entry {
    opcode::PollAdd::new(Fd(fd), events(PollFlags::IN)).multi(true).build()
}

fn readiness(fd: std::os::fd::RawFd, interest: Interest) -> Entry {
    opcode::PollAdd::new(Fd(fd), events(interest.poll_flags())).build()
}

fn events(flags: PollFlags) -> u32 {
    u32::from(flags.bits())
}
