//! A worker: what only its own thread touches.
//!
//! No borrow of a part of the worker is held while a task runs, because the task may come back
//! through [`current`].
#![expect(unsafe_code, reason = "reads the thread's worker by pointer")]

use std::cell::{Cell, RefCell};
use std::ptr;
use std::sync::Arc;
use std::time::Instant;

use super::flights::Io;
use super::idle_state::IdleState;
use super::pace::Pace;
use super::pool::Pool;
use super::ready::ReadyQueue;
use super::restraint::Restraint;
use super::shared::WorkerShared;
#[cfg(feature = "sim")]
use super::simulation::{Director, Simulation};
use super::timers::Timers;
use crate::base::blocks::Blocks;
use crate::base::list::Pile;
use crate::base::{clock, local};
use crate::coroutine::stack::{Stack, StackCache};
use crate::coroutine::switch::Fiber;
#[cfg(feature = "sim")]
use crate::driver;
use crate::task::Header;

/// How many stacks a worker keeps for itself. Row: `spawn-batch-2`.
const STACKS_KEPT: usize = 1024;

/// The part of a worker that only its own thread touches.
pub(crate) struct Worker {
    pub(super) pool: Arc<Pool>,
    pub(super) index: usize,
    pub(super) shared: &'static WorkerShared,
    pub(super) ready: ReadyQueue,
    /// Started tasks that used up their budgets. They run when nothing else is ready. See
    /// [`super::restraint`].
    pub(super) preempted: ReadyQueue,
    /// The tasks that have switched away at least once and have not ended, except the root.
    pub(super) started: Pile,
    /// The tasks whose futures have been polled and are pending.
    pub(super) pending: Pile,
    /// The stack on which futures are polled, if there was one. It is taken during a poll.
    pub(super) poll_stack: Cell<Option<Stack>>,
    pub(super) timers: Timers,
    pub(super) io: RefCell<Io>,
    pub(super) stacks: RefCell<StackCache>,
    pub(super) blocks: Blocks,
    pub(super) idle_state: IdleState,
    /// Turns until the next look around.
    pub(super) turns: Cell<u32>,
    /// When the time is to be noted again; see `look.rs`.
    pub(super) moment_due: Cell<Instant>,
    /// Whether the next turn prefers an unstarted task to a ready one.
    pub(super) unstarted_first: Cell<bool>,
    pub(super) restraint: Restraint,
    pub(super) pace: Pace,
    /// Whether tasks may start on other workers than this, see [`super::placement`].
    pub(super) places: bool,
    /// Tasks until the next one whose life is watched.
    pub(super) until_watched: Cell<u32>,
    /// The task that owns this thread's stack; null on a background worker.
    pub(super) root: Cell<*const Header>,
    /// The scheduler's coroutine, where there is a root.
    pub(super) scheduler: Cell<*mut Fiber<(), (), ()>>,
    /// The number of its tasks that wait for closures on the blocking pool.
    pub(super) unblocking: Cell<usize>,
    /// The root runs at the next turn, to leave its stack trace.
    pub(super) root_is_next: Cell<bool>,
    /// The run is over: the scheduler returns.
    pub(super) finished: Cell<bool>,
    /// How a simulated run is scheduled. `None` on all other workers.
    #[cfg(feature = "sim")]
    pub(super) simulation: Option<Box<Simulation>>,
}

/// What chooses the tasks of a run: its workers, or the director of a simulation.
#[derive(Default)]
pub(crate) struct Scheduling {
    #[cfg(feature = "sim")]
    director: Option<Box<dyn Director>>,
}

impl Scheduling {
    /// Lets a director choose.
    #[cfg(feature = "sim")]
    pub(crate) fn by(director: Box<dyn Director>) -> Scheduling {
        Scheduling { director: Some(director) }
    }
}

/// Returns the worker that the current thread is.
#[inline]
pub(crate) fn current<'a>() -> Option<&'a Worker> {
    let worker = local::with(|local| local.worker.get()).cast::<Worker>();
    // SAFETY: R1: set by `Worker::enter`, for as long as the worker exists.
    unsafe { worker.as_ref() }
}

/// Returns an identity of the current thread's worker, for comparison only. Null if the thread is
/// not a worker.
#[inline]
pub(crate) fn current_worker() -> *const () {
    local::with(|local| local.worker.get())
}

impl Worker {
    pub(super) fn new(pool: Arc<Pool>, index: usize) -> Worker {
        let stacks = StackCache::new(pool.stacks.clone(), STACKS_KEPT);
        Worker {
            shared: pool.workers[index],
            index,
            ready: ReadyQueue::new(),
            preempted: ReadyQueue::new(),
            started: Pile::new(),
            pending: Pile::new(),
            poll_stack: Cell::new(None),
            timers: Timers::new(clock::now()),
            io: RefCell::new(Io::new()),
            stacks: RefCell::new(stacks),
            blocks: Blocks::default(),
            idle_state: IdleState::new(),
            turns: Cell::new(0),
            moment_due: Cell::new(clock::now()),
            unstarted_first: Cell::new(true),
            restraint: Restraint::new(),
            pace: Pace::new(),
            places: pool.places(),
            until_watched: Cell::new(0),
            root: Cell::new(ptr::null()),
            scheduler: Cell::new(ptr::null_mut()),
            unblocking: Cell::new(0),
            root_is_next: Cell::new(false),
            finished: Cell::new(false),
            #[cfg(feature = "sim")]
            simulation: None,
            pool,
        }
    }

    /// Creates the first worker of a run.
    pub(super) fn of_root(pool: Arc<Pool>, scheduling: Scheduling) -> Worker {
        let Scheduling {
            #[cfg(feature = "sim")]
            director,
        } = scheduling;
        #[cfg(feature = "sim")]
        if let Some(director) = director {
            return Worker::simulated(pool, director);
        }
        Worker::new(pool, 0)
    }

    /// Creates the worker of a simulated run.
    #[cfg(feature = "sim")]
    fn simulated(pool: Arc<Pool>, director: Box<dyn Director>) -> Worker {
        let worker = Worker::new(pool, 0);
        worker.io.borrow_mut().driver = Some(driver::open_simulated());
        Worker {
            timers: Timers::exact(clock::now()),
            simulation: Some(Box::new(Simulation::new(director))),
            ..worker
        }
    }

    /// Gives the next turn to the root, which is parked.
    pub(super) fn give_turn_to_root(&self) {
        self.root_is_next.set(true);
        self.turns.set(0);
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("index", &self.index).finish_non_exhaustive()
    }
}

/// What the thread did before it switched to a task.
pub(super) struct Outer {
    task: *const (),
    frames: u32,
}

impl Outer {
    #[inline(always)]
    pub(super) fn leave_for(task: *const Header, frames: u32) -> Outer {
        local::with(|local| Outer {
            task: local.task.replace(task.cast()),
            frames: local.open_frames.replace(frames),
        })
    }

    /// Restores it. Returns the task's count of open frames.
    #[inline(always)]
    pub(super) fn come_back(self) -> u32 {
        local::with(|local| {
            local.task.set(self.task);
            local.open_frames.replace(self.frames)
        })
    }
}
