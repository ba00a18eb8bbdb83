//! The order of service, and that dead waiters are skipped.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use super::{kinds, until_on};
use crate::support::{everywhere, ms, run_on};
use ecru::Source;
use ecru::channel::{self, RecvError, Select, SendTimeoutError};

/// - given: four waiting receivers
/// - when: four values are sent
/// - then: the receiver that came first gets the first value, and so on
#[test]
fn channel_30_receivers_are_served_in_the_order_in_which_they_came() {
    everywhere(|side| {
        for (name, sender, receiver) in kinds() {
            let begun = AtomicUsize::new(0);
            let in_turn = |n| {
                until_on(side, || begun.load(SeqCst) == n);
                side.pause();
                begun.store(n + 1, SeqCst);
                receiver.recv()
            };
            let (values, ()) = side.many(4, in_turn, || {
                until_on(side, || begun.load(SeqCst) == 4);
                side.pause();
                (0..4).for_each(|value| sender.send(value).unwrap());
            });
            assert_eq!(values, [Ok(0), Ok(1), Ok(2), Ok(3)], "{name}");
        }
    });
}

/// - given: four waiting senders, with a buffer and without
/// - when: values are received
/// - then: they come in the order in which the senders came
#[test]
fn channel_31_senders_are_served_in_the_order_in_which_they_came() {
    everywhere(|side| {
        for capacity in [0, 2] {
            let (sender, receiver) = channel::bounded(capacity);
            (0..capacity).for_each(|_| sender.send(100).unwrap());
            let begun = AtomicUsize::new(0);
            let in_turn = |n| {
                until_on(side, || begun.load(SeqCst) == n);
                side.pause();
                begun.store(n + 1, SeqCst);
                sender.send(n).unwrap();
            };
            let (_, values) = side.many(4, in_turn, || {
                until_on(side, || begun.load(SeqCst) == 4);
                side.pause();
                receiver.iter().skip(capacity).take(4).collect::<Vec<_>>()
            });
            assert_eq!(values, [0, 1, 2, 3]);
        }
    });
}

/// - given: waiting senders, of which the first was cancelled or timed out
/// - when: one value is received
/// - then: the same receive lets the first live sender in
#[test]
fn channel_32_a_dead_sender_is_passed_over_and_the_next_is_let_in_at_once() {
    for workers in [1, 2] {
        run_on(workers, || {
            let (sender, receiver) = channel::bounded(1);
            sender.send(0).unwrap();
            ecru::scope(|s| {
                let dead: Vec<_> = (1..4)
                    .map(|n| {
                        s.spawn_local({
                            let sender = &sender;
                            move || sender.send(n)
                        })
                    })
                    .collect();
                crate::support::settle();
                let live = s.spawn_local(|| sender.send(4));
                crate::support::settle();
                // They are still registered, because nothing has run since they were cancelled.
                dead.iter().for_each(|task| task.cancel());
                assert_eq!(receiver.try_recv(), Ok(0));
                assert_eq!(receiver.len(), 1, "one receive lets the next live one in");
                assert_eq!(live.join().unwrap(), Ok(()));
                let stopped: Vec<_> = dead.iter().map(|task| task.join().unwrap()).collect();
                // A send that was let in although its task had been cancelled has succeeded.
                let sent: Vec<_> = receiver.try_iter().collect();
                let all = stopped.iter().filter(|result| result.is_ok()).count() + 1;
                assert_eq!(sent.len(), all, "{stopped:?} {sent:?}");
            });
        });
    }
}

#[test]
fn channel_32_a_dead_sender_is_passed_over_and_the_next_is_let_in_at_once_after_its_time() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(1);
        let gone = AtomicBool::new(false);
        sender.send(0).unwrap();
        let (dead, live) = side.both(
            || {
                let sent = sender.send_timeout(1, ms(3));
                gone.store(true, SeqCst);
                sent
            },
            || {
                let (sent, ()) = side.both(
                    || {
                        side.pause();
                        sender.send(2)
                    },
                    || {
                        until_on(side, || gone.load(SeqCst));
                        assert_eq!(receiver.recv(), Ok(0));
                    },
                );
                sent
            },
        );
        assert_eq!((dead, live), (Err(SendTimeoutError::Timeout(1)), Ok(())));
        assert_eq!(receiver.try_recv(), Ok(2));
    });
}

