//! The workers of one runtime, as a whole: who they are, who watches for work while others have it, and their threads.
//!
//! # Stealing
//! A spawned task goes into its spawner's queue. The worker that takes it out decides where it starts, see [`super::placement`].
//! A worker that computes does not come to its queue. So an idle worker steals from it. To move work between cores costs far more
//! than to run a short task, so it takes only what has waited for a while, which shows that the owner is busy.
//!
//! At most one idle worker *watches*. It sleeps for [`WATCH_FIRST`], then twice as long, up to [`WATCH_LAST`]. After each nap it
//! takes some of what was in a queue before the nap and still is: one task at first, and twice as many each time that the last
//! ones kept it busy long enough to be worth the trip. Tasks that did not make it nap longer, and it then takes no more tasks than
//! the owner keeps, until the owner has not come to its queue for some milliseconds. It also takes all of an inbox of placed tasks
//! that has not been emptied during a nap. When nothing was spawned for [`WATCH_PATIENCE`] naps it sleeps for good,
//! after setting `watch_wanted`, and the next spawn wakes one to watch again. That is one system call for many spawns. No fence
//! orders the flag and the queues, because it would cost every spawn. The watcher takes one more nap after it has set the flag,
//! by which time a spawn that missed the flag is visible.

#![expect(unsafe_code, reason = "holds a pointer for the layers above")]

use std::io;
use std::num::NonZero;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::placement::{IdleSet, Placement, Sites};
use super::rest::Rest;
use super::shared::WorkerShared;
use super::unblock::BlockingPool;
use super::worker::Worker;
use crate::base::clock;
use crate::base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::coroutine::StackPool;
use crate::driver::{self, Choice, DriverKind};

/// The first nap of a worker that watches.
pub(super) const WATCH_FIRST: Duration = Duration::from_micros(20);
/// The longest.
pub(super) const WATCH_LAST: Duration = Duration::from_millis(1);
/// The longest when what it took was not worth it.
pub(super) const WATCH_LAST_UNWORTHY: Duration = Duration::from_millis(10);
/// Naps without any spawn before it gives up.
pub(super) const WATCH_PATIENCE: u32 = 8;
/// More workers than this make no sense on any machine there is.
pub(crate) const WORKERS_MAX: usize = 1024;

/// What a runtime was built with.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) workers: usize,
    pub(crate) stack_size: usize,
    pub(crate) driver: DriverKind,
    pub(crate) name: String,
    pub(crate) placement: Placement,
    /// For the layers above: the run ends in order at a Ctrl-C.
    pub(crate) cancel_on_ctrl_c: bool,
    /// The same at a request to terminate.
    pub(crate) cancel_on_terminate: bool,
    /// Called when all workers have come to rest, by one of them, outside of any task.
    pub(crate) on_deadlock: Option<fn(&Arc<Pool>)>,
    /// Called once when all workers have been at rest for so long, by one of them, outside of any task. Only without `on_deadlock`.
    pub(crate) on_quiet: Option<(Duration, fn())>,
}

/// What is known of the run, for the layers above.
#[derive(Debug)]
pub(crate) enum Deadlock {
    Runs,
    /// All workers have come to rest: somebody is looking at the tasks.
    Looks,
    /// It was stuck, and has been cancelled; with what its tasks waited for.
    Cancelled(String),
}

/// Since when all workers have been at rest.
#[derive(Debug, Default)]
pub(super) struct Quiet {
    /// When they were first found so, and the count in `stirred` then.
    pub(super) since: Option<(Instant, u64)>,
    /// `on_quiet` has been called.
    pub(super) said: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) settings: Settings,
    pub(super) workers: Vec<&'static WorkerShared>,
    pub(super) stacks: StackPool,
    pub(crate) blocking: BlockingPool,
    /// The scope of the run that is going on, for the layers above; null: none.
    pub(crate) run: Mutex<*const ()>,
    /// Whether the run is stuck, for the layers above.
    pub(crate) deadlock: Mutex<Deadlock>,
    pub(super) rest: Rest,
    /// How long nothing has happened.
    pub(super) quiet: Mutex<Quiet>,
    /// How often a worker at rest has found something to do.
    pub(super) stirred: AtomicU64,
    /// All idle workers sleep for good: the next spawn should wake one.
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
    threads: Mutex<Vec<JoinHandle<()>>>,
    /// Which driver all its workers use, once one has needed it.
    choice: OnceLock<Choice>,
}

