//! Which arm is taken: exactly one of the ready arms, or the default if there is none.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::support::{HOUR, everywhere, ms, now, since};
use ecru::channel::{self, Select};
use ecru::{Source, select, select_biased, source};

/// - given: two receivers
/// - when: one has a value, or gets one
/// - then: the value is received from it
#[test]
fn select_01_a_receive_that_can_be_done_is() {
    everywhere(|side| {
        let (a, from_a) = channel::unbounded::<u32>();
        let (b, from_b) = channel::unbounded::<&str>();
        b.send("text").unwrap();
        select! {
            recv(from_a) -> _ => panic!("there is nothing"),
            recv(from_b) -> message => assert_eq!(message, Ok("text")),
        }
        // The same after a wait.
        let (got, ()) = side.both(
            || {
                select! {
                    recv(from_a) -> message => message,
                    recv(from_b) -> _ => panic!("there is nothing"),
                }
            },
            || {
                side.pause();
                a.send(1).unwrap();
            },
        );
        assert_eq!(got, Ok(1));
    });
}

/// - given: two senders
/// - when: one has room, or gets some
/// - then: the value is sent there
#[test]
fn select_02_a_send_that_can_be_done_is() {
    everywhere(|side| {
        let (full, from_full) = channel::bounded(1);
        full.send(0).unwrap();
        let (roomy, from_roomy) = channel::bounded(1);
        select! {
            send(full, 1) -> _ => panic!("there is no room"),
            send(roomy, 2) -> sent => assert_eq!(sent, Ok(())),
        }
        assert_eq!(from_roomy.try_recv(), Ok(2));
        roomy.send(3).unwrap();
        let (sent, ()) = side.both(
            || {
                select! {
                    send(full, 4) -> sent => sent,
                    send(roomy, 5) -> _ => panic!("there is no room"),
                }
            },
            || {
                side.pause();
                assert_eq!(from_full.recv(), Ok(0));
            },
        );
        assert_eq!((sent, from_full.recv()), (Ok(()), Ok(4)));
        assert_eq!(from_roomy.try_iter().collect::<Vec<_>>(), [3]);
    });
}

/// - given: `wait(source)`
/// - when: the source has an item
/// - then: its arm is taken, with the item
#[test]
fn select_03_any_source_may_be_waited_for() {
    everywhere(|_| {
        let (sender, receiver) = channel::unbounded();
        sender.send(3).unwrap();
        let answer = select! {
            wait(source::never::<u32>()) -> _ => panic!("never"),
            wait((&receiver).filter(|n| *n == 4).map(|_| 4)) -> _ => panic!("refused"),
            wait((&receiver).map(|n| n.unwrap() * 2)) -> n => n,
        };
        assert_eq!(answer, Ok(6));
        let alarm = select! {
            wait(source::race([&receiver])) -> _ => panic!("there is nothing"),
            wait(channel::after(ms(1))) -> due => due.unwrap().is_ok(),
        };
        assert!(alarm);
    });
}

/// - given: `default`
/// - when: no arm is ready
/// - then: it is taken, without a wait
#[test]
fn select_04_default_if_nothing_can_be_done_now() {
    everywhere(|_| {
        let (sender, receiver) = channel::bounded(1);
        let attempt = || {
            select! {
                recv(receiver) -> message => message.ok(),
                default => None,
            }
        };
        assert_eq!(attempt(), None);
        sender.send(1).unwrap();
        assert_eq!(attempt(), Some(1));
        sender.send(2).unwrap();
        select! {
            send(sender, 3) -> _ => panic!("there is no room"),
            default => {}
        }
        let only: u32 = select! { default => 5 };
        assert_eq!((only, receiver.recv()), (5, Ok(2)));
    });
}

/// - given: `default(d)`
/// - when: no arm is ready for d
/// - then: it is taken, never early; zero and `Duration::MAX` are allowed
#[test]
fn select_05_default_after_a_while() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded::<u8>(0);
        let start = now();
        select! {
            recv(receiver) -> _ => panic!("there is nothing"),
            default(ms(3)) => {}
        }
        assert!(since(start) >= ms(3), "never early");
        let (got, ()) = side.both(
            || {
                select! {
                    recv(receiver) -> message => message.ok(),
                    default(HOUR) => None,
                }
            },
            || {
                side.pause();
                sender.send(7).unwrap();
            },
        );
        assert_eq!(got, Some(7));
        // A limit of zero, and one beyond the last `Instant`.
        select! { recv(receiver) -> _ => panic!("there is nothing"), default(Duration::ZERO) => {} }
        let (got, ()) = side.both(
            || select! { recv(receiver) -> message => message.ok(), default(Duration::MAX) => None },
            || sender.send(8).unwrap(),
        );
        assert_eq!(got, Some(8));
        select! { default(ms(1)) => {} }
    });
}

