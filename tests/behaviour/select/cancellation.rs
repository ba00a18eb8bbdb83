//! The effect of a cancellation or a time limit on a select.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::no_value;
use crate::support::{HOUR, everywhere, ms, run_on, settle};
use ecru::channel::{self, RecvError, Select, SendError, TrySelectError};
use ecru::{CancelReason, Cancelled, Source, select};

/// - given: a `cancelled => ..` arm, and a value that is there
/// - when: the task is cancelled
/// - then: that arm is taken at once; nothing has been sent or received, and no value evaluated
#[test]
fn select_06_a_cancelled_select_takes_its_arm_for_that() {
    for workers in [1, 2] {
        run_on(workers, || {
            let (sender, receiver) = channel::unbounded();
            sender.send(1).unwrap();
            ecru::cancel_scope(|scope| {
                scope.cancel();
                // The arm is taken at once, before anything is received.
                let arm = select! {
                    recv(receiver) -> _ => "recv",
                    send(sender, no_value()) -> _ => "send",
                    cancelled => "cancelled",
                };
                assert_eq!(arm, "cancelled");
                let arm = select! {
                    recv(receiver) -> _ => "recv",
                    default(HOUR) => "default",
                    cancelled => "cancelled",
                };
                assert_eq!(arm, "cancelled");
            });
            assert_eq!(receiver.len(), 1);
            // Without a cancellation the arm is not taken.
            select! { recv(receiver) -> message => assert_eq!(message, Ok(1)), cancelled => panic!() }
        });
    }
}

/// - given: no `cancelled` arm
/// - when: the task is cancelled
/// - then: one arm is taken, at random, with `RecvError::Cancelled`, `SendError::Cancelled(v)` or
///   `Err(Cancelled)`
#[test]
fn select_07_without_one_an_arm_gets_its_own_cancelled() {
    for workers in [1, 2] {
        run_on(workers, || {
            let (sender, receiver) = channel::unbounded();
            sender.send(1).unwrap();
            let mut taken = [0; 3];
            ecru::cancel_scope(|scope| {
                scope.cancel();
                for _ in 0..200 {
                    select! {
                        recv(receiver) -> message => {
                            assert_eq!(message, Err(RecvError::Cancelled));
                            taken[0] += 1;
                        },
                        send(sender, 9) -> sent => {
                            assert_eq!(sent, Err(SendError::Cancelled(9)));
                            taken[1] += 1;
                        },
                        wait((&receiver).map(|_| ())) -> item => {
                            let cancelled: Cancelled = item.unwrap_err();
                            assert_eq!(cancelled.reason(), CancelReason::Explicit);
                            taken[2] += 1;
                        },
                    }
                }
            });
            assert!(taken.iter().all(|count| *count > 20), "by chance: {taken:?}");
            assert_eq!(receiver.len(), 1, "nothing sent, nothing received");
        });
    }
}

/// - given: a `select!` and a `Select` that wait
/// - when: their tasks are cancelled
/// - then: they end, and are registered nowhere
#[test]
fn select_08_a_select_in_progress_is_woken_by_a_cancellation() {
    for workers in [1, 2] {
        run_on(workers, || {
            let (sender, receiver) = channel::bounded::<u8>(0);
            let begun = AtomicUsize::new(0);
            ecru::scope(|s| {
                let plain = s.spawn(|| {
                    begun.fetch_add(1, SeqCst);
                    select! { recv(receiver) -> message => message }
                });
                let dynamic = s.spawn(|| {
                    begun.fetch_add(1, SeqCst);
                    let mut choice = Select::new();
                    choice.recv(&receiver);
                    choice.select().recv(&receiver)
                });
                crate::support::until(|| begun.load(SeqCst) == 2);
                settle();
                plain.cancel();
                dynamic.cancel();
                assert_eq!(plain.join().unwrap(), Err(RecvError::Cancelled));
                assert_eq!(dynamic.join().unwrap(), Err(RecvError::Cancelled));
                assert!(sender.try_send(1).is_err(), "they have left the line");
            });
        });
    }
}

/// - given: a cancelled task
/// - when: it runs a select with `default`
/// - then: it does what is ready
#[test]
fn select_09_with_a_plain_default_it_is_no_cancel_point() {
    run_on(1, || {
        let (sender, receiver) = channel::unbounded();
        sender.send(1).unwrap();
        ecru::cancel_scope(|scope| {
            scope.cancel();
            let mut seen = Vec::new();
            for _ in 0..2 {
                select! {
                    recv(receiver) -> message => seen.push(message.ok()),
                    cancelled => unreachable!("it never waits"),
                    default => seen.push(None),
                }
            }
            assert_eq!(seen, [Some(1), None]);
            assert_eq!(Select::new().try_select().err(), Some(TrySelectError));
        });
    });
}

/// - given: `timeout` and `shield`
/// - when: a select inside waits
/// - then: the earlier limit applies; in a shield the select ignores requests
#[test]
fn select_35_time_limits_and_shields_around_it() {
    everywhere(|_| {
        let (sender, receiver) = channel::bounded::<u8>(0);
        let waited = ecru::timeout(ms(2), || {
            select! {
                recv(receiver) -> message => message,
                default(HOUR) => panic!("the nearer limit counts"),
            }
        });
        assert!(waited.is_err(), "{waited:?}");
        let waited = ecru::timeout(HOUR, || {
            select! { send(sender, 1) -> _ => panic!("to nobody"), default(ms(1)) => 5 }
        });
        assert_eq!(waited.unwrap(), 5);
    });
    run_on(1, || {
        let (sender, receiver) = channel::bounded(1);
        ecru::cancel_scope(|scope| {
            scope.cancel();
            let sent = ecru::shield(|| select! { send(sender, 1) -> sent => sent });
            assert_eq!(sent, Ok(()));
        });
        assert_eq!(receiver.recv(), Ok(1));
    });
}
