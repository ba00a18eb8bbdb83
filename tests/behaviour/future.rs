//! Sources as futures, and `block_on`.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::mem::{self, ManuallyDrop};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;

use ecru::channel;
use ecru::source::SourceFuture;
use ecru::sync::Notify;
use ecru::time::Timer;
use ecru::{Source, block_on, source};

use crate::support::{
    Counted, HOUR, Watchdog, begin, each_run, ms, now, run_on, settle, since, until,
};

/// A waker that counts its calls.
#[derive(Default)]
struct Woken(AtomicUsize);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Woken {
    fn times(&self) -> usize {
        self.0.load(SeqCst)
    }
}

fn poll<S: Source>(future: &mut SourceFuture<S>, woken: &Arc<Woken>) -> Poll<S::Item> {
    let waker = Waker::from(Arc::clone(woken));
    Pin::new(future).poll(&mut Context::from_waker(&waker))
}

/// - given: a source that has an item
/// - when: its future is polled
/// - then: it is ready at once
#[test]
fn future_01_ready() {
    let woken = Arc::new(Woken::default());
    assert_eq!(poll(&mut Source::to_future(source::ready(7)), &woken), Poll::Ready(7));
    assert_eq!(woken.times(), 0);
}

/// - given: a source that has no item
/// - when: its future is polled, and then an item comes
/// - then: the waker is woken once, and the next poll is ready
#[test]
fn future_02_later() {
    for capacity in [1, usize::MAX] {
        let woken = Arc::new(Woken::default());
        let (sender, receiver) = channel::bounded(capacity);
        let mut future = receiver.to_future();
        assert!(poll(&mut future, &woken).is_pending() && poll(&mut future, &woken).is_pending());
        sender.send(7).unwrap();
        assert_eq!(woken.times(), 1);
        assert_eq!(poll(&mut future, &woken), Poll::Ready(Ok(7)));
        drop(sender);
        assert!(poll(&mut future, &woken).is_ready());
        assert_eq!(woken.times(), 1);
    }
}

/// - given: a future polled with two wakers, one after the other
/// - when: an item comes
/// - then: the last waker is woken
#[test]
fn future_03_last_waker() {
    let (first, last) = (Arc::new(Woken::default()), Arc::new(Woken::default()));
    let (sender, receiver) = channel::unbounded();
    let mut future = receiver.to_future();
    assert!(poll(&mut future, &first).is_pending() && poll(&mut future, &last).is_pending());
    assert_eq!(Arc::strong_count(&first), 1);
    sender.send(7).unwrap();
    assert_eq!((first.times(), last.times()), (0, 1));
}

/// - given: a future that has been polled
/// - when: it is dropped, and then a value is sent
/// - then: the value goes to other receivers, and the waker is not woken
#[test]
fn future_04_dropped_unready() {
    let woken = Arc::new(Woken::default());
    let (sender, receiver) = channel::unbounded();
    let mut future = source::either(receiver.clone(), receiver.clone()).to_future();
    assert!(poll(&mut future, &woken).is_pending());
    drop(future);
    assert_eq!(Arc::strong_count(&woken), 1);
    sender.send(7).unwrap();
    assert_eq!((receiver.try_recv(), woken.times()), (Ok(7), 0));
}

/// - given: a future to which a value has been handed
/// - when: it is dropped without another poll
/// - then: the value is the channel's next one again, or goes to the next waiter
#[test]
fn future_05_dropped_after_hand_over() {
    let _watchdog = Watchdog::new();
    let woken = Arc::new(Woken::default());
    let (sender, receiver) = channel::unbounded();
    let mut future = receiver.clone().to_future();
    assert!(poll(&mut future, &woken).is_pending());
    sender.send(1).unwrap();
    sender.send(2).unwrap();
    assert_eq!(woken.times(), 1);
    drop(future);
    assert_eq!((receiver.try_recv(), receiver.try_recv()), (Ok(1), Ok(2)));

    // Another receiver already waits when the value comes back. A buffer is not necessary.
    for capacity in [0, 1] {
        let (sender, receiver) = channel::bounded(capacity);
        let mut future = (&receiver).or(&receiver).to_future();
        assert!(poll(&mut future, &woken).is_pending());
        thread::scope(|s| {
            sender.send(1).unwrap();
            let next = receiver.clone();
            let waiting = s.spawn(move || next.recv());
            drop(future);
            assert_eq!(waiting.join().unwrap(), Ok(1));
        });
    }
}

