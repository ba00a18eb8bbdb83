//! A runtime, seen from outside.

use std::sync::{Arc, Weak};
use std::{error, fmt};

use crate::diag::{self, TaskTree};
use crate::sched::{self, Pool};
use crate::scope::JoinHandle;

/// Spawns tasks into a runtime's run from any thread.
///
/// # Examples
/// ```
/// use std::thread;
///
/// ecru::run(|| {
///     let handle = ecru::RuntimeHandle::current();
///     let joined = ecru::unblock(|| thread::spawn(move || handle.spawn(|| 5).unwrap().join()).join());
///     assert_eq!(joined.unwrap().unwrap(), 5);
/// });
/// ```
#[derive(Clone, Debug)]
pub struct RuntimeHandle {
    pool: Weak<Pool>,
}

/// The error of [`RuntimeHandle::spawn`]: the runtime has no run going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRunning(());

impl fmt::Display for NotRunning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the runtime has no run going on; spawn while `run` is, or start one")
    }
}

impl error::Error for NotRunning {}

impl RuntimeHandle {
    pub(super) fn new(pool: &Arc<Pool>) -> RuntimeHandle {
        RuntimeHandle { pool: Arc::downgrade(pool) }
    }

    /// The handle of the run that the calling task belongs to.
    ///
    /// # Panics
    /// Outside a run.
    #[must_use]
    #[track_caller]
    pub fn current() -> RuntimeHandle {
        match sched::current_pool() {
            Some(pool) => RuntimeHandle::new(&pool),
            None => {
                panic!(
                    "`RuntimeHandle::current` called outside a run; take `Runtime::handle` instead"
                )
            }
        }
    }

    /// Spawns a task into the run that is going on. The run does not end before the task has.
    ///
    /// # Errors
    /// [`NotRunning`] when there is no run; the closure is dropped without having been called.
    #[track_caller]
    pub fn spawn<F, U>(&self, f: F) -> Result<JoinHandle<'static, U>, NotRunning>
    where
        F: FnOnce() -> U + Send + 'static,
        U: Send + 'static,
    {
        let pool = self.pool.upgrade().ok_or(NotRunning(()))?;
        super::run::spawn_into(&pool, f).ok_or(NotRunning(()))
    }

    /// Every scope and task of the run that is going on: what each is called, where it was spawned, what it waits for, and where.
    /// Empty when there is no run.
    ///
    /// Each worker describes its own tasks between two of them. One that does not come to it within 100 ms, because a task of its
    /// does not wait, is named as busy, with that task's name and the place where it was spawned. Asking works from any thread, also when every task of the run is stuck.
    ///
    /// # Panics
    /// Inside [`no_suspend`](crate::no_suspend).
    ///
    /// # Cancellation
    /// Not a cancel point.
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
}
