//! The measurements of gears' notes, in the same form as the peers' in [`crate::rows`].

use std::sync::atomic::{AtomicBool, Ordering};

use ecru::channel::bounded;
use ecru::{JoinHandle, Source, source};
use ecru_flow::{Closed, Multiplexer};

use super::channels::{hop, send_all};
use super::pair::spawn_partner;
use super::rows::{one_after_another, recycle, runtime};
use crate::goals::ECRU;
use crate::harness::{Contender, nanoseconds_per_operation};
use crate::peers::channels::ALIVE;
use crate::rows::{SLEEPS, races, spin};

/// Returns ecru's contenders for such a row.
pub(super) fn contenders(family: &str) -> Vec<Contender> {
    let timed = |work: fn(u64)| {
        Contender::timed(ECRU, move || runtime(2).run(|| nanoseconds_per_operation(work)))
    };
    match family {
        "gears-future" => vec![
            timed(one_after_another),
            Contender::timed("ecru-coroutine", recycle)
                .note("what a task runs on: a bare coroutine, created, run and finished"),
        ],
        "gears-race" => vec![
            Contender::sampled(ECRU, || runtime(2).run(|| races(race)))
                .note("the losers cancelled and awaited"),
            Contender::sampled("ecru-fastest", || runtime(2).run(|| races(fastest)))
                .note("only the fastest is awaited; the same is done with the others"),
            Contender::sampled("ecru-spin", || runtime(2).run(|| races(spin_for_tasks)))
                .note("tasks that set a flag, for which the worker spins that should start them: the other one has to come for them"),
        ],
        "gears-sync" => vec![timed(|operations| hop(Some(0), operations))],
        "gears-one" => vec![timed(|operations| hop(Some(1), operations))],
        "gears-mux-sync" => vec![timed(|operations| multiplexer(0, operations))],
        "gears-mux-one" => vec![timed(|operations| multiplexer(1, operations))],
        _ => Vec::new(),
    }
}

/// Runs `wait` with three sleeping futures, of which the first is the fastest, and then cancels the
/// others.
fn racing(wait: impl FnOnce(&[JoinHandle<'_, bool>; 3])) {
    ecru::scope(|scope| {
        let futures = SLEEPS.map(|length| scope.spawn(move || ecru::sleep(length).is_ok()));
        wait(&futures);
        scope.cancel();
    });
}

fn race() {
    racing(|futures| {
        let first = source::race(futures).wait().expect("it is never cancelled");
        assert!(first.expect("it does not panic"), "it slept to the end");
    });
}

fn fastest() {
    racing(|[fastest, ..]| assert!(fastest.join().expect("it does not panic")));
}

fn spin_for_tasks() {
    let done = &AtomicBool::new(false);
    ecru::scope(|scope| {
        for length in SLEEPS {
            scope.spawn(move || ecru::sleep(length).map(|()| done.store(true, Ordering::Release)));
        }
        spin(done);
        scope.cancel();
    });
}

fn multiplexer(capacity: usize, operations: u64) {
    let (sender, publisher) = bounded(capacity);
    let (subscriber, receiver) = bounded(capacity);
    let multiplexer = Multiplexer::new();
    multiplexer.add_publisher(publisher).expect("it is open");
    multiplexer.add_subscriber(subscriber).expect("it is open");
    ecru::scope(|scope| {
        spawn_partner(scope, || send_all(&sender, operations));
        spawn_partner(scope, || multiplexer.run().expect("it is never cancelled"));
        for expected in 0..operations {
            assert_eq!(receiver.recv().expect(ALIVE), Ok(expected), "in the order of sending");
        }
        multiplexer.close();
        assert_eq!(receiver.recv().expect(ALIVE), Err(Closed));
    });
}
