//! One function for each family of rows, in the same form as its peers' functions in
//! [`crate::rows`].

use std::hint::black_box;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use ecru::coroutine::{Coroutine, CoroutineState, STACK_DEFAULT, Stack, StackPool, Yielder};
use ecru::time::Sleep;
use ecru::{Runtime, Scope};

use super::channels::round_trip;
use crate::goals::{ECRU, ECRU_FUTURE};
use crate::harness::{Contender, Sample, nanoseconds_per_operation};
use crate::rows::{
    BATCH, CREATE_PARK_TASKS, NAP, NEVER, Naps, PAIR, SLEEP, VALUES, compute, cpu_of, create,
    crowd, growth, per_task, sample, second_batch, whole_rounds,
};

/// Returns ecru's contender for a row.
pub(super) fn contender(family: &str, number: usize) -> Option<Contender> {
    let contender = match family {
        "switch" => Contender::timed(ECRU, switch),
        "recycle" => Contender::timed(ECRU, recycle),
        "yield" => {
            let tasks = if number == 0 { PAIR } else { number as u64 };
            Contender::timed(ECRU, move || {
                runtime(1).run(|| nanoseconds_per_operation(|operations| turns(tasks, operations)))
            })
        }
        "spawn-join" => Contender::timed(ECRU, move || {
            runtime(number).run(|| nanoseconds_per_operation(one_after_another))
        }),
        "spawn-batch" => {
            Contender::timed(ECRU, move || runtime(number).run(|| second_batch(BATCH, batch)))
        }
        "create-park" => {
            Contender::timed(ECRU, || create(parked(CREATE_PARK_TASKS))).note("guarded stacks")
        }
        "coroutines" => Contender::timed(ECRU, move || coroutines(number)).note("guarded stacks"),
        "parked" => Contender::sampled(ECRU, move || parked(number)).note("guarded stacks"),
        "given-back" => Contender::sampled(ECRU, move || given_back(number)),
        "timer" => {
            Contender::timed(ECRU, move || set_and_cancel(number)).note("`timeout` around nothing")
        }
        "sleeps" => Contender::sampled(ECRU, move || sleeps(number)),
        "lone-timeout" => Contender::sampled(ECRU, lone_timeout),
        "late-timer" => Contender::sampled(ECRU, move || late_timer(number)),
        "fan-out" => Contender::timed(ECRU, || runtime(2).run(|| per_task(fib))),
        _ => return None,
    };
    Some(contender)
}

/// Creates a runtime with this number of workers.
pub(super) fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().expect("the runtime starts")
}

fn switch() -> f64 {
    let coroutine = Coroutine::new(|yielder: &Yielder<u64, u64>, mut value| -> () {
        loop {
            value = yielder.suspend(value + 1);
        }
    });
    let pair = nanoseconds_per_operation(|operations| {
        for operation in 0..operations {
            let CoroutineState::Yielded(value) = coroutine.resume(operation) else {
                unreachable!("it loops for ever")
            };
            black_box(value);
        }
    });
    pair / 2.0
}

pub(super) fn recycle() -> f64 {
    let mut kept = Some(Stack::new(STACK_DEFAULT).expect("there is room for a stack"));
    nanoseconds_per_operation(|operations| {
        let mut stack = kept.take().expect("every batch puts it back");
        for operation in 0..operations {
            let coroutine = Coroutine::with_stack(stack, |_: &Yielder<u64, ()>, first| first + 1);
            let CoroutineState::Complete(value) = coroutine.resume(operation) else {
                unreachable!("it does not yield")
            };
            black_box(value);
            stack = coroutine.into_stack();
        }
        kept = Some(stack);
    })
}

fn coroutines(count: usize) -> f64 {
    let pool = StackPool::new(STACK_DEFAULT).expect("the default size is a good one");
    let create = |_| {
        let stack = pool.take().expect("there is room for a stack");
        Coroutine::with_stack(stack, |yielder: &Yielder<(), ()>, ()| -> () {
            loop {
                yielder.suspend(());
            }
        })
    };
    // Unwinding all of them at the end would take longer than the row, and the process ends anyway.
    let coroutines: ManuallyDrop<Vec<_>> = ManuallyDrop::new((0..count).map(create).collect());
    let pair = whole_rounds(count, || {
        for coroutine in coroutines.iter() {
            let _suspended = coroutine.resume(());
        }
    });
    pair / 2.0
}

/// The tasks yield `operations` times together.
fn turns(tasks: u64, operations: u64) {
    let turns = || {
        for _ in 0..operations / tasks {
            ecru::yield_now().expect("it is never cancelled");
        }
    };
    ecru::scope(|scope| {
        for _ in 0..tasks {
            scope.spawn(turns);
        }
    });
}

pub(super) fn one_after_another(operations: u64) {
    ecru::scope(|scope| {
        for _ in 0..operations {
            scope.spawn(|| {}).join().expect("it is never cancelled");
        }
    });
}

