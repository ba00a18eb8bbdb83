//! `par::map`: all items at once, in the order of the input.

use super::dawdle;
use crate::support::{HOUR, each_run, ms, now, panic_text, quiet_panic, run_on, since, until};
use ecru::par;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// - given: items that take different times
/// - when: `par::map` is called
/// - then: the results in the order of the items
#[test]
fn par_01_order() {
    each_run(|| {
        let squares = par::map(0..200_usize, |n| {
            dawdle((n * 7919) % 23);
            n * n
        });
        assert_eq!(squares, (0..200).map(|n| n * n).collect::<Vec<_>>());
    });
}

/// - given: items whose closures all wait for one another
/// - when: `par::map` is called
/// - then: it ends, because all were started
#[test]
fn par_02_all_at_once() {
    each_run(|| {
        let here = AtomicUsize::new(0);
        par::map(0..100, |_| {
            here.fetch_add(1, SeqCst);
            until(|| here.load(SeqCst) == 100);
        });
    });
}

/// - given: no items
/// - when: `map`, `map_buffered` and `for_each` are called
/// - then: they return an empty result at once
#[test]
fn par_03_nothing() {
    each_run(|| {
        let none = || std::iter::empty::<u8>();
        assert_eq!(par::map(none(), |_| -> u8 { unreachable!() }), []);
        assert_eq!(par::map_buffered(3, none(), |_| -> u8 { unreachable!() }), []);
        par::for_each(3, none(), |_| unreachable!());
        ecru::scope(|s| {
            assert!(s.map(none(), |n| n).next().is_none());
            assert!(s.map_buffered(3, none(), |n| n).next().is_none());
            assert!(s.map_chunks(3, none(), |n| n).next().is_none());
        });
    });
}

/// - given: locals of the caller
/// - when: the closure borrows them
/// - then: it compiles, without `Arc`
#[test]
fn par_04_borrows() {
    each_run(|| {
        let words = vec![String::from("a"), String::from("bc")];
        let seen = Mutex::new(HashMap::new());
        let lengths = par::map(&words, |word| {
            seen.lock().unwrap().insert(word.as_str(), word.len());
            word.len()
        });
        assert_eq!(lengths, [1, 2]);
        let lengths = par::map_buffered(1, words.iter(), |word| word.len());
        assert_eq!(lengths, [1, 2]);
        par::for_each(2, &words, |word| {
            assert!(seen.lock().unwrap().remove(word.as_str()).is_some())
        });
        assert!(seen.lock().unwrap().is_empty());
        // Borrowed data may be returned.
        let longest: Vec<&str> = par::map(&words, |word| &word[..1]);
        assert_eq!(longest, ["a", "b"]);
    });
}

/// - given: a cancelled task
/// - when: it calls `par::map` over closures that wait
/// - then: each closure is run and its waits fail; the `Vec` is complete
#[test]
fn par_05_cancelled() {
    each_run(|| {
        let begun = AtomicBool::new(false);
        let (all, some, each) = ecru::scope(|s| {
            let child = s.spawn(|| {
                begun.store(true, SeqCst);
                until(ecru::is_cancelled);
                let all = par::map(0..50, |n| (n, ecru::sleep(HOUR)));
                let some = par::map_buffered(7, 0..50, |n| (n, ecru::sleep(HOUR)));
                let each = AtomicUsize::new(0);
                par::for_each(7, 0..50, |_| {
                    each.fetch_add(usize::from(ecru::sleep(HOUR).is_err()), SeqCst);
                });
                (all, some, each.into_inner())
            });
            until(|| begun.load(SeqCst));
            child.cancel();
            child.join().unwrap()
        });
        for results in [all, some] {
            assert_eq!(results.len(), 50);
            for (n, (item, result)) in results.into_iter().enumerate() {
                assert_eq!(item, n);
                assert!(result.is_err());
            }
        }
        assert_eq!(each, 50);
    });
}

#[test]
fn par_05_cancelled_while_the_items_wait() {
    each_run(|| {
        let inside = AtomicUsize::new(0);
        let results = ecru::timeout(ms(20), || {
            par::map(0..50, |n| {
                inside.fetch_add(1, SeqCst);
                (n, ecru::sleep(HOUR).is_err())
            })
        });
        assert!(results.is_err(), "the expiry was delivered below");
        assert_eq!(inside.load(SeqCst), 50);
        let results = ecru::cancel_scope(|c| {
            ecru::scope(|s| {
                s.spawn(|| {
                    until(|| inside.load(SeqCst) == 100);
                    c.cancel();
                });
                par::map(0..50, |n| {
                    inside.fetch_add(1, SeqCst);
                    (n, ecru::sleep(HOUR).is_err())
                })
            })
        });
        assert_eq!(results, (0..50).map(|n| (n, true)).collect::<Vec<_>>());
    });
}

/// - given: an item whose closure panics
/// - when: `par::map` is called
/// - then: every other item is run to its end, then the panic is resumed
#[test]
fn par_06_panics() {
    each_run(|| {
        let ended = AtomicUsize::new(0);
        let item = |n: usize| {
            dawdle(n);
            if n % 10 == 3 {
                quiet_panic(if n == 3 { "the first" } else { "a later one" });
            }
            ended.fetch_add(1, SeqCst);
        };
        assert_eq!(panic_text(|| par::map(0..50, item)), "the first");
        assert_eq!(ended.swap(0, SeqCst), 45);
    });
}

#[test]
fn par_06_panics_of_the_input_await_the_items() {
    each_run(|| {
        let ended = AtomicUsize::new(0);
        let input = || {
            (0..20).inspect(|n| {
                if *n == 5 {
                    quiet_panic("the input")
                }
            })
        };
        let item = |_| {
            dawdle(10);
            ended.fetch_add(1, SeqCst);
        };
        for verb in 0..3 {
            let text = panic_text(|| match verb {
                0 => drop(par::map(input(), item)),
                1 => drop(par::map_buffered(8, input(), item)),
                _ => par::for_each(8, input(), item),
            });
            assert_eq!(text, "the input");
            assert_eq!(ended.swap(0, SeqCst), 5);
        }
    });
}

/// Virtuoso's own test: any number of sleeping items take the time of one.
#[cfg(not(ecru_baton))] // as many threads as tasks
#[test]
fn par_02_all_at_once_slow_a_hundred_thousand_sleepers() {
    run_on(2, || {
        let start = now();
        let results = ecru::par_for!(n in 0..99_999_u32 => {
            ecru::sleep(ms(1000)).unwrap();
            n
        });
        assert!(since(start) >= ms(1000) && results.len() == 99_999);
        assert!(results.iter().zip(0..).all(|(result, n)| *result == n));
        // It would take a thousand times longer if one waited for another.
        assert!(since(start) < HOUR / 100, "{:?}", since(start));
    });
}

#[test]
fn par_02_all_at_once_needs_a_runtime() {
    for text in [
        panic_text(|| par::map(0..3, |n| n)),
        panic_text(|| par::map_buffered(2, 0..3, |n| n)),
        panic_text(|| par::for_each(2, 0..3, |_| ())),
    ] {
        assert!(text.contains("ecru::run"), "{text}");
    }
    assert!(catch_unwind(AssertUnwindSafe(|| ecru::run(|| par::map(0..3, |n| n)))).is_ok());
}
