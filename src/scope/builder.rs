//! Names and stacks for tasks.

use super::core::Start;
use super::join::JoinHandle;
use super::scoped::{Plain, Scope};
use super::try_scoped::TryScope;
use crate::coroutine::STACK_FLOOR;
use crate::task::Extra;

/// What a spawn may be told besides its closure.
#[derive(Debug, Default)]
pub(crate) struct Options {
    pub(crate) daemon: bool,
    /// Begins even if it is cancelled before.
    pub(crate) always_begins: bool,
    pub(crate) extra: Option<Box<Extra>>,
}

impl Options {
    pub(super) fn daemon() -> Options {
        Options { daemon: true, ..Options::default() }
    }

    fn extra(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    #[track_caller]
    fn set_stack_size(&mut self, bytes: usize) {
        assert!(
            bytes >= STACK_FLOOR,
            "a task's stack of {bytes} bytes is below the floor of {STACK_FLOOR} bytes (16 KiB); ask for more, or leave it out"
        );
        self.extra().stack_size = Some(bytes);
    }
}

macro_rules! builder {
    ($(#[$attribute:meta])* $name:ident<$($parameter:tt),+>, $scope:ty) => {
        $(#[$attribute])*
        #[derive(Debug)]
        #[must_use = "a builder does nothing before one of its spawn methods is called"]
        pub struct $name<$($parameter),+> {
            scope: &'scope $scope,
            options: Options,
        }

        impl<$($parameter),+> $name<$($parameter),+> {
            pub(super) fn new(scope: &'scope $scope) -> Self {
                $name { scope, options: Options::default() }
            }

            /// Names the task: [`task::current`](crate::task::current), handles and messages show it.
            pub fn name(mut self, name: impl Into<String>) -> Self {
                self.options.extra().name = Some(name.into());
                self
            }

            /// Gives the task a stack of its own of this many usable bytes, rounded up to whole pages, instead of one of the
            /// runtime's. It is mapped when the task starts, and given back when it ends.
            ///
            /// # Panics
            /// When that is below 16 KiB.
            #[track_caller]
            pub fn stack_size(mut self, bytes: usize) -> Self {
                self.options.set_stack_size(bytes);
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
    Builder<'scope, 'env>, Scope<'scope, 'env>
}

builder! {
    /// Configures a task of a [`TryScope`] before it is spawned; see [`Builder`].
    TryBuilder<'scope, 'env, E>, TryScope<'scope, 'env, E>
}

impl<'scope> Builder<'scope, '_> {
    /// [`Scope::spawn`].
    ///
    /// # Panics
    /// On a thread that runs no tasks.
    #[track_caller]
    pub fn spawn<F, U>(self, f: F) -> JoinHandle<'scope, U>
    where
        F: FnOnce() -> U + Send + 'scope,
        U: Send + 'scope,
    {
        self.scope.core.spawn(Plain(f), self.options, Start::Anywhere)
    }

    /// [`Scope::spawn_local`].
    ///
    /// # Panics
    /// On a thread that is no worker.
    #[track_caller]
    pub fn spawn_local<F, U>(self, f: F) -> JoinHandle<'scope, U>
    where
        F: FnOnce() -> U + 'scope,
        U: 'scope,
    {
        self.scope.core.spawn(Plain(f), self.options, Start::Here)
    }

    /// [`Scope::spawn_daemon`].
    ///
    /// # Panics
    /// On a thread that runs no tasks.
    #[track_caller]
    pub fn spawn_daemon<F, U>(mut self, f: F)
    where
        F: FnOnce() -> U + Send + 'scope,
        U: 'scope,
    {
        self.options.daemon = true;
        self.scope.core.spawn(Plain(move || drop(f())), self.options, Start::Anywhere);
    }
}

impl<'scope, E: Send> TryBuilder<'scope, '_, E> {
    /// [`TryScope::spawn`].
    ///
    /// # Panics
    /// On a thread that runs no tasks.
    #[track_caller]
    pub fn spawn<F, U>(self, f: F) -> JoinHandle<'scope, U>
    where
        F: FnOnce() -> Result<U, E> + Send + 'scope,
        U: Send + 'scope,
    {
        self.scope.spawn_with(f, self.options, Start::Anywhere)
    }

    /// [`TryScope::spawn_local`].
    ///
    /// # Panics
    /// On a thread that is no worker.
    #[track_caller]
    pub fn spawn_local<F, U>(self, f: F) -> JoinHandle<'scope, U>
    where
        F: FnOnce() -> Result<U, E> + 'scope,
        U: 'scope,
    {
        self.scope.spawn_with(f, self.options, Start::Here)
    }

    /// [`TryScope::spawn_daemon`].
    ///
    /// # Panics
    /// On a thread that runs no tasks.
    #[track_caller]
    pub fn spawn_daemon<F>(mut self, f: F)
    where
        F: FnOnce() -> Result<(), E> + Send + 'scope,
    {
        self.options.daemon = true;
        self.scope.spawn_with(f, self.options, Start::Anywhere);
    }
}
