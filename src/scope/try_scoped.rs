//! The fail-fast scope: the first error cancels the body and all tasks, and is returned.
#![expect(unsafe_code, reason = "finds the node that a request came from")]

use std::any::Any;
use std::marker::PhantomData;
use std::panic::Location;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;

use super::core::ScopeCore;
use super::frame::Opened;
use super::join::JoinHandle;
use super::options::{Options, Start};
use crate::base::short_trace;
use crate::base::simulated::Untaken;
use crate::base::sync::SpinLock;
use crate::source::Source;
use crate::task::cancel::{self, CancelNode, Kind};
use crate::task::{self, Body, CancelReason, Failure, Work};

/// The tasks of a [`try_scope`].
///
/// # Examples
/// ```
/// use ecru::TryScope;
/// use std::num::ParseIntError;
///
/// /// Spawns a task for each word.
/// fn parse_all<'scope>(s: &'scope TryScope<'scope, '_, ParseIntError>, words: &'scope [&str]) {
///     for word in words {
///         s.spawn(|| word.parse::<u32>());
///     }
/// }
///
/// ecru::run(|| {
///     let words = ["7", "seven"];
///     let outcome = ecru::try_scope(|s| {
///         parse_all(s, &words);
///         Ok(())
///     });
///     assert!(outcome.is_err());
/// });
/// ```
#[derive(Debug)]
pub struct TryScope<'scope, 'env: 'scope, E: 'env> {
    pub(super) core: ScopeCore,
    /// The ancestor of the body's and every child's nodes. The first failure flags it.
    all: CancelNode,
    outcome: SpinLock<ScopeOutcome<E>>,
    _scope: PhantomData<&'scope mut &'scope ()>,
    _env: PhantomData<&'env mut &'env ()>,
}

struct ScopeOutcome<E> {
    /// The highest-ranked error so far. The flag tells whether it came from a task or body that had
    /// already been cancelled.
    error: Option<(bool, E)>,
    panic: Option<(Box<dyn Any + Send>, Untaken)>,
}

/// Opens a scope whose tasks return `Result`, and runs `body` in it. Once every task has ended,
/// returns the body's value or the first error.
///
/// The first `Err` of a task or of the body cancels the body and all tasks, with the reason
/// [`Sibling`](CancelReason::Sibling). A panic does the same and is resumed at the end. An error
/// from a task or body that had already been cancelled ranks below an error from one that had not.
/// So `try_scope` returns the cause and not its consequences. If a task was cancelled on purpose
/// (by its handle, by `s.cancel()`, or as a daemon at the end), its `Err` does not fail the scope.
///
/// # Errors
/// Returns the first error of the highest rank.
///
/// # Panics
/// Panics if called outside a run, or inside [`no_suspend`](crate::no_suspend). Propagates the
/// first panic of a task or of `body`.
///
/// # Cancellation
/// As for [`scope`](fn@crate::scope), the wait at the end is not a cancellation point.
///
/// # Examples
/// ```
/// use std::time::Duration;
///
/// ecru::run(|| {
///     let result: Result<(), String> = ecru::try_scope(|s| {
///         s.spawn(|| {
///             ecru::sleep(Duration::from_secs(3600)).map_err(|cancelled| cancelled.to_string())?;
///             Ok(())
///         });
///         s.spawn(|| Err::<(), _>(String::from("no such host")));
///         Ok(())
///     });
///     assert_eq!(result, Err(String::from("no such host")));
/// });
/// ```
#[track_caller]
pub fn try_scope<'env, F, T, E>(body: F) -> Result<T, E>
where
    F: for<'scope> FnOnce(&'scope TryScope<'scope, 'env, E>) -> Result<T, E>,
    E: Send + 'env,
{
    crate::park::refuse_if_no_suspend();
    let Some(header) = task::current_header() else {
        panic!("`ecru::try_scope` called outside a run; wrap the program in `ecru::run(|| ..)`")
    };
    let scope = TryScope {
        core: ScopeCore::new(ptr::null()),
        all: CancelNode::new(task::current_node(), header, Kind::Plain),
        outcome: SpinLock::new(ScopeOutcome { error: None, panic: None }),
        _scope: PhantomData,
        _env: PhantomData,
    };
    scope.core.group.set_parent(&raw const scope.all);
    let result = {
        let _all = Opened::inside(&scope.all);
        let opened = scope.core.open();
        let body = || short_trace::begin_with(body, &scope);
        let caught = short_trace::end(|| panic::catch_unwind(AssertUnwindSafe(body)));
        let result = match caught {
            Ok(Ok(value)) => Some(value),
            Ok(Err(error)) => {
                scope.fail(error, task::cancelled().is_some());
                None
            }
            Err(payload) => {
                scope.fail_by_panic(payload);
                None
            }
        };
        scope.core.finish();
        scope.core.close();
        drop(opened);
        result
    };
    // Panics may be left that no failure recorded, for example one in the destructor of a closure
    // that never ran.
    let unclaimed = scope.core.unclaimed_panic();
    let outcome =
        std::mem::replace(&mut *scope.outcome.lock(), ScopeOutcome { error: None, panic: None });
    let (payload, unwanted) = match outcome.panic {
        Some((panic, _)) => (Some(panic), unclaimed),
        None => (unclaimed, None),
    };
    // Dropped before the other panic is resumed: a second panic during unwinding would abort the
    // process.
    task::drop_quietly(unwanted);
    if let Some(payload) = payload {
        panic::resume_unwind(payload);
    }
    match (outcome.error, result) {
        (Some((_, error)), _) => Err(error),
        (None, Some(value)) => Ok(value),
        (None, None) => unreachable!("a body without a value has left an error or a panic"),
    }
}

