//! Predicates that panic, wait, or use a channel, including their own.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use ecru::Source;
use ecru::channel::{self, Receiver, Sender};

use crate::common::until;
use crate::{OnDrop, Watchdog, at_once, ms, run_on, settle, text_of};

#[test]
fn a_predicate_that_panics_in_the_waiter_s_own_look() {
    at_once(1, |_| {
        let (sender, receiver) = channel::unbounded();
        sender.send(1).unwrap();
        let picky = (&receiver).filter(|_: &i32| panic::resume_unwind(Box::new("on purpose")));
        let boom = panic::catch_unwind(AssertUnwindSafe(|| picky.wait()));
        assert_eq!(text_of(&*boom.unwrap_err()), "on purpose");
        assert_eq!(receiver.try_recv(), Ok(1), "nothing is lost, nothing locked");
    });
}

#[test]
fn a_predicate_that_panics_at_the_sender_s() {
    for workers in [1, 2] {
        for capacity in [0, 1] {
            run_on(workers, || {
                let (sender, receiver) = channel::bounded(capacity);
                let begun = AtomicBool::new(false);
                ecru::scope(|s| {
                    let waiting = s.spawn(|| {
                        begun.store(true, SeqCst);
                        let picky = (&receiver)
                            .filter(|_: &i32| panic::resume_unwind(Box::new("on purpose")));
                        panic::catch_unwind(AssertUnwindSafe(|| picky.wait()))
                    });
                    while !begun.load(SeqCst) {
                        let _ = ecru::yield_now();
                    }
                    settle();
                    ecru::sleep(ms(2)).unwrap();
                    let other = s.spawn(|| receiver.recv());
                    // The sender is not affected, and its value goes to the next receiver.
                    sender.send(7).unwrap();
                    assert_eq!(other.join().unwrap(), Ok(7));
                    // On a busy machine the wait may begin after that value.
                    until(|| {
                        let _ = sender.try_send(8);
                        waiting.is_finished()
                    });
                    let payload = waiting.join().unwrap().unwrap_err();
                    assert_eq!(text_of(&*payload), "on purpose");
                });
            });
        }
    }
}

#[test]
fn a_predicate_that_waits_is_refused() {
    run_on(1, || {
        let (sender, receiver) = channel::unbounded();
        sender.send(1).unwrap();
        let idle = channel::never::<()>();
        let waits = (&receiver).filter(|_: &i32| idle.recv_timeout(ms(1)).is_ok());
        let boom = panic::catch_unwind(AssertUnwindSafe(|| waits.try_take()));
        assert!(text_of(&*boom.unwrap_err()).contains("no_suspend"));
        assert_eq!(receiver.try_recv(), Ok(1));
    });
}

/// A predicate's use of its own channel.
type Use = fn(&Sender<i32>, &Receiver<i32>);

const USES: [(&str, Use); 8] = [
    ("try_send", |sender, _| _ = sender.try_send(2)),
    ("try_recv", |_, receiver| _ = receiver.try_recv()),
    ("len", |sender, _| _ = sender.len()),
    ("is_full", |_, receiver| _ = receiver.is_full()),
    ("close", |sender, _| sender.close()),
    ("close_now", |_, receiver| receiver.close_now()),
    ("try_take", |_, receiver| _ = receiver.try_take()),
    ("debug", |sender, _| drop(format!("{sender:?}"))),
];

#[test]
fn a_predicate_that_uses_its_own_channel_panics_and_does_not_hang() {
    for (name, uses) in USES {
        let _watchdog = Watchdog::new();
        let (sender, receiver) = channel::unbounded();
        sender.send(1).unwrap();
        let reenters = (&receiver).filter(|_: &i32| {
            uses(&sender, &receiver);
            true
        });
        let boom = panic::catch_unwind(AssertUnwindSafe(|| reenters.wait()));
        let text = boom.expect_err(name);
        assert!(text_of(&*text).contains("predicate"), "{name}: {:?}", text_of(&*text));
        assert_eq!(receiver.try_recv(), Ok(1), "{name}: nothing is lost, nothing locked");
    }
}

#[test]
fn a_predicate_that_uses_its_own_channel_at_the_sender_s_panics_in_the_waiter() {
    for (name, uses) in USES {
        run_on(1, || {
            let (sender, receiver) = channel::unbounded();
            ecru::scope(|s| {
                let waiting = s.spawn_local(|| {
                    let reenters = (&receiver).filter(|_: &i32| {
                        uses(&sender, &receiver);
                        true
                    });
                    panic::catch_unwind(AssertUnwindSafe(|| reenters.wait())).map_err(drop)
                });
                settle();
                sender.send(1).unwrap();
                assert!(waiting.join().unwrap().is_err(), "{name}");
                assert_eq!(receiver.try_recv(), Ok(1), "{name}: nothing is lost");
            });
        });
    }
}

