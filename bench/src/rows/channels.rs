//! Messages through channels: from task to task, through a third task, there and back, and from
//! core to core.

use async_executor::LocalExecutor;
use futures_lite::future::block_on;
use tokio::runtime::Runtime;

use super::together_on;
use crate::harness::{Contender, Metric, Row, nanoseconds_per_operation, on_two_cores};
use crate::peers;
use crate::peers::channels::{
    ALIVE, Alive, AsyncChannel, Capacity, Crossbeam, Flume, Kanal, Std, TaskChannel, ThreadChannel,
    Tokio, TokioUnbounded,
};

/// The messages that a row without a bound sends in one run. A sender that never waits would
/// otherwise fill the memory with a whole window.
const RUN: u64 = 100_000;

/// The executor for channels that come without one.
const ON_TOKIO: &str = "kanal, flume and async-channel on tokio's executor";

/// The note for channels without a bound.
const IN_RUNS: &str = "in runs of 100,000 messages; kanal, flume and async-channel on tokio's executor; \
     Go has no such channel, and gets one that holds a run";

/// A channel that rows are about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    /// The description in the row's title.
    says: &'static str,
    pub(crate) capacity: Capacity,
}

const RENDEZVOUS: Kind = Kind { says: "rendezvous", capacity: Some(0) };
const ONE: Kind = Kind { says: "capacity 1", capacity: Some(1) };
const HUNDRED: Kind = Kind { says: "capacity 128", capacity: Some(128) };
const UNBOUNDED: Kind = Kind { says: "unbounded", capacity: None };

/// The work of a row with its channel.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    /// One task sends, another receives.
    Hop,
    /// As `Hop`, with each task on a core of its own, whatever its runtime would choose.
    Apart,
    /// As `Hop`, between OS threads, without a runtime.
    Threads,
    /// A task in the middle passes every message on.
    Forward,
}

/// The families of rows that differ only in the channel and the work with it.
const FAMILIES: &[(&str, Work, Kind)] = &[
    ("channel-rendezvous", Work::Hop, RENDEZVOUS),
    ("channel-one", Work::Hop, ONE),
    ("channel-128", Work::Hop, HUNDRED),
    ("channel-unbounded", Work::Hop, UNBOUNDED),
    ("apart-rendezvous", Work::Apart, RENDEZVOUS),
    ("apart-one", Work::Apart, ONE),
    ("apart-128", Work::Apart, HUNDRED),
    ("apart-unbounded", Work::Apart, UNBOUNDED),
    ("threads-rendezvous", Work::Threads, RENDEZVOUS),
    ("threads-one", Work::Threads, ONE),
    ("threads-128", Work::Threads, HUNDRED),
    ("forward-rendezvous", Work::Forward, RENDEZVOUS),
    ("forward-128", Work::Forward, HUNDRED),
];

/// Returns the work of a family, if it is one of these.
pub(crate) fn family(name: &str) -> Option<(&'static str, Work, Kind)> {
    FAMILIES.iter().copied().find(|(known, ..)| *known == name)
}

/// Creates a row of one of these families.
pub(super) fn build(name: &str, number: Option<usize>) -> Option<Row> {
    let (name, work, kind) = family(name)?;
    match (work, number) {
        (Work::Hop, Some(workers @ 1..=2)) => Some(hop(name, kind, workers)),
        (Work::Apart, None) => Some(apart(name, kind)),
        (Work::Threads, None) => Some(threads(name, kind)),
        (Work::Forward, Some(workers @ 1..=2)) => Some(forward(name, kind, workers)),
        _ => None,
    }
}

impl Kind {
    /// Creates Go's contender, with the subcommand, the capacity, and further arguments.
    fn go(self, workers: usize, subcommand: &str, told: Option<&str>) -> Contender {
        let (subcommand, capacity) = match self.capacity {
            Some(capacity) => (subcommand, capacity.to_string()),
            None => ("hop-in-runs", RUN.to_string()),
        };
        let arguments: Vec<_> = [subcommand, &capacity].into_iter().chain(told).collect();
        Contender::go(workers, &arguments)
    }
}