impl<'scope, 'env, E: Send> TryScope<'scope, 'env, E> {
    /// Spawns a task; see [`Scope::spawn`](crate::Scope::spawn). If it returns an `Err`, the scope
    /// fails, and `join` returns [`JoinError::Failed`](crate::JoinError::Failed).
    ///
    /// # Panics
    /// Panics if the calling thread runs no tasks of this scope's run.
    #[track_caller]
    pub fn spawn<F, U>(&'scope self, f: F) -> JoinHandle<'scope, U>
    where
        F: FnOnce() -> Result<U, E> + Send + 'scope,
        U: Send + 'scope,
    {
        self.spawn_with(f, Options::default(), Start::Anywhere)
    }

    /// Spawns a task on the caller's own worker; see
    /// [`Scope::spawn_local`](crate::Scope::spawn_local).
    ///
    /// # Panics
    /// Panics if the calling thread is not a worker of this scope's run.
    #[track_caller]
    pub fn spawn_local<F, U>(&'scope self, f: F) -> JoinHandle<'scope, U>
    where
        F: FnOnce() -> Result<U, E> + 'scope,
        U: 'scope,
    {
        self.spawn_with(f, Options::default(), Start::Here)
    }

    /// Spawns a daemon; see [`Scope::spawn_daemon`](crate::Scope::spawn_daemon). An `Err` that it
    /// returns before it is cancelled at the scope's end fails the scope.
    ///
    /// # Panics
    /// Panics if the calling thread runs no tasks of this scope's run.
    #[track_caller]
    pub fn spawn_daemon<F>(&'scope self, f: F)
    where
        F: FnOnce() -> Result<(), E> + Send + 'scope,
    {
        self.spawn_with(f, Options::daemon(), Start::Anywhere);
    }

    /// Spawns a task that begins when `source` has an item, and gets that item. Until then the task
    /// has neither a stack nor a worker.
    ///
    /// This is for programs with many tasks that wait for their first piece of work. The task
    /// starts on a worker that has little to do at that moment, see
    /// [`Placement`](crate::Placement). To handle more than one item, the task spawns its successor
    /// or goes on with the source itself.
    ///
    /// The source is dropped after it has yielded its item. It may be dropped on any thread and
    /// inside [`no_suspend`](crate::no_suspend). Once an item has been taken, the task begins, even
    /// if it has been cancelled since.
    ///
    /// # Panics
    /// Panics if the calling thread runs no tasks of this scope's run. A panic in the source, such
    /// as in a filter, becomes the task's panic.
    ///
    /// # Cancellation
    /// If the task is cancelled before there is an item, nothing is taken from the source, and `f`
    /// is dropped without being called. `join` then returns
    /// [`JoinError::Cancelled`](crate::JoinError::Cancelled).
    ///
    /// # Examples
    /// ```
    /// use ecru::channel::{self, RecvError};
    ///
    /// let (tx, rx) = channel::bounded::<u32>(1);
    /// let done = ecru::run(|| {
    ///     ecru::try_scope(|s| -> Result<(), RecvError> {
    ///         s.spawn_when(&rx, |first| first.map(|n| assert_eq!(n, 7)));
    ///         tx.send(7).unwrap();
    ///         Ok(())
    ///     })
    /// });
    /// assert!(done.is_ok());
    /// ```
    #[track_caller]
    pub fn spawn_when<S, F, U>(&'scope self, source: S, f: F) -> JoinHandle<'scope, U>
    where
        S: Source + Send + 'scope,
        S::Item: Send + 'scope,
        F: FnOnce(S::Item) -> Result<U, E> + Send + 'scope,
        U: Send + 'scope,
    {
        self.core.spawn_when(source, |item| Trying { closure: move || f(item), scope: self })
    }

    /// Cancels every task of the scope, but not the body; see
    /// [`Scope::cancel`](crate::Scope::cancel). Errors that the tasks return afterwards do not fail
    /// the scope.
    pub fn cancel(&self) {
        self.core.cancel(CancelReason::Explicit);
    }

    #[track_caller]
    pub(super) fn spawn_with<F, U>(
        &'scope self,
        f: F,
        options: Options,
        start: Start,
    ) -> JoinHandle<'scope, U>
    where
        F: FnOnce() -> Result<U, E> + 'scope,
    {
        self.spawn_with_at(Location::caller(), f, options, start)
    }

    #[track_caller]
    pub(super) fn spawn_with_at<F, U>(
        &'scope self,
        at: &'static Location<'static>,
        f: F,
        options: Options,
        start: Start,
    ) -> JoinHandle<'scope, U>
    where
        F: FnOnce() -> Result<U, E> + 'scope,
    {
        self.core.spawn_at(at, Trying { closure: f, scope: self }, options, start)
    }
}

impl<E> TryScope<'_, '_, E> {
    /// Passes the error of the running task to the scope, unless the task was cancelled on purpose.
    /// Returns the failure of the task.
    pub(super) fn failure_by(&self, error: E) -> Failure {
        if self.on_purpose() {
            task::drop_quietly(error);
        } else {
            self.fail(error, task::cancelled().is_some());
        }
        Failure::Failed
    }

    fn fail(&self, error: E, asked: bool) {
        let dropped = {
            let mut outcome = self.outcome.lock();
            match &outcome.error {
                Some((better, _)) if !*better || asked => Some(error),
                _ => outcome.error.replace((asked, error)).map(|(_, worse)| worse),
            }
        };
        // The error is dropped outside the lock, because its destructor is user code.
        task::drop_quietly(dropped);
        cancel::cancel(&self.all, CancelReason::Sibling);
    }

    pub(super) fn fail_by_panic(&self, payload: Box<dyn Any + Send>) {
        let untaken = task::hold(&*payload);
        let panic = (payload, untaken);
        let dropped = {
            let mut outcome = self.outcome.lock();
            if outcome.panic.is_some() { Some(panic) } else { outcome.panic.replace(panic) }
        };
        task::drop_quietly(dropped);
        cancel::cancel(&self.all, CancelReason::Sibling);
    }

    /// Returns whether the running task was cancelled on purpose. That is so if the request was
    /// made to the task itself, to the scope's group or to its daemons, and not to a node further
    /// up.
    fn on_purpose(&self) -> bool {
        let Some(header) = task::current_header() else { return false };
        // SAFETY: K1: the running task's ancestors outlive it.
        let origin = unsafe { cancel::flagged_by(&raw const header.node) };
        origin.is_some_and(|origin| {
            [&header.node, &self.core.group, &self.core.daemons]
                .into_iter()
                .any(|node| ptr::eq(node, origin))
        })
    }
}

impl<E> std::fmt::Debug for ScopeOutcome<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outcome").field("failed", &self.error.is_some()).finish_non_exhaustive()
    }
}

/// The body of a task of a fail-fast scope.
struct Trying<'s, 'scope, 'env, F, E> {
    closure: F,
    scope: &'s TryScope<'scope, 'env, E>,
}

impl<F: FnOnce() -> Result<U, E>, U, E> Work for Trying<'_, '_, '_, F, E> {
    type Output = U;
}

impl<F: FnOnce() -> Result<U, E>, U, E> Body for Trying<'_, '_, '_, F, E> {
    fn run(self) -> Result<U, Failure> {
        let closure = || short_trace::begin(self.closure);
        match panic::catch_unwind(AssertUnwindSafe(closure)) {
            Ok(outcome) => outcome.map_err(|error| self.scope.failure_by(error)),
            Err(payload) => {
                self.scope.fail_by_panic(payload);
                Err(Failure::Failed)
            }
        }
    }
}
