//! tokio: the current-thread runtime for one worker, the multi-thread one for more.

use std::future::Future;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::{Builder, Runtime};

use crate::serving::{Service, Session};

/// Creates a runtime with a clock and this number of workers.
pub(crate) fn runtime(workers: usize) -> Runtime {
    let built = match workers {
        1 => Builder::new_current_thread().enable_time().build(),
        _ => Builder::new_multi_thread().worker_threads(workers).enable_time().build(),
    };
    built.expect("tokio starts")
}

/// Runs `work` in a task, and not in the caller of `block_on`, whose wake-ups cost more.
pub(crate) fn in_task<T: Send + 'static>(
    runtime: &Runtime,
    work: impl Future<Output = T> + Send + 'static,
) -> T {
    runtime.block_on(runtime.spawn(work)).expect("the task does not panic")
}

/// Serves until the process ends, on one worker.
pub(crate) fn serve(service: Service, listener: std::net::TcpListener) {
    let runtime = Builder::new_current_thread().enable_io().build().expect("tokio starts");
    runtime.block_on(async move {
        listener.set_nonblocking(true).expect("it is a socket");
        let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            stream.set_nodelay(true).expect("it is TCP");
            tokio::spawn(async move {
                let mut session = Session::new(service);
                loop {
                    let count = stream.read(session.room()).await?;
                    if count == 0 {
                        return Ok::<_, std::io::Error>(());
                    }
                    stream.write_all(session.answer(count)).await?;
                }
            });
        }
    });
}
