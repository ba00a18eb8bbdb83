//! Kernel operations as waits. An operation that cannot be carried out at once is handed to the
//! worker's driver, or to that of a plain thread.
//!
//! # The drain rule
//! The buffer of an operation in flight belongs to the kernel until the operation's own completion
//! has come (S3). So a cancellation, or a deadline, asks the driver to cancel the operation and
//! goes on waiting. If the operation succeeded meanwhile, that result stands, and the next wait
//! sees the cancellation.
#![expect(unsafe_code, reason = "operations carry raw pointers")]

use std::cell::Cell;
use std::io;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::blocking::blocks;
use super::flights::{Flight, Flown, token_of};
use super::record;
use super::timers::Timer;
use super::unblock::unblock;
use super::worker::{self, Worker};
use crate::base::clock;
use crate::base::record::Subject;
use crate::driver::{
    self, AtOnce, Completion, Driver, InFlight, Interest, LentOp, Observe, Observer, Op,
    OwnedDescriptor, PollTimeout, StartedOp, Thread, Token,
};
use crate::park::{self, About, Mode, Outcome, Single, Waiter, What};
use crate::task::{self, Header};

/// The pause before an operation is attempted again for the first time. It doubles from attempt to
/// attempt, up to the longest.
const FIRST_PAUSE: Duration = Duration::from_micros(50);
const LONGEST_PAUSE: Duration = Duration::from_millis(10);

/// Carries an operation out, and waits as long as it takes.
///
/// # Errors
/// Returns the operation's error. A cancellation is an error of kind `Other` (see
/// [`Cancelled`](crate::Cancelled)).
#[inline]
pub(crate) fn perform(op: &LentOp<'_>) -> io::Result<u32> {
    perform_before(op, None)
}

/// Carries an operation out if it needs no wait. Returns `None` if it has to be performed.
pub(crate) fn attempt(op: &LentOp<'_>) -> Option<io::Result<u32>> {
    if let Err(cancelled) = task::begin_wait() {
        return Some(Err(cancelled.into()));
    }
    // SAFETY: S3: the operation holds the borrows of its memory and its fd until this returns.
    match unsafe { driver::at_once(op.op()) } {
        AtOnce::Done(result) => Some(told(op.op(), result)),
        AtOnce::WouldWait | AtOnce::Unknown => None,
    }
}

/// Waits until an fd is ready.
///
/// # Errors
/// As [`perform`].
pub(crate) fn wait_until_ready(fd: &OwnedDescriptor, interest: Interest) -> io::Result<()> {
    perform(&LentOp::readiness(fd.name(), interest)).map(drop)
}

/// Carries an operation out as [`perform`] does, with a deadline of its own. Fails with
/// [`io::ErrorKind::TimedOut`] after the deadline.
#[inline]
pub(crate) fn perform_before(op: &LentOp<'_>, deadline: Option<Instant>) -> io::Result<u32> {
    task::begin_wait()?;
    let op = op.op();
    // SAFETY: S3: the operation holds the borrows of its memory and its fd until this returns.
    let attempted = match unsafe { driver::at_once(op) } {
        AtOnce::Done(result) => return told(op, result),
        AtOnce::WouldWait => true,
        AtOnce::Unknown => false,
    };
    // SAFETY: S3: the operation holds the borrows of its memory and its fd until this returns,
    // which is when the kernel has finished with them.
    told(op, unsafe { wait_for(op, attempted, deadline) })
}

/// Tells the recorder, if there is one, that an operation is over.
#[inline(always)]
fn told(op: &Op<'_>, result: io::Result<u32>) -> io::Result<u32> {
    if task::is_hooked() {
        record::performed(op, &result);
    }
    result
}

/// Waits for an operation that could not be carried out at once. `attempted` says whether that has
/// been tried.
///
/// # Safety
/// S3: what the operation points to is valid, and nothing else touches it, until this returns.
#[inline(never)]
unsafe fn wait_for(op: &Op<'_>, attempted: bool, deadline: Option<Instant>) -> io::Result<u32> {
    let waited = match worker::current().zip(task::current_header()) {
        // SAFETY: S3, the caller's promise.
        Some((worker, header)) => unsafe { fly(worker, header, op, attempted, deadline) },
        // SAFETY: S3, the caller's promise.
        None => unsafe { wait_on_thread(op, attempted, deadline) },
    };
    match waited {
        Waited::Done(result) => result,
        // SAFETY: S3, the caller's promise.
        Waited::Blocking => unsafe { block(op) },
        // SAFETY: S3, the caller's promise.
        Waited::Untold => unsafe { attempt_again(op, deadline) },
    }
}

/// Has the driver of the current worker tell the observer of all news of the fd from now on. Returns
/// false if the thread is no worker, or its driver cannot.
///
/// # Errors
/// Returns the errors of opening the driver and of registering the fd.
pub(crate) fn observe(fd: &OwnedDescriptor, observer: &Arc<Observer>) -> io::Result<bool> {
    let Some(worker) = worker::current() else { return Ok(false) };
    let place = ptr::from_ref(worker.shared).addr();
    if observer.is_told_at(place) {
        return Ok(true);
    }
    let mut io = worker.io.borrow_mut();
    match io.open(&worker.pool, worker.shared)?.observe(fd, observer, place) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(false),
        Err(error) => Err(error),
    }
}

