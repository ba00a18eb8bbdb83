//! smol's executor: its `LocalExecutor` for one worker, its `Executor` run by two threads for two.

use std::future::Future;
use std::net::TcpListener;
use std::thread;

use async_executor::{Executor, LocalExecutor};
use async_io::Async;
use event_listener::Event;
use futures_lite::future::block_on;
use futures_lite::{AsyncReadExt, AsyncWriteExt};

use crate::serving::{Service, Session};

/// Calls `work` with an executor that the calling thread and one more thread run.
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

/// Serves until the process ends, on one worker.
pub(crate) fn serve(service: Service, listener: TcpListener) {
    let executor = LocalExecutor::new();
    async_io::block_on(executor.run(async {
        let listener = Async::new(listener).expect("a listener");
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            stream.get_ref().set_nodelay(true).expect("it is TCP");
            let serving = executor.spawn(async move {
                let mut session = Session::new(service);
                loop {
                    let count = stream.read(session.room()).await?;
                    if count == 0 {
                        return Ok::<_, std::io::Error>(());
                    }
                    stream.write_all(session.answer(count)).await?;
                }
            });
            serving.detach();
        }
    }));
}
