//! Room that is reserved before the value exists.

use std::mem;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use super::kinds;
use crate::support::{each_run, everywhere, ms, panic_text, run_on, settle};
use ecru::channel::{self, Receiver, SendError, TryRecvError, TrySendError};
use ecru::sync::Latch;
use ecru::{Source, source};

/// - given: a full channel, and a task or thread that calls `reserve`
/// - when: a value is received
/// - then: it gets a permit for that place, which no other sender gets, and sends without a wait
#[test]
fn channel_62_reserve_waits_for_room() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(1);
        sender.send(1).unwrap();
        assert_eq!(sender.try_reserve().unwrap_err(), TrySendError::Full(()));
        let looked = Latch::new(1);
        let (sent, ()) = side.both(
            || {
                let permit = sender.reserve().unwrap();
                assert!(sender.try_send(0).unwrap_err().is_full() && sender.is_empty());
                looked.count_down();
                ecru::no_suspend(|| permit.send(2))
            },
            || {
                side.pause();
                assert_eq!(receiver.recv(), Ok(1));
                looked.wait().unwrap();
                assert_eq!(receiver.recv(), Ok(2));
            },
        );
        assert_eq!(sent, Ok(()));
    });
}

/// - given: permits for all places of a channel, and tasks that wait for one, to send or to reserve
/// - when: permits are dropped one by one
/// - then: each gives its place to the waiter whose turn it is
#[test]
fn channel_63_a_dropped_permit_gives_its_place_back() {
    run_on(1, || {
        let (sender, receiver) = channel::bounded(2);
        let (first, second) = (sender.reserve().unwrap(), sender.try_reserve().unwrap());
        assert!(format!("{first:?}").starts_with("Permit"));
        ecru::scope(|s| {
            let sends = s.spawn_local(|| sender.send(1));
            settle();
            let reserves = s.spawn_local(|| sender.reserve().map(|permit| permit.send(2)));
            settle();
            assert!(sender.try_reserve().is_err() && !sends.is_finished());
            drop(first);
            assert_eq!(sends.join().unwrap(), Ok(()));
            assert!(!reserves.is_finished());
            drop(second);
            assert_eq!(reserves.join().unwrap(), Ok(Ok(())));
        });
        assert_eq!(receiver.drain(), [1, 2]);
    });
}

/// - given: a call of `reserve` on a full channel, or on one with room
/// - when: it is cancelled, its time limit passes, or it is made in a cancelled task or in
///   `no_suspend`
/// - then: `Cancelled`, `Elapsed`, `Cancelled`, or a panic, and nothing is reserved
#[test]
fn channel_64_reserve_cancelled() {
    each_run(|| {
        let (sender, receiver) = channel::bounded(1);
        sender.send(1).unwrap();
        ecru::scope(|s| {
            let reserves = s.spawn(|| sender.reserve().map(drop));
            settle();
            reserves.cancel();
            assert!(!matches!(reserves.join(), Ok(Ok(()))));
        });
        assert!(ecru::timeout(ms(1), || sender.reserve().map(drop)).is_err());
        receiver.recv().unwrap();
        ecru::cancel_scope(|c| {
            c.cancel();
            assert_eq!(sender.reserve().unwrap_err(), SendError::Cancelled(()));
            let sender = sender.clone().reserve_owned().unwrap_err();
            assert!(sender.is_cancelled() && sender.into_inner().try_reserve().is_ok());
            assert!(!receiver.is_full());
        });
        let text = panic_text(|| ecru::no_suspend(|| sender.reserve().map(drop)));
        assert!(text.contains("no_suspend"), "{text}");
        ecru::no_suspend(|| drop(sender.try_reserve().unwrap()));
        assert!(sender.try_send(2).is_ok());
    });
}

/// - given: a permit, and a receiver that waits
/// - when: the channel is closed, is closed at once, or loses its receivers
/// - then: the value is still received after the first, and is returned after the others; `reserve`
///   returns `Disconnected`; a receiver waits for the permit of a closed channel
#[test]
fn channel_65_permits_and_the_end() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(2);
        let (permit, unused) = (sender.reserve().unwrap(), sender.reserve().unwrap());
        receiver.close();
        assert_eq!(sender.reserve().unwrap_err(), SendError::Disconnected(()));
        assert_eq!(sender.try_reserve().unwrap_err(), TrySendError::Disconnected(()));
        let (got, ()) = side.both(
            || (receiver.recv().ok(), receiver.recv().ok()),
            || {
                side.pause();
                permit.send(7).unwrap();
                drop(unused);
            },
        );
        assert_eq!(got, (Some(7), None));

        for end in [
            |receiver: Receiver<u32>| drop(receiver),
            |receiver: Receiver<u32>| {
                receiver.close_now();
                assert!(receiver.recv().is_err());
            },
        ] {
            let (sender, receiver) = channel::bounded(2);
            let (permit, owned) = (sender.reserve().unwrap(), sender.clone().reserve_owned());
            end(receiver);
            assert_eq!(permit.send(7), Err(SendError::Disconnected(7)));
            assert_eq!(owned.unwrap().send(8).unwrap_err().into_inner(), 8);
            assert!(sender.clone().try_reserve_owned().unwrap_err().is_disconnected());
            assert!(sender.reserve().unwrap_err().is_disconnected());
        }
    });
}

