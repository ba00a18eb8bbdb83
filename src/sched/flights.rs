//! The operations of a worker that its driver carries out, each with the frame that waits for it.
#![expect(unsafe_code, reason = "reaches the frames of waits by pointer")]

use std::cell::Cell;
use std::{io, ptr};

use super::pool::Pool;
use super::shared::WorkerShared;
use crate::base::report;
use crate::driver::{self, AnyDriver, Completion, Driver, InFlight, Observe, PollTimeout, Token};
use crate::park::Single;

/// A worker's driver, once it has been needed, and the operations in flight.
pub(super) struct Io {
    pub(super) driver: Option<AnyDriver>,
    completions: Vec<Completion>,
    /// The wakers of observers that are to be called.
    pub(super) wakers: Vec<std::task::Waker>,
}

impl Io {
    pub(super) fn new() -> Io {
        Io { driver: None, completions: Vec::new(), wakers: Vec::new() }
    }

    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.driver.is_some()
    }

    /// Returns the number of operations that the kernel has.
    #[inline]
    pub(super) fn in_flight(&self) -> usize {
        self.driver.as_ref().map_or(0, Driver::in_flight)
    }

    #[inline]
    pub(super) fn open(
        &mut self,
        pool: &Pool,
        shared: &WorkerShared,
    ) -> io::Result<&mut AnyDriver> {
        if self.driver.is_none() {
            self.open_first(pool, shared)?;
        }
        Ok(self.driver.as_mut().expect("opened above"))
    }

    /// Opens the driver. Out of line, because a new driver lies on the stack for a moment. That
    /// would be room in the frame of every task that waits for an operation.
    #[cold]
    #[inline(never)]
    fn open_first(&mut self, pool: &Pool, shared: &WorkerShared) -> io::Result<()> {
        let choice = pool.driver()?;
        let driver = driver::open(choice, shared.waker.get().cloned())?;
        // The waker of the first driver stays for good, because other threads may hold on to it
        // (S6). Later drivers watch the same one.
        shared.waker.get_or_init(|| driver.waker());
        self.driver = Some(driver);
        Ok(())
    }

    /// Hands queued operations to the kernel, waits as `wait` allows, and wakes the tasks whose
    /// operations are complete.
    #[inline]
    pub(super) fn poll(&mut self, wait: PollTimeout) {
        let Some(driver) = &mut self.driver else { return };
        if wait == PollTimeout::Poll && driver.in_flight() == 0 {
            return;
        }
        if let Err(error) = driver.poll(wait, &mut self.completions) {
            // The operations in flight can neither be awaited nor abandoned (S3), so there is no
            // sound way to go on.
            report::last_words(format!("ecru: the driver of a worker has broken down: {error}"));
            std::process::abort();
        }
        for completion in self.completions.drain(..) {
            let flight = completion.token.value() as usize;
            let flight: *const Flight<'static> = ptr::with_exposed_provenance(flight);
            // SAFETY: S3/S4: the token is the address of a flight, whose frame waits for this very
            // completion.
            unsafe { &(*flight).shared }.result.set(Some(completion));
            // SAFETY: S4: only its completion ends the wait of a flight, and there is only one.
            unsafe { Single::wake(flight) };
        }
        driver.take_wakers(&mut self.wakers);
    }
}

/// The wait for one operation in flight, on the stack of the waiting task. Its address is the
/// operation's token.
pub(super) type Flight<'a> = Single<Flown<'a>>;

/// An operation in flight.
pub(super) struct Flown<'a> {
    pub(super) op: InFlight<'a>,
    pub(super) result: Cell<Option<Completion>>,
}

/// Returns the token of a flight.
pub(super) fn token_of(flight: &Flight<'_>) -> Token {
    Token::new(ptr::from_ref(flight).expose_provenance() as u64)
}
