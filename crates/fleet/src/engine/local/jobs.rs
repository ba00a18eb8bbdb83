//! The jobs of a queue: which one is handed out next.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::engine::{Counts, MOST_REPORTS, PRIORITIES, Picker, QueueSpec, Terms, key_of};
use crate::errors::LeaseLost;
use crate::progress::Progress;

/// The jobs of a queue.
#[derive(Default)]
pub(super) struct Jobs {
    by_number: BTreeMap<u64, Stored>,
    by_id: BTreeMap<String, u64>,
    /// The jobs of each key whose jobs are in order. Only the first one is handed out.
    by_key: BTreeMap<String, BTreeSet<u64>>,
    /// Jobs that can be handed out at once, by their priorities.
    ready: [BTreeSet<u64>; PRIORITIES],
    picker: Picker,
    /// When leases and pauses end.
    due: BTreeSet<(Instant, u64)>,
    /// Jobs that are held or in a pause.
    busy: usize,
    last: u64,
    paused_until: Option<Instant>,
}

struct Stored {
    id: String,
    payload: Bytes,
    /// How often it was handed out.
    deliveries: u32,
    /// How often the work on it has begun, and which delivery has begun last.
    begun: u32,
    begun_by: u32,
    state: Place,
    progress: Option<Progress>,
    priority: u8,
    trace: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Ready,
    /// Held, until then.
    Held(Instant),
    /// In a pause before a retry, or before it is due, until then.
    Pausing(Instant),
    /// Behind another one of its key.
    Behind,
}

/// Whether a job was stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Added {
    New,
    Already,
    Full,
}

/// A job that is handed out.
pub(super) struct Taken {
    pub(super) id: String,
    pub(super) payload: Bytes,
    pub(super) number: u64,
    pub(super) delivery: u32,
    pub(super) begun: u32,
    pub(super) priority: u8,
    pub(super) trace: Option<String>,
}

impl Jobs {
    /// Stores a job, which is ready at once or when it is due.
    pub(super) fn add(
        &mut self,
        spec: &QueueSpec,
        id: &str,
        payload: Bytes,
        terms: &Terms,
    ) -> Added {
        if self.by_id.contains_key(id) {
            return Added::Already;
        }
        let count = u64::try_from(self.by_number.len()).unwrap_or(u64::MAX);
        if spec.capacity.is_some_and(|capacity| count >= capacity) {
            return Added::Full;
        }
        self.last += 1;
        let id = id.to_owned();
        self.by_id.insert(id.clone(), self.last);
        self.ready[usize::from(terms.priority)].insert(self.last);
        let (deliveries, begun, begun_by, state, progress) = (0, 0, 0, Place::Ready, None);
        let (id_too, priority, trace) = (id.clone(), terms.priority, terms.trace.clone());
        let stored = Stored {
            id: id_too,
            payload,
            deliveries,
            begun,
            begun_by,
            state,
            progress,
            priority,
            trace,
        };
        self.by_number.insert(self.last, stored);
        let due = ecru::time::now().checked_add(terms.after);
        if let Some(due) = due.filter(|_| !terms.after.is_zero()) {
            self.place(self.last, Place::Pausing(due));
        }
        if let Some((key, _)) = key_of(&id) {
            let jobs = self.by_key.entry(key.to_owned()).or_default();
            jobs.insert(self.last);
            if jobs.len() > 1 {
                self.place(self.last, Place::Behind);
            }
        }
        Added::New
    }

    /// Stores jobs that are ready at once, all of them or none.
    pub(super) fn add_all(
        &mut self,
        spec: &QueueSpec,
        jobs: &[(String, Bytes)],
        terms: &Terms,
    ) -> Added {
        if jobs.iter().any(|(id, _)| self.by_id.contains_key(id)) {
            return Added::Already;
        }
        let count = u64::try_from(self.by_number.len() + jobs.len()).unwrap_or(u64::MAX);
        if spec.capacity.is_some_and(|capacity| count > capacity) {
            return Added::Full;
        }
        for (id, payload) in jobs {
            self.add(spec, id, payload.clone(), terms);
        }
        Added::New
    }

    /// Hands out a job, if there is one. Otherwise returns when to look again, if time alone can
    /// change that.
    pub(super) fn take(
        &mut self,
        spec: &QueueSpec,
        now: Instant,
    ) -> Result<Taken, Option<Instant>> {
        self.advance(now);
        let next_due = self.due.first().map(|(when, _)| *when);
        if let Some(until) = self.paused_until {
            return Err(Some(until));
        }
        let is_limited = spec.limit.is_some_and(|limit| self.busy >= limit);
        let has_jobs = |priority: u8| !self.ready[usize::from(priority)].is_empty();
        let Some(priority) = self.picker.pick(has_jobs).filter(|_| !is_limited) else {
            return Err(next_due);
        };
        self.picker.took(priority);
        let number = *self.ready[usize::from(priority)].first().expect("it has a job");
        self.place(number, Place::Held(now + spec.lease));
        let job = self.by_number.get_mut(&number).expect("it is ready");
        job.deliveries += 1;
        job.progress = None;
        let (id, payload, trace) = (job.id.clone(), job.payload.clone(), job.trace.clone());
        let (delivery, begun) = (job.deliveries, job.begun);
        Ok(Taken { id, payload, number, delivery, begun, priority, trace })
    }

