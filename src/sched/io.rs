//! Kernel operations as waits: tried at once, then handed to the worker's driver; on a plain thread, tried again whenever
//! poll(2) says so.
//!
//! # The drain rule
//! The buffer of an operation in flight belongs to the kernel until the operation's own completion has come (S3). So a
//! cancellation, or a deadline, asks the driver to cancel the operation and goes on waiting; if the operation succeeded
//! meanwhile, that result stands, and the next wait sees the cancellation.
#![expect(unsafe_code, reason = "operations carry raw pointers")]

use std::cell::Cell;
use std::io;
use std::time::Instant;

use super::timers::Timer;
use super::worker::{self, Worker};
use crate::base::clock;
use crate::driver::{self, AnyDriver, Completion, Driver, DriverKind, Op, Token, Wait};
use crate::park::{Mode, WOKEN, Waiter};
use crate::task::{self, Header};

/// A worker's driver, once it has been needed, and what is in flight.
pub(super) struct Io {
    kind: DriverKind,
    driver: Option<AnyDriver>,
    slots: Slots,
    completions: Vec<Completion>,
}

impl Io {
    pub(super) fn new(kind: DriverKind) -> Io {
        Io { kind, driver: None, slots: Slots::default(), completions: Vec::new() }
    }

    pub(super) fn is_open(&self) -> bool {
        self.driver.is_some()
    }

    fn open(&mut self, worker: &Worker) -> io::Result<&mut AnyDriver> {
        if self.driver.is_none() {
            let driver = driver::open(self.kind, worker.shared.waker.get().cloned())?;
            // The first driver's waker stays for good: others may hold on to it (S6). Later drivers watch the same one.
            worker.shared.waker.get_or_init(|| driver.waker());
            self.driver = Some(driver);
        }
        Ok(self.driver.as_mut().expect("opened above"))
    }

    /// Hands queued operations to the kernel, waits as allowed, and wakes the tasks whose operations are complete.
    pub(super) fn poll(&mut self, _worker: &Worker, wait: Wait) {
        let Some(driver) = &mut self.driver else { return };
        if wait == Wait::Poll && driver.in_flight() == 0 {
            return;
        }
        if let Err(error) = driver.poll(wait, &mut self.completions) {
            // The operations in flight can neither be awaited nor given up (S3): nothing sound is left to do.
            eprintln!("ecru: the driver of a worker has broken down: {error}");
            std::process::abort();
        }
        // An operation ends with its last completion; none of ours has several.
        for completion in self.completions.drain(..).filter(|completion| !completion.more) {
            let Some(flight) = self.slots.take(completion.token) else { continue };
            // SAFETY: S3/S4: the flight's frame waits for this very completion.
            let flight = unsafe { &*flight };
            flight.result.set(completion.result);
            if flight.waiter.claim(WOKEN) {
                // SAFETY: S4: claimed just now.
                unsafe { Waiter::unpark(&raw const flight.waiter) };
            }
        }
    }
}

/// One operation in flight, on the stack of the task that waits for it.
#[repr(C)]
struct Flight {
    waiter: Waiter,
    token: Cell<Token>,
    result: Cell<i32>,
}

/// The frames of the operations in flight, under tokens that are not used twice.
#[derive(Default)]
struct Slots {
    entries: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    generation: u32,
    flight: *const Flight,
}

impl Slots {
    fn put(&mut self, flight: *const Flight) -> Token {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Slot { generation: 0, flight: std::ptr::null() });
            u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 operations are in flight")
        });
        let slot = &mut self.entries[index as usize];
        slot.flight = flight;
        Token::new(u64::from(slot.generation) << 32 | u64::from(index))
    }

    /// The frame of a token, which is then forgotten; none: the token is not, or no longer, in use.
    fn take(&mut self, token: Token) -> Option<*const Flight> {
        let index = (token.value() & u64::from(u32::MAX)) as u32;
        let generation = (token.value() >> 32) as u32;
        let slot = self.entries.get_mut(index as usize)?;
        if slot.generation != generation || slot.flight.is_null() {
            return None;
        }
        // One bit less than there is: the topmost of a token is the driver's.
        slot.generation = (slot.generation + 1) & (u32::MAX >> 1);
        self.free.push(index);
        Some(std::mem::replace(&mut slot.flight, std::ptr::null()))
    }
}

/// Carries an operation out, waiting as long as it takes.
///
/// # Errors
/// The operation's; a cancellation as an error of kind `Other` (see [`Cancelled`]).
///
/// # Safety
/// S3: what the operation points to is valid, and nobody else touches it, until this returns.
pub(crate) unsafe fn perform(op: Op) -> io::Result<u32> {
    // SAFETY: S3, the caller's promise.
    unsafe { perform_before(op, None) }
}