/// - given: a future that has been polled
/// - when: it is moved, and polled elsewhere
/// - then: it works as before
#[test]
fn future_06_moved() {
    let woken = Arc::new(Woken::default());
    let (sender, receiver) = channel::unbounded();
    let (mut one, mut other) = (receiver.clone().to_future(), receiver.to_future());
    assert!(poll(&mut one, &woken).is_pending());
    mem::swap(&mut one, &mut other);
    let mut boxed = Box::new(other);
    sender.send(7).unwrap();
    let elsewhere = thread::spawn(move || {
        let woken = Arc::new(Woken::default());
        poll(&mut boxed, &woken)
    });
    assert_eq!(elsewhere.join().unwrap(), Poll::Ready(Ok(7)));
}

/// - given: a polled future of a borrowed receiver
/// - when: it is forgotten, and the channel is dropped
/// - then: no part of the future is used again
#[test]
fn future_07_forgotten() {
    let woken = Arc::new(Woken::default());
    let (sender, receiver) = channel::unbounded();
    let mut future = (&receiver).filter(|n| n % 2 == 0).to_future();
    assert!(poll(&mut future, &woken).is_pending());
    let _ = ManuallyDrop::new(future);
    let mut future = (&receiver).to_future();
    assert!(poll(&mut future, &woken).is_pending());
    let _ = ManuallyDrop::new(future);
    let mut other = (&receiver).to_future();
    assert!(poll(&mut other, &woken).is_pending());
    sender.send(1).unwrap();
    sender.send(2).unwrap();
    // The forgotten future keeps the first value for ever.
    assert_eq!(poll(&mut other, &woken), Poll::Ready(Ok(2)));
    drop(other);
    drop((sender, receiver));
}

/// - given: a future of a filtered receiver
/// - when: values are sent
/// - then: the predicate is called inside `poll` only
#[test]
fn future_08_filter_asks_in_poll() {
    let woken = Arc::new(Woken::default());
    for capacity in [0, 1, usize::MAX] {
        let (polling, asked) = (AtomicBool::new(false), AtomicUsize::new(0));
        let (sender, receiver) = channel::bounded(capacity);
        let accepts = |n: &u32| {
            assert!(polling.load(SeqCst), "asked by somebody else");
            asked.fetch_add(1, SeqCst);
            *n == 2
        };
        let mut future = source::race([(&receiver).filter(accepts)]).to_future();
        let mut poll = || {
            polling.store(true, SeqCst);
            let polled = poll(&mut future, &woken);
            polling.store(false, SeqCst);
            polled
        };
        assert!(poll().is_pending());
        thread::scope(|s| {
            s.spawn(|| {
                sender.send(1).unwrap();
                sender.send(2).unwrap();
            });
            let before = now();
            while receiver.is_empty() && capacity > 0 {
                assert!(since(before) < HOUR);
            }
            // It is woken to look, and refuses.
            while asked.load(SeqCst) == 0 {
                assert!(poll().is_pending());
            }
            assert_eq!(receiver.recv(), Ok(1));
            loop {
                match poll() {
                    Poll::Ready(item) => break assert_eq!(item, Ok(2)),
                    Poll::Pending => thread::yield_now(),
                }
            }
        });
    }
}

/// - given: a future of a filtered receiver, and other receivers
/// - when: a value comes that the filter refuses
/// - then: the others get it; the future gets the next value that it accepts
#[test]
fn future_09_filter_refuses() {
    each_run(|| {
        ecru::scope(|s| {
            let (sender, receiver) = channel::bounded(0);
            let even = receiver.clone().filter(|n| n % 2 == 0);
            let picky = s.spawn(move || block_on(even.to_future()));
            settle();
            let any = s.spawn(move || receiver.recv());
            settle();
            sender.send(1).unwrap();
            assert_eq!(any.join().unwrap(), Ok(1));
            sender.send(2).unwrap();
            assert_eq!(picky.join().unwrap(), Ok(Ok(2)));
        });
    });
}

/// - given: handles, and shared ones
/// - when: they are converted to futures, by method and by `IntoFuture`
/// - then: the futures return the results
#[test]
fn future_10_handles() {
    each_run(|| {
        ecru::scope(|s| {
            let (go, gone) = channel::bounded(0);
            let later = s.spawn(move || gone.recv());
            let both = s.spawn(move || {
                let sum = async move {
                    let later = later.await.unwrap().unwrap();
                    let once = s.spawn(|| 2).into_future().await.unwrap();
                    let shared = s.spawn(|| 3).shared();
                    later
                        + once
                        + shared.clone().await.unwrap()
                        + shared.into_future().await.unwrap()
                };
                block_on(sum)
            });
            settle();
            go.send(1).unwrap();
            assert_eq!(both.join().unwrap(), Ok(9));
            // Dropping the future drops the handle, and the task runs on.
            let done = Arc::new(AtomicBool::new(false));
            let tell = Arc::clone(&done);
            let mut future = s.spawn(move || tell.store(true, SeqCst)).into_future();
            let _ = poll(&mut future, &Arc::new(Woken::default()));
            drop(future);
            until(|| done.load(SeqCst));
        });
    });
}

