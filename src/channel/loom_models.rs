//! Models of channels between threads: in every interleaving no value is lost or received twice,
//! and no wait lasts for ever.
//!
//! A deadline also stands for a cancellation. For a channel, both are a claim by another party,
//! after which the owner leaves the line. In a model, every deadline has passed as soon as a thread
//! sleeps on it.

use loom::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::{Receiver, RecvError, Select, Sender, bounded, dropping, oneshot, sliding, unbounded};
use crate::source::{Source, race};
use crate::{select, select_biased};

/// The bound on preemptions is small, because models with three waiting threads take minutes with
/// more.
fn check(body: fn()) {
    check_with(2, body);
}

fn check_with(preemptions: usize, body: fn()) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(body);
}

/// A deadline that is late enough to begin a wait and has passed as soon as the thread sleeps.
fn soon() -> Instant {
    Instant::now() + Duration::from_secs(3600)
}

fn sends(sender: Sender<u32>, values: &'static [u32]) -> JoinHandle<()> {
    thread::spawn(move || values.iter().for_each(|value| sender.send(*value).unwrap()))
}

fn drains(receiver: Receiver<u32>) -> JoinHandle<Vec<u32>> {
    thread::spawn(move || receiver.iter().collect())
}

#[test]
fn rendezvous_values_arrive_in_order() {
    check(|| {
        let (sender, receiver) = bounded(0);
        let thread = sends(sender, &[1, 2]);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [1, 2]);
        thread.join().unwrap();
    });
}

#[test]
fn capacity_one_values_arrive_in_order() {
    check(|| {
        let (sender, receiver) = bounded(1);
        let thread = sends(sender, &[1, 2, 3]);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [1, 2, 3]);
        thread.join().unwrap();
    });
}

#[test]
fn unbounded_values_arrive_in_order() {
    check(|| {
        let (sender, receiver) = unbounded();
        let thread = sends(sender, &[1, 2]);
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [1, 2]);
        thread.join().unwrap();
    });
}

#[test]
fn dropping_keeps_the_oldest_and_sliding_the_newest() {
    check(|| {
        let (sender, receiver) = dropping(1);
        let thread = sends(sender, &[1, 2]);
        let got: Vec<_> = receiver.iter().collect();
        assert!(got == [1] || got == [1, 2], "{got:?}");
        thread.join().unwrap();
    });
    check(|| {
        let (sender, receiver) = sliding(1);
        let thread = sends(sender, &[1, 2]);
        let got: Vec<_> = receiver.iter().collect();
        assert!(got == [2] || got == [1, 2], "{got:?}");
        thread.join().unwrap();
    });
}

#[test]
fn oneshot_gives_its_value_to_one_of_two() {
    check_with(1, || {
        let (sender, receiver) = oneshot();
        let threads = [drains(receiver.clone()), drains(receiver)];
        sender.send(7).unwrap();
        assert!(sender.send(8).is_err());
        let got: Vec<u32> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        assert_eq!(got, [7]);
    });
}

