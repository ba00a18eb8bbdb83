//! Rows of `doc/behaviour/transform.md`.

use crate::common::{begin, panic_text, quiet_panic, settle, until};
use crate::simulated::{each_run, run_on};
use ecru::channel::{RecvError, SendError};
use ecru_flow::{self as flow, Transform, TransformSender, transform};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

fn send_all<X: Transform<Input: std::fmt::Debug>>(
    sender: &TransformSender<X>,
    values: impl IntoIterator<Item = X::Input>,
) {
    values.into_iter().for_each(|value| sender.send(value).unwrap());
}

/// Returns the outputs for these values.
fn outputs<X: Transform<Input: std::fmt::Debug>>(
    transform: X,
    values: impl IntoIterator<Item = X::Input>,
) -> Vec<X::Output> {
    let (sender, receiver) = flow::transformed(1000, transform);
    send_all(&sender, values);
    drop(sender);
    receiver.iter().collect()
}

/// - given: each adaptor, alone and combined
/// - when: values are sent
/// - then: the result is that of the iterator adaptor of the same name
#[test]
fn transform_01_adaptors() {
    let n = transform::values::<u32>;
    assert_eq!(outputs(n(), 0..3), [0, 1, 2]);
    assert_eq!(outputs(n().map(|n| n + 1), 0..3), [1, 2, 3]);
    assert_eq!(outputs(n().filter(|n| n % 2 == 0), 0..5), [0, 2, 4]);
    assert_eq!(outputs(n().flat_map(|n| 0..n), 0..4), [0, 0, 1, 0, 1, 2]);
    assert_eq!(outputs(n().chunks(2).map(|c| c.len()), 0..5), [2, 2, 1]);
    assert_eq!(outputs(n().flat_map(|n| [n, n]).chunks(3), 0..2), [vec![0, 0, 1], vec![1]]);
}

/// - given: chunks of 5 and 8 values
/// - when: the channel is closed, twice
/// - then: a chunk of 5, then, from the flush, one of 3; no new values are accepted
#[test]
fn transform_02_flush() {
    each_run(|| {
        let (sender, chunks) = flow::transformed(8, transform::values().chunks(5));
        send_all(&sender, 0..8);
        assert_eq!(chunks.len(), 1);
        sender.close();
        sender.close();
        assert_eq!(chunks.iter().collect::<Vec<_>>(), [vec![0, 1, 2, 3, 4], vec![5, 6, 7]]);
        assert_eq!(sender.send(8), Err(SendError::Disconnected(8)));
        assert!(sender.try_send(8).unwrap_err().is_disconnected());
    });
}

/// - given: capacities and numbers of receivers from 1 to 9, three outputs for each value
/// - when: values are sent
/// - then: every receiver is served, and nothing is lost
#[test]
fn transform_03_expanding() {
    run_on(2, || {
        for capacity in 1..=9 {
            for takers in 1..=9 {
                let three = transform::values().flat_map(|n: usize| [n; 3]);
                let (sender, receiver) = flow::transformed(capacity, three);
                ecru::scope(|s| {
                    let takers: Vec<_> = (0..takers)
                        .map(|_| s.spawn(|| flow::take(&receiver, 3).collect::<Vec<_>>()))
                        .collect();
                    settle();
                    send_all(&sender, 0..takers.len());
                    let mut all: Vec<_> =
                        takers.iter().flat_map(|taker| taker.join().unwrap()).collect();
                    all.sort_unstable();
                    assert_eq!(all, (0..takers.len()).flat_map(|n| [n; 3]).collect::<Vec<_>>());
                });
            }
        }
    });
}

/// - given: three waiting receivers
/// - when: one value is sent that has three outputs
/// - then: all three are served
#[test]
fn transform_04_several_served_by_one() {
    each_run(|| {
        let three = transform::values().flat_map(|n: u32| [n, n + 1, n + 2]);
        let (sender, receiver) = flow::transformed(1, three);
        ecru::scope(|s| {
            let takers: Vec<_> = (0..3).map(|_| s.spawn(|| receiver.recv().unwrap())).collect();
            settle();
            sender.send(7).unwrap();
            let mut all: Vec<_> = takers.iter().map(|taker| taker.join().unwrap()).collect();
            all.sort_unstable();
            assert_eq!(all, [7, 8, 9]);
        });
    });
}

