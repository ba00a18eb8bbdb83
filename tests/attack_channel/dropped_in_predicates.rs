//! Predicates that drop a waiter of the channel that calls them, or a holder of a place in it.
//! Meanwhile the same thread holds the channel's lock.

use std::future::Future;
use std::panic;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;

use ecru::Source;
use ecru::channel::{self, Receiver, Select, TryRecvError};
use ecru::source::{self, Subscription};

use crate::{OnDrop, Watchdog, run_on, settle, text_of};

/// A slot from which a predicate takes a value to drop it.
struct Kept<T>(Arc<Mutex<Option<T>>>);

impl<T> Kept<T> {
    fn nothing() -> Kept<T> {
        Kept(Arc::new(Mutex::new(None)))
    }

    fn keep(&self, value: T) {
        *self.0.lock().unwrap() = Some(value);
    }

    fn drop_it(&self) {
        let taken = self.0.lock().unwrap().take();
        drop(taken);
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap().is_none()
    }
}

impl<T> Clone for Kept<T> {
    fn clone(&self) -> Kept<T> {
        Kept(Arc::clone(&self.0))
    }
}

/// Subscribes a callback that records its arguments.
fn note(receiver: &Receiver<u32>, seen: &Arc<Mutex<Vec<u32>>>) -> Subscription {
    let seen = Arc::clone(seen);
    receiver.clone().on_ready(move |n| seen.lock().unwrap().extend(n))
}

type Next = Pin<Box<dyn Future<Output = u32> + Send>>;

/// A future that owns its receiver and waits for it by reference, so that dropping the future drops
/// the receiver.
fn next(receiver: &Receiver<u32>) -> Next {
    let receiver = receiver.clone();
    Box::pin(async move { (&receiver).to_future().await.unwrap() })
}

/// As `next`, for large values.
fn next_large(receiver: &Receiver<u32>) -> Next {
    let receiver = receiver.clone();
    Box::pin(async move { (&receiver).filter(|n| *n > 100).to_future().await.unwrap() })
}

fn poll<F: Future + ?Sized>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Calls a predicate on each occasion: by a sender for a waiting callback, in a poll, and when a
/// callback is set up.
fn on_each_occasion(accepts: bool, attack: impl Fn(&Receiver<u32>) -> Box<dyn Fn() + Send + Sync>) {
    let _watchdog = Watchdog::new();
    for capacity in [0, 1, 8] {
        let (sender, receiver) = channel::bounded(capacity);
        let (told, asked) = (Kept::nothing(), Arc::new(AtomicUsize::new(0)));
        let inside: Kept<Box<dyn Fn() + Send + Sync>> = Kept::nothing();
        let (tell, attacks, count) = (told.clone(), inside.clone(), Arc::clone(&asked));
        let picky = receiver.clone().filter(move |_| {
            count.fetch_add(1, SeqCst);
            if let Some(attack) = attacks.0.lock().unwrap().take() {
                attack();
            }
            accepts
        });
        let subscription = picky.on_ready(move |n| tell.keep(n.unwrap()));
        inside.keep(attack(&receiver));
        // Called by a sender. On a channel without room a refused value has nowhere to go.
        let sent = sender.try_send(1).is_ok();
        assert_eq!(sent, accepts || capacity > 0);
        assert_eq!(told.0.lock().unwrap().take(), accepts.then_some(1));
        assert!(asked.load(SeqCst) > 0 && inside.is_empty());
        drop(subscription);
        assert_eq!(receiver.try_recv().ok(), (sent && !accepts).then_some(1));
        if capacity == 0 {
            continue;
        }
        // Called in a poll, and when a callback is set up.
        sender.try_send(2).unwrap();
        let attack_now = attack(&receiver);
        let looks = (&receiver).filter(|_| {
            attack_now();
            accepts
        });
        assert_eq!(looks.try_take(), accepts.then_some(Ok(2)));
        _ = receiver.try_recv();
        sender.try_send(3).unwrap();
        inside.keep(attack(&receiver));
        let attacks = inside.clone();
        let again = receiver.clone().filter(move |_| {
            attacks.0.lock().unwrap().take().inspect(|attack| attack());
            accepts
        });
        let tell = told.clone();
        drop(again.on_ready(move |n| tell.keep(n.unwrap())));
        assert!(inside.is_empty());
        assert_eq!(told.0.lock().unwrap().take(), accepts.then_some(3));
        _ = receiver.try_recv();
        // Nothing is left of the dropped object: all room is there, and the end is reported.
        (0..capacity).for_each(|n| sender.try_send(n as u32).unwrap());
        assert!(receiver.is_full());
        sender.close();
        assert_eq!(receiver.iter().count(), capacity);
    }
}