/// Returns the lengths of the runs that make up `operations` operations.
pub(crate) fn runs(capacity: Capacity, operations: u64) -> impl Iterator<Item = u64> {
    let longest = if capacity.is_none() { RUN } else { operations };
    let whole = operations.checked_div(longest).unwrap_or_default();
    let rest = operations - whole * longest;
    (0..whole).map(move |_| longest).chain((rest > 0).then_some(rest))
}

/// Creates a contender for each channel between tasks that exists in this kind. `$measure` is a
/// function that is generic over the channel's type.
macro_rules! task_channels {
    ($kind:expr, $measure:ident($($argument:expr),*)) => {{
        let capacity = $kind.capacity;
        let mut contenders = vec![
            Contender::timed("kanal", move || $measure::<Kanal>(capacity $(, $argument)*)),
            Contender::timed("flume", move || $measure::<Flume>(capacity $(, $argument)*)),
        ];
        match capacity {
            Some(0) => {}
            Some(_) => contenders.push(Contender::timed("tokio", move || {
                $measure::<Tokio>(capacity $(, $argument)*)
            })),
            None => contenders.push(Contender::timed("tokio", move || {
                $measure::<TokioUnbounded>(capacity $(, $argument)*)
            })),
        }
        if capacity != Some(0) {
            contenders.push(Contender::timed("async-channel", move || {
                $measure::<AsyncChannel>(capacity $(, $argument)*)
            }));
        }
        contenders
    }};
}

fn hop(family: &'static str, kind: Kind, workers: usize) -> Row {
    let mut contenders = task_channels!(kind, task_hop(workers));
    if kind.capacity.is_none() {
        contenders.push(Contender::timed("may", move || may_hop(workers, may_mpsc)));
        contenders.push(
            Contender::timed("may-spsc", move || may_hop(workers, may_spsc))
                .note("one sender and one receiver only"),
        );
    }
    contenders.push(kind.go(workers, "hop", None));
    Row {
        family,
        number: Some(workers),
        title: format!("channel, {}, one to one, {}", kind.says, together_on(workers)),
        cores: workers,
        metrics: &[Metric::TIME],
        contenders,
        note: if kind.capacity.is_none() { IN_RUNS } else { ON_TOKIO },
    }
}

fn apart(family: &'static str, kind: Kind) -> Row {
    let mut contenders = task_channels!(kind, task_hop_apart());
    contenders.push(
        kind.go(2, "hop", None)
            .note("free: it may put both on one core, so it is shown and not the goal"),
    );
    contenders.push(Contender {
        name: "go-locked",
        ..kind.go(2, "hop", Some("apart")).note("each goroutine locked to an OS thread of its own")
    });
    Row {
        family,
        number: None,
        title: format!("channel, {}, one to one, from core to core", kind.says),
        cores: 2,
        metrics: &[Metric::TIME],
        contenders,
        note: "a runtime of one worker on either core; go-locked is the peer of the goal",
    }
}

fn forward(family: &'static str, kind: Kind, workers: usize) -> Row {
    let mut contenders = task_channels!(kind, task_forward(workers));
    contenders.push(kind.go(workers, "forward", None));
    Row {
        family,
        number: Some(workers),
        title: format!("through a forwarder, {}, {}", kind.says, together_on(workers)),
        cores: workers,
        metrics: &[Metric::TIME],
        contenders,
        note: ON_TOKIO,
    }
}

