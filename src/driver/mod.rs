//! Layer 4: the one door to the kernel for what may wait.
//!
//! # Words
//! - An *op* ([`Op`]) is one request: plain data, a descriptor and raw pointers.
//! - An op is *started* under a [`Token`]. Unless it is done at once, it is then *in flight* until
//!   its [`Completion`] has been handed out.
//! - A *driver* ([`Driver`]) carries out the ops of one worker, on that worker's thread. It knows
//!   neither tasks nor sockets.
//! - An *attempt* is the op's system call in a form that does not wait.
//! - A [*request*](mod@request) is a call to the kernel that needs no op, because it does not wait
//!   for another task, process or machine. It is made by [`request`](fn@request).
//!
//! # Protocol
//! 1. The caller first calls [`at_once`], which needs no driver and is inlined. It attempts the op,
//!    unless the descriptor's hint says that this would be in vain. A `Connect` is always
//!    attempted, because the attempt begins it.
//! 2. If the op is not done then, the caller places an [`InFlight`] in its frame and hands it to
//!    [`Driver::start`]. The driver may still find that the op is done. Otherwise the kernel may
//!    get the op then or at the next `poll`. The caller need not care which.
//! 3. [`Driver::poll`] hands out completions. Each ends its op. What comes before it is the
//!    driver's business: a driver that knows only readiness attempts an op when there is news of
//!    its fd, and keeps it if it still has to wait. `uring` does so for sends, connects, accepts,
//!    and reads and writes of fds in non-blocking mode.
//! 4. [`Driver::cancel`] asks for an early end. It proves nothing: the op may still succeed, and
//!    then that result stands. **Only the op's own completion ends it**, and until then its memory
//!    belongs to the kernel, and the op itself to the driver (S3). Closing the fd or the driver is
//!    no substitute.
//!
//! The caller chooses the token, and the driver hands it back unread.
//!
//! A Unix socket has no event for room in the queue of another socket. A connect to a listener
//! whose queue is full, and a datagram to a receiver whose queue is full, are
//! [`StartedOp::Untold`].
//!
//! Of several accepts on one listener that are marked as shared, one wakes up for each connection:
//! see [`acceptors`].
//!
//! `poll` may return early with nothing to report, after a signal or an answer to a cancel. So the
//! caller looks at its own clock.
//!
//! # Drivers
//! | driver | for | how |
//! |---|---|---|
//! | [`uring`] | a worker | the kernel performs the op, or tells the driver when to attempt it |
//! | [`poll`] | a worker | an edge of the fd tells the driver when to attempt the op |
//! | [`thread`] | a thread without a worker | poll(2) tells the driver when to attempt the op |
//! | [`sim`] | the worker of a simulation | everything happens in memory, in virtual time |

mod acceptors;
mod address;
mod attempt;
mod descriptor;
mod fd_alarm;
mod file;
mod flight;
mod kind;
mod lent;
mod message;
mod observer;
mod op;
mod peer;
mod poll;
pub(crate) mod request;
#[cfg(feature = "sim")]
mod sim;
mod stream;
#[cfg(test)]
mod tests;
mod thread;
mod uring;
mod waker;

use std::io;
use std::sync::Arc;
use std::time::Duration;
#[cfg(feature = "sim")]
use std::time::Instant;

pub use kind::DriverKind;
pub(crate) use {
    address::{Address, RawAddress},
    attempt::{AtOnce, at_once, try_now},
    descriptor::{Descriptor, OwnedDescriptor},
    fd_alarm::{FdAlarm, Sides},
    flight::InFlight,
    kind::{DriverChoice, check, choose},
    lent::{LentCall, LentOp},
    message::Message,
    observer::{Observe, Observer, call_waker},
    op::{Backing, CURSOR, Interest, Manner, Op, clamp_buffers},
    peer::{name_of, peer_of},
    request::perform::{needs_kernel, request},
    thread::Thread,
    waker::Waker,
};