#[test]
fn a_predicate_drops_a_subscription_to_its_channel() {
    for accepts in [true, false] {
        let seen: Arc<Mutex<Vec<u32>>> = Arc::default();
        let source_gone = Arc::new(AtomicUsize::new(0));
        on_each_occasion(accepts, |receiver| {
            let gone = Arc::clone(&source_gone);
            let with_its_source = OnDrop(move || _ = gone.fetch_add(1, SeqCst));
            let refuses = receiver.clone().filter(move |n| {
                let _with_it = &with_its_source;
                *n > 100
            });
            let (kept, seen) = (Kept::nothing(), Arc::clone(&seen));
            kept.keep(refuses.on_ready(move |n| seen.lock().unwrap().extend(n)));
            Box::new(move || kept.drop_it())
        });
        assert_eq!(*seen.lock().unwrap(), [0; 0], "a callback that was dropped is not called");
        assert_eq!(source_gone.load(SeqCst), 7, "its source goes when the lock is free");
    }
}

#[test]
fn a_value_that_comes_to_a_dropped_subscription_before_it_has_left_the_line_is_for_others() {
    let _watchdog = Watchdog::new();
    for capacity in [0, 1] {
        let (sender, receiver) = channel::bounded(capacity);
        let (seen, kept) = (Arc::default(), Kept::nothing());
        let taken = kept.clone();
        let refuses = receiver.clone().filter(move |_| {
            taken.drop_it();
            false
        });
        let first = refuses.on_ready(|_| ());
        kept.keep(note(&receiver, &seen));
        let sent = sender.try_send(1).is_ok();
        drop(first);
        assert_eq!(receiver.try_recv().ok(), sent.then_some(1));
        assert_eq!(*seen.lock().unwrap(), [0; 0], "it has been dropped");
    }
}

#[test]
fn a_predicate_drops_a_future_of_its_channel() {
    for accepts in [true, false] {
        on_each_occasion(accepts, |receiver| {
            let (mut first, mut second) = (next_large(receiver), next_large(receiver));
            assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
            let kept = Kept::nothing();
            kept.keep((first, second));
            Box::new(move || kept.drop_it())
        });
    }
}

#[test]
fn a_predicate_that_panics_after_it_has_dropped_a_subscription_and_a_future() {
    let _watchdog = Watchdog::new();
    let (sender, receiver) = channel::bounded(2);
    for n in 0..3 {
        let (seen, kept) = (Arc::default(), Kept::nothing());
        let taken = kept.clone();
        let panics = receiver.clone().filter(move |_| {
            taken.drop_it();
            panic::resume_unwind(Box::new("on purpose"))
        });
        let subscription = panics.on_ready(|_| panic!("it accepts nothing"));
        let mut futures = [next_large(&receiver), next(&receiver)];
        assert!(futures.iter_mut().all(|future| poll(future).is_pending()));
        kept.keep((futures, note(&receiver, &seen)));
        sender.try_send(n).unwrap();
        drop(subscription);
        assert!(kept.is_empty());
        assert_eq!(receiver.try_recv(), Ok(n), "it is for others");
        assert_eq!(*seen.lock().unwrap(), [0; 0]);
    }
    // Called in the poll of a thread, which gets the panic itself.
    sender.try_send(1).unwrap();
    let mut select = Select::new();
    select.send(&sender);
    let held = Mutex::new(Some(select.try_select().unwrap()));
    let panics = (&receiver).filter(|_| {
        drop(held.lock().unwrap_or_else(|e| e.into_inner()).take());
        panic::resume_unwind(Box::new("on purpose"))
    });
    let boom = panic::catch_unwind(panic::AssertUnwindSafe(|| panics.try_take()));
    assert_eq!(text_of(&*boom.unwrap_err()), "on purpose");
    assert_eq!(receiver.try_recv(), Ok(1));
    assert!(sender.try_send(1).is_ok() && sender.try_send(2).is_ok());
}

