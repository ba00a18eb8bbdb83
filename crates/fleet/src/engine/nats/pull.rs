//! Takes jobs.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ecru::channel::RecvError;
use ecru::{Cancelled, select};
use ecru_nats::ErrorKind;
use ecru_nats::jetstream::{self, Deliveries};

use super::attempts::Records;
use super::failure::{NO_CONSUMER, failed, repeated};
use super::lease::{NatsLease, Stream};
use super::names::{AFTER, TRACE, all_of_key, id_of_job, priority_of_job};
use super::ranked::{Ranked, Room};
use super::workers::Workers;
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
    arrivals: Arrivals,
    /// Of a queue without priorities. Replaced when the consumer is created again.
    plain: Mutex<Option<Arc<Deliveries>>>,
    /// Of a queue with priorities, which it may have got since.
    ranked: OnceLock<Ranked>,
    stopped: AtomicBool,
}

/// Makes jobs of messages.
pub(super) struct Arrivals {
    pub(super) jobs: Arc<Stream>,
    pub(super) records: Arc<Records>,
}

impl NatsPull {
    pub(super) fn begin(
        workers: Workers,
        window: usize,
        jobs: Stream,
        records: &Arc<Records>,
    ) -> io::Result<NatsPull> {
        let arrivals = Arrivals { jobs: Arc::new(jobs), records: Arc::clone(records) };
        let (plain, ranked) = (Mutex::default(), OnceLock::new());
        if workers.has_priorities() {
            let _ = ranked.set(Ranked::begin(&workers, window)?);
        }
        let stopped = AtomicBool::new(false);
        let pull = NatsPull { workers, window, arrivals, plain, ranked, stopped };
        if pull.ranked.get().is_none() {
            let deliveries = pull.workers.with(0, |workers| workers.messages(window))?;
            *pull.plain() = Some(Arc::new(deliveries));
        }
        Ok(pull)
    }

    fn plain(&self) -> std::sync::MutexGuard<'_, Option<Arc<Deliveries>>> {
        self.plain.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn deliveries(&self) -> Option<Arc<Deliveries>> {
        self.plain().clone()
    }

    /// Goes on after the consumer was deleted, or the queue has got priorities. Otherwise returns
    /// why no more jobs come.
    fn go_on(&self, ended: &Deliveries) -> io::Result<bool> {
        let is_stopped = || self.stopped.load(Ordering::Acquire);
        if ended.ended_by().is_none() && self.workers.has_priorities() && !is_stopped() {
            // What has come before has been handed out.
            let _ = self.ranked.set(Ranked::begin(&self.workers, self.window)?);
            if is_stopped() {
                self.stop();
            }
            return Ok(true);
        }
        if !is_deleted(ended) || is_stopped() {
            return self.end(ended).map(|()| false);
        }
        self.workers.create()?;
        let next = repeated(|| self.workers.consumer(0).messages(self.window))?;
        *self.plain() = Some(Arc::new(next));
        if is_stopped() {
            self.stop();
        }
        Ok(true)
    }

    /// Returns why no more jobs come.
    fn end(&self, ended: &Deliveries) -> io::Result<()> {
        match why_ended(ended) {
            Some(error) => Err(error),
            None if self.stopped.load(Ordering::Acquire) => Ok(()),
            None => Err(disconnected()),
        }
    }
}

/// Returns whether no more messages come because the consumer was deleted.
pub(super) fn is_deleted(ended: &Deliveries) -> bool {
    ended.ended_by().is_some_and(|error| {
        error.code() == Some(NO_CONSUMER)
            || error.description().is_some_and(|words| words.contains("Consumer Deleted"))
    })
}

/// Returns why no more messages come, if it is an error.
pub(super) fn why_ended(ended: &Deliveries) -> Option<io::Error> {
    ended.ended_by().map(|error| match error.kind() {
        ErrorKind::Closed => disconnected(),
        _ => io::Error::other(error.to_string()),
    })
}

impl Arrivals {
    /// Returns a job that was handed out, or `None` if it is settled or comes too early.
    pub(super) fn handed_out(
        &self,
        delivery: jetstream::Delivery,
        room: Option<Room>,
    ) -> io::Result<Option<Delivery>> {
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
            priority: priority_of_job(delivery.subject()),
            trace: delivery.headers().get(TRACE).map(str::to_owned),
            begun,
            received,
            requested: delivery.requested_at(),
            lease: Box::new(NatsLease {
                delivery,
                attempt,
                jobs: Arc::clone(&self.jobs),
                is_unanswered: AtomicBool::new(false),
                room,
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
}

/// Returns for how long a job must not be handed out yet.
fn early(delivery: &jetstream::Delivery) -> Option<Duration> {
    let after = delivery.headers().get(AFTER)?.parse().ok().map(Duration::from_millis)?;
    let due = delivery.stored_at().saturating_add(after);
    Some(due.saturating_sub(wall())).filter(|early| !early.is_zero())
}

impl Pull for NatsPull {
    fn next(&self) -> io::Result<Option<Delivery>> {
        let mut is_changing = false;
        loop {
            if let Some(ranked) = self.ranked.get() {
                return ranked.next(&self.arrivals);
            }
            let Some(deliveries) = self.deliveries() else { return Ok(None) };
            let arrived = match is_changing {
                true => deliveries.recv(),
                false => {
                    let (messages, ranked) = (deliveries.receiver(), self.workers.get_priorities());
                    select! {
                        recv(messages) -> message => message,
                        wait(&ranked) -> result => {
                            result?;
                            // The channel ends when what was asked for has come.
                            deliveries.stop();
                            is_changing = true;
                            continue;
                        },
                    }
                }
            };
            match arrived {
                Ok(delivery) => match self.arrivals.handed_out(delivery, None)? {
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
        if let Some(deliveries) = self.deliveries() {
            deliveries.stop();
        }
        if let Some(ranked) = self.ranked.get() {
            ranked.stop();
        }
    }
}

impl Drop for NatsPull {
    fn drop(&mut self) {
        self.stop();
        if let Some(deliveries) = self.deliveries() {
            give_back(&deliveries);
        }
    }
}

/// Gives back what has come. What arrives from now on is given back by the client.
pub(super) fn give_back(deliveries: &Deliveries) {
    deliveries.close();
    while let Ok(delivery) = deliveries.try_recv() {
        let _ = delivery.retry(None);
    }
}
