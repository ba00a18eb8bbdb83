//! The result of a dump: tasks below the scopes that they belong to.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use super::trace::StackTrace;
use crate::base::hash::HashMap;
#[cfg(feature = "sim")]
use crate::base::simulated;
use crate::park::{About, Purpose};
use crate::task::{Header, SeenTask, TaskId};

/// Tasks at greater depths than this are not indented any further.
const INDENT_MAX: usize = 32;

/// Every scope and task of a run, as found by [`RuntimeHandle::dump`](crate::RuntimeHandle::dump).
///
/// `{}` prints one line for each scope and each task. `{:#}` adds the stack traces of the tasks
/// that wait.
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
    /// The tasks in the order of printing: each task is followed by those below it.
    tasks: Arc<Vec<TaskInfo>>,
    busy: Vec<usize>,
    /// What the busy workers were running, in the order of `busy`.
    busy_with: Vec<Option<BusyTask>>,
    uncounted: usize,
    /// Tasks that wait for their items and are left out.
    unlisted: usize,
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
    worker: Option<usize>,
    state: TaskState,
    trace: Option<StackTrace>,
    opening: Option<Opening>,
    children: Vec<TaskId>,
    depth: usize,
}

/// What a task was doing when its worker was asked.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TaskState {
    /// The task is the one that asked.
    Running,
    /// The task continues when it is its turn.
    Ready,
    /// The task has not begun.
    Unstarted,
    /// The task waits.
    Waiting(Wait),
    /// Its worker was too busy to answer. The task is known only because another worker has a task
    /// below it.
    Unknown,
}

/// What a task waits for.
#[derive(Clone, Debug)]
pub struct Wait {
    what: &'static str,
    /// The type of what an item is wanted from.
    source: Option<&'static str>,
    at: Option<&'static Location<'static>>,
    task: Option<Label>,
    fd: Option<i32>,
    peer: Option<String>,
    object: Option<String>,
}

/// The identity of a task: its id, name and spawn location.
#[derive(Clone, Debug)]
pub(super) struct Label {
    id: TaskId,
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
}

impl TaskTree {
    /// Combines the answers of the workers.
    pub(super) fn new(
        said: Vec<TaskInfo>,
        busy: Vec<(usize, Option<BusyTask>)>,
        uncounted: usize,
        unlisted: usize,
    ) -> TaskTree {
        let (busy, busy_with) = busy.into_iter().unzip();
        TaskTree { tasks: Arc::new(arrange(said)), busy, busy_with, uncounted, unlisted }
    }

    /// Returns all tasks, each before those below it.
    pub fn tasks(&self) -> impl Iterator<Item = &TaskInfo> {
        self.tasks.iter()
    }

    /// Returns the task with this id.
    #[must_use]
    pub fn task(&self, id: TaskId) -> Option<&TaskInfo> {
        self.tasks().find(|task| task.id() == id)
    }

    /// Returns whether there is no task at all, for example because there is no run.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.busy.is_empty()
    }

    /// Returns the workers that did not answer in time because each was busy with a task. Workers
    /// are counted from 0. Their tasks are not among [`tasks`](TaskTree::tasks).
    #[must_use]
    pub fn busy_workers(&self) -> &[usize] {
        &self.busy
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
        let place = self.busy.iter().position(|&busy| busy == worker)?;
        self.busy_with[place].as_ref()
    }

    /// Returns how many tasks that have not begun are left out. A worker with more than 10,000 of
    /// them only counts them.
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.uncounted + self.unlisted
    }

    /// Whether a task that is left out may be able to go on.
    pub(super) fn leaves_out_unstarted(&self) -> bool {
        self.uncounted > 0
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
            write!(f, " '{name}'")?;
        }
        write!(f, " spawned at {}", self.spawned_at())
    }
}

