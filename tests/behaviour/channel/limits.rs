//! Sends and receives with a time limit, or without any wait.

use std::time::Duration;

use super::{kinds, until_on};
use crate::support::{HOUR, everywhere, ms, now, since};
use ecru::Source;
use ecru::channel::{
    self, RecvTimeoutError, Select, SendError, SendTimeoutError, TryRecvError, TrySendError,
};
use ecru::{no_suspend, select};

/// - given: a full channel
/// - when: `send_timeout` and `send_deadline` are called
/// - then: when the time is up, and never early, the value is returned and nothing stays in the
///   channel; a send that need not wait ignores the limit
#[test]
fn channel_14_a_send_with_a_limit() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(1);
        sender.send_timeout(1, HOUR).unwrap();
        let start = now();
        assert_eq!(sender.send_timeout(2, ms(3)), Err(SendTimeoutError::Timeout(2)));
        assert!(since(start) >= ms(3), "never early");
        let past = now() - ms(1);
        assert_eq!(sender.send_deadline(3, past), Err(SendTimeoutError::Timeout(3)));
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1], "the others have not been sent");
        assert_eq!(sender.send_deadline(4, past), Ok(()), "no wait, no limit");
        let (sent, ()) = side.both(
            || sender.send_timeout(5, Duration::MAX),
            || {
                side.pause();
                assert_eq!(receiver.recv(), Ok(4));
            },
        );
        assert_eq!(sent, Ok(()));
        drop(receiver);
        assert_eq!(sender.send_timeout(6, HOUR), Err(SendTimeoutError::Disconnected(6)));
    });
}

#[test]
fn channel_14_a_send_with_a_limit_to_nobody() {
    everywhere(|_| {
        let (sender, receiver) = channel::bounded(0);
        assert_eq!(sender.send_timeout(1, ms(1)), Err(SendTimeoutError::Timeout(1)));
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty), "it has left no trace");
    });
}

/// - given: an empty channel
/// - when: `recv_timeout` and `recv_deadline` are called
/// - then: when the time is up, and never early, they return `Timeout`; a value that is there is
///   received whatever the limit
#[test]
fn channel_15_a_receive_with_a_limit() {
    everywhere(|side| {
        for (name, sender, receiver) in kinds() {
            let start = now();
            assert_eq!(receiver.recv_timeout(ms(2)), Err(RecvTimeoutError::Timeout), "{name}");
            assert!(since(start) >= ms(2), "never early");
            let past = now() - ms(1);
            assert_eq!(receiver.recv_deadline(past), Err(RecvTimeoutError::Timeout), "{name}");
            let (value, ()) = side.both(
                || receiver.recv_timeout(Duration::MAX),
                || {
                    side.pause();
                    sender.send(1).unwrap();
                },
            );
            assert_eq!(value, Ok(1), "{name}");
            if sender.try_send(2).is_ok() {
                assert_eq!(receiver.recv_deadline(past), Ok(2), "no wait, no limit");
            }
            drop(sender);
            assert_eq!(receiver.recv_timeout(HOUR), Err(RecvTimeoutError::Disconnected), "{name}");
        }
    });
}

/// - given: a channel with and without room, and one without a buffer
/// - when: `try_send` is called
/// - then: the value is sent, or returned as `Full`; without a buffer it is sent only if a receiver
///   waits
#[test]
fn channel_16_try_send_never_waits() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(2);
        assert_eq!(sender.try_send(1), Ok(()));
        assert_eq!(sender.try_send(2), Ok(()));
        assert_eq!(sender.try_send(3), Err(TrySendError::Full(3)));
        assert_eq!(receiver.try_recv(), Ok(1));
        assert_eq!(sender.try_send(3), Ok(()));
        drop(receiver);
        assert_eq!(sender.try_send(4), Err(TrySendError::Disconnected(4)));
        // Without a buffer, this succeeds only if a receiver waits.
        let (sender, receiver) = channel::bounded(0);
        assert_eq!(sender.try_send(1), Err(TrySendError::Full(1)));
        let (received, ()) =
            side.both(|| receiver.recv(), || until_on(side, || sender.try_send(2).is_ok()));
        assert_eq!(received, Ok(2));
    });
}

