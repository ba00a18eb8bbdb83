//! `on_ready`.

use std::mem::{self, ManuallyDrop};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use ecru::channel::{self, Receiver};
use ecru::time::{Timer, interval};
use ecru::{Source, source};

use crate::support::{
    HOUR, Watchdog, each_run, forever, ms, now, quiet_panic, run_on, settle, until,
};

/// Returns a counter, and a callback that increments it.
fn counter() -> (Arc<AtomicUsize>, impl Clone + Fn()) {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    (calls, move || {
        counted.fetch_add(1, SeqCst);
    })
}

/// - given: a source that has an item
/// - when: `on_ready` is called
/// - then: the callback runs before the call returns
#[test]
fn callback_01_at_once() {
    let (calls, call) = counter();
    let here = thread::current().id();
    drop(source::ready(7).on_ready(move |seven| {
        assert_eq!((seven, thread::current().id()), (7, here));
        call();
    }));
    assert_eq!(calls.load(SeqCst), 1);
}

/// - given: a source that has no item
/// - when: a task or thread makes it ready
/// - then: the callback has run, in that task or thread, when the call returns; it runs once, and
///   not before
#[test]
fn callback_02_later() {
    let _watchdog = Watchdog::new();
    let (sender, receiver) = channel::unbounded();
    let (tell, told) = mpsc::channel();
    let subscription = receiver.clone().on_ready(move |item| {
        tell.send((item, thread::current().id())).unwrap();
    });
    assert!(told.try_recv().is_err());
    thread::scope(|s| {
        let sending = s.spawn(move || {
            sender.send(1).unwrap();
            let (item, thread) = told.try_recv().unwrap();
            assert_eq!((item, thread), (Ok(1), thread::current().id()));
            sender.send(2).unwrap();
            assert!(told.try_recv().is_err());
        });
        sending.join().unwrap();
    });
    drop(subscription);
    assert_eq!(receiver.try_recv(), Ok(2));
}

/// - given: a subscription
/// - when: it is dropped before the source has an item
/// - then: the callback never runs, it is dropped with its source, and the item goes to other
///   waiters
#[test]
fn callback_03_dropped() {
    let (sender, receiver) = channel::unbounded();
    let (calls, call) = counter();
    let subscription = receiver.clone().on_ready(move |_: Result<u32, _>| call());
    assert_eq!(Arc::strong_count(&calls), 2);
    drop(subscription);
    assert_eq!(Arc::strong_count(&calls), 1);
    sender.send(1).unwrap();
    assert_eq!((calls.load(SeqCst), receiver.try_recv()), (0, Ok(1)));
}

/// - given: a subscription
/// - when: it is detached or forgotten
/// - then: the callback runs nevertheless
#[test]
fn callback_04_left_in_place() {
    let (sender, receiver) = channel::unbounded();
    let (calls, call) = counter();
    let other = call.clone();
    receiver.clone().on_ready(move |_| call()).detach();
    let _ = ManuallyDrop::new(receiver.on_ready(move |_| other()));
    sender.send(1).unwrap();
    sender.send(2).unwrap();
    assert_eq!(calls.load(SeqCst), 2);
    // The callbacks have been dropped, and the last receivers with them.
    assert!(sender.send(3).is_err());
    assert_eq!(Arc::strong_count(&calls), 1);
}

/// - given: many subscriptions to a shared handle, and to a timer
/// - when: the task ends, the timer fires
/// - then: each callback runs once
#[test]
fn callback_05_all_are_called() {
    each_run(|| {
        let (calls, call) = counter();
        let (go, gone) = channel::bounded::<()>(0);
        let task = ecru::spawn(move || gone.recv()).shared();
        let timer = Timer::new(ms(1));
        let subscriptions: Vec<_> = (0..10)
            .flat_map(|_| {
                let (call, other) = (call.clone(), call.clone());
                let ended = task.clone().on_ready(move |end| {
                    assert!(end.is_ok());
                    call();
                });
                let rung = timer.clone().on_ready(move |rung| {
                    assert!(rung);
                    other();
                });
                [ended, rung]
            })
            .collect();
        settle();
        assert_eq!(calls.load(SeqCst), 0);
        go.send(()).unwrap();
        until(|| calls.load(SeqCst) == 10);
        timer.start().unwrap();
        until(|| calls.load(SeqCst) == 20);
        drop(subscriptions);
        assert_eq!(calls.load(SeqCst), 20);
    });
}

