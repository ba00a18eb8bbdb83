//! What is beside sends and receives: the other end's absence, weak senders, many values at once.

use std::sync::mpsc;

use super::{Opaque, kinds};
use crate::support::{each_run, everywhere, ms, panic_text, run_on, settle};
use ecru::channel::{self, Receiver, RecvError, TryRecvError};
use ecru::{Source, select, source};

/// - given: `disconnected()` of senders of every kind of channel
/// - when: values are sent and received; the last receiver is dropped, or the channel is closed
/// - then: it has no item; it has one, at once and for good
#[test]
fn channel_70_disconnected() {
    everywhere(|side| {
        for end in
            [|receiver: Receiver<u32>| drop(receiver), |receiver: Receiver<u32>| receiver.close()]
        {
            for (name, sender, receiver) in kinds() {
                let gone = sender.disconnected();
                let other = receiver.clone();
                let (waited, ()) = side.both(
                    || gone.wait(),
                    || {
                        side.both(
                            || (0..20).for_each(|value| sender.send(value).unwrap()),
                            || (0..20).for_each(|value| assert_eq!(receiver.recv(), Ok(value))),
                        );
                        assert_eq!(gone.try_take(), None, "{name}");
                        assert_eq!(format!("{gone:?}"), "Disconnected(false)");
                        drop(other);
                        assert_eq!(gone.try_take(), None, "{name}");
                        end(receiver);
                    },
                );
                assert_eq!((waited, gone.wait()), (Ok(()), Ok(())), "{name}");
                assert_eq!(sender.disconnected().try_take(), Some(()), "{name}");
            }
        }
        let (sender, receiver) = channel::oneshot();
        let gone = sender.disconnected();
        let (waited, sent) = side.both(|| gone.wait(), || sender.send(7));
        assert_eq!((waited, sent, receiver.recv()), (Ok(()), Ok(()), Ok(7)));
    });
}

/// - given: waits for `disconnected()`: in a race, a select, a future, a callback, in a cancelled
///   task, and after the sender has been dropped
/// - when: the receiver is dropped
/// - then: each ends; the cancelled one has ended before; the source keeps no channel connected
#[test]
fn channel_71_disconnected_as_a_source() {
    each_run(|| {
        let (sender, receiver) = channel::bounded::<Opaque>(1);
        let gone = sender.disconnected();
        assert!(ecru::timeout(ms(1), || gone.wait()).is_err());
        let (tell, told) = mpsc::channel();
        let subscription = gone.clone().on_ready(move |()| tell.send(()).unwrap());
        let future = gone.clone().to_future();
        ecru::scope(|s| {
            let race = s.spawn(|| (&gone).or(source::never()).wait());
            let cancelled = s.spawn(|| gone.wait());
            let selects = s.spawn(|| {
                select! {
                    wait(sender.disconnected()) -> gone => gone.is_ok(),
                    wait(source::never::<u8>()) -> _ => false,
                }
            });
            settle();
            cancelled.cancel();
            assert!(!matches!(cancelled.join(), Ok(Ok(()))));
            drop(receiver);
            assert_eq!(race.join().unwrap(), Ok(()));
            assert!(selects.join().unwrap());
        });
        told.recv().unwrap();
        drop(subscription);
        assert_eq!(ecru::block_on(future), Ok(()));

        let (sender, receiver) = channel::bounded::<Opaque>(1);
        let gone = sender.disconnected();
        drop(sender);
        assert!(matches!(receiver.try_recv(), Err(TryRecvError::Disconnected)));
        assert_eq!(gone.wait(), Ok(()));
    });
}

/// - given: a `WeakSender`
/// - when: it is upgraded while there is a sender, after the last one has been dropped, and after the
///   receiver has
/// - then: `Some`, which keeps the channel connected; `None`, for good; `Some`, whose send fails
#[test]
fn channel_72_weak_senders() {
    everywhere(|side| {
        let (sender, receiver) = channel::unbounded();
        let weak = sender.downgrade();
        let upgraded = weak.clone().upgrade().unwrap();
        assert!(upgraded.same_channel(&sender) && format!("{weak:?}").starts_with("WeakSender"));
        drop(sender);
        upgraded.send(1).unwrap();
        let (got, ()) = side.both(
            || (receiver.recv(), receiver.recv()),
            || {
                side.pause();
                drop(upgraded);
            },
        );
        assert_eq!(got, (Ok(1), Err(RecvError::Disconnected)));
        assert!(weak.upgrade().is_none() && weak.clone().upgrade().is_none());

        let (sender, receiver) = channel::unbounded();
        drop(receiver);
        assert_eq!(sender.downgrade().upgrade().unwrap().send(1).unwrap_err().into_inner(), 1);
        // Of many upgrades and one drop, either comes first.
        for _ in 0..50 {
            let (sender, receiver) = channel::unbounded();
            let weak = sender.downgrade();
            let (upgraded, ()) = side.both(|| weak.upgrade(), move || drop(sender));
            let connected = upgraded.is_some();
            assert_eq!(receiver.try_recv() == Err(TryRecvError::Empty), connected);
            assert!(upgraded.is_none_or(|sender| sender.send(1).is_ok()));
            assert_eq!(receiver.iter().count(), usize::from(connected));
        }
    });
}

