//! Kernel operations as waits. An operation is attempted at once, and then handed to the worker's
//! driver. On a plain thread it is attempted again whenever poll(2) reports readiness.
//!
//! # The drain rule The buffer of an operation in flight belongs to the kernel until the
//! operation's own completion has come (S3). So a cancellation, or a deadline, asks the driver to
//! cancel the operation and goes on waiting; if the operation succeeded meanwhile, that result
//! stands, and the next wait sees the cancellation.
//!
//! One of several accepts on a shared listener is told of each connection (see `driver`). What it
//! was told concerns the others if it does not take the connection. So it makes its attempt even if
//! it has been cancelled meanwhile, and passes the news on if the attempt fails.
#![expect(unsafe_code, reason = "operations carry raw pointers")]

use std::cell::Cell;
use std::io;
use std::ptr;
use std::thread;
use std::time::{Duration, Instant};

use super::blocking::blocks;
use super::flights::{Flight, InFlight};
use super::timers::Timer;
use super::unblock::unblock;
use super::worker::{self, Worker};
use crate::base::clock;
use crate::driver::{
    self, Completion, Driver, FileManner, FileOp, Interest, Op, OwnedDescriptor, Token,
};
use crate::park::{About, Mode, Single, Wait, Waiter, What};
use crate::task::{self, Header};

/// Carries an operation out, and waits as long as it takes.
///
/// # Errors
/// Returns the operation's error. A cancellation is an error of kind `Other` (see
/// [`Cancelled`](crate::Cancelled)).
///
/// # Safety
/// S3: what the operation points to is valid, and nothing else touches it, until this returns.
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

/// Carries an operation out as [`perform`] does, with a deadline of its own. Fails with
/// [`io::ErrorKind::TimedOut`] after the deadline.
///
/// # Safety
/// S3: as [`perform`].
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
            // What the operation waited for is there, or the driver only knows readiness: once
            // more.
            told_alone = op.is_told_alone();
            continue;
        }
        return u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
    }
}

/// Carries an operation on a file out. The worker's driver does it if that carries files, and
/// otherwise a thread that may block. On a plain thread the call blocks. Returns `WouldBlock` for a
/// file in non-blocking mode.
///
/// # Errors
/// Returns the operation's error. A cancellation is an error of kind `Other` (see
/// [`Cancelled`](crate::Cancelled)).
///
/// # Safety
/// S3: what the operation points to is valid, and nothing else touches it, until this returns.
pub(crate) unsafe fn perform_file(op: FileOp, manner: FileManner) -> io::Result<u32> {
    task::begin_wait()?;
    let Some((worker, header)) = worker::current().zip(task::current_header()) else {
        blocks(true);
        // SAFETY: S3, the caller's promise.
        let result = unsafe { op.call() };
        blocks(false);
        return result;
    };
    if !carries_files()? {
        // SAFETY: S3, the caller's promise. `unblock` returns after the closure.
        return unblock(move || unsafe { op.call() });
    }
    loop {
        // SAFETY: S3, the caller's promise.
        let result = unsafe { fly(worker, header, Request::File(&op, manner), None) }?;
        if result == Completion::RETRY {
            // Either the kernel was interrupted, or it does not wait because the file is in
            // non-blocking mode.
            if driver::is_in_nonblocking_mode(op.fd()) {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            continue;
        }
        return u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result));
    }
}

/// Returns whether the current worker's driver carries operations on files. Returns false on a
/// plain thread, which has no driver.
///
/// # Errors
/// Returns an error if the worker's driver cannot be opened.
pub(crate) fn carries_files() -> io::Result<bool> {
    #[cfg(test)]
    if files_by_pool::get() {
        return Ok(false);
    }
    match worker::current() {
        Some(worker) => {
            Ok(worker.io.borrow_mut().open(&worker.pool, worker.shared)?.carries_files())
        }
        None => Ok(false),
    }
}

/// For tests: makes this thread's driver look as if it did not carry files.
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

/// A wait for the completion of a [`Request`].
// SAFETY: O1: the request is in the frame of the wait.
static OPERATION: What = unsafe { What::about(describe) };

/// Describes a wait for a request.
///
/// # Safety
/// O1: `request` is a request, whose operation is in flight.
unsafe fn describe(request: *const (), _: usize) -> (&'static str, About) {
    // SAFETY: O1, the caller's promise.
    match unsafe { &*request.cast::<Request<'_>>() } {
        Request::Op(op) => {
            let fd = op.readiness().0.fd;
            // SAFETY: S3: the operation's descriptor stays open until its completion.
            (op.name(), About::Fd(fd, unsafe { driver::peer_of(fd) }))
        }
        Request::File(op, _) => (op.name(), About::Fd(op.fd(), None)),
    }
}

