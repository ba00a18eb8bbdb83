//! The tasks of a client's connections.

use std::pin::Pin;

use ecru::channel::{self, Sender};
use ecru::{Scope, TryScope};
use hyper::rt::Executor;

type Task = Pin<Box<dyn Future<Output = ()> + Send>>;

/// An executor that runs futures as tasks of a scope, which the executor may outlive.
#[derive(Clone, Debug)]
pub(crate) struct Tasks {
    begun: Sender<Task>,
}

impl Tasks {
    pub(crate) fn new<'scope>(s: &'scope impl Daemons<'scope>) -> Tasks {
        let (begun, tasks) = channel::unbounded::<Task>();
        let run = move || {
            ecru::scope(|connections| {
                for task in &tasks {
                    connections.spawn_future(task);
                }
            });
        };
        s.__daemon("http client", Box::new(run));
        Tasks { begun }
    }

    /// Returns whether the scope has ended.
    pub(crate) fn have_ended(&self) -> bool {
        self.begun.is_closed()
    }
}

impl Executor<Task> for Tasks {
    fn execute(&self, task: Task) {
        // If the scope has ended, the future is dropped, and the request that needs it fails.
        let _ = self.begun.try_send(task);
    }
}

/// A scope whose daemons the tasks of a client can be: [`ecru::Scope`] or [`ecru::TryScope`].
pub trait Daemons<'scope>: sealed::Sealed {
    #[doc(hidden)]
    fn __daemon(&'scope self, name: &str, body: Box<dyn FnOnce() + Send + 'scope>);
}

mod sealed {
    #[expect(unnameable_types, reason = "seals the trait")]
    pub trait Sealed {}
    impl Sealed for ecru::Scope<'_, '_> {}
    impl<E> Sealed for ecru::TryScope<'_, '_, E> {}
}

impl<'scope> Daemons<'scope> for Scope<'scope, '_> {
    fn __daemon(&'scope self, name: &str, body: Box<dyn FnOnce() + Send + 'scope>) {
        self.builder().name(name).spawn_daemon(body);
    }
}

impl<'scope, 'env, E: Send + 'env> Daemons<'scope> for TryScope<'scope, 'env, E> {
    fn __daemon(&'scope self, name: &str, body: Box<dyn FnOnce() + Send + 'scope>) {
        self.builder().name(name).spawn_daemon(move || {
            body();
            Ok(())
        });
    }
}
