//! `broadcast`: every receiver gets every value, without a task.

use crate::common::{begin, panic_text, quiet_panic, settle};
use crate::simulated::each_run;
use ecru::channel::{SendError, TrySendError};
use ecru::source::{self, Source};
use ecru::{JoinError, select};
use ecru_flow::BroadcastRecvError::{self, Cancelled, Disconnected, Lagged};
use ecru_flow::{
    BroadcastReceiver, BroadcastSender, BroadcastTryRecvError, SlowReceivers, broadcast,
    broadcast_with,
};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};

/// Receives until there is no value at the moment.
fn at_hand(receiver: &BroadcastReceiver<u32>) -> Vec<Result<u32, BroadcastRecvError>> {
    std::iter::from_fn(|| receiver.try_take()).take(20).collect()
}

/// - given: two senders and three receivers
/// - when: the senders send
/// - then: all receivers get all values in the same order, and then `Disconnected`
#[test]
fn hub_38_broadcast() {
    each_run(|| {
        let (sender, first) = broadcast_with(2, SlowReceivers::Block);
        let receivers = [sender.subscribe(), sender.subscribe(), first];
        ecru::scope(|s| {
            for from in [0, 100] {
                let sender = sender.clone();
                s.spawn(move || (from..from + 50).for_each(|n| _ = sender.send(n).unwrap()));
            }
            drop(sender);
            let readers = receivers.map(|receiver| {
                s.spawn(move || {
                    let mut heard = Vec::new();
                    while let Ok(n) = receiver.recv() {
                        heard.push(n);
                    }
                    assert_eq!(receiver.recv(), Err(Disconnected));
                    heard
                })
            });
            let [one, two, three] = readers.map(|reader| reader.join().unwrap());
            assert!(one == two && two == three);
            let (low, high): (Vec<u32>, Vec<u32>) = one.into_iter().partition(|n| *n < 100);
            assert!(low.into_iter().eq(0..50) && high.into_iter().eq(100..150));
        });
    });
}

/// - given: a broadcast of two places, whose slow receivers lag
/// - when: five values are sent
/// - then: no send waits; a receiver that reads along gets all; a slow one learns that it has missed
///   three, once, and gets the two that are left
#[test]
fn hub_39_broadcast_lags() {
    each_run(|| {
        let (sender, slow) = broadcast(2);
        let quick = sender.subscribe();
        for n in 0..5 {
            assert_eq!(sender.send(n).unwrap(), 2);
            assert_eq!(quick.recv(), Ok(n));
        }
        assert_eq!((slow.len(), quick.len()), (2, 0));
        assert_eq!(at_hand(&slow), [Err(Lagged(3)), Ok(3), Ok(4)]);
        assert_eq!(slow.try_recv(), Err(BroadcastTryRecvError::Empty));
        // It is a receiver like the others again.
        (5..8).for_each(|n| _ = sender.send(n).unwrap());
        drop(sender);
        for receiver in [slow, quick] {
            assert_eq!(receiver.try_recv(), Err(BroadcastTryRecvError::Lagged(1)));
            assert_eq!((receiver.recv(), receiver.recv()), (Ok(6), Ok(7)));
            assert_eq!(receiver.recv(), Err(Disconnected));
        }
    });
}

/// - given: a full broadcast whose slow receivers block
/// - when: three senders wait, the second is cancelled, and the slow receiver reads
/// - then: the cancelled value comes back and reaches no receiver; the others are sent in the order
///   in which their senders came
#[test]
fn hub_40_broadcast_blocks() {
    each_run(|| {
        let (sender, slow) = broadcast_with(2, SlowReceivers::Block);
        let quick = sender.subscribe();
        (0..2).for_each(|n| _ = sender.send(n).unwrap());
        assert_eq!(at_hand(&quick), [Ok(0), Ok(1)]);
        assert_eq!(sender.try_send(9), Err(TrySendError::Full(9)));
        ecru::scope(|s| {
            let sender = &sender;
            let senders = [2, 3, 4].map(|n| begin(s, move || sender.send(n)));
            senders[1].cancel();
            assert_eq!(senders[1].join().unwrap(), Err(SendError::Cancelled(3)));
            assert!(quick.is_empty());
            assert_eq!(slow.recv(), Ok(0));
            assert_eq!(quick.recv(), Ok(2));
            settle();
            assert_eq!(sender.try_send(9), Err(TrySendError::Full(9)), "a sender is waiting");
            assert_eq!(slow.recv(), Ok(1));
            assert_eq!(quick.recv(), Ok(4));
            assert_eq!(at_hand(&slow), [Ok(2), Ok(4)]);
            assert_eq!([&senders[0], &senders[2]].map(|sender| sender.join().unwrap()), [Ok(2); 2]);
        });
    });
}

