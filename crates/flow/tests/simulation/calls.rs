//! Calls: what was received is sent, or is in the error.

use super::{Seen, everywhere};
use ecru::channel::{self, Receiver, SendError};
use ecru::sim;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Notes whether any of the test's own tasks was cancelled. A task owns one of these.
///
/// A pipeline has tasks of its own, which only a simulation can cancel. What they have in hand then
/// is lost.
struct Own<'c> {
    was_cancelled: &'c AtomicBool,
    has_begun: bool,
}

impl Own<'_> {
    fn begin(&mut self) {
        self.has_begun = true;
    }
}

impl Drop for Own<'_> {
    fn drop(&mut self) {
        if !self.has_begun || ecru::is_cancelled() {
            self.was_cancelled.store(true, Relaxed);
        }
    }
}

/// Two tasks call `moves`, from one channel to another. If one of them is cancelled, the other
/// carries on, and so do the two senders and the two receivers. Returns what was sent and taken,
/// and whether any of these tasks was cancelled.
fn move_all(
    capacity: usize,
    moves: impl Fn(&Seen, Receiver<u32>, channel::Sender<u32>) + Sync,
) -> (Seen, bool) {
    let (seen, was_cancelled) = (Seen::default(), AtomicBool::new(false));
    let own = || Own { was_cancelled: &was_cancelled, has_begun: false };
    let (tx, from) = channel::bounded(capacity);
    let (to, rx) = channel::bounded(capacity);
    let rests = [from.clone(), rx.clone()];
    ecru::scope(|s| {
        let (seen, moves) = (&seen, &moves);
        for (sender, tx) in [tx.clone(), tx].into_iter().enumerate() {
            let (first, mut own) = (10 * sender as u32, own());
            s.spawn(move || {
                own.begin();
                seen.send(&tx, first..first + 3)
            });
        }
        for (from, to) in [(from.clone(), to.clone()), (from, to)] {
            let mut own = own();
            s.spawn(move || {
                own.begin();
                moves(seen, from, to)
            });
        }
        for rx in [rx.clone(), rx] {
            let mut own = own();
            s.spawn(move || {
                own.begin();
                rx.iter().for_each(|number| seen.take(number))
            });
        }
    });
    rests.iter().for_each(|rest| seen.take_rest(rest));
    (seen, was_cancelled.into_inner() || ecru::is_cancelled())
}

#[test]
fn a_pipe_loses_nothing_slow() {
    for capacity in [0, 1] {
        everywhere(move || {
            let pipe = |seen: &Seen, from, to| seen.take_in_hand(ecru_flow::pipe(from, to));
            move_all(capacity, pipe).0.balance();
        });
    }
}

#[test]
fn an_unordered_pipeline_loses_nothing_slow() {
    everywhere(|| {
        // With more tasks, each may have an output in hand, and the error holds the first.
        let pipe = ecru_flow::pipeline_unordered(1, |number: u32| [number]);
        let run = |seen: &Seen, from, to| seen.take_in_hand(pipe.run(from, to));
        let (seen, was_cancelled) = move_all(1, run);
        if was_cancelled {
            seen.balance();
        }
    });
    sim::test(|| {
        let pipe = ecru_flow::pipeline_unordered(2, |number: u32| [number]);
        move_all(1, |_, from, to| pipe.run(from, to).unwrap()).0.balance();
    });
}

#[test]
fn a_partition_loses_nothing_slow() {
    everywhere(|| {
        let seen = Seen::default();
        let (tx, from) = channel::bounded(0);
        let (even, evens) = channel::bounded(0);
        let (odd, odds) = channel::bounded(0);
        ecru::scope(|s| {
            let seen = &seen;
            s.spawn(move || seen.send(&tx, 0..5));
            s.spawn(move || {
                let is_even = |number: &u32| number.is_multiple_of(2);
                seen.take_in_hand(ecru_flow::partition(from, even, odd, is_even));
            });
            for (rx, rest) in [(evens, 0), (odds, 1)] {
                s.spawn(move || {
                    for number in &rx {
                        assert_eq!(number % 2, rest);
                        seen.take(number);
                    }
                });
            }
        });
        seen.balance();
    });
}

