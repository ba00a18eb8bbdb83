//! Selects that meet each other, themselves, plain ends, and selects of other runs.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use ecru::channel::{self, Select};
use ecru::{Runtime, Source, select, source};

use crate::{Watchdog, at_once, ms, run_on, settle};

#[test]
fn two_selects_that_would_send_to_each_other_agree_on_one_direction() {
    for _ in 0..20 {
        let (x, from_x) = channel::bounded(0);
        let (y, from_y) = channel::bounded(0);
        let (sent, received) = (AtomicUsize::new(0), AtomicUsize::new(0));
        // In each round exactly one of the two sends and the other receives.
        at_once(2, |side| {
            let (own, theirs) = if side == 0 { (&x, &from_y) } else { (&y, &from_x) };
            for round in 0..200_usize {
                select! {
                    send(own, round) -> result => {
                        result.unwrap();
                        sent.fetch_add(1, SeqCst);
                    },
                    recv(theirs) -> value => {
                        assert_eq!(value, Ok(round));
                        received.fetch_add(1, SeqCst);
                    },
                }
            }
        });
        assert_eq!(sent.load(SeqCst), 3 * 200);
        assert_eq!(received.load(SeqCst), 3 * 200);
    }
}

#[test]
fn plain_senders_do_not_starve_a_select_that_would_send() {
    run_on(1, || {
        let (sender, receiver) = channel::bounded(0);
        let through = AtomicUsize::new(0);
        ecru::scope(|s| {
            for _ in 0..2 {
                s.spawn_local(|| while sender.send(0).is_ok() {});
            }
            s.spawn_local(|| {
                while select! { send(sender, 1) -> sent => sent.is_ok() } {
                    through.fetch_add(1, SeqCst);
                }
            });
            settle();
            for value in receiver.iter().take(600) {
                assert!(value < 2);
            }
            receiver.close_now();
        });
        assert!(through.load(SeqCst) > 50, "{} of 600", through.load(SeqCst));
    });
}

#[test]
fn two_selects_that_meet_crosswise_with_the_arms_in_other_orders() {
    for order in 0..4 {
        let (x, from_x) = channel::bounded(0);
        let (y, from_y) = channel::bounded(0);
        at_once(2, |side| {
            let (own, theirs) = if side == 0 { (&x, &from_y) } else { (&y, &from_x) };
            for round in 0..500_usize {
                let mut choice = Select::new_biased();
                let (send, recv);
                if order >> side & 1 == 0 {
                    send = choice.send(own);
                    recv = choice.recv(theirs);
                } else {
                    recv = choice.recv(theirs);
                    send = choice.send(own);
                }
                let selected = choice.select();
                match selected.index() {
                    n if n == send => selected.send(own, round).unwrap(),
                    n if n == recv => assert_eq!(selected.recv(theirs), Ok(round)),
                    _ => unreachable!(),
                }
            }
        });
    }
}

#[test]
fn selects_on_one_rendezvous_channel_in_both_directions() {
    let (sender, receiver) = channel::bounded(0);
    let (sent, received) = (AtomicUsize::new(0), AtomicUsize::new(0));
    at_once(4, |_| {
        for _ in 0..300 {
            select! {
                send(sender, 7) -> result => {
                    result.unwrap();
                    sent.fetch_add(1, SeqCst);
                },
                recv(receiver) -> value => {
                    assert_eq!(value, Ok(7));
                    received.fetch_add(1, SeqCst);
                },
                // A select that is alone at the end leaves.
                default(ms(20)) => break,
            }
        }
    });
    assert_eq!(sent.load(SeqCst), received.load(SeqCst));
    assert!(sent.load(SeqCst) > 0);
}

#[test]
fn a_select_is_not_its_own_peer() {
    at_once(1, |_| {
        let (sender, receiver) = channel::bounded(0);
        for _ in 0..20 {
            select! {
                send(sender, 1) -> _ => panic!("sent to itself"),
                recv(receiver) -> _ => panic!("received from itself"),
                default(Duration::from_micros(200)) => {}
            }
        }
        assert_eq!((sender.len(), receiver.try_recv().is_err()), (0, true));
    });
}

#[test]
fn a_select_that_is_alone_on_both_sides_of_a_channel_sleeps() {
    fn used() -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap())
    }
    let _watchdog = Watchdog::new();
    for order in [false, true] {
        let (sender, receiver) = channel::bounded::<u8>(0);
        let before = used();
        let mut choice = Select::new_biased();
        if order {
            choice.send(&sender);
            choice.recv(&receiver);
        } else {
            choice.recv(&receiver);
            choice.send(&sender);
        }
        assert!(choice.select_timeout(ms(60)).is_err());
        select! {
            send(sender, 1) -> _ => unreachable!(),
            recv(receiver) -> _ => unreachable!(),
            default(ms(60)) => {}
        }
        let used = used() - before;
        assert!(used < ms(30), "its own offer keeps it busy: {used:?} of processor time");
    }
}

