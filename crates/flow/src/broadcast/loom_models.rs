//! Models of broadcasts: a change of the buffer, or of its ends, against a thread that looks and
//! then waits. If a thread is not told, it waits forever, which loom reports.

use loom::thread;

use super::{BroadcastReceiver, SlowReceivers, broadcast_with};
use crate::BroadcastRecvError;

const ALL: [SlowReceivers; 3] =
    [SlowReceivers::Lag, SlowReceivers::Block, SlowReceivers::Disconnect];

/// Receives until the end. Returns the values, and the number of those that were missed.
fn drain(receiver: &BroadcastReceiver<u32>) -> (Vec<u32>, u64) {
    let (mut values, mut missed) = (Vec::new(), 0);
    loop {
        match receiver.recv() {
            Ok(value) => values.push(value),
            Err(BroadcastRecvError::Lagged(count)) => missed += count,
            Err(_) => return (values, missed),
        }
    }
}

/// Checks what a receiver of the values 1 and 2 got, in a buffer for one value.
fn check_two(slow: SlowReceivers, (values, missed): (Vec<u32>, u64)) {
    match (slow, &values[..], missed) {
        (_, [1, 2], 0) | (SlowReceivers::Lag, [2], 1) | (SlowReceivers::Disconnect, [], 1 | 2) => {}
        other => panic!("not all was received or counted: {other:?}"),
    }
}

#[test]
fn no_value_and_no_end_is_missed() {
    for slow in ALL {
        loom::model(move || {
            let (sender, receiver) = broadcast_with(1, slow);
            let receiving = thread::spawn(move || drain(&receiver));
            let _ = sender.send(1);
            // A receiver that was too slow has been disconnected.
            assert!(sender.send(2).is_ok() || slow == SlowReceivers::Disconnect);
            drop(sender);
            check_two(slow, receiving.join().unwrap());
        });
    }
}

/// The second receiver is dropped, with one value or two that it lacks.
#[test]
fn a_receiver_that_leaves_holds_up_no_sender() {
    for slow in ALL {
        loom::model(move || {
            let (sender, receiver) = broadcast_with(1, slow);
            let other = sender.subscribe();
            let leaving = thread::spawn(move || drop(other));
            let receiving = thread::spawn(move || drain(&receiver));
            let _ = sender.send(1);
            let _ = sender.send(2);
            drop(sender);
            leaving.join().unwrap();
            check_two(slow, receiving.join().unwrap());
        });
    }
}

#[test]
fn the_last_receiver_leaves_while_a_sender_waits() {
    loom::model(|| {
        let (sender, receiver) = broadcast_with(1, SlowReceivers::Block);
        assert_eq!(sender.send(1).unwrap(), 1);
        let leaving = thread::spawn(move || drop(receiver));
        let refused = sender.send(2).unwrap_err();
        assert_eq!(refused.into_inner(), 2);
        leaving.join().unwrap();
        // The refused value has left its place to the next.
        let late = sender.subscribe();
        assert_eq!(sender.send(3).unwrap(), 1);
        assert_eq!(late.recv(), Ok(3));
    });
}

#[test]
fn two_senders_share_the_places() {
    loom::model(|| {
        let (sender, receiver) = broadcast_with(1, SlowReceivers::Block);
        let other = sender.clone();
        let sending = thread::spawn(move || other.send(1).unwrap());
        let receiving = thread::spawn(move || drain(&receiver));
        assert_eq!(sender.send(2).unwrap(), 1);
        drop(sender);
        sending.join().unwrap();
        let (mut values, missed) = receiving.join().unwrap();
        values.sort_unstable();
        assert_eq!((values, missed), (vec![1, 2], 0));
    });
}

/// Tasks share one receiver. Each value goes to one of them.
#[test]
fn a_shared_receiver_gives_each_value_once() {
    loom::model(|| {
        let (sender, receiver) = broadcast_with(2, SlowReceivers::Lag);
        let receiver = std::sync::Arc::new(receiver);
        let other = std::sync::Arc::clone(&receiver);
        let receiving = thread::spawn(move || drain(&other).0);
        sender.send(1).unwrap();
        sender.send(2).unwrap();
        drop(sender);
        let mut values = drain(&receiver).0;
        values.extend(receiving.join().unwrap());
        values.sort_unstable();
        assert_eq!(values, [1, 2]);
    });
}
