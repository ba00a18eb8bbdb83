//! tokio: the current-thread runtime for one worker, the multi-thread one for more.

use std::future::Future;

use tokio::runtime::{Builder, Runtime};

/// A runtime with a clock and that many workers.
pub(crate) fn runtime(workers: usize) -> Runtime {
    let built = match workers {
        1 => Builder::new_current_thread().enable_time().build(),
        _ => Builder::new_multi_thread().worker_threads(workers).enable_time().build(),
    };
    built.expect("tokio starts")
}

/// Runs `work` in a task, not in the caller of `block_on`, which is woken more expensively.
pub(crate) fn in_task<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    runtime.block_on(runtime.spawn(work)).expect("the task does not panic")
}
