//! ecru's own work, on its public surface.

use std::hint::black_box;
use std::time::Duration;

use ecru::Runtime;
use ecru::coroutine::{Coroutine, CoroutineState, Yielder};

use super::Work;

/// All of it.
pub(super) const WORKS: &[Work] =
    &[("switch", switch), ("spawn-join", spawn_join), ("timer", timer), ("yield", yields)];

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

fn one_worker() -> Runtime {
    Runtime::builder().workers(1).build().expect("the runtime starts")
}

/// A task that does nothing, and its join.
fn spawn_join(operations: u64) {
    one_worker().run(|| {
        ecru::scope(|scope| {
            for _ in 0..operations {
                scope.spawn(|| {}).join().expect("nobody cancels it");
            }
        });
    });
}

/// A switch to the other of two tasks, through the run queue.
fn yields(operations: u64) {
    let turns = || {
        for _ in 0..operations / 2 {
            ecru::yield_now().expect("nobody cancels it");
        }
    };
    one_worker().run(|| {
        ecru::scope(|scope| {
            scope.spawn(turns);
            scope.spawn(turns);
        });
    });
}

/// A timeout set and cancelled.
fn timer(operations: u64) {
    one_worker().run(|| {
        for operation in 0..operations {
            let value = ecru::timeout(Duration::from_secs(60), || operation);
            black_box(value.expect("a minute has not passed"));
        }
    });
}