/// - given: a callback
/// - when: it makes a call that may wait, or panics
/// - then: the task or thread that made the source ready is not affected
#[test]
fn callback_06_nobody_waits_in_it() {
    each_run(|| {
        let (sender, receiver) = channel::unbounded();
        let (calls, call) = counter();
        let other = call.clone();
        receiver
            .clone()
            .on_ready(move |_: Result<u32, _>| {
                call();
                let _ = ecru::sleep(ms(1));
                call();
            })
            .detach();
        receiver
            .on_ready(move |_| {
                other();
                quiet_panic("in a callback")
            })
            .detach();
        sender.send(1).unwrap();
        sender.send(2).unwrap();
        assert_eq!(calls.load(SeqCst), 2);
    });
}

/// Runs a callback for each value. Each callback subscribes the next one.
fn each_value(receiver: Receiver<u32>, sum: Arc<AtomicUsize>) {
    receiver
        .clone()
        .on_ready(move |item| {
            let Ok(value) = item else { return };
            sum.fetch_add(value as usize, SeqCst);
            let _ = receiver.len();
            each_value(receiver, sum);
        })
        .detach();
}

/// - given: a callback on a channel
/// - when: it uses the same channel, and subscribes again
/// - then: both work
#[test]
fn callback_07_no_lock_is_held() {
    let _watchdog = Watchdog::new();
    let (sender, receiver) = channel::unbounded();
    let sum = Arc::new(AtomicUsize::new(0));
    each_value(receiver, Arc::clone(&sum));
    thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| (1..=100).for_each(|n| sender.send(n).unwrap()));
        }
    });
    assert_eq!(sum.load(SeqCst), 10_100);
    drop(sender);
    assert_eq!(Arc::strong_count(&sum), 1);
}

/// - given: a callback that owns its subscription
/// - when: it runs and drops the subscription
/// - then: no call waits, and everything is freed
#[test]
fn callback_08_drops_its_own() {
    let _watchdog = Watchdog::new();
    let (sender, receiver) = channel::unbounded();
    let (calls, call) = counter();
    let own = Arc::new(Mutex::new(None));
    let inside = Arc::clone(&own);
    let subscription = receiver.on_ready(move |_: Result<u32, _>| {
        drop(inside.lock().unwrap().take());
        call();
    });
    *own.lock().unwrap() = Some(subscription);
    sender.send(1).unwrap();
    assert!(own.lock().unwrap().is_none());
    assert_eq!((calls.load(SeqCst), Arc::strong_count(&calls), Arc::strong_count(&own)), (1, 1, 1));
}

/// - given: a callback on a handle
/// - when: the task ends
/// - then: it runs on the task's worker, and may query and cancel what a task may
#[test]
fn callback_09_end_of_a_task() {
    each_run(|| {
        let (tell, told) = mpsc::channel();
        let begun = Arc::new(AtomicBool::new(false));
        let other = ecru::spawn({
            let begun = Arc::clone(&begun);
            move || {
                begun.store(true, SeqCst);
                forever()
            }
        })
        .shared();
        until(|| begun.load(SeqCst));
        let to_cancel = other.clone();
        let (go, gone) = channel::bounded(0);
        let task = ecru::spawn(move || {
            gone.recv().unwrap();
            thread::current().id()
        });
        task.on_ready(move |worker| {
            to_cancel.cancel();
            let asked = ecru::is_cancelled();
            let nested = ecru::cancel_scope(|c| {
                c.cancel();
                ecru::is_cancelled()
            });
            let same = worker.unwrap() == thread::current().id();
            tell.send((same, asked, nested)).unwrap();
        })
        .detach();
        settle();
        go.send(()).unwrap();
        let mut seen = None;
        until(|| {
            seen = told.try_recv().ok();
            seen.is_some()
        });
        assert_eq!(seen, Some((true, false, true)));
        assert_eq!(other.join().unwrap().reason(), ecru::CancelReason::Explicit);
    });
}

