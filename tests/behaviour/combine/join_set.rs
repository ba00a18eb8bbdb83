//! `JoinSet`: handles in the order in which their tasks end.

use super::{Gates, ORDERS};
use crate::support::{Counted, each_run, ms, panic_text, quiet_panic, run_on, settle, until};
use ecru::{JoinError, JoinSet, Source, select, source};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// - given: tasks that end in another order than that of spawning
/// - when: `join_next` is called
/// - then: the results in the order in which the tasks end
#[test]
fn combine_26_join_set_order() {
    for order in ORDERS {
        each_run(|| {
            let (gates, ended) = (Gates::default(), AtomicUsize::new(0));
            ecru::scope(|s| {
                let set = JoinSet::new(s);
                for n in 0..3 {
                    let (gates, ended) = (&gates, &ended);
                    set.spawn(move || {
                        gates.wait(n);
                        ended.fetch_add(1, SeqCst);
                        n
                    });
                }
                assert_eq!(set.len(), 3);
                for (done, n) in order.into_iter().enumerate() {
                    gates.open(n);
                    assert_eq!(set.join_next().unwrap().unwrap(), n);
                    assert_eq!(ended.load(SeqCst), done + 1);
                }
                assert!(set.join_next().is_none());
            });
        });
    }
    // Tasks that ended unread also come in that order.
    run_on(1, || {
        let (gates, ended) = (Gates::default(), AtomicUsize::new(0));
        ecru::scope(|s| {
            let set = JoinSet::new(s);
            for n in 0..3 {
                let (gates, ended) = (&gates, &ended);
                set.spawn(move || {
                    gates.wait(n);
                    ended.fetch_add(1, SeqCst);
                    n
                });
            }
            for (before, n) in [2, 0, 1].into_iter().enumerate() {
                gates.open(n);
                until(|| ended.load(SeqCst) > before);
                settle();
            }
            let read: Vec<_> = std::iter::from_fn(|| set.join_next()).map(Result::unwrap).collect();
            assert_eq!(read, [2, 0, 1]);
        });
    });
}

/// - given: a set that is being read
/// - when: a task is spawned into it, by the reader or another task
/// - then: its result is returned as well
#[test]
fn combine_27_join_set_late() {
    each_run(|| {
        ecru::scope(|s| {
            let set = JoinSet::new(s);
            set.spawn(|| 0);
            let mut read = Vec::new();
            while let Some(n) = set.join_next() {
                let n = n.unwrap();
                if n < 50 {
                    set.spawn(move || n + 1);
                }
                read.push(n);
            }
            assert_eq!(read, (0..=50).collect::<Vec<_>>());
            // Another task spawns while the reader waits.
            set.spawn(|| {
                settle();
                100
            });
            ecru::scope(|inner| {
                inner.spawn(|| (101..110).for_each(|n| set.spawn(move || n)));
            });
            let mut read: Vec<_> =
                std::iter::from_fn(|| set.join_next()).map(Result::unwrap).collect();
            read.sort_unstable();
            assert_eq!(read, (100..110).collect::<Vec<_>>());
        });
    });
}

/// - given: a set without tasks, or read to the end
/// - when: `join_next` is called
/// - then: `None`; after another spawn it returns a result again
#[test]
fn combine_28_join_set_empty() {
    each_run(|| {
        ecru::scope(|s| {
            let set = JoinSet::new(s);
            for n in 0..3 {
                assert!(set.is_empty());
                assert!(set.join_next().is_none());
                set.spawn(move || n);
                assert_eq!(set.len(), 1);
                assert_eq!(set.join_next().unwrap().unwrap(), n);
            }
            assert!(set.join_next().is_none());
        });
    });
}

/// - given: a task that reads a set
/// - when: it is cancelled, or its deadline passes, in either order
/// - then: `CallerCancelled` once for each request, then `None`; outside the time limit it can
///   continue to read, and nothing is lost
#[test]
fn combine_29_join_set_cancelled() {
    each_run(|| {
        ecru::scope(|s| {
            let go = &AtomicBool::new(false);
            ecru::scope(|inner| {
                let set = JoinSet::new(inner);
                for n in 0..3 {
                    set.spawn(move || {
                        until(|| go.load(SeqCst));
                        n
                    });
                }
                for _ in 0..2 {
                    let in_time = ecru::timeout(ms(1), || {
                        let mut errors = 0;
                        while let Some(result) = set.join_next() {
                            assert!(matches!(result, Err(JoinError::CallerCancelled)));
                            errors += 1;
                        }
                        assert_eq!(errors, 1);
                    });
                    assert!(in_time.is_err());
                }
                go.store(true, SeqCst);
                until(|| set.len() == 3);
                ecru::cancel_scope(|c| {
                    c.cancel();
                    assert!(matches!(set.join_next(), Some(Err(JoinError::CallerCancelled))));
                    assert!(set.join_next().is_none());
                    assert!(set.join_next().is_none());
                });
                let mut read: Vec<_> =
                    std::iter::from_fn(|| set.join_next()).map(Result::unwrap).collect();
                read.sort_unstable();
                assert_eq!(read, [0, 1, 2]);
                // There is nothing to wait for, so there is nothing to report.
                ecru::cancel_scope(|c| {
                    c.cancel();
                    assert!(set.join_next().is_none());
                });
            });
            let _ = s;
        });
    });
}

