//! Waiting for the first of three channels, or of three tasks.

use std::future::pending;
use std::hint::black_box;

use async_executor::{Executor, LocalExecutor, Task};
use futures_lite::future::{block_on, or, yield_now};
use tokio::task::JoinSet;

use super::{on, together_on};
use crate::harness::{Contender, Metric, Row, nanoseconds_per_operation};
use crate::peers;
use crate::peers::channels::{ALIVE, Alive, AsyncChannel, Flume, Kanal, TaskChannel, Tokio};

/// A message is put into one of three channels, in turn, and taken by a select over the three.
pub(super) fn one_ready() -> Row {
    Row {
        family: "select-ready",
        number: None,
        title: "select over three, one ready".into(),
        cores: 1,
        metrics: &[Metric::TIME],
        contenders: vec![
            Contender::timed("crossbeam", || nanoseconds_per_operation(crossbeam_ready))
                .note("on a thread"),
            Contender::timed("tokio", task_ready::<Tokio>),
            Contender::timed("flume", task_ready::<Flume>).note("under tokio::select!"),
            Contender::timed("async-channel", task_ready::<AsyncChannel>)
                .note("under tokio::select!"),
            Contender::timed("kanal", task_ready::<Kanal>).note("under tokio::select!"),
            Contender::timed("may", || peers::in_may(1, || nanoseconds_per_operation(may_ready))),
            Contender::go(1, &["select-ready"]),
        ],
        note: "one operation is a send that finds room and a select that finds the message; nothing waits",
    }
}

/// Three tasks send; another selects.
pub(super) fn producers(workers: usize) -> Row {
    Row {
        family: "select-producers",
        number: Some(workers),
        title: format!("select over three producers, capacity 1, {}", together_on(workers)),
        cores: workers,
        metrics: &[Metric::TIME],
        contenders: vec![
            Contender::timed("tokio", move || task_producers::<Tokio>(workers)),
            Contender::timed("flume", move || task_producers::<Flume>(workers))
                .note("under tokio::select!"),
            Contender::timed("async-channel", move || task_producers::<AsyncChannel>(workers))
                .note("under tokio::select!"),
            Contender::go(workers, &["select-producers"]),
        ],
        note: "an operation is one message received; kanal loses messages when a receive is given up, and does not end",
    }
}

/// Three tasks are spawned; one ends, the other two are cancelled and awaited.
pub(super) fn race(workers: usize) -> Row {
    Row {
        family: "race",
        number: Some(workers),
        title: format!(
            "race of three spawned tasks, the losers cancelled and awaited, {}",
            on(workers)
        ),
        cores: workers,
        metrics: &[Metric::TIME],
        contenders: vec![
            Contender::timed("tokio", move || tokio_race(workers)).note("a JoinSet"),
            Contender::timed("smol", move || smol_race(workers)),
            Contender::go(workers, &["race"]).note("a context, and a WaitGroup"),
        ],
        note: "the losers wait for ever; the winner yields once before it ends, so that they do so by then",
    }
}

/// Returns the sum of what three producers send together: 0, 1, 2, … each.
pub(crate) fn sum_of_three(each: u64) -> u64 {
    3 * (each * each.saturating_sub(1) / 2)
}

/// A select over three channels between tasks.
macro_rules! select_of {
    ($channel:ty, $first:expr, $second:expr, $third:expr) => {
        tokio::select! {
            value = <$channel>::recv($first) => value.alive(),
            value = <$channel>::recv($second) => value.alive(),
            value = <$channel>::recv($third) => value.alive(),
        }
    };
}

fn crossbeam_ready(operations: u64) {
    let [first, second, third] = std::array::from_fn(|_| crossbeam_channel::bounded(1));
    for operation in 0..operations {
        let (sender, _) = [&first, &second, &third][(operation % 3) as usize];
        sender.send(operation).expect(ALIVE);
        let value = crossbeam_channel::select! {
            recv(first.1) -> value => value,
            recv(second.1) -> value => value,
            recv(third.1) -> value => value,
        };
        assert_eq!(value, Ok(operation));
    }
}

