//! Send arms: when their value is evaluated, and what happens to the reservation for it.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::no_value;
use crate::support::{HOUR, everywhere, ms, panic_text};
use ecru::channel::{self, Select, Sender};
use ecru::{Source, select};

/// - given: an arm `send(s, v)`
/// - when: another arm is taken; this arm is taken
/// - then: v is not evaluated; v is evaluated once
#[test]
fn select_12_a_value_is_made_only_when_its_arm_is_taken() {
    everywhere(|side| {
        let (full, from_full) = channel::bounded(1);
        full.send(0).unwrap();
        let (sender, receiver) = channel::bounded(1);
        sender.send(1).unwrap();
        let made = AtomicUsize::new(0);
        let make = |value| {
            made.fetch_add(1, SeqCst);
            value
        };
        select! {
            send(full, make(5)) -> _ => panic!("there is no room"),
            recv(receiver) -> message => assert_eq!(message, Ok(1)),
        }
        select! {
            send(full, make(5)) -> _ => panic!("there is no room"),
            default(ms(1)) => {}
        }
        assert_eq!(made.load(SeqCst), 0);
        let (_, ()) = side.both(
            || select! { send(full, make(6)) -> sent => sent.unwrap() },
            || {
                side.pause();
                assert_eq!(made.load(SeqCst), 0);
                assert_eq!((from_full.recv(), from_full.recv()), (Ok(0), Ok(6)));
            },
        );
        assert_eq!(made.load(SeqCst), 1);
    });
}

/// - given: room or a receiver reserved for an arm
/// - when: v panics, returns, uses `?`, or the `SelectedOperation` is dropped
/// - then: others can use the room; the receiver still waits and is served
#[test]
fn select_13_what_was_reserved_is_given_back_when_the_value_does_not_come() {
    fn leaves(sender: &Sender<u8>, value: Option<u8>) -> Option<()> {
        select! { send(sender, value?) -> sent => sent.ok() }
    }
    everywhere(|side| {
        for capacity in [0, 1] {
            let (sender, receiver) = channel::bounded(capacity);
            let (values, ()) = side.many(
                2,
                |_| receiver.recv(),
                || {
                    side.pause();
                    assert_eq!(leaves(&sender, None), None);
                    let text = panic_text(|| {
                        select! { send(sender, no_value()) -> _ => {} }
                    });
                    assert_eq!(text, "no value");
                    let mut choice = Select::new();
                    choice.send(&sender);
                    drop(choice.select());
                    sender.send(1).unwrap();
                    sender.send(2).unwrap();
                },
            );
            assert_eq!(values.iter().filter(|value| value.is_ok()).count(), 2);
        }
        // Other senders may use the room.
        let (sender, receiver) = channel::bounded(1);
        let mut choice = Select::new();
        choice.send(&sender);
        let selected = choice.select();
        assert!(sender.try_send(1).unwrap_err().is_full(), "it is reserved");
        drop(selected);
        assert_eq!((sender.try_send(1), receiver.recv()), (Ok(()), Ok(1)));
    });
}

/// - given: a channel without a buffer whose receiver is reserved for a send arm, and a value that
///   `overfill` sends meanwhile
/// - when: v panics, returns, uses `?`, or the `SelectedOperation` is dropped; the arm sends v
/// - then: the receiver gets the overfilled value; v comes after it
#[test]
fn select_50_overfilled_while_the_receiver_is_reserved() {
    fn leaves(sender: &Sender<u8>, how: usize) -> Option<()> {
        let overfill = || sender.overfill(1).unwrap();
        match how {
            0 => select! {
                send(sender, { overfill(); no_value() }) -> _ => {}
            },
            1 => select! {
                send(sender, { overfill(); if how == 1 { return Some(()) } 1 }) -> _ => {}
            },
            2 => select! {
                send(sender, { overfill(); None? }) -> _ => {}
            },
            _ => {
                let mut choice = Select::new();
                choice.send(sender);
                let selected = choice.select();
                overfill();
                drop(selected);
            }
        }
        Some(())
    }
    everywhere(|side| {
        for how in 0..4 {
            let (sender, receiver) = channel::bounded(0);
            let leave = || match how {
                0 => assert_eq!(panic_text(|| leaves(&sender, how)), "no value"),
                how => assert_eq!(leaves(&sender, how), (how != 2).then_some(())),
            };
            assert_eq!(side.both(|| receiver.recv(), leave), (Ok(1), ()), "{how}");
        }
    });
}

