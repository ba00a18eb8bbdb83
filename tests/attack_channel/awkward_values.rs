//! Forgotten ends, and values of unusual sizes and kinds.

use std::mem;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use ecru::channel::{self, Receiver, Sender};
use ecru::select;

use crate::{Counted, at_once, ms, run_on};

#[test]
#[expect(clippy::mem_forget, reason = "this test is about it")]
fn forgotten_ends_keep_the_others_connected_and_break_nothing() {
    at_once(1, |_| {
        let alive = Arc::new(AtomicUsize::new(0));
        let (sender, receiver) = channel::unbounded();
        mem::forget(receiver.clone());
        mem::forget(sender.clone());
        sender.send(Counted::new(&alive)).unwrap();
        drop(receiver);
        sender.send(Counted::new(&alive)).unwrap();
        assert_eq!((alive.load(SeqCst), sender.len()), (2, 2));
        sender.close_now();
        assert_eq!(alive.load(SeqCst), 0);
    });
}

#[test]
#[expect(clippy::mem_forget, reason = "this test is about it")]
fn a_waiter_in_a_forgotten_iterator_does_not_exist() {
    at_once(1, |_| {
        let (sender, receiver) = channel::bounded(0);
        let mut iter = receiver.clone().into_iter();
        sender.send_timeout(0, Duration::ZERO).unwrap_err();
        assert!(ecru::timeout(ms(1), || iter.next().is_none()).is_err());
        mem::forget(iter);
        assert!(sender.try_send(1).unwrap_err().is_full());
    });
}

fn through<T: Send>(values: impl Fn() -> T + Sync, check: impl Fn(T) + Sync) {
    for capacity in [0, 1, usize::MAX] {
        let (sender, receiver) = channel::bounded(capacity);
        let (nobody, _unread) = channel::bounded(0);
        at_once(2, |side| {
            let idle = channel::never::<()>();
            for _ in 0..3 {
                if side == 0 {
                    sender.send(values()).unwrap();
                    select! {
                        send(sender, values()) -> sent => assert!(sent.is_ok()),
                        recv(idle) -> _ => unreachable!(),
                    }
                } else {
                    check(receiver.recv().unwrap());
                    let value = select! {
                        recv(receiver) -> value => value.unwrap(),
                        send(nobody, values()) -> _ => unreachable!(),
                    };
                    check(value);
                }
            }
        });
    }
}

#[test]
fn values_without_size() {
    through(|| (), |()| ());
    #[derive(Debug, PartialEq)]
    #[repr(align(64))]
    struct Empty;
    through(|| Empty, |value| assert!((&raw const value).addr().is_multiple_of(64)));
}

#[test]
fn values_that_are_huge() {
    through(|| [7_u8; 2_000], |value| assert!(value.iter().all(|byte| *byte == 7)));
}

#[test]
fn values_that_are_over_aligned() {
    #[repr(align(256))]
    struct Aligned(u64);
    through(
        || Aligned(9),
        |value| {
            assert!((&raw const value).addr().is_multiple_of(256));
            assert_eq!(value.0, 9);
        },
    );
}

#[test]
fn values_without_size_are_counted_and_dropped() {
    static DROPS: AtomicUsize = AtomicUsize::new(0);
    struct Nothing;
    impl Drop for Nothing {
        fn drop(&mut self) {
            DROPS.fetch_add(1, SeqCst);
        }
    }
    let (sender, receiver) = channel::unbounded();
    (0..100).for_each(|_| drop(sender.send(Nothing)));
    assert_eq!(receiver.len(), 100);
    assert_eq!(receiver.try_iter().take(30).count(), 30);
    drop(receiver);
    assert_eq!(DROPS.load(SeqCst), 100);
}

#[test]
fn borrowed_data_outlives_who_waits() {
    for workers in [1, 2] {
        run_on(workers, || {
            for _ in 0..50 {
                let text = String::from("borrowed");
                let (sender, receiver) = channel::bounded::<&str>(0);
                let total = AtomicUsize::new(0);
                ecru::scope(|s| {
                    for _ in 0..4 {
                        s.spawn(|| {
                            while let Ok(word) = receiver.recv() {
                                total.fetch_add(word.len(), SeqCst);
                            }
                        });
                    }
                    for n in 0..8 {
                        sender.send(&text[..n]).unwrap();
                    }
                    sender.close();
                });
                assert_eq!(total.load(SeqCst), 28);
            }
        });
    }
}

#[test]
fn a_channel_that_carries_its_own_ends() {
    enum Letter {
        To(Sender<Letter>),
        From(Receiver<Letter>),
        End,
    }
    at_once(1, |_| {
        let (sender, receiver) = channel::unbounded();
        sender.send(Letter::To(sender.clone())).unwrap();
        sender.send(Letter::From(receiver.clone())).unwrap();
        let Ok(Letter::To(own)) = receiver.recv() else { panic!() };
        own.send(Letter::End).unwrap();
        let Ok(Letter::From(_own)) = receiver.recv() else { panic!() };
        assert!(matches!(receiver.recv(), Ok(Letter::End)));
    });
}