fn batch(size: usize) {
    ecru::scope(|scope| {
        let tasks: Vec<_> = (0..size).map(|_| scope.spawn(|| {})).collect();
        for task in tasks {
            task.join().expect("it is never cancelled");
        }
    });
}

/// Spawns `count` tasks into the scope, each of which waits until it is cancelled. Returns when all
/// of them wait.
fn crowd_of<'scope>(
    scope: &'scope Scope<'scope, '_>,
    count: usize,
    wait: impl Fn() + Clone + Send + 'scope,
) {
    let arrived = Arc::new(AtomicUsize::new(0));
    for _ in 0..count {
        let (arrived, wait) = (arrived.clone(), wait.clone());
        scope.spawn(move || {
            arrived.fetch_add(1, Ordering::Relaxed);
            drop(arrived);
            wait();
        });
    }
    while arrived.load(Ordering::Relaxed) < count {
        ecru::yield_now().expect("it is never cancelled");
    }
}

/// Most parked tasks have only a waiter, without a timer or an operation, and so do these.
fn parked(count: usize) -> Sample {
    runtime(1).run(|| {
        ecru::scope(|outer| {
            let gate = outer.spawn(|| ecru::sleep(NEVER).expect_err("it is cancelled in the end"));
            ecru::scope(|scope| {
                let park_all = || crowd_of(scope, count, || drop(gate.join()));
                let sample = sample(count, round_trip, park_all);
                gate.cancel();
                sample
            })
        })
    })
}

fn sleep_until_cancelled() {
    ecru::sleep(NEVER).expect_err("it is cancelled long before");
}

fn given_back(count: usize) -> Sample {
    runtime(1).run(|| {
        let come_and_go = || {
            ecru::scope(|scope| {
                crowd_of(scope, count, sleep_until_cancelled);
                scope.cancel();
            });
        };
        growth(come_and_go, |time| ecru::sleep(time).expect("it is never cancelled"))
    })
}

fn set_and_cancel(live: usize) -> f64 {
    runtime(1).run(|| {
        ecru::scope(|scope| {
            crowd_of(scope, live, sleep_until_cancelled);
            let time = nanoseconds_per_operation(|operations| {
                for operation in 0..operations {
                    let value = ecru::timeout(Duration::from_secs(60), || operation);
                    black_box(value.expect("a minute has not passed"));
                }
            });
            scope.cancel();
            time
        })
    })
}

fn sleeps(count: usize) -> Sample {
    runtime(1).run(|| {
        crowd(|| {
            ecru::scope(|scope| {
                let tasks: Vec<_> =
                    (0..count).map(|_| scope.spawn(|| ecru::sleep(SLEEP))).collect();
                for task in tasks {
                    task.join().expect("it is never cancelled").expect("it is never cancelled");
                }
            });
        })
    })
}

/// Returns the contender whose tasks are futures, where a row has one.
pub(super) fn of_futures(family: &str, number: usize) -> Option<Contender> {
    let note = "tasks of `spawn_future`, without a stack";
    let contender = match family {
        "sleeps" => Contender::sampled(ECRU_FUTURE, move || sleeping_futures(number)),
        "spawn-join" => Contender::timed(ECRU_FUTURE, move || {
            runtime(number).run(|| nanoseconds_per_operation(futures_one_after_another))
        }),
        _ => return None,
    };
    Some(contender.note(note))
}

fn futures_one_after_another(operations: u64) {
    ecru::scope(|scope| {
        for _ in 0..operations {
            scope.spawn_future(async {}).join().expect("it is never cancelled");
        }
    });
}

fn sleeping_futures(count: usize) -> Sample {
    runtime(1).run(|| {
        crowd(|| {
            ecru::scope(|scope| {
                let tasks: Vec<_> =
                    (0..count).map(|_| scope.spawn_future(Sleep::new(SLEEP))).collect();
                for task in tasks {
                    task.join().expect("it is never cancelled");
                }
            });
        })
    })
}

fn lone_timeout() -> Sample {
    runtime(1).run(|| {
        cpu_of(|| {
            let elapsed = ecru::timeout(Duration::from_secs(1), || ecru::sleep(NEVER).is_err());
            assert!(elapsed.is_err(), "nothing else ends it");
        })
    })
}

fn late_timer(micros: usize) -> Sample {
    runtime(1).run(|| {
        let (sender, receiver) = ecru::channel::unbounded();
        (0..VALUES).for_each(|value| sender.send(value).expect("it is open"));
        let stop = &AtomicBool::new(false);
        ecru::scope(|scope| {
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    receiver.recv().expect("it is never empty");
                    compute(micros);
                }
            });
            let mut naps = Naps::begin();
            loop {
                ecru::sleep(NAP).expect("it is never cancelled");
                if !naps.note() {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
            naps.sample()
        })
    })
}

/// Spawns a task for every call on the left.
fn fib(number: u64) -> u64 {
    if number < 2 {
        return number;
    }
    ecru::scope(|scope| {
        let left = scope.spawn(move || fib(number - 1));
        let right = fib(number - 2);
        left.join().expect("it is never cancelled") + right
    })
}