/// Hands the operation to the driver and waits for its completion. Returns an error if the wait was
/// ended early.
///
/// # Safety
/// S3: as [`perform`].
unsafe fn fly(
    worker: &Worker,
    header: &Header,
    request: Request<'_>,
    deadline: Option<Instant>,
) -> io::Result<i32> {
    if let Some(cancelled) = task::reach(header) {
        return Err(task::answer(cancelled).into());
    }
    let alarm = Alarm {
        timer: Timer::new(ring_flight),
        token: Cell::new(Token::new(0)),
        rang: Cell::new(false),
    };
    let object = ptr::from_ref(&request).cast();
    let wait = Wait { object, ..Wait::new(&OPERATION, Mode::Hook(interrupt_flight)) };
    let in_flight = InFlight { token: Cell::new(Token::new(0)), result: Cell::new(0) };
    let flown = wait.single_unless(in_flight, |flight| -> io::Result<()> {
        let mut io = worker.io.borrow_mut();
        io.open(&worker.pool, worker.shared)?;
        let token = io.slots.put(flight);
        flight.shared.token.set(token);
        let driver = io.driver.as_mut().expect("opened above");
        match request {
            // SAFETY: S3: the caller's promise covers the memory. This frame waits for the
            // completion whatever happens.
            Request::Op(op) => unsafe { driver.submit(op, token) },
            // SAFETY: S3, as above.
            Request::File(op, manner) => unsafe { driver.submit_file(op, manner, token) },
        }
        if let Some(deadline) = deadline {
            alarm.token.set(token);
            // SAFETY: W1: the alarm stays on this stack and is cancelled below.
            unsafe { worker.timers.set(&alarm.timer, deadline) };
        }
        Ok(())
    });
    worker.timers.cancel(&alarm.timer);
    let result = flown?.result.get();
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
    token: Cell<Token>,
    rang: Cell<bool>,
}

/// Cancels an operation whose own deadline has passed.
unsafe fn ring_flight(timer: *const Timer) {
    // SAFETY: W1: the timer is the first field of an alarm, on the stack of the waiting task.
    let alarm = unsafe { &*timer.cast::<Alarm>() };
    alarm.rang.set(true);
    cancel(alarm.token.get());
}

/// Interrupts a wait for an operation.
unsafe fn interrupt_flight(waiter: *const Waiter) {
    // SAFETY: S4: this is the hook of flights, whose frames wait.
    let flight: &Flight = unsafe { Single::of(waiter) };
    cancel(flight.shared.token.get());
}

fn cancel(token: Token) {
    if let Some(worker) = worker::current()
        && let Some(driver) = &mut worker.io.borrow_mut().driver
    {
        driver.cancel(token);
    }
}

/// If poll(2) has been wrong about one operation this often, it is expected to stay wrong.
const MUCH_IN_VAIN: u32 = 16;
/// How long a thread then pauses before each attempt.
const PAUSE: Duration = Duration::from_millis(1);

/// Waits on a plain thread with poll(2), until the deadline or the nearest enclosing one at the
/// latest. `in_vain` says how often an attempt of this operation has failed although it was
/// reported ready.
fn wait_for_readiness(op: &Op, deadline: Option<Instant>, in_vain: u32) -> io::Result<()> {
    let enclosing = task::nearest_deadline().map(|(at, _)| at);
    let first = match (deadline, enclosing) {
        (Some(own), Some(other)) => Some(own.min(other)),
        (own, other) => own.or(other),
    };
    let left = || first.map(|at| at.saturating_duration_since(clock::now()));
    // An fd can be ready all the time and never yield anything, for instance one with a queue of
    // errors that is never read. So the deadlines count even if it is ready, and a thread must not
    // spin.
    if in_vain > 0 {
        check_deadlines(deadline, enclosing)?;
    }
    if in_vain >= MUCH_IN_VAIN && block_until_ready(op, Some(Duration::ZERO))? {
        blocks(true);
        thread::sleep(left().unwrap_or(PAUSE).min(PAUSE));
        blocks(false);
        check_deadlines(deadline, enclosing)?;
    }
    while !block_until_ready(op, left())? {
        check_deadlines(deadline, enclosing)?;
    }
    Ok(())
}

fn block_until_ready(op: &Op, limit: Option<Duration>) -> io::Result<bool> {
    blocks(true);
    // SAFETY: S3: the fd stays open for as long as the operation goes on.
    let ready = unsafe { op.block_until_ready(limit) };
    blocks(false);
    ready
}

/// Returns an error if one of the deadlines has passed.
fn check_deadlines(deadline: Option<Instant>, enclosing: Option<Instant>) -> io::Result<()> {
    if deadline.is_none() && enclosing.is_none() {
        return Ok(());
    }
    let now = clock::now();
    if enclosing.is_some_and(|at| now >= at) {
        // This flags the frame whose deadline it was, and returns the error.
        task::begin_wait()?;
    }
    if deadline.is_some_and(|at| now >= at) {
        return Err(io::ErrorKind::TimedOut.into());
    }
    Ok(())
}
