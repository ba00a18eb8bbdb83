//! `s.map` and `s.map_buffered`: results when they are requested.

use super::dawdle;
use crate::support::{each_run, forever, quiet_panic, settle, until};
use ecru::JoinError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// - given: `s.map` whose iterator is not touched
/// - when: the scope ends
/// - then: every item was run
#[test]
fn par_13_scope_map_starts_at_once() {
    each_run(|| {
        let run = AtomicUsize::new(0);
        let taken = AtomicUsize::new(0);
        ecru::scope(|s| {
            let input = (0..20).inspect(|_| {
                taken.fetch_add(1, SeqCst);
            });
            let _unread = s.map(input, |_| {
                run.fetch_add(1, SeqCst);
            });
            assert_eq!(taken.load(SeqCst), 20, "launched by the call");
        });
        assert_eq!(run.load(SeqCst), 20);
    });
}

/// - given: `s.map` over items of which one panics
/// - when: the iterator is read
/// - then: `Panicked` at that index, values at the others
#[test]
fn par_14_error_at_its_own_index() {
    each_run(|| {
        ecru::scope(|s| {
            let divide = |n: i32| if n == 0 { quiet_panic("by zero") } else { 12 / n };
            let check = |results: Vec<Result<i32, JoinError>>| {
                for (n, result) in results.into_iter().enumerate() {
                    match (n, result) {
                        (2, Err(JoinError::Panicked(payload))) => {
                            assert_eq!(payload.message(), Some("by zero"));
                        }
                        (n, result) => assert_eq!(result.unwrap(), [12, 6, 0, 4][n]),
                    }
                }
            };
            check(s.map([1, 2, 0, 3], divide).collect());
            check(s.map_buffered(2, [1, 2, 0, 3], divide).collect());
            // Two collections, as in Virtuoso's map. The shorter one determines the length.
            let sums = s.map([1, 2, 3].into_iter().zip([10, 20]), |(a, b)| a + b);
            assert_eq!(sums.map(Result::unwrap).collect::<Vec<_>>(), [11, 22]);
        });
    });
}

/// - given: `s.map_buffered`
/// - when: no item is taken from it
/// - then: no item is started
#[test]
fn par_15_scope_buffered_is_lazy() {
    each_run(|| {
        let (taken, run) = (AtomicUsize::new(0), AtomicUsize::new(0));
        ecru::scope(|s| {
            let input = (0..20).inspect(|_| {
                taken.fetch_add(1, SeqCst);
            });
            let _unread = s.map_buffered(3, input, |_| {
                run.fetch_add(1, SeqCst);
            });
            settle();
        });
        assert_eq!((taken.load(SeqCst), run.load(SeqCst)), (0, 0));
    });
}

/// - given: endless input and a window of 3
/// - when: five results are taken
/// - then: at most 8 items were pulled
#[test]
fn par_16_scope_buffered_endless() {
    each_run(|| {
        let taken = AtomicUsize::new(0);
        ecru::scope(|s| {
            let input = (0_u64..).inspect(|_| {
                taken.fetch_add(1, SeqCst);
            });
            let five: Vec<u64> =
                s.map_buffered(3, input, |n| n * n).take(5).map(Result::unwrap).collect();
            assert_eq!(five, [0, 1, 4, 9, 16]);
        });
        let taken = taken.load(SeqCst);
        assert!((5..=8).contains(&taken), "{taken}");
    });
}

