//! The executors of hyper's background futures: each future is a task.

use std::future::Future;

use ecru::{RuntimeHandle, Scope};
use hyper::rt::Executor;

/// An executor that runs each future as a task of a scope. The futures may borrow what the scope
/// may. The streams of an HTTP/2 connection have therefore ended when the scope has, and are
/// cancelled with it.
///
/// If a task is cancelled, its future is dropped. A panic in a future is a panic of the scope.
///
/// # Examples
/// ```
/// use ecru_hyper::ScopeExecutor;
/// use hyper::rt::Executor;
///
/// let word = String::from("borrowed");
/// ecru::run(|| {
///     ecru::scope(|s| ScopeExecutor::new(s).execute(async { assert_eq!(word, "borrowed") }));
/// });
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ScopeExecutor<'scope, 'env: 'scope> {
    scope: &'scope Scope<'scope, 'env>,
}

impl<'scope, 'env> ScopeExecutor<'scope, 'env> {
    /// Creates an executor for this scope.
    #[must_use]
    pub fn new(scope: &'scope Scope<'scope, 'env>) -> Self {
        ScopeExecutor { scope }
    }
}

impl<'scope, F> Executor<F> for ScopeExecutor<'scope, '_>
where
    F: Future + Send + 'scope,
{
    fn execute(&self, future: F) {
        self.scope.spawn(move || {
            // If the wait was cancelled, the future has been dropped, and its output is not needed.
            let _ = ecru::block_on(future);
        });
    }
}

/// An executor that runs each future as a task of the run. The task is awaited, or cancelled, only
/// at the end of the run. Prefer a [`ScopeExecutor`] where possible.
///
/// # Examples
/// ```
/// use ecru_hyper::RunExecutor;
/// use hyper::rt::Executor;
///
/// ecru::run(|| RunExecutor::new().execute(async { println!("somewhere in the run") }));
/// ```
#[derive(Clone, Debug)]
pub struct RunExecutor {
    run: RuntimeHandle,
}

impl RunExecutor {
    /// Creates an executor for the run that the caller is in.
    ///
    /// # Panics
    /// Panics outside a run of ecru.
    #[must_use]
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "it depends on the current run, and may panic")]
    pub fn new() -> Self {
        RunExecutor { run: RuntimeHandle::current() }
    }
}

impl<F> Executor<F> for RunExecutor
where
    F: Future + Send + 'static,
{
    /// Spawns a task for the future. After the end of the run the future is dropped.
    fn execute(&self, future: F) {
        let _ = self.run.spawn(move || {
            let _ = ecru::block_on(future);
        });
    }
}
