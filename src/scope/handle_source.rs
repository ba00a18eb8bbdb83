//! Handles as sources: the end of a task among other things that are waited for.
//!
//! Nothing is handed over. Whoever waits is notified when the task has ended, all of them at once, and then takes the result if
//! nobody has; so a race that another source wins has taken nothing from the task.

use super::join::JoinHandle;
use super::join_error::JoinError;
use super::shared_handle::SharedHandle;
use crate::park::WaitList;
use crate::source::{Arms, Source, SourceFuture, Won};

/// The task's result, once; afterwards [`JoinError::Taken`], at once.
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
    /// A future of the task's result, for other people's runtimes. Dropping it detaches the task, as dropping the handle does.
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

/// A copy of the task's result, for everybody and for ever.
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
    /// A future of a copy of the task's result, for other people's runtimes.
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
