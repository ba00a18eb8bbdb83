//! A queue: see [the module](super) for what it consists of.

use std::any::Any;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ecru::Cancelled;
use ecru_nats::Subscription;
use ecru_nats::jetstream::{Consumer, ConsumerInfo, JetStream};

use super::attempts::Records;
use super::failure::{begun, failed, no_item, repeated};
use super::lease::Stream;
use super::names::{Names, SETTINGS};
use super::open::{self, Opened};
use super::pull::NatsPull;
use super::workers::Workers;
use super::{Attendant, apply, changes, dead, progress, rate, schedules, send, settings};
use crate::engine::{
    Announced, Announcements, BoxSource, Changes, Counts, Dead, EngineQueue, PRIORITIES, Pull,
    QueueSpec, Sending, Terms, priorities,
};
use crate::progress::Progress;

/// How long an announcement may wait until there is room to send it.
const TELLING: Duration = Duration::from_secs(1);

pub(super) struct NatsQueue {
    js: JetStream,
    names: Names,
    workers: Workers,
    records: Arc<Records>,
    rate: rate::Place,
    attendant: Attendant,
}

impl NatsQueue {
    pub(super) fn open(
        js: &JetStream,
        attendant: &Attendant,
        name: &str,
        settings: &Changes,
    ) -> io::Result<NatsQueue> {
        let names = Names::new(name);
        let Opened { mut found, is_new, is_torn } = open::queue(js, &names, settings)?;
        if let Some(rate) = settings.rate.flatten().filter(|_| is_new) {
            rate::create(js, &names, rate)?;
        }
        if is_torn || !found.is_in_force() {
            // A process has ended while it changed settings, or still does it.
            match settings::settle(js, &names) {
                Ok(settled) => found = settled,
                Err(error) if Cancelled::find(&error).is_some() => return Err(error),
                // Not all jobs would be handed out.
                Err(error) if is_torn => return Err(error),
                // The queue serves with the settings that the parts have.
                Err(_) => {}
            }
        }
        let workers = Workers::new(js, &names, &found)?;
        workers.provide_permits()?;
        let records = Arc::new(Records::new(js, &names, workers.lease()));
        let js = js.clone();
        let (rate, attendant) = (rate::Place::default(), Arc::clone(attendant));
        Ok(NatsQueue { js, names, workers, records, rate, attendant })
    }