/// - given: a set with unread and running tasks
/// - when: it is dropped or forgotten
/// - then: the tasks run on, and the scope waits for them
#[test]
fn combine_30_join_set_dropped() {
    each_run(|| {
        for forget in [false, true] {
            let (ran, drops, go) =
                (AtomicUsize::new(0), AtomicUsize::new(0), AtomicBool::new(false));
            ecru::scope(|s| {
                let set = JoinSet::new(s);
                let early = s.spawn(|| ());
                for n in 0..20 {
                    let (ran, drops, go) = (&ran, &drops, &go);
                    set.spawn(move || {
                        if n >= 10 {
                            until(|| go.load(SeqCst));
                        }
                        ecru::checkpoint().unwrap();
                        ran.fetch_add(1, SeqCst);
                        Counted(drops)
                    });
                }
                early.join().unwrap();
                until(|| ran.load(SeqCst) == 10);
                settle();
                drop(set.join_next().unwrap().unwrap());
                if forget {
                    let _ = std::mem::ManuallyDrop::new(set);
                } else {
                    drop(set);
                }
                go.store(true, SeqCst);
            });
            assert_eq!(ran.load(SeqCst), 20);
            // The results are forgotten with the set, as with a forgotten handle.
            assert_eq!(drops.load(SeqCst), if forget { 1 } else { 20 });
        }
    });
}

/// - given: several tasks that read one set
/// - when: everything has been read
/// - then: each result was returned to one of them, and each reader got `None`
#[test]
fn combine_31_join_set_shared() {
    each_run(|| {
        ecru::scope(|s| {
            let set = JoinSet::new(s);
            for n in 0..300_u64 {
                set.spawn(move || {
                    for _ in 0..n % 7 {
                        ecru::yield_now().unwrap();
                    }
                    n
                });
            }
            let sum = ecru::scope(|inner| {
                let read = || {
                    let numbers = std::iter::from_fn(|| set.join_next()).map(Result::unwrap);
                    numbers.sum::<u64>()
                };
                let readers: Vec<_> = (0..5).map(|_| inner.spawn(read)).collect();
                readers.iter().map(|reader| reader.join().unwrap()).sum::<u64>()
            });
            assert_eq!(sum, 299 * 300 / 2);
        });
    });
}

/// - given: tasks of a set that panic
/// - when: their results are read, or not
/// - then: `Panicked`, or the scope panics
#[test]
fn combine_32_join_set_panics() {
    each_run(|| {
        ecru::scope(|s| {
            let set = JoinSet::new(s);
            set.spawn(|| quiet_panic("read"));
            let Some(Err(JoinError::Panicked(payload))) = set.join_next() else { panic!("no") };
            assert_eq!(payload.message(), Some("read"));
        });
        let text = panic_text(|| {
            ecru::scope(|s| JoinSet::new(s).spawn(|| quiet_panic("unread")));
        });
        assert!(text.contains("unread"), "{text}");
    });
}

/// - given: a `JoinSet` of a `try_scope`
/// - when: its tasks return values, or an error
/// - then: values are returned as the tasks end; an error fails the scope, and `join_next` returns
///   the cancellation once and then `None`
#[test]
fn combine_41_join_set_of_a_try_scope() {
    each_run(|| {
        let gates = Gates::default();
        let result = ecru::try_scope(|s| {
            let set = JoinSet::new(s);
            for n in 0..2 {
                let gates = &gates;
                set.spawn(move || {
                    gates.wait(n);
                    Ok::<_, String>(n)
                });
            }
            for n in [1, 0] {
                gates.open(n);
                assert_eq!(set.join_next().unwrap().unwrap(), n);
            }
            assert!(set.join_next().is_none());
            Ok(())
        });
        assert_eq!(result, Ok(()));

        let mut seen = Vec::new();
        let result = ecru::try_scope(|s| {
            let set = JoinSet::new(s);
            set.spawn(|| {
                ecru::sleep(ms(3_600_000)).map_err(|_| String::from("an echo"))?;
                Ok(1)
            });
            set.spawn(|| Err(String::from("the cause")));
            while let Some(next) = set.join_next() {
                seen.push(next.unwrap_err());
            }
            Ok(())
        });
        assert_eq!(result, Err(String::from("the cause")));
        let told = seen.iter().filter(|error| matches!(error, JoinError::CallerCancelled)).count();
        assert_eq!(told, 1, "{seen:?}");
        assert!(
            seen.iter()
                .all(|error| matches!(error, JoinError::CallerCancelled | JoinError::Failed))
        );
    });
}

