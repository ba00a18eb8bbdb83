//! The result of a dump: tasks below the scopes that they belong to.

mod arrange;

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use super::cycles;
use super::leak::Leak;
use super::left_out::{LeftOut, LeftOutPlace};
use super::trace::StackTrace;
use super::wait::Wait;
use super::watchdog::Advice;
#[cfg(feature = "sim")]
use crate::base::simulated;
use crate::task::{Header, SeenTask, TaskId};

/// Every scope and task of a run, as found by [`RuntimeHandle::dump`](crate::RuntimeHandle::dump).
///
/// `{}` prints one line for each scope and each task. `{:#}` adds the stack traces of the tasks
/// that wait. Four or more tasks of one scope that were spawned at the same place and wait for the
/// same are printed as one. In a scope, the tasks that have waited for the most seconds come first.
/// The first lines say which tasks [wait for each other](TaskTree::cycles), if any do, and which
/// [waits](TaskTree::stale) have lasted longest.
///
/// A dump describes at most 100,000 tasks, and of each worker between 1,000 and 10,000. Those that
/// have waited longest are described. The others are counted by where they were spawned and what
/// they do, so that the dump of a million tasks takes bounded memory: about 2 KB for each task that
/// is described, beside stack traces. Dumps that described 20,000 tasks took 38 MB, and searches
/// for leaks 50 MB, of 100,000 tasks and of a million.
///
/// If the memory of the process is limited, as by `ulimit -v`, a dump describes as many tasks as
/// there is room for. The rest of what it needs, some hundred kilobytes, it must have: an
/// allocation that fails aborts a Rust program. Stack traces have no frames if there are less than
/// 256 MB, because the first one that is printed loads the program's debug information.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let slow = s.builder().name("slow").spawn(|| ecru::sleep(Duration::from_secs(3600)));
///         let handle = ecru::RuntimeHandle::current();
///         while !handle.dump().tasks().any(|task| task.waits_on().is_some()) {
///             ecru::yield_now().unwrap();
///         }
///         println!("{}", handle.dump());
///         slow.cancel();
///     });
/// });
/// ```
#[derive(Clone, Debug, Default)]
pub struct TaskTree {
    /// Shared by the clones.
    found: Arc<Found>,
}

#[derive(Clone, Debug, Default)]
struct Found {
    /// The tasks in the order of printing: each task is followed by those below it.
    tasks: Vec<TaskInfo>,
    /// The tasks that wait for each other.
    cycles: Vec<Vec<TaskId>>,
    /// The tasks that nothing can wake any more.
    leaks: Vec<Leak>,
    busy: Vec<usize>,
    /// What the busy workers were running, in the order of `busy`.
    busy_with: Vec<Option<BusyTask>>,
    /// What their threads did, in the same order.
    advice: Vec<Advice>,
    left_out: LeftOut,
}

/// The task that kept a worker from answering, as far as another thread can tell.
#[derive(Clone, Debug)]
pub struct BusyTask {
    seen: SeenTask,
}

/// One task of a [`TaskTree`].
#[derive(Clone, Debug)]
pub struct TaskInfo {
    label: Label,
    is_root: bool,
    is_daemon: bool,
    worker: Option<usize>,
    state: TaskState,
    trace: Option<StackTrace>,
    opening: Option<Opening>,
    children: Vec<TaskId>,
    depth: usize,
}

/// What a task was doing when its worker was asked.
///
/// # Examples
/// ```
/// use ecru::diag::TaskState;
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let (sender, receiver) = ecru::channel::unbounded::<u32>();
///         s.spawn(move || receiver.recv());
///         while ecru::diag::metrics().waiting.is_empty() {
///             ecru::yield_now().unwrap();
///         }
///         let tree = ecru::RuntimeHandle::current().dump();
///         for task in tree.tasks() {
///             match task.state() {
///                 TaskState::Waiting(wait) => println!("{} waits {}", task.id(), wait.what()),
///                 TaskState::Ready => println!("{} will continue soon", task.id()),
///                 other => println!("{}: {other:?}", task.id()),
///             }
///         }
///         drop(sender);
///     });
/// });
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
#[expect(clippy::large_enum_variant, reason = "most tasks of a dump wait")]
pub enum TaskState {
    /// The task is the one that asked.
    Running,
    /// The task continues when it is its turn.
    Ready,
    /// The task has not begun.
    Unstarted,
    /// The task waits.
    Waiting(Wait),
    /// Its worker was too busy to answer, or the task is left out. It is known only because there is
    /// a task below it.
    Unknown,
}

