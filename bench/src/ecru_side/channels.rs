//! Channels, selects and races, in the same form as the peers' in [`crate::rows`].

use ecru::channel::{Receiver, Sender, bounded, unbounded};
use ecru::{JoinError, Source, source};

use super::pair::spawn_partner;
use super::rows::runtime;
use crate::goals::ECRU;
use crate::harness::{Contender, nanoseconds_per_operation, on_two_cores};
use crate::peers::channels::{ALIVE, Capacity};
use crate::rows::{Work, channel_family, runs, sum_of_three};

/// Returns ecru's contender for a row about channels or races.
pub(super) fn contender(family: &str, workers: usize) -> Option<Contender> {
    let contender = match family {
        "ping-pong" => timed(workers, round_trip),
        "select-ready" => timed(1, select_ready),
        "select-producers" => timed(workers, select_producers),
        "race" => timed(workers, race),
        _ => {
            let (_, work, kind) = channel_family(family)?;
            let capacity = kind.capacity;
            match work {
                Work::Hop => timed(workers, move |operations| {
                    runs(capacity, operations).for_each(|run| hop(capacity, run));
                }),
                Work::Apart => Contender::timed(ECRU, move || apart(capacity)),
                Work::Threads => Contender::timed(ECRU, move || threads(capacity)),
                Work::Forward => timed(workers, move |operations| forward(capacity, operations)),
            }
        }
    };
    Some(contender)
}

/// A contender whose work is done by a task, in a run with this number of workers.
fn timed(workers: usize, work: impl Fn(u64) + Copy + Send + 'static) -> Contender {
    Contender::timed(ECRU, move || runtime(workers).run(|| nanoseconds_per_operation(work)))
}

fn channel(capacity: Capacity) -> (Sender<u64>, Receiver<u64>) {
    capacity.map_or_else(unbounded, bounded)
}

/// Sends 0, 1, 2, …
pub(super) fn send_all(sender: &Sender<u64>, count: u64) {
    (0..count).for_each(|value| sender.send(value).expect(ALIVE));
}

/// Receives 0, 1, 2, …
fn receive_all(receiver: &Receiver<u64>, count: u64) {
    for expected in 0..count {
        assert_eq!(receiver.recv(), Ok(expected), "in the order of sending");
    }
}

/// Passes `count` messages on.
fn pass_on(from: &Receiver<u64>, to: &Sender<u64>, count: u64) {
    for _ in 0..count {
        to.send(from.recv().expect(ALIVE)).expect(ALIVE);
    }
}

pub(super) fn hop(capacity: Capacity, run: u64) {
    let (sender, receiver) = channel(capacity);
    ecru::scope(|scope| {
        spawn_partner(scope, || send_all(&sender, run));
        receive_all(&receiver, run);
    });
}

fn apart(capacity: Capacity) -> f64 {
    let (here, there) = (runtime(1), runtime(1));
    nanoseconds_per_operation(|operations| {
        for run in runs(capacity, operations) {
            let (sender, receiver) = channel(capacity);
            on_two_cores(
                || here.run(|| send_all(&sender, run)),
                || there.run(|| receive_all(&receiver, run)),
            );
        }
    })
}

fn threads(capacity: Capacity) -> f64 {
    nanoseconds_per_operation(|operations| {
        let (sender, receiver) = channel(capacity);
        on_two_cores(
            move || send_all(&sender, operations),
            move || receive_all(&receiver, operations),
        );
    })
}

fn forward(capacity: Capacity, operations: u64) {
    let (sender, from_sender) = channel(capacity);
    let (to_receiver, receiver) = channel(capacity);
    ecru::scope(|scope| {
        spawn_partner(scope, || send_all(&sender, operations));
        spawn_partner(scope, || pass_on(&from_sender, &to_receiver, operations));
        receive_all(&receiver, operations);
    });
}

/// Two tasks exchange a message and its reply.
pub(super) fn round_trip(operations: u64) {
    let (there, at_echo) = bounded(1);
    let (back, answers) = bounded(1);
    ecru::scope(|scope| {
        spawn_partner(scope, || pass_on(&at_echo, &back, operations));
        for value in 0..operations {
            there.send(value).expect(ALIVE);
            assert_eq!(answers.recv(), Ok(value));
        }
    });
}

fn select_ready(operations: u64) {
    let [first, second, third] = std::array::from_fn(|_| bounded(1));
    for operation in 0..operations {
        let (sender, _) = [&first, &second, &third][(operation % 3) as usize];
        sender.send(operation).expect(ALIVE);
        let value = ecru::select! {
            recv(first.1) -> value => value,
            recv(second.1) -> value => value,
            recv(third.1) -> value => value,
        };
        assert_eq!(value, Ok(operation));
    }
}

fn select_producers(operations: u64) {
    let each = operations.div_ceil(3);
    let [first, second, third] = std::array::from_fn(|_| bounded(1));
    let sum: u64 = ecru::scope(|scope| {
        for (sender, _) in [&first, &second, &third] {
            spawn_partner(scope, move || send_all(sender, each));
        }
        let next = || {
            ecru::select! {
                recv(first.1) -> value => value.expect(ALIVE),
                recv(second.1) -> value => value.expect(ALIVE),
                recv(third.1) -> value => value.expect(ALIVE),
            }
        };
        (0..3 * each).map(|_| next()).sum()
    });
    assert_eq!(sum, sum_of_three(each), "nothing is lost, nothing comes twice");
}

fn race(operations: u64) {
    let lose = || Ok::<u64, JoinError>(source::never().wait()?);
    for operation in 0..operations {
        let first = ecru::scope(|scope| {
            let losers = (scope.spawn(lose), scope.spawn(lose));
            let winner = scope.spawn(move || {
                ecru::yield_now()?;
                Ok(operation)
            });
            ecru::first_ok((losers.0, losers.1, winner))
        });
        assert_eq!(first.expect("one of them ends by itself"), operation);
    }
}