    /// Ends the leases and pauses that are over.
    fn advance(&mut self, now: Instant) {
        self.paused_until = self.paused_until.filter(|until| *until > now);
        while let Some(&(when, number)) = self.due.first().filter(|(when, _)| *when <= now) {
            debug_assert!(when <= now);
            self.place(number, Place::Ready);
        }
    }

    fn place(&mut self, number: u64, place: Place) {
        let Some(job) = self.by_number.get_mut(&number) else { return };
        let old = std::mem::replace(&mut job.state, place);
        let priority = usize::from(job.priority);
        self.leave(number, priority, old);
        match place {
            Place::Ready => drop(self.ready[priority].insert(number)),
            Place::Held(until) | Place::Pausing(until) => {
                self.due.insert((until, number));
                self.busy += 1;
            }
            Place::Behind => {}
        }
    }

    fn leave(&mut self, number: u64, priority: usize, place: Place) {
        match place {
            Place::Ready => drop(self.ready[priority].remove(&number)),
            Place::Held(until) | Place::Pausing(until) => {
                self.due.remove(&(until, number));
                self.busy -= 1;
            }
            Place::Behind => {}
        }
    }

    /// Returns whether this delivery has the lease.
    fn is_held(&self, number: u64, delivery: u32, now: Instant) -> bool {
        self.by_number.get(&number).is_some_and(|job| {
            job.deliveries == delivery && matches!(job.state, Place::Held(until) if until > now)
        })
    }

    /// Notes that the work on a job begins, and returns how often it has. The holder may be late,
    /// if no other one has begun.
    pub(super) fn begin(&mut self, number: u64, delivery: u32) -> Result<u32, LeaseLost> {
        let job = self.by_number.get_mut(&number).ok_or(LeaseLost::Cancelled)?;
        if job.begun_by > delivery {
            return Err(LeaseLost::Expired);
        }
        if job.begun_by == delivery {
            return Ok(job.begun);
        }
        (job.begun, job.begun_by) = (job.begun + 1, delivery);
        Ok(job.begun)
    }

    /// Removes a job for the holder that has begun last. Returns whether this is the one.
    pub(super) fn claim(&mut self, number: u64, delivery: u32) -> bool {
        let is_last = self.by_number.get(&number).is_some_and(|job| job.begun_by == delivery);
        if is_last {
            self.remove(number);
        }
        is_last
    }

    /// Renews a lease. Returns `false` if it has ended. The lease of a job that was cancelled has
    /// not: its holder hears of the cancellation, and must not take it for the end of the lease.
    pub(super) fn renew(
        &mut self,
        number: u64,
        delivery: u32,
        now: Instant,
        until: Instant,
    ) -> bool {
        let is_held = self.is_held(number, delivery, now);
        if is_held {
            self.place(number, Place::Held(until));
        }
        is_held || !self.by_number.contains_key(&number)
    }

    /// Returns a job to the queue after a pause. Returns whether its lease was in force.
    pub(super) fn retry(&mut self, number: u64, delivery: u32, now: Instant, d: Duration) -> bool {
        let is_held = self.is_held(number, delivery, now);
        if is_held {
            let place = match now.checked_add(d) {
                Some(until) if until > now => Place::Pausing(until),
                _ => Place::Ready,
            };
            self.place(number, place);
        }
        is_held
    }

    /// Removes a job by its id. Returns its number if it was there.
    pub(super) fn cancel(&mut self, id: &str) -> Option<u64> {
        let number = *self.by_id.get(id)?;
        self.remove(number);
        Some(number)
    }

    fn remove(&mut self, number: u64) {
        if let Some(job) = self.by_number.remove(&number) {
            self.by_id.remove(&job.id);
            self.leave(number, usize::from(job.priority), job.state);
            if let Some((key, _)) = key_of(&job.id) {
                self.follow(key, number);
            }
        }
    }

    /// A job of a key is gone, so the next one may be handed out.
    fn follow(&mut self, key: &str, gone: u64) {
        let Some(jobs) = self.by_key.get_mut(key) else { return };
        jobs.remove(&gone);
        match jobs.first() {
            Some(&next) if self.by_number[&next].state == Place::Behind => {
                self.place(next, Place::Ready);
            }
            Some(_) => {}
            None => drop(self.by_key.remove(key)),
        }
    }

    /// Notes how far a job is, or forgets that, if this delivery is the last one.
    pub(super) fn report(&mut self, number: u64, delivery: u32, progress: Option<&Progress>) {
        if let Some(job) = self.by_number.get_mut(&number).filter(|job| job.deliveries == delivery)
        {
            job.progress = progress.cloned();
        }
    }

    /// Returns what was reported of jobs, by their ids.
    pub(super) fn progress(&self) -> Vec<(String, Progress)> {
        let reports =
            self.by_number.values().filter_map(|job| Some((job.id.clone(), job.progress.clone()?)));
        reports.take(MOST_REPORTS).collect()
    }

    pub(super) fn pause(&mut self, until: Option<Instant>) {
        self.paused_until = until;
    }

    pub(super) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for job in self.by_number.values() {
            let priority = usize::from(job.priority);
            match job.deliveries {
                0 => {
                    counts.queued += 1;
                    counts.queued_by_priority[priority] += 1;
                }
                deliveries => {
                    counts.running += 1;
                    counts.running_by_priority[priority] += 1;
                    counts.redelivered += u64::from(deliveries > 1);
                }
            }
        }
        counts
    }
}