/// - given: a broadcast of two places, whose slow receivers are disconnected
/// - when: three values are sent
/// - then: a receiver that lacks the first is told how many it has missed, and then that it is
///   disconnected; it does not count; the others get all; the last receiver can go in this way
#[test]
fn hub_41_broadcast_disconnects() {
    each_run(|| {
        let (sender, slow) = broadcast_with(2, SlowReceivers::Disconnect);
        let (slow2, quick) = (sender.subscribe(), sender.subscribe());
        sender.send(0).unwrap();
        let late = sender.subscribe();
        assert_eq!(quick.recv(), Ok(0));
        assert_eq!((1..3).map(|n| sender.send(n).unwrap()).collect::<Vec<_>>(), [4, 2]);
        assert_eq!((sender.receiver_count(), quick.receiver_count()), (2, 2));
        assert!(slow.is_empty());
        assert_eq!((slow.recv(), slow.recv()), (Err(Lagged(3)), Err(Disconnected)));
        assert_eq!(slow.recv(), Err(Disconnected));
        // Dropping them subtracts nothing, whether they have been told or not.
        drop((slow, slow2));
        assert_eq!(sender.receiver_count(), 2);
        assert_eq!((at_hand(&quick), at_hand(&late)), (vec![Ok(1), Ok(2)], vec![Ok(1), Ok(2)]));
        drop(late);
        (3..5).for_each(|n| _ = sender.send(n).unwrap());
        assert_eq!(sender.send(5), Err(SendError::Disconnected(5)), "the last one was too slow");
        assert_eq!((quick.recv(), quick.recv()), (Err(Lagged(2)), Err(Disconnected)));
        let again = quick.resubscribe();
        assert_eq!(sender.send(6), Ok(1));
        assert_eq!(again.recv(), Ok(6));
    });
}

/// - given: a broadcast
/// - when: receivers come and go
/// - then: each gets what is sent while it is one; without a receiver a value comes back; later
///   receivers make sends possible again
#[test]
fn hub_42_broadcast_receivers_come_and_go() {
    each_run(|| {
        for slow in [SlowReceivers::Lag, SlowReceivers::Block, SlowReceivers::Disconnect] {
            let (sender, first) = broadcast_with(3, slow);
            let other = sender.clone();
            assert!(sender.same_channel(&other) && sender.capacity() == 3);
            sender.send(0).unwrap();
            let second = sender.subscribe();
            assert_eq!((sender.receiver_count(), second.sender_count()), (2, 2));
            sender.send(1).unwrap();
            assert_eq!((at_hand(&first), at_hand(&second)), (vec![Ok(0), Ok(1)], vec![Ok(1)]));
            other.send(2).unwrap();
            drop((first, second));
            for n in 0..10 {
                assert_eq!(sender.send(n), Err(SendError::Disconnected(n)));
                assert_eq!(sender.try_send(n), Err(TrySendError::Disconnected(n)));
            }
            let third = sender.subscribe();
            let fourth = third.resubscribe();
            assert_eq!(sender.send(3), Ok(2));
            drop((sender, other));
            assert_eq!(at_hand(&fourth)[..2], [Ok(3), Err(Disconnected)]);
            // Nothing comes after the end.
            assert_eq!(fourth.resubscribe().recv(), Err(Disconnected));
            assert_eq!((third.sender_count(), third.recv()), (0, Ok(3)));
        }
    });
}

/// - given: receivers of two broadcasts
/// - when: tasks wait for them by `select!`, a race and a future, and a value or the end comes
/// - then: each wait gets its own copy; a source that has lost a race has lost no value
#[test]
fn hub_43_broadcast_is_a_source() {
    each_run(|| {
        let (sender, kept): (BroadcastSender<u32>, _) = broadcast(4);
        let (silent, never) = broadcast::<u32>(4);
        let subscribed = [(); 3].map(|()| sender.subscribe());
        ecru::scope(|s| {
            let [selected, raced, polled] = &subscribed;
            let never = &never;
            let tasks = [
                begin(s, move || {
                    select! {
                        wait(never) -> heard => heard.unwrap(),
                        wait(selected) -> heard => heard.unwrap(),
                    }
                }),
                begin(s, move || source::race([never, raced]).wait().unwrap()),
                begin(s, move || ecru::block_on(polled.to_future()).unwrap()),
            ];
            sender.send(7).unwrap();
            assert!(tasks.iter().all(|task| task.join().unwrap() == Ok(7)));
            assert_eq!(kept.try_recv(), Ok(7));
            let end = begin(s, move || source::race([never, raced]).wait().unwrap());
            silent.send(1).unwrap();
            assert_eq!(end.join().unwrap(), Ok(1));
            let end = begin(s, move || source::race([never, raced]).wait().unwrap());
            drop(silent);
            assert_eq!(end.join().unwrap(), Err(Disconnected));
            assert!(raced.is_empty());
        });
    });
}

/// - given: a receiver that several tasks share by reference
/// - when: they wait, and values come
/// - then: each value goes to one of them
#[test]
fn hub_44_broadcast_receiver_is_shared() {
    each_run(|| {
        let (sender, receiver) = broadcast_with(3, SlowReceivers::Block);
        let heard = Mutex::new(Vec::new());
        ecru::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    while let Ok(n) = receiver.recv() {
                        heard.lock().unwrap().push(n);
                    }
                });
            }
            (0..100).for_each(|n| _ = sender.send(n).unwrap());
            drop(sender);
        });
        let mut heard = heard.into_inner().unwrap();
        heard.sort_unstable();
        assert!(heard.into_iter().eq(0..100));
    });
}