/// The identity of a task: its id, name and spawn location.
#[derive(Clone, Debug)]
pub(super) struct Label {
    pub(super) id: TaskId,
    name: Option<String>,
    spawned_at: &'static Location<'static>,
    /// The simulated host to which it belongs.
    #[cfg(feature = "sim")]
    host: Option<Arc<str>>,
}

/// The scope that a task belongs to.
#[derive(Clone, Debug)]
pub(super) struct Opening {
    pub(super) at: &'static Location<'static>,
    /// Distinguishes the tasks of one scope from those of another.
    pub(super) scope: usize,
    pub(super) parent: Label,
    /// Whether that is the root of the run.
    pub(super) is_root: bool,
}

impl TaskTree {
    /// Combines the answers of the workers.
    pub(super) fn new(
        said: Vec<TaskInfo>,
        busy: Vec<(usize, Option<BusyTask>, Advice)>,
        mut left_out: LeftOut,
    ) -> TaskTree {
        let advice = busy.iter().map(|(_, _, advice)| *advice).collect();
        let (busy, busy_with): (Vec<_>, Vec<_>) =
            busy.into_iter().map(|(busy, with, _)| (busy, with)).unzip();
        let mut tasks = arrange::arrange(said);
        arrange::name_holders(&mut tasks, busy.is_empty() && left_out.is_empty());
        left_out.places.sort_by_key(|place| {
            (std::cmp::Reverse(place.count), place.spawned_at, place.waits_at)
        });
        let cycles = cycles::cycles(&tasks);
        let leaks = Vec::new();
        let found = Found { tasks, cycles, leaks, busy, busy_with, advice, left_out };
        TaskTree { found: Arc::new(found) }
    }

    /// Keeps only those cycles whose waits are the same ones in a tree that was made afterwards.
    /// Notes the leaks.
    pub(super) fn confirm(&mut self, after: &TaskTree, leaks: Vec<Leak>) {
        let cycles = cycles::confirmed(self.cycles(), &self.found.tasks, &after.found.tasks);
        let found = Arc::make_mut(&mut self.found);
        (found.cycles, found.leaks) = (cycles, leaks);
    }

    /// Takes those cycles of a tree that was made before whose waits are the same ones in this tree.
    /// Notes the leaks.
    pub(super) fn take_confirmed(&mut self, before: &TaskTree, leaks: Vec<Leak>) {
        let cycles = cycles::confirmed(before.cycles(), &before.found.tasks, &self.found.tasks);
        let found = Arc::make_mut(&mut self.found);
        (found.cycles, found.leaks) = (cycles, leaks);
    }

    /// Returns all tasks, in the order of [`tasks`](TaskTree::tasks).
    pub(super) fn all(&self) -> &[TaskInfo] {
        &self.found.tasks
    }

    /// Returns the leaks.
    pub(super) fn found_leaks(&self) -> &[Leak] {
        &self.found.leaks
    }

    /// Returns the tasks that wait for each other: each task of such a cycle cannot go on before the
    /// next one does, and the last one not before the first. The program may go on beside them.
    ///
    /// A task waits for the tasks that it joins, for the tasks of a scope that it has to end, and
    /// for the [holders](Wait::holders) of locks. A wait for a permit belongs to no cycle, because
    /// permits may be given to other tasks. Neither does the wait of a reader behind other readers
    /// and a writer. A wait with a time limit may still end by itself. At most ten cycles are
    /// returned, of at most a hundred tasks each.
    ///
    /// # Examples
    /// ```
    /// use ecru::sync::Mutex;
    ///
    /// let (left, right) = (Mutex::new(()), Mutex::new(()));
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let first = left.lock();
    ///         let other = s.spawn(|| {
    ///             let _second = right.lock();
    ///             drop(left.lock());
    ///         });
    ///         // If this task waited for `right` here, the two would wait for each other.
    ///         assert!(ecru::RuntimeHandle::current().dump().cycles().is_empty());
    ///         drop(first);
    ///         other.join().unwrap();
    ///     });
    /// });
    /// ```
    #[must_use]
    pub fn cycles(&self) -> &[Vec<TaskId>] {
        &self.found.cycles
    }

    /// Returns the task at a place in the order of [`tasks`](TaskTree::tasks).
    pub(super) fn at_place(&self, place: usize) -> &TaskInfo {
        &self.found.tasks[place]
    }

    /// Returns all tasks, each before those below it.
    pub fn tasks(&self) -> impl Iterator<Item = &TaskInfo> {
        self.found.tasks.iter()
    }