/// Ends that, before the fd is closed.
pub(crate) fn unobserve(fd: &OwnedDescriptor, observer: &Arc<Observer>) {
    if let Some(worker) = worker::current()
        && observer.is_told_at(ptr::from_ref(worker.shared).addr())
        && let Some(driver) = &mut worker.io.borrow_mut().driver
    {
        driver.unobserve(fd, observer);
    }
    observer.end();
}

/// How a wait ended.
enum Waited {
    Done(io::Result<u32>),
    /// As [`StartedOp::Blocking`].
    Blocking,
    /// As [`StartedOp::Untold`].
    Untold,
}

/// Carries out an operation that no driver carries, on a thread that may block. On a plain thread
/// that is the thread itself.
///
/// # Safety
/// S3: what the operation points to is valid, and nothing else touches it, until this returns.
#[cold]
unsafe fn block(op: &Op<'_>) -> io::Result<u32> {
    if task::current_header().is_none() {
        blocks(true);
        // SAFETY: S3, the caller's promise.
        let result = unsafe { driver::block(op) };
        blocks(false);
        return result;
    }
    while let Some((interest, tells)) = op.awaited_first() {
        if let Err(error) = perform(&LentOp::readiness(op.descriptor(), interest))
            && task::cancelled().is_some()
        {
            return Err(error);
        }
        // SAFETY: S3, the caller's promise.
        match unsafe { driver::at_once(op) } {
            AtOnce::Done(result) => return result,
            // Another reader or writer was faster.
            AtOnce::WouldWait if tells => {}
            AtOnce::WouldWait | AtOnce::Unknown => break,
        }
    }
    let op = *op;
    // SAFETY: S3, the caller's promise. `unblock` returns after the closure.
    unblock(move || unsafe { driver::block(&op) })
}

