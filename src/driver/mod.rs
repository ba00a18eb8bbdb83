//! Layer 4: one worker's door to the kernel.
//!
//! # Words
//! - An *op* ([`Op`]) is one request: plain data, a raw fd and raw pointers.
//! - It is *submitted* under a [`Token`] and is then *in flight* until its [`Completion`] has been handed out.
//! - A *driver* ([`Driver`]) carries the ops of one worker, on that worker's thread. It knows neither tasks nor sockets.
//!
//! # Protocol
//! 1. The caller tries the op at once ([`Op::attempt`]) unless the driver says that it is [not worth it](Driver::is_worth_attempting), and
//!    tells the driver of a [success](Driver::observe); only an op that would wait is submitted. A `Connect` must have been tried: that begins it.
//! 2. `submit` queues it. The kernel may hear of it then or at the next `poll`; the caller need not care which.
//! 3. `poll` hands out completions. A result of [`Completion::RETRY`] says that what the op waited for has come, or that
//!    the kernel gave up half way: attempt it again, and submit it again if it would wait again. A driver that only
//!    knows readiness completes every op like this; `uring` does so for connects and accepts.
//! 4. `cancel` asks for an early end. Its answer is not shown to anybody, because it proves nothing: the op may finish
//!    with success all the same, and then the result stands. **Only the op's own completion ends it**, and until
//!    then its memory belongs to the kernel (S3). Closing the fd or the driver is no substitute.
//! 5. A completion with [`Completion::more`] set does not end the op: others will follow under the same token.
//!
//! The caller chooses the token and may reuse one only after its final completion; the driver hands it back unread.
//!
//! Of several accepts on one listener that is said to be shared, one is told of each connection: see [`acceptors`]. Whoever submits such an op
//! attempts it whenever it is told to, and [passes the news on](Driver::pass_on) if that fails.
//!
//! `poll` may return early with nothing to show (a signal, an answer to a cancel): the caller looks at its own clock.

mod acceptors;
mod descriptor;
mod file;
mod kind;
mod op;
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
    stream::is_in_nonblocking_mode,
    waker::Waker,
    watch::Watch,
};

/// The caller's name for an op in flight. The topmost bit is the driver's and must be clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Token(u64);

impl Token {
    /// How many low bits a token may use.
    pub(crate) const BITS: u32 = 63;

    pub(crate) const fn new(value: u64) -> Token {
        assert!(value >> Token::BITS == 0, "a driver token uses at most 63 bits");
        Token(value)
    }

    pub(crate) const fn value(self) -> u64 {
        self.0
    }
}

/// What became of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    pub(crate) token: Token,
    /// What the system call would have returned, or a negated errno.
    pub(crate) result: i32,
    /// The op is still in flight and will complete again.
    pub(crate) more: bool,
}

impl Completion {
    /// The result that says "attempt it again".
    pub(crate) const RETRY: i32 = -libc::EAGAIN;

    /// The result that a cancelled op ends with, if the cancel came in time.
    pub(crate) const CANCELLED: i32 = -libc::ECANCELED;

    #[cfg(test)]
    /// The result as the system call would have given it. [`Completion::RETRY`] becomes `WouldBlock`.
    pub(crate) fn into_result(self) -> io::Result<u32> {
        u32::try_from(self.result).map_err(|_| io::Error::from_raw_os_error(-self.result))
    }
}

/// How long [`Driver::poll`] may block when nothing has completed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Not at all.
    Poll,
    /// At most this long.
    For(Duration),
    /// Until something happens.
    Forever,
}

/// One worker's access to the kernel. Used on the thread that opened it, and nowhere else.
pub(crate) trait Driver {
    /// Takes the op on. It never blocks and never loses one: what cannot be handed to the kernel now is kept, and what
    /// the kernel refuses completes with the refusal.
    ///
    /// # Safety
    /// - S3: everything that `op` points to stays valid, and is touched by nobody else, until the completion of `token`
    ///   without [`Completion::more`] has been handed out. The fd stays open for as long.
    /// - No other op with this token is in flight.
    #[expect(unsafe_code, reason = "declares an unsafe method")]
    unsafe fn submit(&mut self, op: &Op, token: Token);

    /// Asks for the early end of an op. For one that has ended already nothing happens.
    fn cancel(&mut self, token: Token);

    /// Submits what is queued, waits as allowed, and appends what has completed.
    ///
    /// # Errors
    /// The driver is broken and will not recover; ops in flight stay in flight. A time-out, a signal or a passing lack
    /// of memory is none of these.
    fn poll(&mut self, wait: Wait, completions: &mut Vec<Completion>) -> io::Result<()>;

    /// A handle by which other threads make a `poll` in progress return, or else the next one that would block.
    fn waker(&self) -> Waker;

    /// How many ops have been submitted and not had their final completion handed out.
    fn in_flight(&self) -> usize;

    /// Whether to attempt the op before it is submitted. Where it is, the op must not be submitted without: a driver that is told of
    /// changes only knows nothing of what has been there for long.
    fn is_worth_attempting(&self, op: &Op) -> bool;

    /// An attempt of the op on this driver's thread has just succeeded with this result.
    fn observe(&mut self, op: &Op, result: u32);

    /// An op that is [told alone](Op::is_told_alone) was told to make an attempt, and that has failed otherwise than by having to wait: others
    /// are to be told in its place.
    fn pass_on(&mut self, op: &Op);
}

/// Whichever driver was chosen. An enum and not a trait object, so that the calls can be inlined.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each worker, and a box would be a step more in every call"
)]
pub(crate) enum AnyDriver {
    Uring(uring::Uring),
    Poll(poll::Poll),
}

/// Opens the driver that was [chosen](choose) for the calling thread; it watches `waker`, or one of its own.
///
/// # Errors
/// The kernel refuses. The text says what, the likely reason, and what to do.
pub(crate) fn open(choice: &Choice, waker: Option<Waker>) -> io::Result<AnyDriver> {
    match choice.kind {
        DriverKind::Auto | DriverKind::Uring => uring::Uring::open(waker).map(AnyDriver::Uring),
        DriverKind::Poll => poll::Poll::open(waker).map(AnyDriver::Poll),
    }
}

impl AnyDriver {
    /// Whether the driver takes ops on files.
    pub(crate) fn carries_files(&self) -> bool {
        match self {
            AnyDriver::Uring(_) => true,
            AnyDriver::Poll(_) => false,
        }
    }

    /// Takes on an op on a file, as [`Driver::submit`] does others; only for a driver that [carries files](AnyDriver::carries_files).
    ///
    /// # Safety
    /// As [`Driver::submit`].
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

/// Calls the same method of whichever it is.
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