/// - given: a channel that one value has overfilled
/// - when: another is sent
/// - then: `try_send` is refused, `send` waits, until there is room below the capacity
#[test]
fn transform_05_overfull() {
    each_run(|| {
        let three = transform::values().flat_map(|n: u32| [n; 3]);
        let (sender, receiver) = flow::transformed(2, three);
        sender.send(1).unwrap();
        assert_eq!(receiver.len(), 3);
        ecru::scope(|s| {
            let waits = s.spawn(|| sender.send(2));
            settle();
            assert!(sender.try_send(9).unwrap_err().is_full());
            assert_eq!(receiver.recv(), Ok(1));
            settle();
            // Two values are left: the channel is full, not overfull, and still has no room.
            assert!(!waits.is_finished() && receiver.len() == 2);
            assert_eq!(receiver.recv(), Ok(1));
            assert_eq!(waits.join().unwrap(), Ok(()));
            assert_eq!(receiver.len(), 4);
        });
    });
}

/// - given: a filter
/// - when: values that it refuses are sent
/// - then: they take no room; nevertheless a full channel accepts none
#[test]
fn transform_06_no_output_needs_no_room_for_long() {
    let (sender, receiver) = flow::transformed(1, transform::values().filter(|n: &u32| *n > 9));
    send_all(&sender, [1, 2, 3, 10]);
    assert_eq!(receiver.len(), 1);
    // The channel cannot know beforehand that 4 would need no room.
    assert!(sender.try_send(4).unwrap_err().is_full());
    assert_eq!(receiver.recv(), Ok(10));
    sender.try_send(4).unwrap();
}

/// - given: `take(2)`, and waiting senders
/// - when: the second output has been emitted
/// - then: the channel is closed after it; the waiting sends succeed and their values are dropped
#[test]
fn transform_07_wants_no_more() {
    // With one worker, every task that has begun is at its wait.
    run_on(1, || {
        let (sender, receiver) = flow::transformed(1, transform::values().take(2).chunks(2));
        sender.send(1).unwrap();
        assert!(!sender.is_closed());
        sender.send(2).unwrap();
        assert!(sender.is_closed());
        assert_eq!(sender.send(3), Err(SendError::Disconnected(3)));
        assert_eq!(flow::collect(&receiver), Ok(vec![vec![1, 2]]));

        // Senders that already wait succeed, and their values are dropped.
        let (sender, receiver) = flow::transformed(1, transform::values().take(2));
        sender.send(1).unwrap();
        ecru::scope(|s| {
            let waits: Vec<_> = (2..5)
                .map(|n| {
                    begin(s, {
                        let sender = sender.clone();
                        move || sender.send(n)
                    })
                })
                .collect();
            settle();
            assert_eq!(flow::collect(&receiver).unwrap().len(), 2);
            waits.iter().for_each(|wait| assert_eq!(wait.join().unwrap(), Ok(())));
        });
        assert_eq!(outputs(transform::values::<u32>().take(0), []), []);
    });
}

/// - given: a transform that panics for some values
/// - when: they are sent
/// - then: the sender gets the panic, and the channel continues
#[test]
fn transform_08_panics() {
    each_run(|| {
        let odd = |n: u32| if n % 2 == 1 { quiet_panic("odd") } else { n };
        let (sender, receiver) = flow::transformed(9, transform::values().map(odd));
        sender.send(0).unwrap();
        assert_eq!(panic_text(|| sender.send(1)), "odd");
        sender.send(2).unwrap();
        drop(sender);
        assert_eq!(flow::collect(&receiver), Ok(vec![0, 2]));
    });
}

