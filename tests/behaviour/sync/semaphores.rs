//! Permits: limits, the order of waiters, and semaphores as sources.

use super::{Log, everywhere};
use crate::support::{HOUR, each_run, forever, ms, panic_text, quiet_panic, run_on, settle, until};
use ecru::source::{self, Either, WaitList};
use ecru::sync::{Semaphore, TryAcquireError};
use ecru::{CancelReason, Cancelled, Source, channel, select};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

/// - given: a `Semaphore` of three, tasks on one and on two workers
/// - when: they acquire
/// - then: at most three hold a permit, and returned permits are reused
#[test]
fn sync_20_semaphore_limits() {
    let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let three = Semaphore::new(3);
    everywhere(10, || {
        for _ in 0..20 {
            let _permit = three.acquire().unwrap();
            most.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
            ecru::yield_now().unwrap();
            now.fetch_sub(1, SeqCst);
        }
    });
    assert_eq!((most.into_inner(), three.available_permits()), (3, 3));
    assert_eq!(format!("{three:?}"), "Semaphore { available_permits: 3 }");
}

/// - given: a semaphore of two, both taken
/// - when: a third task acquires in a `timeout`, and again after a release
/// - then: `Elapsed`, then a permit
#[test]
fn sync_21_acquire_times_out() {
    let body = || {
        let two = Semaphore::new(2);
        let (first, second) = (two.acquire().unwrap(), two.try_acquire().unwrap());
        assert!(two.try_acquire().is_err());
        assert!(ecru::timeout(ms(2), || two.acquire().map(drop)).is_err());
        drop(first);
        let third = ecru::timeout(HOUR, || two.acquire()).unwrap().unwrap();
        assert_eq!(two.available_permits(), 0);
        drop((second, third));
        assert_eq!(two.available_permits(), 2);
    };
    body();
    each_run(body);
}

/// - given: a semaphore of one, 100 tasks
/// - when: each adds 1,000 times under a permit
/// - then: nothing is lost
#[test]
fn sync_22_binary_semaphore() {
    each_run(|| {
        let (one, sum) = (Semaphore::new(1), AtomicUsize::new(0));
        ecru::scope(|s| {
            for _ in 0..100 {
                s.spawn(|| {
                    for _ in 0..1000 {
                        let _permit = one.acquire().unwrap();
                        // This is a load and a store. Two tasks at a time would lose some
                        // increments.
                        sum.store(sum.load(SeqCst) + 1, SeqCst);
                    }
                });
            }
        });
        assert_eq!(sum.into_inner(), 100_000);
    });
}

/// - given: a semaphore of 100
/// - when: 1,000 tasks acquire and hold their permits, then all are cancelled
/// - then: exactly 100 have a permit, and 900 get `Cancelled`
#[test]
fn sync_23_a_thousand_for_a_hundred() {
    each_run(|| {
        let hundred = Semaphore::new(100);
        let (have, begun) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let refused = ecru::scope(|s| {
            let tasks: Vec<_> = (0..1000)
                .map(|_| {
                    s.spawn(|| {
                        begun.fetch_add(1, SeqCst);
                        let permit = hundred.acquire()?;
                        have.fetch_add(1, SeqCst);
                        forever();
                        permit.forget();
                        Ok::<_, Cancelled>(())
                    })
                })
                .collect();
            until(|| begun.load(SeqCst) == 1000 && have.load(SeqCst) == 100);
            tasks.iter().for_each(ecru::JoinHandle::cancel);
            tasks.iter().filter(|task| task.join().unwrap().is_err()).count()
        });
        assert_eq!((refused, have.into_inner(), hundred.available_permits()), (900, 100, 0));
    });
}