#[test]
fn a_subscription_is_dropped_by_its_own_predicate() {
    let _watchdog = Watchdog::new();
    for accepts in [true, false] {
        for capacity in [0, 1] {
            let (sender, receiver) = channel::bounded(capacity);
            let (own, called) = (Kept::nothing(), Arc::new(AtomicUsize::new(0)));
            let (taken, count) = (own.clone(), Arc::clone(&called));
            let text = "what the predicate owns".to_owned();
            let picky = receiver.clone().filter(move |_| {
                taken.drop_it();
                // The predicate's captures are still alive.
                assert_eq!(text, "what the predicate owns");
                accepts
            });
            own.keep(picky.on_ready(move |_| _ = count.fetch_add(1, SeqCst)));
            let sent = sender.try_send(5);
            assert_eq!(called.load(SeqCst), 0, "it was withdrawn before it was called");
            if sent.is_ok() {
                assert_eq!(receiver.try_recv(), Ok(5), "the value is for others");
            }
            assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
            assert!(own.is_empty());
            drop(receiver);
            assert!(sender.try_send(6).is_err_and(|e| e.is_disconnected()), "it keeps no receiver");
        }
    }
}

#[test]
fn a_predicate_drops_what_waits_on_two_channels() {
    let _watchdog = Watchdog::new();
    for accepts in [true, false] {
        let (one, first) = channel::bounded(4);
        let (two, second) = channel::bounded(4);
        let kept = Kept::nothing();
        let taken = kept.clone();
        let picky = first.clone().filter(move |_| {
            taken.drop_it();
            accepts
        });
        let seen = Arc::default();
        let count = Arc::new(AtomicUsize::new(0));
        let called = Arc::clone(&count);
        let subscription = picky.on_ready(move |_| _ = called.fetch_add(1, SeqCst));
        let either = || source::race([first.clone(), second.clone()]);
        let racing = either().on_ready(|_| panic!("dropped before"));
        let mut racing_future = Box::pin(either().to_future());
        assert!(poll(&mut racing_future).is_pending());
        kept.keep((note(&first, &seen), note(&second, &seen), racing, racing_future));
        one.try_send(1).unwrap();
        assert_eq!(count.load(SeqCst), usize::from(accepts));
        two.try_send(2).unwrap();
        assert_eq!(*seen.lock().unwrap(), [0; 0]);
        drop(subscription);
        assert_eq!(first.try_recv().ok(), (!accepts).then_some(1));
        assert_eq!(second.try_recv(), Ok(2));
    }
}

#[test]
fn a_predicate_asked_inside_another_drops_what_waits_on_the_outer_channel() {
    let _watchdog = Watchdog::new();
    let (outer, from_outer) = channel::bounded(4);
    let (inner, from_inner) = channel::bounded(4);
    let kept = Kept::nothing();
    let taken = kept.clone();
    let drops = from_inner.clone().filter(move |_| {
        taken.drop_it();
        true
    });
    let got = Arc::new(Mutex::new(vec![]));
    let (inner_got, outer_got) = (Arc::clone(&got), Arc::clone(&got));
    drops.on_ready(move |n| inner_got.lock().unwrap().push(n.unwrap())).detach();
    let sends = from_outer.clone().filter(move |n| inner.try_send(n + 1).is_ok());
    sends.on_ready(move |n| outer_got.lock().unwrap().push(n.unwrap())).detach();
    let seen = Arc::default();
    let mut future = Box::pin(source::race([from_outer.clone(), from_inner.clone()]).to_future());
    assert!(poll(&mut future).is_pending());
    kept.keep((note(&from_outer, &seen), note(&from_inner, &seen), future));
    outer.try_send(1).unwrap();
    got.lock().unwrap().sort_unstable();
    assert_eq!(*got.lock().unwrap(), [1, 2]);
    assert_eq!(*seen.lock().unwrap(), [0; 0]);
    assert_eq!((from_outer.len(), from_inner.len()), (0, 0));
}

