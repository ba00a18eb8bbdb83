//! Parked tasks: the cost of creating them, the memory that they hold, and their cost to other
//! tasks.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_executor::LocalExecutor;
use corosensei::Coroutine;
use corosensei::stack::DefaultStack;
use futures_lite::future::{block_on, yield_now};
use tokio::sync::Notify;

use super::channels::{echo_on_smol, echo_on_tokio, may_round_trip};
use crate::harness::{
    Contender, Metric, Row, Sample, Unit, mappings, nanoseconds_per_operation, resident_bytes,
    seconds,
};
use crate::peers;
use crate::peers::stack_slab::StackSlab;

/// The number of tasks that the row `create-park` parks.
pub(crate) const CREATE_PARK_TASKS: usize = 100_000;

/// The metrics of the rows `parked-*`.
const METRICS: &[Metric] = &[
    Metric { name: "create", unit: Unit::Nanoseconds },
    Metric { name: "memory", unit: Unit::Bytes },
    Metric { name: "mappings", unit: Unit::Count },
    Metric { name: "without", unit: Unit::Nanoseconds },
    Metric { name: "with", unit: Unit::Nanoseconds },
];

/// Each task is new, and has run to its first wait when the clock stops.
pub(crate) fn create_park() -> Row {
    let count = CREATE_PARK_TASKS;
    Row {
        family: "create-park",
        number: None,
        title: "create + park a fresh task".into(),
        cores: 1,
        metrics: &[Metric::TIME],
        contenders: vec![
            Contender::timed("tokio", move || create(tokio(count))),
            Contender::timed("smol", move || create(smol(count))),
            Contender::timed("corosensei-slab", move || corosensei_slab(count))
                .note("bare coroutines, no guard pages"),
            Contender::timed("corosensei", || corosensei_guarded(peers::MAY_LIVE_AT_MOST))
                .note("bare coroutines, its own guarded stacks, at 30,000: it stops at 32,748"),
            Contender::timed("may", || create(may(peers::MAY_LIVE_AT_MOST))).note(peers::MAY_NOTE),
            Contender::go(1, &["create-park", &count.to_string()]),
        ],
        note: "nothing is recycled: a stack's first page is touched for the first time",
    }
}

/// Many tasks wait while two others send each other messages.
pub(crate) fn parked(count: usize) -> Row {
    let mut contenders = vec![
        Contender::sampled("tokio", move || tokio(count)),
        Contender::sampled("smol", move || smol(count)),
        Contender::go(1, &["parked", &count.to_string()]),
    ];
    if count <= peers::MAY_LIVE_AT_MOST {
        contenders.push(Contender::sampled("may", move || may(count)));
    }
    Row {
        family: "parked",
        number: Some(count),
        title: format!(
            "{count} parked tasks: create (each), memory (each, with page tables), mappings, ping-pong without and with them"
        ),
        cores: 1,
        metrics: METRICS,
        contenders,
        note: "the ping-pong is that of the row ping-pong-1, smol's through async-channel; may and corosensei stop near 32,750",
    }
}

/// The memory that is still resident after the tasks have ended.
pub(crate) fn given_back(count: usize) -> Row {
    Row {
        family: "given-back",
        number: Some(count),
        title: format!(
            "resident memory 5 s after {count} parked tasks have ended: growth over the start"
        ),
        cores: 1,
        metrics: &[Metric { name: "growth", unit: Unit::TimesTheStart }],
        contenders: vec![
            Contender::sampled("tokio", move || tokio_given_back(count)),
            Contender::go(1, &["given-back", &count.to_string()]),
        ],
        note: "page tables included; the runtime stays and is idle for the 5 s",
    }
}

/// Returns how much has stayed resident after `crowd` has ended and `idle` has waited for that
/// long.
pub(crate) fn growth(crowd: impl FnOnce(), idle: impl FnOnce(Duration)) -> Sample {
    let before = resident_bytes();
    crowd();
    idle(Duration::from_secs(5));
    vec![("growth", resident_bytes() / before - 1.0)]
}

/// Takes the metric `create` alone.
pub(crate) fn create(sample: Sample) -> f64 {
    let found = sample.iter().find(|(metric, _)| *metric == "create");
    found.expect("every sample of this module has it").1
}