#[test]
fn a_predicate_may_use_another_channel() {
    at_once(1, |_| {
        let (sender, receiver) = channel::unbounded();
        let (log, logged) = channel::unbounded();
        (1..=3).for_each(|n| sender.send(n).unwrap());
        let picky = (&receiver).filter(|n: &i32| log.try_send(*n).is_ok() && *n == 1);
        assert_eq!(picky.wait(), Ok(Ok(1)));
        assert_eq!(picky.try_take(), None);
        assert_eq!(logged.try_iter().collect::<Vec<_>>(), [1, 2]);
    });
}

#[test]
fn a_predicate_that_uses_its_own_channel_panics_at_whichever_time_it_comes() {
    // A lock is biased to its thread after a number of consecutive uses. That happens during one of
    // these.
    let (sender, receiver) = channel::unbounded();
    sender.send(1).unwrap();
    let mut panicked = 0;
    for _ in 0..200 {
        let reenters = (&receiver).filter(|_: &i32| {
            _ = sender.len();
            true
        });
        panicked +=
            u32::from(panic::catch_unwind(AssertUnwindSafe(|| reenters.try_take())).is_err());
    }
    assert_eq!(panicked, 200);
    assert_eq!(receiver.try_recv(), Ok(1));
}

#[test]
fn the_payload_of_a_predicate_that_panics_is_dropped_without_the_lock() {
    // The second look is made when the wait is registered.
    at_once(1, |_| {
        let (sender, receiver) = channel::unbounded();
        sender.send(1).unwrap();
        let looks = AtomicUsize::new(0);
        let gone = Arc::new(AtomicUsize::new(0));
        let picky = (&receiver).filter(|_: &i32| {
            if looks.fetch_add(1, SeqCst) == 1 {
                let (sender, gone) = (sender.clone(), Arc::clone(&gone));
                panic::resume_unwind(Box::new(OnDrop(move || {
                    gone.fetch_add(sender.len(), SeqCst);
                })));
            }
            looks.load(SeqCst) > 1
        });
        assert_eq!(picky.wait(), Ok(Ok(1)));
        assert_eq!(gone.load(SeqCst), 1);
    });
}

#[test]
fn the_payload_for_a_wait_that_ended_meanwhile_is_dropped_without_the_lock() {
    run_on(1, || {
        let (sender, receiver) = channel::unbounded::<i32>();
        let (other, from_other) = channel::unbounded::<i32>();
        let gone = Arc::new(AtomicUsize::new(0));
        ecru::scope(|s| {
            let racing = s.spawn_local(|| {
                let picky = (&receiver).filter(|_| {
                    // The wait ends while the predicate is called, and then the predicate panics.
                    other.try_send(2).unwrap();
                    let (sender, gone) = (sender.clone(), Arc::clone(&gone));
                    panic::resume_unwind(Box::new(OnDrop(move || {
                        gone.fetch_add(1 + sender.len(), SeqCst);
                    })));
                });
                picky.or(&from_other).wait()
            });
            settle();
            sender.send(1).unwrap();
            assert_eq!(racing.join().unwrap(), Ok(Ok(2)));
        });
        assert!(gone.load(SeqCst) > 0);
        assert_eq!(receiver.try_recv(), Ok(1));
    });
}

#[test]
fn two_predicates_that_use_each_other_s_channel_panic_and_do_not_hang_slow() {
    let _watchdog = Watchdog::new();
    let (one, first) = channel::unbounded::<i32>();
    let (two, second) = channel::unbounded::<i32>();
    one.send(1).unwrap();
    two.send(2).unwrap();
    let inside = std::sync::Barrier::new(2);
    let panicked = AtomicUsize::new(0);
    thread::scope(|threads| {
        for (own, other) in [(&first, &second), (&second, &first)] {
            let (inside, panicked) = (&inside, &panicked);
            threads.spawn(move || {
                let crossing = own.filter(|_: &i32| {
                    inside.wait();
                    other.len() > 5
                });
                let looked = panic::catch_unwind(AssertUnwindSafe(|| crossing.try_take()));
                panicked.fetch_add(usize::from(looked.is_err()), SeqCst);
            });
        }
    });
    assert!(panicked.load(SeqCst) >= 1, "one gives way, and then the other gets through");
    assert_eq!((first.try_recv(), second.try_recv()), (Ok(1), Ok(2)));
}