/// - given: callbacks on a race, a filter and a map
/// - when: values come
/// - then: the losers keep their values, refused values go to other waiters, and the map is applied
#[test]
fn callback_10_race() {
    let (calls, call) = counter();
    let (sender, receiver) = channel::unbounded();
    let (other, losing) = channel::unbounded::<u32>();
    let even = receiver.clone().filter(|n| n % 2 == 0).map(|n| n.map(|n| n * 10));
    let subscription = source::either(losing.clone(), even).on_ready(move |won| {
        assert_eq!(won, source::Either::Right(Ok(20)));
        call();
    });
    sender.send(1).unwrap();
    assert_eq!((calls.load(SeqCst), receiver.try_recv()), (0, Ok(1)));
    sender.send(2).unwrap();
    assert_eq!(calls.load(SeqCst), 1);
    other.send(3).unwrap();
    sender.send(4).unwrap();
    assert_eq!((losing.try_recv(), receiver.try_recv()), (Ok(3), Ok(4)));
    drop(subscription);
}

/// - given: subscriptions that are withdrawn while values are sent
/// - when: all senders and withdrawals have ended
/// - then: each value was passed to exactly one callback, or is still in the channel
#[test]
fn callback_11_withdrawn_against_ringing() {
    let _watchdog = Watchdog::new();
    const VALUES: usize = 2_000;
    for capacity in [0, 1, usize::MAX] {
        let (sender, receiver) = channel::bounded(capacity);
        let taken = Arc::new(Mutex::new(vec![]));
        thread::scope(|s| {
            s.spawn(|| (0..VALUES).for_each(|n| sender.send(n).unwrap()));
            s.spawn(|| {
                while taken.lock().unwrap().len() < VALUES {
                    let (here, call) = (Arc::clone(&taken), |item: Result<usize, _>| item.unwrap());
                    let subscription =
                        source::either(receiver.clone(), receiver.clone()).on_ready(move |item| {
                            let (source::Either::Left(item) | source::Either::Right(item)) = item;
                            here.lock().unwrap().push(call(item));
                        });
                    if fastrand::bool() {
                        thread::yield_now();
                    }
                    drop(subscription);
                }
            });
        });
        let mut taken = mem::take(&mut *taken.lock().unwrap());
        taken.sort();
        assert!(taken.iter().copied().eq(0..VALUES));
    }
}

/// - given: callbacks on a timer, an interval and `channel::after`, with no parked waiter
/// - when: the times come
/// - then: they run, and not early; a withdrawn callback never runs
#[test]
fn callback_12_times() {
    let _watchdog = Watchdog::new();
    let (tell, told) = mpsc::channel();
    let start = now();
    let timer = Timer::new(ms(6));
    let (calls, call) = counter();
    drop(timer.clone().on_ready(move |_| call()));
    timer.start().unwrap();
    let ticks = interval(ms(1));
    ticks.try_take().unwrap();
    let (one, two, three) = (tell.clone(), tell.clone(), tell);
    let subscriptions = [
        timer.on_ready(move |_| one.send((6, now())).unwrap()),
        channel::after(ms(3)).on_ready(move |_| two.send((3, now())).unwrap()),
        ticks.on_ready(move |_| three.send((1, now())).unwrap()),
    ];
    let (other, call) = counter();
    let never = channel::after(HOUR).on_ready(move |_| call());
    let mut order: Vec<_> = told.iter().take(3).collect();
    order.sort();
    for (due, rung) in order {
        assert!(rung >= start + ms(due));
    }
    assert_eq!(calls.load(SeqCst), 0);
    drop((subscriptions, never));
    assert_eq!((other.load(SeqCst), Arc::strong_count(&other)), (0, 1));
    run_on(1, || ());
}

/// Links of a chain that would overflow any stack if each had its place there.
const LINKS: usize = 100_000;

