//! Functions that are called when tasks are spawned, are cancelled and end: for logs and counters.
//!
//! # Who calls, and when
//! A process has no observer, and then one for ever: `OBSERVER` is set once. Each thread that has
//! heard of it (see [`switch_hook`]) finds it by its flag `OBSERVED`, so a
//! program without an observer pays the branch that it pays for the switch hook.
//!
//! | call | where | locks that are held |
//! |---|---|---|
//! | `spawned` | in the spawner, before the task is in a queue | none |
//! | `ended` | on the task's own stack, after its body and before the result is announced | none |
//! | `cancelled` | in the caller of the request, after waits below the node have been told | none |
//! | `reported` | on the thread that writes the report | none |
//!
//! The flag `INSIDE` is set during a call, and calls that a call causes are left out. A task that is
//! spawned meanwhile is marked, so that its end is left out, too. So an observer that spawns is not
//! called for that, over and over.
use std::error::Error;
use std::fmt;
use std::panic::Location;
use std::sync::OnceLock;

use super::cancel::CancelReason;
use super::current::TaskId;
use super::header::Header;
use super::result::Failure;
use super::switch_hook::{self, guarded};
use crate::base::report;

/// A task as a [`TaskObserver`] sees it.
///
/// # Examples
/// See [`TaskObserver`].
#[derive(Clone, Copy, Debug)]
pub struct ObservedTask<'t> {
    id: TaskId,
    name: Option<&'t str>,
    spawned_at: &'static Location<'static>,
}

impl<'t> ObservedTask<'t> {
    fn of(header: &'t Header) -> ObservedTask<'t> {
        let (id, spawned_at) = (TaskId::of(header), header.spawned_at());
        ObservedTask { id, name: header.name(), spawned_at }
    }

    /// Returns the task's number, unique in the process.
    #[must_use]
    pub fn id(&self) -> TaskId {
        self.id
    }

    /// Returns the name set by [`TaskBuilder::name`](crate::TaskBuilder::name), if any.
    #[must_use]
    pub fn name(&self) -> Option<&'t str> {
        self.name
    }

    /// Returns the place in the code where the task was spawned.
    #[must_use]
    pub fn spawned_at(&self) -> &'static Location<'static> {
        self.spawned_at
    }
}

/// How a task has ended.
///
/// # Examples
/// See [`TaskObserver`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// Its body has returned, perhaps an error.
    Returned,
    /// Its body has returned an error to the [`try_scope`](crate::try_scope) around it.
    Failed,
    /// Its body has panicked.
    Panicked,
    /// It was cancelled before its body began, or its future was dropped before its end.
    Dropped,
}

impl Ending {
    pub(super) fn of<T>(result: &Result<T, Failure>) -> Ending {
        match result {
            Ok(_) => Ending::Returned,
            Err(Failure::Failed) => Ending::Failed,
            Err(Failure::Panicked(_)) => Ending::Panicked,
            Err(Failure::NeverRan) => Ending::Dropped,
        }
    }
}

/// Functions that are called when tasks are spawned, are cancelled and end, and when the library
/// reports something. Each function does nothing unless it is implemented.
///
/// A process has at most one observer, installed by [`set_task_observer`]. `ecru-tracing` has one
/// that writes events of `tracing`.
///
/// # What a call may do
/// The calls run inside [`no_suspend`](crate::no_suspend), so waiting panics. A panic is caught: the
/// panic hook reports it, and the program goes on. A call may spawn, send, and cancel. What it does
/// is not observed, nor are the tasks that it spawns.
///
/// The root task of a run is neither spawned nor does it end, and closures of
/// [`unblock`](crate::unblock) are no tasks.
///
/// # Examples
/// ```
/// use ecru::task::{Ending, ObservedTask, TaskObserver};
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
///
/// static PANICS: AtomicUsize = AtomicUsize::new(0);
///
/// /// Counts the tasks that panic.
/// struct Panics;
///
/// impl TaskObserver for Panics {
///     fn ended(&self, _: ObservedTask<'_>, how: Ending) {
///         PANICS.fetch_add(usize::from(how == Ending::Panicked), Relaxed);
///     }
/// }
///
/// ecru::task::set_task_observer(&Panics).unwrap();
/// // Other workers than this thread would hear of the observer a little later.
/// ecru::Runtime::builder().workers(1).build()?.run(|| {
///     let failed = ecru::spawn(|| std::panic::resume_unwind(Box::new("a fault")));
///     assert!(failed.join().is_err());
/// });
/// assert_eq!(PANICS.load(Relaxed), 1);
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait TaskObserver: Sync {
    /// Called in the spawner when it has spawned a task, before the task can begin. A task of
    /// `spawn_when` is spawned when it begins to wait for its item.
    fn spawned(&self, task: ObservedTask<'_>) {
        let _ = task;
    }

    /// Called in the task, on its own stack, when its body has ended. For a task that never began,
    /// its closure has been dropped.
    fn ended(&self, task: ObservedTask<'_>, how: Ending) {
        let _ = (task, how);
    }

    /// Called when a task, a scope or a section of a task is cancelled for the first time, by
    /// the thread that does so. It is not called for the tasks below. `task` is the task that waits
    /// in what is cancelled, and `None` for a scope and for a task that has not begun.
    fn cancelled(&self, task: Option<ObservedTask<'_>>, reason: CancelReason) {
        let _ = (task, reason);
    }

    /// Called for each message that the library writes to standard error, such as the alarms of a
    /// watchdog and deadlocks, except for dumps. A thread that has nothing else to do calls this
    /// after it has written the message.
    fn reported(&self, text: &str) {
        let _ = text;
    }
}