/// - given: `on_panic`
/// - when: the transform panics above it, or below
/// - then: above: the handler's result, or nothing, is used; below: the handler is not called
#[test]
fn transform_09_handler() {
    let odd = |n: u32| if n % 2 == 1 { quiet_panic("odd") } else { n };
    let instead = transform::values().map(odd).on_panic(|payload| {
        assert_eq!(payload.message(), Some("odd"));
        Some(1000)
    });
    assert_eq!(outputs(instead, 0..4), [0, 1000, 2, 1000]);
    let nothing = transform::values().map(odd).on_panic(|_| None);
    assert_eq!(outputs(nothing, 0..4), [0, 2]);
    // The handler does not catch a panic of a later step.
    let below = transform::values().on_panic(|_| None).map(odd);
    let (sender, _receiver) = flow::transformed(9, below);
    assert_eq!(panic_text(|| sender.send(1)), "odd");
}

/// Keeps everything, and emits it in its flush.
struct Keep(Vec<u32>);

impl Transform for Keep {
    type Input = u32;
    type Output = u32;

    fn step(&mut self, value: u32, _: &mut dyn FnMut(u32)) -> ControlFlow<()> {
        if value == 13 {
            quiet_panic("unlucky");
        }
        self.0.push(value);
        ControlFlow::Continue(())
    }

    fn finish(&mut self, emit: &mut dyn FnMut(u32)) {
        if self.0 == [77] {
            quiet_panic("at the end");
        }
        self.0.drain(..).for_each(emit);
    }
}

/// - given: two waiting senders
/// - when: the channel is closed
/// - then: both values are delivered, and flushed values follow them
#[test]
fn transform_10_close_waits_for_those_who_send() {
    // With one worker, every task that has begun is at its wait.
    run_on(1, || {
        let twice = transform::values().flat_map(|n: u32| [n, n]).chunks(3);
        let (sender, receiver) = flow::transformed(1, twice);
        send_all(&sender, [0, 1]);
        ecru::scope(|s| {
            let waits: Vec<_> = (2..4)
                .map(|n| {
                    begin(s, {
                        let sender = sender.clone();
                        move || sender.send(n)
                    })
                })
                .collect();
            settle();
            sender.close();
            assert_eq!(sender.send(9), Err(SendError::Disconnected(9)));
            let all: Vec<_> = receiver.iter().flatten().collect();
            assert_eq!(all.len(), 8, "two of each, and the flush behind them: {all:?}");
            waits.iter().for_each(|wait| assert_eq!(wait.join().unwrap(), Ok(())));
        });
    });
}

/// - given: a transform that keeps everything; one that panics in its flush
/// - when: the channel is closed, or dropped
/// - then: everything is in the channel, beyond its capacity; the panic goes to the code that
///   closes it, and the channel is closed nevertheless
#[test]
fn transform_11_flush_overfills_and_may_panic() {
    let (sender, receiver) = flow::transformed(1, Keep(vec![]));
    send_all(&sender, [1, 2, 3]);
    assert_eq!(panic_text(|| sender.send(13)), "unlucky");
    sender.close();
    assert_eq!(receiver.len(), 3);
    assert_eq!(receiver.iter().collect::<Vec<_>>(), [1, 2, 3]);

    let (sender, receiver) = flow::transformed(1, Keep(vec![77]));
    assert_eq!(panic_text(|| sender.close()), "at the end");
    assert_eq!(receiver.recv(), Err(RecvError::Disconnected));
    let (sender, receiver) = flow::transformed(1, Keep(vec![77]));
    drop(sender);
    assert_eq!(receiver.recv(), Err(RecvError::Disconnected));
}

/// - given: a capacity of 0, chunks of 0
/// - when: the channel is made
/// - then: it panics, and says what to do
#[test]
fn transform_12_bad_sizes() {
    assert!(panic_text(|| flow::transformed(0, transform::values::<u8>())).contains("capacity"));
    assert!(panic_text(|| transform::values::<u8>().chunks(0)).contains("chunk of 0"));
}

