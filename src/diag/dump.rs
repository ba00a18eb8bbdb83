//! Asking the workers, and the answer of each worker.
#![expect(unsafe_code, reason = "spawns into the scope of the run")]

use std::ops::Range;
use std::sync::{Arc, PoisonError};

use super::ask::ask;
use super::leak::{self, FoundLeaks, Keepers};
use super::left_out::{LeftOut, LeftOutPlace};
use super::trace::StackTrace;
use super::tree::{BusyTask, Label, Opening, TaskInfo, TaskState, TaskTree};
use super::wait::{Ending, Wait};
use super::watchdog::Advice;
use crate::base::hash::HashMap;
use crate::base::room::has_room;
use crate::base::simulated;
use crate::base::sync::atomic::{AtomicU32, Ordering};
use crate::park;
use crate::sched::census;
use crate::sched::inspect::{self, Doing};
use crate::sched::{self, Pool};
use crate::scope::{JoinHandle, Options, Plain, ScopeCore, each_waiting};
use crate::task::{self, Header, TaskId};

/// The maximum number of stack traces that a worker takes. Each takes about ten microseconds.
const TRACES_MAX: usize = 1000;

/// The number of tasks that wait for their items up to which they are described. More are counted.
const WAITING_MAX: usize = 10_000;

/// The number of started tasks that are described. Others are counted by what they do. Each worker
/// describes its part, within bounds.
const STARTED_MAX: usize = 100_000;
const STARTED_BY_WORKER: std::ops::RangeInclusive<usize> = 1_000..=10_000;

/// The bytes that a dump takes for each described task, with its text, and those for all else
/// except stack traces. `tests/dump_memory.rs` measures half of that.
const BYTES_BY_TASK: usize = 4 << 10;
const BYTES_BESIDE: usize = 256 << 10;

/// The tasks whose stack traces a dump takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traces {
    /// Of as many as a worker is asked for.
    All,
    None,
    /// Of the task with this id, as [`TaskId::shown`] shows it.
    Only(u64),
}

/// The tasks of a worker, as described by that worker.
struct Answer {
    tasks: Vec<TaskInfo>,
    /// The number of tasks that have not begun and are not in `tasks`.
    uncounted: usize,
    /// The tasks that have begun and are not in `tasks`.
    left_out: Vec<LeftOutPlace>,
    /// The memory that the worker keeps for later tasks, if it was asked for.
    unused: Vec<Range<usize>>,
}

/// What a worker is asked.
#[derive(Clone, Copy)]
struct Task {
    worker: usize,
    asker: Option<TaskId>,
    traces: Traces,
    /// How many started tasks to describe.
    limit: usize,
    /// Whether memory will be searched.
    is_for_search: bool,
}

/// Returns every scope and task of the pool's run. The tree is empty if there is no run.
#[track_caller]
pub(crate) fn dump(pool: &Arc<Pool>) -> TaskTree {
    dump_with(pool, Traces::All)
}

/// Makes a dump with certain stack traces.
#[track_caller]
pub(crate) fn dump_with(pool: &Arc<Pool>, traces: Traces) -> TaskTree {
    park::refuse_if_no_suspend();
    let (mut tree, _) = look(pool, traces, false);
    // A simulation that is stuck says so, and its tree has each wait already.
    let found = if simulated::is_simulated() {
        FoundLeaks::default()
    } else {
        leak::find(&tree, &Keepers::default())
    };
    if !tree.cycles().is_empty() || !found.is_empty() {
        let (after, _) = look(pool, Traces::None, false);
        tree.confirm(&after, found.confirmed(&tree, &after, &Keepers::default()));
    }
    tree
}

/// Makes a dump with stack traces, and searches the memory of the process for the handles of
/// channels. The traces come last, because they contain addresses of places on stacks.
#[track_caller]
pub(crate) fn dump_with_leaks(pool: &Arc<Pool>) -> TaskTree {
    park::refuse_if_no_suspend();
    let (before, unused) = look(pool, Traces::None, true);
    let found = leak::find(&before, &leak::search_for_keepers(&before, unused));
    let mut leaks = Vec::new();
    if !found.is_empty() {
        let (after, unused) = look(pool, Traces::None, found.is_suspected());
        let keepers = if found.is_suspected() {
            leak::search_for_keepers(&after, unused)
        } else {
            Keepers::default()
        };
        leaks = found.confirmed(&before, &after, &keepers);
    }
    let (mut tree, _) = look(pool, Traces::All, false);
    tree.take_confirmed(&before, leaks);
    tree
}

