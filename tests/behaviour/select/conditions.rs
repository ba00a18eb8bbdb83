//! Arms that reserve, and arms with conditions.

use std::cell::Cell;

use crate::support::{each_run, everywhere, ms, settle};
use ecru::channel::{self, SendError};
use ecru::{select, select_biased};

/// - given: an arm `reserve(s) -> permit`, beside others
/// - when: there is room, there comes some, another arm is taken, the channel is closed, the select
///   is cancelled
/// - then: a permit; a permit; nothing is reserved; `Disconnected`; `Cancelled`
#[test]
fn select_54_arms_that_reserve() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(1);
        let (other, from_other) = channel::unbounded::<u32>();
        let reserved = || {
            select! {
                reserve(sender) -> permit => permit,
                recv(from_other) -> _ => panic!("there is nothing"),
            }
        };
        let permit = reserved().unwrap();
        other.send(1).unwrap();
        select! {
            reserve(&sender) -> _ => panic!("there is no room"),
            recv(from_other) -> message => assert_eq!(message, Ok(1)),
        }
        permit.send(2).unwrap();
        let (permit, ()) = side.both(reserved, || {
            side.pause();
            assert_eq!(receiver.recv(), Ok(2));
        });
        drop(permit.unwrap());
        select! {
            reserve(sender) -> permit => permit.unwrap().send(3).unwrap(),
            default => panic!("there is room"),
        }
        select! {
            reserve(sender) -> _ => panic!("there is no room"),
            default(ms(1)) => {}
        }
        assert_eq!(receiver.drain(), [3]);
        receiver.close();
        assert_eq!(reserved().unwrap_err(), SendError::Disconnected(()));
        let (sender, _receiver) = channel::bounded::<u32>(1);
        ecru::cancel_scope(|c| {
            c.cancel();
            let permit = select! { reserve(sender) -> permit => permit };
            assert_eq!(permit.unwrap_err(), SendError::Cancelled(()));
        });
        assert!(sender.try_reserve().is_ok());
    });
}

/// - given: arms with conditions, whose channels are all ready
/// - when: some of the conditions are true
/// - then: only their arms are taken, each of these; a condition is evaluated once, and so is the
///   operand of an arm whose condition is false
#[test]
fn select_55_conditions() {
    everywhere(|_| {
        let (numbers, n) = channel::unbounded();
        let (texts, t) = channel::unbounded();
        let (room, r) = channel::unbounded();
        let evaluated = Cell::new(0);
        let count = |value: bool| {
            evaluated.set(evaluated.get() + 1);
            value
        };
        let mut taken = [0; 4];
        for turn in 0..400 {
            (0..2).for_each(|_| numbers.send(turn).unwrap());
            texts.send("text").unwrap();
            let index = select! {
                recv(n) -> number if count(turn < 0) => panic!("{number:?}"),
                recv({ count(true); &n }) -> _ if count(false) => 0,
                recv(n) -> number if count(turn % 2 == 0) => { number.unwrap(); 1 }
                wait(&t) -> text if turn < 200 => text.unwrap().unwrap().len() - 2,
                send(room, turn) -> sent if count(true) => sent.map_or(0, |()| 3),
                reserve(room) -> _ if turn > 1_000 => 0
            };
            assert_eq!(evaluated.replace(0), 5);
            taken[index] += 1;
            drop((n.drain(), t.drain()));
        }
        assert!(taken[0] == 0 && taken[1..].iter().all(|count| *count > 0), "{taken:?}");
        assert_eq!(r.len(), taken[3]);
        let first = select_biased! {
            recv(n) -> _ if false => 1,
            send(room, 7) -> _ if true => 2,
            default => 3,
        };
        assert_eq!(first, 2);
    });
}

/// - given: a select whose conditions are all false
/// - when: it has a default, with or without a time; it has none, and is cancelled
/// - then: the default is taken, at once or after that time; the `cancelled` arm is taken, or one of
///   the others with `Cancelled`
#[test]
fn select_56_no_condition_is_true() {
    each_run(|| {
        let (sender, receiver) = channel::unbounded();
        sender.send(1).unwrap();
        let off = select! { recv(receiver) -> _ if false => 1, default => 2 };
        assert_eq!(off, 2);
        let off = select! { recv(receiver) -> _ if false => 1, default(ms(1)) => 2 };
        assert_eq!(off, 2);
        ecru::scope(|s| {
            let told = s.spawn(|| {
                select! {
                    recv(receiver) -> _ if false => false,
                    cancelled => true,
                }
            });
            let untold = s.spawn(|| {
                select! {
                    recv(receiver) -> message if false => message.unwrap_err().is_cancelled(),
                    send(sender, 2) -> sent if false => sent.unwrap_err().is_cancelled(),
                }
            });
            settle();
            for task in [told, untold] {
                task.cancel();
                assert!(task.join().unwrap_or(true));
            }
        });
        assert_eq!(receiver.drain(), [1]);
    });
}

/// - given: a cancelled select, of whose arms some have a condition that is false
/// - when: it has no `cancelled` arm
/// - then: one of the arms whose condition is true gets the cancellation, each of them at some time
#[test]
fn select_57_cancellation_and_conditions() {
    each_run(|| {
        let (_sender, receiver) = channel::unbounded::<u32>();
        ecru::cancel_scope(|c| {
            c.cancel();
            let mut taken = [0; 2];
            for _ in 0..200 {
                let index = select! {
                    recv(receiver) -> _ if false => panic!("its condition is false"),
                    recv(receiver) -> message if true => message.map_or(0, |_| 2),
                    recv(receiver) -> _ if false => panic!("its condition is false"),
                    recv(receiver) -> message => message.map_or(1, |_| 2),
                };
                taken[index] += 1;
            }
            assert!(taken.iter().all(|count| *count > 0), "{taken:?}");
            let first = select_biased! {
                recv(receiver) -> _ if false => 1,
                recv(receiver) -> _ => 2,
                recv(receiver) -> _ if true => 3,
            };
            assert_eq!(first, 2);
        });
    });
}
