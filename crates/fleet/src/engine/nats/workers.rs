//! The consumers that hand out the jobs of a queue.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ecru::Source;
use ecru::source::WaitList;
use ecru_nats::Error;
use ecru_nats::jetstream::{Consumer, JetStream};

use super::failure::{NO_CONSUMER, failed};
use super::names::{self, Names};
use super::{open, permits};
use crate::engine::{Changes, QueueSpec, priorities};

/// The consumers of a queue: one, or one for each priority. If another program has deleted one, it
/// is created again with the settings that were in force when this program looked last.
#[derive(Clone)]
pub(super) struct Workers(Arc<Parts>);

struct Parts {
    js: JetStream,
    names: Names,
    consumers: Vec<Consumer>,
    spec: Mutex<QueueSpec>,
    /// Grows when the settings have changed.
    version: AtomicU64,
    list: WaitList,
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
        self.spec.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Workers {
    /// Returns the consumers of a queue that was opened.
    pub(super) fn new(js: &JetStream, names: &Names) -> io::Result<Workers> {
        let consumer = |priority| js.consumer(&names.jobs, &names::workers(priority));
        let consumers = priorities().map(consumer).collect::<Result<_, _>>().map_err(failed)?;
        let workers = Workers(Arc::new(Parts {
            js: js.clone(),
            names: names.clone(),
            consumers,
            spec: Mutex::default(),
            version: AtomicU64::new(0),
            list: WaitList::new(),
        }));
        workers.spec()?;
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

    /// Changes for how long the places of the limit are lent.
    pub(super) fn update_permits(&self, changes: &Changes) -> io::Result<()> {
        let Parts { js, names, .. } = &*self.0;
        let spec = self.0.spec().clone();
        if spec.limit.is_none() || !spec.priorities || changes.lease.is_none() {
            return Ok(());
        }
        let consumer = self.permits()?;
        let mut config = consumer.info().map_err(failed)?.config;
        config.ack_wait = changes.lease;
        js.update_consumer(&names.attempts, &config).map(drop).map_err(failed)
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
        open::consumers(js, names, &spec)?;
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
    pub(super) fn spec(&self) -> io::Result<QueueSpec> {
        let Parts { js, names, version, list, .. } = &*self.0;
        let workers = self.with(0, Consumer::info)?.config;
        let found = open::spec(js, names, &workers)?;
        let old = std::mem::replace(&mut *self.0.spec(), found.clone());
        if old != found {
            version.fetch_add(1, Ordering::AcqRel);
            list.notify_all();
        }
        Ok(found)
    }
}