/// A message and its reply.
pub(super) fn ping_pong(workers: usize) -> Row {
    let mut contenders = task_channels!(ONE, task_round_trip(workers));
    contenders.push(
        Contender::timed("may", move || {
            peers::in_may(workers, || nanoseconds_per_operation(may_round_trip))
        })
        .note("unbounded channels: it has no others"),
    );
    contenders.push(ONE.go(workers, "ping-pong", None));
    Row {
        family: "ping-pong",
        number: Some(workers),
        title: format!("ping-pong round trip, {}", together_on(workers)),
        cores: workers,
        metrics: &[Metric::TIME],
        contenders,
        note: "two tasks, two channels of capacity 1; kanal, flume and async-channel on tokio's executor",
    }
}

fn threads(family: &'static str, kind: Kind) -> Row {
    let capacity = kind.capacity.expect("these rows have bounded channels");
    Row {
        family,
        number: None,
        title: format!("channel, {}, from OS thread to OS thread", kind.says),
        cores: 2,
        metrics: &[Metric::TIME],
        contenders: vec![
            Contender::timed("kanal", move || thread_hop::<Kanal>(capacity)),
            Contender::timed("flume", move || thread_hop::<Flume>(capacity)),
            Contender::timed("crossbeam", move || thread_hop::<Crossbeam>(capacity)),
            Contender::timed("std", move || thread_hop::<Std>(capacity)),
        ],
        note: "each thread pinned to a core of its own",
    }
}

/// Sends 0, 1, 2, …
async fn send_all<C: TaskChannel>(sender: C::Sender, count: u64) {
    for value in 0..count {
        C::send(&sender, value).await.alive();
    }
}

/// Receives 0, 1, 2, …
async fn receive_all<C: TaskChannel>(receiver: &mut C::Receiver, count: u64) {
    for expected in 0..count {
        assert_eq!(C::recv(receiver).await.alive(), expected, "in the order of sending");
    }
}

/// Passes `count` messages on.
async fn pass_on<C: TaskChannel>(from: &mut C::Receiver, to: &C::Sender, count: u64) {
    for _ in 0..count {
        let value = C::recv(from).await.alive();
        C::send(to, value).await.alive();
    }
}

/// Sends each message when the previous one has been answered.
async fn ask<C: TaskChannel>(there: &C::Sender, answers: &mut C::Receiver, count: u64) {
    for value in 0..count {
        C::send(there, value).await.alive();
        assert_eq!(C::recv(answers).await.alive(), value);
    }
}

fn task_hop<C: TaskChannel>(capacity: Capacity, workers: usize) -> f64 {
    let runtime = peers::tokio::runtime(workers);
    nanoseconds_per_operation(|operations| {
        for run in runs(capacity, operations) {
            peers::tokio::in_task(&runtime, async move {
                let (sender, mut receiver) = C::new(capacity);
                let sending = tokio::spawn(send_all::<C>(sender, run));
                receive_all::<C>(&mut receiver, run).await;
                sending.await.expect("the task does not panic");
            });
        }
    })
}

fn task_hop_apart<C: TaskChannel>(capacity: Capacity) -> f64 {
    let (here, there) = (peers::tokio::runtime(1), peers::tokio::runtime(1));
    nanoseconds_per_operation(|operations| {
        for run in runs(capacity, operations) {
            let (sender, mut receiver) = C::new(capacity);
            on_two_cores(
                || peers::tokio::in_task(&here, send_all::<C>(sender, run)),
                || {
                    peers::tokio::in_task(&there, async move {
                        receive_all::<C>(&mut receiver, run).await;
                    });
                },
            );
        }
    })
}

fn task_forward<C: TaskChannel>(capacity: Capacity, workers: usize) -> f64 {
    let runtime = peers::tokio::runtime(workers);
    nanoseconds_per_operation(|operations| {
        peers::tokio::in_task(&runtime, async move {
            let (sender, mut from_sender) = C::new(capacity);
            let (to_receiver, mut receiver) = C::new(capacity);
            let sending = tokio::spawn(send_all::<C>(sender, operations));
            let forwarding = tokio::spawn(async move {
                pass_on::<C>(&mut from_sender, &to_receiver, operations).await;
            });
            receive_all::<C>(&mut receiver, operations).await;
            for task in [sending, forwarding] {
                task.await.expect("the task does not panic");
            }
        });
    })
}

