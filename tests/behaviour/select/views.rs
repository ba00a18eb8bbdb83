//! A select looks at all its arms at one moment, and takes each ready arm with the same
//! probability.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use crate::support::{HOUR, assert_even, everywhere, ms, run_on};
use ecru::channel::{self, Receiver, Select, Sender, TrySelectError};
use ecru::source::WaitList;
use ecru::{Source, select, select_biased};

/// A source without items. Each look at it moves the only value of two channels to the other one.
struct Mover<'a> {
    ends: [(&'a Sender<u32>, &'a Receiver<u32>); 2],
    looks: AtomicUsize,
}

impl Source for Mover<'_> {
    type Item = ();

    fn try_take(&self) -> Option<()> {
        self.looks.fetch_add(1, SeqCst);
        let [(to_first, first), (to_second, second)] = self.ends;
        // The value is in both channels for a moment, and never in none.
        if first.is_empty() {
            to_first.send(1).unwrap();
            second.recv().unwrap();
        } else {
            to_second.send(1).unwrap();
            first.recv().unwrap();
        }
        None
    }

    fn waiters<'a>(&'a self, _: &mut dyn FnMut(&'a WaitList)) {}
}

/// - given: a value, or room, that moves between two channels and is always in one of them
/// - when: a select with `default` or `default(Duration::ZERO)`, `try_select` or `try_ready` looks
///   for it
/// - then: it is found
#[test]
fn select_42_default_is_taken_only_if_no_arm_was_ready_at_one_moment() {
    everywhere(|_| {
        let (to_first, first) = channel::bounded(2);
        let (to_second, second) = channel::bounded(2);
        let ends = [(&to_first, &first), (&to_second, &second)];
        let put_back = |looked: &Mover<'_>| {
            assert!(looked.looks.load(SeqCst) > 0);
            assert!(first.is_empty() && second.is_empty(), "the value was received");
            to_second.send(1).unwrap();
        };
        to_second.send(1).unwrap();

        let mover = Mover { ends, looks: AtomicUsize::new(0) };
        select_biased! {
            recv(first) -> got => got.unwrap(),
            wait(mover) -> _ => unreachable!("it has no items"),
            recv(second) -> got => got.unwrap(),
            default => panic!("one of the two has had the value all the time"),
        };
        put_back(&mover);

        let mover = Mover { ends, looks: AtomicUsize::new(0) };
        select_biased! {
            recv(first) -> got => got.unwrap(),
            wait(mover) -> _ => unreachable!("it has no items"),
            recv(second) -> got => got.unwrap(),
            default(Duration::ZERO) => panic!("one of the two has had the value all the time"),
        };
        put_back(&mover);
    });
}

/// Calls `look` while another thread moves the only value of two channels back and forth.
fn while_a_value_moves(
    ends: &[(Sender<u32>, Receiver<u32>); 2],
    rounds: usize,
    look: impl Fn(&Receiver<u32>, &Receiver<u32>) -> bool,
) {
    let [(to_first, first), (to_second, second)] = ends;
    let (begin, begun) = channel::bounded(0);
    let (end, ended) = channel::bounded(0);
    let mover = || {
        for _ in 0..rounds {
            begun.recv().unwrap();
            to_second.send(1).unwrap();
            let _ = first.try_recv();
            ended.recv().unwrap();
        }
    };
    let missed = Cell::new(0);
    let looker = || {
        for _ in 0..rounds {
            to_first.send(1).unwrap();
            begin.send(()).unwrap();
            // This is not a panic, because the other thread would wait for the next round.
            missed.set(missed.get() + usize::from(!look(first, second)));
            end.send(()).unwrap();
            let _ = first.try_recv();
            let _ = second.try_recv();
        }
    };
    std::thread::scope(|s| {
        s.spawn(mover);
        looker();
    });
    assert_eq!(missed.get(), 0, "of {rounds} looks");
}

fn two_of(make: fn() -> (Sender<u32>, Receiver<u32>)) -> [(Sender<u32>, Receiver<u32>); 2] {
    [make(), make()]
}

#[test]
fn select_42_default_is_taken_only_if_no_arm_was_ready_at_one_moment_between_threads_slow() {
    for make in [(|| channel::bounded(1)) as fn() -> _, channel::unbounded] {
        while_a_value_moves(&two_of(make), 2_000, |first, second| {
            select! {
                recv(first) -> got => got.is_ok(),
                recv(second) -> got => got.is_ok(),
                default => false,
            }
        });
        while_a_value_moves(&two_of(make), 2_000, |first, second| {
            select! {
                recv(first) -> got => got.is_ok(),
                recv(second) -> got => got.is_ok(),
                default(Duration::ZERO) => false,
            }
        });
    }
}