/// - given: `s.map_buffered` with running items
/// - when: the iterator is dropped or forgotten
/// - then: the scope waits for them, and pulls no more items
#[test]
fn par_17_scope_buffered_dropped() {
    each_run(|| {
        for forget in [false, true] {
            let (taken, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
            ecru::scope(|s| {
                let input = (0..100).inspect(|_| {
                    taken.fetch_add(1, SeqCst);
                });
                let mut results = s.map_buffered(3, input, |_| {
                    dawdle(20);
                    ended.fetch_add(1, SeqCst);
                });
                results.next().unwrap().unwrap();
                if forget {
                    #[expect(clippy::mem_forget, reason = "this test is about it")]
                    std::mem::forget(results);
                } else {
                    drop(results);
                }
            });
            let taken = taken.load(SeqCst);
            assert_eq!(ended.load(SeqCst), taken, "the scope waits for what has begun");
            assert!((3..=4).contains(&taken), "{taken}");
        }
    });
}

/// - given: a task that drains `s.map`
/// - when: it is cancelled
/// - then: the iterator yields its cancellation once, then `None`
#[test]
fn par_22_caller_cancelled() {
    each_run(|| {
        for buffered in [false, true] {
            let waiting = AtomicBool::new(false);
            let results = ecru::cancel_scope(|c| {
                ecru::scope(|s| {
                    s.spawn(|| {
                        until(|| waiting.load(SeqCst));
                        settle();
                        c.cancel();
                    });
                    let item = |n: u32| {
                        if n > 1 {
                            forever();
                        }
                        n
                    };
                    let mut results: Box<dyn Iterator<Item = Result<u32, JoinError>>> = if buffered
                    {
                        Box::new(s.map_buffered(4, 0..10, item))
                    } else {
                        Box::new(s.map(0..10, item))
                    };
                    let values =
                        [results.next(), results.next()].map(|value| value.unwrap().unwrap());
                    assert_eq!(values, [0, 1]);
                    waiting.store(true, SeqCst);
                    let rest = results.by_ref().collect::<Vec<_>>();
                    assert!(results.next().is_none() && results.next().is_none());
                    rest
                })
            });
            // An item that ended before the caller was cancelled still counts, even if the same
            // request cancelled it. Then the caller's cancellation comes, once.
            let (last, before) = results.split_last().unwrap();
            assert!(matches!(last, Err(JoinError::CallerCancelled)), "{results:?}");
            let ended = |result: &Result<_, _>| matches!(result, Ok(_) | Err(JoinError::Cancelled));
            assert!(before.iter().all(ended), "{results:?}");
        }
    });
}

#[test]
fn par_22_caller_cancelled_in_a_chunk() {
    each_run(|| {
        let begun = AtomicUsize::new(0);
        let handles = ecru::cancel_scope(|c| {
            ecru::scope(|s| {
                s.spawn(|| {
                    until(|| begun.load(SeqCst) == 3);
                    c.cancel();
                });
                let handles = s.map_chunks(3, 0..9, |_| {
                    begun.fetch_add(1, SeqCst);
                    forever();
                });
                handles.count()
            })
        });
        assert_eq!(
            (handles, begun.load(SeqCst)),
            (3, 3),
            "its chunk's handles, and no further chunk"
        );
    });
}

/// - given: `s.map` and `s.map_buffered` of a `try_scope`
/// - when: all items succeed; an item of endless input fails
/// - then: the values in the order of the items; the scope returns the error, and the iterator ends
///
/// The failed item's place has `Failed`, and the window starts no more items.
#[test]
fn par_28_try_scope_map_buffered() {
    each_run(|| {
        let sum = ecru::try_scope(|s| {
            let doubled = s.map_buffered(3, 0..10, |n| Ok::<i32, JoinError>(2 * n));
            assert_eq!(doubled.size_hint().0, 0);
            let rest: i32 = s.map([100, 200], Ok).sum::<Result<_, _>>()?;
            Ok(doubled.sum::<Result<i32, _>>()? + rest)
        });
        assert_eq!(sum.unwrap(), 390);

        let begun = AtomicUsize::new(0);
        let mut seen = Vec::new();
        let result = ecru::try_scope(|s| {
            let results = s.map_buffered(2, 0.., |n| {
                begun.fetch_add(1, SeqCst);
                if n == 3 { Err("three") } else { Ok(n) }
            });
            // The input ends only by the failure.
            seen.extend(results);
            Ok(())
        });
        assert_eq!(result, Err("three"));
        let last = seen.pop().unwrap();
        assert!(matches!(last, Err(JoinError::CallerCancelled)), "{last:?}");
        // Items taken ahead may be there, and `Failed`, if it was read before the cancellation was
        // seen.
        let values = seen.iter().map_while(|result| result.as_ref().ok());
        assert!(values.copied().eq(0..seen.iter().filter(|result| result.is_ok()).count() as i32));
        assert!(seen.len() <= 4 && begun.load(SeqCst) <= 6, "{seen:?}");
    });
}

/// - given: a `try_scope` whose `s.map_buffered` has begun its first items
/// - when: the first one fails the scope, and the reader goes on
/// - then: no further item is taken, and the iterator yields the cancellation once, then `None`
#[test]
fn par_39_scope_buffered_takes_nothing_after_a_failure() {
    each_run(|| {
        for window in [1, 3] {
            let mut items = 0..10;
            let result: Result<(), &str> = ecru::try_scope(|s| {
                let mut results = s.map_buffered(window, items.by_ref(), |n: u32| {
                    if n == 0 {
                        return Err("the first one");
                    }
                    forever();
                    Ok(())
                });
                while !matches!(results.next(), Some(Err(JoinError::CallerCancelled))) {}
                assert!(results.next().is_none());
                Ok(())
            });
            assert_eq!(result, Err("the first one"));
            // The failure may come while the window is filled for the first time.
            assert!(items.start <= u32::try_from(window).unwrap(), "{items:?}");
        }
    });
}

/// - given: endless items and the largest window or chunk
/// - when: the reader is cancelled while it takes items
/// - then: it takes no further item
#[test]
fn par_40_scope_buffered_is_cancelled_while_it_takes() {
    each_run(|| {
        for chunks in [false, true] {
            let taken = AtomicUsize::new(0);
            ecru::cancel_scope(|c| {
                // Ends in any case, and would have taken all of them.
                let items = (0..1000).inspect(|n| {
                    taken.fetch_add(1, SeqCst);
                    if *n == 10 {
                        c.cancel();
                    }
                });
                ecru::scope(|s| {
                    if chunks {
                        assert!(s.map_chunks(usize::MAX, items, |_| ()).count() <= 11);
                    } else {
                        let mut results = s.map_buffered(usize::MAX, items, |_| ());
                        assert!(matches!(results.next(), Some(Err(JoinError::CallerCancelled))));
                        assert!(results.next().is_none());
                    }
                });
            });
            assert_eq!(taken.load(SeqCst), 11);
        }
    });
}