/// - given: futures of a timer and of `channel::after`
/// - when: the time comes, and no waiter is parked
/// - then: the wakers are woken
#[test]
fn future_11_times() {
    let _watchdog = Watchdog::new();
    // If the machine delays this thread for longer than the timers take, the futures are polled too
    // late. Then the test tries once more.
    let (mut after, mut timer, start, woken) = loop {
        let woken = Arc::new(Woken::default());
        let start = now();
        let timer = Timer::new(ms(2));
        timer.start().unwrap();
        let mut after = channel::after(ms(2)).to_future();
        let mut timer = timer.to_future();
        if poll(&mut after, &woken).is_pending() && poll(&mut timer, &woken).is_pending() {
            break (after, timer, start, woken);
        }
        assert!(since(start) >= ms(2), "ready before its time");
    };
    let mut far = channel::after(HOUR).to_future();
    assert!(poll(&mut far, &woken).is_pending());
    while woken.times() < 2 {
        thread::yield_now();
    }
    assert!(since(start) >= ms(2));
    assert!(poll(&mut after, &woken).is_ready());
    assert_eq!(poll(&mut timer, &woken), Poll::Ready(true));
    drop(far);
    assert_eq!(Arc::strong_count(&woken), 1);
}

/// - given: futures on two threads that are polled, dropped and recreated while values are sent
/// - when: all values have been sent
/// - then: each value was received exactly once
#[test]
fn future_12_nothing_is_lost() {
    let _watchdog = Watchdog::new();
    const VALUES: usize = 2_000;
    for capacity in [0, 1, usize::MAX] {
        let (sender, receiver) = channel::bounded(capacity);
        let received = Mutex::new(vec![]);
        thread::scope(|s| {
            for _ in 0..2 {
                let (receiver, received) = (receiver.clone(), &received);
                s.spawn(move || {
                    let woken = Arc::new(Woken::default());
                    while received.lock().unwrap().len() < VALUES {
                        let mut future = (&receiver).or(&receiver).to_future();
                        for _ in 0..fastrand::u8(1..4) {
                            if let Poll::Ready(item) = poll(&mut future, &woken) {
                                received.lock().unwrap().push(item.unwrap());
                                break;
                            }
                            thread::yield_now();
                        }
                    }
                });
            }
            s.spawn(|| (0..VALUES).for_each(|n| sender.send(n).unwrap()));
        });
        let mut received = received.into_inner().unwrap();
        received.sort();
        assert!(received.iter().copied().eq(0..VALUES));
    }
}

/// - given: one worker and two tasks
/// - when: one waits for a future that the other completes
/// - then: it is parked, and gets the output
#[test]
fn future_13_block_on() {
    run_on(1, || {
        ecru::scope(|s| {
            let (set, waker) = (Rc::new(Cell::new(None)), Rc::new(Cell::new(None::<Waker>)));
            let (value, woken) = (Rc::clone(&set), Rc::clone(&waker));
            let waiting = s.spawn_local(move || {
                block_on(poll_fn(move |context| {
                    woken.set(Some(context.waker().clone()));
                    value.take().map_or(Poll::Pending, Poll::Ready)
                }))
            });
            settle();
            set.set(Some(7));
            waker.take().expect("it has been polled").wake();
            assert_eq!(waiting.join().unwrap(), Ok(7));
        });
    });
}

/// - given: a task in `block_on`
/// - when: it is cancelled, meanwhile or before
/// - then: `Cancelled`, and the future has been dropped; in a task that was cancelled before, the
///   future was not polled
#[test]
fn future_14_block_on_cancelled() {
    each_run(|| {
        let dropped = AtomicUsize::new(0);
        ecru::scope(|s| {
            let never = Counted(&dropped);
            let task = begin(s, move || {
                let waited = block_on(async move {
                    let _never = never;
                    std::future::pending::<()>().await;
                });
                let polled = Cell::new(false);
                let again = block_on(async { polled.set(true) });
                (waited.is_err(), again.is_err(), polled.get())
            });
            task.cancel();
            assert!(task.join().is_ok_and(|end| end == (true, true, false)));
        });
        assert_eq!(dropped.load(SeqCst), 1);
    });
}

/// - given: a plain thread
/// - when: it calls `block_on`, also inside `timeout`
/// - then: it blocks, and no longer than the timeout
#[test]
fn future_15_block_on_a_thread() {
    let _watchdog = Watchdog::new();
    let (sender, receiver) = channel::unbounded();
    thread::scope(|s| {
        s.spawn(move || sender.send(7).unwrap());
        assert_eq!(block_on(receiver.to_future()), Ok(Ok(7)));
    });
    let start = now();
    let late = ecru::timeout(ms(2), || block_on(std::future::pending::<()>()));
    assert!(late.is_err() && since(start) >= ms(2));
}