impl Pool {
    pub(crate) fn new(settings: Settings) -> io::Result<Arc<Pool>> {
        crate::task::describe_overflows();
        let stacks = StackPool::new(settings.stack_size)?;
        let count = settings.workers;
        let workers = (0..count).map(|_| WorkerShared::obtain()).collect();
        Ok(Arc::new(Pool {
            blocking: BlockingPool::new(&settings.name),
            workers,
            stacks,
            settings,
            run: Mutex::new(std::ptr::null()),
            deadlock: Mutex::new(Deadlock::Runs),
            rest: Rest::new(),
            quiet: Mutex::new(Quiet::default()),
            stirred: AtomicU64::new(0),
            watch_wanted: AtomicBool::new(false),
            watching: AtomicU32::new(0),
            idle: IdleSet::new(count),
            sites: Sites::new(),
            cores: thread::available_parallelism().map_or(1, NonZero::get),
            epoch: clock::now(),
            stopping: AtomicBool::new(false),
            next: AtomicUsize::new(0),
            threads: Mutex::new(Vec::new()),
            choice: OnceLock::new(),
        }))
    }

    /// Which driver the workers use. Decided at the first call; an error decides nothing.
    pub(crate) fn driver(&self) -> io::Result<&Choice> {
        if let Some(choice) = self.choice.get() {
            return Ok(choice);
        }
        // Two at once come to the same decision, or the first one's holds.
        let choice = driver::choose(self.settings.driver)?;
        Ok(self.choice.get_or_init(|| choice))
    }

    /// Starts the threads of all workers but the first, which is whoever calls `run`. Once.
    pub(crate) fn start_threads(self: &Arc<Pool>) -> io::Result<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        for index in threads.len() + 1..self.workers.len() {
            let pool = Arc::clone(self);
            let name = format!("{}-{index}", self.settings.name);
            let thread = thread::Builder::new()
                .name(name)
                .spawn(move || Worker::serve(pool, index))
                .map_err(|error| {
                    io::Error::new(
                        error.kind(),
                        format!("could not start the thread of worker {index}: {error}"),
                    )
                })?;
            threads.push(thread);
        }
        Ok(())
    }

    /// Ends the threads. No run is going on.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        for worker in &self.workers {
            worker.wake();
        }
        for thread in self.threads.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
            // A worker's own code does not panic; tasks' panics are caught.
            let _ = thread.join();
        }
        self.blocking.stop();
    }

    /// Whether workers choose where tasks start.
    pub(super) fn places(&self) -> bool {
        self.workers.len() > 1 && self.settings.placement == Placement::Auto
    }

    /// Whether more workers are awake than there are cores for them, so that one that spins may keep another from running.
    pub(super) fn is_crowded(&self) -> bool {
        let count = self.workers.len();
        count > self.cores && count - self.idle.len() > self.cores
    }

    /// The worker that gets a task from outside, or every task with [`Placement::Spread`]: in turn.
    pub(super) fn next_worker(&self) -> &'static WorkerShared {
        let turn = self.next.fetch_add(1, Ordering::Relaxed);
        self.workers[turn % self.workers.len()]
    }

    /// A spawner has queued something. Wakes a watcher if one is wanted.
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

    /// Wakes one that sleeps, to watch. If none does, nobody need be told: whoever goes to sleep finds the flag down, raises it and
    /// looks around once more.
    #[cold]
    pub(super) fn wake_sleeper(&self) {
        if let Some(worker) = self.workers.iter().find(|worker| worker.is_asleep()) {
            worker.wake();
        }
    }

    /// Becomes the one that watches, unless there is one.
    pub(super) fn start_watch(&self) -> bool {
        self.workers.len() > 1
            && self.watching.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// For a moment nobody takes from others' queues: this worker is the one that watches, or the only one.
    pub(super) fn start_watch_or_alone(&self) -> bool {
        self.workers.len() == 1 || self.start_watch()
    }

    /// The next spawn is to wake another worker, if one sleeps. `busy`: this one is not about to sleep; if it is, the flag stays as it
    /// is, which has been up for a nap.
    pub(super) fn end_watch(&self, busy: bool) {
        // SeqCst: who falls asleep meanwhile sees that nobody watches, or is seen to sleep.
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

// SAFETY: S5: the pointer in `run` is used under its lock only, while the scope that it names is there.
unsafe impl Send for Pool {}
// SAFETY: S5, as above.
unsafe impl Sync for Pool {}

impl Drop for Pool {
    fn drop(&mut self) {
        for worker in &self.workers {
            worker.retire();
        }
    }
}
