//! Builders that configure a task before it is spawned.

use std::panic::Location;

use super::join::JoinHandle;
use super::options::{Options, Start};
use super::scoped::{Plain, Scope};
use super::try_scoped::TryScope;
use crate::task;

macro_rules! builder {
    ($(#[$attribute:meta])* $name:ident<$($parameter:tt),+>, $scope:ty) => {
        $(#[$attribute])*
        #[derive(Debug)]
        #[must_use = "a builder does nothing before one of its spawn methods is called"]
        pub struct $name<$($parameter),+> {
            pub(super) scope: &'scope $scope,
            pub(super) options: Options,
            /// Where the task is said to be spawned, if not where the spawn method is called.
            at: Option<&'static Location<'static>>,
        }

        impl<$($parameter),+> $name<$($parameter),+> {
            fn new(scope: &'scope $scope) -> Self {
                $name { scope, options: Options::default(), at: None }
            }

            /// Sets where the task is said to be spawned. It is for the crates of this project: a
            /// function that spawns tasks for its caller names the place of its own call.
            #[doc(hidden)]
            pub fn __spawned_at(mut self, at: &'static Location<'static>) -> Self {
                self.at = Some(at);
                self
            }

            #[track_caller]
            pub(super) fn place(&self) -> &'static Location<'static> {
                match self.at {
                    Some(at) => at,
                    None => Location::caller(),
                }
            }

            /// Sets the task's name, which [`task::current`](crate::task::current), handles and
            /// messages show.
            pub fn name(mut self, name: impl Into<String>) -> Self {
                self.options.extra().name = Some(name.into());
                self
            }

            /// Gives the task a stack of its own with at least `bytes` usable bytes, instead of one
            /// of the runtime's stacks. The size is rounded up to whole pages. The stack is mapped
            /// when the task starts and unmapped when it ends.
            ///
            /// # Panics
            /// Panics if `bytes` is less than 16 KiB.
            #[track_caller]
            pub fn stack_size(mut self, bytes: usize) -> Self {
                self.options.set_stack_size(bytes);
                self
            }

            /// Starts the task on the worker of its spawner. This suits a task that computes little
            /// and communicates much with its spawner, or with other tasks that are spawned this
            /// way.
            ///
            /// Without `near`, a task that waits may start on another worker, see
            /// [`Placement`](crate::Placement). Each message between the two tasks then crosses
            /// from one core to another, which takes several times as long. Unlike the closure of
            /// `spawn_local`, the closure of such a task must be `Send`. So a call to `near` can be
            /// added or removed at any time.
            ///
            /// # Examples
            /// ```
            /// use ecru::channel;
            ///
            /// let sum = ecru::run(|| {
            ///     ecru::scope(|s| {
            ///         let (tx, rx) = channel::bounded::<u32>(0);
            ///         let sum = s.builder().near().spawn(move || rx.iter().sum::<u32>());
            ///         for n in 1..=100 {
            ///             tx.send(n).unwrap();
            ///         }
            ///         drop(tx);
            ///         sum.join().unwrap()
            ///     })
            /// });
            /// assert_eq!(sum, 5050);
            /// ```
            pub fn near(mut self) -> Self {
                self.options.near = true;
                self
            }
        }
    };
}

builder! {
    /// Configures a task of a [`Scope`] before it is spawned.
    ///
    /// # Examples
    /// ```
    /// ecru::run(|| {
    ///     ecru::scope(|s| {
    ///         let deep = s.builder().name("parser").stack_size(1 << 20).spawn(|| ecru::coroutine::remaining_stack());
    ///         assert!(deep.join().unwrap() > 1_000_000);
    ///     });
    /// });
    /// ```
    TaskBuilder<'scope, 'env>, Scope<'scope, 'env>
}

builder! {
    /// Configures a task of a [`TryScope`] before it is spawned; see [`TaskBuilder`].
    TryTaskBuilder<'scope, 'env, E>, TryScope<'scope, 'env, E>
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Returns a builder that sets the name or the stack size of a task before it is spawned.
    pub fn builder(&'scope self) -> TaskBuilder<'scope, 'env> {
        TaskBuilder::new(self)
    }
}

impl<'scope, 'env, E: Send> TryScope<'scope, 'env, E> {
    /// Returns a builder that sets the name or the stack size of a task before it is spawned.
    pub fn builder(&'scope self) -> TryTaskBuilder<'scope, 'env, E> {
        TryTaskBuilder::new(self)
    }
}

impl<'scope> TaskBuilder<'scope, '_> {
    /// Spawns the configured task, as [`Scope::spawn`] does.
    ///
    /// # Panics
    /// Panics if the calling thread runs no tasks of this scope's run.
    #[track_caller]
    pub fn spawn<F, U>(self, f: F) -> JoinHandle<'scope, U>
    where
        F: FnOnce() -> U + Send + 'scope,
        U: Send + 'scope,
    {
        let start = self.options.start();
        self.scope.core.spawn_at(self.place(), Plain(f), self.options, start)
    }

    /// Spawns the configured task on the caller's own worker, as [`Scope::spawn_local`] does.
    ///
    /// # Panics
    /// Panics if the calling thread is not a worker of this scope's run.
    #[track_caller]
    pub fn spawn_local<F, U>(self, f: F) -> JoinHandle<'scope, U>
    where
        F: FnOnce() -> U + 'scope,
        U: 'scope,
    {
        self.scope.core.spawn_at(self.place(), Plain(f), self.options, Start::Here)
    }

    /// Spawns the configured task as a daemon, as [`Scope::spawn_daemon`] does.
    ///
    /// # Panics
    /// Panics if the calling thread runs no tasks of this scope's run.
    #[track_caller]
    pub fn spawn_daemon<F, U>(mut self, f: F)
    where
        F: FnOnce() -> U + Send + 'scope,
        U: 'scope,
    {
        self.options.daemon = true;
        let start = self.options.start();
        self.scope.core.spawn_at(
            self.place(),
            Plain(move || task::drop_unseen(f())),
            self.options,
            start,
        );
    }
}

impl<'scope, E: Send> TryTaskBuilder<'scope, '_, E> {
    /// Spawns the configured task, as [`TryScope::spawn`] does.
    ///
    /// # Panics
    /// Panics if the calling thread runs no tasks of this scope's run.
    #[track_caller]
    pub fn spawn<F, U>(self, f: F) -> JoinHandle<'scope, U>
    where
        F: FnOnce() -> Result<U, E> + Send + 'scope,
        U: Send + 'scope,
    {
        let start = self.options.start();
        self.scope.spawn_with_at(self.place(), f, self.options, start)
    }

    /// Spawns the configured task on the caller's own worker, as [`TryScope::spawn_local`] does.
    ///
    /// # Panics
    /// Panics if the calling thread is not a worker of this scope's run.
    #[track_caller]
    pub fn spawn_local<F, U>(self, f: F) -> JoinHandle<'scope, U>
    where
        F: FnOnce() -> Result<U, E> + 'scope,
        U: 'scope,
    {
        self.scope.spawn_with_at(self.place(), f, self.options, Start::Here)
    }

    /// Spawns the configured task as a daemon, as [`TryScope::spawn_daemon`] does.
    ///
    /// # Panics
    /// Panics if the calling thread runs no tasks of this scope's run.
    #[track_caller]
    pub fn spawn_daemon<F>(mut self, f: F)
    where
        F: FnOnce() -> Result<(), E> + Send + 'scope,
    {
        self.options.daemon = true;
        let start = self.options.start();
        self.scope.spawn_with_at(self.place(), f, self.options, start);
    }
}
