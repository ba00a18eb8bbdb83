//! Barriers, latches and notifications.

use super::{Log, cancelled};
use crate::support::{each_run, ms, run_on, settle, until};
use ecru::Source;
use ecru::source::{self};
use ecru::sync::{Barrier, Latch, Notify, SetOnce};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

/// - given: a `Barrier` for three, tasks on one and on two workers, and threads
/// - when: they arrive, round after round
/// - then: they continue together, and each generation has one leader
#[test]
fn sync_31_barrier() {
    let (barrier, leaders) = (Barrier::new(3), AtomicUsize::new(0));
    let come = || {
        for _ in 0..50 {
            leaders.fetch_add(usize::from(barrier.wait().unwrap().is_leader()), SeqCst);
        }
    };
    let tasks = |count| {
        ecru::scope(|s| {
            for _ in 0..count {
                s.spawn(come);
            }
        });
    };
    each_run(|| tasks(3));
    thread::scope(|t| {
        t.spawn(come);
        run_on(2, || tasks(2));
    });
    assert_eq!(leaders.load(SeqCst), 3 * 50);
    assert!(Barrier::new(0).wait().unwrap().is_leader());
    assert!(Barrier::new(1).wait().unwrap().is_leader());
    // No task continues before the last has come.
    run_on(1, || {
        ecru::scope(|s| {
            let tasks = [(); 2].map(|()| s.spawn(|| barrier.wait()));
            settle();
            assert!(tasks.iter().all(|task| !task.is_finished()));
            assert!(barrier.wait().unwrap().is_leader());
        });
    });
}

/// - given: two of three parties are waiting
/// - when: one is cancelled
/// - then: it leaves, and two more have to arrive
#[test]
fn sync_32_barrier_cancelled() {
    each_run(|| {
        let barrier = Barrier::new(3);
        ecru::scope(|s| {
            let first = s.spawn(|| barrier.wait());
            let second = s.spawn(|| barrier.wait());
            settle();
            first.cancel();
            assert!(!matches!(first.join(), Ok(Ok(_))));
            let third = s.spawn(|| barrier.wait());
            settle();
            assert!(!second.is_finished() && !third.is_finished());
            assert!(cancelled(|| barrier.wait()).is_err());
            let leader = barrier.wait().unwrap().is_leader();
            let others = [second, third].map(|task| task.join().unwrap().unwrap().is_leader());
            assert_eq!(usize::from(leader) + others.into_iter().filter(|one| *one).count(), 1);
        });
    });
}

/// - given: a barrier at which the last party has just arrived
/// - when: a party that waited is cancelled before it has continued
/// - then: it continues with the others
#[test]
fn sync_33_barrier_counts_who_was_there() {
    run_on(1, || {
        let barrier = Barrier::new(2);
        ecru::scope(|s| {
            let first = s.spawn(|| (barrier.wait().is_ok(), ecru::checkpoint().is_err()));
            settle();
            assert!(barrier.wait().unwrap().is_leader());
            first.cancel();
            assert_eq!(first.join().unwrap(), (true, true));
        });
    });
    // At any moment the last party continues, and so do as many as came before.
    run_on(2, || {
        let barrier = Barrier::new(2);
        for _ in 0..200 {
            let (last, here) = (AtomicUsize::new(0), AtomicUsize::new(0));
            ecru::scope(|s| {
                let come = || {
                    here.fetch_add(1, SeqCst);
                    if let Ok(result) = barrier.wait() {
                        last.fetch_add(if result.is_leader() { 1 } else { 10 }, SeqCst);
                    }
                };
                let first = s.spawn(come);
                until(|| here.load(SeqCst) == 1);
                let second = s.spawn(come);
                first.cancel();
                first.join().unwrap();
                if last.load(SeqCst) == 0 {
                    second.cancel();
                }
            });
            assert!([0, 11].contains(&last.into_inner()));
        }
    });
}

