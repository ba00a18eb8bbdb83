//! Combined sources and their futures, operands of selects, and fallible scopes.

use std::error::Error;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::thread;

use ecru::channel::{self, Receiver, Sender};
use ecru::source::{Either, either, never, race, race_indexed};
use ecru::sync::Notify;
use ecru::{Source, select, select_biased};

use super::OnDrop;
use crate::common::{HOUR, each_run, panic_text, quiet_panic, run_on};

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Each combination of a `Notify` passes on that all were notified before the first poll.
#[test]
fn futures_of_combinations_that_were_not_polled() {
    let (one, two) = (Arc::new(Notify::new()), Notify::new());
    let (_tx, rx) = channel::unbounded::<u8>();
    let boxed: Box<dyn Source<Item = ()> + '_> = Box::new(&two);
    let mut direct = (&two).to_future();
    let mut shared = Arc::clone(&one).to_future();
    let mut by_box = boxed.to_future();
    let mut mapped = (&two).map(|()| 7).map(|n| n + 1).to_future();
    let mut second = never().or(&two).to_future();
    let mut sided = either(&rx, either(&two, &*one)).to_future();
    let mut raced = race([&two, &*one, &two]).to_future();
    let mut indexed = race_indexed([&*one, &two].map(|n| n.map(|()| 'x'))).to_future();
    let mut late = (&two).to_future();
    assert!(poll(&mut late).is_pending());
    let forgotten = (&two).to_future();
    let dropped = (&two).to_future();
    two.notify_all();
    drop(dropped);
    let mut after = (&two).to_future();
    assert!(poll(&mut direct).is_ready());
    assert!(poll(&mut shared).is_pending());
    assert!(poll(&mut by_box).is_ready());
    assert_eq!(poll(&mut mapped), Poll::Ready(8));
    assert!(poll(&mut second).is_ready());
    assert_eq!(poll(&mut sided), Poll::Ready(Either::Right(Either::Left(()))));
    assert!(poll(&mut raced).is_ready());
    assert_eq!(poll(&mut indexed), Poll::Ready((1, 'x')));
    assert!(poll(&mut late).is_ready());
    assert!(poll(&mut after).is_pending());
    // One event is one item.
    assert!(poll(&mut direct).is_pending() && poll(&mut raced).is_pending());
    assert!(poll(&mut indexed).is_pending() && poll(&mut sided).is_pending());
    // A call between two items counts as well.
    one.notify_all();
    assert_eq!(poll(&mut indexed), Poll::Ready((0, 'x')));
    assert_eq!(poll(&mut sided), Poll::Ready(Either::Right(Either::Right(()))));
    drop(forgotten);
}

/// What a future has missed takes no value from the channel beside it.
#[test]
fn a_missed_notification_beside_a_value() {
    let notify = Notify::new();
    let (tx, rx) = channel::unbounded::<u8>();
    let mut future = either(&notify, &rx).to_future();
    notify.notify_all();
    tx.send(1).unwrap();
    let mut seen = [poll(&mut future), poll(&mut future)];
    seen.sort_by_key(|item| matches!(item, Poll::Ready(Either::Right(_))));
    assert_eq!(seen, [Poll::Ready(Either::Left(())), Poll::Ready(Either::Right(Ok(1)))]);
    assert!(poll(&mut future).is_pending());
    // A notification that is stored stays for others after a missed one.
    let mut future = (&notify).to_future();
    notify.notify_all();
    notify.notify_one();
    assert!(poll(&mut future).is_ready());
    let stored = usize::from(notify.try_take().is_some());
    assert_eq!(stored + usize::from(poll(&mut future).is_ready()), 1);
    let mut future = (&notify).to_future();
    assert!(poll(&mut future).is_pending());
}

/// Futures are polled on other threads while `notify_all` is called. None is left behind.
#[test]
fn notify_all_races_with_first_polls() {
    each_run(|| {
        for _ in 0..50 {
            let notify = Notify::new();
            let got = AtomicUsize::new(0);
            ecru::scope(|s| {
                for index in 0..8 {
                    let future = (&notify).to_future();
                    s.spawn(|| {
                        ecru::block_on(future).unwrap();
                        got.fetch_add(1, SeqCst);
                    });
                    if index % 3 == 0 {
                        _ = ecru::yield_now();
                    }
                }
                let futures: Vec<_> = (0..8).map(|_| (&notify).to_future()).collect();
                notify.notify_all();
                for future in futures {
                    ecru::block_on(future).unwrap();
                }
            });
            assert_eq!(got.into_inner(), 8);
            assert!(notify.try_take().is_none());
        }
    });
}

