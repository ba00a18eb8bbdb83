//! Operations on the ends: cloning, comparison, length, formatting, iteration.

use std::panic::{RefUnwindSafe, UnwindSafe};

use super::{Opaque, kinds, until_on};
use crate::support::{HOUR, everywhere};
use ecru::channel::{self, Closer, Receiver, RecvError, Sender, TryRecvError};

/// - given: values that are `Send` but not `Sync`
/// - when: ends are cloned and shared among tasks or threads
/// - then: all of them send to, and receive from, one channel
#[test]
fn channel_13_ends_are_cloned_and_shared() {
    fn shared<T: Clone + Send + Sync + UnwindSafe + RefUnwindSafe + std::fmt::Debug>() {}
    // The value type need not be `Sync`.
    shared::<Sender<std::cell::Cell<u8>>>();
    shared::<Receiver<std::cell::Cell<u8>>>();
    shared::<Sender<Box<dyn FnOnce() + Send>>>();
    everywhere(|side| {
        for (name, sender, receiver) in kinds() {
            let (sums, ()) = side.many(
                4,
                |n| match n % 2 {
                    0 => {
                        let sender = sender.clone();
                        (0..50).for_each(|value| sender.send(value).unwrap());
                        0
                    }
                    _ => {
                        let receiver = receiver.clone();
                        (0..50).map(|_| receiver.recv().unwrap()).sum::<i32>()
                    }
                },
                || (),
            );
            assert_eq!(sums.iter().sum::<i32>(), 2 * 49 * 50 / 2, "{name}");
        }
    });
}

/// - given: a sender that is dropped after some values
/// - when: the receiver is iterated by `iter`, as `&receiver`, or by `into_iter`
/// - then: they yield all values, then `None`, for good
#[test]
fn channel_18_iteration_ends_with_the_last_sender() {
    everywhere(|side| {
        for (name, sender, receiver) in kinds() {
            let ((), (borrowed, owned)) = side.both(
                move || {
                    (0..10).for_each(|number| sender.send(number).unwrap());
                },
                || {
                    let mut borrowed = Vec::new();
                    for number in &receiver {
                        borrowed.push(number);
                        if number == 4 {
                            break;
                        }
                    }
                    let mut iter = receiver.clone().into_iter();
                    let owned: Vec<_> = iter.by_ref().collect();
                    assert_eq!(iter.next(), None, "fused");
                    (borrowed, owned)
                },
            );
            assert_eq!(borrowed, [0, 1, 2, 3, 4], "{name}");
            assert_eq!(owned, [5, 6, 7, 8, 9], "{name}");
            assert_eq!(receiver.iter().next(), None, "{name}");
        }
    });
}

/// - given: two values in a channel
/// - when: `try_iter` is called
/// - then: it yields both, then `None`; it yields later values when called again
#[test]
fn channel_19_try_iter_ends_when_there_is_nothing_now() {
    let (sender, receiver) = channel::unbounded();
    sender.send(1).unwrap();
    sender.send(2).unwrap();
    let mut now = receiver.try_iter();
    assert_eq!((now.next(), now.next(), now.next()), (Some(1), Some(2), None));
    sender.send(3).unwrap();
    assert_eq!(now.next(), Some(3), "not fused: more may have come");
}

/// - given: channels of all kinds, filled step by step
/// - when: `len`, `is_empty`, `is_full` and `capacity` are called
/// - then: both ends agree; a channel without a buffer is both empty and full; values of waiting
///   senders do not count; every capacity is accepted
#[test]
fn channel_21_length_and_room() {
    let (sender, receiver) = channel::bounded(2);
    let seen = |sender: &Sender<u8>, receiver: &Receiver<u8>| {
        assert_eq!(sender.len(), receiver.len());
        assert_eq!(sender.is_empty(), receiver.is_empty());
        assert_eq!(sender.is_full(), receiver.is_full());
        assert_eq!(sender.capacity(), receiver.capacity());
        (sender.len(), sender.is_empty(), sender.is_full(), sender.capacity())
    };
    assert_eq!(seen(&sender, &receiver), (0, true, false, Some(2)));
    sender.send(1).unwrap();
    assert_eq!(seen(&sender, &receiver), (1, false, false, Some(2)));
    sender.send(2).unwrap();
    assert_eq!(seen(&sender, &receiver), (2, false, true, Some(2)));
    receiver.recv().unwrap();
    assert_eq!(seen(&sender, &receiver), (1, false, false, Some(2)));
    let (sender, receiver) = channel::bounded(0);
    assert_eq!(seen(&sender, &receiver), (0, true, true, Some(0)));
    let (sender, receiver) = channel::unbounded();
    sender.send(1).unwrap();
    assert_eq!(seen(&sender, &receiver), (1, false, false, None));
    // Memory is allocated as values come.
    let (sender, receiver) = channel::bounded(usize::MAX);
    sender.send(1).unwrap();
    assert_eq!((sender.is_full(), receiver.recv()), (false, Ok(1)));
    for (sender, receiver) in [channel::dropping(1), channel::sliding(1), channel::oneshot()] {
        assert_eq!(seen(&sender, &receiver), (0, true, false, Some(1)));
        sender.send(1).unwrap();
        assert_eq!(seen(&sender, &receiver), (1, false, true, Some(1)));
    }
}

