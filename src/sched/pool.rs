//! The workers of a runtime as a whole, and which of them watches for work.
//!
//! A spawned task goes into its spawner's queue. The worker that takes it out decides where it
//! starts: see `placing`. A worker that computes does not come to its queue, so an idle worker
//! steals from it. Moving work between cores costs far more than a short task. So a thief takes
//! only tasks that have waited for a while, which shows that the owner is busy.
//!
//! At most one idle worker *watches*. It naps for `WATCH_FIRST`, then twice as long, up to
//! `WATCH_LAST`. After each nap it steals tasks that were queued before the nap and still are. It
//! takes `STEAL_FIRST` tasks at first. The theft has paid if these tasks ran for long enough, and
//! the owner ran few others in that time. The watcher then takes twice as many the next time, and
//! otherwise naps longer. If the stolen tasks wait, it takes at most as many as the owner keeps.
//!
//! An owner that takes no task out of its queue for `LEFT_LYING` may be blocked by foreign code.
//! The watcher then takes tasks that wait without this limit. If the owner has not spawned in that
//! time either, the watcher takes all of its tasks. It also takes all tasks of an inbox that the
//! owner did not empty during a nap.
//!
//! After `WATCH_NAPS` naps without a spawn it sets `watch_wanted` and sleeps for good. The next
//! spawn wakes a worker to watch again: one system call for many spawns. No fence orders the flag
//! and the queues, because every spawn would pay for it. Instead the watcher takes one more nap
//! after it has set the flag, by which time a spawn that missed the flag is visible.

#![expect(unsafe_code, reason = "holds a pointer for the layers above")]

use std::io;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::blocking::BlockingPool;
use super::placement::{IdleSet, Placement, Sites};
use super::quiescence::Quiescence;
use super::shared::WorkerShared;
use crate::base::record::Rings;
use crate::base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::base::{clock, simulated};
use crate::coroutine::StackPool;
use crate::driver::{self, DriverChoice, DriverKind};

/// The most workers of a pool. More make no sense on today's machines.
pub(crate) const WORKERS_MAX: usize = 1024;

/// The settings of a runtime.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) workers: usize,
    pub(crate) stack_size: usize,
    pub(crate) driver: DriverKind,
    pub(crate) name: String,
    pub(crate) placement: Placement,
    /// For the layers above: Ctrl-C ends the run in order.
    pub(crate) cancel_on_ctrl_c: bool,
    /// For the layers above: a request to terminate ends the run in order.
    pub(crate) cancel_on_terminate: bool,
    /// Called when all workers are quiescent, by one of them, outside of any task.
    pub(crate) on_deadlock: Option<fn(&Arc<Pool>)>,
    /// For the layers above: this signal makes a dump.
    pub(crate) dump_on_signal: Option<i32>,
    /// The tasks note themselves as holders of locks, for dumps: see `park::explains`.
    pub(crate) explains: bool,
    /// For the layers above: after this time a worker that has not switched is reported.
    pub(crate) watchdog: Option<Duration>,
    /// The bytes of each worker's ring of events. `None` if nothing is recorded.
    pub(crate) record: Option<usize>,
    /// For the layers above: the file for the page of a run that panics.
    pub(crate) record_on_panic: Option<PathBuf>,
    /// For the layers above: the file for the page that the watchdog writes.
    pub(crate) record_on_alarm: Option<PathBuf>,
    /// For the layers above: the watchdog prints a dump.
    pub(crate) dump_on_alarm: bool,
    /// Called once when all workers have been quiescent for this long, by one of them, outside of
    /// any task. Only without `on_deadlock`.
    pub(crate) on_quiet: Option<(Duration, fn())>,
}

impl Settings {
    /// Returns whether these settings make dumps, or show in another way what tasks wait for.
    pub(crate) fn shows_waits(&self) -> bool {
        self.dump_on_signal.is_some() || self.watchdog.is_some() || self.record.is_some()
    }
}

/// What is known of the run's progress, for the layers above.
#[derive(Debug)]
pub(crate) enum Deadlock {
    Runs,
    /// All workers are quiescent, and one of them examines the tasks.
    Looks,
    /// The run was stuck and has been cancelled. Holds what its tasks waited for.
    Cancelled(String),
}

