//! ecru's own works, on its public API.

use std::hint::black_box;
use std::time::Duration;

use ecru::channel::bounded;
use ecru::coroutine::{Coroutine, CoroutineState, Yielder};
use ecru::sync::{Mutex, RwLock, Semaphore};
use ecru::{JoinError, Runtime, Source, source};

use super::Work;

/// No end is dropped early, and no task is cancelled.
pub(super) const ALIVE: &str = "both ends are alive";

/// All of ecru's works except channels and sockets.
pub(super) const WORKS: &[Work] = &[
    ("switch", switch),
    ("spawn-join", spawn_join),
    ("fan-out", fan_out),
    ("timer", timer),
    ("yield", yields),
    ("select-three", select_three),
    ("race", race),
    ("mutex", mutex),
    ("rwlock-read", rwlock),
    ("semaphore", semaphore),
];

/// A resume and a suspend.
fn switch(operations: u64) {
    let coroutine = Coroutine::new(|yielder: &Yielder<u64, u64>, mut value| -> () {
        loop {
            value = yielder.suspend(value + 1);
        }
    });
    for operation in 0..operations {
        let CoroutineState::Yielded(value) = coroutine.resume(operation) else {
            unreachable!("it loops for ever")
        };
        black_box(value);
    }
}

pub(super) fn one_worker() -> Runtime {
    Runtime::builder().workers(1).build().expect("the runtime starts")
}

/// An empty task, and its join.
fn spawn_join(operations: u64) {
    spawn_join_on(&one_worker(), operations);
}

pub(super) fn spawn_join_on(runtime: &Runtime, operations: u64) {
    runtime.run(|| {
        ecru::scope(|scope| {
            for _ in 0..operations {
                scope.spawn(|| {}).join().expect("it is never cancelled");
            }
        });
    });
}

/// A scope with a task, which repeats this while it can: small trees of four tasks.
fn fan_out(operations: u64) {
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
    one_worker().run(|| {
        for _ in 0..operations / 4 {
            black_box(fib(black_box(4)));
        }
    });
}

/// A switch between two tasks, through the run queue.
fn yields(operations: u64) {
    yields_on(&one_worker(), operations);
}

pub(super) fn yields_on(runtime: &Runtime, operations: u64) {
    let turns = || {
        for _ in 0..operations / 2 {
            ecru::yield_now().expect("it is never cancelled");
        }
    };
    runtime.run(|| {
        ecru::scope(|scope| {
            scope.spawn(turns);
            scope.spawn(turns);
        });
    });
}

/// A timeout that is set and cancelled.
fn timer(operations: u64) {
    one_worker().run(|| {
        for operation in 0..operations {
            let value = ecru::timeout(Duration::from_secs(60), || operation);
            black_box(value.expect("a minute has not passed"));
        }
    });
}

/// A message into one of three channels, and a select that finds it.
fn select_three(operations: u64) {
    let [first, second, third] = std::array::from_fn(|_| bounded(1));
    one_worker().run(|| {
        for operation in 0..operations {
            let (sender, _) = [&first, &second, &third][(operation % 3) as usize];
            sender.send(operation).expect(ALIVE);
            let value = ecru::select! {
                recv(first.1) -> value => value,
                recv(second.1) -> value => value,
                recv(third.1) -> value => value,
            };
            black_box(value.expect(ALIVE));
        }
    });
}

/// Three tasks race. The first to end has the others cancelled.
fn race(operations: u64) {
    let lose = || Ok::<u64, JoinError>(source::never().wait()?);
    one_worker().run(|| {
        for operation in 0..operations {
            let first = ecru::scope(|scope| {
                let losers = (scope.spawn(lose), scope.spawn(lose));
                let winner = scope.spawn(move || {
                    ecru::yield_now()?;
                    Ok(operation)
                });
                ecru::first_ok((losers.0, losers.1, winner))
            });
            black_box(first.expect("one of them ends by itself"));
        }
    });
}

/// An uncontended lock.
fn mutex(operations: u64) {
    mutex_on(&one_worker(), operations);
}

pub(super) fn mutex_on(runtime: &Runtime, operations: u64) {
    let counter = Mutex::new(0);
    runtime.run(|| {
        for _ in 0..operations {
            *black_box(counter.lock()) += 1;
        }
    });
}

/// A lock that is shared with no other reader.
fn rwlock(operations: u64) {
    rwlock_on(&one_worker(), operations);
}

pub(super) fn rwlock_on(runtime: &Runtime, operations: u64) {
    let counter = RwLock::new(0_u64);
    runtime.run(|| {
        for _ in 0..operations {
            black_box(*counter.read());
        }
    });
}

/// An available permit.
fn semaphore(operations: u64) {
    semaphore_on(&one_worker(), operations);
}

pub(super) fn semaphore_on(runtime: &Runtime, operations: u64) {
    let permits = Semaphore::new(2);
    runtime.run(|| {
        for _ in 0..operations {
            drop(black_box(permits.acquire()).expect("it is never cancelled"));
        }
    });
}