/// - given: senders that wait for room, and for their turn
/// - when: they are cancelled, or the receiver is dropped
/// - then: they get their values back, and the transform has not seen them
#[test]
fn transform_13_value_comes_back() {
    // With one worker, every task that has begun is at its wait.
    run_on(1, || {
        let seen = Arc::new(AtomicUsize::new(0));
        let counting = transform::values().map({
            let seen = Arc::clone(&seen);
            move |n: u32| {
                seen.fetch_add(1, SeqCst);
                n
            }
        });
        let (sender, receiver) = flow::transformed(1, counting);
        sender.send(1).unwrap();
        ecru::scope(|s| {
            // The first waits for room, and the second for its turn.
            let waits: Vec<_> = (2..4)
                .map(|n| {
                    begin(s, {
                        let sender = sender.clone();
                        move || sender.send(n)
                    })
                })
                .collect();
            settle();
            for (n, wait) in waits.iter().enumerate().rev() {
                wait.cancel();
                assert_eq!(wait.join().unwrap(), Err(SendError::Cancelled(n as u32 + 2)));
            }
            let gone = begin(s, || sender.send(4));
            drop(receiver);
            assert_eq!(gone.join().unwrap(), Err(SendError::Disconnected(4)));
        });
        assert_eq!(seen.load(SeqCst), 1);
    });
}

/// - given: a transform that sends to its own channel
/// - when: a value is sent
/// - then: the send inside panics instead of waiting for itself
#[test]
fn transform_14_cannot_wait() {
    each_run(|| {
        let again: Arc<std::sync::OnceLock<TransformSender<Box<dyn SendAgain>>>> = Arc::default();
        let step = Again(Arc::clone(&again));
        let (sender, receiver) = flow::transformed(4, Box::new(step) as Box<dyn SendAgain>);
        again.set(sender.clone()).ok().unwrap();
        // A send from within would wait for itself for ever.
        assert!(panic_text(|| sender.send(1)).contains("no_suspend"));
        sender.close();
        assert!(receiver.recv().is_err());
    });
}

trait SendAgain: Send {
    fn again(&self, value: u32);
}

struct Again(Arc<std::sync::OnceLock<TransformSender<Box<dyn SendAgain>>>>);

impl SendAgain for Again {
    fn again(&self, value: u32) {
        let _ = self.0.get().unwrap().send(value + 1);
    }
}

impl Transform for Box<dyn SendAgain> {
    type Input = u32;
    type Output = u32;

    fn step(&mut self, value: u32, _: &mut dyn FnMut(u32)) -> ControlFlow<()> {
        (**self).again(value);
        ControlFlow::Continue(())
    }
}

/// - given: four senders at once
/// - when: they send values with two outputs each
/// - then: everything arrives, and the outputs of one value stay together
#[test]
fn transform_15_many_senders() {
    run_on(2, || {
        let both = transform::values().flat_map(|n: u64| [n, n]);
        let (sender, receiver) = flow::transformed(3, both);
        ecru::scope(|s| {
            for part in 0..4 {
                let sender = sender.clone();
                s.spawn(move || (0..1000).for_each(|n| sender.send(part * 1000 + n).unwrap()));
            }
            drop(sender);
            let mut all = flow::collect(&receiver).unwrap();
            // The outputs of one value stay together.
            assert!(all.chunks(2).all(|two| two[0] == two[1]));
            all.sort_unstable();
            assert!(all.into_iter().eq((0..4000).flat_map(|n| [n, n])));
        });
    });
}

/// - given: a transform that has kept values
/// - when: the receiver closes the channel
/// - then: the channel's values are received, and the kept values are dropped
#[test]
fn transform_16_receiver_closes() {
    each_run(|| {
        let (sender, receiver) = flow::transformed(2, transform::values().chunks(2));
        send_all(&sender, [1, 2, 3]);
        receiver.close();
        until(|| sender.is_closed());
        assert_eq!(sender.send(4), Err(SendError::Disconnected(4)));
        assert_eq!(receiver.recv(), Ok(vec![1, 2]));
        assert_eq!(receiver.recv(), Err(RecvError::Disconnected));
        drop(sender);
        assert_eq!(receiver.recv(), Err(RecvError::Disconnected));
    });
}
