//! Closing a channel during every other operation.

use std::future::Future;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;

use ecru::channel::{self, Receiver, RecvError, Select, SendError, Sender};
use ecru::{Source, select};

use crate::{Counted, Watchdog, run_on, settle};

#[test]
fn closing_against_everything() {
    for workers in [1, 2] {
        for now in [false, true] {
            for capacity in [0, 1, 3, usize::MAX] {
                run_on(workers, || {
                    for round in 0..40 {
                        let alive = Arc::new(AtomicUsize::new(0));
                        let (sender, receiver) = channel::bounded(capacity);
                        let (sent, received) = (AtomicUsize::new(0), AtomicUsize::new(0));
                        ecru::scope(|s| {
                            for _ in 0..3 {
                                s.spawn(|| {
                                    while sender.send(Counted::new(&alive)).is_ok() {
                                        sent.fetch_add(1, SeqCst);
                                    }
                                });
                                s.spawn(|| {
                                    while receiver.recv().is_ok() {
                                        received.fetch_add(1, SeqCst);
                                    }
                                });
                            }
                            s.spawn(|| {
                                loop {
                                    select! {
                                        recv(receiver) -> value => match value {
                                            Ok(_) => received.fetch_add(1, SeqCst),
                                            Err(_) => break,
                                        },
                                        send(sender, Counted::new(&alive)) -> result => match result {
                                            Ok(()) => sent.fetch_add(1, SeqCst),
                                            Err(_) => break,
                                        },
                                    };
                                }
                            });
                            for _ in 0..round % 7 {
                                let _ = ecru::yield_now();
                            }
                            if now { receiver.close_now() } else { sender.close() }
                        });
                        if now {
                            assert!(received.load(SeqCst) <= sent.load(SeqCst));
                        } else {
                            assert_eq!(received.load(SeqCst), sent.load(SeqCst));
                        }
                        assert_eq!(alive.load(SeqCst), 0, "leaked or dropped twice");
                        assert!(receiver.is_empty());
                    }
                });
            }
        }
    }
}

#[test]
fn ends_that_go_while_others_wait() {
    for capacity in [0, 1] {
        let rounds = 300;
        let _watchdog = Watchdog::new();
        thread::scope(|s| {
            let (hand, pairs) = mpsc::channel::<(Sender<Counted>, Receiver<Counted>)>();
            let alive = Arc::new(AtomicUsize::new(0));
            let other = s.spawn({
                let alive = Arc::clone(&alive);
                move || {
                    for (n, (sender, receiver)) in pairs.into_iter().enumerate() {
                        if n % 2 == 0 {
                            drop(sender);
                            while receiver.recv().is_ok() {}
                        } else {
                            drop(receiver);
                            while sender.send(Counted::new(&alive)).is_ok() {}
                        }
                    }
                }
            });
            for n in 0..rounds {
                let (sender, receiver) = channel::bounded(capacity);
                hand.send((sender.clone(), receiver.clone())).unwrap();
                if n % 2 == 0 {
                    let _ = sender.send(Counted::new(&alive));
                    drop((receiver, sender));
                } else {
                    let _ = receiver.recv();
                    drop((sender, receiver));
                }
            }
            drop(hand);
            other.join().unwrap();
            assert_eq!(alive.load(SeqCst), 0);
        });
    }
}

#[test]
fn close_now_reaches_receivers_though_room_is_reserved() {
    run_on(1, || {
        let (sender, receiver) = channel::bounded(1);
        ecru::scope(|s| {
            let mut choice = Select::new();
            choice.send(&sender);
            // Room is reserved and not used yet.
            let selected = choice.select();
            let waiting = s.spawn_local(|| receiver.recv());
            settle();
            receiver.close_now();
            settle();
            assert!(waiting.is_finished(), "`close_now` lets nobody wait");
            assert_eq!(receiver.try_recv().unwrap_err(), channel::TryRecvError::Disconnected);
            assert_eq!(selected.send(&sender, 5), Err(SendError::Disconnected(5)));
            assert_eq!(waiting.join().unwrap(), Err(RecvError::Disconnected));
        });
    });
}

#[test]
fn close_waits_for_what_is_reserved() {
    run_on(1, || {
        for used in [true, false] {
            let (sender, receiver) = channel::bounded(1);
            ecru::scope(|s| {
                let mut choice = Select::new();
                choice.send(&sender);
                let selected = choice.select();
                let waiting = s.spawn_local(|| receiver.recv());
                settle();
                sender.close();
                settle();
                if used {
                    let result = selected.send(&sender, 5);
                    let received = waiting.join().unwrap();
                    assert_eq!(result.is_ok(), received == Ok(5), "{result:?} {received:?}");
                } else {
                    drop(selected);
                    assert_eq!(waiting.join().unwrap(), Err(RecvError::Disconnected));
                }
            });
        }
    });
}

#[test]
fn a_oneshot_never_takes_two_values() {
    run_on(1, || {
        let (sender, receiver) = channel::oneshot();
        ecru::scope(|s| {
            let mut choice = Select::new();
            choice.send(&sender);
            let selected = choice.select();
            let second = s.spawn_local(|| sender.send(2));
            settle();
            let first = selected.send(&sender, 1);
            let values: Vec<_> = receiver.iter().collect();
            let second = second.join().unwrap();
            assert_eq!(values.len(), 1, "{first:?} {second:?} {values:?}");
            assert_eq!((first, second), (Ok(()), Err(SendError::Disconnected(2))));
        });
    });
}

#[test]
fn a_oneshot_closes_also_with_a_value_that_waited_for_a_reservation() {
    run_on(1, || {
        let (sender, receiver) = channel::oneshot();
        ecru::scope(|s| {
            let mut choice = Select::new();
            choice.send(&sender);
            let selected = choice.select();
            let second = s.spawn_local(|| sender.send(2));
            let third = s.spawn_local(|| sender.send(3));
            settle();
            drop(selected);
            assert_eq!(second.join().unwrap(), Ok(()));
            assert_eq!(third.join().unwrap(), Err(SendError::Disconnected(3)));
            assert_eq!(receiver.recv(), Ok(2));
            assert_eq!(sender.try_send(4).unwrap_err().into_inner(), 4);
            assert!(receiver.try_recv().unwrap_err().is_disconnected());
        });
    });
}

#[test]
fn a_value_handed_to_a_future_that_is_dropped_after_the_close_is_delivered() {
    run_on(1, || {
        let (sender, receiver) = channel::unbounded();
        let mut next = Box::pin(receiver.clone().to_future());
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(next.as_mut().poll(&mut context).is_pending());
        sender.send(1).unwrap();
        sender.close();
        ecru::scope(|s| {
            let other = s.spawn_local(|| receiver.recv());
            settle();
            drop(next);
            assert_eq!(other.join().unwrap(), Ok(1));
        });
    });
}
