//! What came of a dump: tasks below the scopes that they belong to.

use std::collections::HashMap;
use std::fmt;
use std::panic::Location;
use std::sync::Arc;

use super::trace::StackTrace;
use crate::park::{About, Purpose};
use crate::task::{Header, Seen, TaskId};

/// Deeper trees than this are not indented any further.
const INDENT_MAX: usize = 32;

/// Every scope and task of a run, as [`Handle::dump`](crate::Handle::dump) found them.
///
/// `{}` prints a line for each scope and each task; `{:#}` adds the stack traces of the tasks that wait.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// ecru::run(|| {
///     ecru::scope(|s| {
///         let slow = s.builder().name("slow").spawn(|| ecru::sleep(Duration::from_secs(3600)));
///         while !ecru::Handle::current().dump().tasks().any(|task| task.waits_on().is_some()) {
///             ecru::yield_now().unwrap();
///         }
///         println!("{}", ecru::Handle::current().dump());
///         slow.cancel();
///     });
/// });
/// ```
#[derive(Clone, Debug, Default)]
pub struct TaskTree {
    /// In the order of printing: a task, then what is below it.
    tasks: Arc<Vec<TaskInfo>>,
    busy: Vec<usize>,
    /// What these workers ran, in their order.
    busy_with: Vec<Option<BusyTask>>,
    uncounted: usize,
    /// Tasks that wait for their items and are left out.
    unlisted: usize,
}

/// The task that kept a worker from answering, as far as another thread can tell.
#[derive(Clone, Debug)]
pub struct BusyTask {
    seen: Seen,
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

/// What a task did when it was asked for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TaskState {
    /// It is the one that asked.
    Running,
    /// It goes on when its turn comes.
    Ready,
    /// It has not begun.
    Unstarted,
    /// It waits.
    Waiting(Wait),
    /// Its worker was too busy to answer: known only because it has a task that another worker knew.
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
}

/// What a task is called.
#[derive(Clone, Debug)]
pub(super) struct Label {
    id: TaskId,
    name: Option<String>,
    spawned_at: &'static Location<'static>,
}

/// The scope that a task belongs to.
#[derive(Clone, Debug)]
pub(super) struct Opening {
    pub(super) at: &'static Location<'static>,
    /// By which tasks of one scope are told from those of another.
    pub(super) scope: usize,
    pub(super) parent: Label,
}

impl TaskTree {
    /// Puts together what the workers have said.
    pub(super) fn new(
        said: Vec<TaskInfo>,
        busy: Vec<(usize, Option<BusyTask>)>,
        uncounted: usize,
        unlisted: usize,
    ) -> TaskTree {
        let (busy, busy_with) = busy.into_iter().unzip();
        TaskTree { tasks: Arc::new(arrange(said)), busy, busy_with, uncounted, unlisted }
    }

    /// All tasks, each before those below it.
    pub fn tasks(&self) -> impl Iterator<Item = &TaskInfo> {
        self.tasks.iter()
    }

    /// The task with that number.
    #[must_use]
    pub fn task(&self, id: TaskId) -> Option<&TaskInfo> {
        self.tasks().find(|task| task.id() == id)
    }

    /// Whether there is no task at all, as when no run is going on.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty() && self.busy.is_empty()
    }

    /// Returns the workers that did not answer in time, counted from 0: each was busy with a task. Their tasks are not among
    /// [`tasks`](TaskTree::tasks).
    #[must_use]
    pub fn busy_workers(&self) -> &[usize] {
        &self.busy
    }

    /// Returns the task that kept one of the [`busy_workers`](TaskTree::busy_workers) from answering: it computes, or blocks its thread.
    ///
    /// `None` if that worker has answered, or was not running a task when it was looked at.
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

    /// Returns how many tasks that have not begun are left out: those of workers that have more than 10,000 of them, and of the tasks that
    /// wait for their items ([`spawn_when`](crate::Scope::spawn_when)) all but 10,000.
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
    pub(super) fn new(seen: Seen) -> BusyTask {
        BusyTask { seen }
    }

    /// Returns the name that it was given by [`Builder::name`](crate::Builder::name), if any.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.seen.name.as_deref()
    }

    /// Returns where it was spawned; for the root, where the run began.
    #[must_use]
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.seen.spawned_at
    }

    /// Returns whether it is the root of the run.
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