    /// Returns whether there are jobs below what the consumers have settled.
    fn has_ghosts(&self, first: u64, workers: &[ConsumerInfo]) -> io::Result<bool> {
        let settled = |info: &ConsumerInfo| info.ack_floor.stream;
        if let [only] = workers {
            return Ok(first <= settled(only));
        }
        for (priority, info) in priorities().zip(workers) {
            let all = self.names.all_jobs(priority);
            let first = self.js.next_message(&self.names.jobs, 1, &all).map_err(failed)?;
            if first.is_some_and(|job| job.sequence <= settled(info)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl EngineQueue for NatsQueue {
    fn begin_send(
        &self,
        id: &str,
        payload: Bytes,
        sending: Option<&str>,
        terms: &Terms,
    ) -> io::Result<BoxSource> {
        let is_ranked = self.workers.has_priorities();
        send::begin(&self.js, &self.names, id, payload, sending, terms, is_ranked)
    }

    fn send_all(&self, jobs: &[(String, Bytes)], terms: &Terms) -> io::Result<Sending> {
        send::all(&self.js, &self.names, jobs, terms)
    }

    fn pull(&self, window: usize) -> io::Result<Box<dyn Pull>> {
        // A worker that begins while the server is away must not end for that reason.
        begun(|| {
            let first = self.js.stream_info(&self.names.jobs).map_err(failed)?.state.first_seq;
            self.records.journal.sweep(first)?;
            let (name, attendant) = (self.names.jobs.clone(), Arc::clone(&self.attendant));
            let jobs = Stream { js: self.js.clone(), name, attendant };
            let workers = self.workers.clone();
            Ok(Box::new(NatsPull::begin(workers, window, jobs, &self.records)?) as Box<dyn Pull>)
        })
    }

    fn start(&self) -> io::Result<Option<Duration>> {
        self.rate.take(&self.js, &self.names)
    }

    fn spec(&self) -> io::Result<QueueSpec> {
        self.workers.spec()
    }

    fn update(&self, changes: &Changes) -> io::Result<()> {
        let before = self.workers.spec()?;
        let changed = settings::change(&self.js, &self.names, changes)?;
        if let Some(rate) = changes.rate {
            rate::set(&self.js, &self.names, rate)?;
        }
        let found = self.workers.spec()?;
        let (mut old, mut new) = changed.unwrap_or_else(|| (found.clone(), found.clone()));
        (old.rate, new.rate) = (before.rate, changes.rate.unwrap_or(before.rate));
        changes::note(&self.js, &self.names, self.records.journal.name(), &old, &new);
        apply::announce(&self.js, &self.names, found.lease)
    }

    fn schedule(&self, name: &str) -> io::Result<Option<(u64, Bytes)>> {
        schedules::read(&self.js, &self.names, name)
    }

    fn replace_schedule(&self, name: &str, last: u64, schedule: Bytes) -> io::Result<bool> {
        schedules::replace(&self.js, &self.names, name, last, schedule)
    }

    fn announcements(&self) -> io::Result<Box<dyn Announcements>> {
        let client = self.js.client();
        let heard = client.subscribe(&self.names.cancellations()).map_err(failed)?;
        // From then on the server sends them. What was published before is of no interest here.
        repeated(|| client.flush())?;
        Ok(Box::new(NatsAnnouncements(heard)))
    }

    fn show_waiting(&self) -> Option<Box<dyn Any + Send>> {
        let listens = self.js.client().subscribe(&self.names.waiting()).ok()?;
        Some(Box::new(listens))
    }

    fn cancel(&self, id: &str) -> io::Result<bool> {
        let found = self.workers.priorities().find_map(|priority| {
            let subject = self.names.job(id, priority);
            self.js.last_message(&self.names.jobs, &subject).transpose()
        });
        let Some(job) = found.transpose().map_err(failed)? else { return Ok(false) };
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
        let pause = |workers: &Consumer| match d {
            Duration::ZERO => workers.resume(),
            d => workers.pause(d),
        };
        self.workers.with_each(pause).map(drop)
    }

    fn progress(&self) -> io::Result<Vec<(String, Progress)>> {
        progress::all(&self.js, &self.names)
    }

    fn counts(&self) -> io::Result<Counts> {
        let state = |stream| self.js.stream_info(stream).map(|info| info.state).map_err(failed);
        let floors = self.workers.with_each(Consumer::info)?;
        let stored = state(&self.names.jobs)?;
        let workers = self.workers.with_each(Consumer::info)?;
        let dead = state(&self.names.dead)?;
        let sum = |number: fn(&ConsumerInfo) -> u64| workers.iter().map(number).sum::<u64>();
        let running = sum(|info| info.num_ack_pending);
        // A server whose disk was full may have lost that a job was removed, and not that it was
        // settled. It is handed out no more, and keeps its id.
        let more = stored.messages.saturating_sub(sum(|info| info.num_pending) + running);
        let ghosts = match more > 0 && self.has_ghosts(stored.first_seq, &floors)? {
            true => more,
            false => 0,
        };
        // A consumer learns of a message some time after its sender.
        let queued = stored.messages.saturating_sub(running + ghosts);
        let [mut queued_by_priority, mut running_by_priority] = [[0; PRIORITIES]; 2];
        for (priority, info) in workers.iter().enumerate() {
            queued_by_priority[priority] = info.num_pending;
            running_by_priority[priority] = info.num_ack_pending;
        }
        queued_by_priority[0] = queued.saturating_sub(queued_by_priority[1..].iter().sum());
        Ok(Counts {
            queued,
            running,
            redelivered: sum(|info| info.num_redelivered),
            ghosts,
            dead: dead.messages,
            last_dead: dead.last_seq,
            queued_by_priority,
            running_by_priority,
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