/// Since when all workers have been quiescent.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    /// When they were first found quiescent, and the value of `stirred` then.
    pub(super) since: Option<(Instant, u64)>,
    /// `on_quiet` has been called.
    pub(super) said: bool,
}

/// What metrics remember, for the layers above, so that their totals never decrease.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// The tasks that were spawned to answer questions, and are not the program's.
    pub(crate) hidden: AtomicU64,
    /// Those of them that have not ended.
    pub(crate) hidden_left: AtomicU64,
    /// The largest numbers that have been returned.
    pub(crate) ended: AtomicU64,
    pub(crate) spawned: AtomicU64,
}

/// The workers of one runtime and what they share. See the module.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) settings: Settings,
    pub(super) workers: Vec<&'static WorkerShared>,
    pub(super) stacks: StackPool,
    pub(crate) blocking: BlockingPool,
    /// The last events of each worker, if they are recorded.
    pub(crate) recorder: Option<Arc<Rings>>,
    pub(crate) counts: Counts,
    /// The scope of the current run, for the layers above. Null if there is none.
    pub(crate) run: Mutex<*const ()>,
    /// Whether the run is stuck, for the layers above.
    pub(crate) deadlock: Mutex<Deadlock>,
    pub(super) quiescence: Quiescence,
    /// Since when nothing has happened.
    pub(super) quiet: Mutex<Quiet>,
    /// How often a quiescent worker has found something to do.
    pub(super) stirred: AtomicU64,
    /// Set when all idle workers sleep for good: the next spawn wakes one.
    watch_wanted: AtomicBool,
    /// 1 while a worker watches.
    watching: AtomicU32,
    /// The workers that sleep or nap.
    pub(super) idle: IdleSet,
    pub(super) sites: Sites,
    /// The cores that the process had when the pool was made.
    cores: usize,
    /// When the pool was made.
    pub(super) epoch: Instant,
    pub(super) stopping: AtomicBool,
    next: AtomicUsize,
    pub(super) threads: Mutex<Vec<JoinHandle<()>>>,
    /// The driver that all workers use, once one of them has needed it.
    choice: OnceLock<DriverChoice>,
}

impl Pool {
    pub(crate) fn new(settings: Settings) -> io::Result<Arc<Pool>> {
        crate::task::describe_overflows();
        let stacks = stacks_for(&settings)?;
        let count = settings.workers;
        let rings = settings.record.map(|bytes| Rings::new(count, bytes).map(Arc::new));
        let recorder = rings.transpose()?;
        let workers = (0..count).map(|_| WorkerShared::obtain()).collect();
        Ok(Arc::new(Pool {
            blocking: BlockingPool::new(&settings.name),
            counts: Counts::default(),
            recorder,
            workers,
            stacks,
            settings,
            run: Mutex::new(std::ptr::null()),
            deadlock: Mutex::new(Deadlock::Runs),
            quiescence: Quiescence::new(),
            quiet: Mutex::new(Quiet::default()),
            stirred: AtomicU64::new(0),
            watch_wanted: AtomicBool::new(false),
            watching: AtomicU32::new(0),
            idle: IdleSet::new(count),
            sites: Sites::new(),
            cores: cores_for(count),
            epoch: clock::now(),
            stopping: AtomicBool::new(false),
            next: AtomicUsize::new(0),
            threads: Mutex::new(Vec::new()),
            choice: OnceLock::new(),
        }))
    }

    /// Returns which driver the workers use. The first call decides. An error decides nothing.
    pub(crate) fn driver(&self) -> io::Result<&DriverChoice> {
        if let Some(choice) = self.choice.get() {
            return Ok(choice);
        }
        // Two concurrent calls decide alike, or the first decision holds.
        let choice = driver::choose(self.settings.driver)?;
        Ok(self.choice.get_or_init(|| choice))
    }

    /// Returns whether workers choose where tasks start.
    pub(super) fn places(&self) -> bool {
        self.workers.len() > 1 && self.settings.placement == Placement::Auto
    }