/// Asks each worker once. Also returns the memory that the workers keep for later tasks, if it will be
/// searched.
fn look(pool: &Arc<Pool>, traces: Traces, is_for_search: bool) -> (TaskTree, Vec<Range<usize>>) {
    let asker = task::current_header().map(TaskId::of);
    simulated::forget_objects();
    // First: one that gets its item meanwhile is seen by its worker afterwards.
    let (mut said, unlisted) = describe_waiting(pool);
    let (min, max) = STARTED_BY_WORKER.into_inner();
    let limit = (STARTED_MAX / pool.settings.workers).clamp(min, max);
    let workers = pool.settings.workers;
    let count: usize = (0..workers).map(|worker| census::burden(pool, worker)).sum();
    // What is counted is not exact, and a task more or less does not matter.
    let count = count.min(limit * workers);
    let affordable = affordable(count);
    let limit = if affordable == count { limit } else { affordable / workers };
    let answers = ask(pool, move |worker, progress| {
        describe(Task { worker, asker, traces, limit, is_for_search }, progress)
    });
    let Some(answers) = answers else { return Default::default() };
    let (mut busy, mut unused) = (Vec::new(), Vec::new());
    let mut left_out = LeftOut { unlisted, ..LeftOut::default() };
    for (worker, answer) in answers.into_iter().enumerate() {
        match answer {
            Some(answer) => {
                said.extend(answer.tasks);
                left_out.uncounted += answer.uncounted;
                left_out.add(answer.left_out);
                unused.extend(answer.unused);
            }
            None => {
                let activity = inspect::thread_of(pool, worker).activity();
                busy.push((worker, running_on(pool, worker), Advice(activity)));
            }
        }
    }
    (TaskTree::new(said, busy, left_out), unused)
}

/// Returns how many of so many tasks can be described. Where memory is limited, as by `ulimit -v`,
/// an allocation that fails aborts the process. So a dump describes fewer tasks then.
fn affordable(mut tasks: usize) -> usize {
    let fits = |tasks: usize| has_room(tasks * BYTES_BY_TASK + BYTES_BESIDE);
    while tasks > 0 && !fits(tasks) {
        tasks /= 2;
    }
    tasks
}

/// The tasks that wait for their items, and how many more there are.
fn describe_waiting(pool: &Arc<Pool>) -> (Vec<TaskInfo>, usize) {
    let (mut described, mut unlisted) = (Vec::new(), 0);
    let mut limit = None;
    each_waiting(Arc::as_ptr(pool).cast(), |header, source| {
        if described.len() == *limit.get_or_insert_with(|| affordable(WAITING_MAX)) {
            unlisted += 1;
            return;
        }
        let mut info = TaskInfo::new(header);
        info.describe_waiting(source, opening_of(header));
        described.push(info);
    });
    // Those of one place together. The lists have no order.
    described.sort_unstable_by_key(|task| (task.spawned_at(), task.id()));
    (described, unlisted)
}

/// The scope of a task that cannot end meanwhile.
fn opening_of(header: &Header) -> Option<Opening> {
    let (parent, at) = inspect::parent(header).zip(ScopeCore::opening_of(header))?;
    let is_root = parent.scope.is_null();
    Some(Opening { at, scope: header.scope.addr(), parent: Label::of(parent), is_root })
}

/// Returns the task that runs on a worker which has not answered.
pub(crate) fn running_on(pool: &Pool, worker: usize) -> Option<BusyTask> {
    let seen = inspect::seen_on(pool, worker)?;
    (!task::is_hidden_place(seen.spawned_at)).then(|| BusyTask::new(seen))
}

/// Spawns a task into the run that can start only on the given worker, begins even if it is
/// cancelled, and is not shown in trees. Returns `None` if there is no run.
pub(super) fn spawn_hidden<F, T>(
    pool: &Arc<Pool>,
    worker: usize,
    body: F,
) -> Option<JoinHandle<'static, T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    let run = pool.run.lock().unwrap_or_else(PoisonError::into_inner);
    // SAFETY: S5: the run's scope is withdrawn under this lock, after its last child.
    let core = unsafe { run.cast::<ScopeCore>().as_ref() }?;
    let options = Options { always_begins: true, ..Options::default() };
    pool.counts.hidden.fetch_add(1, Ordering::Relaxed);
    let left = Hidden::begin(Arc::clone(pool));
    let body = move || {
        let _left = left;
        body()
    };
    let task = core.allocate(Plain(body), options, task::hidden_place());
    // SAFETY: T1: the task is new. It is counted, so the run does not end before it.
    unsafe { sched::spawn_on(pool, worker, task) };
    // SAFETY: T2: this is the handle's reference.
    Some(unsafe { JoinHandle::new(task) })
}

