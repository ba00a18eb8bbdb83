//! `par::map_until`: everything at once, until a deadline.

use crate::support::{Counted, HOUR, each_run, forever, ms, panic_text, quiet_panic, until};
use ecru::{CancelReason, par};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::time::Instant;

fn in_an_hour() -> Instant {
    Instant::now() + HOUR
}

/// Calls `attempt` with later and later deadlines until what it has to do before the deadline is done in time.
#[track_caller]
fn in_time(attempt: impl Fn(Instant) -> bool) {
    let done = [5, 50, 500, 5000].into_iter().any(|limit| attempt(Instant::now() + ms(limit)));
    assert!(done, "five seconds are not enough to begin");
}

/// - given: items that end before the deadline, and no items
/// - when: `par::map_until` is called
/// - then: the results in the order of the items; an empty `Vec`
#[test]
fn par_29_until_in_time() {
    each_run(|| {
        let words = ["as", "par", "map"];
        let lengths = par::map_until(in_an_hour(), &words, |word| {
            super::dawdle(word.len());
            word.len()
        });
        assert_eq!(lengths, [Some(2), Some(3), Some(3)]);
        for deadline in [Instant::now(), in_an_hour()] {
            let none = std::iter::empty::<u8>();
            assert_eq!(par::map_until(deadline, none, |_| -> u8 { unreachable!() }), []);
        }
    });
}

/// - given: a deadline that has passed, or passes while the items are listed
/// - when: `par::map_until` is called
/// - then: the closure is not called for the items that have not begun, each has `None`, all are
///   dropped
#[test]
fn par_30_until_past() {
    each_run(|| {
        let dropped = AtomicUsize::new(0);
        let items = (0..20).map(|_| Counted(&dropped));
        let past = par::map_until(Instant::now(), items, |_| -> u8 { unreachable!() });
        assert_eq!(past, [None; 20]);
        assert_eq!(dropped.swap(0, SeqCst), 20);
        // It passes while the items are listed.
        let begun = AtomicUsize::new(0);
        in_time(|deadline| {
            let listed = Cell::new(0);
            let items = std::iter::repeat_with(|| {
                listed.set(listed.get() + 1);
                if listed.get() == 2 {
                    // The first has its turn.
                    until(|| begun.load(SeqCst) == 1 || deadline <= Instant::now());
                    while Instant::now() < deadline {}
                }
                Counted(&dropped)
            });
            let results = par::map_until(deadline, items.take(10), |_| begun.fetch_add(1, SeqCst));
            assert_eq!(dropped.swap(0, SeqCst), 10);
            assert_eq!(results[1..], [None; 9]);
            begun.swap(0, SeqCst) == 1 && results[0] == Some(0)
        });
    });
}

/// What a call does until the deadline has passed.
#[derive(Clone, Copy)]
enum Pastime {
    Waits,
    HasTasks,
    Computes,
}

/// - given: calls that wait, calls whose scopes wait, and one that only computes
/// - when: the deadline passes
/// - then: all are awaited; those that waited have `None`, the other its result
#[test]
fn par_31_until_interrupts() {
    each_run(|| {
        in_time(|deadline| {
            let (begun, running) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let all_began = AtomicBool::new(false);
            let items = [Pastime::Waits, Pastime::HasTasks, Pastime::Computes];
            let results = par::map_until(deadline, items, |pastime| {
                running.fetch_add(1, SeqCst);
                let begins = || _ = begun.fetch_add(1, SeqCst);
                match pastime {
                    Pastime::Waits => {
                        begins();
                        assert_eq!(forever().reason(), CancelReason::Deadline);
                    }
                    Pastime::HasTasks => ecru::scope(|s| {
                        s.spawn(|| {
                            begins();
                            assert_eq!(forever().reason(), CancelReason::Deadline);
                        });
                    }),
                    Pastime::Computes => {
                        begins();
                        // It would keep the others from beginning on its worker.
                        until(|| begun.load(SeqCst) == 3 || deadline <= Instant::now());
                        // Later, its wait for the others has been interrupted.
                        all_began.store(Instant::now() < deadline, SeqCst);
                        while Instant::now() < deadline + ms(2) {}
                    }
                }
                // It is awaited.
                ecru::shield(|| ecru::sleep(ms(1))).unwrap();
                running.fetch_sub(1, SeqCst);
            });
            assert_eq!(running.load(SeqCst), 0);
            if all_began.load(SeqCst) {
                assert_eq!(results, [None, None, Some(())]);
            }
            all_began.into_inner()
        });
    });
}

/// - given: an item whose closure panics
/// - when: `par::map_until` is called
/// - then: every other item is run to its end, then the panic is resumed
#[test]
fn par_32_until_panics() {
    each_run(|| {
        let ran = AtomicUsize::new(0);
        let map = || {
            par::map_until(in_an_hour(), 0..20, |n| {
                if n % 5 == 3 {
                    quiet_panic(if n == 3 { "third" } else { "another" });
                }
                super::dawdle(n);
                ran.fetch_add(1, SeqCst);
            })
        };
        assert_eq!(panic_text(map), "third");
        assert_eq!(ran.load(SeqCst), 16);
        // The iterator panics: those that have begun are awaited.
        let begun = AtomicUsize::new(0);
        let items = (0..4).map(|n| if n == 3 { quiet_panic("listed") } else { n });
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            par::map_until(in_an_hour(), items, |_| {
                begun.fetch_add(1, SeqCst);
                let _ = ecru::sleep(HOUR);
                begun.fetch_sub(1, SeqCst);
            })
        }));
        assert!(unwound.is_err());
        assert_eq!(begun.load(SeqCst), 0);
    });
}

/// - given: a cancelled task, or one whose own time limit is earlier
/// - when: it calls `par::map_until` over closures that wait
/// - then: each closure is run, its wait fails with the reason of the cancellation, and what it
///   returns is kept
#[test]
fn par_33_until_cancelled() {
    each_run(|| {
        let wait = |n: u32| (n, ecru::sleep(HOUR).unwrap_err().reason());
        ecru::cancel_scope(|c| {
            c.cancel();
            let results = par::map_until(in_an_hour(), 0..9, wait);
            assert!(results.into_iter().eq((0..9).map(|n| Some((n, CancelReason::Explicit)))));
        });
        // Its own time limit is earlier: that it has passed is for its `timeout` to tell.
        let mut results = Vec::new();
        let limited = ecru::timeout(ms(2), || {
            results = par::map_until(in_an_hour(), 0..9, wait);
        });
        assert!(limited.is_err());
        assert!(results.into_iter().eq((0..9).map(|n| Some((n, CancelReason::Deadline)))));
    });
}

/// - given: a plain thread
/// - when: `par::map_until` is called
/// - then: it panics, as `par::map` does
#[test]
fn par_34_until_on_a_thread() {
    let text = panic_text(|| par::map_until(in_an_hour(), [1], |n: u8| n));
    assert!(text.contains("outside a run"), "{text}");
}