    /// Returns whether more workers are awake than there are cores, or there is only one core. Then a
    /// worker that spins may keep another, or the thread that it waits for, from running.
    ///
    /// A worker that was woken counts, although it may not have a core yet. It is still in `idle`
    /// then, so `idle` does not tell.
    pub(super) fn is_crowded(&self) -> bool {
        if self.cores == 1 {
            return true;
        }
        let mut awake = self.workers.iter().filter(|worker| !worker.is_asleep());
        self.workers.len() > self.cores && awake.nth(self.cores).is_some()
    }

    /// Returns the next worker in turn, for a task from outside, and for every task with
    /// [`Placement::Spread`].
    pub(super) fn next_worker(&self) -> &'static WorkerShared {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        self.workers[turn % self.workers.len()]
    }

    /// Wakes a watcher if one is wanted. Called after a task was queued.
    #[inline]
    pub(super) fn note_spawn(&self) {
        if self.watch_wanted.load(Ordering::Relaxed) {
            self.wake_watcher();
        }
    }

    #[cold]
    pub(super) fn wake_watcher(&self) {
        if self.watch_wanted.swap(false, Ordering::SeqCst) {
            self.wake_sleeper();
        }
    }

    /// Wakes a sleeping worker, to watch. If none sleeps, no wake-up is needed: a worker that falls
    /// asleep finds the flag clear, sets it, and looks around once more.
    #[cold]
    pub(super) fn wake_sleeper(&self) {
        if let Some(worker) = self.workers.iter().find(|worker| worker.is_asleep()) {
            worker.wake();
        }
    }

    /// Makes this worker the watching one, unless there is one.
    pub(super) fn start_watch(&self) -> bool {
        self.workers.len() > 1
            && self.watching.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Keeps thieves away for a moment: this worker watches, or is the only one.
    pub(super) fn start_watch_or_alone(&self) -> bool {
        self.workers.len() == 1 || self.start_watch()
    }

    /// Stops watching. If this worker is `busy`, the next spawn wakes another one, if one sleeps.
    /// If it is about to sleep, the flag stays as it is: it has been set for the length of a nap.
    pub(super) fn end_watch(&self, busy: bool) {
        // SeqCst: a worker that falls asleep meanwhile sees that none watches, or is seen to sleep.
        self.watching.store(0, Ordering::SeqCst);
        if busy {
            self.want_watch(self.workers.iter().any(|worker| worker.is_asleep()));
        }
    }

    pub(super) fn want_watch(&self, wanted: bool) {
        if self.watch_wanted.load(Ordering::Relaxed) != wanted {
            self.watch_wanted.store(wanted, Ordering::SeqCst);
        }
    }

    pub(super) fn is_watched(&self) -> bool {
        self.workers.len() == 1 || self.watching.load(Ordering::SeqCst) != 0
    }

    pub(super) fn is_watch_wanted(&self) -> bool {
        self.watch_wanted.load(Ordering::SeqCst)
    }
}

// SAFETY: S5: the pointer in `run` is used only under its lock, while the scope that it names
// exists.
unsafe impl Send for Pool {}
// SAFETY: S5: the pointer in `run` is used only under its lock, while the scope that it names
// exists.
unsafe impl Sync for Pool {}

/// Returns the pool of the stacks. Simulations are short and many, so all of a process share one.
fn stacks_for(settings: &Settings) -> io::Result<StackPool> {
    #[cfg(feature = "sim")]
    if simulated::is_simulated() {
        return StackPool::of_process(settings.stack_size);
    }
    StackPool::new(settings.stack_size)
}

/// Returns the cores of the process, for a pool with this many workers. With one worker, it matters
/// only whether there are several. Quotas do not matter then, and the files that the machine has
/// about them take longer to read than a short run.
fn cores_for(workers: usize) -> usize {
    match workers {
        #[cfg(not(miri))]
        1 => rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count() as usize),
        _ => simulated::aside(thread::available_parallelism).map_or(1, NonZero::get),
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        for worker in &self.workers {
            worker.retire();
        }
    }
}