#[cfg(feature = "sim")]
pub(crate) use peer::shown_peer_of;
#[cfg(feature = "sim")]
pub(crate) use sim::{
    DiskFaults, DrawnFault, Dropped, FaultKind, HostEvents, HostId, Incident, LinkSettings,
    NetworkFaults, ROOT_NAME, Struck, Trouble, World, mix,
};

/// The caller's name for an op in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Token(u64);

impl Token {
    pub(crate) const fn new(value: u64) -> Token {
        Token(value)
    }

    pub(crate) const fn value(self) -> u64 {
        self.0
    }
}

/// What came of the start of an op.
#[derive(Debug)]
pub(crate) enum StartedOp {
    /// The op has ended, and will not complete again.
    Done(io::Result<u32>),
    /// The op is in flight.
    Pending,
    /// The driver does not carry such an op. It can be [carried out](block) on a thread that may
    /// block, after its [readiness](Op::awaited_first) has been awaited if it has one.
    Blocking,
    /// The op has to wait, and no event tells when it can go on. The caller attempts it
    /// [again](at_once) after a pause, and again until it is done.
    Untold,
}

/// The outcome of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Completion {
    pub(crate) token: Token,
    /// The value that the system call would have returned, or a negated errno.
    pub(crate) result: i32,
}

impl Completion {
    /// The result that a cancelled op ends with, if the cancel came in time.
    pub(crate) const CANCELLED: i32 = -libc::ECANCELED;

    /// Returns the result as the system call would have returned it.
    pub(crate) fn into_result(self) -> io::Result<u32> {
        u32::try_from(self.result).map_err(|_| io::Error::from_raw_os_error(-self.result))
    }
}

/// How long [`Driver::poll`] may block when nothing has completed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollTimeout {
    /// Does not block.
    Poll,
    /// Blocks at most this long.
    For(Duration),
    /// Blocks until something happens.
    Forever,
}

/// One thread's access to the kernel. It is used only on the thread that opened it.
pub(crate) trait Driver {
    /// Takes the op on, or finds that it is done. Never waits, and never loses an op: one that
    /// cannot be handed to the kernel now is kept, and one that the kernel refuses completes with
    /// the refusal.
    ///
    /// # Safety
    /// - S3: if the op is pending, `flight`, the op and everything that it points to stay valid and
    ///   in place until the op's completion has been handed out, and no other code accesses the
    ///   memory that the op points to. The fd stays open for as long.
    /// - `flight` is not in flight yet.
    #[expect(unsafe_code, reason = "declares an unsafe method")]
    unsafe fn start(&mut self, flight: &InFlight<'_>, token: Token) -> StartedOp;

    /// Asks for the early end of an op that this driver has started. Has no effect if it has
    /// already ended.
    fn cancel(&mut self, flight: &InFlight<'_>);

    /// Hands what is queued to the kernel, waits as `wait` allows, and appends what has completed.
    ///
    /// # Errors
    /// Returns an error if the driver is broken and will not recover. Ops in flight stay in flight.
    /// A time-out, a signal or a passing lack of memory is not an error.
    fn poll(&mut self, wait: PollTimeout, completions: &mut Vec<Completion>) -> io::Result<()>;

    /// Returns the number of ops in flight.
    fn in_flight(&self) -> usize;
}

/// The chosen driver of a worker. It is an enum instead of a trait object, so that the calls can be
/// inlined.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is one for each worker, and a box would be a step more in every call"
)]
pub(crate) enum AnyDriver {
    Uring(uring::Uring),
    Poll(poll::Poll),
    #[cfg(feature = "sim")]
    Sim(sim::Sim),
}

/// Opens the [chosen](choose) driver for the calling thread. It watches `waker`, or creates a
/// waker.
///
/// # Errors
/// Returns an error if the kernel refuses. The text says what was refused, the likely reason, and
/// what to do.
pub(crate) fn open(choice: &DriverChoice, waker: Option<Waker>) -> io::Result<AnyDriver> {
    match choice.kind {
        DriverKind::Auto | DriverKind::Uring => uring::Uring::open(waker).map(AnyDriver::Uring),
        DriverKind::Poll => poll::Poll::open(waker).map(AnyDriver::Poll),
    }
}

