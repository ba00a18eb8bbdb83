//! A queue: see [the module](super) for what it consists of.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ecru_nats::Subscription;
use ecru_nats::jetstream::{Consumer, JetStream};

use super::attempts::Records;
use super::failure::{failed, no_item};
use super::lease::Stream;
use super::names::Names;
use super::pull::NatsPull;
use super::{dead, open, send};
use crate::engine::{Announcements, BoxSource, Counts, Dead, EngineQueue, Pull, QueueSpec};

/// How long an announcement may wait until there is room to send it.
const TELLING: Duration = Duration::from_secs(1);

pub(super) struct NatsQueue {
    js: JetStream,
    names: Names,
    workers: Consumer,
    records: Arc<Records>,
}

impl NatsQueue {
    pub(super) fn open(js: &JetStream, spec: &QueueSpec) -> io::Result<NatsQueue> {
        let names = Names::new(&spec.name);
        let workers = open::queue(js, &names, spec)?;
        let records = Arc::new(Records::new(js, &names, spec.lease));
        Ok(NatsQueue { js: js.clone(), names, workers, records })
    }
}

impl EngineQueue for NatsQueue {
    fn begin_send(&self, id: &str, payload: Bytes, sending: Option<&str>) -> io::Result<BoxSource> {
        send::begin(&self.js, &self.names, id, payload, sending)
    }

    fn pull(&self, window: usize) -> io::Result<Box<dyn Pull>> {
        let deliveries = self.workers.messages(window).map_err(failed)?;
        let jobs = Stream { js: self.js.clone(), name: self.names.jobs.clone() };
        Ok(Box::new(NatsPull::new(deliveries, jobs, &self.records)))
    }

    fn announcements(&self) -> io::Result<Box<dyn Announcements>> {
        let client = self.js.client();
        let heard = client.subscribe(&self.names.cancellations()).map_err(failed)?;
        // From now on the server sends them.
        client.flush().map_err(failed)?;
        Ok(Box::new(NatsAnnouncements(heard)))
    }

    fn cancel(&self, id: &str) -> io::Result<bool> {
        let subject = self.names.job(id);
        let found = self.js.last_message(&self.names.jobs, &subject).map_err(failed)?;
        let Some(job) = found else { return Ok(false) };
        // From now on its holder cannot settle it.
        if !self.records.cancel(id, job.sequence)? {
            return Ok(false);
        }
        if !dead::removed(self.js.delete_message(&self.names.jobs, job.sequence))? {
            return Ok(false);
        }
        // The job is removed, so its holder is told even if this task has been cancelled meanwhile.
        let text = format!("{id} {}", job.sequence);
        let tell = || self.js.client().publish(&self.names.cancellations(), text);
        let _ = ecru::shield_for(TELLING, tell);
        Ok(true)
    }

    fn pause(&self, d: Duration) -> io::Result<()> {
        let done = if d.is_zero() { self.workers.resume() } else { self.workers.pause(d) };
        done.map_err(failed)
    }

    fn counts(&self) -> io::Result<Counts> {
        let state = |stream| self.js.stream_info(stream).map(|info| info.state).map_err(failed);
        let stored = state(&self.names.jobs)?.messages;
        let workers = self.workers.info().map_err(failed)?;
        let dead = state(&self.names.dead)?;
        Ok(Counts {
            // The consumer learns of a message some time after its sender.
            queued: stored.saturating_sub(workers.num_ack_pending),
            running: workers.num_ack_pending,
            redelivered: workers.num_redelivered,
            dead: dead.messages,
            last_dead: dead.last_seq,
        })
    }

    fn bury(&self, entry: &Dead) -> io::Result<()> {
        dead::bury(&self.js, &self.names, entry)
    }

    fn dead(&self, from: u64) -> io::Result<Option<(u64, Dead)>> {
        dead::first(&self.js, &self.names, from)
    }

    fn discard(&self, dead: u64) -> io::Result<bool> {
        dead::discard(&self.js, &self.names, dead)
    }
}

struct NatsAnnouncements(Subscription);

impl Announcements for NatsAnnouncements {
    fn next(&self) -> io::Result<(String, Option<u64>)> {
        loop {
            let heard = self.0.recv().map_err(no_item)?;
            // Another program may publish anything here.
            let Ok(text) = str::from_utf8(heard.payload()) else { continue };
            let mut words = text.split(' ');
            let Some(id) = words.next().filter(|id| !id.is_empty()) else { continue };
            return Ok((id.to_owned(), words.next().and_then(|number| number.parse().ok())));
        }
    }
}
