//! Kernel operations as waits: tried at once, then handed to the worker's driver; on a plain thread, tried again whenever
//! poll(2) says so.
//!
//! # The drain rule
//! The buffer of an operation in flight belongs to the kernel until the operation's own completion has come (S3). So a
//! cancellation, or a deadline, asks the driver to cancel the operation and goes on waiting; if the operation succeeded
//! meanwhile, that result stands, and the next wait sees the cancellation.
//!
//! One of several accepts on a shared listener is told of each connection (see `driver`). What it was told concerns the others if it does not
//! take the connection. So it makes its attempt even if it has been cancelled meanwhile, and passes the news on if the attempt fails.
#![expect(unsafe_code, reason = "operations carry raw pointers")]

use std::cell::Cell;
use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::timers::Timer;
use super::worker::{self, Worker};
use crate::base::{clock, report};
use crate::driver::{
    self, AnyDriver, Completion, Driver, FileManner, FileOp, Interest, Op, OwnedDescriptor, Token,
    Wait,
};
use crate::park::{About, Mode, WOKEN, Waiter};
use crate::task::{self, Header};

/// A worker's driver, once it has been needed, and what is in flight.
pub(super) struct Io {
    driver: Option<AnyDriver>,
    slots: Slots,
    completions: Vec<Completion>,
}

impl Io {
    pub(super) fn new() -> Io {
        Io { driver: None, slots: Slots::default(), completions: Vec::new() }
    }

    pub(super) fn is_open(&self) -> bool {
        self.driver.is_some()
    }

    /// How many operations the kernel has.
    pub(super) fn in_flight(&self) -> usize {
        self.driver.as_ref().map_or(0, Driver::in_flight)
    }

    /// Whether to attempt an op before it is submitted.
    fn is_worth_attempting(&self, op: &Op) -> bool {
        self.driver.as_ref().is_none_or(|driver| driver.is_worth_attempting(op))
    }

    fn observe(&mut self, op: &Op, result: u32) {
        if let Some(driver) = &mut self.driver {
            driver.observe(op, result);
        }
    }