#[test]
fn a_ring_of_selects_goes_round() {
    // Each member passes on what it receives to the next, and offers its own value meanwhile.
    const MEMBERS: usize = 5;
    let channels: Vec<_> = (0..MEMBERS).map(|_| channel::bounded::<usize>(0)).collect();
    at_once(MEMBERS, |member| {
        let to = &channels[member].0;
        let from = &channels[(member + MEMBERS - 1) % MEMBERS].1;
        let (mut sent, mut received) = (0, 0);
        while sent < 100 || received < 100 {
            if sent == 100 {
                assert_eq!(from.recv(), Ok(received));
                received += 1;
            } else if received == 100 {
                to.send(sent).unwrap();
                sent += 1;
            } else {
                select! {
                    send(to, sent) -> result => {
                        result.unwrap();
                        sent += 1;
                    },
                    recv(from) -> value => {
                        assert_eq!(value, Ok(received));
                        received += 1;
                    },
                }
            }
        }
    });
}

#[test]
fn the_same_channel_twice_in_one_select() {
    let (sender, receiver) = channel::bounded(0);
    let counts = [AtomicUsize::new(0), AtomicUsize::new(0)];
    at_once(2, |side| {
        for _ in 0..500 {
            if side == 0 {
                select! {
                    send(sender, 1) -> result => result.unwrap(),
                    send(sender, 2) -> result => result.unwrap(),
                }
            } else {
                select! {
                    recv(receiver) -> value => counts[value.unwrap() - 1].fetch_add(1, SeqCst),
                    recv(receiver) -> value => counts[value.unwrap() - 1].fetch_add(1, SeqCst),
                };
            }
        }
    });
    assert_eq!(counts.iter().map(|count| count.load(SeqCst)).sum::<usize>(), 3 * 500);
    assert!(counts.iter().all(|count| count.load(SeqCst) > 100), "{counts:?}");
}

#[test]
fn races_that_meet_selects() {
    let (x, from_x) = channel::bounded(0);
    let (y, from_y) = channel::bounded(1);
    let total = AtomicUsize::new(0);
    at_once(2, |side| {
        if side == 0 {
            for n in 0..600 {
                select! {
                    send(x, n) -> result => result.unwrap(),
                    send(y, n) -> result => result.unwrap(),
                }
            }
        } else {
            for _ in 0..600 {
                let value = source::race([&from_x, &from_y]).wait().unwrap().unwrap();
                total.fetch_add(value, SeqCst);
            }
        }
    });
    assert_eq!(total.load(SeqCst), 3 * 599 * 600 / 2);
}

#[test]
fn a_selected_send_whose_receiver_leaves_is_not_lost() {
    for workers in [1, 2] {
        run_on(workers, || {
            for round in 0..300 {
                let (sender, receiver) = channel::bounded(0);
                let got = ecru::scope(|s| {
                    let impatient =
                        s.spawn(|| receiver.recv_timeout(Duration::from_micros(round % 60)).ok());
                    let sending = s.spawn(|| {
                        select! {
                            send(sender, round) -> result => result.is_ok(),
                            default(Duration::from_micros(30)) => false,
                        }
                    });
                    let first = impatient.join().unwrap();
                    // The selected value arrives in either channel.
                    let second = receiver.recv_timeout(ms(3)).ok();
                    receiver.close_now();
                    assert_eq!(sending.join().unwrap(), first.or(second).is_some());
                    first.or(second)
                });
                assert!(got.is_none_or(|value| value == round));
            }
        });
    }
}

#[test]
fn selects_from_other_runs_meet() {
    let (sender, receiver) = channel::bounded(0);
    let (back, answers) = channel::bounded(0);
    let _watchdog = Watchdog::new();
    thread::scope(|s| {
        s.spawn(|| {
            Runtime::builder().workers(1).build().unwrap().run(|| {
                for n in 0..300 {
                    select! { send(sender, n) -> sent => sent.unwrap() }
                    assert_eq!(select! { recv(answers) -> answer => answer }, Ok(n));
                }
            });
        });
        s.spawn(|| {
            Runtime::builder().workers(2).build().unwrap().run(|| {
                for _ in 0..300 {
                    let n = select! { recv(receiver) -> n => n.unwrap() };
                    select! { send(back, n) -> sent => sent.unwrap() }
                }
            });
        });
    });
}
