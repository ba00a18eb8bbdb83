//! Tasks that take turns.

use async_executor::LocalExecutor;
use futures_lite::future::{block_on, yield_now};

use crate::harness::{Contender, Metric, Row, nanoseconds_per_operation};
use crate::peers;

/// Tasks of the row `yield`.
pub(crate) const PAIR: u64 = 2;

/// One operation is one yield of one of the tasks. tokio polls its driver each time its queue has
/// been emptied: with two tasks after every second yield, with 64 after every 64th.
pub(crate) fn row(number: Option<usize>) -> Row {
    let tasks = number.map_or(PAIR, |tasks| tasks as u64);
    Row {
        family: "yield",
        number,
        title: format!(
            "yield between {}",
            if tasks == PAIR { "two".into() } else { tasks.to_string() } + " tasks"
        ),
        cores: 1,
        metrics: &[Metric::TIME],
        contenders: vec![
            Contender::timed("tokio", move || tokio(tasks)),
            Contender::timed("smol", move || smol(tasks)),
            Contender::timed("may", move || may(tasks)),
            Contender::go(1, &["yield", &tasks.to_string()]),
        ],
        note: "one yield is one switch to the next task, through the run queue",
    }
}

fn tokio(tasks: u64) -> f64 {
    let runtime = peers::tokio::runtime(1);
    nanoseconds_per_operation(|operations| tokio_tasks(&runtime, tasks, operations))
}

/// The tasks yield `operations` times together.
fn tokio_tasks(runtime: &tokio::runtime::Runtime, tasks: u64, operations: u64) {
    let turns = || async move {
        for _ in 0..operations / tasks {
            tokio::task::yield_now().await;
        }
    };
    runtime.block_on(async {
        let all: Vec<_> = (0..tasks).map(|_| tokio::spawn(turns())).collect();
        for task in all {
            task.await.expect("the task does not panic");
        }
    });
}

fn smol(tasks: u64) -> f64 {
    let executor = LocalExecutor::new();
    nanoseconds_per_operation(|operations| smol_tasks(&executor, tasks, operations))
}

/// The tasks yield `operations` times together.
fn smol_tasks(executor: &LocalExecutor<'_>, tasks: u64, operations: u64) {
    let turns = || {
        executor.spawn(async move {
            for _ in 0..operations / tasks {
                yield_now().await;
            }
        })
    };
    block_on(executor.run(async {
        let all: Vec<_> = (0..tasks).map(|_| turns()).collect();
        for task in all {
            task.await;
        }
    }));
}

fn may(tasks: u64) -> f64 {
    peers::in_may(1, move || nanoseconds_per_operation(|operations| may_tasks(tasks, operations)))
}

/// The coroutines yield `operations` times together.
fn may_tasks(tasks: u64, operations: u64) {
    let turns = move || {
        for _ in 0..operations / tasks {
            may::coroutine::yield_now();
        }
    };
    let all: Vec<_> = (0..tasks).map(|_| may::go!(turns)).collect();
    for coroutine in all {
        coroutine.join().expect("the coroutine does not panic");
    }
}
