//! Spawn and join, one after another and many at once.

use std::thread;

use async_executor::{Executor, LocalExecutor};
use futures_lite::future::block_on;

use super::on;
use crate::harness::{Contender, Metric, Row, nanoseconds_per_operation, seconds};
use crate::peers;

/// The size of the batch.
pub(crate) const BATCH: usize = 1_000_000;

/// A task is spawned and joined, then the next.
pub(crate) fn one_after_another(workers: usize) -> Row {
    Row {
        family: "spawn-join",
        number: Some(workers),
        title: format!("spawn + join, one after another, {}", on(workers)),
        cores: workers,
        metrics: &[Metric::TIME],
        contenders: vec![
            Contender::timed("tokio", move || tokio_one(workers)),
            Contender::timed("smol", move || smol_one(workers)),
            Contender::timed("may", move || {
                peers::in_may(workers, || nanoseconds_per_operation(may_one))
            }),
            Contender::timed("threads", || nanoseconds_per_operation(threads_one)),
            Contender::go(workers, &["spawn-join"]),
        ],
        note: "the task does nothing; the spawning task awaits it at once",
    }
}

/// All are spawned, then all are joined.
pub(crate) fn batch(workers: usize) -> Row {
    Row {
        family: "spawn-batch",
        number: Some(workers),
        title: format!("spawn a million, then join all, {}", on(workers)),
        cores: workers,
        metrics: &[Metric::TIME],
        contenders: vec![
            Contender::timed("tokio", move || tokio_batch(workers)),
            Contender::timed("smol", move || smol_batch(workers)),
            Contender::timed("may", move || {
                peers::in_may(workers, || second_batch(peers::MAY_LIVE_AT_MOST, may_batch))
            })
            .note(peers::MAY_NOTE),
            Contender::go(workers, &["spawn-batch", &BATCH.to_string()]),
        ],
        note: "the second batch of a process counts; the first warms the allocator",
    }
}

/// Returns the time for one task in the second of two batches.
pub(crate) fn second_batch(size: usize, mut batch: impl FnMut(usize)) -> f64 {
    batch(size);
    let (taken, ()) = seconds(|| batch(size));
    taken * 1e9 / size as f64
}

pub(super) fn tokio_one(workers: usize) -> f64 {
    let runtime = peers::tokio::runtime(workers);
    nanoseconds_per_operation(|operations| {
        peers::tokio::in_task(&runtime, async move {
            for _ in 0..operations {
                tokio::spawn(async {}).await.expect("the task does not panic");
            }
        });
    })
}

fn tokio_batch(workers: usize) -> f64 {
    let runtime = peers::tokio::runtime(workers);
    second_batch(BATCH, |size| {
        peers::tokio::in_task(&runtime, async move {
            let tasks: Vec<_> = (0..size).map(|_| tokio::spawn(async {})).collect();
            for task in tasks {
                task.await.expect("the task does not panic");
            }
        });
    })
}

fn smol_one(workers: usize) -> f64 {
    if workers == 1 {
        let executor = LocalExecutor::new();
        return nanoseconds_per_operation(|operations| {
            block_on(executor.run(async {
                for _ in 0..operations {
                    executor.spawn(async {}).await;
                }
            }));
        });
    }
    let executor = Executor::new();
    nanoseconds_per_operation(|operations| {
        peers::smol::on_two_workers(&executor, || async {
            for _ in 0..operations {
                executor.spawn(async {}).await;
            }
        });
    })
}

fn smol_batch(workers: usize) -> f64 {
    if workers == 1 {
        let executor = LocalExecutor::new();
        return second_batch(BATCH, |size| {
            block_on(executor.run(async {
                let tasks: Vec<_> = (0..size).map(|_| executor.spawn(async {})).collect();
                for task in tasks {
                    task.await;
                }
            }));
        });
    }
    let executor = Executor::new();
    second_batch(BATCH, |size| {
        peers::smol::on_two_workers(&executor, || async {
            let tasks: Vec<_> = (0..size).map(|_| executor.spawn(async {})).collect();
            for task in tasks {
                task.await;
            }
        });
    })
}

fn may_one(operations: u64) {
    for _ in 0..operations {
        may::go!(|| {}).join().expect("the coroutine does not panic");
    }
}

fn may_batch(size: usize) {
    let coroutines: Vec<_> = (0..size).map(|_| may::go!(|| {})).collect();
    for coroutine in coroutines {
        coroutine.join().expect("the coroutine does not panic");
    }
}

pub(super) fn threads_one(operations: u64) {
    for _ in 0..operations {
        thread::spawn(|| {}).join().expect("the thread does not panic");
    }
}