/// - given: a waiter for many permits, and others behind it that want one
/// - when: permits come one by one
/// - then: they are kept for the first waiter; no task overtakes it, not even by `try_acquire`
#[test]
fn sync_24_many_is_not_starved() {
    run_on(1, || {
        let (semaphore, log) = (Semaphore::new(2), Log::default());
        ecru::scope(|s| {
            let (semaphore, log) = (&semaphore, &log);
            for (name, count) in [("five", 5), ("one", 1), ("two", 2), ("none", 0)] {
                s.spawn_local(move || {
                    semaphore.acquire_many(count).unwrap().forget();
                    log.note(name);
                });
                settle();
            }
            log.assert(&["none"]);
            for _ in 0..2 {
                assert!(semaphore.try_acquire().is_err());
                semaphore.add_permits(1);
                settle();
                assert_eq!(semaphore.available_permits(), 0);
                log.assert(&["none"]);
            }
            semaphore.add_permits(2);
            settle();
            log.0.borrow_mut()[1..].sort_unstable();
            log.assert(&["none", "five", "one"]);
            semaphore.add_permits(3);
        });
        log.assert(&["none", "five", "one", "two"]);
        assert_eq!(semaphore.available_permits(), 1);
    });
}

/// - given: a waiter for many permits that has some already
/// - when: it is cancelled
/// - then: its permits go to the waiters behind it
#[test]
fn sync_25_leaving_gives_back() {
    each_run(|| {
        let semaphore = Semaphore::new(3);
        ecru::scope(|s| {
            let five = s.spawn(|| semaphore.acquire_many(5).map(drop));
            until(|| semaphore.available_permits() == 0);
            let two = s.spawn(|| semaphore.acquire_many(2).map(drop));
            settle();
            five.cancel();
            assert_eq!(two.join().unwrap(), Ok(()));
            assert!(five.join().unwrap().is_err());
        });
        assert_eq!(semaphore.available_permits(), 3);
    });
}

/// - given: a task that has been given a permit and has not run yet
/// - when: it is cancelled
/// - then: it has the permit, and the next wait is cancelled
#[test]
fn sync_26_permit_wins() {
    run_on(1, || {
        let semaphore = Semaphore::new(0);
        ecru::scope(|s| {
            let direct = s.spawn(|| {
                let permit = semaphore.acquire();
                (permit.is_ok(), ecru::checkpoint().is_err())
            });
            let raced = s.spawn(|| {
                let permit = (&semaphore).or(source::never()).wait();
                (permit.is_ok(), ecru::checkpoint().is_err())
            });
            settle();
            semaphore.add_permits(2);
            direct.cancel();
            raced.cancel();
            assert_eq!(direct.join().unwrap(), (true, true));
            assert_eq!(raced.join().unwrap(), (true, true));
        });
        assert_eq!(semaphore.available_permits(), 2);
    });
}

/// - given: a permit
/// - when: it goes to another thread, outlives the semaphore's handles, is split or forgotten
/// - then: a dropped permit is returned once, and a forgotten one is not
#[test]
fn sync_27_permits_are_owned() {
    let semaphore = Semaphore::new(3);
    let other = semaphore.clone();
    let mut three = semaphore.acquire_many(3).unwrap();
    drop(semaphore);
    let one = three.split(1).unwrap();
    assert!(three.split(3).is_none());
    thread::spawn(move || drop(one)).join().unwrap();
    assert_eq!((three.count(), other.available_permits()), (2, 1));
    assert_eq!(format!("{three:?}"), "Permit { count: 2 }");
    three.forget();
    assert_eq!(other.available_permits(), 1);
    let last = other.acquire().unwrap();
    drop(other);
    drop(last);
    // A panic returns the permit, too.
    each_run(|| {
        let semaphore = Semaphore::new(1);
        ecru::scope(|s| {
            let task = s.spawn(|| {
                let _permit = semaphore.acquire().unwrap();
                quiet_panic("with a permit");
            });
            assert!(task.join().is_err());
            assert_eq!(semaphore.available_permits(), 1);
        });
    });
}