#[test]
fn select_42_default_is_taken_only_if_no_arm_was_ready_at_one_moment_dynamic_slow() {
    for make in [(|| channel::bounded(1)) as fn() -> _, channel::unbounded] {
        while_a_value_moves(&two_of(make), 2_000, |first, second| {
            let mut choice = Select::new();
            let indices = [choice.recv(first), choice.recv(second)];
            match choice.try_select() {
                Ok(selected) if selected.index() == indices[0] => selected.recv(first).is_ok(),
                Ok(selected) => selected.recv(second).is_ok(),
                Err(TrySelectError) => false,
            }
        });
        while_a_value_moves(&two_of(make), 2_000, |first, second| {
            let mut choice = Select::new();
            choice.recv(first);
            choice.recv(second);
            choice.try_ready().is_ok()
        });
    }
}

#[test]
fn select_42_default_is_taken_only_if_no_arm_was_ready_at_one_moment_for_sends_slow() {
    // At every moment one of two full channels has room.
    let ends = two_of(|| channel::bounded(1));
    ends.iter().for_each(|(sender, _)| sender.send(0).unwrap());
    let [(to_first, first), (to_second, second)] = &ends;
    let (begin, begun) = channel::bounded(0);
    let (end, ended) = channel::bounded(0);
    let (rounds, missed) = (5_000, Cell::new(0));
    std::thread::scope(|s| {
        s.spawn(|| {
            for _ in 0..rounds {
                begun.recv().unwrap();
                second.recv().unwrap();
                let _ = to_first.try_send(1);
                ended.recv().unwrap();
            }
        });
        for _ in 0..rounds {
            first.recv().unwrap();
            begin.send(()).unwrap();
            select! {
                send(to_first, 2) -> sent => sent.unwrap(),
                send(to_second, 2) -> sent => sent.unwrap(),
                default => missed.set(missed.get() + 1),
            }
            end.send(()).unwrap();
            let _ = to_first.try_send(3);
            let _ = to_second.try_send(3);
        }
    });
    assert_eq!(missed.get(), 0, "of {rounds} looks");
}

const LOOKS: u32 = 6_000;

/// - given: ready arms listed after arms that are not ready
/// - when: `select!` and `Select` are repeated
/// - then: each ready arm is taken equally often, by a chi-squared test
#[test]
fn select_43_each_ready_arm_has_the_same_chance() {
    run_on(1, || {
        let ready = channel::bounded(1);
        let idle = channel::never::<u32>();
        ready.0.send(7).unwrap();
        let (_, r) = &ready;
        // The ready arms are listed after arms that are not ready, and before them.
        let mut counts = [0; 3];
        for _ in 0..LOOKS {
            let taken = select! {
                recv(r) -> _ => 0,
                recv(idle) -> _ => unreachable!("it never has anything"),
                recv(idle) -> _ => unreachable!("it never has anything"),
                recv(r) -> _ => 1,
                recv(idle) -> _ => unreachable!("it never has anything"),
                recv(r) -> _ => 2,
            };
            counts[taken] += 1;
            ready.0.send(7).unwrap();
        }
        assert_even(&counts);
    });
}

#[test]
fn select_43_each_ready_arm_has_the_same_chance_dynamic() {
    run_on(1, || {
        let (sender, receiver) = channel::bounded(1);
        let idle = channel::never::<u32>();
        sender.send(7).unwrap();
        // These are more operations than a word has bits, which are ordered in another way.
        for length in [5, 100] {
            let ready = [1, length - 2, length - 1];
            let mut choice = Select::new();
            (0..length).for_each(|n| {
                choice.recv(if ready.contains(&n) { &receiver } else { &idle });
            });
            let place = |index| ready.iter().position(|at| *at == index).unwrap();
            for look in [
                (|choice: &mut Select<'_>| choice.ready()) as fn(&mut Select<'_>) -> usize,
                |choice| choice.try_ready().unwrap(),
                // The operation is dropped, which gives back its reservation.
                |choice| choice.select().index(),
                |choice| choice.try_select().unwrap().index(),
            ] {
                let mut counts = [0; 3];
                (0..LOOKS).for_each(|_| counts[place(look(&mut choice))] += 1);
                assert_even(&counts);
            }
        }
    });
}

