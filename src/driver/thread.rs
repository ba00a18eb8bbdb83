//! The `thread` driver: a plain thread without a worker attempts its op whenever poll(2) reports
//! readiness. It has nothing to open, carries one op at a time, and no other thread wakes it.
#![expect(unsafe_code, reason = "implements an unsafe method, and names fds by their numbers")]

use super::attempt::is_untold;
use super::flight::{Flying, InFlight};
use super::op::{Interest, Op};
use super::{Completion, Driver, PollTimeout, StartedOp, Token};
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::thread;
use std::time::Duration;

/// If poll(2) has been wrong about an op this often, it is expected to stay wrong. An fd can be
/// ready all the time and never yield anything, for instance one with a queue of errors that is
/// never read.
const MUCH_IN_VAIN: u32 = 16;
/// How long the thread then pauses before each attempt.
const PAUSE: Duration = Duration::from_millis(1);

/// A plain thread's way to carry out an op.
#[derive(Debug, Default)]
pub(crate) struct Thread {
    waiting: Option<Flying>,
    /// How often an attempt of the op has failed although the fd was reported ready.
    in_vain: u32,
    cancelled: Option<Completion>,
}

impl Driver for Thread {
    unsafe fn start(&mut self, flight: &InFlight<'_>, token: Token) -> StartedOp {
        assert!(self.waiting.is_none(), "a plain thread carries one op at a time");
        if let Op::File(_) = flight.op() {
            return StartedOp::Blocking;
        }
        // poll(2) does not know of files in memory.
        #[cfg(feature = "sim")]
        if flight.op().descriptor().file().is_some() {
            return StartedOp::Done(Err(io::ErrorKind::Unsupported.into()));
        }
        // SAFETY: S3, the caller's promise.
        if unsafe { is_untold(flight.op()) } {
            return StartedOp::Untold;
        }
        self.waiting = Some(flight.keep(token));
        self.in_vain = 0;
        StartedOp::Pending
    }

    fn cancel(&mut self, flight: &InFlight<'_>) {
        if self.waiting.take_if(|waiting| std::ptr::addr_eq(*waiting, flight)).is_some() {
            self.cancelled = Some(flight.completion(Completion::CANCELLED));
        }
    }

    fn poll(&mut self, wait: PollTimeout, completions: &mut Vec<Completion>) -> io::Result<()> {
        completions.extend(self.cancelled.take());
        let Some(flying) = self.waiting else { return Ok(()) };
        // SAFETY: S3: the op stays until its completion has been handed out.
        let flight = unsafe { &*flying };
        let (fd, interest) = (flight.op().descriptor().fd, flight.op().interest());
        let limit = match wait {
            PollTimeout::Poll => Some(Duration::ZERO),
            PollTimeout::For(limit) => Some(limit),
            PollTimeout::Forever => None,
        };
        // SAFETY: S3: the fd is open until the op's completion.
        let is_ready = |limit| unsafe { is_ready(fd, interest, limit) };
        let ready = if self.in_vain >= MUCH_IN_VAIN && is_ready(Some(Duration::ZERO))? {
            thread::sleep(limit.unwrap_or(PAUSE).min(PAUSE));
            true
        } else {
            is_ready(limit)?
        };
        if ready {
            // SAFETY: S3: the op is in flight.
            match unsafe { flight.resume() } {
                Some(completion) => {
                    self.waiting = None;
                    completions.push(completion);
                }
                None => self.in_vain = self.in_vain.saturating_add(1),
            }
        }
        Ok(())
    }

    fn in_flight(&self) -> usize {
        usize::from(self.waiting.is_some()) + usize::from(self.cancelled.is_some())
    }
}

/// Blocks the thread by poll(2). Returns true once the fd is ready, and false if the time is up.
/// May return false early.
///
/// # Errors
/// Returns the errors of poll(2). An attempt of the op shows the errors of the fd.
///
/// # Safety
/// The fd is open.
unsafe fn is_ready(fd: RawFd, interest: Interest, limit: Option<Duration>) -> io::Result<bool> {
    // SAFETY: the caller's promise.
    let fd = unsafe { BorrowedFd::borrow_raw(fd) };
    let events = match interest {
        Interest::Read => PollFlags::IN,
        Interest::Write => PollFlags::OUT,
    };
    let mut fds = [PollFd::from_borrowed_fd(fd, events)];
    // A timeout that does not fit ends in centuries.
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    match rustix::event::poll(&mut fds, limit.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