/// - given: a waker of `block_on`
/// - when: it is woken from elsewhere after that has returned
/// - then: nothing happens
#[test]
fn future_16_wakers_outlive() {
    each_run(|| {
        let mut kept = None;
        let output = block_on(poll_fn(|context| {
            kept = Some(context.waker().clone());
            Poll::Ready(7)
        }));
        assert_eq!(output, Ok(7));
        let waker = kept.unwrap();
        thread::spawn(move || {
            waker.wake_by_ref();
            waker.wake();
        })
        .join()
        .unwrap();
    });
}

/// - given: a future that always wakes itself
/// - when: a task waits for it on one worker
/// - then: the other tasks run
#[test]
fn future_17_block_on_yields() {
    run_on(1, || {
        ecru::scope(|s| {
            let done = Rc::new(Cell::new(false));
            let seen = Rc::clone(&done);
            let busy = s.spawn_local(move || {
                block_on(poll_fn(|context| {
                    context.waker().wake_by_ref();
                    if seen.get() { Poll::Ready(()) } else { Poll::Pending }
                }))
            });
            s.spawn_local(move || done.set(true));
            assert_eq!(busy.join().unwrap(), Ok(()));
        });
    });
}

/// - given: futures of a `Notify` that have not been polled: of itself, mapped, and beside others
/// - when: `notify_all` is called, and then they are polled
/// - then: each is ready once; a future that is made afterwards is not
#[test]
fn future_18_notify_all_before_the_first_poll() {
    fn check<S: Source>(news: &Notify, source: impl Fn() -> S) {
        let woken = Arc::new(Woken::default());
        let (mut first, mut second) = (source().to_future(), source().to_future());
        news.notify_all();
        let mut late = source().to_future();
        assert!(poll(&mut first, &woken).is_ready() && poll(&mut second, &woken).is_ready());
        assert!(poll(&mut late, &woken).is_pending() && poll(&mut first, &woken).is_pending());
        news.notify_all();
        assert!(poll(&mut late, &woken).is_ready() && poll(&mut first, &woken).is_ready());
        assert!(news.try_take().is_none(), "no notification is stored");
    }
    let news = Arc::new(Notify::new());
    let other = Notify::new();
    check(&news, || &*news);
    check(&news, || Arc::clone(&news));
    check(&news, || Box::new(&*news) as Box<dyn Source<Item = ()> + '_>);
    check(&news, || (&*news).map(|()| 7));
    check(&news, || (&other).or(&*news));
    check(&news, || source::either(&other, &*news));
    check(&news, || source::race([&other, &*news]));
    check(&news, || source::race_indexed([&*news, &other]));
}

/// - given: a future of a `Notify` that `notify_all` has reached, polled or not
/// - when: it is dropped
/// - then: nothing is stored; a notification by `notify_one` goes to the next waiter instead
#[test]
fn future_19_dropped_after_a_notification() {
    let woken = Arc::new(Woken::default());
    let news = Notify::new();
    let unpolled = (&news).to_future();
    let mut polled = (&news).to_future();
    assert!(poll(&mut polled, &woken).is_pending());
    news.notify_all();
    drop((unpolled, polled));
    assert!(news.try_take().is_none());

    let (mut first, mut second) = ((&news).to_future(), (&news).to_future());
    assert!(poll(&mut first, &woken).is_pending() && poll(&mut second, &woken).is_pending());
    news.notify_one();
    assert!(poll(&mut second, &woken).is_pending());
    drop(first);
    assert!(poll(&mut second, &woken).is_ready());
}

/// - given: a future that was polled once and is then left alone or forgotten, before a waiter
/// - when: a notification or a value comes
/// - then: it keeps what it is handed; dropping it passes that on, forgetting it loses it
#[test]
fn future_20_left_alone() {
    let woken = Arc::new(Woken::default());
    let news = Arc::new(Notify::new());
    let mut left_alone = Arc::clone(&news).to_future();
    let mut forgotten = Arc::clone(&news).to_future();
    let mut next = Arc::clone(&news).to_future();
    for future in [&mut left_alone, &mut forgotten, &mut next] {
        assert!(poll(future, &woken).is_pending());
    }
    let _forgotten = ManuallyDrop::new(forgotten);
    news.notify_one();
    news.notify_one();
    assert!(poll(&mut next, &woken).is_pending(), "both notifications are kept");
    drop(left_alone);
    assert!(poll(&mut next, &woken).is_ready());

    let (sender, receiver) = channel::unbounded();
    let mut left_alone = receiver.clone().to_future();
    assert!(poll(&mut left_alone, &woken).is_pending());
    sender.send(7).unwrap();
    assert!(receiver.try_recv().is_err());
    drop(left_alone);
    assert_eq!(receiver.try_recv(), Ok(7));
}