/// - given: waiting receivers, of which the first ones were cancelled
/// - when: a value is sent
/// - then: the first live receiver gets it
#[test]
fn channel_33_a_dead_receiver_is_passed_over() {
    for workers in [1, 2] {
        run_on(workers, || {
            for (name, sender, receiver) in kinds() {
                ecru::scope(|s| {
                    let dead: Vec<_> = (0..3).map(|_| s.spawn_local(|| receiver.recv())).collect();
                    crate::support::settle();
                    let live = s.spawn_local(|| receiver.recv());
                    crate::support::settle();
                    dead.iter().for_each(|task| task.cancel());
                    crate::support::settle();
                    sender.send(7).unwrap();
                    assert_eq!(live.join().unwrap(), Ok(7), "{name}");
                    for task in dead {
                        assert_eq!(task.join().unwrap(), Err(RecvError::Cancelled), "{name}");
                    }
                });
            }
        });
    }
}

/// - given: three senders of 1,001 values, on each kind
/// - when: one receiver takes them all
/// - then: each sender's values arrive in its order
#[test]
fn channel_41_each_sender_s_values_keep_their_order() {
    everywhere(|side| {
        for (name, sender, receiver) in kinds() {
            let writer = |id| (0..1001).for_each(|n| sender.send((id, n)).unwrap());
            let (_, ()) = side.many(3, writer, || {
                let mut next = [0; 3];
                for (id, n) in receiver.iter().take(3 * 1001) {
                    assert_eq!(n, next[id], "{name}");
                    next[id] += 1;
                }
                assert_eq!(next, [1001; 3], "{name}");
            });
        }
    });
}

/// A value that a select has taken and returned is the first again, before that of a waiting
/// sender.
#[test]
fn channel_41_each_sender_s_values_keep_their_order_when_one_is_given_back() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(0);
        let send = |_| (1..=4).for_each(|value| sender.send(value).unwrap());
        let (_, ()) = side.many(1, send, || {
            let mut select = Select::new();
            select.recv(&receiver);
            drop(select.select());
            // By now it waits with the second value.
            side.pause();
            assert_eq!(receiver.iter().take(4).collect::<Vec<_>>(), [1, 2, 3, 4]);
        });
    });
}

/// A receiver that refuses the returned value gets the next one when another receiver takes the
/// first.
#[test]
fn channel_30_receivers_are_served_in_the_order_in_which_they_came_behind_what_was_given_back() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(0);
        let turn = AtomicUsize::new(0);
        let others = |who| {
            until_on(side, || turn.load(SeqCst) >= who);
            match who {
                0 => sender.send(1).map(|()| 1).unwrap(),
                1 => (&receiver).filter(|value| value % 2 == 0).wait().unwrap().unwrap(),
                _ => sender.send(2).map(|()| 2).unwrap(),
            }
        };
        let (took, mine) = side.many(3, others, || {
            let mut select = Select::new();
            select.recv(&receiver);
            drop(select.select());
            for who in [1, 2] {
                turn.store(who, SeqCst);
                side.pause();
            }
            receiver.recv().unwrap()
        });
        assert_eq!((mine, took), (1, vec![1, 2, 2]));
    });
}

/// - given: two waiting senders
/// - when: one value is received
/// - then: one of them is let in, and not both
#[test]
fn channel_49_room_lets_one_waiting_sender_in() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(1);
        sender.send(0).unwrap();
        let sent = AtomicUsize::new(0);
        let work = |n: usize| {
            sender.send(n + 1).unwrap();
            sent.fetch_add(1, SeqCst);
        };
        let (_, ()) = side.many(2, work, || {
            side.pause();
            assert_eq!(sent.load(SeqCst), 0);
            assert_eq!(receiver.recv(), Ok(0));
            until_on(side, || sent.load(SeqCst) == 1);
            side.pause();
            assert_eq!(sent.load(SeqCst), 1);
            assert!(receiver.recv().is_ok());
            until_on(side, || sent.load(SeqCst) == 2);
        });
    });
}
