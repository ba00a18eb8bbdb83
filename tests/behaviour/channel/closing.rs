//! The end of a channel: by its last sender, by its last receiver, or by `close`.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::kinds;
use crate::support::{Counted, everywhere};
use ecru::channel::{self, RecvError, SendError, Sender, TryRecvError, TrySendError};

/// - given: waiting receivers, or values not yet received
/// - when: the last sender is dropped
/// - then: all waiting receivers get `Disconnected`; buffered values are received first
#[test]
fn channel_34_the_last_sender_disconnects() {
    everywhere(|side| {
        for (name, sender, receiver) in kinds() {
            let other: Sender<u8> = sender.clone();
            drop(sender);
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty), "{name}: one is left");
            let (ends, ()) = side.many(
                3,
                |_| receiver.recv(),
                || {
                    side.pause();
                    drop(other);
                },
            );
            assert!(ends.iter().all(|end| *end == Err(RecvError::Disconnected)), "{name}");
            assert_eq!(receiver.recv(), Err(RecvError::Disconnected), "{name}");
            assert!(receiver.is_closed());
        }
    });
}

#[test]
fn channel_34_the_last_sender_disconnects_after_what_it_sent() {
    everywhere(|_| {
        for (sender, receiver) in [channel::bounded(3), channel::unbounded(), channel::sliding(3)] {
            (0..3).for_each(|number| sender.send(number).unwrap());
            drop(sender);
            assert_eq!(receiver.len(), 3);
            assert_eq!(receiver.iter().collect::<Vec<_>>(), [0, 1, 2]);
            assert_eq!(receiver.recv(), Err(RecvError::Disconnected));
        }
    });
}

/// - given: waiting senders, and values not yet received
/// - when: the last receiver is dropped
/// - then: the waiting senders get their values back; the values in the channel are dropped at once
#[test]
fn channel_35_the_last_receiver_disconnects() {
    everywhere(|side| {
        for capacity in [0, 1] {
            let (sender, receiver) = channel::bounded(capacity);
            let other = receiver.clone();
            drop(receiver);
            (0..capacity).for_each(|_| sender.send(9).unwrap());
            let (ends, ()) = side.many(
                3,
                |n| sender.send(n),
                || {
                    side.pause();
                    drop(other);
                },
            );
            for (n, end) in ends.into_iter().enumerate() {
                assert_eq!(end, Err(SendError::Disconnected(n)), "its value comes back");
            }
            assert!(sender.is_closed());
        }
    });
}

#[test]
fn channel_35_the_last_receiver_disconnects_and_drops_what_is_there() {
    let drops = AtomicUsize::new(0);
    for (sender, receiver) in [channel::bounded(3), channel::unbounded(), channel::dropping(3)] {
        drops.store(0, SeqCst);
        (0..3).for_each(|_| drop(sender.send(Counted(&drops))));
        drop(receiver);
        assert_eq!(drops.load(SeqCst), 3, "at once, though a sender is left");
        drop(sender.send(Counted(&drops)));
        assert_eq!(drops.load(SeqCst), 4);
    }
}

/// - given: buffered values and waiting senders
/// - when: `close` is called
/// - then: new sends fail; the buffered values and those of the waiting senders are delivered, and
///   their sends succeed; then receives return `Disconnected`
#[test]
fn channel_36_close_delivers_what_is_there() {
    let waited = AtomicUsize::new(0);
    everywhere(|side| {
        for (name, sender, receiver) in kinds() {
            let n = usize::min(receiver.capacity().unwrap_or(5), 5);
            (0..n).for_each(|number| sender.send(number).unwrap());
            // Three more wait to send, if the channel is full.
            let waiting = if receiver.is_full() { 3 } else { 0 };
            let (sent, values) = side.many(
                waiting,
                |n| sender.send(100 + n),
                || {
                    side.pause();
                    side.pause();
                    receiver.close();
                    assert!(sender.is_closed());
                    assert_eq!(sender.send(9), Err(SendError::Disconnected(9)), "{name}");
                    assert_eq!(sender.try_send(9), Err(TrySendError::Disconnected(9)), "{name}");
                    receiver.iter().collect::<BTreeSet<_>>()
                },
            );
            // On a busy machine a sender may come too late, and gets an error.
            let in_time = sent.iter().enumerate().filter(|(_, sent)| sent.is_ok());
            let in_time = in_time.map(|(n, _)| 100 + n).collect::<Vec<_>>();
            waited.fetch_add(in_time.len(), SeqCst);
            assert_eq!(values, (0..n).chain(in_time).collect(), "{name}");
            assert_eq!(receiver.recv(), Err(RecvError::Disconnected), "{name}");
        }
    });
    assert!(waited.into_inner() > 0, "nobody waited");
}

