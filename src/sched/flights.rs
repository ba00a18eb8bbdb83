//! The operations of a worker that its driver carries out, each with the frame that waits for it.
#![expect(unsafe_code, reason = "reaches the frames of waits by pointer")]

use std::cell::Cell;
use std::io;

use super::pool::Pool;
use super::shared::WorkerShared;
use crate::base::report;
use crate::driver::{self, AnyDriver, Completion, Driver, Op, Token, Wait};
use crate::park::Single;

/// A worker's driver, once it has been needed, and the operations in flight.
pub(super) struct Io {
    pub(super) driver: Option<AnyDriver>,
    pub(super) slots: Slots,
    completions: Vec<Completion>,
}

impl Io {
    pub(super) fn new() -> Io {
        Io { driver: None, slots: Slots::default(), completions: Vec::new() }
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

    /// Returns whether to attempt an op before it is submitted.
    #[inline]
    pub(super) fn is_worth_attempting(&self, op: &Op) -> bool {
        self.driver.as_ref().is_none_or(|driver| driver.is_worth_attempting(op))
    }

    #[inline]
    pub(super) fn observe(&mut self, op: &Op, result: u32) {
        if let Some(driver) = &mut self.driver {
            driver.observe(op, result);
        }
    }

    #[inline]
    pub(super) fn open(
        &mut self,
        pool: &Pool,
        shared: &WorkerShared,
    ) -> io::Result<&mut AnyDriver> {
        if self.driver.is_none() {
            let choice = pool.driver()?;
            let driver = driver::open(choice, shared.waker.get().cloned())?;
            // The waker of the first driver stays for good, because other threads may hold on to it
            // (S6). Later drivers watch the same one.
            shared.waker.get_or_init(|| driver.waker());
            self.driver = Some(driver);
        }
        Ok(self.driver.as_mut().expect("opened above"))
    }

    /// Hands queued operations to the kernel, waits as `wait` allows, and wakes the tasks whose
    /// operations are complete.
    #[inline]
    pub(super) fn poll(&mut self, wait: Wait) {
        let Some(driver) = &mut self.driver else { return };
        if wait == Wait::Poll && driver.in_flight() == 0 {
            return;
        }
        if let Err(error) = driver.poll(wait, &mut self.completions) {
            // The operations in flight can neither be awaited nor abandoned (S3), so there is no
            // sound way to go on.
            report::last_words(format!("ecru: the driver of a worker has broken down: {error}"));
            std::process::abort();
        }
        // An operation ends with its last completion. No operation here has several.
        for completion in self.completions.drain(..).filter(|completion| !completion.more) {
            let Some(flight) = self.slots.take(completion.token) else { continue };
            // SAFETY: S3/S4: the flight's frame waits for this very completion.
            unsafe { &(*flight).shared }.result.set(completion.result);
            // SAFETY: S4: only its completion ends the wait of a flight, and it has just been taken
            // out of the slots.
            unsafe { Single::wake(flight) };
        }
    }
}

/// The wait for one operation in flight, on the stack of the task that waits for it.
pub(super) type Flight = Single<InFlight>;

/// An operation in flight.
pub(super) struct InFlight {
    pub(super) token: Cell<Token>,
    pub(super) result: Cell<i32>,
}

/// The frames of the operations in flight, by tokens that are not used twice.
#[derive(Default)]
pub(super) struct Slots {
    entries: Vec<Slot>,
    free: Vec<u32>,
}

struct Slot {
    generation: u32,
    flight: *const Flight,
}

impl Slots {
    #[inline]
    pub(super) fn put(&mut self, flight: *const Flight) -> Token {
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(Slot { generation: 0, flight: std::ptr::null() });
            u32::try_from(self.entries.len() - 1).expect("fewer than 2^32 operations are in flight")
        });
        let slot = &mut self.entries[index as usize];
        slot.flight = flight;
        Token::new(u64::from(slot.generation) << 32 | u64::from(index))
    }

    /// Returns the frame of a token and forgets it. Returns `None` if the token is not, or no
    /// longer, in use.
    #[inline]
    fn take(&mut self, token: Token) -> Option<*const Flight> {
        let index = (token.value() & u64::from(u32::MAX)) as u32;
        let generation = (token.value() >> 32) as u32;
        let slot = self.entries.get_mut(index as usize)?;
        if slot.generation != generation || slot.flight.is_null() {
            return None;
        }
        // One bit less than the field has, because the topmost bit of a token is the driver's.
        slot.generation = (slot.generation + 1) & (u32::MAX >> 1);
        self.free.push(index);
        Some(std::mem::replace(&mut slot.flight, std::ptr::null()))
    }
}
