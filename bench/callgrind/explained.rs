//! Works of the other files in a runtime that explains itself. The difference is what that costs.

use ecru::channel::bounded;
use ecru::task::{TaskObserver, set_task_observer};
use ecru::{DriverKind, Runtime, RuntimeBuilder};

use std::time::Duration;

use super::Work;
use super::channels::hand_over_on;
use super::echo::tcp_on;
use super::ecru_side::{mutex_on, rwlock_on, semaphore_on, spawn_join_on, yields_on};

/// With a recorder, a watchdog, holders of locks, and an observer of tasks.
pub(super) const WORKS: &[Work] = &[
    ("yield-recorded", |operations| yields_on(&recorded(), operations)),
    ("spawn-join-recorded", |operations| spawn_join_on(&recorded(), operations)),
    ("channel-rendezvous-recorded", |operations| hand_over_on(&recorded(), bounded(0), operations)),
    ("echo-tcp-uring-recorded", |operations| {
        tcp_on(&built(|builder| builder.record(BYTES).driver(DriverKind::Uring)), operations);
    }),
    ("yield-watched", |operations| yields_on(&watched(), operations)),
    ("spawn-join-watched", |operations| spawn_join_on(&watched(), operations)),
    ("mutex-held-by", |operations| mutex_on(&with_holders(), operations)),
    ("rwlock-read-held-by", |operations| rwlock_on(&with_holders(), operations)),
    ("semaphore-held-by", |operations| semaphore_on(&with_holders(), operations)),
    ("spawn-join-observed", |operations| {
        set_task_observer(&Nothing).expect("there is no other one");
        spawn_join_on(&built(|builder| builder), operations);
    }),
];

/// The memory of a recorder.
const BYTES: usize = 1 << 20;

/// An observer that does nothing.
struct Nothing;

impl TaskObserver for Nothing {}

fn built(set: impl FnOnce(RuntimeBuilder) -> RuntimeBuilder) -> Runtime {
    set(Runtime::builder().workers(1)).build().expect("the runtime starts")
}

fn recorded() -> Runtime {
    built(|builder| builder.record(BYTES))
}

/// The watchdog looks twice in its limit. It has no time to do so here.
fn watched() -> Runtime {
    built(|builder| builder.watchdog(Duration::from_secs(3600)))
}

/// Tasks note which locks and permits they hold, as with an inspect socket.
fn with_holders() -> Runtime {
    built(|builder| builder.detect_deadlock(true))
}