/// - given: no buffer; `Select::ready` on a receive, and a select with a send arm
/// - when: either comes first; also among other channels
/// - then: `ready` names the receive, and receiving then meets the select
#[test]
fn select_41_ready_and_a_select_that_would_send_meet() {
    for first in ["ready", "send"] {
        everywhere(|side| {
            let (sender, receiver) = channel::bounded(0);
            let (_open, idle) = channel::bounded::<u32>(0);
            let pause = |own| {
                if own != first {
                    side.pause();
                }
            };
            let (sent, ()) = side.both(
                || {
                    pause("send");
                    select! {
                        recv(idle) -> _ => unreachable!("nobody sends"),
                        send(sender, 7) -> sent => sent,
                    }
                },
                || {
                    pause("ready");
                    let mut choice = Select::new();
                    choice.recv(&idle);
                    let wanted = choice.recv(&receiver);
                    assert_eq!(choice.ready(), wanted);
                    assert_eq!(receiver.recv(), Ok(7));
                },
            );
            assert_eq!(sent, Ok(()));
        });
    }
}

#[test]
fn select_41_ready_and_a_select_that_would_send_meet_among_others() {
    // Some of three channels have room at any time. One has no buffer.
    let rounds = 300;
    everywhere(|side| {
        let (s1, r1) = channel::unbounded();
        let (s2, r2) = channel::bounded(1);
        let (s3, r3) = channel::bounded(0);
        let hits = [const { Cell::new(0) }; 3];
        let ((), ()) = side.both(
            || {
                for _ in 0..rounds {
                    let mut choice = Select::new();
                    let first = s1.is_empty().then(|| choice.send(&s1));
                    let second = s2.is_empty().then(|| choice.send(&s2));
                    let third = choice.send(&s3);
                    let selected = choice.select();
                    let sender = match selected.index() {
                        index if Some(index) == first => &s1,
                        index if Some(index) == second => &s2,
                        index => {
                            assert_eq!(index, third);
                            &s3
                        }
                    };
                    selected.send(sender, ()).unwrap();
                }
            },
            || {
                for _ in 0..rounds {
                    let mut choice = Select::new();
                    let receivers = [&r1, &r2, &r3];
                    receivers.iter().for_each(|receiver| {
                        choice.recv(receiver);
                    });
                    let ready = choice.ready();
                    receivers[ready].recv().unwrap();
                    hits[ready].set(hits[ready].get() + 1);
                }
            },
        );
        assert_eq!(hits.iter().map(Cell::get).sum::<usize>(), rounds);
    });
}

/// - given: no buffer; a select with a send arm waits
/// - when: `try_recv`, `try_iter`, a select with `default` or `try_select` polls
/// - then: the select evaluates its value, and the poll gets it; the poll gets nothing if the value
///   does not come, takes longer than 5 ms, or under `no_suspend`; a late value goes to the next
///   receiver
#[test]
fn select_44_a_poll_meets_a_select_that_would_send() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(0);
        let (_open, idle) = channel::bounded::<u32>(0);
        type Poll = fn(&Receiver<u32>, &Receiver<u32>) -> Option<u32>;
        let polls: [Poll; 5] = [
            |receiver, _| receiver.try_recv().ok(),
            |receiver, _| receiver.try_iter().next(),
            |receiver, _| select! { recv(receiver) -> got => got.ok(), default => None },
            |receiver, idle| {
                select! {
                    recv(idle) -> _ => unreachable!("nobody sends"),
                    recv(receiver) -> got => got.ok(),
                    default(Duration::ZERO) => None,
                }
            },
            |receiver, idle| {
                let mut choice = Select::new();
                choice.recv(idle);
                choice.recv(receiver);
                Some(choice.try_select().ok()?.recv(receiver).unwrap())
            },
        ];
        for poll in polls {
            let (sent, got) = side.both(
                || {
                    select! {
                        recv(idle) -> _ => unreachable!("nobody sends"),
                        send(sender, 7) -> sent => sent,
                    }
                },
                || loop {
                    match poll(&receiver, &idle) {
                        Some(value) => return value,
                        None => side.pause(),
                    }
                },
            );
            assert_eq!((sent, got), (Ok(()), 7));
        }
    });
}

#[test]
fn select_44_a_poll_meets_a_select_that_would_send_unless_the_value_does_not_come() {
    fn gives_up(sender: &Sender<u32>) -> Option<()> {
        select! { send(sender, None?) -> sent => sent.ok() }
    }
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(0);
        let over = std::sync::atomic::AtomicBool::new(false);
        let (gone, ()) = side.both(
            || {
                let gone = gives_up(&sender);
                over.store(true, SeqCst);
                gone
            },
            || {
                // On a busy machine a poll may have left before the select is scheduled. Then a
                // later poll meets it.
                while !over.load(SeqCst) {
                    assert!(receiver.try_recv().unwrap_err().is_empty());
                    side.pause();
                }
            },
        );
        assert_eq!(gone, None);
        // The channel is closed while the value is being evaluated.
        let ((), ()) = side.both(
            || {
                select! {
                    send(sender, { sender.close(); 7 }) -> sent => {
                        assert_eq!(sent.unwrap_err().into_inner(), 7);
                    }
                }
            },
            || {
                while !receiver.try_recv().unwrap_err().is_disconnected() {
                    side.pause();
                }
            },
        );
    });
}

