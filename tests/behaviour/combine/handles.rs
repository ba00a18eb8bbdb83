//! The kinds and numbers of handles that each combinator accepts, and where it runs.

use super::{Failure, Outcome, bad, good, good_in, parked};
use crate::support::{Counted, each_run, ms, run_on, settle, until};
use ecru::{JoinError, JoinHandle, JoinSet, Scope, combine};
use rustix::time::{ClockId, clock_gettime};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

/// Lets the other tasks run once, cancelled or not.
fn settle_once() {
    let _ = ecru::yield_now();
}

/// - given: handles by value, by reference, shared; in tuples, arrays, `Vec`s, slices, iterators
/// - when: each combinator is called
/// - then: it compiles and works
#[test]
fn combine_18_kinds_of_lists() {
    /// A user's function that is generic over the handle.
    fn both<'h, H>(one: &'h H, other: &'h H) -> Outcome<(u32, u32)>
    where
        H: combine::Joinable<Output = Outcome>,
    {
        ecru::zip((one, other))
    }
    each_run(|| {
        ecru::scope(|s| {
            let one = || good(s, 1);
            assert_eq!(ecru::zip([one(), one()]), Ok(vec![1, 1]));
            assert_eq!(ecru::zip(vec![one(), one()].into_boxed_slice()), Ok(vec![1, 1]));
            assert_eq!(ecru::zip(&vec![one()]), Ok(vec![1]));
            assert_eq!(ecru::zip(&[one()][..]), Ok(vec![1]));
            assert_eq!(ecru::zip(vec![&one(), &one()]), Ok(vec![1, 1]));
            let list = [one(), good(s, 2)];
            assert_eq!(ecru::zip(list.iter()), Ok(vec![1, 2]));
            let numbers = ecru::join_all((0..3).map(|n| s.spawn(move || n)));
            assert!(matches!(numbers[..], [Ok(0), Ok(1), Ok(2)]));
            assert_eq!(ecru::zip((3..5).map(|n| good(s, n))), Ok(vec![3, 4]));
            assert_eq!(ecru::first_ok(vec![one()].into_iter()), Ok(1));
            assert_eq!(ecru::try_join_all([one()].into_iter()), Ok(vec![1]));
            // Mixed handles from different scopes.
            let outer = one();
            ecru::scope(|inner| {
                assert_eq!(ecru::zip((&outer, good(inner, 2))), Ok((1, 2)));
            });
            assert_eq!(ecru::first_ok((one(), &one())), Ok(1));
            assert_eq!(ecru::first_ok_keep(&[one()]), Ok(1));
            assert_eq!(ecru::try_join_all((one(), &one(), one())), Ok(vec![1, 1, 1]));
            let shared = one().shared();
            for _ in 0..2 {
                // A shared handle returns copies, any number of times.
                assert_eq!(ecru::zip((&shared, &shared.clone())), Ok((1, 1)));
                assert_eq!(ecru::first_ok([&shared, &shared]), Ok(1));
                assert!(matches!(ecru::join_all([shared.clone()])[..], [Ok(Ok(1))]));
            }
            assert_eq!(both(&one(), &one()), Ok((1, 1)));
        });
    });
}

/// - given: a handle that was joined before, or is listed twice
/// - when: each combinator is called
/// - then: `JoinError::Taken`, converted to the error type
#[test]
fn combine_19_taken() {
    each_run(|| {
        ecru::scope(|s| {
            let joined = good(s, 1);
            joined.join().unwrap().unwrap();
            let taken = Failure::None("taken");
            assert_eq!(ecru::zip((&joined, good(s, 2))), Err(taken.clone()));
            assert_eq!(ecru::try_join_all([&joined]), Err(taken.clone()));
            assert_eq!(ecru::first_ok([&joined]), Err(taken.clone()));
            assert_eq!(ecru::first_ok([&joined, &good(s, 3)]), Ok(3));
            let fresh = good(s, 4);
            assert_eq!(ecru::zip([&fresh, &fresh]), Err(taken.clone()));
            // The result was put back.
            assert_eq!(ecru::first_ok([&fresh, &fresh]), Ok(4));
            assert!(matches!(ecru::join_all([&fresh])[..], [Err(JoinError::Taken)]));
        });
    });
}