/// - given: channels with values, or with waiting senders, or none
/// - when: `recv_many` is called with a limit
/// - then: it waits for the first value, and returns as many as are there, up to the limit, in order;
///   0 for a limit of 0; senders that waited go on
#[test]
fn channel_73_recv_many() {
    everywhere(|side| {
        for (name, sender, receiver) in kinds() {
            let mut values = Vec::new();
            let (_, ()) = side.many(
                1,
                |_| (0..40).for_each(|value| sender.send(value).unwrap()),
                || {
                    while values.len() < 40 {
                        let before = values.len();
                        let count = receiver.recv_many(&mut values, 7).unwrap();
                        assert!((1..=7).contains(&count) && values.len() == before + count);
                    }
                },
            );
            assert!(values.iter().copied().eq(0..40), "{name}: {values:?}");
            assert_eq!(receiver.recv_many(&mut values, 0), Ok(0));
            assert!(ecru::timeout(ms(1), || receiver.recv_many(&mut values, 7)).is_err());
            sender.close();
            assert_eq!(receiver.recv_many(&mut values, 7), Err(RecvError::Disconnected));
            assert_eq!(values.len(), 40);
        }
        // A clock whose period is zero always has another value.
        let ticks = channel::tick(ms(0));
        assert!(ticks.recv_many(&mut Vec::new(), usize::MAX).unwrap() <= 2);
    });
    run_on(1, || {
        let (sender, receiver) = channel::unbounded();
        (0..5).for_each(|value| sender.send(value).unwrap());
        let mut values = vec![9];
        assert_eq!(receiver.recv_many(&mut values, 3), Ok(3));
        assert_eq!(values, [9, 0, 1, 2]);
        ecru::cancel_scope(|c| {
            c.cancel();
            for limit in [0, 3] {
                assert_eq!(receiver.recv_many(&mut values, limit), Err(RecvError::Cancelled));
            }
        });
        let text = panic_text(|| ecru::no_suspend(|| receiver.recv_many(&mut values, 3)));
        assert!(text.contains("no_suspend") && values.len() == 4, "{text}");
        assert_eq!(receiver.len(), 2);
    });
}

/// - given: channels with values, and senders that wait because there is no room
/// - when: `drain` is called; again; in a cancelled task and in `no_suspend`
/// - then: all these values, in order, and the senders go on; nothing; the same
#[test]
fn channel_74_drain() {
    run_on(1, || {
        for (name, sender, receiver) in kinds() {
            ecru::scope(|s| {
                let sends = s.spawn_local(|| {
                    (0..8).map(|value| sender.send(value).is_ok()).filter(|sent| *sent).count()
                });
                let mut drained = Vec::new();
                while drained.len() < 8 {
                    settle();
                    ecru::cancel_scope(|c| {
                        c.cancel();
                        drained.extend(ecru::no_suspend(|| receiver.drain()));
                    });
                }
                assert!(drained.iter().copied().eq(0..8), "{name}: {drained:?}");
                assert_eq!(sends.join().unwrap(), 8);
                assert_eq!(receiver.drain(), [], "{name}");
            });
        }
        let (sender, receiver) = channel::bounded(2);
        ecru::scope(|s| {
            (0..2).for_each(|value| sender.send(value).unwrap());
            let late = s.spawn_local(|| (2..4).try_for_each(|value| sender.send(value)));
            settle();
            assert_eq!(receiver.drain(), [0, 1, 2]);
            late.join().unwrap().unwrap();
            sender.close();
            assert_eq!((receiver.drain(), receiver.drain()), (vec![3], vec![]));
        });
        assert_eq!(channel::tick(ms(0)).drain().len(), 1);
        assert_eq!(channel::never::<u8>().drain(), []);
    });
}
