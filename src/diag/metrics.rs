//! Numbers of a run: its tasks, its workers, and what they wait for.

mod histogram;
mod openmetrics;

use std::collections::{BTreeMap, BTreeSet};
use std::panic::Location;
use std::sync::Arc;
use std::time::Duration;

pub use self::histogram::Histogram;
use super::ask::ask;
use super::dump::running_on;
use super::record::delays;
use crate::base::sync::atomic::{AtomicU32, Ordering};
use crate::coroutine::StackStatistics;
use crate::park;
use crate::sched::{self, Pool, census};
use crate::scope::each_waiting;
use crate::task::{self, TaskId};

/// The numbers of a runtime at one moment, made by [`metrics`] and
/// [`RuntimeHandle::metrics`](crate::RuntimeHandle::metrics).
///
/// Each worker counts its own tasks, one worker after another. So a task may be counted twice or not
/// at all if it is spawned, placed or ended meanwhile.
///
/// # Examples
/// ```
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let sleeper = s.spawn(|| ecru::sleep(std::time::Duration::from_secs(3600)));
///         while ecru::diag::metrics().waiting.get("time to pass") != Some(&1) {
///             ecru::yield_now().unwrap();
///         }
///         assert!(ecru::diag::metrics().to_openmetrics().ends_with("# EOF\n"));
///         sleeper.cancel();
///     });
/// });
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Metrics {
    /// The number of tasks that have been spawned, as far as they are known: those that have ended,
    /// and those that are counted below. It never decreases. It may be too high by the tasks that
    /// have ended while the workers counted theirs. The tasks of [`run`](crate::run) itself are
    /// counted only while they run.
    pub spawned: u64,
    /// The number of tasks that have ended since the runtime was made. It never decreases.
    pub ended: u64,
    /// The number of tasks that have not ended: the sum of the next five numbers.
    pub live: usize,
    /// The tasks that run: the one that has asked, and one for each busy worker.
    pub running: usize,
    /// The tasks that wait for their turn.
    pub ready: usize,
    /// The tasks that have not begun.
    pub unstarted: usize,
    /// The number of tasks that wait, by what they wait for, in the words of a dump.
    pub waiting: BTreeMap<&'static str, usize>,
    /// The tasks of [busy workers](Metrics::busy_workers), as far as these have noted them.
    pub unknown: usize,
    /// The operations that the kernel has, and that tasks wait for.
    pub in_flight: usize,
    /// The timers that are set.
    pub timers: usize,
    /// The scopes that have tasks which have begun. The run is one if it has tasks beside the root.
    pub scopes: usize,
    /// The closures of [`unblock`](crate::unblock) and the lookups of names that wait for a thread.
    pub unblock_queued: usize,
    /// The threads for such closures, and those of them that are idle.
    pub unblock_threads: usize,
    /// See [`unblock_threads`](Metrics::unblock_threads).
    pub unblock_idle: usize,
    /// The stacks of tasks.
    pub stacks: StackStatistics,
    /// For each worker, how long its thread has been on a processor since the thread began. All are
    /// zero if the system does not count, and outside a run.
    pub worker_times: Vec<Duration>,
    /// The workers that did not answer within 100 ms, because a task does not wait.
    pub busy_workers: Vec<usize>,
    /// What the events of a [recorder](crate::RuntimeBuilder::record) say. `None` without one.
    pub delays: Option<Delays>,
}

/// What the events of a recorder say of a run: about the last 200,000, or as many as it holds.
///
/// # Examples
/// ```
/// let run = ecru::Runtime::builder().record(1 << 16).build()?;
/// run.run(|| {
///     ecru::scope(|s| {
///         for _ in 0..10 {
///             s.spawn(|| ecru::yield_now().unwrap());
///         }
///     });
///     let delays = ecru::diag::metrics().delays.expect("there is a recorder");
///     assert!(delays.ready_to_run.count() >= 10);
///     for (place, longest) in delays.longest_runs {
///         println!("a task of {place} ran for {longest:?}");
///     }
/// });
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Delays {
    /// The times from the moment in which a task is in the queue of its worker, to its turn.
    pub ready_to_run: Histogram,
    /// The times from the call that wakes or spawns a task, to its turn.
    pub wake_to_run: Histogram,
    /// For each place of a spawn, the longest time for which a task from there has run without a
    /// switch. The longest comes first.
    pub longest_runs: Vec<(&'static Location<'static>, Duration)>,
}

/// Returns the numbers of the current runtime. See [`RuntimeHandle::metrics`](crate::RuntimeHandle::metrics),
/// which any thread may call.
///
/// # Panics
/// Panics outside a run, on threads that are no workers, and inside
/// [`no_suspend`](crate::no_suspend).
///
/// # Cancellation
/// This is not a cancellation point.
///
/// # Examples
/// ```
/// ecru::run(|| {
///     let metrics = ecru::diag::metrics();
///     assert_eq!((metrics.live, metrics.running), (1, 1));
/// });
/// ```
#[must_use]
#[track_caller]
pub fn metrics() -> Metrics {
    match sched::current_pool() {
        Some(pool) => measure(&pool),
        None => panic!(
            "`ecru::diag::metrics` called outside a run; use `Runtime::handle().metrics()` instead"
        ),
    }
}

/// Returns the numbers of a pool. Without a run it has no tasks.
#[track_caller]
pub(crate) fn measure(pool: &Arc<Pool>) -> Metrics {
    park::refuse_if_no_suspend();
    let asker = task::current_header().map(TaskId::of);
    let mut metrics = Metrics::default();
    each_waiting(Arc::as_ptr(pool).cast(), |_, _| {
        *metrics.waiting.entry("the item that it begins with").or_default() += 1;
    });
    let mut scopes = BTreeSet::new();
    let count = move |_, _: &AtomicU32| {
        census::census(task::is_hidden, |header| asker == Some(TaskId::of(header)))
    };
    for (worker, answer) in ask(pool, count).unwrap_or_default().into_iter().enumerate() {
        let Some(answer) = answer else {
            metrics.busy_workers.push(worker);
            metrics.running += usize::from(running_on(pool, worker).is_some());
            metrics.unknown += census::burden(pool, worker);
            continue;
        };
        metrics.running += answer.running;
        metrics.ready += answer.ready;
        metrics.unstarted += answer.unstarted;
        metrics.in_flight += answer.in_flight;
        metrics.timers += answer.timers;
        scopes.extend(answer.scopes);
        for (what, count) in answer.waiting {
            *metrics.waiting.entry(what).or_default() += count;
        }
    }
    metrics.scopes = scopes.len();
    metrics.live = metrics.running
        + metrics.ready
        + metrics.unstarted
        + metrics.waiting.values().sum::<usize>()
        + metrics.unknown;
    let counts = &pool.counts;
    // The questions are tasks, too. One that has answered may not have ended yet.
    let ended = census::ended(pool).saturating_sub(counts.hidden.load(Ordering::Relaxed));
    metrics.ended = counts.ended.fetch_max(ended, Ordering::Relaxed).max(ended);
    let spawned = metrics.ended + metrics.live as u64;
    metrics.spawned = counts.spawned.fetch_max(spawned, Ordering::Relaxed).max(spawned);
    let unblock = pool.blocking.counts();
    metrics.unblock_queued = unblock.queued;
    (metrics.unblock_threads, metrics.unblock_idle) = (unblock.threads, unblock.idle);
    metrics.stacks = census::stacks(pool);
    metrics.worker_times = census::processor_times(pool);
    metrics.delays = pool.recorder.as_deref().map(delays);
    metrics
}