    fn open(&mut self, worker: &Worker) -> io::Result<&mut AnyDriver> {
        if self.driver.is_none() {
            let choice = worker.pool.driver()?;
            let driver = driver::open(choice, worker.shared.waker.get().cloned())?;
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
            report::last_words(format!("ecru: the driver of a worker has broken down: {error}"));
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

/// Waits until an fd is ready.
///
/// # Errors
/// As [`perform`].
pub(crate) fn wait_until_ready(fd: &OwnedDescriptor, interest: Interest) -> io::Result<()> {
    // SAFETY: S3: it points to no memory, and the fd is borrowed until this returns.
    unsafe { perform(Op::Readiness { fd: fd.name(), interest })? };
    Ok(())
}

/// The same with a deadline of its own, after which it fails with [`io::ErrorKind::TimedOut`].
///
/// # Safety
/// S3, as [`perform`].
pub(crate) unsafe fn perform_before(op: Op, deadline: Option<Instant>) -> io::Result<u32> {
    task::begin_wait()?;
    let here = worker::current();
    let mut told_alone = false;
    let mut attempts = match here {
        Some(worker) => worker.io.borrow().is_worth_attempting(&op),
        None => op.is_worth_attempting(),
    };
    let mut in_vain = 0;
    loop {
        if attempts {
            // SAFETY: S3, the caller's promise.
            match unsafe { op.attempt() } {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Ok(result) => {
                    if let Some(worker) = here {
                        worker.io.borrow_mut().observe(&op, result);
                    }
                    return Ok(result);
                }
                Err(error) => {
                    if told_alone
                        && let Some(worker) = here
                        && let Some(driver) = &mut worker.io.borrow_mut().driver
                    {
                        driver.pass_on(&op);
                    }
                    return Err(error);
                }
            }
        }
        attempts = true;
        let result = match here.zip(task::current_header()) {
            Some((worker, header)) => {
                // SAFETY: S3, the caller's promise.
                unsafe { fly(worker, header, Request::Op(&op), deadline) }
            }
            None => {
                let waited = wait_for_readiness(&op, deadline, in_vain);
                in_vain += 1;
                waited.map(|()| Completion::RETRY)
            }
        }?;
        if result == Completion::RETRY {
            // What the operation waited for is there, or the driver only knows readiness: once more.
            told_alone = op.is_told_alone();
            continue;
        }
        return u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
    }
}

/// Carries an operation on a file out: on the worker's driver if that carries files, else on a thread that may block; on a plain
/// thread it blocks. `WouldBlock` for a file in non-blocking mode.
///
/// # Errors
/// The operation's; a cancellation as an error of kind `Other` (see [`Cancelled`](crate::Cancelled)).
///
/// # Safety
/// S3: what the operation points to is valid, and nobody else touches it, until this returns.
pub(crate) unsafe fn perform_file(op: FileOp, manner: FileManner) -> io::Result<u32> {
    task::begin_wait()?;
    let Some((worker, header)) = worker::current().zip(task::current_header()) else {
        super::unblock::blocks(true);
        // SAFETY: S3, the caller's promise.
        let result = unsafe { op.call() };
        super::unblock::blocks(false);
        return result;
    };
    if !carries_files()? {
        // SAFETY: S3, the caller's promise; `unblock` returns after the closure.
        return super::unblock(move || unsafe { op.call() });
    }
    loop {
        // SAFETY: S3, the caller's promise.
        let result = unsafe { fly(worker, header, Request::File(&op, manner), None) }?;
        if result == Completion::RETRY {
            // The kernel was interrupted; or it does not wait because it was told not to.
            if driver::is_in_nonblocking_mode(op.fd()) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            continue;
        }
        return u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
    }
}

/// Whether the current worker's driver carries operations on files; on a plain thread there is none.
///
/// # Errors
/// The worker's driver cannot be opened.
pub(crate) fn carries_files() -> io::Result<bool> {
    #[cfg(test)]
    if files_by_pool::get() {
        return Ok(false);
    }
    match worker::current() {
        Some(worker) => Ok(worker.io.borrow_mut().open(worker)?.carries_files()),
        None => Ok(false),
    }
}

/// For tests: as if this thread's driver did not carry files.
#[cfg(test)]
pub(crate) mod files_by_pool {
    use std::cell::Cell;

    std::thread_local! {
        static ON: Cell<bool> = const { Cell::new(false) };
    }

    pub(crate) fn set(on: bool) {
        ON.set(on);
    }

    pub(super) fn get() -> bool {
        ON.get()
    }
}

/// What a flight is for.
#[derive(Clone, Copy)]
enum Request<'a> {
    Op(&'a Op),
    File(&'a FileOp, FileManner),
}

/// Hands the operation to the driver and waits for its completion; an error is why the wait was ended early.
///
/// # Safety
/// S3, as [`perform`].
unsafe fn fly(
    worker: &Worker,
    header: &Header,
    request: Request<'_>,
    deadline: Option<Instant>,
) -> io::Result<i32> {
    if let Some(cancelled) = task::reach(header) {
        return Err(task::answer(cancelled).into());
    }
    let flight =
        Flight { waiter: Waiter::new(), token: Cell::new(Token::new(0)), result: Cell::new(0) };
    match request {
        Request::Op(op) => flight.waiter.set_purpose(op.name(), About::Fd(op.readiness().0.fd)),
        Request::File(op, _) => flight.waiter.set_purpose(op.name(), About::Fd(op.fd())),
    }
    {
        let mut io = worker.io.borrow_mut();
        io.open(worker)?;
        let token = io.slots.put(&raw const flight);
        flight.token.set(token);
        let driver = io.driver.as_mut().expect("opened above");
        match request {
            // SAFETY: S3: the caller's promise covers the memory; this frame waits for the completion whatever happens.
            Request::Op(op) => unsafe { driver.submit(op, token) },
            // SAFETY: S3, as above.
            Request::File(op, manner) => unsafe { driver.submit_file(op, manner, token) },
        }
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
    let told_alone = matches!(request, Request::Op(op) if op.is_told_alone());
    if result == Completion::CANCELLED || (result == Completion::RETRY && !told_alone) {
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

/// How often poll(2) may be wrong about one operation before it is believed to go on being wrong.
const MUCH_IN_VAIN: u32 = 16;
/// How long a thread then pauses.
const PAUSE: Duration = Duration::from_millis(1);

/// On a plain thread: poll(2), at most until the deadline, or the nearest enclosing one. `in_vain`: so many times it has said for this operation
/// that it was worth an attempt.
fn wait_for_readiness(op: &Op, deadline: Option<Instant>, in_vain: u32) -> io::Result<()> {
    let enclosing = task::nearest_deadline().map(|(at, _)| at);
    let first = match (deadline, enclosing) {
        (Some(own), Some(other)) => Some(own.min(other)),
        (own, other) => own.or(other),
    };
    let left = || first.map(|at| at.saturating_duration_since(clock::now()));
    // An fd can be ready all the time and never give anything, one with a queue of errors that nobody reads for instance. So the
    // deadlines count even if it is ready; and a thread must not do nothing but ask.
    if in_vain > 0 {
        check_deadlines(deadline, enclosing)?;
    }
    if in_vain >= MUCH_IN_VAIN && block_until_ready(op, Some(Duration::ZERO))? {
        super::unblock::blocks(true);
        thread::sleep(left().unwrap_or(PAUSE).min(PAUSE));
        super::unblock::blocks(false);
        check_deadlines(deadline, enclosing)?;
    }
    while !block_until_ready(op, left())? {
        check_deadlines(deadline, enclosing)?;
    }
    Ok(())
}

fn block_until_ready(op: &Op, limit: Option<Duration>) -> io::Result<bool> {
    super::unblock::blocks(true);
    // SAFETY: S3: the fd stays open for as long as the operation goes on.
    let ready = unsafe { op.block_until_ready(limit) };
    super::unblock::blocks(false);
    ready
}

/// An error if one has passed.
fn check_deadlines(deadline: Option<Instant>, enclosing: Option<Instant>) -> io::Result<()> {
    if deadline.is_none() && enclosing.is_none() {
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
    Ok(())
}