#[test]
fn select_44_a_poll_meets_a_select_that_would_send_unless_it_may_not_wait() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(0);
        let (sent, ()) = side.both(
            || select! { send(sender, 7) -> sent => sent },
            || {
                side.pause();
                ecru::no_suspend(|| assert!(receiver.try_recv().unwrap_err().is_empty()));
                assert_eq!(receiver.recv(), Ok(7));
            },
        );
        assert_eq!(sent, Ok(()));
    });
}

#[test]
fn select_44_a_poll_meets_a_select_that_would_send_and_waits_for_the_poller() {
    type Poll = fn(&Receiver<u32>) -> Option<u32>;
    let polls: [Poll; 4] = [
        |receiver| receiver.try_recv().ok(),
        |receiver| receiver.try_iter().next(),
        |receiver| select! { recv(receiver) -> got => got.ok(), default => None },
        |receiver| {
            let mut choice = Select::new();
            choice.recv(receiver);
            Some(choice.try_select().ok()?.recv(receiver).unwrap())
        },
    ];
    everywhere(|side| {
        for poll in polls {
            for keeps in [false, true] {
                let (sender, receiver) = channel::bounded(0);
                let (go, may_go) = channel::bounded::<()>(0);
                let making = std::sync::atomic::AtomicBool::new(false);
                let make = || {
                    making.store(true, SeqCst);
                    may_go.recv().unwrap();
                    7
                };
                let (sent, ()) = side.both(
                    || {
                        if keeps {
                            let mut choice = Select::new();
                            choice.send(&sender);
                            let selected = choice.select();
                            return selected.send(&sender, make());
                        }
                        select! { send(sender, make()) -> sent => sent }
                    },
                    || {
                        // The first of these polls to find the select makes it evaluate its value,
                        // and gets none in time.
                        while !making.load(SeqCst) {
                            assert_eq!(poll(&receiver), None);
                            side.pause();
                        }
                        assert_eq!(poll(&receiver), None);
                        go.send(()).unwrap();
                        // The value goes to the next receiver or poll.
                        let got = loop {
                            match poll(&receiver) {
                                Some(got) => break got,
                                None => side.pause(),
                            }
                        };
                        assert_eq!(got, 7);
                    },
                );
                assert_eq!(sent, Ok(()));
            }
        }
    });
}

/// - given: no buffer; the receiver leaves while the value is being evaluated
/// - when: a select with `default` or `default(d)`, `try_select` or `select_timeout` sends
/// - then: the send succeeds at once, and the next receiver gets the value
#[test]
fn select_45_with_a_default_a_send_whose_receiver_has_left_does_not_wait() {
    type Send = fn(&Sender<u32>, &dyn Fn() -> u32) -> Option<()>;
    let sends: [Send; 4] = [
        |s, make| select! { send(s, make()) -> sent => sent.ok(), default => None },
        |s, make| select! { send(s, make()) -> sent => sent.ok(), default(HOUR) => None },
        |s, make| {
            let mut choice = Select::new();
            choice.send(s);
            choice.try_select().ok()?.send(s, make()).ok()
        },
        |s, make| {
            let mut choice = Select::new();
            choice.send(s);
            choice.select_timeout(HOUR).ok()?.send(s, make()).ok()
        },
    ];
    everywhere(|side| {
        for send in sends {
            let (sender, receiver) = channel::bounded(0);
            let making = std::sync::atomic::AtomicBool::new(false);
            let left = std::sync::atomic::AtomicBool::new(false);
            let ((), ()) = side.both(
                || {
                    while !making.load(SeqCst) {
                        assert!(receiver.recv_timeout(ms(5)).unwrap_err().is_timeout());
                    }
                    left.store(true, SeqCst);
                },
                || {
                    let make = || {
                        making.store(true, SeqCst);
                        while !left.load(SeqCst) {
                            side.pause();
                        }
                        7
                    };
                    while send(&sender, &make).is_none() {
                        side.pause();
                    }
                },
            );
            // The value goes to the next receiver.
            assert_eq!(receiver.recv(), Ok(7));
        }
    });
}