fn task_round_trip<C: TaskChannel>(capacity: Capacity, workers: usize) -> f64 {
    let runtime = peers::tokio::runtime(workers);
    nanoseconds_per_operation(|operations| {
        peers::tokio::in_task(&runtime, round_trips::<C>(capacity, operations));
    })
}

async fn round_trips<C: TaskChannel>(capacity: Capacity, operations: u64) {
    let (there, mut at_echo) = C::new(capacity);
    let (back, mut answers) = C::new(capacity);
    let echo = tokio::spawn(async move {
        pass_on::<C>(&mut at_echo, &back, operations).await;
    });
    ask::<C>(&there, &mut answers, operations).await;
    echo.await.expect("the task does not panic");
}

/// The ping-pong on tokio, for a row in which other tasks are parked.
pub(super) fn echo_on_tokio(runtime: &Runtime, operations: u64) {
    peers::tokio::in_task(runtime, round_trips::<Tokio>(ONE.capacity, operations));
}

/// The ping-pong on smol, for such a row.
pub(super) fn echo_on_smol(executor: &LocalExecutor<'_>, operations: u64) {
    let (there, mut at_echo) = AsyncChannel::new(ONE.capacity);
    let (back, mut answers) = AsyncChannel::new(ONE.capacity);
    block_on(executor.run(async {
        let echo = executor.spawn(async move {
            pass_on::<AsyncChannel>(&mut at_echo, &back, operations).await;
        });
        ask::<AsyncChannel>(&there, &mut answers, operations).await;
        echo.await;
    }));
}

fn thread_hop<C: ThreadChannel>(capacity: usize) -> f64 {
    nanoseconds_per_operation(|operations| {
        let (sender, receiver) = C::new(capacity);
        on_two_cores(
            move || (0..operations).for_each(|value| C::send(&sender, value)),
            move || {
                for expected in 0..operations {
                    assert_eq!(C::recv(&receiver), expected, "in the order of sending");
                }
            },
        );
    })
}

/// may's unbounded channels, with `work` for a run.
fn may_hop(workers: usize, work: fn(u64)) -> f64 {
    peers::in_may(workers, move || {
        nanoseconds_per_operation(|operations| runs(None, operations).for_each(work))
    })
}

fn may_mpsc(run: u64) {
    let (sender, receiver) = may::sync::mpsc::channel();
    let sending = may::go!(move || (0..run).for_each(|value| sender.send(value).expect(ALIVE)));
    (0..run).for_each(|expected| assert_eq!(receiver.recv(), Ok(expected)));
    sending.join().expect("the coroutine does not panic");
}

fn may_spsc(run: u64) {
    let (sender, receiver) = may::sync::spsc::channel();
    let sending = may::go!(move || (0..run).for_each(|value| sender.send(value).expect(ALIVE)));
    (0..run).for_each(|expected| assert_eq!(receiver.recv(), Ok(expected)));
    sending.join().expect("the coroutine does not panic");
}

pub(super) fn may_round_trip(operations: u64) {
    let (there, at_echo) = may::sync::mpsc::channel();
    let (back, answers) = may::sync::mpsc::channel();
    let echo = may::go!(move || {
        for _ in 0..operations {
            let value: u64 = at_echo.recv().expect(ALIVE);
            back.send(value).expect(ALIVE);
        }
    });
    for value in 0..operations {
        there.send(value).expect(ALIVE);
        assert_eq!(answers.recv(), Ok(value));
    }
    echo.join().expect("the coroutine does not panic");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_unbounded_is_done_in_runs() {
        assert_eq!(runs(Some(1), 250_000).collect::<Vec<_>>(), [250_000]);
        assert_eq!(runs(None, 250_000).collect::<Vec<_>>(), [100_000, 100_000, 50_000]);
        assert_eq!(runs(None, 1).collect::<Vec<_>>(), [1]);
    }
}
