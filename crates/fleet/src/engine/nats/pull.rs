//! Takes jobs.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ecru::Cancelled;
use ecru::channel::RecvError;
use ecru_nats::ErrorKind;
use ecru_nats::jetstream::{self, Deliveries};

use super::attempts::Records;
use super::failure::failed;
use super::lease::{NatsLease, Stream};
use super::names::id_of_job;
use crate::engine::{Delivery, Pull};
use crate::errors::disconnected;

/// The pause before a job is handed out again whose attempts are not known.
const LATER: Duration = Duration::from_secs(5);

pub(super) struct NatsPull {
    deliveries: Deliveries,
    jobs: Arc<Stream>,
    records: Arc<Records>,
    stopped: AtomicBool,
}

impl NatsPull {
    pub(super) fn new(deliveries: Deliveries, jobs: Stream, records: &Arc<Records>) -> NatsPull {
        let (records, stopped) = (Arc::clone(records), AtomicBool::new(false));
        NatsPull { deliveries, jobs: Arc::new(jobs), records, stopped }
    }

    /// Returns a job that was handed out, or `None` if it is settled.
    fn handed_out(&self, delivery: jetstream::Delivery) -> io::Result<Option<Delivery>> {
        let count = u32::try_from(delivery.attempt()).unwrap_or(u32::MAX);
        let (id, sequence) = (id_of_job(delivery.subject()).to_owned(), delivery.sequence());
        let attempt = self.records.attempt(&id, sequence, count);
        let mut begun = 0;
        if count > 1 {
            match attempt.before() {
                Ok(Some(before)) => begun = before,
                // Its holder could not remove it.
                Ok(None) => return delivery.ack().map(|()| None).map_err(failed),
                Err(error) if Cancelled::find(&error).is_some() => {
                    let _ = delivery.retry(None);
                    return Err(error);
                }
                // The servers do not say how often it has begun.
                Err(_) => return delivery.retry(Some(LATER)).map(|()| None).map_err(failed),
            }
        }
        Ok(Some(Delivery {
            id,
            payload: delivery.payload().clone(),
            sequence,
            delivery: count,
            begun,
            received: delivery.received_at(),
            lease: Box::new(NatsLease { delivery, attempt, jobs: Arc::clone(&self.jobs) }),
        }))
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
        loop {
            match self.deliveries.recv() {
                Ok(delivery) => match self.handed_out(delivery)? {
                    None => {}
                    job => return Ok(job),
                },
                Err(RecvError::Disconnected) => return self.end().map(|()| None),
                Err(cancelled) => return Err(cancelled.into()),
            }
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