/// - given: a channel of each kind
/// - when: `try_recv` is called
/// - then: a value, or `Empty`, or `Disconnected` when no sender is left
#[test]
fn channel_17_try_recv_never_waits() {
    everywhere(|side| {
        for (name, sender, receiver) in kinds() {
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty), "{name}");
            let (sent, ()) = side.both(
                || sender.send(1),
                || {
                    let mut value = None;
                    until_on(side, || {
                        value = receiver.try_recv().ok();
                        value.is_some()
                    });
                    assert_eq!(value, Some(1), "{name}");
                },
            );
            assert_eq!(sent, Ok(()), "{name}");
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty), "{name}");
            drop(sender);
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected), "{name}");
        }
    });
}

/// - given: a full channel with a sender that waits, one without a buffer, one of each other kind,
///   a closed one
/// - when: `overfill` is called
/// - then: the value goes in without a wait, before those of waiting senders; no sender is let in
///   before there is room below the capacity; `dropping` and `sliding` drop a value as usual; a
///   closed channel, or a full `oneshot`, returns the value
#[test]
fn channel_58_overfill() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(2);
        sender.send(1).unwrap();
        sender.overfill(2).unwrap();
        let (sent, ()) = side.both(
            || sender.send(4),
            || {
                side.pause();
                ecru::no_suspend(|| sender.overfill(3)).unwrap();
                assert_eq!((receiver.len(), receiver.is_full()), (3, true));
                assert_eq!(receiver.recv(), Ok(1));
                side.pause();
                assert_eq!(receiver.len(), 2, "full, so the other sender still waits");
                assert_eq!(sender.try_send(9), Err(TrySendError::Full(9)));
                assert_eq!(receiver.recv(), Ok(2));
                until_on(side, || receiver.len() == 2);
            },
        );
        assert_eq!(sent, Ok(()));
        sender.close();
        assert_eq!(sender.overfill(5), Err(SendError::Disconnected(5)));
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [3, 4]);
    });
}

#[test]
fn channel_58_overfill_of_each_kind() {
    everywhere(|side| {
        // Without a buffer it is kept for the next receiver, or goes to one that waits.
        let (sender, receiver) = channel::bounded(0);
        sender.overfill(1).unwrap();
        sender.overfill(2).unwrap();
        let (received, ()) = side.both(
            || [receiver.recv(), receiver.recv(), receiver.recv()],
            || {
                until_on(side, || receiver.is_empty());
                side.pause();
                sender.overfill(3).unwrap();
            },
        );
        assert_eq!(received, [Ok(1), Ok(2), Ok(3)]);
        // A filter that refuses it does not lose it.
        sender.overfill(4).unwrap();
        assert_eq!((&receiver).filter(|n| n % 2 == 1).try_take(), None);
        assert_eq!(receiver.try_recv(), Ok(4));
        drop(receiver);
        assert_eq!(sender.overfill(5), Err(SendError::Disconnected(5)));

        let (sender, receiver) = channel::dropping(1);
        sender.overfill(1).unwrap();
        sender.overfill(2).unwrap();
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1]);
        let (sender, receiver) = channel::sliding(1);
        sender.overfill(1).unwrap();
        sender.overfill(2).unwrap();
        assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [2]);
        let (sender, receiver) = channel::unbounded();
        (0..9).for_each(|n| sender.overfill(n).unwrap());
        assert_eq!(receiver.len(), 9);
        let (sender, receiver) = channel::oneshot();
        sender.overfill(1).unwrap();
        assert_eq!(sender.overfill(2), Err(SendError::Disconnected(2)));
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [1]);
    });
}

#[test]
fn channel_58_overfill_of_a_reserved_oneshot() {
    let (sender, receiver) = channel::oneshot();
    let mut select = channel::Select::new();
    select.send(&sender);
    let selected = select.select();
    // The place is promised, and there is no second one.
    assert_eq!(sender.overfill(2), Err(SendError::Disconnected(2)));
    assert_eq!(selected.send(&sender, 1), Ok(()));
    assert_eq!(receiver.iter().collect::<Vec<_>>(), [1]);
}

#[test]
fn channel_58_overfill_leaves_a_reserved_place() {
    let (sender, receiver) = channel::bounded(1);
    let sent = select! {
        send(sender, { sender.overfill(1).unwrap(); 2 }) -> sent => sent,
        default => unreachable!("there is room"),
    };
    assert_eq!((sent, receiver.len()), (Ok(()), 2));
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2]);

    let mut select = Select::new();
    select.send(&sender);
    let selected = select.select();
    sender.overfill(3).unwrap();
    assert_eq!(no_suspend(|| selected.send(&sender, 4)), Ok(()));
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [3, 4]);
}
