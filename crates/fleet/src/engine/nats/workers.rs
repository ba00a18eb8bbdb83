//! The consumers that hand out the jobs of a queue.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ecru::source::WaitList;
use ecru::{Cancelled, Source};
use ecru_nats::Error;
use ecru_nats::jetstream::{Consumer, ConsumerConfig, JetStream, StreamConfig};

use super::failure::{NO_CONSUMER, failed, is_overlap};
use super::names::{self, Names};
use super::settings::{self, Found, Mark};
use super::{open, permits, rate};
use crate::engine::{QueueSpec, priorities};

/// The consumers of a queue: one, or one for each priority. If another program has deleted one, it
/// is created again with the settings that were in force when this program looked last.
#[derive(Clone)]
pub(super) struct Workers(Arc<Parts>);

struct Parts {
    js: JetStream,
    names: Names,
    consumers: Vec<Consumer>,
    spec: Mutex<QueueSpec>,
    /// The marks of the two parts that have the settings, as they were seen last.
    marks: Mutex<Marks>,
    /// Grows when the settings have changed.
    version: AtomicU64,
    list: WaitList,
}

/// The marks of the stream of the jobs and of the consumer: see [`settings`](super::settings).
#[derive(Clone, Default, PartialEq, Eq)]
struct Marks {
    jobs: Mark,
    workers: Mark,
    /// The latest one of all that were seen.
    latest: Mark,
}

impl Marks {
    /// Returns whether a part was stored from an earlier record than the other one, or than before.
    fn are_torn(&self) -> bool {
        self.jobs != self.workers || self.jobs.is_behind(&self.latest)
    }
}

/// Ready when the settings have changed, or when jobs may have priorities.
pub(super) struct Changed<'a> {
    parts: &'a Parts,
    /// `None` to wait for priorities.
    seen: Option<u64>,
}

impl Source for Changed<'_> {
    type Item = ();

    fn try_take(&self) -> Option<()> {
        let is_changed = match self.seen {
            Some(seen) => self.parts.version.load(Ordering::Acquire) != seen,
            None => self.parts.spec().priorities,
        };
        is_changed.then_some(())
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(&self.parts.list);
    }
}

impl Parts {
    fn spec(&self) -> MutexGuard<'_, QueueSpec> {
        locked(&self.spec)
    }
}

impl Workers {
    /// Returns the consumers of a queue that was opened.
    pub(super) fn new(js: &JetStream, names: &Names, found: &Found) -> io::Result<Workers> {
        let consumer = |priority| js.consumer(&names.jobs, &names::workers(priority));
        let consumers = priorities().map(consumer).collect::<Result<_, _>>().map_err(failed)?;
        let workers = Workers(Arc::new(Parts {
            js: js.clone(),
            names: names.clone(),
            consumers,
            spec: Mutex::default(),
            marks: Mutex::default(),
            version: AtomicU64::new(0),
            list: WaitList::new(),
        }));
        locked(&workers.0.marks).latest = found.record.mark.clone();
        if let Some(config) = &found.workers {
            workers.note(&found.jobs, config)?;
        }
        Ok(workers)
    }

    /// Returns the consumer of a priority.
    pub(super) fn consumer(&self, priority: u8) -> Consumer {
        self.0.consumers[usize::from(priority)].clone()
    }

    /// Returns the consumer that lends the places of the limit.
    pub(super) fn permits(&self) -> io::Result<Consumer> {
        permits::consumer(&self.0.js, &self.0.names)
    }

    /// Makes the places of the limit.
    pub(super) fn provide_permits(&self) -> io::Result<()> {
        let Parts { js, names, .. } = &*self.0;
        let spec = self.0.spec().clone();
        permits::provide(js, names, &spec)
    }

    /// Returns the priorities that jobs have.
    pub(super) fn priorities(&self) -> impl Iterator<Item = u8> + use<> {
        open::priorities_of(&self.0.spec())
    }

    pub(super) fn has_priorities(&self) -> bool {
        self.0.spec().priorities
    }