/// - given: arms of every kind that are all ready
/// - when: the select is repeated
/// - then: each arm is taken sometimes
#[test]
fn select_10_of_several_that_can_be_done_chance_picks_one() {
    everywhere(|_| {
        let (a, from_a) = channel::unbounded();
        let (b, from_b) = channel::bounded(1_000);
        let mut taken = [0; 5];
        for _ in 0..500 {
            a.send(()).unwrap();
            select! {
                recv(from_a) -> _ => taken[0] += 1,
                send(a, ()) -> _ => taken[1] += 1,
                send(b, ()) -> _ => taken[2] += 1,
                wait(source::ready(1)) -> _ => taken[3] += 1,
                recv(channel::after(Duration::ZERO)) -> _ => taken[4] += 1,
            }
        }
        assert!(taken.iter().all(|count| *count > 30), "{taken:?}");
        drop(from_b);
        // The same with `Select`.
        let (x, from_x) = channel::unbounded();
        let mut taken = [0; 10];
        let mut choice = Select::new();
        (0..10).for_each(|_| _ = choice.recv(&from_x));
        for _ in 0..1_000 {
            x.send(()).unwrap();
            let selected = choice.select();
            taken[selected.index()] += 1;
            selected.recv(&from_x).unwrap();
        }
        assert!(taken.iter().all(|count| *count > 30), "{taken:?}");
    });
}

/// - given: `select_biased!`, `Select::new_biased`
/// - when: several arms are ready
/// - then: the first in the list is taken
#[test]
fn select_11_biased_takes_the_first_that_can_be_done() {
    everywhere(|_| {
        let (a, from_a) = channel::unbounded();
        let (b, from_b) = channel::unbounded();
        for n in 0..50 {
            a.send(n).unwrap();
            b.send(n).unwrap();
        }
        for n in 0..100 {
            let (which, value) = select_biased! {
                recv(from_a) -> value => ('a', value),
                recv(from_b) -> value => ('b', value),
                default => panic!("there is something"),
            };
            assert_eq!((which, value), (if n < 50 { 'a' } else { 'b' }, Ok(n % 50)));
        }
        for _ in 0..20 {
            select_biased! {
                send(a, 1) -> sent => sent.unwrap(),
                send(b, 1) -> _ => panic!("the first can be done"),
                default(ms(1)) => panic!("the first can be done"),
            }
        }
        let mut choice = Select::new_biased();
        choice.recv(&from_b);
        choice.recv(&from_a);
        for _ in 0..20 {
            let selected = choice.select();
            assert_eq!(selected.index(), 1);
            selected.recv(&from_a).unwrap();
        }
    });
}

/// - given: a receive and a send that are both ready
/// - when: a select of both runs
/// - then: exactly one is done
#[test]
fn select_14_exactly_one_is_done() {
    everywhere(|_| {
        let (a, from_a) = channel::bounded(1);
        let (b, from_b) = channel::bounded(1);
        for _ in 0..50 {
            a.send(1).unwrap();
            select! {
                recv(from_a) -> message => assert_eq!(message, Ok(1)),
                send(b, 2) -> sent => assert_eq!(sent, Ok(())),
            }
            assert_eq!(from_a.len() + 1, from_b.len() + 1 + from_a.len() - from_b.len());
            assert_eq!(from_a.try_iter().count() + 1 - from_b.try_iter().count(), 1);
        }
    });
}

/// - given: the same channel twice, on both sides
/// - when: the selects meet
/// - then: each value goes through once
#[test]
fn select_15_the_same_channel_may_be_listed_twice() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(0);
        let taken = [AtomicUsize::new(0), AtomicUsize::new(0)];
        let ((), ()) = side.both(
            || {
                for n in 0..200 {
                    select! {
                        send(sender, n) -> sent => sent.unwrap(),
                        send(sender, n) -> sent => sent.unwrap(),
                    }
                }
            },
            || {
                for n in 0..200 {
                    select! {
                        recv(receiver) -> message => {
                            assert_eq!(message, Ok(n));
                            taken[0].fetch_add(1, SeqCst);
                        },
                        recv(receiver) -> message => {
                            assert_eq!(message, Ok(n));
                            taken[1].fetch_add(1, SeqCst);
                        },
                    }
                }
            },
        );
        assert_eq!(taken.iter().map(|count| count.load(SeqCst)).sum::<usize>(), 200);
    });
}

/// - given: over a thousand selects that took other arms
/// - when: a value is then sent and received
/// - then: no waiter is left, and the channel works
#[test]
fn select_16_losers_leave_nothing_behind() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(0);
        let (full, from_full) = channel::bounded(1);
        full.send(0).unwrap();
        for n in 0..1_200 {
            select! {
                recv(receiver) -> _ => panic!("there is nothing"),
                send(full, n) -> _ => panic!("there is no room"),
                send(sender, n) -> _ => panic!("there is nobody"),
                default => {}
            }
            if n % 100 == 0 {
                select! {
                    recv(receiver) -> _ => panic!("there is nothing"),
                    send(full, n) -> _ => panic!("there is no room"),
                    default(Duration::from_micros(10)) => {}
                }
            }
        }
        assert!(sender.try_send(1).is_err(), "nobody is in line to receive");
        assert_eq!(from_full.recv(), Ok(0));
        assert!(from_full.is_empty(), "nobody was in line to send");
        let (got, ()) = side.both(|| receiver.recv(), || sender.send(5).unwrap());
        assert_eq!(got, Ok(5), "the channel works");
    });
}
