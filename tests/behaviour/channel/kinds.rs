//! Kinds of channels: values without room, and channels that the clock fills.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use super::{kinds, until_on};
use crate::support::{Counted, HOUR, everywhere, ms, now, run_on, since};
use ecru::channel::{self, RecvError, RecvTimeoutError, SendError, TryRecvError, TrySendError};

/// - given: a channel with room for three
/// - when: three values are sent, and nothing is received
/// - then: no send waits; the values are received in the order of sending
#[test]
fn channel_01_a_send_with_room_does_not_wait() {
    everywhere(|_| {
        let (sender, receiver) = channel::bounded(3);
        for number in 0..3 {
            sender.send(number).unwrap();
        }
        assert_eq!((receiver.recv(), receiver.recv(), receiver.recv()), (Ok(0), Ok(1), Ok(2)));
    });
}

/// - given: room for three
/// - when: a fourth value is sent
/// - then: it waits until one has been received
#[test]
fn channel_02_a_send_without_room_waits_for_it() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(3);
        let sent = AtomicUsize::new(0);
        let ((), ()) = side.both(
            || {
                for number in 0..4 {
                    sender.send(number).unwrap();
                    sent.fetch_add(1, SeqCst);
                }
            },
            || {
                side.pause();
                until_on(side, || sent.load(SeqCst) == 3);
                side.pause();
                assert_eq!(sent.load(SeqCst), 3);
                assert_eq!(receiver.recv(), Ok(0));
                until_on(side, || sent.load(SeqCst) == 4);
            },
        );
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2, 3]);
    });
}

/// - given: a channel without a buffer
/// - when: a value is sent
/// - then: the send waits until the value has been received
#[test]
fn channel_03_without_a_buffer_a_send_waits_for_its_receiver() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(0);
        let sent = AtomicUsize::new(0);
        let ((), ()) = side.both(
            || {
                sender.send(5).unwrap();
                sent.fetch_add(1, SeqCst);
            },
            || {
                side.pause();
                assert_eq!(sent.load(SeqCst), 0);
                assert_eq!(receiver.recv(), Ok(5));
            },
        );
        assert_eq!(sent.load(SeqCst), 1);
    });
}

/// - given: an empty channel of each kind
/// - when: a task or thread receives
/// - then: the receive waits until a value is sent
#[test]
fn channel_04_a_receive_waits_for_a_value() {
    everywhere(|side| {
        for (name, sender, receiver) in kinds() {
            let received = AtomicUsize::new(0);
            let (value, ()) = side.both(
                || {
                    let value = receiver.recv();
                    received.fetch_add(1, SeqCst);
                    value
                },
                || {
                    side.pause();
                    assert_eq!(received.load(SeqCst), 0, "{name}");
                    sender.send(7).unwrap();
                },
            );
            assert_eq!(value, Ok(7), "{name}");
        }
    });
}

/// - given: an unbounded channel
/// - when: 10,000 values are sent, from a task or from a thread without a runtime
/// - then: no send waits, and all values arrive in order; once the channel is closed, a send fails
#[test]
fn channel_05_unbounded_never_makes_a_sender_wait() {
    // This also runs on a thread without a runtime.
    everywhere(|_| {
        let (sender, receiver) = channel::unbounded();
        for number in 0..10_000 {
            sender.send(number).unwrap();
        }
        assert!(receiver.try_iter().eq(0..10_000));
        sender.close();
        assert_eq!(sender.send(1), Err(SendError::Disconnected(1)));
    });
}

/// - given: a channel `dropping(2)`
/// - when: more values are sent
/// - then: every send succeeds at once; the first two values are kept and the others dropped
#[test]
fn channel_06_dropping_drops_the_newest() {
    everywhere(|side| {
        let (sender, receiver) = channel::dropping(2);
        assert!((1..=4).all(|number| sender.send(number).is_ok()));
        assert_eq!(sender.try_send(5), Ok(()));
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2]);
        // A waiting receiver gets the value at once.
        let (value, ()) = side.both(
            || receiver.recv(),
            || {
                side.pause();
                sender.send(6).unwrap();
            },
        );
        assert_eq!(value, Ok(6));
    });
}