/// - row: `callback_13_chain`
/// - given: 100,000 callbacks, each of which makes the next one ready, by a send or by the drop of
///   its source; callbacks that own the next subscription, or subscribe again
/// - when: the first is called, or dropped
/// - then: each has run once, or is gone, when that call returns; the stack does not grow, and
///   panics in between stop nothing
///
/// One callback ends the wait of the next, which runs after it and before the outermost call
/// returns.
#[test]
fn callback_13_chain_of_callbacks_slow() {
    let (calls, call) = counter();
    let (first, mut receiver) = channel::bounded::<usize>(1);
    for link in 0..LINKS {
        let (sender, next) = channel::bounded(1);
        let call = call.clone();
        receiver
            .on_ready(move |item| {
                assert_eq!(item, Ok(link));
                call();
                sender.try_send(link + 1).unwrap();
                if link % 1_000 == 7 {
                    quiet_panic("in the middle of a chain");
                }
            })
            .detach();
        receiver = next;
    }
    first.send(0).unwrap();
    assert_eq!((calls.load(SeqCst), receiver.try_recv()), (LINKS, Ok(LINKS)));
}

/// The drop of each source disconnects the next one.
#[test]
fn callback_13_chain_of_sources_slow() {
    let (calls, call) = counter();
    let (first, mut receiver) = channel::bounded::<()>(0);
    for _ in 0..LINKS {
        let (sender, next) = channel::bounded(0);
        let call = call.clone();
        receiver
            .map(move |end| {
                let _owned = &sender;
                end
            })
            .on_ready(move |end| {
                assert!(end.is_err());
                call();
            })
            .detach();
        receiver = next;
    }
    drop(first);
    assert_eq!(calls.load(SeqCst), LINKS);
    assert!(receiver.try_recv().is_err());
}

/// Each callback owns the subscription of the next: dropping the first withdraws them all.
#[test]
fn callback_13_chain_of_subscriptions_slow() {
    let (calls, call) = counter();
    let (sender, receiver) = channel::unbounded::<()>();
    let mut last = receiver.clone().on_ready({
        let call = call.clone();
        move |_| call()
    });
    for _ in 0..LINKS {
        let (owned, call) = (last, call.clone());
        last = receiver.clone().on_ready(move |_| {
            drop(owned);
            call();
        });
    }
    drop(call);
    drop(last);
    assert_eq!((calls.load(SeqCst), Arc::strong_count(&calls)), (0, 1));
    sender.send(()).unwrap();
    assert_eq!(receiver.try_recv(), Ok(()));
}

/// A callback that subscribes again finds the next item, as long as there are any.
#[test]
fn callback_13_chain_of_new_subscriptions_slow() {
    let (sender, receiver) = channel::unbounded();
    let sum = Arc::new(AtomicUsize::new(0));
    (0..100_000).for_each(|_| sender.send(1).unwrap());
    drop(sender);
    each_value(receiver, Arc::clone(&sum));
    assert_eq!((sum.load(SeqCst), Arc::strong_count(&sum)), (LINKS, 1));
}

/// - given: a callback that subscribes, sends and withdraws
/// - when: it runs
/// - then: what it has subscribed to takes the item, what it has withdrawn does not, and the
///   callbacks that it made ready run when it has returned
#[test]
fn callback_14_calls_in_a_callback() {
    let (go, gone) = channel::bounded::<()>(1);
    let (calls, call) = counter();
    let (withdrawn, other) = counter();
    let (rendezvous, receiver) = channel::bounded::<u8>(0);
    let (kept, others) = channel::bounded::<u8>(0);
    let in_place = others.on_ready(move |_| other());
    // A panic in a callback would be lost.
    let (tell, told) = mpsc::channel();
    let inside = Arc::clone(&calls);
    gone.on_ready(move |_| {
        receiver.on_ready(move |item| item.into_iter().for_each(|_| call())).detach();
        let given = rendezvous.try_send(3);
        drop(in_place);
        let refused = kept.try_send(4);
        tell.send((given.is_ok(), refused.is_err(), inside.load(SeqCst))).unwrap();
    })
    .detach();
    go.send(()).unwrap();
    // The callback that it made ready runs when it has returned.
    assert_eq!(told.try_recv(), Ok((true, true, 0)));
    assert_eq!((calls.load(SeqCst), withdrawn.load(SeqCst)), (1, 0));
    assert_eq!(Arc::strong_count(&withdrawn), 1);
}
