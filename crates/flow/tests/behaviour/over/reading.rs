//! `fold`, `collect` and `take`.

use crate::common::begin;
use crate::simulated::each_run;
use ecru::channel::{self, RecvError};
use ecru_flow as flow;
use std::ops::ControlFlow;

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
