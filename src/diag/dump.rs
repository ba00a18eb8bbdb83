//! Asking the workers, and the answer of each worker.
#![expect(unsafe_code, reason = "spawns into the scope of the run")]

use std::panic::Location;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use super::trace::StackTrace;
use super::tree::{BusyTask, Label, Opening, TaskInfo, TaskState, TaskTree, Wait};
use crate::base::sync::atomic::{AtomicBool, Ordering};
use crate::base::{clock, simulated};
use crate::park;
use crate::sched::inspect::{self, Doing};
use crate::sched::{self, Pool};
use crate::scope::{JoinHandle, Options, Plain, ScopeCore, each_waiting, shield};
use crate::task::{self, Header, TaskId};

/// How long the workers may take to begin with their answers.
const ANSWER_LIMIT: Duration = Duration::from_millis(100);
/// The maximum number of stack traces that a worker takes. Each takes about ten microseconds.
const TRACES_MAX: usize = 1000;

/// The number of tasks that wait for their items up to which they are described. More are counted.
const WAITING_MAX: usize = 10_000;

/// The tasks of a worker, as described by that worker.
struct Answer {
    tasks: Vec<TaskInfo>,
    /// The number of tasks that have not begun and are not in `tasks`.
    uncounted: usize,
}

struct Question {
    begun: Arc<AtomicBool>,
    task: JoinHandle<'static, Answer>,
}

/// Returns every scope and task of the pool's run. The tree is empty if there is no run.
#[track_caller]
pub(crate) fn dump(pool: &Arc<Pool>) -> TaskTree {
    park::refuse_if_no_suspend();
    let asker = task::current_header().map(TaskId::of);
    simulated::forget_objects();
    // First: one that gets its item meanwhile is seen by its worker afterwards.
    let (mut said, unlisted) = describe_waiting(pool);
    let Some(questions) = question(pool, asker) else { return TaskTree::default() };
    let deadline = clock::now() + ANSWER_LIMIT;
    let (mut busy, mut uncounted) = (Vec::new(), 0);
    // A cancellation does not cut this short, because its effect may be what the caller wants to
    // see.
    shield(|| {
        for (worker, question) in questions.into_iter().enumerate() {
            let left = deadline.saturating_duration_since(clock::now());
            let mut answer = question.task.join_timeout(left);
            if answer.is_none() && question.begun.load(Ordering::Relaxed) {
                answer = Some(question.task.join());
            }
            match answer {
                Some(Ok(answer)) => {
                    said.extend(answer.tasks);
                    uncounted += answer.uncounted;
                }
                _ => busy.push((worker, running_on(pool, worker))),
            }
        }
    });
    TaskTree::new(said, busy, uncounted, unlisted)
}

/// The tasks that wait for their items, and how many more there are.
fn describe_waiting(pool: &Arc<Pool>) -> (Vec<TaskInfo>, usize) {
    let (mut described, mut unlisted) = (Vec::new(), 0);
    each_waiting(Arc::as_ptr(pool).cast(), |header, source| {
        if described.len() == WAITING_MAX {
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
    Some(Opening { at, scope: header.scope.addr(), parent: Label::of(parent) })
}

/// Returns the task that runs on a worker which has not answered.
pub(crate) fn running_on(pool: &Pool, worker: usize) -> Option<BusyTask> {
    let seen = inspect::seen_on(pool, worker)?;
    (seen.spawned_at.file() != file!()).then(|| BusyTask::new(seen))
}

/// Puts a question to each worker. Returns `None` if there is no run.
fn question(pool: &Arc<Pool>, asker: Option<TaskId>) -> Option<Vec<Question>> {
    let ask_one = |worker| {
        let begun = Arc::new(AtomicBool::new(false));
        let mark = Arc::clone(&begun);
        let task = spawn_hidden(pool, worker, move || {
            mark.store(true, Ordering::Relaxed);
            describe(worker, asker)
        })?;
        Some(Question { begun, task })
    };
    (0..pool.settings.workers).map(ask_one).collect()
}

/// Spawns a task into the run that can start only on the given worker, begins even if it is
/// cancelled, and is not shown in trees. Returns `None` if there is no run.
pub(super) fn spawn_hidden<F, T>(
    pool: &Pool,
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
    let task = core.allocate(Plain(body), options, here());
    // SAFETY: T1: the task is new. It is counted, so the run does not end before it.
    unsafe { sched::spawn_on(pool, worker, task) };
    // SAFETY: T2: this is the handle's reference.
    Some(unsafe { JoinHandle::new(task) })
}

/// Returns the spawn location of hidden tasks, which distinguishes them from the program's tasks.
fn here() -> &'static Location<'static> {
    Location::caller()
}

/// Returns whether a task is a hidden one.
pub(super) fn is_hidden(header: &Header) -> bool {
    header.spawned_at().file() == file!()
}

/// Makes the answer of a worker. Runs in a hidden task.
fn describe(worker: usize, asker: Option<TaskId>) -> Answer {
    let mut root_trace = inspect::trace_root().map(StackTrace::new);
    let mut traces = 0;
    let (mut started, mut unstarted) = (Vec::new(), Vec::new());
    let uncounted = inspect::inspect(|header, doing| {
        if header.spawned_at().file() == file!() {
            return;
        }
        let mut info = TaskInfo::new(header);
        let opening = opening_of(header);
        let mut trace = None;
        let state = match doing {
            _ if asker == Some(info.id()) => TaskState::Running,
            Doing::Unstarted => TaskState::Unstarted,
            Doing::Ready => TaskState::Ready,
            Doing::Pending => TaskState::Waiting(Wait::of("its future to be woken")),
            Doing::Waiting(purpose, other) => {
                if info.is_root() {
                    trace = root_trace.take();
                } else if traces < TRACES_MAX {
                    traces += 1;
                    trace = inspect::trace(header).map(StackTrace::new);
                }
                TaskState::Waiting(Wait::new(purpose, other.map(Label::of)))
            }
        };
        let begun = !matches!(state, TaskState::Unstarted);
        info.describe(worker, state, trace, opening);
        if begun { &mut started } else { &mut unstarted }.push(info);
    });
    // The worker's list begins with the task that parked last.
    let roots = usize::from(started.first().is_some_and(TaskInfo::is_root));
    started[roots..].reverse();
    started.append(&mut unstarted);
    Answer { tasks: started, uncounted }
}