fn task_ready<C: TaskChannel>() -> f64 {
    let runtime = peers::tokio::runtime(1);
    nanoseconds_per_operation(|operations| {
        peers::tokio::in_task(&runtime, async move {
            let [mut first, mut second, mut third] = std::array::from_fn(|_| C::new(Some(1)));
            for operation in 0..operations {
                let (sender, _) = [&first, &second, &third][(operation % 3) as usize];
                C::send(sender, operation).await.alive();
                let value = select_of!(C, &mut first.1, &mut second.1, &mut third.1);
                assert_eq!(value, operation);
            }
        });
    })
}

fn may_ready(operations: u64) {
    let [first, second, third] = std::array::from_fn(|_| may::sync::mpsc::channel());
    for operation in 0..operations {
        let (sender, _) = [&first, &second, &third][(operation % 3) as usize];
        sender.send(operation).expect(ALIVE);
        let taken = may::select! {
            value = first.1.recv() => assert_eq!(value, Ok(operation)),
            value = second.1.recv() => assert_eq!(value, Ok(operation)),
            value = third.1.recv() => assert_eq!(value, Ok(operation))
        };
        black_box(taken);
    }
}

fn task_producers<C: TaskChannel>(workers: usize) -> f64 {
    let runtime = peers::tokio::runtime(workers);
    nanoseconds_per_operation(|operations| {
        let each = operations.div_ceil(3);
        let sum = peers::tokio::in_task(&runtime, async move {
            let [(to_first, mut first), (to_second, mut second), (to_third, mut third)] =
                std::array::from_fn(|_| C::new(Some(1)));
            let sending = [to_first, to_second, to_third].map(|sender| {
                tokio::spawn(async move {
                    for value in 0..each {
                        C::send(&sender, value).await.alive();
                    }
                    sender
                })
            });
            let mut sum = 0;
            for _ in 0..3 * each {
                sum += select_of!(C, &mut first, &mut second, &mut third);
            }
            for task in sending {
                task.await.expect("the task does not panic");
            }
            sum
        });
        assert_eq!(sum, sum_of_three(each), "nothing is lost, nothing comes twice");
    })
}

fn tokio_race(workers: usize) -> f64 {
    let runtime = peers::tokio::runtime(workers);
    nanoseconds_per_operation(|operations| {
        peers::tokio::in_task(&runtime, async move {
            for operation in 0..operations {
                let mut tasks = JoinSet::new();
                tasks.spawn(pending());
                tasks.spawn(pending());
                tasks.spawn(async move {
                    tokio::task::yield_now().await;
                    operation
                });
                let winner = tasks.join_next().await.expect("there are three");
                assert_eq!(winner.expect("it is never cancelled"), operation);
                tasks.shutdown().await;
            }
        });
    })
}

fn smol_race(workers: usize) -> f64 {
    if workers == 1 {
        let executor = LocalExecutor::new();
        return nanoseconds_per_operation(|operations| {
            block_on(executor.run(async {
                for operation in 0..operations {
                    let losers = [executor.spawn(pending()), executor.spawn(pending())];
                    smol_winner(losers, executor.spawn(winner(operation)), operation).await;
                }
            }));
        });
    }
    let executor = Executor::new();
    nanoseconds_per_operation(|operations| {
        peers::smol::on_two_workers(&executor, || async {
            for operation in 0..operations {
                let losers = [executor.spawn(pending()), executor.spawn(pending())];
                smol_winner(losers, executor.spawn(winner(operation)), operation).await;
            }
        });
    })
}

async fn winner(operation: u64) -> u64 {
    yield_now().await;
    operation
}

/// Awaits the first of the three, then cancels the others.
async fn smol_winner(mut losers: [Task<u64>; 2], mut winner: Task<u64>, operation: u64) {
    let [first, second] = &mut losers;
    let value = or(or(first, second), &mut winner).await;
    assert_eq!(value, operation);
    for loser in losers {
        assert_eq!(loser.cancel().await, None, "it never ends by itself");
    }
}