#[test]
fn a_predicate_rings_a_callback_that_also_waits_on_its_own_channel() {
    let _watchdog = Watchdog::new();
    let (one, first) = channel::bounded(4);
    let (two, second) = channel::bounded(4);
    let got = Kept::nothing();
    let sends = first.clone().filter(move |n| two.try_send(n + 1).is_ok());
    let subscription = sends.on_ready(|n| assert_eq!(n, Ok(1)));
    let tell = got.clone();
    let racing = source::race([second.clone(), first.clone()]);
    racing.on_ready(move |n| tell.keep(n.unwrap())).detach();
    one.try_send(1).unwrap();
    assert_eq!(got.0.lock().unwrap().take(), Some(2));
    drop(subscription);
    assert_eq!((first.len(), second.len()), (0, 0));
}

#[test]
fn a_predicate_subscribes_to_its_own_channel() {
    let _watchdog = Watchdog::new();
    let (sender, receiver) = channel::bounded(4);
    let seen = Arc::default();
    let subscriptions = Arc::new(Mutex::new(vec![]));
    let (theirs, kept, clone) = (Arc::clone(&seen), Arc::clone(&subscriptions), receiver.clone());
    let refuses = receiver.clone().filter(move |_| {
        kept.lock().unwrap().push(note(&clone, &theirs));
        false
    });
    refuses.on_ready(|_| ()).detach();
    sender.try_send(1).unwrap();
    assert_eq!(*seen.lock().unwrap(), [1], "it is set up when the lock is free");
    sender.close_now();
    subscriptions.lock().unwrap().clear();
}

#[test]
fn a_predicate_polls_a_future_of_its_own_channel() {
    let _watchdog = Watchdog::new();
    let (one, first) = channel::bounded(4);
    let (two, second) = channel::bounded(4);
    let mut future = Box::pin(source::race([first.clone(), second.clone()]).to_future());
    assert!(poll(&mut future).is_pending());
    two.try_send(7).unwrap();
    let kept = Mutex::new(future);
    one.try_send(1).unwrap();
    let polls = (&first).filter(|_| {
        _ = poll(&mut kept.lock().unwrap_or_else(|poisoned| poisoned.into_inner()));
        true
    });
    let boom = panic::catch_unwind(panic::AssertUnwindSafe(|| polls.try_take()));
    let text = boom.expect_err("to poll it is to use the channel");
    assert!(text_of(&*text).contains("predicate"), "{}", text_of(&*text));
    // Neither the future's value nor the channel's is lost.
    let mut future = kept.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    let got = match poll(&mut future) {
        Poll::Ready(got) => got.unwrap(),
        Poll::Pending => panic!("there are two values"),
    };
    drop(future);
    let left: Vec<_> = first.try_iter().chain(second.try_iter()).collect();
    assert_eq!(left.iter().sum::<u32>() + got, 8, "{got} {left:?}");
}

#[test]
fn a_predicate_drops_a_selected_operation_of_its_channel() {
    let _watchdog = Watchdog::new();
    // Room in the buffer.
    let (sender, receiver) = channel::bounded(3);
    let mut select = Select::new();
    select.send(&sender);
    let held = Mutex::new(Some(select.try_select().unwrap()));
    sender.try_send(1).unwrap();
    let drops = (&receiver).filter(|_| {
        drop(held.lock().unwrap().take());
        true
    });
    assert_eq!(drops.try_take(), Some(Ok(1)));
    (1..=3).for_each(|n| sender.try_send(n).unwrap());
    assert!(sender.try_send(4).is_err());
    // A selected value is put back at the front.
    let mut select = Select::new();
    select.recv(&receiver);
    let held = Mutex::new(Some(select.try_select().unwrap()));
    let drops = (&receiver).filter(|n| {
        assert_eq!(*n, 2);
        drop(held.lock().unwrap().take());
        false
    });
    assert_eq!(drops.try_take(), None);
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [1, 2, 3]);
    (1..=3).for_each(|n| sender.try_send(n).unwrap());
    sender.close();
    assert_eq!(receiver.iter().collect::<Vec<_>>(), [1, 2, 3]);
    assert!(receiver.recv().is_err(), "no value and no room is counted as under way");
}