/// `notify_all` is called by a destructor in a predicate, and by a waker.
#[test]
fn notify_all_by_destructors() {
    let notify = Notify::new();
    let (tx, rx) = channel::unbounded::<u8>();
    let mut future = (&notify).to_future();
    let mut filtered = (&rx)
        .filter(|n| {
            let _end = OnDrop(|| notify.notify_all());
            *n == 2
        })
        .to_future();
    assert!(poll(&mut filtered).is_pending());
    tx.send(1).unwrap();
    tx.send(2).unwrap();
    assert!(poll(&mut filtered).is_pending());
    assert_eq!(rx.recv(), Ok(1));
    assert_eq!(poll(&mut filtered), Poll::Ready(Ok(2)));
    assert!(poll(&mut future).is_ready());
    struct Wakes(Arc<Notify>);
    impl std::task::Wake for Wakes {
        fn wake(self: Arc<Self>) {
            self.0.notify_all();
        }
    }
    let notify = Arc::new(Notify::new());
    let waker = Waker::from(Arc::new(Wakes(Arc::clone(&notify))));
    let mut futures: Vec<_> = (0..3).map(|_| (&*notify).to_future()).collect();
    for future in &mut futures {
        assert!(Pin::new(future).poll(&mut Context::from_waker(&waker)).is_pending());
    }
    notify.notify_all();
    futures.iter_mut().for_each(|future| assert!(poll(future).is_ready()));
}

struct Ends {
    senders: Vec<Sender<u32>>,
    receivers: [Receiver<u32>; 2],
}

impl Ends {
    fn receiver(&self, at: usize) -> &Receiver<u32> {
        &self.receivers[at]
    }

    fn owned(&self, at: usize) -> Receiver<u32> {
        self.receivers[at].clone()
    }
}

/// Expressions of many kinds as operands.
#[expect(
    clippy::never_loop,
    clippy::unnecessary_literal_unwrap,
    reason = "unusual operands are the point"
)]
#[test]
fn operands_of_many_kinds() {
    let make = || {
        let (a, b) = (channel::unbounded(), channel::unbounded());
        Arc::new(Ends { senders: vec![a.0, b.0], receivers: [a.1, b.1] })
    };
    each_run(|| {
        for on in [true, false] {
            let ends = make();
            let (tx, rx) = (&ends.senders, &ends.receivers);
            let none: Option<&Receiver<u32>> = None;
            tx[usize::from(!on)].send(5).unwrap();
            let got = select! {
                recv(if on { &rx[0] } else { &rx[1] }) -> n => n,
                recv(never_ends()) -> n => n,
            };
            assert_eq!(got, Ok(5));
            select! {
                send(if on { &tx[0] } else { &tx[1] }, 6) -> sent => sent.unwrap(),
                default => unreachable!("there is room"),
            }
            let got = select_biased! {
                recv(match on { true => ends.receiver(0), false => ends.receiver(1) }) -> n => n,
                default => unreachable!("it was sent"),
            };
            assert_eq!(got, Ok(6));
            tx[0].send(7).unwrap();
            let got = select! {
                recv({ let ends = Arc::clone(&ends); ends.owned(0) }) -> n => n,
                recv(none.unwrap_or(&rx[1])) -> n => n,
            };
            assert_eq!(got, Ok(7));
            tx[1].clone().send(8).unwrap();
            let got = loop {
                break select! {
                    recv(&rx[0]) -> n => n,
                    wait(if on { &rx[1] } else { ends.receiver(1) }) -> n => n.unwrap(),
                    default(if on { HOUR } else { 2 * HOUR }) => unreachable!(),
                };
            };
            assert_eq!(got, Ok(8));
            let boxed: Box<Receiver<u32>> = Box::new(ends.owned(0));
            let by_ref = [&boxed];
            tx.iter().for_each(|tx| tx.send(9).unwrap());
            let got = select! {
                recv(by_ref[0]) -> n => n,
                recv(rx.iter().next().unwrap()) -> n => n,
            };
            assert_eq!(got, Ok(9));
        }
    });
}

fn never_ends() -> Receiver<u32> {
    thread_local! {
        static KEPT: (Sender<u32>, Receiver<u32>) = channel::bounded(0);
    }
    KEPT.with(|(_, receiver)| receiver.clone())
}

type AnyError = Box<dyn Error + Send + Sync>;

