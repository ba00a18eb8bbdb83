//! Tasks whose work is a future: [`Scope::spawn_future`].
#![expect(unsafe_code, reason = "polls a pinned field")]

use std::any::Any;
use std::panic::Location;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::builder::{TaskBuilder, TryTaskBuilder};
use super::join::JoinHandle;
use super::options::{Options, Start};
use super::scoped::Scope;
use super::try_scoped::TryScope;
use crate::base::short_trace;
use crate::task::{self, Failure, PolledBody, Work};

/// The future of a task of a plain scope.
pub(crate) struct PlainFuture<F>(pub(crate) F);

impl<F: Future> Work for PlainFuture<F> {
    type Output = F::Output;
}

impl<F: Future> PolledBody for PlainFuture<F> {
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<F::Output, Failure>> {
        // SAFETY: T8: the field is pinned as this struct is, which has no other use of it.
        let future = unsafe { self.map_unchecked_mut(|body| &mut body.0) };
        short_trace::begin(|| future.poll(cx)).map(Ok)
    }

    fn panicked(&self, payload: Box<dyn Any + Send>) -> Failure {
        Failure::Panicked(task::located(payload))
    }
}

/// The future of a task of a fail-fast scope.
struct TryingFuture<'s, 'scope, 'env, F, E> {
    future: F,
    scope: &'s TryScope<'scope, 'env, E>,
}

impl<F: Future<Output = Result<U, E>>, U, E> Work for TryingFuture<'_, '_, '_, F, E> {
    type Output = U;
}

impl<F: Future<Output = Result<U, E>>, U, E> PolledBody for TryingFuture<'_, '_, '_, F, E> {
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<U, Failure>> {
        let scope = self.scope;
        // SAFETY: T8: the field is pinned as this struct is, which has no other use of it.
        let future = unsafe { self.map_unchecked_mut(|body| &mut body.future) };
        let outcome = ready!(short_trace::begin(|| future.poll(cx)));
        Poll::Ready(outcome.map_err(|error| scope.failure_by(error)))
    }

    fn panicked(&self, payload: Box<dyn Any + Send>) -> Failure {
        self.scope.fail_by_panic(payload);
        Failure::Failed
    }
}

impl<'scope> Scope<'scope, '_> {
    /// Spawns a task that polls a future to its end. While the future is pending, the task has no
    /// stack: it takes the size of its future and at most 256 bytes.
    ///
    /// It is a task like any other. It may start on any worker, stays there afterwards, may borrow
    /// from outside the scope, can be named, joined and cancelled, and is shown in dumps. Use it
    /// for the futures of other crates, above all where there are many: a connection that is served
    /// by hyper, a stream that is read by a codec. Write your own code in direct style, in
    /// [`spawn`](Scope::spawn).
    ///
    /// The future is polled on a stack of its worker with 1 MiB, which all such tasks of the worker
    /// share. [`stack_size`](TaskBuilder::stack_size) asks for more. A poll cannot wait in direct
    /// style: inside it, each call that may wait panics, as in [`no_suspend`](crate::no_suspend).
    /// Await a [future of a source](crate::Source::to_future) or of a [handle](JoinHandle) instead,
    /// or [spawn](Scope::spawn) a task that may wait. A panic hook that waits aborts the process if
    /// the panic was in a poll.
    ///
    /// Its wakers may be called and dropped on any thread, also after the scope has ended. This
    /// future, as any other, is polled only when one of them has been called. It may use the timers
    /// and sockets of another runtime if that runtime does not have to poll it itself.
    ///
    /// # Panics
    /// Panics if the calling thread runs no tasks of this scope's run. If the future panics, the
    /// task has panicked.
    ///
    /// # Cancellation
    /// A task that is cancelled before its first poll never begins. If it is cancelled later, its
    /// future is polled once more. If it is then still pending, it is dropped, on its worker, and
    /// `join` returns [`JoinError::Cancelled`](crate::JoinError::Cancelled). The destructor of a
    /// future cannot wait either.
    ///
    /// # Examples
    /// ```
    /// use ecru::Source;
    /// use ecru::channel;
    ///
    /// let sum = ecru::run(|| {
    ///     let (tx, rx) = channel::bounded::<u32>(1);
    ///     ecru::scope(|s| {
    ///         let sum = s.spawn_future(async {
    ///             let (mut next, mut sum) = ((&rx).to_future(), 0);
    ///             while let Ok(number) = (&mut next).await {
    ///                 sum += number;
    ///             }
    ///             sum
    ///         });
    ///         s.spawn(move || (1..=4).for_each(|number| tx.send(number).unwrap()));
    ///         sum.join().unwrap()
    ///     })
    /// });
    /// assert_eq!(sum, 10);
    /// ```
    #[track_caller]
    pub fn spawn_future<F>(&'scope self, future: F) -> JoinHandle<'scope, F::Output>
    where
        F: Future + Send + 'scope,
        F::Output: Send + 'scope,
    {
        self.builder().spawn_future(future)
    }

    /// Spawns a task that polls a future on the caller's own worker, as
    /// [`spawn_future`](Scope::spawn_future) does. Neither the future nor its output need be `Send`.
    ///
    /// # Panics
    /// Panics if the calling thread is not a worker of this scope's run.
    ///
    /// # Examples
    /// ```
    /// use std::cell::Cell;
    ///
    /// ecru::run(|| {
    ///     let count = Cell::new(1);
    ///     ecru::scope(|s| s.spawn_local_future(async { count.set(2) }).join().unwrap());
    ///     assert_eq!(count.get(), 2);
    /// });
    /// ```
    #[track_caller]
    pub fn spawn_local_future<F>(&'scope self, future: F) -> JoinHandle<'scope, F::Output>
    where
        F: Future + 'scope,
        F::Output: 'scope,
    {
        self.builder().spawn_local_future(future)
    }
}

impl<'scope> TaskBuilder<'scope, '_> {
    /// Spawns the configured task with a future, as [`Scope::spawn_future`] does.
    ///
    /// # Panics
    /// Panics if the calling thread runs no tasks of this scope's run.
    #[track_caller]
    pub fn spawn_future<F>(self, future: F) -> JoinHandle<'scope, F::Output>
    where
        F: Future + Send + 'scope,
        F::Output: Send + 'scope,
    {
        let start = self.options.start();
        self.scope.core.spawn_future_at(self.place(), PlainFuture(future), self.options, start)
    }

    /// Spawns the configured task with a future on the caller's own worker, as
    /// [`Scope::spawn_local_future`] does.
    ///
    /// # Panics
    /// Panics if the calling thread is not a worker of this scope's run.
    #[track_caller]
    pub fn spawn_local_future<F>(self, future: F) -> JoinHandle<'scope, F::Output>
    where
        F: Future + 'scope,
        F::Output: 'scope,
    {
        let body = PlainFuture(future);
        self.scope.core.spawn_future_at(self.place(), body, self.options, Start::Here)
    }
}

