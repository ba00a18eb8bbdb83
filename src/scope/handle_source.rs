//! Join handles as sources: the end of a task can be one of several things to wait for.
//!
//! A task hands its result to no particular waiter. When the task has ended, it notifies all
//! waiters, and the first of them that asks takes the result. So if another source wins a race,
//! nothing has been taken from the task.

use super::join::JoinHandle;
use super::join_error::JoinError;
use super::shared_handle::SharedHandle;
use crate::park::WaitList;
use crate::source::{Arms, Source, SourceFuture, Won};

/// The source yields the task's result once. After that it yields [`JoinError::Taken`] at once.
impl<T> Source for JoinHandle<'_, T> {
    type Item = Result<T, JoinError>;

    fn try_take(&self) -> Option<Self::Item> {
        self.is_finished().then(|| self.take())
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        each(self.header().announce_to_joiners());
    }

    fn __register<'a>(&'a self, arms: &mut Arms<'a>) {
        arms.notified(|| self.header().announce_to_joiners());
    }

    fn __finish(&self, won: &Won<'_>) -> Option<Self::Item> {
        if won.is_of(&self.header().joiners) { self.try_take() } else { None }
    }
}

impl<'scope, T> JoinHandle<'scope, T> {
    /// Returns a future of the task's result, for use with other runtimes. Dropping the future
    /// detaches the task, as dropping the handle does.
    ///
    /// # Examples
    /// ```
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let future = s.spawn(|| 6 * 7).into_future();
    ///         assert_eq!(ecru::block_on(future).unwrap().unwrap(), 42);
    ///     });
    /// });
    /// ```
    pub fn into_future(self) -> SourceFuture<JoinHandle<'scope, T>> {
        Source::to_future(self)
    }
}

impl<'scope, T> IntoFuture for JoinHandle<'scope, T> {
    type Output = Result<T, JoinError>;
    type IntoFuture = SourceFuture<JoinHandle<'scope, T>>;

    fn into_future(self) -> Self::IntoFuture {
        Source::to_future(self)
    }
}

/// The source yields a clone of the task's result, any number of times.
impl<T: Clone + Sync> Source for SharedHandle<'_, T> {
    type Item = Result<T, JoinError>;

    fn try_take(&self) -> Option<Self::Item> {
        self.is_finished().then(|| self.copy())
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        self.inner.handle.waiters(each);
    }

    fn __register<'a>(&'a self, arms: &mut Arms<'a>) {
        self.inner.handle.__register(arms);
    }

    fn __finish(&self, won: &Won<'_>) -> Option<Self::Item> {
        if won.is_of(&self.inner.handle.header().joiners) { self.try_take() } else { None }
    }
}

impl<'scope, T: Clone + Sync> SharedHandle<'scope, T> {
    /// Returns a future of a clone of the task's result, for use with other runtimes.
    pub fn into_future(self) -> SourceFuture<SharedHandle<'scope, T>> {
        Source::to_future(self)
    }
}

impl<'scope, T: Clone + Sync> IntoFuture for SharedHandle<'scope, T> {
    type Output = Result<T, JoinError>;
    type IntoFuture = SourceFuture<SharedHandle<'scope, T>>;

    fn into_future(self) -> Self::IntoFuture {
        Source::to_future(self)
    }
}
