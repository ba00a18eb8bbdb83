//! Takes jobs.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ecru::Cancelled;
use ecru::channel::RecvError;
use ecru_nats::ErrorKind;
use ecru_nats::jetstream::{self, Deliveries};

use super::attempts::Records;
use super::failure::{NO_CONSUMER, failed, repeated};
use super::lease::{NatsLease, Stream};
use super::names::{AFTER, all_of_key, id_of_job};
use super::queue::Workers;
use crate::engine::{Delivery, Pull};
use crate::errors::disconnected;
use crate::wall::wall;

/// The pause before a job is handed out again whose attempts are not known.
const LATER: Duration = Duration::from_secs(5);

/// The pause for each job before one that is behind others of its key, and the longest pause.
const BEHIND: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

pub(super) struct NatsPull {
    workers: Workers,
    window: usize,
    /// Replaced when the consumer is created again.
    deliveries: Mutex<Arc<Deliveries>>,
    jobs: Arc<Stream>,
    records: Arc<Records>,
    stopped: AtomicBool,
}

impl NatsPull {
    pub(super) fn new(
        workers: Workers,
        window: usize,
        deliveries: Deliveries,
        jobs: Stream,
        records: &Arc<Records>,
    ) -> NatsPull {
        NatsPull {
            workers,
            window,
            deliveries: Mutex::new(Arc::new(deliveries)),
            jobs: Arc::new(jobs),
            records: Arc::clone(records),
            stopped: AtomicBool::new(false),
        }
    }

    fn deliveries(&self) -> Arc<Deliveries> {
        Arc::clone(&self.deliveries.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Goes on after the consumer was deleted, or returns why no more jobs come.
    fn go_on(&self, ended: &Deliveries) -> io::Result<bool> {
        let is_deleted = ended.ended_by().is_some_and(|error| {
            error.code() == Some(NO_CONSUMER)
                || error.description().is_some_and(|words| words.contains("Consumer Deleted"))
        });
        if !is_deleted || self.stopped.load(Ordering::Acquire) {
            return self.end(ended).map(|()| false);
        }
        self.workers.create()?;
        let next = repeated(|| self.workers.consumer().messages(self.window))?;
        *self.deliveries.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(next);
        if self.stopped.load(Ordering::Acquire) {
            self.deliveries().stop();
        }
        Ok(true)
    }

    /// Returns a job that was handed out, or `None` if it is settled or comes too early.
    fn handed_out(&self, delivery: jetstream::Delivery) -> io::Result<Option<Delivery>> {
        if let Some(early) = early(&delivery) {
            return delivery.retry(Some(early)).map(|()| None).map_err(failed);
        }
        match self.behind(&delivery) {
            Ok(None) => {}
            Ok(Some(pause)) => return delivery.retry(Some(pause)).map(|()| None).map_err(failed),
            Err(error) if Cancelled::find(&error).is_some() => {
                let _ = delivery.retry(None);
                return Err(error);
            }
            // The servers do not say.
            Err(_) => return delivery.retry(Some(LATER)).map(|()| None).map_err(failed),
        }
        let count = u32::try_from(delivery.attempt()).unwrap_or(u32::MAX);
        let (id, sequence) = (id_of_job(delivery.subject()), delivery.sequence());
        let received = delivery.received_at();
        let attempt = self.records.attempt(&id, sequence, count, received);
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
            received,
            requested: delivery.requested_at(),
            lease: Box::new(NatsLease {
                delivery,
                attempt,
                jobs: Arc::clone(&self.jobs),
                is_unanswered: AtomicBool::new(false),
            }),
        }))
    }

    /// Returns when to look again, if a job is behind another one of its key. The jobs before it
    /// are at most as many as the numbers between them.
    fn behind(&self, delivery: &jetstream::Delivery) -> io::Result<Option<Duration>> {
        let Some(all) = all_of_key(delivery.subject()) else { return Ok(None) };
        let first = repeated(|| self.jobs.js.next_message(&self.jobs.name, 1, &all))?;
        let before = first.map_or(0, |first| delivery.sequence().saturating_sub(first.sequence));
        let (pause, longest) = BEHIND;
        let pause = pause.saturating_mul(u32::try_from(before).unwrap_or(u32::MAX)).min(longest);
        Ok((before > 0).then_some(pause))
    }

    /// Returns why no more jobs come.
    fn end(&self, ended: &Deliveries) -> io::Result<()> {
        match ended.ended_by() {
            Some(error) if error.kind() == ErrorKind::Closed => Err(disconnected()),
            Some(error) => Err(io::Error::other(error.to_string())),
            None if self.stopped.load(Ordering::Acquire) => Ok(()),
            None => Err(disconnected()),
        }
    }
}

/// Returns for how long a job must not be handed out yet.
fn early(delivery: &jetstream::Delivery) -> Option<Duration> {
    let after = delivery.headers().get(AFTER)?.parse().ok().map(Duration::from_millis)?;
    let due = delivery.stored_at().saturating_add(after);
    Some(due.saturating_sub(wall())).filter(|early| !early.is_zero())
}

impl Pull for NatsPull {
    fn next(&self) -> io::Result<Option<Delivery>> {
        loop {
            let deliveries = self.deliveries();
            match deliveries.recv() {
                Ok(delivery) => match self.handed_out(delivery)? {
                    None => {}
                    job => return Ok(job),
                },
                Err(RecvError::Disconnected) => {
                    if !self.go_on(&deliveries)? {
                        return Ok(None);
                    }
                }
                Err(cancelled) => return Err(cancelled.into()),
            }
        }
    }

    fn stop(&self) {
        self.stopped.store(true, Ordering::Release);
        self.deliveries().stop();
    }
}

impl Drop for NatsPull {
    fn drop(&mut self) {
        self.stop();
        // What arrives from now on is given back by the client.
        let deliveries = self.deliveries();
        deliveries.close();
        while let Ok(delivery) = deliveries.try_recv() {
            let _ = delivery.retry(None);
        }
    }
}