#[test]
fn select_50_overfilled_while_the_receiver_is_reserved_and_then_sent_to() {
    everywhere(|side| {
        for how in 0..3 {
            let (sender, receiver) = channel::bounded(0);
            let sends = || match how {
                0 => select! {
                    send(sender, { sender.overfill(1).unwrap(); 2 }) -> sent => sent.unwrap()
                },
                1 => {
                    let mut choice = Select::new();
                    choice.send(&sender);
                    let selected = choice.select();
                    sender.overfill(1).unwrap();
                    selected.send(&sender, 2).unwrap();
                }
                // This send does not wait.
                _ => select! {
                    send(sender, { sender.overfill(1).unwrap(); 2 }) -> sent => sent.unwrap(),
                    default(HOUR) => panic!("there is a receiver"),
                },
            };
            let got = side.both(|| [receiver.recv(), receiver.recv()], sends);
            assert_eq!(got, ([Ok(1), Ok(2)], ()), "{how}");
        }
    });
}

/// - given: a channel without a buffer whose receiver is reserved for a send arm and refuses v, and
///   a sender that waits with a value that the receiver accepts
/// - when: the arm sends v
/// - then: the receiver gets the value of the other sender
#[test]
fn select_51_a_reserved_receiver_that_refuses_sees_the_values_of_others() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(0);
        let (got, ()) = side.many(
            2,
            |n| match n {
                0 => {
                    let odd = (&receiver).filter(|n| n % 2 == 1).wait().unwrap();
                    (odd, receiver.recv())
                }
                _ => {
                    side.pause();
                    sender.send(3).unwrap();
                    (Ok(0), Ok(0))
                }
            },
            || {
                let mut choice = Select::new();
                choice.send(&sender);
                let selected = choice.select();
                // The other sender passes the reserved receiver over.
                side.pause();
                side.pause();
                selected.send(&sender, 2).unwrap();
            },
        );
        assert_eq!(got[0], (Ok(3), Ok(2)));
    });
}

/// - given: unbounded, dropping, sliding and oneshot channels
/// - when: a select sends
/// - then: it succeeds without waiting
#[test]
fn select_36_to_send_where_nobody_ever_waits() {
    everywhere(|_| {
        for (sender, receiver) in
            [channel::unbounded(), channel::dropping(1), channel::sliding(1), channel::oneshot()]
        {
            select! { send(sender, 1) -> sent => sent.unwrap() }
            assert_eq!(receiver.recv(), Ok(1));
        }
        let (sender, receiver) = channel::sliding(1);
        (0..5).for_each(|n| select! { send(sender, n) -> sent => sent.unwrap() });
        assert_eq!(receiver.recv(), Ok(4));
        let (sender, receiver) = channel::dropping(1);
        (0..5).for_each(|n| select! { send(sender, n) -> sent => sent.unwrap() });
        assert_eq!(receiver.recv(), Ok(0));
    });
}

/// - given: a sender and a receiver that arrive at the same time
/// - when: a select of both runs
/// - then: exactly one of the two is served
#[test]
fn select_37_a_read_and_a_send_of_which_exactly_one_is_done() {
    everywhere(|side| {
        // Two peers come for both arms at once.
        for _ in 0..12 {
            let (a, from_a) = channel::bounded(0);
            let (b, from_b) = channel::bounded(0);
            let (others, which) = side.many(
                2,
                |n| match n {
                    0 => a.send_timeout(1, ms(3)).is_ok(),
                    _ => from_b.recv_timeout(ms(3)).is_ok(),
                },
                || {
                    select! {
                        recv(from_a) -> message => {
                            message.unwrap();
                            0
                        },
                        send(b, 2) -> sent => {
                            // The receiver may have left before the value came.
                            let _ = sent;
                            1
                        },
                        default(ms(2)) => 2,
                    }
                },
            );
            let done = others.iter().filter(|done| **done).count();
            assert_eq!(done, usize::from(which < 2), "{others:?} {which}");
        }
    });
}