/// Counts a hidden task until it is dropped.
struct Hidden(Arc<Pool>);

impl Hidden {
    fn begin(pool: Arc<Pool>) -> Hidden {
        pool.counts.hidden_left.fetch_add(1, Ordering::Relaxed);
        Hidden(pool)
    }

    /// Returns the run's scope, to which all hidden tasks belong, and how many of them are left. Called
    /// in one of them.
    fn left_here() -> Option<(usize, u32)> {
        let pool = sched::current_pool()?;
        let scope = pool.run.lock().unwrap_or_else(PoisonError::into_inner).addr();
        let left = pool.counts.hidden_left.load(Ordering::Relaxed);
        Some((scope, u32::try_from(left).unwrap_or(u32::MAX)))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        self.0.counts.hidden_left.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Makes the answer of a worker. Runs in a hidden task.
fn describe(asked: Task, progress: &AtomicU32) -> Answer {
    let mut root_trace = match asked.traces {
        Traces::None => None,
        Traces::All | Traces::Only(_) => inspect::trace_root().map(StackTrace::new),
    };
    let mut traces = 0;
    let hidden = Hidden::left_here();
    // The worker's list begins with the task that parked last. Those that wait longest are wanted.
    let mut skipped = inspect::count_started().saturating_sub(asked.limit);
    let mut left_out: HashMap<(usize, usize), LeftOutPlace> = HashMap::default();
    let (mut started, mut unstarted) = (Vec::new(), Vec::new());
    let uncounted = inspect::inspect(|header, doing| {
        progress.fetch_add(1, Ordering::Relaxed);
        if task::is_hidden(header) {
            return;
        }
        let mut info = TaskInfo::new(header);
        let is_started = !matches!(doing, Doing::Unstarted) && !info.is_root();
        if is_started && (skipped > 0 || started.len() > asked.limit) {
            skipped = skipped.saturating_sub(1);
            let waits_at = match &doing {
                Doing::Waiting(parked) => Some(parked.at()),
                Doing::Pending => Some(header.spawned_at()),
                Doing::Ready | Doing::Unstarted => None,
            };
            LeftOutPlace::note(&mut left_out, header.spawned_at(), waits_at);
            return;
        }
        let opening = opening_of(header);
        let mut trace = None;
        let state = match doing {
            _ if asked.asker == Some(info.id()) => TaskState::Running,
            Doing::Unstarted => TaskState::Unstarted,
            Doing::Ready => TaskState::Ready,
            Doing::Pending => TaskState::Waiting(Wait::of("its future to be woken")),
            Doing::Waiting(parked) => {
                let is_wanted = match asked.traces {
                    Traces::All => true,
                    Traces::None => false,
                    Traces::Only(id) => info.id().shown() == id,
                };
                if info.is_root() {
                    trace = root_trace.take().filter(|_| is_wanted);
                } else if traces < TRACES_MAX && is_wanted {
                    traces += 1;
                    trace = inspect::trace(header).map(StackTrace::new);
                }
                let (purpose, other) = parked.purpose();
                let (lasted, identity, is_seen) = parked.times();
                let wait = Wait::new(purpose, other.map(Label::of)).without(hidden);
                // The lookup of the place takes long, so it is not made for dumps of a program at
                // work.
                #[cfg(feature = "sim")]
                let wait = wait.with_calls(trace.as_ref().filter(|_| simulated::is_simulated()));
                let ending = Ending {
                    by_itself: parked.may_end_by_itself(),
                    by_cancellation: parked.is_cancellable(),
                    memory: parked.memory(),
                };
                let wait = wait.with_ending(ending);
                TaskState::Waiting(wait.with_times(lasted, identity, is_seen))
            }
        };
        let begun = !matches!(state, TaskState::Unstarted);
        info.describe(asked.worker, state, trace, opening);
        if begun { &mut started } else { &mut unstarted }.push(info);
    });
    let roots = usize::from(started.first().is_some_and(TaskInfo::is_root));
    started[roots..].reverse();
    started.append(&mut unstarted);
    let mut unused = Vec::new();
    if asked.is_for_search {
        inspect::each_unused(|range| unused.push(range));
    }
    Answer { tasks: started, uncounted, left_out: left_out.into_values().collect(), unused }
}