/// The error of [`set_task_observer`]: the process already has an observer.
#[derive(Debug)]
pub struct TaskObserverTaken(());

impl fmt::Display for TaskObserverTaken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the process has a task observer already; only one can be set, and it stays")
    }
}

impl Error for TaskObserverTaken {}

static OBSERVER: OnceLock<&'static dyn TaskObserver> = OnceLock::new();

/// Installs the process's observer of tasks. It stays for the rest of the process.
///
/// It may be installed at any time. During a run, it takes effect at once on the current thread,
/// and within a few dozen switches on the other workers. Without an observer, a spawn and the end
/// of a task pay one predictable branch for it.
///
/// # Errors
/// Returns [`TaskObserverTaken`] if an observer has been installed before, even the same one.
///
/// # Examples
/// See [`TaskObserver`].
pub fn set_task_observer(observer: &'static dyn TaskObserver) -> Result<(), TaskObserverTaken> {
    OBSERVER.set(observer).map_err(|_| TaskObserverTaken(()))?;
    switch_hook::observe_from_now_on();
    report::observe(reported);
    Ok(())
}

/// Calls the observer, if there is one and this thread is not inside a call already. Returns whether
/// it has been called.
fn call(call: impl FnOnce(&dyn TaskObserver)) -> bool {
    let Some(observer) = OBSERVER.get() else { return false };
    switch_hook::inside(|| guarded(|| call(*observer))).is_some()
}

fn reported(text: &str) {
    call(|observer| observer.reported(text));
}

/// Tells the observer of a new task. Returns `false` if a call of the observer has spawned it.
pub(super) fn spawned(header: &Header) -> bool {
    call(|observer| observer.spawned(ObservedTask::of(header)))
}

/// Tells the observer that a task has ended. Its result is not announced yet.
#[cold]
#[inline(never)]
pub(super) fn ended(header: &Header, how: Ending) {
    let is_unobserved = header.extra.as_ref().is_some_and(|extra| extra.is_unobserved);
    if !is_unobserved && !is_hidden(header) {
        call(|observer| observer.ended(ObservedTask::of(header), how));
    }
}

/// A request whose node must not be used any more when the observer hears of it.
pub(super) struct Request {
    task: Option<(TaskId, Option<String>, &'static Location<'static>)>,
    reason: CancelReason,
}

impl Request {
    /// Copies what the observer is told. Returns `None` if there is no observer.
    pub(super) fn new(owner: Option<&Header>, reason: CancelReason) -> Option<Request> {
        OBSERVER.get()?;
        let task = owner.map(|header| {
            (TaskId::of(header), header.name().map(String::from), header.spawned_at())
        });
        Some(Request { task, reason })
    }

    /// Tells the observer. No lock may be held.
    #[cold]
    pub(super) fn tell(self) {
        let task = self.task.as_ref().map(|(id, name, spawned_at)| ObservedTask {
            id: *id,
            name: name.as_deref(),
            spawned_at,
        });
        call(|observer| observer.cancelled(task, self.reason));
    }
}

/// Returns the place of the spawn of tasks that belong to the library: the questions of dumps.
pub(crate) fn hidden_place() -> &'static Location<'static> {
    Location::caller()
}

/// Returns whether a place is that of a hidden task's spawn.
pub(crate) fn is_hidden_place(place: &Location<'_>) -> bool {
    place.file() == file!()
}

/// Returns whether a task is a hidden one. It is neither shown nor observed.
pub(crate) fn is_hidden(header: &Header) -> bool {
    is_hidden_place(header.spawned_at())
}