/// - given: tasks that have already ended
/// - when: each combinator is called
/// - then: it takes their results in the order of listing, without waiting
#[test]
fn combine_20_ended_before() {
    each_run(|| {
        ecru::scope(|s| {
            let fails: Vec<_> = (0..20).map(|n| bad(s, n)).collect();
            let goods: Vec<_> = (0..20).map(good_in(s)).collect();
            until(|| fails.iter().chain(&goods).all(JoinHandle::is_finished));
            assert_eq!(ecru::zip(&fails), Err(Failure::Number(0)));
            assert_eq!(ecru::first_ok(&fails[1..]), Err(Failure::Number(19)));
            assert_eq!(ecru::first_ok_keep(&goods), Ok(0));
            assert_eq!(ecru::first_ok(&goods[1..]), Ok(1));
        });
    });
}

/// - given: 10,000 tasks
/// - when: each combinator is called
/// - then: it ends, in time proportional to their number
#[cfg(not(ecru_baton))] // as many threads as tasks
#[test]
fn combine_21_many_slow() {
    // The processor time of this thread, because other programs take their share only of longer
    // rounds.
    let used = || Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap();
    let round = |count: u32| {
        let start = used();
        ecru::scope(|s| {
            let handles: Vec<_> = (0..count)
                .map(|n| {
                    s.spawn(move || {
                        // All of them park before the first ends.
                        ecru::yield_now().unwrap();
                        if n == count - 1 { Ok(n) } else { Err(Failure::Number(n)) }
                    })
                })
                .collect();
            // Each failure is looked at, and then the only success.
            assert_eq!(ecru::first_ok(handles), Ok(count - 1));
            let handles: Vec<_> = (0..count).map(good_in(s)).collect();
            assert_eq!(ecru::zip(&handles).unwrap().len(), count as usize);
            let losers: Vec<_> =
                (0..count).map(|n| if n == count / 2 { good(s, n) } else { parked(s) }).collect();
            assert_eq!(ecru::first_ok(losers), Ok(count / 2));
            let handles: Vec<_> = (0..count).map(good_in(s)).collect();
            assert_eq!(ecru::try_join_all(handles).unwrap().len(), count as usize);
            let handles: Vec<_> = (0..count).map(good_in(s)).collect();
            assert_eq!(ecru::join_all(handles).len(), count as usize);
            let set = JoinSet::new(s);
            (0..count).for_each(|n| set.spawn(move || n));
            let sum: u64 =
                std::iter::from_fn(|| set.join_next()).map(|n| u64::from(n.unwrap())).sum();
            assert_eq!(sum, u64::from(count) * u64::from(count - 1) / 2);
        });
        used() - start
    };
    each_run(|| {
        // Stacks are mapped the first time.
        round(10_000);
        let quickest = |count| (0..3).map(|_| round(count)).min().unwrap();
        let (few, many) = (quickest(1_250), quickest(10_000));
        println!("1,250: {few:?}; 10,000: {many:?}");
        // The number is eight times as large. Quadratic work would take 64 times as long.
        assert!(many < 32 * few, "{few:?} for 1,250, {many:?} for 10,000");
    });
}

/// - given: handles lent to a plain thread
/// - when: each combinator is called
/// - then: the thread is blocked until the combinator has its result
#[test]
fn combine_24_thread() {
    run_on(2, || {
        ecru::scope(|s| {
            let late = |value| {
                s.spawn(move || {
                    // The slower one of `first_ok` is cancelled.
                    let _ = ecru::sleep(ms(2));
                    Ok::<u32, Failure>(value)
                })
            };
            let handles: Vec<_> = (0..12).map(late).collect();
            let set = JoinSet::new(s);
            set.spawn(|| ecru::sleep(ms(3)).map(|()| 5));
            let parked = [parked(s)];
            ecru::unblock(|| {
                thread::scope(|threads| {
                    threads.spawn(|| {
                        assert_eq!(ecru::zip((&handles[0], &handles[1])), Ok((0, 1)));
                        assert_eq!(ecru::first_ok_keep(&handles[2..4]).unwrap() / 2, 1);
                        assert_eq!(ecru::first_ok(&handles[4..6]).unwrap() / 2, 2);
                        assert_eq!(ecru::try_join_all(&handles[6..8]), Ok(vec![6, 7]));
                        assert_eq!(ecru::join_all(&handles[8..]).len(), 4);
                    });
                    threads.spawn(|| {
                        assert_eq!(set.join_next().unwrap().unwrap(), Ok(5));
                        assert!(set.join_next().is_none());
                        let limit = ecru::timeout(ms(1), || ecru::zip(&parked));
                        assert!(limit.is_err());
                        parked[0].cancel();
                    });
                });
            });
        });
    });
}