/// - given: a channel without a buffer
/// - when: `reserve` is called before and after a receiver waits; the receiver leaves, or the permit
///   is dropped
/// - then: the permit is for the receiver; the value is kept for the next receiver; the receiver is
///   served by another sender
#[test]
fn channel_66_reserve_on_a_rendezvous_channel() {
    run_on(1, || {
        let (sender, receiver) = channel::bounded(0);
        assert!(sender.try_reserve().unwrap_err().is_full());
        ecru::scope(|s| {
            let reserves = s.spawn_local(|| sender.reserve().unwrap().send(1));
            settle();
            assert!(!reserves.is_finished() && receiver.try_recv() == Ok(1));
            assert_eq!(reserves.join().unwrap(), Ok(()));

            let leaves = s.spawn_local(|| receiver.recv().ok());
            settle();
            let permit = sender.reserve().unwrap();
            assert!(sender.try_send(0).unwrap_err().is_full());
            leaves.cancel();
            assert_eq!(leaves.join().unwrap(), None);
            assert_eq!(permit.send(2), Ok(()));
            assert_eq!((receiver.recv(), receiver.try_recv()), (Ok(2), Err(TryRecvError::Empty)));

            let waits = s.spawn_local(|| receiver.recv().ok());
            settle();
            let permit = sender.try_reserve().unwrap();
            drop(permit);
            sender.send(3).unwrap();
            assert_eq!(waits.join().unwrap(), Some(3));
        });
    });
}

/// - given: channels of every kind
/// - when: `reserve` is called and the permit is used
/// - then: it waits only where a send would; the value is treated as that of a send
#[test]
fn channel_67_reserve_on_every_kind() {
    everywhere(|side| {
        for (name, sender, receiver) in kinds() {
            let (got, sent) =
                side.both(|| receiver.recv(), || sender.reserve().unwrap().send(name));
            assert_eq!((got, sent), (Ok(name), Ok(())), "{name}");
        }
        let (dropping, kept) = channel::dropping(1);
        let (sliding, newest) = channel::sliding(1);
        for value in [1, 2] {
            dropping.reserve().unwrap().send(value).unwrap();
            sliding.reserve().unwrap().send(value).unwrap();
        }
        assert_eq!((kept.drain(), newest.drain()), (vec![1], vec![2]));
        let (once, only) = channel::oneshot();
        let permit = once.reserve().unwrap();
        assert!(once.try_reserve().unwrap_err().is_full());
        permit.send(7).unwrap();
        assert!(once.reserve().unwrap_err().is_disconnected());
        assert_eq!((only.recv().ok(), only.recv().ok()), (Some(7), None));
    });
}

/// - given: an owned permit
/// - when: it is used by another task or thread, released, or dropped
/// - then: it returns its sender, or drops it; until then the channel stays connected
#[test]
fn channel_68_owned_permits() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(1);
        let permit = sender.reserve_owned().unwrap();
        let (got, sender) = side.both(|| receiver.recv(), move || permit.send(1).unwrap());
        assert_eq!(got, Ok(1));
        let permit = sender.try_reserve_owned().unwrap();
        assert!(format!("{permit:?}").starts_with("OwnedPermit"));
        let sender = permit.release();
        sender.try_send(2).unwrap();
        let sender = sender.try_reserve_owned().unwrap_err();
        assert!(sender.is_full());
        assert_eq!(receiver.recv(), Ok(2));
        let permit = sender.into_inner().reserve_owned().unwrap();
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        drop(permit);
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Disconnected));
    });
}

/// - given: a channel of two places
/// - when: a permit is forgotten
/// - then: one place is left, and it goes on being used
#[test]
#[expect(clippy::mem_forget, reason = "this test is about it")]
fn channel_69_a_forgotten_permit_keeps_its_place() {
    everywhere(|side| {
        let (sender, receiver) = channel::bounded(2);
        mem::forget(sender.reserve().unwrap());
        let got = AtomicUsize::new(0);
        side.both(
            || {
                for value in receiver.iter().take(20) {
                    assert_eq!(value, got.fetch_add(1, SeqCst));
                }
            },
            || (0..20).for_each(|value| sender.reserve().unwrap().send(value).unwrap()),
        );
        sender.try_send(0).unwrap();
        assert!(sender.try_send(0).unwrap_err().is_full());
    });
}

/// - given: tasks or threads that reserve, and give up some of their permits
/// - when: the values of the others are received, also in a race
/// - then: all of them arrive, in the order of each sender
#[test]
fn channel_75_permits_under_load() {
    const EACH: usize = 50;
    everywhere(|side| {
        for capacity in [0, 1, 2] {
            let (sender, receiver) = channel::bounded(capacity);
            let (_, got) = side.many(
                3,
                |number| {
                    for value in 0..EACH {
                        if value % 2 == 1 {
                            drop(sender.reserve().unwrap());
                        }
                        sender.reserve().unwrap().send((number, value)).unwrap();
                    }
                },
                || {
                    let mut next = [0; 3];
                    for turn in 0..3 * EACH {
                        let received = if turn % 2 == 0 {
                            receiver.recv()
                        } else {
                            (&receiver).or(source::never()).wait().unwrap()
                        };
                        let (number, value) = received.unwrap();
                        assert_eq!(value, mem::replace(&mut next[number], value + 1));
                    }
                    next
                },
            );
            assert_eq!(got, [EACH; 3]);
        }
    });
}