/// The order of measuring, the same for every contender: ping-pong, memory, tasks, memory,
/// ping-pong.
pub(crate) fn sample(
    count: usize,
    mut ping_pong: impl FnMut(u64),
    park_all: impl FnOnce(),
) -> Sample {
    let without = nanoseconds_per_operation(&mut ping_pong);
    let before = resident_bytes();
    let (taken, ()) = seconds(park_all);
    let memory = (resident_bytes() - before) / count as f64;
    let mappings = mappings();
    let with = nanoseconds_per_operation(ping_pong);
    vec![
        ("create", taken * 1e9 / count as f64),
        ("memory", memory),
        ("mappings", mappings),
        ("without", without),
        ("with", with),
    ]
}

fn tokio(count: usize) -> Sample {
    let runtime = peers::tokio::runtime(1);
    let crowd = TokioCrowd::default();
    let park_all = || runtime.block_on(crowd.come(count));
    sample(count, |operations| echo_on_tokio(&runtime, operations), park_all)
}

fn tokio_given_back(count: usize) -> Sample {
    let runtime = peers::tokio::runtime(1);
    let come_and_go = || {
        runtime.block_on(async {
            let crowd = TokioCrowd::default();
            crowd.come(count).await;
            crowd.go().await;
        });
    };
    growth(come_and_go, |time| runtime.block_on(async { tokio::time::sleep(time).await }))
}

/// tokio tasks that wait at a gate.
#[derive(Default)]
struct TokioCrowd {
    gate: Arc<Notify>,
    present: Arc<AtomicUsize>,
}

impl TokioCrowd {
    /// Spawns the tasks, and returns when all of them wait at the gate.
    async fn come(&self, count: usize) {
        for _ in 0..count {
            let (gate, present) = (self.gate.clone(), self.present.clone());
            tokio::spawn(async move {
                present.fetch_add(1, Ordering::Relaxed);
                gate.notified().await;
                present.fetch_sub(1, Ordering::Relaxed);
            });
        }
        while self.present.load(Ordering::Relaxed) < count {
            tokio::task::yield_now().await;
        }
    }

    /// Opens the gate, and returns when all of them have ended.
    async fn go(&self) {
        self.gate.notify_waiters();
        while self.present.load(Ordering::Relaxed) > 0 {
            tokio::task::yield_now().await;
        }
    }
}

fn smol(count: usize) -> Sample {
    let executor = LocalExecutor::new();
    let gate = Rc::new(peers::smol::Gate::default());
    let arrived = Rc::new(Cell::new(0));
    let park_all = || {
        block_on(executor.run(async {
            for _ in 0..count {
                let (gate, arrived) = (gate.clone(), arrived.clone());
                let task = executor.spawn(async move {
                    arrived.set(arrived.get() + 1);
                    gate.wait().await;
                });
                task.detach();
            }
            while arrived.get() < count {
                yield_now().await;
            }
        }));
    };
    sample(count, |operations| echo_on_smol(&executor, operations), park_all)
}

fn may(count: usize) -> Sample {
    peers::in_may(1, move || {
        let arrived = Arc::new(AtomicUsize::new(0));
        let park_all = || {
            let waiting = may::coroutine::current();
            for _ in 0..count {
                let (arrived, waiting) = (arrived.clone(), waiting.clone());
                let parked = may::go!(move || {
                    // may never runs the last coroutines while another one keeps yielding, so the
                    // last one wakes it.
                    if arrived.fetch_add(1, Ordering::Relaxed) + 1 == count {
                        waiting.unpark();
                    }
                    may::coroutine::park();
                });
                drop(parked);
            }
            may::coroutine::park();
        };
        sample(count, may_round_trip, park_all)
    })
}

fn corosensei_slab(count: usize) -> f64 {
    let slab = StackSlab::new(count);
    create_and_suspend(slab.stacks(false))
}

fn corosensei_guarded(count: usize) -> f64 {
    // The stack is made inside the measured loop, as a program without a pool of its own would.
    let stacks = (0..count).map(|_| DefaultStack::default());
    create_and_suspend(stacks)
}

/// Returns the nanoseconds for each coroutine, from its stack to its first suspend.
fn create_and_suspend<S: corosensei::stack::Stack + 'static>(
    stacks: impl Iterator<Item = S>,
) -> f64 {
    let (taken, coroutines) = seconds(|| {
        let created = stacks.map(|stack| {
            let mut coroutine =
                Coroutine::<(), (), (), S>::with_stack(stack, |yielder, ()| yielder.suspend(()));
            coroutine.resume(());
            coroutine
        });
        created.collect::<Vec<_>>()
    });
    taken * 1e9 / coroutines.len() as f64
}
