//! Rows of `doc/behaviour/over.md`.

use crate::common::{
    Watchdog, begin, each_run, forever, panic_text, quiet_panic, run_on, settle, until,
};
use ecru::channel::{self, RecvError, SendError};
use ecru::{Source, source};
use ecru_flow as flow;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

/// - given: a channel with values
/// - when: `pipe(from, to)` is called
/// - then: all values arrive in order, then the end, because `to` was moved into the call
#[test]
fn over_01_pipe() {
    each_run(|| {
        let (to, there) = channel::bounded(0);
        ecru::scope(|s| {
            s.spawn(|| flow::pipe(flow::from_iter(0..100), to).unwrap());
            assert_eq!(flow::collect(&there), Ok((0..100).collect::<Vec<_>>()));
        });
    });
}

/// - given: `pipe`, `partition` and both pipelines with `&to`
/// - when: `from` ends
/// - then: `to` stays open
#[test]
fn over_02_pipe_lent() {
    each_run(|| {
        let (to, there) = channel::unbounded();
        flow::pipe(flow::from_iter([1]), &to).unwrap();
        flow::partition(flow::from_iter([2, 3]), &to, &to, |n| *n == 2).unwrap();
        flow::pipeline(2, |n: u32| [n]).run(flow::from_iter([4]), &to).unwrap();
        flow::pipeline_unordered(2, |n: u32| [n]).run(flow::from_iter([5]), &to).unwrap();
        assert!(!there.is_closed());
        to.send(6).unwrap();
        assert_eq!(there.try_iter().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    });
}

/// - given: a pipe that holds a value
/// - when: `to` closes
/// - then: it ends, and its error contains the value; if `to` was already closed, nothing is
///   received
#[test]
fn over_03_pipe_target_closes() {
    each_run(|| {
        let (from, source) = channel::unbounded();
        let (to, there) = channel::bounded(1);
        ecru::scope(|s| {
            let pipe = s.spawn(|| flow::pipe(&source, &to));
            for n in 0..4 {
                from.send(n).unwrap();
            }
            // One value is in the channel, and one is held by the pipe.
            until(|| source.len() == 2);
            drop(there);
            assert_eq!(pipe.join().unwrap(), Err(SendError::Disconnected(Some(1))));
        });
        assert_eq!(source.try_iter().collect::<Vec<_>>(), [2, 3]);
        // If it is closed before it begins, nothing is received.
        from.send(4).unwrap();
        assert_eq!(flow::pipe(&source, &to), Err(SendError::Disconnected(None)));
        assert_eq!(source.recv(), Ok(4));
    });
}

/// - given: a pipe that waits to receive, or to send
/// - when: it is cancelled
/// - then: its error says so, and contains the value that it held
#[test]
fn over_04_pipe_cancelled() {
    each_run(|| {
        let (from, source) = channel::unbounded();
        let (to, there) = channel::bounded(0);
        ecru::scope(|s| {
            let idle = begin(s, || flow::pipe(&source, &to));
            idle.cancel();
            assert_eq!(idle.join().unwrap(), Err(SendError::Cancelled(None)));
            let full = begin(s, || flow::pipe(&source, &to));
            from.send(7).unwrap();
            until(|| source.is_empty());
            full.cancel();
            assert_eq!(full.join().unwrap(), Err(SendError::Cancelled(Some(7))));
        });
        drop(there);
    });
}

/// - given: values of two kinds
/// - when: `partition(from, yes, no, p)` is called
/// - then: each kind arrives in its channel, in order, and both channels end with the source
#[test]
fn over_05_partition() {
    each_run(|| {
        let ((yes, ays), (no, noes)) = (channel::bounded(2), channel::bounded(2));
        ecru::scope(|s| {
            s.spawn(|| flow::partition(flow::from_iter(0..10), yes, no, |n| n % 2 == 0));
            let even = s.spawn(|| flow::collect(&ays));
            assert_eq!(flow::collect(&noes), Ok(vec![1, 3, 5, 7, 9]));
            assert_eq!(even.join().unwrap(), Ok(vec![0, 2, 4, 6, 8]));
        });
    });
}

/// - given: a partition, one side of which has no reader
/// - when: a value for the other side comes next
/// - then: it is not received before the first has been delivered
#[test]
fn over_06_partition_stalls_together() {
    each_run(|| {
        let ((yes, ays), (no, noes)) = (channel::bounded(0), channel::bounded(0));
        ecru::scope(|s| {
            let source = flow::from_iter([1, 2]);
            let parting = s.spawn({
                let source = source.clone();
                move || flow::partition(source, yes, no, |n| n % 2 == 0)
            });
            until(|| source.len() == 1);
            settle();
            // 1 has no reader, so 2 is not even received.
            assert!(ays.try_recv().unwrap_err().is_empty());
            assert_eq!(source.len(), 1);
            assert_eq!((noes.recv(), ays.recv()), (Ok(1), Ok(2)));
            assert_eq!(parting.join().unwrap(), Ok(()));
        });
        assert!(noes.recv().is_err() && ays.recv().is_err());
    });
}

/// - given: a partition
/// - when: one target closes
/// - then: it ends, and its error contains the value that it held
#[test]
fn over_07_partition_target_closes() {
    each_run(|| {
        let ((yes, ays), (no, noes)) = (channel::unbounded(), channel::bounded(0));
        ecru::scope(|s| {
            let source = flow::from_iter([2, 1, 4]);
            let parting = s.spawn({
                let source = source.clone();
                move || flow::partition(source, yes, no, |n| n % 2 == 0)
            });
            until(|| source.len() == 1);
            drop(noes);
            assert_eq!(parting.join().unwrap(), Err(SendError::Disconnected(Some(1))));
            assert_eq!(flow::collect(&ays), Ok(vec![2]));
            assert_eq!(source.recv(), Ok(4));
        });
    });
}

/// - given: an iterator
/// - when: `send_all(to, items)` is called
/// - then: everything is sent; a closed target ends the call after one item, which is returned
#[test]
fn over_08_send_all() {
    each_run(|| {
        let (sender, receiver) = channel::bounded(1);
        ecru::scope(|s| {
            s.spawn(|| flow::send_all(sender, 0..50).unwrap());
            assert_eq!(flow::collect(&receiver).unwrap().len(), 50);
        });
        let (sender, receiver) = channel::unbounded();
        drop(receiver);
        let mut items = 0..;
        assert_eq!(flow::send_all(&sender, &mut items), Err(SendError::Disconnected(0)));
        assert_eq!(items.next(), Some(1));
    });
}

/// - given: an iterator, or an empty one
/// - when: `from_iter` is called
/// - then: a closed channel with all the items; for an empty iterator it has ended from the start
#[test]
fn over_09_from_iter() {
    assert_eq!(flow::collect(flow::from_iter("to".chars())), Ok(vec!['t', 'o']));
    let empty = flow::from_iter(std::iter::empty::<u8>());
    assert!(empty.is_closed());
    assert_eq!(empty.recv(), Err(RecvError::Disconnected));
}

/// - given: a channel
/// - when: `fold(from, initial, f)` is called
/// - then: the result of folding all values; for an empty channel `initial`, and `f` is not called
#[test]
fn over_10_fold() {
    let never = |_: u32, _: u32| unreachable!();
    assert_eq!(flow::fold(flow::from_iter([]), 7, never), Ok(7));
    assert_eq!(flow::fold(flow::from_iter(1..=10), 0, |sum, n| sum + n), Ok(55));
}

/// - given: `try_fold`
/// - when: `f` breaks
/// - then: the call returns that result, and nothing further is received
#[test]
fn over_11_fold_stops() {
    let numbers = flow::from_iter(1..=5);
    let to_three = |sum, n| {
        if n == 3 { ControlFlow::Break(sum) } else { ControlFlow::Continue(sum + n) }
    };
    assert_eq!(flow::try_fold(&numbers, 0, to_three), Ok(ControlFlow::Break(3)));
    assert_eq!(numbers.len(), 2);
}

/// - given: `fold` and `collect` that wait
/// - when: they are cancelled
/// - then: `Cancelled`
#[test]
fn over_12_fold_cancelled() {
    each_run(|| {
        let (sender, receiver) = channel::unbounded::<u32>();
        ecru::scope(|s| {
            let folding = begin(s, || flow::fold(&receiver, 0, |sum, n| sum + n));
            let collecting = begin(s, || flow::collect(&receiver));
            folding.cancel();
            collecting.cancel();
            assert!(folding.join().unwrap().is_err());
            assert!(collecting.join().unwrap().is_err());
        });
        drop(sender);
    });
}

/// - given: `take(from, n)`
/// - when: it is read
/// - then: `n` values or fewer, and no more are received; `take(from, 0)` receives none
#[test]
fn over_13_take() {
    let numbers = flow::from_iter(1..=5);
    assert_eq!(flow::take(&numbers, 0).count(), 0);
    let mut two = flow::take(&numbers, 2);
    assert_eq!((two.recv(), two.recv()), (Ok(1), Ok(2)));
    assert_eq!(two.recv(), Err(RecvError::Disconnected));
    assert_eq!(flow::take(&numbers, 9).collect::<Vec<_>>(), [3, 4, 5]);
}

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

/// - given: four channels
/// - when: `zip_with(receivers, f)` is called
/// - then: rows in lockstep
#[test]
fn over_18_zip_with() {
    each_run(|| {
        let (senders, receivers): (Vec<_>, Vec<_>) = (0..4).map(|_| channel::bounded(0)).unzip();
        ecru::scope(|s| {
            for (n, sender) in senders.into_iter().enumerate() {
                s.spawn(move || flow::send_all(sender, (0..10).map(|m| n * 100 + m)));
            }
            let rows = flow::zip_with(receivers, |row: Vec<usize>| row.iter().sum::<usize>());
            let sums: Vec<_> = rows.collect();
            assert_eq!(sums, (0..10).map(|m| 600 + 4 * m).collect::<Vec<_>>());
        });
    });
}

/// - given: one fast channel, one slow
/// - when: a wait for a row is cancelled
/// - then: at most one value of the fast channel is taken ahead, and it is kept for the row
#[test]
fn over_19_zip_lockstep() {
    let many = flow::from_iter(0..100);
    let (sender, one) = channel::unbounded();
    let mut rows = flow::zip_with((&many, &one), |row| row);
    sender.send('a').unwrap();
    assert_eq!(rows.recv(), Ok((0, 'a')));
    let late = ecru::timeout(std::time::Duration::from_millis(1), || rows.recv());
    assert!(late.is_err());
    // One value is held for the next row, and no more.
    assert_eq!(many.len(), 98);
    sender.send('b').unwrap();
    assert_eq!(rows.recv(), Ok((1, 'b')));
}

/// - given: one channel without values, one that ends
/// - when: `zip_with` waits for both
/// - then: it ends
#[test]
fn over_20_zip_ends_with_any() {
    each_run(|| {
        let (_silent, never) = channel::unbounded::<u8>();
        let (sender, ends) = channel::unbounded::<u8>();
        ecru::scope(|s| {
            let rows = s.spawn(|| flow::zip_with((&never, &ends), |row| row).count());
            settle();
            drop(sender);
            assert_eq!(rows.join().unwrap(), 0);
        });
    });
}

/// - given: no channels
/// - when: `zip_with` is called
/// - then: the result has ended
#[test]
fn over_21_zip_of_none() {
    let none = Vec::<channel::Receiver<u8>>::new();
    assert_eq!(flow::zip_with(none, |row| row).recv(), Err(RecvError::Disconnected));
}

/// - given: eight channels of a tuple
/// - when: `zip_with` is called
/// - then: a row of eight
#[test]
fn over_22_zip_of_eight() {
    let one = |n: u32| flow::from_iter([n]);
    let receivers = (one(1), one(2), one(3), one(4), one(5), one(6), one(7), one(8));
    let rows = flow::zip_with(receivers, |(a, b, c, d, e, f, g, h)| [a, b, c, d, e, f, g, h]);
    assert_eq!(rows.collect::<Vec<_>>(), [[1, 2, 3, 4, 5, 6, 7, 8]]);
}

/// Workers and values, as in core.async's tests.
const TABLE: [(usize, usize); 5] = [(1, 0), (1, 10), (10, 10), (20, 10), (5, 1000)];

/// - given: 1, 1, 10, 20 and 5 workers for 0, 10, 10, 10 and 1000 values that take different times
/// - when: `pipeline` is called
/// - then: all outputs, in the order of the values
#[test]
fn over_23_pipeline_ordered() {
    each_run(|| {
        for (workers, values) in TABLE {
            let (to, there) = channel::unbounded();
            let dawdle = |n: usize| {
                for _ in 0..(n * 7919) % 13 {
                    let _ = ecru::yield_now();
                }
                [n * 2]
            };
            flow::pipeline(workers, dawdle).run(flow::from_iter(0..values), to).unwrap();
            let expected: Vec<_> = (0..values).map(|n| n * 2).collect();
            assert_eq!(flow::collect(&there), Ok(expected));
        }
    });
}

/// - given: zero to many outputs for a value, and a target without a buffer
/// - when: `pipeline` is called
/// - then: all outputs, in order
#[test]
fn over_24_pipeline_outputs() {
    each_run(|| {
        let (to, there) = channel::bounded(0);
        ecru::scope(|s| {
            s.spawn(|| {
                flow::pipeline(3, |n: u32| (0..n).map(move |m| (n, m)))
                    .run(flow::from_iter(0..20), to)
                    .unwrap();
            });
            let expected: Vec<_> = (0..20).flat_map(|n| (0..n).map(move |m| (n, m))).collect();
            assert_eq!(flow::collect(&there), Ok(expected));
        });
    });
}

/// - given: n workers and a target that is not read
/// - when: `pipeline` is called
/// - then: n + 2 values are received, and no more until one has been sent on
#[test]
fn over_25_pipeline_read_ahead() {
    each_run(|| {
        for workers in [1, 3] {
            let source = flow::from_iter(0..100);
            let (to, there) = channel::bounded(0);
            ecru::scope(|s| {
                s.spawn(|| flow::pipeline(workers, |n: u32| [n]).run(&source, to).unwrap());
                until(|| source.len() <= 100 - workers - 2);
                settle();
                assert_eq!(source.len(), 100 - workers - 2);
                assert_eq!(flow::collect(&there).unwrap().len(), 100);
            });
        }
    });
}

/// - given: 4 workers
/// - when: either pipeline runs
/// - then: at most 4 values are processed at a time, and 4 are reached
#[test]
fn over_26_pipeline_at_a_time() {
    each_run(|| {
        let (inside, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = |n: u32| {
            most.fetch_max(inside.fetch_add(1, SeqCst) + 1, SeqCst);
            if n < 4 {
                until(|| most.load(SeqCst) >= 4);
            }
            settle();
            inside.fetch_sub(1, SeqCst);
            [n]
        };
        for unordered in [false, true] {
            let (to, there) = channel::unbounded();
            let source = flow::from_iter(0..40);
            if unordered {
                flow::pipeline_unordered(4, work).run(source, to).unwrap();
            } else {
                flow::pipeline(4, work).run(source, to).unwrap();
            }
            assert_eq!(there.len(), 40);
            assert_eq!(most.swap(0, SeqCst), 4);
        }
    });
}

/// - given: a source that does not end
/// - when: `to` closes
/// - then: the call ends with an error, and the source keeps the remaining values; also if no
///   output is ever produced
#[test]
fn over_27_pipeline_target_closes() {
    each_run(|| {
        let (from, source) = channel::unbounded();
        flow::send_all(&from, 0..100).unwrap();
        let (to, there) = channel::bounded(0);
        ecru::scope(|s| {
            let line = s.spawn(|| flow::pipeline(2, |n: u32| [n]).run(&source, to));
            assert_eq!(there.recv(), Ok(0));
            drop(there);
            assert!(line.join().unwrap().unwrap_err().is_disconnected());
        });
        // It ended although the source has not, and took no more than the allowed read-ahead.
        assert!(source.len() >= 100 - 6, "{} are left", source.len());
        let (to, there) = channel::bounded::<u32>(0);
        drop(there);
        let none = flow::pipeline(2, |_: u32| []).run(&source, &to);
        assert!(none.unwrap_err().is_disconnected());
        let none = flow::pipeline_unordered(2, |_: u32| []).run(&source, &to);
        assert!(none.unwrap_err().is_disconnected());
        drop(from);
    });
}

/// - given: `f` panics for one value, and the source does not end
/// - when: either pipeline runs
/// - then: the call ends with that panic
#[test]
fn over_28_pipeline_panics() {
    each_run(|| {
        let (_from, source) = channel::unbounded();
        _from.send(1).unwrap();
        let (to, there) = channel::unbounded();
        let line = flow::pipeline(2, |n: u32| if n == 1 { quiet_panic("one") } else { [n] });
        assert_eq!(panic_text(|| line.run(&source, &to)), "one");
        let line =
            flow::pipeline_unordered(2, |n: u32| if n == 1 { quiet_panic("one") } else { [n] });
        _from.send(1).unwrap();
        assert_eq!(panic_text(|| line.run(&source, to)), "one");
        assert!(there.recv().is_err());
    });
}

/// - given: `on_panic`
/// - when: `f` panics
/// - then: the handler's result, or nothing, takes the value's place; the other values are
///   processed
#[test]
fn over_29_pipeline_handler() {
    each_run(|| {
        let (to, there) = channel::unbounded();
        flow::pipeline(3, |n: u32| if n % 2 == 1 { quiet_panic("odd") } else { [n] })
            .on_panic(|payload| (payload.message() == Some("odd")).then_some(1000))
            .run(flow::from_iter(0..6), to)
            .unwrap();
        assert_eq!(flow::collect(&there), Ok(vec![0, 1000, 2, 1000, 4, 1000]));
        let (to, there) = channel::unbounded();
        flow::pipeline_unordered(3, |n: u32| if n == 1 { quiet_panic("odd") } else { [n] })
            .on_panic(|_| None)
            .run(flow::from_iter(0..3), to)
            .unwrap();
        let mut left = flow::collect(&there).unwrap();
        left.sort_unstable();
        assert_eq!(left, [0, 2]);
    });
}

/// - given: a value being processed
/// - when: the pipeline is cancelled
/// - then: the waits of its function are cancelled too, and the call returns the cancellation
#[test]
fn over_30_pipeline_cancelled() {
    each_run(|| {
        let (from, source) = channel::unbounded();
        let (to, _there) = channel::unbounded::<u32>();
        let begun = AtomicBool::new(false);
        let work = |_: u32| {
            begun.store(true, SeqCst);
            forever();
            []
        };
        ecru::scope(|s| {
            for unordered in [false, true] {
                let (source, to) = (source.clone(), to.clone());
                let line = s.spawn(move || {
                    if unordered {
                        flow::pipeline_unordered(2, work).run(&source, &to)
                    } else {
                        flow::pipeline(2, work).run(&source, &to)
                    }
                });
                from.send(1).unwrap();
                until(|| begun.swap(false, SeqCst));
                line.cancel();
                assert!(line.join().unwrap().unwrap_err().is_cancelled());
            }
        });
    });
}

/// - given: 0 workers
/// - when: either pipeline is made
/// - then: it panics, naming the workers
#[test]
fn over_31_pipeline_of_none() {
    assert!(panic_text(|| flow::pipeline(0, |n: u32| [n])).contains("0 workers"));
    assert!(panic_text(|| flow::pipeline_unordered(0, |n: u32| [n])).contains("0 workers"));
}

/// - given: a slow first value
/// - when: `pipeline_unordered` is called
/// - then: the other outputs come before it
#[test]
fn over_32_unordered_overtakes() {
    run_on(2, || {
        let (to, there) = channel::unbounded();
        let slow = AtomicBool::new(false);
        ecru::scope(|s| {
            s.spawn(|| {
                flow::pipeline_unordered(2, |n: u32| {
                    if n == 0 {
                        until(|| slow.load(SeqCst));
                    }
                    [n]
                })
                .run(flow::from_iter(0..5), to)
                .unwrap();
            });
            let fast: Vec<_> = flow::take(&there, 4).collect();
            assert_eq!(fast, [1, 2, 3, 4]);
            slow.store(true, SeqCst);
            assert_eq!(there.recv(), Ok(0));
        });
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
            let second = ecru::select! {
                wait(&merged) -> received => received.unwrap(),
                recv(silent) -> _ => unreachable!(),
            };
            assert_eq!(second, Ok(2));
            until(|| merged.try_recv() == Ok(3));
        });
    });
}

/// - given: `pipeline` and `pipeline_unordered`
/// - when: a function of theirs makes a dump
/// - then: their tasks are spawned at the place of the call of `run`
#[test]
fn over_36_pipeline_is_spawned_at_its_call() {
    run_on(1, || {
        let lines = |_: u32| {
            let dump = ecru::RuntimeHandle::current().dump();
            let places = dump.tasks().filter(|task| !task.is_root()).map(|task| {
                let at = task.spawned_at();
                assert!(at.file().ends_with("over.rs"), "{at}");
                at.line()
            });
            places.collect::<Vec<_>>()
        };
        let (to, there) = channel::unbounded();
        let here = line!() + 1;
        flow::pipeline(2, lines).run(flow::from_iter([1]), &to).unwrap();
        let seen: Vec<_> = there.try_iter().collect();
        assert!(!seen.is_empty() && seen.iter().all(|line| *line == here), "{seen:?}");
        let here = line!() + 1;
        flow::pipeline_unordered(2, lines).run(flow::from_iter([1]), &to).unwrap();
        let seen: Vec<_> = there.try_iter().collect();
        assert!(!seen.is_empty() && seen.iter().all(|line| *line == here), "{seen:?}");
    });
}
