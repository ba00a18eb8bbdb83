//! A lease on a job in memory.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use super::pull::Slot;
use super::queue::Queue;
use crate::engine::{Lease, Renewal};
use crate::errors::{LeaseLost, disconnected};

pub(super) struct LocalLease {
    pub(super) queue: Arc<Queue>,
    pub(super) number: u64,
    pub(super) attempt: u32,
    pub(super) _slot: Slot,
}

struct Renewed(bool);

impl Renewal for Renewed {
    fn wait(self: Box<Self>) -> io::Result<bool> {
        Ok(self.0)
    }
}

impl LocalLease {
    /// Fails if the queue has ended, or if `f` says that the lease has.
    fn settle(&self, f: impl FnOnce() -> bool) -> io::Result<()> {
        if self.queue.has_ended() {
            return Err(disconnected());
        }
        if f() { Ok(()) } else { Err(LeaseLost::Expired.into()) }
    }

    fn remove(&self) -> io::Result<()> {
        self.settle(|| {
            let now = ecru::time::now();
            self.queue.change(|jobs| jobs.settle(self.number, self.attempt, now))
        })
    }
}

impl Lease for LocalLease {
    fn begin_renew(&self) -> io::Result<Box<dyn Renewal>> {
        let now = ecru::time::now();
        let until = now + self.queue.spec().lease;
        // No job becomes ready by this, so it wakes no pull.
        let renewed = self.queue.with(|jobs| jobs.renew(self.number, self.attempt, now, until));
        Ok(Box::new(Renewed(renewed)))
    }

    fn done(&self) -> io::Result<()> {
        self.remove()
    }

    fn retry(&self, delay: Duration) -> io::Result<()> {
        self.settle(|| {
            let now = ecru::time::now();
            self.queue.change(|jobs| jobs.retry(self.number, self.attempt, now, delay))
        })
    }

    fn give_back(&self, delay: Duration) {
        let _ = self.retry(delay);
    }

    fn terminate(&self, _why: &str) -> io::Result<()> {
        self.remove()
    }
}