/// - given: a `Latch`
/// - when: it is counted down, more often than its count
/// - then: it opens once and for good, for all waiters; a cancelled wait returns `Cancelled`
#[test]
fn sync_34_latch() {
    let body = || {
        let latch = Latch::new(2);
        thread::scope(|t| {
            let waiting = [(); 2].map(|()| t.spawn(|| latch.wait()));
            latch.count_down();
            assert!(!latch.is_open());
            assert!(ecru::timeout(ms(1), || latch.wait()).is_err());
            assert!(cancelled(|| latch.wait()).is_err());
            latch.count_down();
            latch.count_down();
            assert!(waiting.into_iter().all(|one| one.join().unwrap().is_ok()));
        });
        assert_eq!((latch.count(), latch.is_open(), latch.wait()), (0, true, Ok(())));
        assert_eq!(format!("{latch:?}"), "Latch { count: 0 }");
    };
    body();
    each_run(body);
}

/// - given: a `Notify` without a waiter
/// - when: it is notified twice
/// - then: one wait ends, and the next does not
#[test]
fn sync_35_notify_remembers_one() {
    let body = || {
        let notify = Notify::new();
        notify.notify_one();
        notify.notify_one();
        assert_eq!(format!("{notify:?}"), "Notify { notified: true }");
        notify.wait().unwrap();
        assert!(ecru::timeout(ms(1), || notify.wait()).is_err());
        // No waiter is registered any more, and it still remembers one notification.
        notify.notify_one();
        notify.notify_one();
        notify.wait().unwrap();
        assert!(notify.try_take().is_none());
    };
    body();
    each_run(body);
}

/// - given: tasks that wait for a `Notify`
/// - when: `notify_one` is called, then `notify_all`
/// - then: the first waiter continues, then the others, and no notification is remembered
#[test]
fn sync_36_notify_in_order() {
    run_on(1, || {
        let (notify, log) = (Notify::new(), Log::default());
        ecru::scope(|s| {
            let (notify, log) = (&notify, &log);
            for name in ["first", "second", "third", "fourth"] {
                s.spawn_local(move || {
                    if name == "third" {
                        notify.or(source::never()).wait().unwrap();
                    } else {
                        notify.wait().unwrap();
                    }
                    log.note(name);
                });
                settle();
            }
            // Two waiters at once get one notification each.
            notify.notify_one();
            notify.notify_one();
            settle();
            log.0.borrow_mut().sort_unstable();
            log.assert(&["first", "second"]);
            notify.notify_all();
            settle();
            log.0.borrow_mut().sort_unstable();
            log.assert(&["first", "fourth", "second", "third"]);
            notify.notify_all();
            assert!(notify.try_take().is_none());
        });
    });
}

/// - given: a wait for a `Notify`
/// - when: it is cancelled before the notification; after it
/// - then: the notification goes to the next wait; to this wait
#[test]
fn sync_37_notify_cancelled() {
    run_on(1, || {
        let notify = Notify::new();
        ecru::scope(|s| {
            let wait = || (notify.wait().is_ok(), ecru::checkpoint().is_err());
            let [first, second, third] = [(); 3].map(|()| {
                let task = s.spawn(wait);
                settle();
                task
            });
            first.cancel();
            notify.notify_one();
            second.cancel();
            assert_eq!(first.join().unwrap(), (false, true));
            assert_eq!(second.join().unwrap(), (true, true));
            assert!(!third.is_finished());
            notify.notify_one();
            assert_eq!(third.join().unwrap(), (true, false));
        });
        assert!(notify.try_take().is_none());
    });
}

/// - given: `Notify`, `Latch`, `SetOnce` in a race
/// - when: one has an item
/// - then: the race returns it; a notification is taken from one source, and the other types keep
///   their item for good
#[test]
fn sync_38_events_as_sources() {
    let body = || {
        let (notify, latch, set) = (Notify::new(), Latch::new(1), SetOnce::new());
        thread::scope(|t| {
            let task = t.spawn(|| source::race([&notify, &notify]).wait());
            notify.notify_one();
            assert_eq!(task.join().unwrap(), Ok(()));
            assert!(notify.try_take().is_none());

            let both = || {
                let opened = (&latch).or(&notify).wait();
                let value = (&set).or(source::never()).wait();
                (opened, value)
            };
            let tasks = [(); 2].map(|()| t.spawn(both));
            latch.count_down();
            assert!(set.set("for all").is_ok());
            for task in tasks {
                assert_eq!(task.join().unwrap(), (Ok(()), Ok("for all")));
            }
            assert_eq!(both(), (Ok(()), Ok("for all")));
        });
        assert_eq!((latch.try_take(), set.try_take()), (Some(()), Some("for all")));
    };
    body();
    each_run(body);
}
