//! A lease on a job in memory.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::pull::Slot;
use super::queue::Queue;
use crate::engine::{Lease, Renewal};
use crate::errors::{LeaseLost, disconnected};
use crate::progress::Progress;

pub(super) struct LocalLease {
    pub(super) queue: Arc<Queue>,
    pub(super) number: u64,
    pub(super) delivery: u32,
    pub(super) claimed: AtomicBool,
    pub(super) _slot: Slot,
}

struct Renewed(bool);

impl Renewal for Renewed {
    fn wait(self: Box<Self>) -> io::Result<bool> {
        Ok(self.0)
    }
}

impl LocalLease {
    fn check(&self) -> io::Result<()> {
        if self.queue.has_ended() { Err(disconnected()) } else { Ok(()) }
    }
}

impl Lease for LocalLease {
    fn begin(&self, _is_certain: bool) -> io::Result<u32> {
        self.check()?;
        Ok(self.queue.with(|jobs| jobs.begin(self.number, self.delivery))?)
    }

    fn report(&self, progress: Option<&Progress>) {
        self.queue.with(|jobs| jobs.report(self.number, self.delivery, progress));
    }

    fn claim(&self) -> io::Result<bool> {
        self.check()?;
        if !self.claimed.load(Ordering::Acquire) {
            // The job is removed already, as nothing can go wrong between this and `done`.
            let is_claimed = self.queue.change(|jobs| jobs.claim(self.number, self.delivery));
            self.claimed.store(is_claimed, Ordering::Release);
        }
        Ok(self.claimed.load(Ordering::Acquire))
    }

    fn begin_renew(&self) -> io::Result<Box<dyn Renewal>> {
        let now = ecru::time::now();
        let until = now + self.queue.settings().lease;
        // No job becomes ready by this, so it wakes no pull.
        let renewed = self.queue.with(|jobs| jobs.renew(self.number, self.delivery, now, until));
        Ok(Box::new(Renewed(renewed)))
    }

    fn done(&self) -> io::Result<()> {
        self.check()
    }

    fn retry(&self, delay: Duration) -> io::Result<()> {
        self.check()?;
        let now = ecru::time::now();
        match self.queue.change(|jobs| jobs.retry(self.number, self.delivery, now, delay)) {
            true => Ok(()),
            false => Err(LeaseLost::Expired.into()),
        }
    }

    fn give_back(&self, delay: Duration) {
        let _ = self.retry(delay);
    }

    fn terminate(&self, _why: &str) -> io::Result<()> {
        self.check()
    }
}