    pub(super) fn is_limited(&self) -> bool {
        self.0.spec().limit.is_some()
    }

    pub(super) fn lease(&self) -> Duration {
        self.0.spec().lease
    }

    /// Returns what is ready when jobs may have priorities.
    pub(super) fn get_priorities(&self) -> Changed<'_> {
        Changed { parts: &self.0, seen: None }
    }

    /// Returns what is ready when other settings are known.
    pub(super) fn changed(&self) -> Changed<'_> {
        Changed { parts: &self.0, seen: Some(self.0.version.load(Ordering::Acquire)) }
    }

    /// Creates the consumers that are not there.
    pub(super) fn create(&self) -> io::Result<()> {
        let Parts { js, names, .. } = &*self.0;
        let spec = self.0.spec().clone();
        let mark = locked(&self.0.marks).workers.clone();
        match open::consumers(js, names, &spec, &mark) {
            // Other settings are in force by now, or are torn.
            Err(error) if is_overlap(&error) => drop(settings::settle(js, names)?),
            created => created.map_err(failed)?,
        }
        permits::provide(js, names, &spec)
    }

    /// Calls `f` with the consumer of a priority. If it is not there, creates it and calls `f`
    /// again.
    pub(super) fn with<T>(
        &self,
        priority: u8,
        mut f: impl FnMut(&Consumer) -> Result<T, Error>,
    ) -> io::Result<T> {
        let consumer = self.consumer(priority);
        match f(&consumer) {
            Err(error) if error.code() == Some(NO_CONSUMER) => {
                self.create()?;
                f(&consumer).map_err(failed)
            }
            result => result.map_err(failed),
        }
    }

    /// Calls `f` with each consumer.
    pub(super) fn with_each<T>(
        &self,
        mut f: impl FnMut(&Consumer) -> Result<T, Error>,
    ) -> io::Result<Vec<T>> {
        self.priorities().map(|priority| self.with(priority, &mut f)).collect()
    }

    /// Returns the settings that are in force, and notes them.
    ///
    /// If the two parts that have them were stored from different records, or from one that is not
    /// the latest, and were so when this was called before, the process that was about to store
    /// them has perhaps ended. Then this one does it, if it may.
    pub(super) fn spec(&self) -> io::Result<QueueSpec> {
        let Parts { js, names, marks, .. } = &*self.0;
        let before = locked(marks).clone();
        let found = self.read()?;
        let after = locked(marks).clone();
        if !after.are_torn() || after != before {
            return Ok(found);
        }
        match settings::mend(js, names) {
            Err(error) if Cancelled::find(&error).is_some() => Err(error),
            Err(_) => Ok(found),
            Ok(mended) => {
                locked(marks).latest = mended.record.mark;
                self.read()
            }
        }
    }

    fn read(&self) -> io::Result<QueueSpec> {
        let Parts { js, names, .. } = &*self.0;
        let workers = self.with(0, Consumer::info)?.config;
        let jobs = js.stream_info(&names.jobs).map_err(failed)?.config;
        self.note(&jobs, &workers)
    }

    /// Notes the settings that are in force.
    fn note(&self, jobs: &StreamConfig, workers: &ConsumerConfig) -> io::Result<QueueSpec> {
        let Parts { js, names, version, list, marks, .. } = &*self.0;
        let rate = rate::current(js, names)?;
        let found = QueueSpec { rate, ..open::in_force(names, jobs, Some(workers)) };
        let (jobs, workers) = (Mark::of_stream(jobs), Mark::of_consumer(workers));
        let mut marks = locked(marks);
        for mark in [&jobs, &workers] {
            if marks.latest.is_before(mark) {
                marks.latest = mark.clone();
            }
        }
        (marks.jobs, marks.workers) = (jobs, workers);
        drop(marks);
        let old = std::mem::replace(&mut *self.0.spec(), found.clone());
        if old != found {
            version.fetch_add(1, Ordering::AcqRel);
            list.notify_all();
        }
        Ok(found)
    }
}

/// Locks state that no panic leaves half-changed.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
