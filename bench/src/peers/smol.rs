//! smol's executor: its `LocalExecutor` for one worker, its `Executor` run by two threads for two.

use std::future::Future;
use std::thread;

use async_executor::Executor;
use event_listener::Event;
use futures_lite::future::block_on;

/// Gives `work` an executor that the calling thread and one more run.
pub(crate) fn on_two_workers<T, F: Future<Output = T>>(
    executor: &Executor<'_>,
    work: impl FnOnce() -> F,
) -> T {
    let end = Event::new();
    let listener = end.listen();
    thread::scope(|threads| {
        threads.spawn(|| block_on(executor.run(listener)));
        let value = block_on(executor.run(work()));
        end.notify(usize::MAX);
        value
    })
}

/// A gate at which tasks wait until it is dropped.
#[derive(Default)]
pub(crate) struct Gate {
    event: Event,
}

impl Gate {
    /// Parks the calling task.
    pub(crate) fn wait(&self) -> impl Future<Output = ()> + use<> {
        self.event.listen()
    }
}