/// Boxed errors, and errors that borrow from outside the scope.
#[test]
fn errors_of_fallible_scopes() {
    each_run(|| {
        let text = String::from("x7");
        let boxed: Result<u32, AnyError> = ecru::try_scope(|s| {
            let fails = s.spawn(|| Ok(text.parse::<u32>()?));
            s.spawn(|| {
                ecru::sleep(HOUR)?;
                Ok(())
            });
            Ok(fails.join()?)
        });
        let error = boxed.unwrap_err();
        assert!(error.is::<std::num::ParseIntError>(), "{error:?}");
        let body: Result<(), AnyError> = ecru::try_scope(|s| {
            s.spawn(|| ecru::sleep(HOUR).map_err(AnyError::from));
            Err("a text")?;
            Ok(())
        });
        assert_eq!(body.unwrap_err().to_string(), "a text");

        #[derive(Debug)]
        struct Borrowed<'e>(&'e str);
        impl From<ecru::JoinError> for Borrowed<'_> {
            fn from(_: ecru::JoinError) -> Self {
                Borrowed("")
            }
        }
        let borrowed = ecru::try_scope(|s| {
            let fails = s.spawn(|| Err::<(), _>(Borrowed(&text)));
            _ = fails.join();
            _ = ecru::sleep(HOUR);
            Ok(())
        });
        assert_eq!(borrowed.unwrap_err().0, "x7");
        let outer: Result<(), &str> = ecru::try_scope(|_| {
            ecru::try_scope(|s| s.spawn(|| Err(&text[1..])).join().map_err(|_| "joined"))
        });
        assert!(["7", "joined"].contains(&outer.unwrap_err()));
    });
}

/// After a panic, `par` drops what it has taken, each item once, and takes nothing more.
#[test]
fn panics_in_parallel_calls() {
    for workers in [1, 2, 4] {
        run_on(workers, || {
            for panics_at in [0, 3, 17] {
                let (taken, dropped) = (AtomicUsize::new(0), AtomicUsize::new(0));
                let (count, drops) = (&taken, &dropped);
                let items = || {
                    (0..).map(move |n: usize| {
                        count.fetch_add(1, SeqCst);
                        (n, OnDrop(move || _ = drops.fetch_add(1, SeqCst)))
                    })
                };
                let call = |(n, _item): (usize, _)| {
                    _ = ecru::yield_now();
                    if n == panics_at {
                        quiet_panic("at an item");
                    }
                };
                let text = panic_text(|| ecru::par::map_buffered(4, items(), call));
                assert_eq!(text, "at an item");
                assert!(taken.load(SeqCst) <= panics_at + 8, "{taken:?} for {panics_at}");
                assert_eq!(taken.load(SeqCst), dropped.load(SeqCst));
                let text = panic_text(|| ecru::par::for_each(4, items(), call));
                assert_eq!(text, "at an item");
                assert_eq!(taken.load(SeqCst), dropped.load(SeqCst));
            }
            // The iterator itself panics.
            let dropped = AtomicUsize::new(0);
            let items = (0..10).map(|n| {
                if n == 5 {
                    quiet_panic("in the iterator");
                }
                OnDrop(|| _ = dropped.fetch_add(1, SeqCst))
            });
            let text = panic_text(|| ecru::par::for_each(usize::MAX, items, drop));
            assert_eq!((text.as_str(), dropped.into_inner()), ("in the iterator", 5));
        });
    }
}

/// A value's destructor uses the channel that is giving its memory back.
#[test]
fn destructors_that_use_a_draining_channel() {
    struct SendsOnce(Option<Sender<SendsOnce>>, Arc<AtomicUsize>);
    impl Drop for SendsOnce {
        fn drop(&mut self) {
            self.1.fetch_add(1, SeqCst);
            if let Some(sender) = self.0.take() {
                for _ in 0..3 {
                    let value = SendsOnce(None, Arc::clone(&self.1));
                    _ = sender.send(value);
                }
            }
        }
    }
    for workers in [1, 2] {
        run_on(workers, || {
            let drops = Arc::new(AtomicUsize::new(0));
            let (tx, rx) = channel::unbounded();
            for _ in 0..5000 {
                tx.send(SendsOnce(Some(tx.clone()), Arc::clone(&drops))).unwrap();
            }
            ecru::scope(|s| {
                for _ in 0..4 {
                    let rx = rx.clone();
                    s.spawn(move || {
                        while let Ok(value) = rx.try_recv() {
                            drop(value)
                        }
                    });
                }
            });
            while rx.try_recv().is_ok() {}
            assert_eq!(drops.load(SeqCst), 20_000);
            // The receivers go while values are there.
            for _ in 0..100 {
                tx.send(SendsOnce(Some(tx.clone()), Arc::clone(&drops))).unwrap();
            }
            drop(rx);
            assert!(tx.send(SendsOnce(None, Arc::clone(&drops))).is_err());
            assert_eq!(drops.load(SeqCst), 20_000 + 100 + 300 + 1);
        });
    }
}

/// Bursts through an unbounded channel between threads keep the order while its memory shrinks.
#[test]
fn bursts_through_a_channel_that_shrinks() {
    let (tx, rx) = channel::unbounded::<usize>();
    thread::scope(|s| {
        s.spawn(move || {
            for burst in 0..60 {
                for n in 0..500 {
                    tx.send(burst * 500 + n).unwrap();
                }
                if burst % 7 == 0 {
                    thread::yield_now();
                }
            }
        });
        for expected in 0..30_000 {
            assert_eq!(rx.recv(), Ok(expected));
        }
        assert!(rx.recv().is_err());
    });
}