/// - given: more permits than `MAX_PERMITS`
/// - when: they are requested
/// - then: it panics, and the semaphore is unchanged
#[test]
fn sync_28_semaphore_bounds() {
    let most = Semaphore::new(Semaphore::MAX_PERMITS);
    assert!(panic_text(|| most.add_permits(1)).contains("MAX_PERMITS"));
    assert!(panic_text(|| most.add_permits(usize::MAX)).contains("MAX_PERMITS"));
    assert!(panic_text(|| Semaphore::new(Semaphore::MAX_PERMITS + 1)).contains("MAX_PERMITS"));
    assert_eq!(most.available_permits(), Semaphore::MAX_PERMITS);
    let all = most.acquire_many(Semaphore::MAX_PERMITS).unwrap();
    assert!(most.try_acquire_many(1).is_err());
    drop(all);
    assert_eq!(most.available_permits(), Semaphore::MAX_PERMITS);
    assert!(panic_text(|| drop(most.acquire_many(usize::MAX))).contains("MAX_PERMITS"));
    let few = Semaphore::new(1);
    assert!(ecru::timeout(ms(1), || few.acquire_many(2).map(drop)).is_err());
    assert_eq!(few.available_permits(), 1);
    assert_eq!(most.available_permits(), Semaphore::MAX_PERMITS);
}

/// A source as users write it: it forwards the required methods, and knows nothing of handing over.
struct Wrapper<'a>(&'a Semaphore);

impl Source for Wrapper<'_> {
    type Item = ecru::sync::Permit;

    fn try_take(&self) -> Option<Self::Item> {
        self.0.try_take()
    }

    fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a WaitList)) {
        self.0.waiters(each);
    }
}

/// - given: races and wrappers over semaphores and channels
/// - when: one has an item
/// - then: one permit is taken from one semaphore; permits that were not taken are still there
#[test]
fn sync_29_semaphore_as_source() {
    let body = || {
        let (a, b) = (Semaphore::new(0), Semaphore::new(0));
        let (sender, receiver) = channel::unbounded();
        thread::scope(|t| {
            let task = t.spawn(|| source::race([&a, &b, &a]).wait().unwrap().count());
            b.add_permits(1);
            assert_eq!(task.join().unwrap(), 1);
            assert_eq!((a.available_permits(), b.available_permits()), (0, 1));

            let task = t.spawn(|| match source::either(&a, &receiver).wait().unwrap() {
                Either::Left(permit) => permit.count(),
                Either::Right(value) => value.unwrap(),
            });
            sender.send(7).unwrap();
            assert_eq!(task.join().unwrap(), 7);

            let task = t.spawn(|| source::race([Wrapper(&a), Wrapper(&a)]).wait().map(drop));
            let direct = t.spawn(|| a.acquire().map(drop));
            a.add_permits(1);
            assert_eq!(task.join().unwrap(), Ok(()));
            assert_eq!(direct.join().unwrap(), Ok(()));
            assert_eq!((a.available_permits(), b.available_permits()), (1, 1));
        });
        // Both have a permit, and one is taken.
        drop(source::race([&a, &b]).wait().unwrap());
        source::race([&a, &b]).wait().unwrap().forget();
        assert_eq!(a.available_permits() + b.available_permits(), 1);
    };
    body();
    each_run(body);
}

/// - given: tasks that acquire, and tasks that wait for one of several semaphores
/// - when: permits come
/// - then: they are served in the order in which they came
#[test]
fn sync_30_semaphore_sources_in_line() {
    run_on(1, || {
        let (semaphore, other, log) = (Semaphore::new(0), Semaphore::new(0), Log::default());
        ecru::scope(|s| {
            let (semaphore, other, log) = (&semaphore, &other, &log);
            let kinds = ["acquire", "race", "wrapper", "acquire", "gone", "race"];
            let mut gone = None;
            for kind in kinds {
                let task = s.spawn_local(move || {
                    let permit = match kind {
                        "race" | "gone" => source::race([other, semaphore]).wait(),
                        "wrapper" => Wrapper(semaphore).wait(),
                        _ => semaphore.acquire(),
                    };
                    if let Ok(permit) = permit {
                        permit.forget();
                        log.note(kind);
                    }
                });
                if kind == "gone" {
                    gone = Some(task);
                }
                settle();
            }
            gone.unwrap().cancel();
            for seen in 1..=5 {
                semaphore.add_permits(1);
                settle();
                assert_eq!(log.0.borrow().len(), seen);
            }
        });
        log.assert(&["acquire", "race", "wrapper", "acquire", "race"]);
        assert_eq!((semaphore.available_permits(), other.available_permits()), (0, 0));
    });
}