#[test]
fn combine_29_join_set_cancelled_by_an_older_request_after_a_newer_one() {
    each_run(|| {
        let go = &AtomicBool::new(false);
        ecru::scope(|inner| {
            let sets = [JoinSet::new(inner), JoinSet::new(inner)];
            sets.iter().for_each(|set| set.spawn(move || until(|| go.load(SeqCst))));
            let is_reported = |set: &JoinSet<'_, '_, ()>| match set.join_next() {
                Some(Err(JoinError::CallerCancelled)) => true,
                None => false,
                Some(other) => panic!("{other:?}"),
            };
            ecru::cancel_scope(|older| {
                older.cancel();
                assert!(is_reported(&sets[0]), "now it has its number");
                ecru::shield(|| {
                    ecru::cancel_scope(|newer| {
                        newer.cancel();
                        assert!(is_reported(&sets[1]));
                        assert!(!is_reported(&sets[1]));
                    });
                });
                assert!(is_reported(&sets[1]));
                assert!(!is_reported(&sets[1]));
            });
            go.store(true, SeqCst);
        });
    });
}

/// - given: a set, before and after its tasks have ended
/// - when: `try_join_next` is called, also in a cancelled task and in `no_suspend`
/// - then: the results of those that have ended, in that order; then nothing
#[test]
fn combine_43_join_set_without_waiting() {
    each_run(|| {
        let gates = Gates::default();
        ecru::scope(|s| {
            let set = JoinSet::new(s);
            assert!(set.try_join_next().is_none() && set.is_empty());
            for n in 0..2 {
                let gates = &gates;
                set.spawn(move || {
                    gates.wait(n);
                    n
                });
            }
            assert!(set.try_join_next().is_none() && set.len() == 2);
            for n in [1, 0] {
                gates.open(n);
                let mut next = None;
                until(|| {
                    next = ecru::cancel_scope(|c| {
                        c.cancel();
                        ecru::no_suspend(|| set.try_join_next())
                    });
                    next.is_some()
                });
                assert_eq!(next.unwrap().unwrap(), n);
            }
            assert!(set.try_join_next().is_none() && set.is_empty());
            set.spawn(|| quiet_panic("a member"));
            let mut next = None;
            until(|| {
                next = set.try_join_next();
                next.is_some()
            });
            assert!(matches!(next, Some(Err(JoinError::Panicked(_)))));
        });
    });
}

/// - given: a set as an arm of a select or a race, as a future, or with a callback
/// - when: its tasks end one after another
/// - then: each result is an item, once, also beside a call of `join_next`; then the item is `None`,
///   until another task is spawned
#[test]
fn combine_44_join_set_as_a_source() {
    each_run(|| {
        let gates = Gates::default();
        ecru::scope(|s| {
            let set = JoinSet::new(s);
            assert!(matches!(set.wait(), Ok(None)));
            for n in 0..3 {
                let gates = &gates;
                set.spawn(move || {
                    gates.wait(n);
                    n
                });
            }
            assert!(ecru::timeout(ms(1), || set.wait()).is_err());
            let never = source::never::<u32>();
            let mut got = Vec::new();
            for n in [2, 0] {
                let gates = &gates;
                let opens = s.spawn(move || {
                    settle();
                    gates.open(n);
                });
                select! {
                    wait(never) -> _ => unreachable!("it never has an item"),
                    wait(set) -> result => got.push(result.unwrap().unwrap().unwrap()),
                }
                opens.join().unwrap();
            }
            assert_eq!(got, [2, 0]);
            // Of waits of each kind, one gets the result, and the others learn that none is left.
            ecru::scope(|inside| {
                let readers = [
                    inside.spawn(|| set.join_next().map(Result::unwrap)),
                    inside.spawn(|| set.wait().unwrap().map(Result::unwrap)),
                    inside
                        .spawn(|| ecru::block_on((&set).to_future()).unwrap().map(Result::unwrap)),
                ];
                settle();
                gates.open(1);
                let mut results = readers.map(|reader| reader.join().unwrap());
                results.sort_unstable();
                assert_eq!(results, [None, None, Some(1)]);
            });
            assert!(set.try_take().is_some_and(|item| item.is_none()));
            set.spawn(|| 7);
            assert_eq!(set.wait().unwrap().unwrap().unwrap(), 7);
            let cancelled = ecru::cancel_scope(|c| {
                set.spawn(|| 8);
                c.cancel();
                set.wait().is_err()
            });
            assert!(cancelled && set.join_next().unwrap().unwrap() == 8);
        });
    });
}
