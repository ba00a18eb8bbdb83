//! Layer 4: one worker's door to the kernel.
//!
//! # Words
//! - An *op* ([`Op`]) is one request: plain data, a raw fd and raw pointers.
//! - An op is *submitted* under a [`Token`]. It is then *in flight* until its [`Completion`] has
//!   been handed out.
//! - A *driver* ([`Driver`]) carries out the ops of one worker, on that worker's thread. It knows
//!   neither tasks nor sockets.
//!
//! # Protocol
//! 1. The caller first attempts the op itself ([`Op::attempt`]), unless the driver says that this
//!    is [not worth it](Driver::is_worth_attempting). It tells the driver of a
//!    [success](Driver::observe). It submits the op only if the op would have to wait. A `Connect`
//!    must have been attempted, because the attempt begins it.
//! 2. `submit` queues the op. The kernel may get it then or at the next `poll`. The caller need not
//!    care which.
//! 3. `poll` hands out completions. The result [`Completion::RETRY`] says that what the op waited
//!    for has come, or that the kernel gave up half way. The caller then attempts the op again, and
//!    submits it again if it would wait again. A driver that knows only readiness completes every
//!    op like this. `uring` does so for sends, connects, accepts, and reads and writes of fds in
//!    non-blocking mode.
//! 4. `cancel` asks for an early end. Its answer is not handed out, because it proves nothing: the
//!    op may still succeed, and then that result stands. **Only the op's own completion ends it**,
//!    and until then its memory belongs to the kernel (S3). Closing the fd or the driver is no
//!    substitute.
//! 5. A completion with [`Completion::more`] set does not end the op. More will follow under the
//!    same token.
//!
//! The caller chooses the token, and may reuse it only after its final completion. The driver hands
//! it back unread.
//!
//! Of several accepts on one listener that are marked as shared, one is told of each connection:
//! see [`acceptors`]. The caller that submits such an op attempts it whenever it is told to, and
//! [passes the news on](Driver::pass_on) if that fails.
//!
//! `poll` may return early with nothing to report, after a signal or an answer to a cancel. So the
//! caller looks at its own clock.

mod acceptors;
mod descriptor;
mod file;
mod kind;
mod op;
mod peer;
mod poll;
mod stream;
#[cfg(test)]
mod tests;
mod uring;
mod waker;
mod watch;

use std::io;
use std::time::Duration;

pub use kind::DriverKind;
pub(crate) use {
    descriptor::{Descriptor, OwnedDescriptor},
    file::{CURSOR, FileManner, FileOp},
    kind::{Choice, check, choose},
    op::{Interest, Manner, Op, clamp_length},
    peer::peer_of,
    stream::is_in_nonblocking_mode,
    waker::Waker,
    watch::Watch,
};

/// The caller's name for an op in flight. The topmost bit is reserved for the driver and must be
/// clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Token(u64);

impl Token {
    /// The number of low bits that a token may use.
    pub(crate) const BITS: u32 = 63;

    pub(crate) const fn new(value: u64) -> Token {
        assert!(value >> Token::BITS == 0, "a driver token uses at most 63 bits");
        Token(value)
    }

    pub(crate) const fn value(self) -> u64 {
        self.0
    }
}

/// The outcome of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    pub(crate) token: Token,
    /// The value that the system call would have returned, or a negated errno.
    pub(crate) result: i32,
    /// True if the op is still in flight and will complete again.
    pub(crate) more: bool,
}

impl Completion {
    /// The result that says "attempt it again".
    pub(crate) const RETRY: i32 = -libc::EAGAIN;

    /// The result that a cancelled op ends with, if the cancel came in time.
    pub(crate) const CANCELLED: i32 = -libc::ECANCELED;

    #[cfg(test)]
    /// Returns the result as the system call would have returned it. [`Completion::RETRY`] becomes
    /// `WouldBlock`.
    pub(crate) fn into_result(self) -> io::Result<u32> {
        u32::try_from(self.result).map_err(|_| io::Error::from_raw_os_error(-self.result))
    }
}

/// How long [`Driver::poll`] may block when nothing has completed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Does not block.
    Poll,
    /// Blocks at most this long.
    For(Duration),
    /// Blocks until something happens.
    Forever,
}

/// One worker's access to the kernel. It is used only on the thread that opened it.
pub(crate) trait Driver {
    /// Takes the op on. Never blocks, and never loses an op: one that cannot be handed to the
    /// kernel now is kept, and one that the kernel refuses completes with the refusal.
    ///
    /// # Safety
    /// - S3: everything that `op` points to stays valid, and no other code accesses it, until the
    ///   completion of `token` without [`Completion::more`] has been handed out. The fd stays open
    ///   for as long.
    /// - No other op with this token is in flight.
    #[expect(unsafe_code, reason = "declares an unsafe method")]
    unsafe fn submit(&mut self, op: &Op, token: Token);

