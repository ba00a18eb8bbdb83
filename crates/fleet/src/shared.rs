//! What all handles of a queue share: the engine's queue, and the settings that are in force, as
//! far as they are known in this process.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::core::Core;
use crate::engine::{self, Changes, EngineQueue, QueueSpec};
use crate::errors::invalid;
use crate::id::JobId;
use crate::progress;
use crate::settings::{self, LONGEST_PAUSE, Settings};
use crate::stats::Stats;
use crate::update;
use crate::waiting::Waiting;

/// What all handles of a queue share.
pub(crate) struct Shared {
    pub(crate) core: Arc<Core>,
    pub(crate) what: &'static str,
    pub(crate) name: String,
    pub(crate) settings: Settings,
    /// What is in force in the whole fleet, as far as it is known here.
    spec: Mutex<QueueSpec>,
    pub(crate) waiting: Waiting,
    /// A job of another release has come.
    other_release: AtomicBool,
    /// There is a rate, as far as it is known here.
    rated: AtomicBool,
    /// Jobs may have priorities, as far as it is known here.
    ranked: AtomicBool,
    engine: Box<dyn EngineQueue>,
    /// Is told which jobs go to the dead, before they do.
    failed: Option<Failed>,
}

/// Is called with a job that goes to the dead. An error lets the job be handed out again.
pub(crate) type Failed = Box<dyn Fn(&engine::Dead) -> io::Result<()> + Send + Sync>;

impl Shared {
    pub(crate) fn open(
        core: &Arc<Core>,
        (what, prefix): (&'static str, &str),
        name: &str,
        settings: Settings,
        failed: Option<Failed>,
    ) -> io::Result<Arc<Shared>> {
        settings.check(what, name)?;
        // The prefix keeps queues and functions apart.
        let engine = core.engine()?.queue(&format!("{prefix}{name}"), &settings.shared)?;
        let spec = engine.spec()?;
        let rated = AtomicBool::new(spec.rate.is_some());
        let ranked = AtomicBool::new(spec.priorities);
        let spec = Mutex::new(spec);
        let (core, name) = (Arc::clone(core), name.to_owned());
        let (waiting, other_release) = (Waiting::default(), AtomicBool::new(false));
        let shared = Shared {
            core,
            what,
            name,
            settings,
            spec,
            waiting,
            other_release,
            rated,
            ranked,
            engine,
            failed,
        };
        let wanted = &shared.settings.shared;
        if wanted.apply(&shared.spec()) != shared.spec() {
            shared.update(wanted)?;
        }
        let shared = Arc::new(shared);
        shared.core.opened.add(&shared);
        Ok(shared)
    }

    fn spec(&self) -> QueueSpec {
        self.spec.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the id of a job that is about to be sent with a key.
    pub(crate) fn keyed(&self, key: &str) -> io::Result<JobId> {
        if self.spec().per_key { JobId::in_order(key) } else { JobId::keyed(key) }
    }

    /// Returns the lease that is in force, as far as it is known here.
    pub(crate) fn lease(&self) -> Duration {
        self.spec().lease
    }

    /// Returns whether jobs are handed out at a rate, as far as it is known here.
    pub(crate) fn is_rated(&self) -> bool {
        self.rated.load(Ordering::Relaxed)
    }

    /// Returns whether jobs may have priorities, as far as it is known here.
    pub(crate) fn has_priorities(&self) -> bool {
        self.ranked.load(Ordering::Relaxed)
    }

    /// Returns a pause before a retry that does not let a queue with a limit stall.
    pub(crate) fn pause(&self, d: Duration) -> Duration {
        let QueueSpec { lease, limit, .. } = self.spec();
        d.min(limit.map_or(LONGEST_PAUSE, |_| lease))
    }

    /// Returns the pause after an attempt that has failed.
    pub(crate) fn pause_after(&self, attempt: u32) -> Duration {
        self.pause(self.settings.pause(attempt, self.lease()))
    }

    /// Returns how many jobs there are.
    pub(crate) fn stats(&self) -> io::Result<Stats> {
        let counts = self.engine()?.counts()?;
        let progress = self.engine()?.progress()?;
        Ok(Stats {
            reporting: u64::try_from(progress.len()).unwrap_or(u64::MAX),
            percent: progress::average(progress.iter().map(|(_, progress)| progress)),
            queued: counts.queued,
            running: counts.running,
            redelivered: counts.redelivered,
            ghosts: counts.ghosts,
            dead: counts.dead,
            queued_by_priority: counts.queued_by_priority,
            running_by_priority: counts.running_by_priority,
            waiting_for_room: self.waiting.count(),
        })
    }

    /// Fails if a job cannot wait for so long before it is handed out.
    pub(crate) fn check_pause(&self, after: Duration) -> io::Result<()> {
        let QueueSpec { lease, limit, .. } = self.spec();
        if limit.is_none() || after <= lease {
            return Ok(());
        }
        let text = format!(
            "{} {:?} has a limit, and a job that waits for {after:?} would take a place for longer \
             than the lease of {lease:?}; remove the limit, or send the job later",
            self.what, self.name
        );
        Err(invalid(text))
    }

    /// Changes the settings of the whole fleet.
    pub(crate) fn update(&self, changes: &Changes) -> io::Result<()> {
        settings::check(self.what, &self.name, changes)?;
        self.look()?;
        let after = changes.apply(&self.spec());
        if let Some(why) = settings::conflict(&after) {
            return Err(invalid(format!("{} {:?}: {why}", self.what, self.name)));
        }
        let engine = self.engine()?;
        engine.update(changes)?;
        self.learn(engine.spec()?, "this process has changed it");
        Ok(())
    }

    /// Looks which settings are in force. Returns the lease.
    pub(crate) fn look(&self) -> io::Result<Duration> {
        let spec = self.engine()?.spec()?;
        let lease = spec.lease;
        self.learn(
            spec,
            "another process has changed it; open the queue with the same settings \
                          everywhere, because the last one decides",
        );
        Ok(lease)
    }

    fn learn(&self, spec: QueueSpec, how: &str) {
        let mut known = self.spec.lock().unwrap_or_else(PoisonError::into_inner);
        let found = update::differences(&known, &spec);
        self.rated.store(spec.rate.is_some(), Ordering::Relaxed);
        self.ranked.store(spec.priorities, Ordering::Relaxed);
        *known = spec;
        drop(known);
        for difference in found {
            self.core.warn(&format!("{} {:?}: {difference}; {how}", self.what, self.name));
        }
    }

    /// Tells once that a job cannot be read because another release has sent it.
    pub(crate) fn warn_of_other_release(&self, why: &io::Error) {
        if !self.other_release.swap(true, Ordering::Relaxed) {
            self.core.warn(&format!("{why}; it is handed out again later"));
        }
    }

    /// Returns the engine's queue, unless the fleet has ended.
    pub(crate) fn engine(&self) -> io::Result<&dyn EngineQueue> {
        self.core.check().map(|()| &*self.engine)
    }

    /// Stores a job among the dead.
    pub(crate) fn bury(&self, dead: &engine::Dead) -> io::Result<()> {
        if let Some(failed) = &self.failed {
            failed(dead)?;
        }
        self.engine()?.bury(dead)
    }
}