#[test]
fn channel_06_dropping_drops_the_newest_for_good() {
    let drops = AtomicUsize::new(0);
    let (sender, receiver) = channel::dropping(1);
    sender.send(Counted(&drops)).unwrap();
    sender.send(Counted(&drops)).unwrap();
    sender.try_send(Counted(&drops)).unwrap();
    assert_eq!(drops.load(SeqCst), 2);
    drop((sender, receiver));
    assert_eq!(drops.load(SeqCst), 3);
}

/// - given: a channel `sliding(2)`
/// - when: more values are sent
/// - then: every send succeeds at once; the last two values are kept and the others dropped
#[test]
fn channel_07_sliding_drops_the_oldest() {
    everywhere(|_| {
        let (sender, receiver) = channel::sliding(2);
        assert!((1..=3).all(|number| sender.send(number).is_ok()));
        assert_eq!(sender.try_send(4), Ok(()));
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [3, 4]);
    });
}

#[test]
fn channel_07_sliding_drops_the_oldest_for_good() {
    let drops = AtomicUsize::new(0);
    let (sender, receiver) = channel::sliding(1);
    for number in 0..4 {
        assert_eq!(drops.load(SeqCst), usize::max(number, 1) - 1);
        sender.send(Counted(&drops)).unwrap();
    }
    drop((sender, receiver));
    assert_eq!(drops.load(SeqCst), 4);
}

/// - given: a `oneshot` channel
/// - when: one or more tasks send
/// - then: the first send succeeds without waiting and closes the channel; the others get their
///   values back
#[test]
fn channel_08_oneshot_takes_one_value() {
    everywhere(|side| {
        let (sender, receiver) = channel::oneshot();
        let (sent, received) = side.both(|| sender.send(7), || receiver.recv());
        assert_eq!((sent, received), (Ok(()), Ok(7)));
        assert!(sender.is_closed());
        assert_eq!(sender.send(8), Err(SendError::Disconnected(8)));
        assert_eq!(sender.try_send(9), Err(TrySendError::Disconnected(9)));
        assert_eq!(receiver.recv(), Err(RecvError::Disconnected));
        let (sender, receiver) = channel::oneshot::<u8>();
        drop(sender);
        assert_eq!(receiver.recv(), Err(RecvError::Disconnected));
        let (sender, receiver) = channel::oneshot();
        drop(receiver);
        assert_eq!(sender.send(1), Err(SendError::Disconnected(1)));
    });
}

#[test]
fn channel_08_oneshot_takes_one_value_of_many_senders() {
    everywhere(|side| {
        let (sender, receiver) = channel::oneshot();
        let (sent, received) = side.many(4, |n| sender.send(n).is_ok(), || receiver.recv());
        let winners: Vec<_> = (0..4).filter(|n| sent[*n]).collect();
        assert_eq!(winners, [received.unwrap()]);
    });
}

/// - given: `after(d)`
/// - when: one or more tasks receive
/// - then: one of them receives one value, the moment when it was due, and never early; the channel
///   is never disconnected
#[test]
fn channel_09_after_has_one_value_when_it_is_due() {
    everywhere(|_| {
        let later = channel::after(HOUR);
        assert_eq!(later.try_recv(), Err(TryRecvError::Empty));
        assert_eq!((later.len(), later.capacity()), (0, Some(1)));
        let start = now();
        let alarm = channel::after(ms(3));
        let due = alarm.recv().unwrap();
        assert!(due >= start + ms(3) && now() >= due, "never early");
        assert_eq!(alarm.try_recv(), Err(TryRecvError::Empty));
        assert!(alarm.recv_timeout(ms(2)).unwrap_err().is_timeout(), "never disconnected");
        // A time that never comes.
        assert!(channel::after(Duration::MAX).recv_timeout(ms(1)).unwrap_err().is_timeout());
    });
}