#[test]
fn a_predicate_drops_a_reservation_of_a_receiver() {
    for workers in [1, 2] {
        run_on(workers, || {
            let (sender, receiver) = channel::bounded(0);
            ecru::scope(|s| {
                // The room is reserved, and then free again.
                let waits = s.spawn_local(|| receiver.recv());
                settle();
                let mut select = Select::new();
                select.send(&sender);
                let held = Mutex::new(Some(select.try_select().unwrap()));
                assert!(sender.try_send(0).is_err(), "the only receiver is reserved");
                ecru::scope(|picky| {
                    let asks = picky.spawn_local(|| {
                        let drops = (&receiver).filter(|_| {
                            drop(held.lock().unwrap().take());
                            true
                        });
                        drops.wait()
                    });
                    settle();
                    sender.try_send(1).unwrap();
                    assert_eq!(asks.join().unwrap(), Ok(Ok(1)));
                });
                settle();
                sender.try_send(2).unwrap();
                assert_eq!(waits.join().unwrap(), Ok(2));
            });
        });
    }
}

#[test]
fn a_predicate_uses_a_selected_operation_of_its_channel_and_loses_nothing() {
    let _watchdog = Watchdog::new();
    let (sender, receiver) = channel::bounded(2);
    for sends in [true, false] {
        sender.try_send(1).unwrap();
        let mut select = Select::new();
        if sends {
            select.send(&sender);
        } else {
            sender.try_send(2).unwrap();
            select.recv(&receiver);
        }
        let held = Mutex::new(Some(select.try_select().unwrap()));
        let uses = (&receiver).filter(|_| {
            let operation = held.lock().unwrap_or_else(|e| e.into_inner()).take().unwrap();
            if sends {
                _ = operation.send(&sender, 9);
            } else {
                _ = operation.recv(&receiver);
            }
            true
        });
        let boom = panic::catch_unwind(panic::AssertUnwindSafe(|| uses.try_take()));
        let text = boom.expect_err("it uses the channel");
        assert!(text_of(&*text).contains("predicate"), "{}", text_of(&*text));
        let left: Vec<_> = receiver.try_iter().collect();
        assert_eq!(left, if sends { vec![1] } else { vec![1, 2] });
        assert!(sender.try_send(3).is_ok() && sender.try_send(4).is_ok(), "all room is there");
        assert_eq!(receiver.try_iter().count(), 2);
    }
}

#[test]
fn predicates_of_two_channels_drop_subscriptions_of_each_other_s_on_two_threads() {
    let _watchdog = Watchdog::new();
    let ends = [channel::bounded::<u32>(4), channel::bounded::<u32>(4)];
    let rounds = 2_000;
    thread::scope(|s| {
        for own in [0, 1] {
            let (sender, receiver) = &ends[own];
            let other = &ends[1 - own].1;
            s.spawn(move || {
                for n in 0..rounds {
                    let (kept, seen) = (Kept::nothing(), Arc::default());
                    let mut future = next(receiver);
                    _ = poll(&mut future);
                    kept.keep((note(other, &seen), note(receiver, &seen), future));
                    let taken = kept.clone();
                    let looks = receiver.filter(|_| {
                        taken.drop_it();
                        true
                    });
                    _ = sender.try_send(n);
                    _ = looks.try_take();
                    kept.drop_it();
                    while receiver.try_recv().is_ok() {}
                }
            });
        }
    });
    for (sender, receiver) in &ends {
        while receiver.try_recv().is_ok() {}
        (0..4).for_each(|n| sender.try_send(n).unwrap());
    }
}

#[test]
fn a_subscription_is_given_a_value_while_a_predicate_elsewhere_drops_it() {
    let _watchdog = Watchdog::new();
    let (sender, receiver) = channel::unbounded::<u32>();
    let (other, from_other) = channel::unbounded::<u32>();
    let called = Arc::new(AtomicUsize::new(0));
    let (rounds, mut received) = (2_000, 0);
    for n in 0..rounds {
        let count = Arc::clone(&called);
        let own = receiver.clone().on_ready(move |_| _ = count.fetch_add(1, SeqCst));
        let own = Mutex::new(Some(own));
        other.try_send(n).unwrap();
        thread::scope(|s| {
            s.spawn(|| sender.try_send(n).unwrap());
            let drops = (&from_other).filter(|_| {
                drop(own.lock().unwrap().take());
                true
            });
            assert_eq!(drops.try_take(), Some(Ok(n)));
        });
        received += receiver.try_iter().count();
    }
    assert_eq!(received + called.load(SeqCst), rounds as usize, "each value reached somebody");
}
