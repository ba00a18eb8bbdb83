//! A runtime, seen from outside.

use std::sync::{Arc, Weak};
use std::{error, fmt};

use crate::sched::{self, Pool};
use crate::scope::JoinHandle;

/// Spawns tasks into a runtime's run from any thread.
///
/// # Examples
/// ```
/// use std::thread;
///
/// ecru::run(|| {
///     let handle = ecru::Handle::current();
///     let joined = ecru::unblock(|| thread::spawn(move || handle.spawn(|| 5).unwrap().join()).join());
///     assert_eq!(joined.unwrap().unwrap(), 5);
/// });
/// ```
#[derive(Clone, Debug)]
pub struct Handle {
    pool: Weak<Pool>,
}

/// The error of [`Handle::spawn`]: the runtime has no run going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRunning(());

impl fmt::Display for NotRunning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the runtime has no run going on; spawn while `run` is, or start one")
    }
}

impl error::Error for NotRunning {}

impl Handle {
    pub(super) fn new(pool: &Arc<Pool>) -> Handle {
        Handle { pool: Arc::downgrade(pool) }
    }

    /// The handle of the run that the calling task belongs to.
    ///
    /// # Panics
    /// Outside a run.
    #[must_use]
    #[track_caller]
    pub fn current() -> Handle {
        match sched::current_pool() {
            Some(pool) => Handle::new(&pool),
            None => {
                panic!("`Handle::current` called outside a run; take `Runtime::handle` instead")
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
}