/// The iterator has given what was sent, and the one item in the error.
#[test]
fn send_all_takes_no_item_too_many_slow() {
    for capacity in [0, 2] {
        everywhere(move || {
            let (tx, rx) = channel::bounded(capacity);
            let rest = rx.clone();
            let (sent, got) = ecru::scope(|s| {
                let sender = s.spawn(move || {
                    let mut numbers = 0..4_u32;
                    let outcome = ecru_flow::send_all(&tx, &mut numbers);
                    drop(tx);
                    let next = numbers.start;
                    match outcome {
                        Ok(()) => next,
                        Err(error) => {
                            assert_eq!(error.into_inner() + 1, next);
                            next - 1
                        }
                    }
                });
                let receiver = s.spawn(move || rx.iter().collect::<Vec<u32>>());
                let got = ecru::shield(|| receiver.join()).unwrap_or_default();
                let rest = ecru::shield(|| rest.iter().collect::<Vec<u32>>());
                let sent = ecru::shield(|| sender.join()).unwrap_or(0);
                (sent, [got, rest].concat())
            });
            assert_eq!(got, Vec::from_iter(0..sent));
        });
    }
}

/// A number stands for two outputs. They come in order, and only the error's output is missing.
#[test]
fn a_pipeline_keeps_the_order_slow() {
    for workers in [1, 2] {
        everywhere(move || {
            let (tx, from) = channel::bounded(0);
            let (to, rx) = channel::bounded(0);
            let sent = Mutex::new(0);
            let got = Mutex::new(Vec::new());
            let was_cancelled = AtomicBool::new(false);
            let error = ecru::scope(|s| {
                let (sent, got) = (&sent, &got);
                let mut own =
                    [(); 3].map(|()| Own { was_cancelled: &was_cancelled, has_begun: false });
                own.iter_mut().for_each(Own::begin);
                let [sender, runner, receiver] = own;
                s.spawn(move || {
                    let _own = sender;
                    for number in 0..3_u32 {
                        if tx.send(number).is_err() {
                            return;
                        }
                        *sent.lock().unwrap() += 1;
                    }
                });
                let stage = s.spawn(move || {
                    let _own = runner;
                    let doubles = ecru_flow::pipeline(workers, |n: u32| [2 * n, 2 * n + 1]);
                    doubles.run(from, to)
                });
                s.spawn(move || {
                    let _own = receiver;
                    rx.iter().for_each(|number| got.lock().unwrap().push(number))
                });
                ecru::shield(|| stage.join()).ok()
            })
            .and_then(Result::err);
            if !was_cancelled.into_inner() {
                return;
            }
            let (sent, got) = (sent.into_inner().unwrap(), got.into_inner().unwrap());
            let expected: Vec<u32> = (0..got.len() as u32).collect();
            assert_eq!(got, expected);
            assert!(got.len() <= 2 * sent, "{got:?} of {sent}");
            // The output in hand is the one after those that were received.
            if let Some(in_hand) = error.and_then(SendError::into_inner) {
                assert_eq!(in_hand as usize, got.len());
            }
        });
    }
}

#[test]
fn an_untouched_pipeline_delivers_everything() {
    for workers in [1, 3] {
        sim::test(move || {
            let (to, rx) = channel::bounded(0);
            let got = ecru::scope(|s| {
                let stage = s.spawn(move || {
                    let doubles = ecru_flow::pipeline(workers, |n: u32| [2 * n, 2 * n + 1]);
                    doubles.run(ecru_flow::from_iter(0..4), to)
                });
                let got: Vec<u32> = rx.iter().collect();
                assert!(stage.join().unwrap().is_ok());
                got
            });
            assert_eq!(got, Vec::from_iter(0..8));
        });
    }
}