    /// Returns the task with this id.
    #[must_use]
    pub fn task(&self, id: TaskId) -> Option<&TaskInfo> {
        self.tasks().find(|task| task.id() == id)
    }

    /// Returns whether there is no task at all, for example because there is no run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.found.tasks.is_empty() && self.found.busy.is_empty()
    }

    /// Returns the workers that did not answer in time because each was busy with a task. Workers
    /// are counted from 0. Their tasks are not among [`tasks`](TaskTree::tasks).
    #[must_use]
    pub fn busy_workers(&self) -> &[usize] {
        &self.found.busy
    }

    /// Returns the task that kept one of the [`busy_workers`](TaskTree::busy_workers) from
    /// answering. Such a task computes, or blocks its thread.
    ///
    /// Returns `None` if that worker has answered, or was not running a task when it was looked at.
    ///
    /// # Examples
    /// ```
    /// use std::sync::mpsc;
    ///
    /// let runtime = ecru::Runtime::builder().workers(1).build()?;
    /// let (handle, (release, released)) = (runtime.handle(), mpsc::channel());
    /// let watch = std::thread::spawn(move || {
    ///     let tree = loop {
    ///         let tree = handle.dump();
    ///         if tree.busy_task(0).is_some_and(|task| task.name() == Some("stuck")) {
    ///             break tree;
    ///         }
    ///     };
    ///     println!("{tree}");
    ///     release.send(()).unwrap();
    /// });
    /// runtime.run(|| {
    ///     ecru::scope(|s| {
    ///         s.builder().name("stuck").spawn(move || released.recv().unwrap());
    ///     });
    /// });
    /// watch.join().unwrap();
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn busy_task(&self, worker: usize) -> Option<&BusyTask> {
        let place = self.found.busy.iter().position(|&busy| busy == worker)?;
        self.found.busy_with[place].as_ref()
    }

    /// Returns what the threads of the [`busy_workers`](TaskTree::busy_workers) did, in their order,
    /// and what the program should do instead.
    pub(super) fn advice(&self) -> &[Advice] {
        &self.found.advice
    }

    /// Returns how many tasks are left out. A worker with more than 10,000 tasks that have not begun
    /// only counts them. See [`TaskTree`] for the others.
    #[must_use]
    pub fn left_out(&self) -> usize {
        let (started, unstarted, unlisted) = self.left_out_parts();
        started + unstarted + unlisted
    }

    /// Returns the numbers of tasks that are left out: those that have begun, those that have not,
    /// and those that wait for their items.
    pub(super) fn left_out_parts(&self) -> (usize, usize, usize) {
        let LeftOut { uncounted, unlisted, places } = &self.found.left_out;
        (places.iter().map(|place| place.count).sum(), *uncounted, *unlisted)
    }

    /// Returns the tasks that have begun and are left out, the most first.
    pub(super) fn left_out_places(&self) -> &[LeftOutPlace] {
        &self.found.left_out.places
    }

    /// Whether a task that is left out may be able to go on.
    pub(super) fn leaves_out_unstarted(&self) -> bool {
        let is_ready = |place: &LeftOutPlace| place.waits_at.is_none();
        self.found.left_out.uncounted > 0 || self.found.left_out.places.iter().any(is_ready)
    }
}

impl BusyTask {
    pub(super) fn new(seen: SeenTask) -> BusyTask {
        BusyTask { seen }
    }

    /// Returns the name that was given to the task by
    /// [`TaskBuilder::name`](crate::TaskBuilder::name), if any.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.seen.name.as_deref()
    }

    /// Returns where the task was spawned. For the root this is where the run began.
    #[must_use]
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.seen.spawned_at
    }

    /// Returns whether the task is the root of the run.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.seen.is_root
    }
}

impl fmt::Display for BusyTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_root() {
            return write!(f, "the root, run at {}", self.spawned_at());
        }
        f.write_str("a task")?;
        if let Some(name) = self.name() {
            write!(f, " '{}'", name.escape_debug())?;
        }
        write!(f, " spawned at {}", self.spawned_at())
    }
}

impl TaskInfo {
    pub(super) fn new(header: &Header) -> TaskInfo {
        TaskInfo {
            is_root: header.scope.is_null(),
            is_daemon: header.daemon,
            ..TaskInfo::stub(Label::of(header))
        }
    }

    /// Returns the task's id, and the address of the scope to which it belongs.
    pub(super) fn in_scope(&self) -> Option<(TaskId, usize)> {
        Some((self.id(), self.opening.as_ref()?.scope))
    }