/// - given: five waiting receivers
/// - when: `close` is called
/// - then: all five get `Disconnected`
#[test]
fn channel_37_close_wakes_every_receiver() {
    everywhere(|side| {
        for (name, sender, receiver) in kinds::<u8>() {
            let (ends, ()) = side.many(
                5,
                |_| receiver.recv(),
                || {
                    side.pause();
                    sender.close();
                },
            );
            assert!(ends.iter().all(|end| *end == Err(RecvError::Disconnected)), "{name}");
        }
    });
}

/// - given: a closed channel
/// - when: it is closed again, from either end
/// - then: its values are still received
#[test]
fn channel_38_close_again_changes_nothing() {
    let (sender, receiver) = channel::unbounded();
    sender.send(1).unwrap();
    sender.close();
    sender.close();
    receiver.close();
    assert_eq!(receiver.recv(), Ok(1));
    receiver.close();
    assert_eq!(receiver.recv(), Err(RecvError::Disconnected));
    receiver.close_now();
    sender.close_now();
    assert_eq!(receiver.recv(), Err(RecvError::Disconnected));
}

/// - given: buffered values and waiting senders
/// - when: `close_now` is called, also after `close`
/// - then: the buffered values are dropped, the waiting senders get theirs back, and receivers get
///   `Disconnected` at once
#[test]
fn channel_39_close_now_drops_and_gives_back() {
    everywhere(|side| {
        let drops = &AtomicUsize::new(0);
        let (sender, receiver) = channel::bounded(2);
        (0..2).for_each(|_| drop(sender.send(Counted(drops))));
        let (sent, ()) = side.many(
            3,
            |_| sender.send(Counted(drops)),
            || {
                side.pause();
                receiver.close_now();
                assert!(matches!(receiver.recv(), Err(RecvError::Disconnected)));
            },
        );
        assert_eq!(drops.load(SeqCst), 2, "those in the buffer");
        for result in sent {
            assert!(matches!(result, Err(SendError::Disconnected(_))), "its value comes back");
        }
        assert_eq!(drops.load(SeqCst), 5);
    });
}

#[test]
fn channel_39_close_now_drops_and_gives_back_what_close_would_have_delivered() {
    let (sender, receiver) = channel::unbounded();
    (0..3).for_each(|n| sender.send(n).unwrap());
    sender.close();
    sender.close_now();
    assert_eq!(receiver.recv(), Err(RecvError::Disconnected));
}

/// - given: four waiting receivers
/// - when: `close_now` is called
/// - then: all get `Disconnected`
#[test]
fn channel_40_close_now_wakes_everybody() {
    everywhere(|side| {
        for (name, sender, receiver) in kinds::<u8>() {
            let (ends, ()) = side.many(
                4,
                |_| receiver.recv(),
                || {
                    side.pause();
                    sender.close_now();
                },
            );
            assert!(ends.iter().all(|end| *end == Err(RecvError::Disconnected)), "{name}");
        }
    });
}

/// - given: three values in a channel, whose destructors panic
/// - when: the last receiver is dropped, or `close_now` is called
/// - then: all three values are dropped, and the first panic is resumed
#[test]
fn channel_56_values_whose_destructors_panic_are_all_dropped() {
    struct Bad<'c>(&'c std::sync::atomic::AtomicUsize);
    impl Drop for Bad<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            crate::support::quiet_panic("a destructor");
        }
    }
    everywhere(|_| {
        for by_closing in [false, true] {
            let dropped = std::sync::atomic::AtomicUsize::new(0);
            let (sender, receiver) = channel::unbounded();
            (0..3).for_each(|_| sender.send(Bad(&dropped)).ok().unwrap());
            // The first panic is resumed after all values have been dropped.
            let text = crate::support::panic_text(|| {
                if by_closing { sender.close_now() } else { drop(receiver) }
            });
            assert_eq!(text, "a destructor");
            assert_eq!(dropped.load(std::sync::atomic::Ordering::SeqCst), 3);
        }
    });
}
