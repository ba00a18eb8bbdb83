//! Selects that meet each other, and many of them. None is starved or forgotten.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use crate::support::{HOUR, everywhere, ms, now, run_on, since};
use ecru::channel::{self, Receiver, Sender};
use ecru::{select, select_biased};

/// - given: `after`, `tick` as arms
/// - when: they become due
/// - then: the arm is taken, never early; a timer that has fired is never taken again
#[test]
fn select_25_timers_in_a_select() {
    everywhere(|_| {
        let (_sender, receiver) = channel::bounded::<u8>(0);
        let start = now();
        let slow = channel::after(HOUR);
        select! {
            recv(receiver) -> _ => panic!("there is nothing"),
            recv(slow) -> _ => panic!("not yet"),
            recv(channel::after(ms(3))) -> due => assert!(due.unwrap() >= start + ms(3)),
            default(HOUR) => panic!("not yet"),
        }
        assert!(since(start) >= ms(3), "never early");
        let ticks = channel::tick(ms(1));
        let until = channel::after(ms(10));
        let mut count = 0;
        loop {
            select_biased! {
                recv(ticks) -> tick => {
                    assert!(tick.is_ok());
                    count += 1;
                },
                recv(until) -> _ => break,
            }
        }
        assert!((1..=11).contains(&count), "{count}");
        // A timer that has fired is never ready again.
        select! { recv(until) -> _ => panic!("it has rung"), default(ms(1)) => {} }
    });
}

/// - given: three senders that never stop
/// - when: a receiver selects among them
/// - then: no sender is starved
#[test]
fn select_26_every_arm_is_reached_in_time() {
    everywhere(|side| {
        // Other tasks send the values, so most of them are waited for.
        let (a, from_a) = channel::bounded(0);
        let (b, from_b) = channel::bounded(0);
        let (c, from_c) = channel::bounded(1);
        let begun = AtomicUsize::new(0);
        let feed = |n: usize| {
            begun.fetch_add(1, SeqCst);
            match n {
                0 => while a.send(()).is_ok() {},
                1 => while b.send(()).is_ok() {},
                _ => while c.send(()).is_ok() {},
            }
        };
        let (_, counts) = side.many(3, feed, || {
            let mut counts = [0; 3];
            while begun.load(SeqCst) < 3 {
                side.pause();
            }
            for _ in 0..900 {
                select! {
                    recv(from_a) -> _ => counts[0] += 1,
                    recv(from_b) -> _ => counts[1] += 1,
                    recv(from_c) -> _ => counts[2] += 1,
                }
            }
            from_a.close_now();
            from_b.close_now();
            from_c.close_now();
            counts
        });
        // The channel with a buffer is ready more often.
        assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
    });
}

/// - given: a thousand selects with a send arm on one channel
/// - when: ten values are received
/// - then: exactly ten were sent
#[cfg(not(ecru_baton))] // as many threads as tasks
#[test]
fn select_27_a_thousand_that_would_send_and_ten_receives() {
    run_on(2, || {
        let (sender, receiver) = channel::bounded(0);
        let sent = AtomicUsize::new(0);
        let got = ecru::scope(|s| {
            for n in 0..1_000 {
                let (sender, sent) = (&sender, &sent);
                s.spawn(move || {
                    select! {
                        send(sender, n) -> result => _ = result.map(|()| sent.fetch_add(1, SeqCst)),
                        cancelled => {}
                    }
                });
            }
            let got: Vec<_> = (0..10).map(|_| receiver.recv().unwrap()).collect();
            receiver.close_now();
            got
        });
        assert_eq!(sent.load(SeqCst), 10, "exactly those that were received");
        let mut unique = got.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), 10, "{got:?}");
    });
}

/// - given: a channel without a buffer
/// - when: a select meets a send, a receive, or another select
/// - then: values arrive in order
#[test]
fn select_28_selects_meet_plain_ends_and_each_other() {
    everywhere(|side| {
        for kind in 0..4 {
            let (sender, receiver) = channel::bounded(0);
            let idle = channel::never::<u32>();
            let ((), ()) = side.both(
                || {
                    for n in 0..150 {
                        if kind & 1 == 0 {
                            sender.send(n).unwrap();
                        } else {
                            select! {
                                send(sender, n) -> sent => sent.unwrap(),
                                recv(idle) -> _ => panic!("never"),
                            }
                        }
                    }
                },
                || {
                    for n in 0..150 {
                        let got = if kind & 2 == 0 {
                            receiver.recv()
                        } else {
                            select! {
                                recv(idle) -> _ => panic!("never"),
                                recv(receiver) -> message => message,
                            }
                        };
                        assert_eq!(got, Ok(n), "kind {kind}");
                    }
                },
            );
        }
    });
}

/// - given: two selects, each with a send arm to and a receive arm from the other
/// - when: they meet, repeatedly
/// - then: one sends, and the other receives
#[test]
fn select_29_two_that_would_send_to_each_other_agree() {
    everywhere(|side| {
        let (x, from_x) = channel::bounded(0);
        let (y, from_y) = channel::bounded(0);
        let sent = AtomicUsize::new(0);
        let play = |own: &Sender<u32>, theirs: &Receiver<u32>| {
            for round in 0..100 {
                select! {
                    send(own, round) -> result => {
                        result.unwrap();
                        sent.fetch_add(1, SeqCst);
                    },
                    recv(theirs) -> message => assert_eq!(message, Ok(round)),
                }
            }
        };
        side.both(|| play(&x, &from_y), || play(&y, &from_x));
        assert_eq!(sent.load(SeqCst), 100, "in each round one sends and the other receives");
    });
}

/// - given: a select that would both send and receive on one channel without a buffer
/// - when: it is alone; it meets another select like it
/// - then: it waits; the two exchange a value
#[test]
fn select_30_it_is_not_its_own_peer() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(0);
        select! {
            send(sender, 1) -> _ => panic!("to itself"),
            recv(receiver) -> _ => panic!("from itself"),
            default => {}
        }
        select! {
            send(sender, 1) -> _ => panic!("to itself"),
            recv(receiver) -> _ => panic!("from itself"),
            default(ms(1)) => {}
        }
        // But for other peers it is both.
        for _ in 0..10 {
            let ((), ()) = side.both(
                || {
                    select! {
                        send(sender, 1) -> sent => sent.unwrap(),
                        recv(receiver) -> message => assert_eq!(message, Ok(2)),
                    }
                },
                || {
                    select! {
                        send(sender, 2) -> sent => sent.unwrap(),
                        recv(receiver) -> message => assert_eq!(message, Ok(1)),
                    }
                },
            );
        }
    });
}

/// - given: two values, and two selects with `default` at the same time
/// - when: both select
/// - then: both receive a value
#[test]
fn select_31_a_value_that_is_there_is_found_by_one_of_those_who_look() {
    everywhere(|side| {
        // Two look at the same time for two values. Neither may find nothing.
        for _ in 0..100 {
            let (sender, receiver) = channel::bounded(2);
            sender.send(0).unwrap();
            sender.send(0).unwrap();
            let idle = channel::never::<u8>();
            let look = || {
                select! {
                    recv(idle) -> _ => panic!("never"),
                    recv(receiver) -> message => message.is_ok(),
                    default => false,
                }
            };
            assert_eq!(side.both(look, look), (true, true));
        }
    });
}
