//! Where hyper's background futures run: each is a task.

use std::future::Future;

use ecru::{RuntimeHandle, Scope};
use hyper::rt::Executor;

/// Runs each future as a task of a scope, which may borrow what the scope may. So the streams of an HTTP/2 connection have ended
/// when the scope has, and are cancelled with it.
///
/// A future that its task's cancellation ends is dropped. A panic in one is the scope's.
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
    /// An executor for this scope.
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
            // Cancelled: the future has been dropped, and nobody waits for its output.
            let _ = ecru::block_on(future);
        });
    }
}

/// Runs each future as a task of the run, which is awaited, or cancelled, at the end of the run only. Where it can be, prefer a
/// [`ScopeExecutor`].
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
    /// An executor for the run that the caller is in.
    ///
    /// # Panics
    /// Outside a run of ecru.
    #[must_use]
    #[track_caller]
    #[expect(clippy::new_without_default, reason = "it depends on the place, and may panic")]
    pub fn new() -> Self {
        RunExecutor { run: RuntimeHandle::current() }
    }
}

impl<F> Executor<F> for RunExecutor
where
    F: Future + Send + 'static,
{
    /// After the end of the run the future is dropped.
    fn execute(&self, future: F) {
        let _ = self.run.spawn(move || {
            let _ = ecru::block_on(future);
        });
    }
}
