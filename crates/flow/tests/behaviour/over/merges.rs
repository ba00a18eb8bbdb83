//! `merge`.

use crate::common::{Watchdog, begin, settle, until};
use crate::simulated::each_run;
use ecru::channel::{self, RecvError};
use ecru::sim::Simulation;
use ecru::{Source, source};
use ecru_flow as flow;
use std::collections::HashMap;
use std::sync::Barrier;
use std::thread;

/// - given: five senders at once
/// - when: `merge(receivers)` is called
/// - then: everything arrives, in the order of each sender; it ends when all of them have ended
#[test]
fn over_14_merge() {
    each_run(|| {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..5).map(|_| channel::bounded(0)).unzip();
        let merged = flow::merge(&receivers);
        drop(receivers);
        ecru::scope(|s| {
            for (id, sender) in senders.into_iter().enumerate() {
                s.spawn(move || flow::send_all(sender, (0..100).map(|n| (id, n))).unwrap());
            }
            let mut next = [0; 5];
            for (id, n) in &merged {
                assert_eq!(n, next[id], "the order of each is kept");
                next[id] += 1;
            }
            assert_eq!(next, [100; 5]);
        });
        assert_eq!(merged.recv(), Err(RecvError::Disconnected));
    });
}

/// - given: no receivers
/// - when: `merge` is called
/// - then: it has ended
#[test]
fn over_15_merge_of_none() {
    let none = flow::merge(Vec::<channel::Receiver<u8>>::new());
    assert_eq!(none.recv(), Err(RecvError::Disconnected));
    assert!(none.try_recv().unwrap_err().is_disconnected());
}

/// - given: a hundred channels that end and one that does not
/// - when: `merge` continues to be read
/// - then: ended channels are removed; the open one is waited for, and its end is the end of the
///   merge
#[test]
fn over_16_merge_drops_closed() {
    each_run(|| {
        let (sender, open) = channel::unbounded();
        let ended: Vec<_> = (0..100).map(|n| flow::from_iter([n])).collect();
        let merged = flow::merge(ended.iter().chain([&open]));
        for _ in 0..100 {
            assert!(merged.recv().is_ok());
        }
        assert!(merged.try_recv().unwrap_err().is_empty());
        ecru::scope(|s| {
            let reader = s.spawn(|| (merged.recv(), merged.recv()));
            settle();
            sender.send(1000).unwrap();
            settle();
            drop(sender);
            assert_eq!(reader.join().unwrap(), (Ok(1000), Err(RecvError::Disconnected)));
        });
    });
}

/// - given: several readers of one merge
/// - when: the last channel ends
/// - then: every reader gets the end
#[test]
fn over_35_merge_ends_for_all_its_readers() {
    let _watchdog = Watchdog::new();
    // Two threads find the end of each merge at nearly the same time: the thread that is behind is
    // faster, because the other one has already marked the channel as ended.
    let ended: Vec<_> =
        (0..20_000).map(|_| flow::merge([flow::from_iter::<[u8; 0]>([])])).collect();
    let start = Barrier::new(2);
    let read = || {
        start.wait();
        ended.iter().for_each(|merged| assert_eq!(merged.recv(), Err(RecvError::Disconnected)));
    };
    thread::scope(|s| {
        s.spawn(read);
        read();
    });
}

/// - given: a merge in a race that another arm wins; a merge whose wait is cancelled
/// - when: it is read later
/// - then: no value is missing
#[test]
fn over_17_merge_loses_nothing() {
    each_run(|| {
        let (sender, receiver) = channel::unbounded();
        let (_other, silent) = channel::unbounded::<u32>();
        let merged = flow::merge([&receiver, &silent]);
        sender.send(1).unwrap();
        // Another arm wins the race, or this one does. In either case exactly one item is taken.
        let won = source::either(&merged, source::ready(2)).wait().unwrap();
        let left = receiver.len();
        assert_eq!(left, usize::from(matches!(won, source::Either::Right(_))));
        while receiver.try_recv().is_ok() {}
        ecru::scope(|s| {
            let reader = begin(s, || merged.recv());
            reader.cancel();
            assert_eq!(reader.join().unwrap(), Err(RecvError::Cancelled));
        });
        sender.send(3).unwrap();
        assert_eq!(merged.recv(), Ok(3));
    });
}

/// - given: channels with equal values
/// - when: `merge` is called
/// - then: each value is received as often as it was sent
#[test]
fn over_33_merge_frequencies() {
    each_run(|| {
        let merged = flow::merge([
            flow::from_iter([1, 2, 3]),
            flow::from_iter([1, 2]),
            flow::from_iter([1]),
        ]);
        let mut often = HashMap::new();
        for n in merged {
            *often.entry(n).or_insert(0) += 1;
        }
        assert_eq!(often, HashMap::from([(1, 3), (2, 2), (3, 1)]));
    });
}

/// - given: a channel without a buffer, a `select!` that would send, and a merge
/// - when: `recv`, `try_recv`, or another `select!` is called on the merge
/// - then: each receives the value
#[test]
fn over_34_merge_meets_a_select() {
    each_run(|| {
        let ((sender, receiver), (_other, silent)) = (channel::bounded(0), channel::bounded(0));
        let merged = flow::merge([&receiver, &silent]);
        let send = |n: u32| {
            ecru::select! {
                send(sender, n) -> sent => sent.unwrap(),
            }
        };
        ecru::scope(|s| {
            s.spawn(|| (1..=3).for_each(send));
            assert_eq!(merged.recv(), Ok(1));
            // The other select waits. A source that waits is not told of a select that would send.
            settle();
            let second = ecru::select! {
                wait(&merged) -> received => received.unwrap(),
                recv(silent) -> _ => unreachable!(),
            };
            assert_eq!(second, Ok(2));
            until(|| merged.try_recv() == Ok(3));
        });
    });
}

/// - given: a simulation, in which `merge` reads two channels with twenty values each
/// - when: it is run twice with one seed, and once with another seed
/// - then: the values of one seed come in one order, and those of the other seed in another one
#[test]
fn over_37_merge_in_a_simulation() {
    let order = |seed| {
        let report = Simulation::new(seed).run(|| {
            let both = flow::merge([flow::from_iter(0..20), flow::from_iter(100..120)]);
            std::iter::from_fn(|| both.try_recv().ok()).collect::<Vec<u32>>()
        });
        report.unwrap()
    };
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}