#[test]
fn two_senders_and_a_receiver_without_a_buffer() {
    check_with(1, || {
        let (sender, receiver) = bounded(0);
        let threads = [sends(sender.clone(), &[1]), sends(sender, &[2])];
        let mut got: Vec<_> = receiver.iter().collect();
        got.sort_unstable();
        assert_eq!(got, [1, 2]);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_receive_that_gives_up_swallows_nothing() {
    for capacity in [0, 1] {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(move || {
            let (sender, receiver) = bounded(capacity);
            let thread = sends(sender, &[7]);
            let first = receiver.recv_deadline(soon());
            let rest: Vec<_> = receiver.iter().collect();
            match first {
                Ok(value) => assert_eq!((value, rest.len()), (7, 0)),
                Err(_) => assert_eq!(rest, [7]),
            }
            thread.join().unwrap();
        });
    }
}

#[test]
fn a_send_that_gives_up_keeps_its_value() {
    check(|| {
        let (sender, receiver) = bounded(0);
        let thread = drains(receiver);
        let sent = sender.send_deadline(7, soon());
        drop(sender);
        let got = thread.join().unwrap();
        match sent {
            Ok(()) => assert_eq!(got, [7]),
            Err(error) => {
                assert_eq!(error.into_inner(), 7);
                assert!(got.is_empty());
            }
        }
    });
}

#[test]
fn closing_lets_both_sides_go() {
    check_with(1, || {
        let (sender, receiver) = bounded(0);
        let closer = sender.closer();
        let one = thread::spawn(move || sender.send(7).is_ok());
        let other = thread::spawn(move || receiver.recv());
        closer.close();
        let (sent, received) = (one.join().unwrap(), other.join().unwrap());
        assert_eq!(sent, received == Ok(7));
        assert!(sent || received == Err(RecvError::Disconnected));
    });
}

#[test]
fn closing_now_lets_both_sides_go() {
    check_with(1, || {
        let (sender, receiver) = bounded(1);
        let closer = sender.closer();
        let one = thread::spawn(move || (sender.send(7).is_ok(), sender.send(8).is_ok()));
        let other = thread::spawn(move || receiver.recv());
        closer.close_now();
        let ((first, second), received) = (one.join().unwrap(), other.join().unwrap());
        assert!(first || !second);
        assert!(received == Err(RecvError::Disconnected) || (first && received == Ok(7)));
    });
}

#[test]
fn the_last_receiver_leaves_a_waiting_sender_its_value() {
    check(|| {
        let (sender, receiver) = bounded(0);
        let thread = thread::spawn(move || sender.send(7).unwrap_err().into_inner());
        drop(receiver);
        assert_eq!(thread.join().unwrap(), 7);
    });
}

#[test]
fn a_race_takes_from_one_and_leaves_the_other() {
    check(|| {
        let (one, first) = bounded(1);
        let (two, second) = bounded(1);
        let thread = thread::spawn(move || {
            one.send(1).unwrap();
            two.send(2).unwrap();
        });
        let won = race([&first, &second]).wait().unwrap().unwrap();
        thread.join().unwrap();
        let left: Vec<_> = first.try_iter().chain(second.try_iter()).collect();
        assert_eq!(won + left.iter().sum::<u32>(), 3);
        assert_eq!(left.len(), 1);
    });
}

#[test]
fn two_selects_that_meet_crosswise() {
    check(|| {
        let (one, first) = bounded(0);
        let (two, second) = bounded(0);
        let thread = thread::spawn(move || {
            select! {
                send(one, 1) -> sent => { assert_eq!(sent, Ok(())); true }
                recv(second) -> got => { assert_eq!(got, Ok(2)); false }
            }
        });
        let received = select! {
            send(two, 2) -> sent => { assert_eq!(sent, Ok(())); false }
            recv(first) -> got => { assert_eq!(got, Ok(1)); true }
        };
        assert_eq!(thread.join().unwrap(), received);
    });
}

#[test]
fn two_selects_of_three_arms_that_meet_crosswise() {
    check_with(1, || {
        let (one, first) = bounded(0);
        let (two, second) = bounded(0);
        let (idle, never) = bounded::<u32>(0);
        let none = never.clone();
        let thread = thread::spawn(move || {
            select! {
                send(one, 1) -> sent => { assert_eq!(sent, Ok(())); true }
                recv(none) -> _ => unreachable!("no value is sent"),
                recv(second) -> got => { assert_eq!(got, Ok(2)); false }
            }
        });
        let received = select! {
            send(two, 2) -> sent => { assert_eq!(sent, Ok(())); false }
            recv(never) -> _ => unreachable!("no value is sent"),
            recv(first) -> got => { assert_eq!(got, Ok(1)); true }
        };
        assert_eq!(thread.join().unwrap(), received);
        drop(idle);
    });
}

#[test]
fn a_select_of_three_receives_each_value_once() {
    for capacity in [0, 1] {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(1);
        model.check(move || {
            let [(one, first), (_idle, second), (three, third)] =
                [(); 3].map(|()| bounded(capacity));
            // The senders stay, because an arm without senders is ready.
            let threads = [sends(one.clone(), &[1]), sends(three.clone(), &[3])];
            let receive = || {
                select! {
                    recv(first) -> got => got,
                    recv(second) -> got => got,
                    recv(third) -> got => got,
                }
            };
            let got = [receive(), receive()];
            assert!(got == [Ok(1), Ok(3)] || got == [Ok(3), Ok(1)], "{got:?}");
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
    }
}

#[test]
fn a_select_that_sends_and_one_that_receives() {
    check(|| {
        let (sender, receiver) = bounded(0);
        let (_idle, never) = bounded::<u32>(0);
        let thread =
            thread::spawn(move || select_biased! { send(sender, 7) -> sent => sent.is_ok() });
        let got = select_biased! {
            recv(never) -> _ => unreachable!("nobody sends"),
            recv(receiver) -> got => got,
        };
        assert_eq!(got, Ok(7));
        assert!(thread.join().unwrap());
    });
}

#[test]
fn what_a_select_reserved_and_does_not_use_is_for_the_next() {
    for capacity in [0, 1] {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(move || {
            let (sender, receiver) = bounded(capacity);
            let thread = drains(receiver);
            let mut select = Select::new();
            select.send(&sender);
            drop(select.select());
            sender.send(7).unwrap();
            drop(sender);
            assert_eq!(thread.join().unwrap(), [7]);
        });
    }
}

#[test]
fn what_overfills_while_the_receiver_is_reserved_arrives() {
    for sends in [false, true] {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(move || {
            let (sender, receiver) = bounded(0);
            let thread = drains(receiver);
            let mut select = Select::new();
            select.send(&sender);
            let selected = select.select();
            sender.overfill(1).unwrap();
            if sends {
                selected.send(&sender, 2).unwrap();
            } else {
                drop(selected);
            }
            drop(sender);
            assert_eq!(thread.join().unwrap(), if sends { &[1, 2][..] } else { &[1] });
        });
    }
}

#[test]
fn what_a_select_received_and_does_not_use_is_for_the_next() {
    check(|| {
        let (sender, receiver) = bounded(1);
        let thread = sends(sender, &[1, 2]);
        let mut select = Select::new();
        select.recv(&receiver);
        drop(select.select());
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [1, 2]);
        thread.join().unwrap();
    });
}

#[test]
fn a_filter_that_refuses_leaves_the_value_to_another() {
    check_with(1, || {
        let (sender, receiver) = bounded(0);
        let odd = receiver.clone();
        let thread = thread::spawn(move || odd.filter(|value| value % 2 == 1).wait().unwrap());
        let other = sends(sender, &[2]);
        assert_eq!(receiver.recv(), Ok(2));
        assert_eq!(thread.join().unwrap(), Err(RecvError::Disconnected));
        other.join().unwrap();
    });
}

#[test]
fn a_default_is_not_taken_while_one_of_two_has_a_value() {
    check(|| {
        let (one, first) = bounded(1);
        let (two, second) = bounded(1);
        one.send(1).unwrap();
        let first_elsewhere = first.clone();
        let thread = thread::spawn(move || {
            two.send(2).unwrap();
            let _ = first_elsewhere.try_recv();
        });
        // The arms are tried in this order, not in a random one.
        select_biased! {
            recv(second) -> got => assert_eq!(got, Ok(2)),
            recv(first) -> got => assert_eq!(got, Ok(1)),
            default => panic!("one of the two had a value at each moment"),
        }
        thread.join().unwrap();
    });
}

#[test]
fn a_default_is_not_taken_while_one_of_two_has_room() {
    check(|| {
        let (one, first) = bounded(1);
        let (two, second) = bounded(1);
        two.send(2).unwrap();
        let one_elsewhere = one.clone();
        let thread = thread::spawn(move || {
            assert_eq!(second.recv(), Ok(2));
            let _ = one_elsewhere.try_send(1);
            second
        });
        select_biased! {
            send(two, 3) -> sent => sent.unwrap(),
            send(one, 3) -> sent => sent.unwrap(),
            default => panic!("one of the two had room at each moment"),
        }
        drop(thread.join().unwrap());
        drop(first);
    });
}

#[test]
fn a_poll_and_a_select_that_sends_lose_nothing() {
    check(|| {
        let (sender, receiver) = bounded(0);
        let thread =
            thread::spawn(move || select_biased! { send(sender, 7) -> sent => sent.is_ok() });
        let polled = receiver.try_recv().ok();
        let got = polled.or_else(|| receiver.recv().ok());
        assert_eq!(got, Some(7));
        assert!(thread.join().unwrap());
    });
}

#[test]
fn a_poll_ends_when_the_value_does_not_come() {
    check(|| {
        let (sender, receiver) = bounded::<u32>(0);
        let thread = thread::spawn(move || {
            let mut select = Select::new();
            select.send(&sender);
            // The reservation is given back, and the channel is disconnected at the end.
            drop(select.select());
        });
        // The poll may find the offer, or it may come too early. In the second case the select
        // waits until this receiver arrives or is dropped.
        assert!(receiver.try_recv().is_err());
        drop(receiver);
        thread.join().unwrap();
    });
}

#[test]
fn ready_and_a_select_that_sends_meet() {
    check(|| {
        let (sender, receiver) = bounded(0);
        let thread =
            thread::spawn(move || select_biased! { send(sender, 7) -> sent => sent.is_ok() });
        let mut select = Select::new();
        select.recv(&receiver);
        assert_eq!(select.ready(), 0);
        assert_eq!(receiver.recv(), Ok(7));
        assert!(thread.join().unwrap());
    });
}

#[test]
fn a_send_with_a_default_whose_receiver_leaves_loses_nothing() {
    check(|| {
        let (sender, receiver) = bounded(0);
        let elsewhere = receiver.clone();
        let thread = thread::spawn(move || elsewhere.recv_deadline(soon()).ok());
        let sent = select! {
            send(sender, 7) -> sent => sent.is_ok(),
            default => false,
        };
        let got = thread.join().unwrap().or_else(|| receiver.try_recv().ok());
        assert_eq!(got, sent.then_some(7));
    });
}

/// If the only peer waits in `recv`, the operation that `ready` names succeeds at the first
/// attempt.
#[test]
fn what_ready_names_can_be_sent_to_the_only_receiver() {
    check_with(3, || {
        let ((sender, receiver), (other, _other)) = (bounded(0), bounded::<u32>(0));
        let thread = thread::spawn(move || receiver.recv());
        let mut choice = Select::new();
        choice.send(&other);
        let index = choice.send(&sender);
        assert_eq!(choice.ready(), index);
        assert!(sender.try_send(1).is_ok());
        assert_eq!(thread.join().unwrap(), Ok(1));
    });
}

/// If the only peer waits in `send`, the operation that `ready` names succeeds at the first
/// attempt.
#[test]
fn what_ready_names_can_be_received_from_the_only_sender() {
    check_with(3, || {
        let ((sender, receiver), (_other, other)) = (bounded(0), bounded::<u32>(0));
        let thread = sends(sender, &[1]);
        let mut choice = Select::new();
        choice.recv(&other);
        let index = choice.recv(&receiver);
        assert_eq!(choice.ready(), index);
        assert_eq!(receiver.try_recv(), Ok(1));
        thread.join().unwrap();
    });
}