/// - given: a semaphore with waiters for one permit and for many, in a race, and with permits that are
///   held
/// - when: it is closed, and closed again
/// - then: waits for permits alone return `Cancelled`, as do later ones, although their tasks are not
///   cancelled; the race goes on; permits that are held can be used and given back
#[test]
fn sync_82_semaphore_closes() {
    run_on(1, || {
        let (semaphore, other) = (Semaphore::new(3), Semaphore::new(0));
        ecru::scope(|s| {
            let mut held = semaphore.acquire_many(2).unwrap();
            let many = s.spawn_local(|| {
                let error = semaphore.acquire_many(3).map(drop).unwrap_err();
                (error.reason(), ecru::checkpoint().is_ok())
            });
            settle();
            let one = s.spawn_local(|| semaphore.acquire().map(drop));
            let race = s.spawn_local(|| source::race([&semaphore, &other]).wait().map(drop));
            settle();
            assert!(!semaphore.is_closed() && !many.is_finished() && !one.is_finished());
            semaphore.close();
            semaphore.clone().close();
            assert_eq!(many.join().unwrap(), (CancelReason::Explicit, true));
            assert_eq!(one.join().unwrap().unwrap_err().reason(), CancelReason::Explicit);
            assert!(semaphore.acquire().is_err() && semaphore.is_closed());
            assert_eq!(semaphore.try_acquire().unwrap_err(), TryAcquireError::Closed);
            assert_eq!(semaphore.try_acquire_many(0).unwrap_err(), TryAcquireError::Closed);
            assert!(semaphore.try_take().is_none());
            drop(held.split(1));
            drop(held);
            semaphore.add_permits(1);
            settle();
            assert!(!race.is_finished());
            assert_eq!(semaphore.available_permits(), 4);
            assert!(ecru::timeout(ms(1), || Source::wait(&semaphore)).is_err());
            let none = select! { wait(semaphore) -> _ => false, default => true };
            assert!(none);
            other.add_permits(1);
            assert_eq!(race.join().unwrap(), Ok(()));
        });
    });
}

/// - given: many waits for permits, on tasks and threads
/// - when: permits come and the semaphore is closed at the same time
/// - then: each wait ends, with a permit or with `Cancelled`
#[test]
fn sync_83_semaphore_closes_under_load() {
    crate::support::everywhere(|side| {
        for _ in 0..20 {
            let semaphore = Semaphore::new(0);
            let (got, ()) = side.many(
                4,
                |number| semaphore.acquire_many(1 + number % 2).map(|permit| permit.forget()),
                || {
                    semaphore.add_permits(2);
                    semaphore.close();
                },
            );
            let count = got.iter().filter(|got| got.is_ok()).count();
            assert!(count <= 2);
            assert!(semaphore.available_permits() <= 2 - count);
        }
    });
}

/// - given: permits of one semaphore and of another
/// - when: they are merged
/// - then: they are given back together; it panics, and no permit is lost
#[test]
fn sync_84_permits_merge() {
    let (five, other) = (Semaphore::new(5), Semaphore::new(1));
    let mut permits = five.acquire_many(2).unwrap();
    permits.merge(five.clone().acquire().unwrap());
    permits.merge(five.acquire_many(0).unwrap());
    assert_eq!((permits.count(), five.available_permits()), (3, 2));
    let text = panic_text(|| permits.merge(other.acquire().unwrap()));
    assert!(text.contains("different semaphores"), "{text}");
    assert_eq!((permits.count(), other.available_permits()), (3, 1));
    drop(permits);
    assert_eq!(five.available_permits(), 5);
}