/// Arranges the tasks so that each follows the task whose scope it belongs to, and tasks of one
/// scope are together.
fn arrange(said: Vec<TaskInfo>) -> Vec<TaskInfo> {
    let mut known: Vec<TaskInfo> = Vec::with_capacity(said.len());
    let mut places: HashMap<TaskId, usize> = HashMap::default();
    for task in said {
        match places.get(&task.id()) {
            // The task was stolen between two answers, so both contain it. The later one is more
            // recent. A task without a worker has got its item, and a worker, since.
            Some(&place)
                if known[place].worker.is_none() || !matches!(task.state, TaskState::Unstarted) =>
            {
                known[place] = task;
            }
            Some(_) => {}
            None => {
                places.insert(task.id(), known.len());
                known.push(task);
            }
        }
    }
    for place in 0..known.len() {
        let Some(parent) = known[place].opening.as_ref().map(|opening| opening.parent.clone())
        else {
            continue;
        };
        let id = known[place].id();
        let at = *places.entry(parent.id).or_insert_with(|| {
            known.push(TaskInfo::stub(parent));
            known.len() - 1
        });
        known[at].children.push(id);
    }
    // The scopes of a task come in the order of their first tasks, whatever their addresses are.
    let mut firsts: HashMap<usize, TaskId> = HashMap::default();
    for (id, scope) in known.iter().filter_map(TaskInfo::in_scope) {
        let first = firsts.entry(scope).or_insert(id);
        *first = id.min(*first);
    }
    let scopes: HashMap<TaskId, TaskId> = known
        .iter()
        .filter_map(|task| task.in_scope().map(|(id, scope)| (id, firsts[&scope])))
        .collect();
    let mut arranged = Vec::with_capacity(known.len());
    let mut known: Vec<Option<TaskInfo>> = known.into_iter().map(Some).collect();
    let is_top = |task: &Option<TaskInfo>| task.as_ref().is_some_and(|task| task.opening.is_none());
    let mut due: Vec<(usize, usize)> = (0..known.len())
        .rev()
        .filter(|&place| is_top(&known[place]))
        .map(|place| (place, 0))
        .collect();
    while let Some((place, depth)) = due.pop() {
        let Some(mut task) = known[place].take() else { continue };
        task.depth = depth;
        task.children.sort_by_key(|child| scopes.get(child).copied());
        due.extend(task.children.iter().rev().map(|child| (places[child], depth + 1)));
        arranged.push(task);
    }
    arranged
}

impl TaskInfo {
    pub(super) fn new(header: &Header) -> TaskInfo {
        TaskInfo { is_root: header.scope.is_null(), ..TaskInfo::stub(Label::of(header)) }
    }

    /// Returns the task's id, and the address of the scope to which it belongs.
    fn in_scope(&self) -> Option<(TaskId, usize)> {
        Some((self.id(), self.opening.as_ref()?.scope))
    }