#[test]
fn channel_21_length_and_room_while_others_wait() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(2);
        let (_, ()) = side.many(
            4,
            |n| sender.send(n).unwrap(),
            || {
                side.pause();
                until_on(side, || receiver.len() == 2);
                assert_eq!((receiver.len(), receiver.is_full()), (2, true));
                receiver.recv().unwrap();
                // A waiting sender is let in, or one that came late.
                until_on(side, || receiver.len() == 2);
                for _ in 0..3 {
                    receiver.recv().unwrap();
                }
            },
        );
        assert!(receiver.is_empty());
    });
}

/// - given: ends and their clones
/// - when: `same_channel` is called
/// - then: true for ends of one channel only
#[test]
fn channel_22_same_channel() {
    let (sender, receiver) = channel::unbounded::<u8>();
    let (other_sender, other_receiver) = channel::unbounded::<u8>();
    assert!(sender.same_channel(&sender.clone()) && receiver.same_channel(&receiver.clone()));
    assert!(!sender.same_channel(&other_sender) && !receiver.same_channel(&other_receiver));
    let alarm = channel::after(HOUR);
    assert!(alarm.same_channel(&alarm.clone()) && !alarm.same_channel(&channel::after(HOUR)));
    let never = channel::never::<u8>();
    assert!(never.same_channel(&never.clone()));
}

/// - given: closers of channels of different types, also of borrowed data
/// - when: they close; the ends are dropped
/// - then: closers of all types fit into one list; a closer keeps neither side connected
#[test]
fn channel_23_a_closer_only_closes() {
    everywhere(|side| {
        let (numbers, n) = channel::unbounded();
        let (texts, t) = channel::bounded::<String>(0);
        let closers: Vec<Closer<'_>> = vec![numbers.closer(), t.closer(), t.closer().clone()];
        numbers.send(1).unwrap();
        let (text, ()) = side.both(
            || t.recv(),
            || {
                side.pause();
                closers.iter().for_each(Closer::close);
            },
        );
        assert_eq!(text, Err(RecvError::Disconnected));
        assert!(closers.iter().all(Closer::is_closed));
        assert_eq!((n.recv(), n.recv()), (Ok(1), Err(RecvError::Disconnected)));
        assert!(texts.send(String::new()).is_err());
    });
}

#[test]
fn channel_23_a_closer_only_closes_and_keeps_nobody_connected() {
    let text = String::from("borrowed");
    let (sender, receiver) = channel::unbounded::<&str>();
    let closer: Closer<'_> = sender.closer();
    sender.send(&text).unwrap();
    drop(sender);
    assert!(closer.is_closed());
    assert_eq!(receiver.recv(), Ok("borrowed"));
    assert_eq!(receiver.recv(), Err(RecvError::Disconnected));
    let (sender, receiver) = channel::unbounded::<&str>();
    let closer = receiver.closer();
    drop(receiver);
    assert!(closer.is_closed() && sender.send(&text).is_err());
    let (sender, receiver) = channel::unbounded::<&str>();
    sender.send(&text).unwrap();
    sender.closer().close_now();
    assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
}

/// - given: ends of a channel whose type has no `Debug`
/// - when: they are formatted by `{:?}`
/// - then: the output names the end
#[test]
fn channel_29_ends_can_be_shown() {
    let (sender, receiver) = channel::bounded::<Opaque>(2);
    assert!(format!("{sender:?}").starts_with("Sender"));
    assert!(format!("{receiver:?}").starts_with("Receiver"));
    assert!(format!("{:?}", sender.closer()).starts_with("Closer"));
    assert!(format!("{:?}", channel::never::<Opaque>()).starts_with("Receiver"));
}

/// - given: data on the parent's stack
/// - when: references to it are sent among children
/// - then: they arrive
#[test]
fn channel_52_values_may_be_borrowed() {
    everywhere(|side| {
        let text = String::from("on the parent's stack");
        let (sender, receiver) = channel::bounded::<&str>(0);
        let (word, ()) = side.both(
            || receiver.recv().unwrap(),
            || sender.send(text.split(' ').next().unwrap()).unwrap(),
        );
        assert_eq!(word, "on");
    });
}

/// - given: receivers from `never()`
/// - when: `same_channel` is called
/// - then: true for any two of them, and false with any other receiver
#[test]
fn channel_57_never_is_one_channel() {
    let (one, other) = (channel::never::<u32>(), channel::never());
    assert!(one.same_channel(&other) && one.same_channel(&one.clone()));
    let (_sender, receiver) = channel::bounded(0);
    assert!(!one.same_channel(&receiver) && !receiver.same_channel(&one));
    // A time beyond the last `Instant`.
    assert!(channel::after(std::time::Duration::MAX).same_channel(&channel::never()));
    assert!(!channel::after(HOUR).same_channel(&channel::after(HOUR)));
}