    /// Asks for the early end of an op. Has no effect on an op that has already ended.
    fn cancel(&mut self, token: Token);

    /// Submits what is queued, waits as `wait` allows, and appends what has completed.
    ///
    /// # Errors
    /// Returns an error if the driver is broken and will not recover. Ops in flight stay in flight.
    /// A time-out, a signal or a passing lack of memory is not an error.
    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> io::Result<()>;

    /// Returns a handle by which other threads end a `poll` in progress, or else the next one that
    /// would block.
    fn waker(&self) -> Waker;

    /// Returns the number of ops that were submitted and whose final completion has not been handed
    /// out.
    fn in_flight(&self) -> usize;

    /// Returns whether to attempt the op before it is submitted. If this is true, the op must not
    /// be submitted without an attempt: a driver that hears only of changes does not know what has
    /// been there for long.
    fn is_worth_attempting(&self, op: &Op) -> bool;

    /// Tells the driver that an attempt of the op on its thread has just succeeded with this
    /// result.
    fn observe(&mut self, op: &Op, result: u32);

    /// Tells others in place of an op that was [told alone](Op::is_told_alone). The op made its
    /// attempt, and that failed for another reason than that it would have to wait.
    fn pass_on(&mut self, op: &Op);
}

/// The chosen driver. It is an enum instead of a trait object, so that the calls can be inlined.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each worker, and a box would be a step more in every call"
)]
pub(crate) enum AnyDriver {
    Uring(uring::Uring),
    Poll(poll::Poll),
}

/// Opens the [chosen](choose) driver for the calling thread. It watches `waker`, or creates a
/// waker.
///
/// # Errors
/// Returns an error if the kernel refuses. The text says what was refused, the likely reason, and
/// what to do.
pub(crate) fn open(choice: &Choice, waker: Option<Waker>) -> io::Result<AnyDriver> {
    match choice.kind {
        DriverKind::Auto | DriverKind::Uring => uring::Uring::open(waker).map(AnyDriver::Uring),
        DriverKind::Poll => poll::Poll::open(waker).map(AnyDriver::Poll),
    }
}

impl AnyDriver {
    /// Returns whether the driver takes ops on files.
    pub(crate) fn carries_files(&self) -> bool {
        match self {
            AnyDriver::Uring(_) => true,
            AnyDriver::Poll(_) => false,
        }
    }

    /// Takes on an op on a file, as [`Driver::submit`] does with other ops. The driver must
    /// [carry files](AnyDriver::carries_files).
    ///
    /// # Safety
    /// The conditions are those of [`Driver::submit`].
    #[expect(unsafe_code, reason = "forwards an unsafe method")]
    pub(crate) unsafe fn submit_file(&mut self, op: &FileOp, manner: FileManner, token: Token) {
        match self {
            // SAFETY: S3: the caller's promise, passed on unchanged.
            AnyDriver::Uring(driver) => unsafe { driver.submit_file(op, manner, token) },
            AnyDriver::Poll(_) => {
                unreachable!("files go to the pool where the driver does not carry them")
            }
        }
    }
}

/// Calls the same method of the chosen driver.
macro_rules! forward {
    ($self:ident, $driver:ident => $call:expr) => {
        match $self {
            AnyDriver::Uring($driver) => $call,
            AnyDriver::Poll($driver) => $call,
        }
    };
}

impl Driver for AnyDriver {
    #[expect(unsafe_code, reason = "forwards an unsafe method")]
    unsafe fn submit(&mut self, op: &Op, token: Token) {
        match self {
            // SAFETY: S3: the caller's promise, passed on unchanged.
            AnyDriver::Uring(driver) => unsafe { driver.submit(op, token) },
            // SAFETY: S3: the caller's promise, passed on unchanged.
            AnyDriver::Poll(driver) => unsafe { driver.submit(op, token) },
        }
    }

    fn cancel(&mut self, token: Token) {
        forward!(self, driver => driver.cancel(token));
    }

    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> io::Result<()> {
        forward!(self, driver => driver.poll(wait, completions))
    }

    fn waker(&self) -> Waker {
        forward!(self, driver => driver.waker())
    }

    fn in_flight(&self) -> usize {
        forward!(self, driver => driver.in_flight())
    }

    fn is_worth_attempting(&self, op: &Op) -> bool {
        forward!(self, driver => driver.is_worth_attempting(op))
    }

    fn observe(&mut self, op: &Op, result: u32) {
        forward!(self, driver => driver.observe(op, result));
    }

    fn pass_on(&mut self, op: &Op) {
        forward!(self, driver => driver.pass_on(op));
    }
}