    /// Makes the entry of a task of which only the label is known.
    fn stub(label: Label) -> TaskInfo {
        TaskInfo {
            label,
            is_root: false,
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
        self.state = TaskState::Waiting(Wait { source: Some(source), ..Wait::of(what) });
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

impl Wait {
    pub(super) fn new(purpose: Purpose, task: Option<Label>) -> Wait {
        let mut wait = Wait { at: Some(purpose.at), task, ..Wait::of(purpose.what) };
        match purpose.about {
            About::Nothing | About::Task(_) => {}
            About::Fd(fd, peer) => {
                // A file of a simulation has no descriptor.
                wait.fd = (fd >= 0).then_some(fd);
                wait.peer = peer;
            }
            About::Object(object) | About::Held(object, _) => wait.object = Some(object),
        }
        wait
    }

    pub(super) fn of(what: &'static str) -> Wait {
        Wait { what, source: None, at: None, task: None, fd: None, peer: None, object: None }
    }

    /// Returns a phrase for what is waited for, which follows "waits for" in the printed tree.
    #[must_use]
    pub fn what(&self) -> &'static str {
        self.what
    }

    /// Returns the type of the source whose item is waited for, if the wait is that of
    /// [`spawn_when`](crate::Scope::spawn_when).
    #[must_use]
    pub fn source(&self) -> Option<&'static str> {
        self.source
    }

    /// Returns where the wait was called. Returns `None` if that is inside this library, as it is
    /// for IO through the traits of `std`.
    #[must_use]
    pub fn at(&self) -> Option<&'static Location<'static>> {
        let own = file!().strip_suffix("diag/tree.rs").unwrap_or(file!());
        self.at.filter(|at| !at.file().starts_with(own))
    }

    /// Returns the task that is waited for, if the wait is for the end of a task.
    #[must_use]
    pub fn task(&self) -> Option<TaskId> {
        self.task.as_ref().map(|task| task.id)
    }

    /// Returns the descriptor that is waited for, if the wait is for a descriptor.
    #[must_use]
    pub fn fd(&self) -> Option<i32> {
        self.fd
    }

    /// Returns the address of the other side, if the wait is for a connected socket.
    #[must_use]
    pub fn peer(&self) -> Option<&str> {
        self.peer.as_deref()
    }

    /// Returns a description of the channel or the lock that is waited for, if the wait is for one.
    ///
    /// The description of a lock names its holder and where it was acquired in builds with
    /// `debug_assertions`, and in a simulation.
    #[must_use]
    pub fn object(&self) -> Option<&str> {
        self.object.as_deref()
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
            write!(f, " '{name}'")?;
        }
        #[cfg(feature = "sim")]
        if let Some(host) = &self.host {
            write!(f, " on '{host}'")?;
        }
        Ok(())
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.what)?;
        if let Some(source) = self.source {
            write!(f, " from {source}")?;
        }
        if let Some(task) = &self.task {
            write!(f, " task {task}")?;
        }
        if let Some(fd) = self.fd {
            write!(f, " fd {fd}")?;
        }
        if let Some(peer) = &self.peer {
            write!(f, ", peer {peer}")?;
        }
        if let Some(object) = &self.object {
            write!(f, " {object}")?;
        }
        match self.at() {
            Some(at) => write!(f, ", at {at}"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for TaskState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskState::Running => f.write_str("runs, and asked for this"),
            TaskState::Ready => f.write_str("is ready to go on"),
            TaskState::Unstarted => f.write_str("has not begun"),
            TaskState::Waiting(wait) => write!(f, "waits for {wait}"),
            TaskState::Unknown => f.write_str("does what its busy worker did not say"),
        }
    }
}

impl fmt::Display for TaskInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let begun = if self.is_root { "the root, run at" } else { "spawned at" };
        write!(f, "task {}, {begun} {}: {}", self.label, self.spawned_at(), self.state)
    }
}

impl fmt::Display for TaskTree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("no task: no run is going on");
        }
        match self.tasks.len() {
            1 => f.write_str("1 task")?,
            count => write!(f, "{count} tasks")?,
        }
        if self.uncounted > 0 {
            write!(f, ", and {} more that have not begun", self.uncounted)?;
        }
        if self.unlisted > 0 {
            write!(f, ", and {} more that wait for their items (spawn_when)", self.unlisted)?;
        }
        for (worker, task) in self.busy.iter().zip(&self.busy_with) {
            write!(f, "; worker {worker} is busy")?;
            if let Some(task) = task {
                write!(f, " with {task},")?;
            }
            f.write_str(" and did not say what its tasks do")?;
        }
        let mut scopes: Vec<Option<usize>> = Vec::new();
        for task in self.tasks.iter() {
            let indent = 4 * task.depth.min(INDENT_MAX);
            // While the lines are printed, at most one scope is open at each depth.
            scopes.resize(task.depth + 1, None);
            if let Some(opening) = &task.opening
                && scopes[task.depth].replace(opening.scope) != Some(opening.scope)
            {
                write!(f, "\n{:1$}scope opened at {2}", "", indent - 2, opening.at)?;
            }
            write!(f, "\n{:indent$}{task}", "")?;
            if let Some(trace) = task.stack_trace().filter(|_| f.alternate()) {
                for line in trace.to_string().lines() {
                    write!(f, "\n{:indent$}{line}", "")?;
                }
            }
        }
        Ok(())
    }
}
