//! Layer 5: workers, and how tasks get onto them.
//!
//! # Words
//! - A *worker* is an OS thread that runs tasks. [`Worker`] is what only that thread touches,
//!   [`WorkerShared`](shared::WorkerShared) the rest.
//! - A task is *started* on the worker that takes it out of a queue, and stays there (S2): see
//!   [`crate::task`].
//! - The *scheduler* is the loop that picks the next task. On a background worker it runs on the
//!   thread's own stack. On the thread that called `run`, that stack belongs to the root task, so
//!   the scheduler runs on a coroutine. There, "the root task is parked" means that this coroutine
//!   has been resumed.
//!
//! # Placement
//! [`placing`] decides on which worker a task starts. Idle workers steal unstarted tasks from busy
//! ones: [`idle`], [`pool`].
//!
//! # Order
//! Started tasks that are ready run in the order in which they became ready, and unstarted tasks in
//! the order of their spawning. A worker with both alternates between them, unless its unstarted
//! tasks are held back ([`restraint`]). Every [`TURNS`](pace::TURNS) turns, whenever nothing is
//! ready, and whenever a budget is used up, the worker looks at its inboxes, its timers and its
//! driver.
//!
//! A turn has a budget of [`BUDGET`](crate::task::BUDGET) operations that find what they want
//! without a wait. After that the task yields if it is another task's turn. Tasks that are started
//! in place of a joiner share the budget of its turn. If tasks compute between their operations,
//! both numbers are smaller ([`pace`]).
//!
//! A `join` of a child that has not started and is in the joiner's own queue starts the child at
//! once. The child has a stack of its own but is resumed by the joiner, which is a call in effect.
//! So fan-out goes depth first, and needs as many stacks as it is deep.
//!
//! # Modules
//! State lies below, and the loop above. A module names only modules to its left, or in a line
//! above its own:
//!
//! - state of a part: [`deque`], [`ready`], [`timers`], [`restraint`], [`pace`], [`quiescence`],
//!   [`placement`], [`blocking`], [`runnable`], [`shared`]
//! - state of the whole: [`idle_state`], [`pool`], [`flights`], [`simulation`], [`worker`]
//! - what a worker does: [`record`], [`deadline`], [`interrupt`], [`look`], [`nap`], [`placing`], [`running`], [`host`], [`polled`], [`debugger`],
//!   [`idle`], [`turn`], [`simulated`], [`life`]
//! - what tasks ask of their worker: [`mod@spawn`], [`mod@unblock`], [`io`], [`inspect`], [`census`]
//!
//! # Tuning
//! A constant that was chosen by measurement names the row of `ecru-bench` that it moves. A change of
//! such a constant shows that row before and after. Other constants are limits, or parts of a
//! structure.
//!
//! [`runnable`], [`steering`], [`simulation`] and [`simulated`] belong to simulated runs, and are
//! compiled with the feature `sim` only.

mod blocking;
pub(crate) mod census;
mod deadline;
mod debugger;
mod deque;
mod flights;
mod hold;
mod host;
mod idle;
mod idle_state;
pub(crate) mod inspect;
mod interrupt;
pub(crate) mod io;
mod life;
mod look;
mod nap;
mod pace;
mod placement;
mod placing;
mod polled;
mod pool;
mod quiescence;
mod ready;
mod record;
mod restraint;
#[cfg(feature = "sim")]
mod runnable;
mod running;
mod shared;
#[cfg(feature = "sim")]
mod simulated;
#[cfg(feature = "sim")]
mod simulation;
mod spawn;
#[cfg(feature = "sim")]
mod steering;
mod timers;
mod turn;
mod unblock;
mod worker;

pub(crate) use host::{cancel_timer, notify_cancelled, set_timer, try_yield};
pub(crate) use nap::Nap;
pub use placement::Placement;
pub(crate) use polled::queue_woken;
pub(crate) use pool::{Deadlock, Pool, Settings, WORKERS_MAX};
#[cfg(feature = "sim")]
pub(crate) use runnable::Runnable;
#[cfg(feature = "sim")]
pub(crate) use simulated::{
    cancel_through_shields, decision_point, end_waits, is_interfered_with, is_simulated,
    move_timers, parked_tasks, settle, waiting_tasks,
};
#[cfg(feature = "sim")]
pub(crate) use simulation::Director;
pub(crate) use spawn::{
    Remote, current_pool, pool_here, run_if_unstarted, spawn, spawn_beside, spawn_local, spawn_on,
    spawn_only, workers_here,
};
#[cfg(feature = "sim")]
pub(crate) use steering::{After, NextTurn, Stop};
pub(crate) use timers::Timer;
pub(crate) use unblock::look_up;
pub use unblock::unblock;
pub(crate) use worker::{Scheduling, Worker, current_worker};