impl<'scope, E: Send> TryScope<'scope, '_, E> {
    /// Spawns a task that polls a future to its end; see [`Scope::spawn_future`]. If the future
    /// returns `Err`, the scope fails with that error.
    ///
    /// # Panics
    /// Panics if the calling thread runs no tasks of this scope's run.
    ///
    /// # Cancellation
    /// Cancellation has the same effect as in [`Scope::spawn_future`].
    ///
    /// # Examples
    /// ```
    /// let outcome = ecru::run(|| {
    ///     ecru::try_scope(|s| {
    ///         s.spawn_future(async { Err::<(), _>("broken") });
    ///         Ok(())
    ///     })
    /// });
    /// assert_eq!(outcome, Err("broken"));
    /// ```
    #[track_caller]
    pub fn spawn_future<F, U>(&'scope self, future: F) -> JoinHandle<'scope, U>
    where
        F: Future<Output = Result<U, E>> + Send + 'scope,
        U: Send + 'scope,
    {
        self.builder().spawn_future(future)
    }

    /// Spawns a task that polls a future on the caller's own worker; see
    /// [`Scope::spawn_local_future`]. If the future returns `Err`, the scope fails with that error.
    ///
    /// # Panics
    /// Panics if the calling thread is not a worker of this scope's run.
    #[track_caller]
    pub fn spawn_local_future<F, U>(&'scope self, future: F) -> JoinHandle<'scope, U>
    where
        F: Future<Output = Result<U, E>> + 'scope,
        U: 'scope,
    {
        self.builder().spawn_local_future(future)
    }

    fn spawn_future_with<F, U>(
        &'scope self,
        at: &'static Location<'static>,
        future: F,
        options: Options,
        start: Start,
    ) -> JoinHandle<'scope, U>
    where
        F: Future<Output = Result<U, E>> + 'scope,
    {
        self.core.spawn_future_at(at, TryingFuture { future, scope: self }, options, start)
    }
}

impl<'scope, E: Send> TryTaskBuilder<'scope, '_, E> {
    /// Spawns the configured task with a future, as [`TryScope::spawn_future`] does.
    ///
    /// # Panics
    /// Panics if the calling thread runs no tasks of this scope's run.
    #[track_caller]
    pub fn spawn_future<F, U>(self, future: F) -> JoinHandle<'scope, U>
    where
        F: Future<Output = Result<U, E>> + Send + 'scope,
        U: Send + 'scope,
    {
        let start = self.options.start();
        self.scope.spawn_future_with(self.place(), future, self.options, start)
    }

    /// Spawns the configured task with a future on the caller's own worker, as
    /// [`TryScope::spawn_local_future`] does.
    ///
    /// # Panics
    /// Panics if the calling thread is not a worker of this scope's run.
    #[track_caller]
    pub fn spawn_local_future<F, U>(self, future: F) -> JoinHandle<'scope, U>
    where
        F: Future<Output = Result<U, E>> + 'scope,
        U: 'scope,
    {
        self.scope.spawn_future_with(self.place(), future, self.options, Start::Here)
    }
}
