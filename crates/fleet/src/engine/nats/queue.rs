//! A queue: see [the module](super) for what it consists of.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use ecru_nats::jetstream::{Consumer, JetStream};
use ecru_nats::{Error, Subscription};

use super::attempts::Records;
use super::failure::{NO_CONSUMER, failed, no_item};
use super::lease::Stream;
use super::names::Names;
use super::pull::NatsPull;
use super::{Attendant, dead, open, progress, rate, send};
use crate::engine::{
    Announced, Announcements, BoxSource, Changes, Counts, Dead, EngineQueue, Pull, QueueSpec,
    Sending,
};
use crate::progress::Progress;

/// How long an announcement may wait until there is room to send it.
const TELLING: Duration = Duration::from_secs(1);

/// What is announced instead of an id if the settings change. No id has this character.
const SETTINGS: &str = "*";

/// How long those that take jobs have, at most, to renew their leases before these become shorter.
const NOTICE: Duration = Duration::from_millis(250);

pub(super) struct NatsQueue {
    js: JetStream,
    names: Names,
    workers: Workers,
    records: Arc<Records>,
    rate: rate::Place,
    attendant: Attendant,
}

/// The consumer that hands out the jobs of a queue. If another program has deleted it, it is
/// created again with the settings that were in force when this program looked last.
#[derive(Clone)]
pub(super) struct Workers(Arc<Parts>);

struct Parts {
    js: JetStream,
    names: Names,
    consumer: Consumer,
    spec: Mutex<QueueSpec>,
}

impl Workers {
    pub(super) fn consumer(&self) -> &Consumer {
        &self.0.consumer
    }

    /// Creates the consumer again.
    pub(super) fn create(&self) -> io::Result<()> {
        let spec = self.0.spec.lock().unwrap_or_else(PoisonError::into_inner).clone();
        open::consumer(&self.0.js, &self.0.names, &spec).map(drop)
    }

    /// Calls `f`. If the consumer is not there, creates it and calls `f` again.
    fn with<T>(&self, mut f: impl FnMut(&Consumer) -> Result<T, Error>) -> io::Result<T> {
        match f(self.consumer()) {
            Err(error) if error.code() == Some(NO_CONSUMER) => {
                self.create()?;
                f(self.consumer()).map_err(failed)
            }
            result => result.map_err(failed),
        }
    }

    /// Returns the settings that are in force, and notes them.
    fn spec(&self) -> io::Result<QueueSpec> {
        let Parts { js, names, spec, .. } = &*self.0;
        let workers = self.with(Consumer::info)?.config;
        let found = open::spec(js, names, &workers)?;
        spec.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&found);
        Ok(found)
    }
}

impl NatsQueue {
    pub(super) fn open(
        js: &JetStream,
        attendant: &Attendant,
        name: &str,
        settings: &Changes,
    ) -> io::Result<NatsQueue> {
        let names = Names::new(name);
        let rate = settings.rate.flatten().filter(|_| open::is_new(js, &names));
        let consumer = open::queue(js, &names, settings)?;
        if let Some(rate) = rate {
            rate::create(js, &names, rate)?;
        }
        let spec = open::spec(js, &names, &consumer.info().map_err(failed)?.config)?;
        let records = Arc::new(Records::new(js, &names, spec.lease));
        let (js, own, spec) = (js.clone(), names.clone(), Mutex::new(spec));
        let workers = Workers(Arc::new(Parts { js: js.clone(), names: own, consumer, spec }));
        let (rate, attendant) = (rate::Place::default(), Arc::clone(attendant));
        Ok(NatsQueue { js, names, workers, records, rate, attendant })
    }

    fn announce_lease(&self, lease: Duration) -> io::Result<()> {
        let text = format!("{SETTINGS} {}", lease.as_nanos());
        self.js.client().publish(&self.names.cancellations(), text).map_err(failed)
    }
}

impl EngineQueue for NatsQueue {
    fn begin_send(
        &self,
        id: &str,
        payload: Bytes,
        sending: Option<&str>,
        after: Duration,
    ) -> io::Result<BoxSource> {
        send::begin(&self.js, &self.names, id, payload, sending, after)
    }

