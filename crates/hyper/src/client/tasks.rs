//! The tasks of a client's connections.

use std::pin::Pin;

use ecru::Daemons;
use ecru::channel::{self, Sender};
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
        s.spawn_boxed_daemon("http client", Box::new(run));
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