/// Each task after the one whose scope it belongs to, tasks of one scope together.
fn arrange(said: Vec<TaskInfo>) -> Vec<TaskInfo> {
    let mut known: Vec<TaskInfo> = Vec::with_capacity(said.len());
    let mut places: HashMap<TaskId, usize> = HashMap::with_capacity(said.len());
    for task in said {
        match places.get(&task.id()) {
            // Stolen between two answers: the later one has seen more. A task without a worker has got its item and a worker since.
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
    let scopes: HashMap<TaskId, usize> =
        known.iter().filter_map(|task| Some((task.id(), task.opening.as_ref()?.scope))).collect();
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

    /// A task of which nothing else is known.
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

    /// What its worker says of it.
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

    /// It waits for its item, in no queue and without a stack.
    pub(super) fn describe_waiting(&mut self, source: &'static str, opening: Option<Opening>) {
        let what = "its item (spawn_when)";
        self.state =
            TaskState::Waiting(Wait { what, source: Some(source), at: None, task: None, fd: None });
        self.opening = opening;
    }

    /// Its number, unique in the process.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.label.id
    }

    /// The name that it was given by [`Builder::name`](crate::Builder::name), if any.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        self.label.name.as_deref()
    }

    /// Where it was spawned; for the root, where the run began.
    #[must_use]
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.label.spawned_at
    }

    /// Whether it is the root of the run.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.is_root
    }

    /// Returns the worker that it belongs to, counted from 0, which is the thread that called `run`. `None` if that is unknown, or if it
    /// waits for its item ([`spawn_when`](crate::Scope::spawn_when)) and has no worker yet.
    #[must_use]
    pub fn worker(&self) -> Option<usize> {
        self.worker
    }

    /// What it did.
    #[must_use]
    pub fn state(&self) -> &TaskState {
        &self.state
    }

    /// What it waits for, if it does.
    #[must_use]
    pub fn waits_on(&self) -> Option<&Wait> {
        match &self.state {
            TaskState::Waiting(wait) => Some(wait),
            _ => None,
        }
    }

    /// Where it stands, if it waits and has stack enough left to tell (8 KiB). A worker tells it of a thousand tasks at most.
    #[must_use]
    pub fn stack_trace(&self) -> Option<&StackTrace> {
        self.trace.as_ref()
    }

    /// The task that opened the scope to which this one belongs; none for the root.
    #[must_use]
    pub fn parent(&self) -> Option<TaskId> {
        self.opening.as_ref().map(|opening| opening.parent.id)
    }

    /// Where that scope was opened; for tasks of the run itself, where the run began.
    #[must_use]
    pub fn scope_opened_at(&self) -> Option<&'static Location<'static>> {
        self.opening.as_ref().map(|opening| opening.at)
    }

    /// The tasks of the scopes that it has open.
    #[must_use]
    pub fn children(&self) -> &[TaskId] {
        &self.children
    }
}

impl Wait {
    pub(super) fn new(purpose: &Purpose, task: Option<Label>) -> Wait {
        let fd = match purpose.about {
            About::Fd(fd) => Some(fd),
            _ => None,
        };
        Wait { what: purpose.what, source: None, at: Some(purpose.at), task, fd }
    }

    /// Where the wait was called. `None` where that lies inside of this library, as it does for IO through `std`'s traits, and for a task that
    /// has not begun because it waits for its item ([`spawn_when`](crate::Scope::spawn_when)).
    #[must_use]
    pub fn at(&self) -> Option<&'static Location<'static>> {
        let own = file!().strip_suffix("diag/tree.rs").unwrap_or(file!());
        self.at.filter(|at| !at.file().starts_with(own))
    }

    /// The task whose end is waited for, where it is one.
    #[must_use]
    pub fn task(&self) -> Option<TaskId> {
        self.task.as_ref().map(|task| task.id)
    }

    /// The descriptor that is waited for, where it is one.
    #[must_use]
    pub fn fd(&self) -> Option<i32> {
        self.fd
    }
}

impl Label {
    pub(super) fn of(header: &Header) -> Label {
        Label {
            id: TaskId::of(header),
            name: header.name().map(String::from),
            spawned_at: header.spawned_at(),
        }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)?;
        match &self.name {
            Some(name) => write!(f, " '{name}'"),
            None => Ok(()),
        }
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
            // One scope for each depth is open while the lines go down.
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
