//! A runtime as seen by other threads.

use std::io::{self, Write};
use std::sync::{Arc, Weak};
use std::{error, fmt};

use super::run::{Runtime, new_future, new_task, spawn_into};
use crate::diag::{self, Metrics, Recorder, TaskTree};
use crate::sched::{self, Pool};
use crate::scope::JoinHandle;

/// A handle to a runtime, with which any thread can spawn tasks into its run.
///
/// # Examples
/// ```
/// use std::thread;
///
/// ecru::run(|| {
///     let handle = ecru::RuntimeHandle::current();
///     let joined =
///         ecru::unblock(|| thread::spawn(move || handle.spawn(|| 5).unwrap().join()).join());
///     assert_eq!(joined.unwrap().unwrap(), 5);
/// });
/// ```
#[derive(Clone, Debug)]
pub struct RuntimeHandle {
    pool: Weak<Pool>,
}

/// The error of [`RuntimeHandle::spawn`]: the runtime is not running.
///
/// # Examples
/// ```
/// let runtime = ecru::Runtime::builder().workers(1).build()?;
/// let handle = runtime.handle();
/// // There is no run yet.
/// assert!(handle.spawn(|| 7).is_err());
/// runtime.run(|| assert_eq!(handle.spawn(|| 7).unwrap().join().unwrap(), 7));
/// # std::io::Result::Ok(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRunning(());

impl fmt::Display for NotRunning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the runtime has no run; call `spawn` while `Runtime::run` is active")
    }
}

impl error::Error for NotRunning {}

impl Runtime {
    /// Returns a handle with which other threads can spawn tasks into this runtime's run.
    #[must_use]
    pub fn handle(&self) -> RuntimeHandle {
        RuntimeHandle::new(&self.pool)
    }
}

impl RuntimeHandle {
    fn new(pool: &Arc<Pool>) -> RuntimeHandle {
        RuntimeHandle { pool: Arc::downgrade(pool) }
    }

    /// Returns the handle of the run to which the calling task belongs.
    ///
    /// # Panics
    /// Panics outside a run.
    #[must_use]
    #[track_caller]
    pub fn current() -> RuntimeHandle {
        match sched::current_pool() {
            Some(pool) => RuntimeHandle::new(&pool),
            None => {
                panic!(
                    "`RuntimeHandle::current` called outside a run; use `Runtime::handle` instead"
                )
            }
        }
    }

    /// Spawns a task into the current run. The run does not end before the task has ended.
    ///
    /// # Errors
    /// Returns [`NotRunning`] if there is no run. The closure is dropped without being called.
    #[track_caller]
    pub fn spawn<F, U>(&self, f: F) -> Result<JoinHandle<'static, U>, NotRunning>
    where
        F: FnOnce() -> U + Send + 'static,
        U: Send + 'static,
    {
        let pool = self.pool.upgrade().ok_or(NotRunning(()))?;
        spawn_into(&pool, new_task(f)).ok_or(NotRunning(()))
    }