/// Opens the driver of the simulation whose thread this is.
///
/// # Panics
/// Panics outside of simulations.
#[cfg(feature = "sim")]
pub(crate) fn open_simulated() -> AnyDriver {
    AnyDriver::Sim(sim::Sim::open())
}

/// Calls the same method of the chosen driver.
macro_rules! forward {
    ($self:ident, $driver:ident => $call:expr) => {
        match $self {
            AnyDriver::Uring($driver) => $call,
            AnyDriver::Poll($driver) => $call,
            #[cfg(feature = "sim")]
            AnyDriver::Sim($driver) => $call,
        }
    };
}

impl AnyDriver {
    /// Returns a handle by which other threads end a `poll` in progress, or else the next one that
    /// would block.
    pub(crate) fn waker(&self) -> Waker {
        forward!(self, driver => driver.waker())
    }

    /// Returns when something will happen in the simulated world, or `None` if nothing will.
    #[cfg(feature = "sim")]
    pub(crate) fn next_event(&self) -> Option<Instant> {
        if let AnyDriver::Sim(driver) = self { driver.next() } else { None }
    }

    #[cfg(test)]
    fn acceptors(&self) -> &acceptors::Acceptors {
        match self {
            AnyDriver::Uring(driver) => driver.acceptors(),
            AnyDriver::Poll(driver) => driver.acceptors(),
            #[cfg(feature = "sim")]
            AnyDriver::Sim(_) => unreachable!("it has none"),
        }
    }
}

impl Driver for AnyDriver {
    #[expect(unsafe_code, reason = "forwards an unsafe method")]
    #[inline]
    unsafe fn start(&mut self, flight: &InFlight<'_>, token: Token) -> StartedOp {
        // SAFETY: S3: the caller's promise, passed on unchanged.
        forward!(self, driver => unsafe { driver.start(flight, token) })
    }

    fn cancel(&mut self, flight: &InFlight<'_>) {
        forward!(self, driver => driver.cancel(flight));
    }

    fn poll(&mut self, wait: PollTimeout, completions: &mut Vec<Completion>) -> io::Result<()> {
        forward!(self, driver => driver.poll(wait, completions))
    }

    #[inline]
    fn in_flight(&self) -> usize {
        forward!(self, driver => driver.in_flight())
    }
}

impl Observe for AnyDriver {
    fn observe(
        &mut self,
        fd: &OwnedDescriptor,
        observer: &Arc<Observer>,
        place: usize,
    ) -> io::Result<()> {
        match self {
            AnyDriver::Uring(driver) => driver.observe(fd, observer, place),
            AnyDriver::Poll(driver) => driver.observe(fd, observer, place),
            #[cfg(feature = "sim")]
            AnyDriver::Sim(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    fn unobserve(&mut self, fd: &OwnedDescriptor, observer: &Arc<Observer>) {
        match self {
            AnyDriver::Uring(driver) => driver.unobserve(fd, observer),
            AnyDriver::Poll(driver) => driver.unobserve(fd, observer),
            #[cfg(feature = "sim")]
            AnyDriver::Sim(_) => {}
        }
    }

    fn take_wakers(&mut self, to: &mut Vec<std::task::Waker>) {
        match self {
            AnyDriver::Uring(driver) => driver.take_wakers(to),
            AnyDriver::Poll(driver) => driver.take_wakers(to),
            #[cfg(feature = "sim")]
            AnyDriver::Sim(_) => {}
        }
    }
}

/// Carries an op out that its driver answered with [`StartedOp::Blocking`]. Blocks the thread for
/// as long as that takes.
///
/// # Safety
/// Everything that the op points to is valid for this call, and no other code accesses it
/// meanwhile. The fd is open.
#[expect(unsafe_code, reason = "carries out an op on raw pointers")]
pub(crate) unsafe fn block(op: &Op<'_>) -> io::Result<u32> {
    match op {
        // SAFETY: the caller's promise, passed on.
        Op::File(op) => unsafe { file::block(op) },
        _ => Err(io::ErrorKind::Unsupported.into()),
    }
}
