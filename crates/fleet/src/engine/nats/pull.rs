//! Takes jobs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ecru::channel::RecvError;
use ecru_nats::ErrorKind;
use ecru_nats::jetstream::{self, Deliveries};

use super::lease::{NatsLease, Stream};
use super::names::id_of_job;
use crate::engine::{Delivery, Pull};
use crate::errors::disconnected;

pub(super) struct NatsPull {
    deliveries: Deliveries,
    jobs: Arc<Stream>,
    stopped: AtomicBool,
}

impl NatsPull {
    pub(super) fn new(deliveries: Deliveries, jobs: Stream) -> NatsPull {
        NatsPull { deliveries, jobs: Arc::new(jobs), stopped: AtomicBool::new(false) }
    }

    /// Returns why no more jobs come.
    fn end(&self) -> io::Result<()> {
        match self.deliveries.ended_by() {
            Some(error) if error.kind() == ErrorKind::Closed => Err(disconnected()),
            Some(error) => Err(io::Error::other(error.to_string())),
            None if self.stopped.load(Ordering::Acquire) => Ok(()),
            None => Err(disconnected()),
        }
    }
}

impl Pull for NatsPull {
    fn next(&self) -> io::Result<Option<Delivery>> {
        match self.deliveries.recv() {
            Ok(delivery) => Ok(Some(handed_out(delivery, &self.jobs))),
            Err(RecvError::Disconnected) => self.end().map(|()| None),
            Err(cancelled) => Err(cancelled.into()),
        }
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.deliveries.stop();
    }
}

impl Drop for NatsPull {
    fn drop(&mut self) {
        self.stop();
        // What arrives from now on is given back by the client.
        self.deliveries.close();
        while let Ok(delivery) = self.deliveries.try_recv() {
            let _ = delivery.retry(None);
        }
    }
}

fn handed_out(delivery: jetstream::Delivery, jobs: &Arc<Stream>) -> Delivery {
    Delivery {
        id: id_of_job(delivery.subject()).to_owned(),
        payload: delivery.payload().clone(),
        sequence: delivery.sequence(),
        attempt: u32::try_from(delivery.attempt()).unwrap_or(u32::MAX),
        received: delivery.received_at(),
        lease: Box::new(NatsLease { delivery, jobs: Arc::clone(jobs) }),
    }
}