    /// Spawns a task into the current run that polls a future to its end; see
    /// [`Scope::spawn_future`](crate::Scope::spawn_future). The run does not end before the task
    /// has ended.
    ///
    /// # Errors
    /// Returns [`NotRunning`] if there is no run. The future is dropped without being polled.
    ///
    /// # Cancellation
    /// Cancellation has the same effect as in [`Scope::spawn_future`](crate::Scope::spawn_future).
    ///
    /// # Examples
    /// ```
    /// let runtime = ecru::Runtime::builder().build()?;
    /// let handle = runtime.handle();
    /// runtime.run(|| {
    ///     let task = handle.spawn_future(async { 6 * 7 }).unwrap();
    ///     assert_eq!(task.join().unwrap(), 42);
    /// });
    /// assert!(handle.spawn_future(async {}).is_err(), "the run is over");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[track_caller]
    pub fn spawn_future<F>(&self, future: F) -> Result<JoinHandle<'static, F::Output>, NotRunning>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let pool = self.pool.upgrade().ok_or(NotRunning(()))?;
        spawn_into(&pool, new_future(future)).ok_or(NotRunning(()))
    }

    /// Returns every scope and task of the current run: each task's name, where it was spawned,
    /// what it waits for, and where. The tree is empty if there is no run.
    ///
    /// Each worker describes its own tasks before it runs its next one. If a worker does not begin
    /// within 100 ms because a task does not wait, it is listed as busy, with the name of that task
    /// and the place where it was spawned. The call works from any thread, even if every task of
    /// the run is stuck.
    ///
    /// # Panics
    /// Panics if called inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    ///
    /// # Examples
    /// ```
    /// ecru::run(|| {
    ///     let tree = ecru::RuntimeHandle::current().dump();
    ///     assert_eq!(tree.tasks().count(), 1);
    ///     assert!(tree.tasks().all(|task| task.is_root()));
    /// });
    /// ```
    #[must_use]
    #[track_caller]
    pub fn dump(&self) -> TaskTree {
        self.pool.upgrade().map(|pool| diag::dump(&pool)).unwrap_or_default()
    }

    /// Makes a [dump](RuntimeHandle::dump), and searches the memory of the process for leaked tasks:
    /// those that wait for a value of a channel, or for room in it, while only leaked tasks have
    /// handles of that channel. See [`TaskTree::leaks`].
    ///
    /// The command `ecru dump` and [`dump_on_signal`](crate::RuntimeBuilder::dump_on_signal) make the
    /// same search. It is made only if a task has waited for a channel for at least a second. It runs
    /// on a thread of its own, and takes some milliseconds for each megabyte of memory. If the
    /// process has more than 512 MiB of resident memory (128 MiB in a debug build), or `/proc` is not
    /// there, no such leaks are found.
    ///
    /// # Panics
    /// Panics if called inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    ///
    /// # Examples
    /// ```
    /// let runtime = ecru::Runtime::builder().workers(1).build()?;
    /// let handle = runtime.handle();
    /// runtime.run(|| {
    ///     for leak in handle.find_leaks().leaks() {
    ///         println!("{leak}");
    ///     }
    /// });
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn find_leaks(&self) -> TaskTree {
        self.pool.upgrade().map(|pool| diag::dump_with_leaks(&pool)).unwrap_or_default()
    }

    /// Returns the numbers of the runtime: its tasks by what they do, operations, timers, threads and
    /// stacks. Without a run there are no tasks. If the runtime has been dropped, all numbers are 0.
    ///
    /// Each worker counts its own tasks between two of them, which takes some nanoseconds for each
    /// task. A worker that does not begin within 100 ms is listed as busy. With a
    /// [recorder](crate::RuntimeBuilder::record), the caller also reads all recorded events.
    ///
    /// # Panics
    /// Panics if called inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// This is not a cancellation point.
    ///
    /// # Examples
    /// ```
    /// let runtime = ecru::Runtime::builder().workers(1).build()?;
    /// let handle = runtime.handle();
    /// assert_eq!(runtime.run(|| handle.metrics().live), 1);
    /// assert_eq!(handle.metrics().live, 0);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    #[track_caller]
    pub fn metrics(&self) -> Metrics {
        self.pool.upgrade().map(|pool| diag::measure(&pool)).unwrap_or_default()
    }

    /// Returns the flight recorder of the runtime, or `None` if it records nothing or has been
    /// dropped. The recorder can be read after the runtime has gone.
    ///
    /// # Examples
    /// See [`Recorder`].
    #[must_use]
    pub fn recorder(&self) -> Option<Recorder> {
        self.pool.upgrade()?.recorder.clone().map(Recorder::new)
    }

    /// Writes the last events of each worker in the JSON format of Chrome's trace viewer, which
    /// [Perfetto](https://ui.perfetto.dev) reads. See [`Recorder::write_trace`].
    ///
    /// # Errors
    /// Returns an error of kind `Unsupported` if the runtime records nothing (see
    /// [`record`](crate::RuntimeBuilder::record)) or has been dropped, and the errors of `out`.
    ///
    /// # Cancellation
    /// This is not a cancellation point, unless writing to `out` is one.
    ///
    /// # Examples
    /// ```
    /// let runtime = ecru::Runtime::builder().workers(1).record(1 << 16).build()?;
    /// let trace = runtime.run(|| {
    ///     ecru::diag::mark("the beginning");
    ///     let mut trace = Vec::new();
    ///     ecru::RuntimeHandle::current().record_to(&mut trace).map(|()| trace)
    /// });
    /// assert!(String::from_utf8(trace?).unwrap().contains("the beginning"));
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn record_to(&self, out: impl Write) -> io::Result<()> {
        match self.recorder() {
            Some(recorder) => recorder.write_trace(out),
            None => Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the runtime records nothing, or has been dropped; set `Runtime::builder().record(1 << 20)`, and call this \
                 while the runtime exists",
            )),
        }
    }
}