/// - given: combinators in tasks that are themselves combined
/// - when: they run
/// - then: values and failures reach the outer combinator
#[test]
fn combine_25_nested() {
    each_run(|| {
        let combined = ecru::scope(|s| {
            let inner = s.spawn(|| {
                ecru::scope(|inner| {
                    let pair = ecru::zip((good(inner, 1), good(inner, 2)))?;
                    let one = ecru::first_ok((bad(inner, 3), good(inner, 4), parked(inner)))?;
                    Ok::<_, Failure>((pair, one))
                })
            });
            let failing = s.spawn(|| {
                ecru::scope(|inner| {
                    ecru::zip((parked_until_cancelled(inner), bad(inner, 5))).map(|_| ())
                })
            });
            let rescued =
                s.spawn(|| ecru::scope(|inner| ecru::first_ok((bad(inner, 6), good(inner, 7)))));
            assert_eq!(failing.join().unwrap(), Err(Failure::Number(5)));
            ecru::zip((inner, rescued))
        });
        assert_eq!(combined, Ok((((1, 2), 4), 7)));
    });
}

/// Spawns a task that ends with its scope's body, because nothing else waits for it.
fn parked_until_cancelled<'scope>(s: &'scope Scope<'scope, '_>) -> JoinHandle<'scope, Outcome> {
    let handle = s.spawn(|| {
        settle();
        Ok(0)
    });
    assert!(handle.name().is_none());
    handle
}

/// - given: two workers, tasks that end, callers that are cancelled, sets that are dropped, all at
///   random moments
/// - when: they run for a while
/// - then: every result is dropped exactly once, and nothing hangs
#[test]
fn combine_39_against_each_other() {
    run_on(2, || {
        let (made, drops) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let make = || {
            made.fetch_add(1, SeqCst);
            Counted(&drops)
        };
        for seed in 0..150 {
            let mut random = fastrand::Rng::with_seed(seed);
            ecru::scope(|s| {
                let handles: Vec<_> = (0..random.usize(1..12))
                    .map(|_| {
                        let (turns, fails) = (random.u32(0..6), random.u32(0..4) == 0);
                        s.spawn(move || {
                            for _ in 0..turns {
                                ecru::yield_now()?;
                            }
                            if fails { Err(JoinError::Failed) } else { Ok(make()) }
                        })
                    })
                    .collect();
                let set = JoinSet::new(s);
                for _ in 0..random.u32(0..6) {
                    let turns = random.u32(0..6);
                    set.spawn(move || {
                        (0..turns).for_each(|_| settle_once());
                        make()
                    });
                }
                ecru::scope(|inner| {
                    let combiners: Vec<_> = (0..3)
                        .map(|_| {
                            let (kind, handles, set) = (random.u32(0..6), &handles, &set);
                            inner.spawn(move || match kind {
                                0 => drop(ecru::zip(handles)),
                                1 => drop(ecru::first_ok(handles)),
                                2 => drop(ecru::first_ok_keep(handles)),
                                3 => drop(ecru::try_join_all(handles)),
                                4 => drop(ecru::join_all(handles)),
                                _ => drop(set.join_next()),
                            })
                        })
                        .collect();
                    for combiner in combiners {
                        (0..random.u32(0..4)).for_each(|_| settle_once());
                        if random.bool() {
                            combiner.cancel();
                        }
                    }
                });
            });
            assert_eq!(drops.load(SeqCst), made.load(SeqCst), "seed {seed}");
        }
        assert!(made.load(SeqCst) > 300);
    });
}