    fn send_all(&self, jobs: &[(String, Bytes)]) -> io::Result<Sending> {
        send::all(&self.js, &self.names, jobs)
    }

    fn pull(&self, window: usize) -> io::Result<Box<dyn Pull>> {
        let deliveries = self.workers.with(|workers| workers.messages(window))?;
        let first = self.js.stream_info(&self.names.jobs).map_err(failed)?.state.first_seq;
        self.records.journal.sweep(first)?;
        let (name, attendant) = (self.names.jobs.clone(), Arc::clone(&self.attendant));
        let jobs = Stream { js: self.js.clone(), name, attendant };
        let workers = self.workers.clone();
        Ok(Box::new(NatsPull::new(workers, window, deliveries, jobs, &self.records)))
    }

    fn start(&self) -> io::Result<Option<Duration>> {
        self.rate.take(&self.js, &self.names)
    }

    fn spec(&self) -> io::Result<QueueSpec> {
        self.workers.spec()
    }

    fn update(&self, changes: &Changes) -> io::Result<()> {
        let before = self.workers.spec()?;
        let after = changes.apply(&before);
        // What may be refused comes first.
        open::update_streams(&self.js, &self.names, changes)?;
        if let Some(rate) = changes.rate {
            rate::set(&self.js, &self.names, rate)?;
        }
        if after.lease < before.lease {
            // The server measures the leases that are held by the new one, too.
            self.announce_lease(after.lease)?;
            ecru::sleep(NOTICE.min(after.lease / 3))?;
        }
        self.workers
            .with(|workers| open::update_consumer(&self.js, &self.names, workers, changes))?;
        self.workers.spec()?;
        self.announce_lease(after.lease)
    }

    fn announcements(&self) -> io::Result<Box<dyn Announcements>> {
        let client = self.js.client();
        let heard = client.subscribe(&self.names.cancellations()).map_err(failed)?;
        // From now on the server sends them. What was published before is of no interest here.
        client.flush().or_else(|_| client.flush()).map_err(failed)?;
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
        self.workers.with(|workers| match d {
            Duration::ZERO => workers.resume(),
            d => workers.pause(d),
        })
    }

    fn progress(&self) -> io::Result<Vec<(String, Progress)>> {
        progress::all(&self.js, &self.names)
    }

    fn counts(&self) -> io::Result<Counts> {
        let state = |stream| self.js.stream_info(stream).map(|info| info.state).map_err(failed);
        let settled = self.workers.with(Consumer::info)?.ack_floor.stream;
        let stored = state(&self.names.jobs)?;
        let workers = self.workers.with(Consumer::info)?;
        let dead = state(&self.names.dead)?;
        // A server whose disk was full may have lost that a job was removed, and not that it was
        // settled. It is handed out no more, and keeps its id.
        let ghosts = match stored.first_seq <= settled {
            true => stored.messages.saturating_sub(workers.num_pending + workers.num_ack_pending),
            false => 0,
        };
        Ok(Counts {
            // The consumer learns of a message some time after its sender.
            queued: stored.messages.saturating_sub(workers.num_ack_pending + ghosts),
            running: workers.num_ack_pending,
            redelivered: workers.num_redelivered,
            ghosts,
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
    fn next(&self) -> io::Result<Announced> {
        loop {
            let heard = self.0.recv().map_err(no_item)?;
            // Another program may publish anything here.
            let Ok(text) = str::from_utf8(heard.payload()) else { continue };
            let mut words = text.split(' ');
            let Some(id) = words.next().filter(|id| !id.is_empty()) else { continue };
            let number = words.next().and_then(|number| number.parse().ok());
            if id != SETTINGS {
                return Ok(Announced::Cancelled(id.to_owned(), number));
            }
            if let Some(lease) = number.filter(|number| *number > 0) {
                return Ok(Announced::Lease(Duration::from_nanos(lease)));
            }
        }
    }
}