    /// Returns whether the end of its scope cancels the task.
    pub(super) fn is_daemon(&self) -> bool {
        self.is_daemon
    }

    pub(super) fn label(&self) -> &Label {
        &self.label
    }

    pub(super) fn depth(&self) -> usize {
        self.depth
    }

    /// Makes the entry of a task of which only the label is known.
    fn stub(label: Label) -> TaskInfo {
        TaskInfo {
            label,
            is_root: false,
            is_daemon: false,
            worker: None,
            state: TaskState::Unknown,
            trace: None,
            opening: None,
            children: Vec::new(),
            depth: 0,
        }
    }

    /// Adds what the task's worker has said about it.
    pub(super) fn describe(
        &mut self,
        worker: usize,
        state: TaskState,
        trace: Option<StackTrace>,
        opening: Option<Opening>,
    ) {
        self.worker = Some(worker);
        self.state = state;
        self.trace = trace;
        self.opening = opening;
    }

    /// Describes a task that waits for its item, in no queue and without a stack.
    pub(super) fn describe_waiting(&mut self, source: &'static str, opening: Option<Opening>) {
        let what = "its item (spawn_when)";
        self.state = TaskState::Waiting(Wait::of_source(what, source));
        self.opening = opening;
    }

    /// Returns the task's id, which is unique in the process.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.label.id
    }

    /// Returns the name that was given to the task by
    /// [`TaskBuilder::name`](crate::TaskBuilder::name), if any.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.label.name.as_deref()
    }

    /// Returns the name of the simulated [host](crate::sim::Host) to which the task belongs.
    /// `None` for tasks of the program of the run, and outside of simulations.
    #[cfg(feature = "sim")]
    #[must_use]
    pub fn host(&self) -> Option<&str> {
        self.label.host.as_deref()
    }

    /// Returns where the task was spawned. For the root this is where the run began.
    #[must_use]
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.label.spawned_at
    }

    /// Returns whether the task is the root of the run.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.is_root
    }

    /// Returns the worker to which the task belongs, or `None` if that is unknown. Workers are
    /// counted from 0, which is the thread that called `run`.
    #[must_use]
    pub fn worker(&self) -> Option<usize> {
        self.worker
    }

    /// Returns what the task was doing.
    #[must_use]
    pub fn state(&self) -> &TaskState {
        &self.state
    }

    /// Returns what the task waits for, if it waits.
    #[must_use]
    pub fn waits_on(&self) -> Option<&Wait> {
        match &self.state {
            TaskState::Waiting(wait) => Some(wait),
            _ => None,
        }
    }

    /// Returns the stack trace of a task that waits, if it has enough stack left to take one (8
    /// KiB). A worker takes the traces of at most a thousand tasks.
    #[must_use]
    pub fn stack_trace(&self) -> Option<&StackTrace> {
        self.trace.as_ref()
    }

    /// Returns the task that opened the scope to which this task belongs, or `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<TaskId> {
        self.opening.as_ref().map(|opening| opening.parent.id)
    }

    /// Returns where that scope was opened. For tasks of the run itself this is where the run
    /// began.
    #[must_use]
    pub fn scope_opened_at(&self) -> Option<&'static Location<'static>> {
        self.opening.as_ref().map(|opening| opening.at)
    }

    /// Returns the tasks in the scopes that this task has open.
    #[must_use]
    pub fn children(&self) -> &[TaskId] {
        &self.children
    }
}

impl Label {
    pub(super) fn of(header: &Header) -> Label {
        Label {
            id: TaskId::of(header),
            name: header.name().map(String::from),
            spawned_at: header.spawned_at(),
            #[cfg(feature = "sim")]
            host: simulated::host_of(std::ptr::from_ref(header).cast()),
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)?;
        if let Some(name) = &self.name {
            // Names may come from clients of the program.
            write!(f, " '{}'", name.escape_debug())?;
        }
        #[cfg(feature = "sim")]
        if let Some(host) = &self.host {
            write!(f, " on '{host}'")?;
        }
        Ok(())
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskState::Running => f.write_str("runs, and asked for this"),
            TaskState::Ready => f.write_str("is ready to go on"),
            TaskState::Unstarted => f.write_str("has not begun"),
            TaskState::Waiting(wait) => write!(f, "{} {wait}", wait.verb()),
            TaskState::Unknown => f.write_str("its state is not known, because its worker is busy"),
        }
    }
}

impl fmt::Display for TaskInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let begun = if self.is_root { "the root, run at" } else { "spawned at" };
        write!(f, "task {}, {begun} {}: {}", self.label, self.spawned_at(), self.state)
    }
}