/// Counts its clones and its drops.
struct Counted<'c>(&'c [AtomicUsize; 2]);

impl Clone for Counted<'_> {
    fn clone(&self) -> Self {
        self.0[0].fetch_add(1, SeqCst);
        Counted(self.0)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0[1].fetch_add(1, SeqCst);
    }
}

/// - given: a receiver that lacks all values, and one that has received all
/// - when: the slow one is dropped
/// - then: the values are dropped at once, and a sender that waits for room goes on; the last
///   receiver of a value gets it without a clone
#[test]
fn hub_45_broadcast_frees_values() {
    each_run(|| {
        let counts = [const { AtomicUsize::new(0) }; 2];
        let counted = || counts.each_ref().map(|count| count.load(SeqCst));
        let (sender, slow) = broadcast_with(2, SlowReceivers::Block);
        let quick = sender.subscribe();
        (0..2).for_each(|_| _ = sender.send(Counted(&counts)).unwrap());
        drop((quick.recv().unwrap(), quick.recv().unwrap()));
        assert_eq!(counted(), [2, 2], "copies");
        ecru::scope(|s| {
            let waiting = begin(s, || sender.send(Counted(&counts)).map_err(|_| "not sent"));
            drop(slow);
            assert_eq!(counted(), [2, 4]);
            assert_eq!(waiting.join().unwrap(), Ok(1));
        });
        drop(quick.recv().unwrap());
        assert_eq!(counted(), [2, 5]);
        sender.send(Counted(&counts)).map_err(|_| "not sent").unwrap();
        drop((sender, quick));
        assert_eq!(counted(), [2, 6]);
    });
}

/// Uses its broadcast in its `clone` and its destructor.
struct Busy {
    sender: Weak<BroadcastSender<Busy>>,
    panics: bool,
}

impl Busy {
    fn act(&self) {
        if let Some(sender) = self.sender.upgrade() {
            drop(sender.subscribe());
            assert!(sender.receiver_count() <= 2);
        }
    }
}

impl Clone for Busy {
    fn clone(&self) -> Busy {
        self.act();
        if self.panics {
            quiet_panic("this value has no copy");
        }
        Busy { sender: Weak::clone(&self.sender), panics: false }
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.act();
    }
}

/// - given: values whose `clone` and destructor use the broadcast, or panic
/// - when: they are received, and dropped because they are too old
/// - then: using it works, since no lock is held; after a panic the receiver continues with the next
///   value
#[test]
fn hub_46_broadcast_values_are_user_code() {
    each_run(|| {
        let (sender, receiver) = broadcast(2);
        let (sender, second) = (Arc::new(sender), receiver.resubscribe());
        for panics in [false, false, true, false] {
            // The first two are dropped by the sends of the others.
            let value = Busy { sender: Arc::downgrade(&sender), panics };
            assert!(matches!(sender.send(value), Ok(2)));
        }
        assert!(matches!(receiver.recv(), Err(Lagged(2))));
        assert_eq!(panic_text(|| receiver.recv()), "this value has no copy");
        assert!(receiver.recv().is_ok() && receiver.is_empty());
        assert!(matches!(second.recv(), Err(Lagged(2))));
        // It is the last receiver of this value, and needs no copy.
        assert!(second.recv().is_ok_and(|value| value.panics));
    });
}

/// - given: a wait for a value, and a send that would not wait
/// - when: the task is cancelled
/// - then: both return `Cancelled`, the send with its value; no value is lost
#[test]
fn hub_47_broadcast_is_cancelled() {
    each_run(|| {
        let (sender, receiver) = broadcast(2);
        ecru::scope(|s| {
            let waiting = begin(s, || {
                let waited = receiver.recv();
                (waited, sender.send(1), receiver.recv())
            });
            waiting.cancel();
            let ended = waiting.join().unwrap();
            assert_eq!(ended, (Err(Cancelled), Err(SendError::Cancelled(1)), Err(Cancelled)));
            sender.send(2).unwrap();
            let waiting = s.spawn(|| receiver.recv());
            waiting.cancel();
            let heard = match waiting.join() {
                Ok(Ok(2)) => true,
                Ok(Err(Cancelled)) | Err(JoinError::Cancelled) => false,
                other => panic!("{other:?}"),
            };
            assert_eq!(receiver.try_recv().is_ok(), !heard);
        });
    });
}

/// - given: a capacity of zero, or beyond the limit
/// - when: a broadcast is created
/// - then: it panics and says why
#[test]
fn hub_48_broadcast_bad_sizes() {
    for capacity in [0, usize::MAX] {
        let text = panic_text(|| broadcast::<u32>(capacity));
        assert!(text.contains(&format!("room for {capacity} values")), "{text}");
    }
}