#[test]
fn channel_09_after_has_one_value_when_it_is_due_for_all_its_clones() {
    everywhere(|side| {
        let alarm = channel::after(ms(2));
        let (got, ()) = side.many(3, |_| alarm.clone().recv_timeout(ms(20)).is_ok(), || ());
        assert_eq!(got.iter().filter(|got| **got).count(), 1);
    });
}

/// - given: `at(i)`
/// - when: a task or thread receives
/// - then: the value is `i`; it comes at once if `i` has passed
#[test]
fn channel_10_at_has_one_value_at_that_moment() {
    everywhere(|_| {
        let due = now() + ms(2);
        assert_eq!(channel::at(due).recv(), Ok(due));
        assert!(now() >= due);
        let past = now() - ms(5);
        let receiver = channel::at(past);
        assert_eq!(receiver.len(), 1);
        assert_eq!(receiver.try_recv(), Ok(past));
        assert_eq!(receiver.len(), 0);
    });
}

/// - given: `tick(d)`
/// - when: a task or thread receives, sometimes late
/// - then: values are at least `d` apart and never early; ticks that were not received merge into
///   one
#[test]
fn channel_11_tick_has_values_again_and_again_without_bursts() {
    everywhere(|side| {
        let start = now();
        let ticks = channel::tick(ms(4));
        let first = ticks.recv().unwrap();
        let second = ticks.recv().unwrap();
        assert!(first >= start + ms(4) && second >= first + ms(4));
        assert!(now() >= second, "never early");
        // Three ticks that are not received merge into one.
        for _ in 0..4 {
            side.pause();
        }
        until_on(side, || since(second) > ms(16));
        assert_eq!(ticks.len(), 1);
        let fetched = now();
        assert!(ticks.try_recv().is_ok());
        assert!(ticks.try_recv().unwrap_err().is_empty() || since(fetched) >= ms(4));
        assert!(channel::tick(Duration::MAX).recv_timeout(ms(1)).unwrap_err().is_timeout());
        let always = channel::tick(Duration::ZERO);
        assert_eq!(always.iter().take(100).count(), 100);
    });
}

/// - given: `never()`
/// - when: it is received from
/// - then: it has no value, and is never disconnected
#[test]
fn channel_12_never_has_nothing() {
    everywhere(|_| {
        let never = channel::never::<u8>();
        assert_eq!(never.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(never.recv_timeout(ms(1)), Err(RecvTimeoutError::Timeout));
        assert!(!never.is_closed());
        assert_eq!((never.len(), never.is_empty()), (0, true));
    });
}

/// - given: six values on one worker
/// - when: the buffer holds one, or six
/// - then: the sender is resumed six times, or once
#[test]
fn channel_47_buffer_of_one_and_of_six() {
    run_on(1, || {
        for (capacity, expected) in [(1, 6), (6, 1)] {
            let (sender, receiver) = channel::bounded(capacity);
            let log = Mutex::new(Vec::new());
            ecru::scope(|s| {
                let log = &log;
                s.spawn_local(move || {
                    for n in 0..6 {
                        sender.send(n).unwrap();
                        log.lock().unwrap().push('s');
                    }
                });
                let sum: i32 = receiver.iter().inspect(|_| log.lock().unwrap().push('r')).sum();
                assert_eq!(sum, 15);
            });
            let mut log = log.into_inner().unwrap();
            log.dedup();
            let runs = log.iter().filter(|side| **side == 's').count();
            assert!(runs <= expected, "the sender went on {runs} times: {log:?}");
        }
    });
}

/// - given: `dropping(0)`, `sliding(0)`
/// - when: they are called
/// - then: they panic, and say what to do
#[test]
fn channel_51_a_room_of_none_for_dropping_is_refused() {
    let text = crate::support::panic_text(|| channel::dropping::<u8>(0));
    assert!(text.contains("capacity"), "{text}");
    let text = crate::support::panic_text(|| channel::sliding::<u8>(0));
    assert!(text.contains("capacity"), "{text}");
}