/// Attempts an operation again and again, with a pause before each attempt, because no event tells
/// when it can go on. Between two attempts the kernel has nothing of it.
///
/// # Safety
/// S3: what the operation points to is valid, and nothing else touches it, until this returns.
#[cold]
unsafe fn attempt_again(op: &Op<'_>, deadline: Option<Instant>) -> io::Result<u32> {
    let object = ptr::from_ref(op).cast();
    let mut wait = park::Wait { object, ..park::Wait::new(&OPERATION, Mode::Cancellable) };
    let mut pause = FIRST_PAUSE;
    loop {
        let now = clock::now();
        if deadline.is_some_and(|deadline| now >= deadline) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        wait.deadline = Some(deadline.map_or(now + pause, |deadline| deadline.min(now + pause)));
        let Outcome::TimedOut(()) = wait.alone() else {
            return Err(task::cancelled_wait().into());
        };
        task::begin_wait()?;
        // SAFETY: S3, the caller's promise.
        if let AtOnce::Done(result) = unsafe { driver::at_once(op) } {
            return result;
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// A wait for the completion of an operation.
// SAFETY: O1: the operation is in the frame of the wait.
static OPERATION: What =
    unsafe { What::about_briefly("input or output", describe, describe_briefly) };

/// Describes a wait for an operation in short.
///
/// # Safety
/// O1: as for [`describe`].
unsafe fn describe_briefly(op: *const (), _: usize) -> (&'static str, Subject) {
    // SAFETY: O1, the caller's promise.
    let op = unsafe { &*op.cast::<Op<'_>>() };
    (op.name(), Subject::Fd(op.descriptor().number()))
}

/// Describes a wait for an operation.
///
/// # Safety
/// O1: `op` is an operation in flight.
unsafe fn describe(op: *const (), _: usize) -> (&'static str, About) {
    // SAFETY: O1, the caller's promise.
    let op = unsafe { &*op.cast::<Op<'_>>() };
    let fd = op.descriptor();
    let (name, peer) = (driver::name_of(fd), driver::peer_of(fd));
    let about = About::Fd {
        fd: fd.number(),
        name,
        peer,
        #[cfg(feature = "sim")]
        shown_peer: driver::shown_peer_of(fd),
    };
    (op.name(), about)
}

/// Hands the operation to the worker's driver and waits for its completion.
///
/// # Safety
/// S3: what the operation points to is valid, and nothing else touches it, until this returns.
unsafe fn fly(
    worker: &Worker,
    header: &Header,
    op: &Op<'_>,
    attempted: bool,
    deadline: Option<Instant>,
) -> Waited {
    if let Some(cancelled) = task::reach(header) {
        return Waited::Done(Err(task::answer(cancelled).into()));
    }
    #[cfg(feature = "sim")]
    super::simulated::note_place();
    #[cfg(test)]
    if matches!(op, Op::File(_)) && files_by_pool::get() {
        return Waited::Blocking;
    }
    let alarm = OpTimer {
        timer: Timer::new(ring_flight),
        flight: Cell::new(ptr::null()),
        rang: Cell::new(false),
    };
    let object = ptr::from_ref(op).cast();
    let wait = park::Wait { object, ..park::Wait::new(&OPERATION, Mode::Hook(interrupt_flight)) };
    let flown = Flown { op: InFlight::new(op, attempted), result: Cell::new(None) };
    let flown = wait.single_unless(flown, |flight| {
        let mut io = worker.io.borrow_mut();
        let driver = match io.open(&worker.pool, worker.shared) {
            Ok(driver) => driver,
            Err(error) => return Err(Waited::Done(Err(error))),
        };
        // SAFETY: S3: the caller's promise covers the memory. This frame waits for the completion
        // whatever happens.
        match unsafe { driver.start(&flight.shared.op, token_of(flight)) } {
            StartedOp::Pending => {}
            StartedOp::Done(result) => return Err(Waited::Done(result)),
            StartedOp::Blocking => return Err(Waited::Blocking),
            StartedOp::Untold => return Err(Waited::Untold),
        }
        if let Some(deadline) = deadline {
            alarm.flight.set(ptr::from_ref(flight));
            // SAFETY: W1: the alarm stays on this stack and is cancelled below.
            unsafe { worker.timers.set(&alarm.timer, deadline) };
        }
        Ok(())
    });
    worker.timers.cancel(&alarm.timer);
    let completion = match flown {
        Ok(flown) => flown.result.get().expect("the flight was woken by its completion"),
        Err(waited) => return waited,
    };
    if completion.result == Completion::CANCELLED {
        // It ended without effect: was it asked to?
        if task::cancelled().is_some() {
            return Waited::Done(Err(task::cancelled_wait().into()));
        }
        if alarm.rang.get() {
            return Waited::Done(Err(io::ErrorKind::TimedOut.into()));
        }
    }
    Waited::Done(completion.into_result())
}

#[repr(C)]
struct OpTimer<'a> {
    timer: Timer,
    flight: Cell<*const Flight<'a>>,
    rang: Cell<bool>,
}

/// Cancels an operation whose own deadline has passed.
unsafe fn ring_flight(timer: *const Timer) {
    // SAFETY: W1: the timer is the first field of an alarm, on the stack of the waiting task.
    let alarm = unsafe { &*timer.cast::<OpTimer<'_>>() };
    alarm.rang.set(true);
    // SAFETY: W1: the flight is on the same stack.
    cancel(unsafe { &*alarm.flight.get() });
}

/// Interrupts a wait for an operation.
unsafe fn interrupt_flight(waiter: *const Waiter) {
    // SAFETY: S4: this is the hook of flights, whose frames wait.
    let flight: &Flight<'_> = unsafe { Single::of(waiter) };
    cancel(flight);
}

fn cancel(flight: &Flight<'_>) {
    if let Some(worker) = worker::current()
        && let Some(driver) = &mut worker.io.borrow_mut().driver
    {
        driver.cancel(&flight.shared.op);
    }
}

/// Waits on a plain thread, until the deadline or the nearest enclosing one at the latest. Out of
/// line, so that its frame takes no room in that of a task.
///
/// # Safety
/// S3: what the operation points to is valid, and nothing else touches it, until this returns.
#[inline(never)]
unsafe fn wait_on_thread(op: &Op<'_>, attempted: bool, deadline: Option<Instant>) -> Waited {
    let (mut thread, mut completions) = (Thread::default(), Vec::new());
    let flight = InFlight::new(op, attempted);
    // SAFETY: S3: the caller's promise covers the memory. Between two polls, this driver keeps
    // nothing of an operation that it has not completed.
    match unsafe { thread.start(&flight, Token::new(0)) } {
        StartedOp::Pending => {}
        StartedOp::Done(result) => return Waited::Done(result),
        StartedOp::Blocking => return Waited::Blocking,
        StartedOp::Untold => return Waited::Untold,
    }
    loop {
        // An enclosing limit may be moved while this waits.
        let enclosing = task::deadline();
        let first = match (deadline, enclosing) {
            (Some(own), Some(other)) => Some(own.min(other)),
            (own, other) => own.or(other),
        };
        let wait = match first {
            Some(at) => PollTimeout::For(at.saturating_duration_since(clock::now())),
            None => PollTimeout::Forever,
        };
        blocks(true);
        let polled = thread.poll(wait, &mut completions);
        blocks(false);
        if let Err(error) = polled {
            return Waited::Done(Err(error));
        }
        if let Some(completion) = completions.pop() {
            return Waited::Done(completion.into_result());
        }
        // An fd can be ready all the time and never yield anything, so the deadlines count even if
        // it is ready.
        if let Err(error) = check_deadlines(deadline, enclosing) {
            return Waited::Done(Err(error));
        }
    }
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

/// For tests: makes this thread's drivers look as if they did not carry files.
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