/// The same with a deadline of its own, after which it fails with [`io::ErrorKind::TimedOut`].
///
/// # Safety
/// S3, as [`perform`].
pub(crate) unsafe fn perform_before(op: Op, deadline: Option<Instant>) -> io::Result<u32> {
    task::begin_wait()?;
    let mut attempts = op.is_worth_attempting();
    loop {
        if attempts {
            // SAFETY: S3, the caller's promise.
            match unsafe { op.attempt() } {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
        }
        attempts = true;
        let result = match worker::current().zip(task::current_header()) {
            Some((worker, header)) => {
                // SAFETY: S3, the caller's promise.
                unsafe { fly(worker, header, &op, deadline) }
            }
            None => wait_for_readiness(&op, deadline).map(|()| Completion::RETRY),
        }?;
        if result == Completion::RETRY {
            // What the operation waited for is there, or the driver only knows readiness: once more.
            continue;
        }
        return u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
    }
}

/// Hands the operation to the driver and waits for its completion; an error is why the wait was ended early.
///
/// # Safety
/// S3, as [`perform`].
unsafe fn fly(
    worker: &Worker,
    header: &Header,
    op: &Op,
    deadline: Option<Instant>,
) -> io::Result<i32> {
    if let Some(cancelled) = task::reach(header) {
        return Err(task::answer(cancelled).into());
    }
    let flight =
        Flight { waiter: Waiter::new(), token: Cell::new(Token::new(0)), result: Cell::new(0) };
    {
        let mut io = worker.io.borrow_mut();
        io.open(worker)?;
        let token = io.slots.put(&raw const flight);
        flight.token.set(token);
        let driver = io.driver.as_mut().expect("opened above");
        // SAFETY: S3: the caller's promise covers the memory; this frame waits for the completion whatever happens.
        unsafe { driver.submit(op, token) };
    }
    let alarm =
        Alarm { timer: Timer::new(ring_flight), token: flight.token.get(), rang: Cell::new(false) };
    if let Some(deadline) = deadline {
        // SAFETY: W1: the alarm stays on this stack and is cancelled below.
        unsafe { worker.timers.set(&alarm.timer, deadline) };
    }
    header.running().interrupt.set(Some(interrupt_flight));
    task::wait(&flight.waiter, None, Mode::Hook);
    worker.timers.cancel(&alarm.timer);
    let result = flight.result.get();
    if result == Completion::CANCELLED || result == Completion::RETRY {
        // It ended without effect: was it asked to?
        if task::cancelled().is_some() {
            return Err(task::cancelled_wait().into());
        }
        if alarm.rang.get() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
    Ok(result)
}

#[repr(C)]
struct Alarm {
    timer: Timer,
    token: Token,
    rang: Cell<bool>,
}

/// The operation's own deadline has passed.
unsafe fn ring_flight(timer: *const Timer) {
    // SAFETY: W1: the timer is the first field of an alarm, on the stack of the waiting task.
    let alarm = unsafe { &*timer.cast::<Alarm>() };
    alarm.rang.set(true);
    cancel(alarm.token);
}

/// The interrupt of a wait for an operation.
unsafe fn interrupt_flight(header: &Header) {
    // SAFETY: S4: the waiter is the first field of a flight, whose frame waits.
    let flight = unsafe { &*header.running().parked_on.get().cast::<Flight>() };
    cancel(flight.token.get());
}

fn cancel(token: Token) {
    if let Some(worker) = worker::current()
        && let Some(driver) = &mut worker.io.borrow_mut().driver
    {
        driver.cancel(token);
    }
}

/// On a plain thread: poll(2), at most until the deadline, or the nearest enclosing one.
fn wait_for_readiness(op: &Op, deadline: Option<Instant>) -> io::Result<()> {
    let enclosing = task::nearest_deadline().map(|(at, _)| at);
    let first = match (deadline, enclosing) {
        (Some(own), Some(other)) => Some(own.min(other)),
        (own, other) => own.or(other),
    };
    loop {
        let left = first.map(|at| at.saturating_duration_since(clock::now()));
        super::unblock::blocks(true);
        // SAFETY: S3: the fd stays open for as long as the operation goes on.
        let ready = unsafe { op.block_until_ready(left) };
        super::unblock::blocks(false);
        if ready? {
            return Ok(());
        }
        let now = clock::now();
        if enclosing.is_some_and(|at| now >= at) {
            // Flags the frame whose deadline it was, and says so.
            task::begin_wait()?;
        }
        if deadline.is_some_and(|at| now >= at) {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}
