//! Two tasks that take turns.

use async_executor::LocalExecutor;
use futures_lite::future::{block_on, yield_now, zip};

use crate::harness::{Contender, Metric, Row, nanoseconds_per_operation};
use crate::peers;

/// One operation is one yield of one of the two.
pub(crate) fn row() -> Row {
    Row {
        family: "yield",
        number: None,
        title: "yield between two tasks".into(),
        cores: 1,
        metrics: &[Metric::TIME],
        contenders: vec![
            Contender::timed("tokio", tokio),
            Contender::timed("smol", smol),
            Contender::timed("may", may),
            Contender::go(1, &["yield"]),
        ],
        note: "one yield is one switch to the other task, through the run queue",
    }
}

fn tokio() -> f64 {
    let runtime = peers::tokio::runtime(1);
    nanoseconds_per_operation(|operations| tokio_pair(&runtime, operations))
}

/// Two tasks yield `operations` times together.
fn tokio_pair(runtime: &tokio::runtime::Runtime, operations: u64) {
    let turns = || async move {
        for _ in 0..operations / 2 {
            tokio::task::yield_now().await;
        }
    };
    runtime.block_on(async {
        let both = [tokio::spawn(turns()), tokio::spawn(turns())];
        for task in both {
            task.await.expect("the task does not panic");
        }
    });
}

fn smol() -> f64 {
    let executor = LocalExecutor::new();
    nanoseconds_per_operation(|operations| smol_pair(&executor, operations))
}

/// Two tasks yield `operations` times together.
fn smol_pair(executor: &LocalExecutor<'_>, operations: u64) {
    let turns = || {
        executor.spawn(async move {
            for _ in 0..operations / 2 {
                yield_now().await;
            }
        })
    };
    block_on(executor.run(zip(turns(), turns())));
}

fn may() -> f64 {
    peers::in_may(1, || nanoseconds_per_operation(may_pair))
}

/// Two coroutines yield `operations` times together.
fn may_pair(operations: u64) {
    let turns = move || {
        for _ in 0..operations / 2 {
            may::coroutine::yield_now();
        }
    };
    let both = [may::go!(turns), may::go!(turns)];
    for coroutine in both {
        coroutine.join().expect("the coroutine does not panic");
    }
}
