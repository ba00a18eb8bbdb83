//! `join!`.

use crate::support::{HOUR, each_run, quiet_panic, settle, until};
use ecru::JoinError;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// - given: `join!` of expressions of different types that wait for each other
/// - when: it is called
/// - then: all run at once; it returns a tuple of results
#[test]
fn combine_33_join_macro() {
    each_run(|| {
        let here = AtomicUsize::new(0);
        let meet = || {
            here.fetch_add(1, SeqCst);
            until(|| here.load(SeqCst) == 4);
        };
        let (number, word, unit, again) = ecru::join!(
            {
                meet();
                1
            },
            {
                meet();
                "one"
            },
            meet(),
            {
                meet();
                2.5
            },
        );
        assert_eq!((number.unwrap(), word.unwrap(), again.unwrap()), (1, "one", 2.5));
        unit.unwrap();
        let (one,) = ecru::join!(1);
        assert_eq!(one.unwrap(), 1);
        let (a, b, c, d, e, f, g, h, i, j) = ecru::join!(0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
        let all = [a, b, c, d, e, f, g, h, i, j].map(Result::unwrap);
        assert_eq!(all, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    });
}

/// - given: an expression that panics
/// - when: `join!` is used
/// - then: `Panicked` in its place; the others run to their end
#[test]
fn combine_34_join_macro_panics() {
    each_run(|| {
        let ran = AtomicUsize::new(0);
        let count = |n: u32| {
            settle();
            ran.fetch_add(1, SeqCst);
            n
        };
        let (one, two, three) =
            ecru::join!(count(1), if count(2) == 2 { quiet_panic("two") } else { 0 }, count(3),);
        assert_eq!((one.unwrap(), three.unwrap(), ran.load(SeqCst)), (1, 3, 3));
        let Err(JoinError::Panicked(payload)) = two else { panic!("{two:?}") };
        assert_eq!(payload.message(), Some("two"));
    });
}

/// - given: expressions of a `join!` that wait for each other, one that panics, one that assigns to
///   a variable
/// - when: `join!` returns
/// - then: the first two have met, the panic is that expression's result, and the variable has the
///   value
#[test]
fn combine_42_join_macro_side_by_side() {
    each_run(|| {
        let (met, mut count) = (ecru::sync::Barrier::new(2), 0);
        let (left, right, panicked, counted) = ecru::join!(
            met.wait().unwrap().is_leader(),
            met.wait().unwrap().is_leader(),
            quiet_panic("alone") as u32,
            count += 1,
        );
        assert!(left.unwrap() != right.unwrap(), "they met");
        let Err(JoinError::Panicked(payload)) = panicked else { panic!("{panicked:?}") };
        assert_eq!(payload.message(), Some("alone"));
        counted.unwrap();
        assert_eq!(count, 1);
    });
}

/// - given: a cancelled caller
/// - when: `join!` is used
/// - then: every expression is run; it returns their results, not the caller's cancellation
#[test]
fn combine_35_join_macro_cancelled() {
    each_run(|| {
        ecru::cancel_scope(|c| {
            c.cancel();
            let (one, slept) = ecru::join!(1, ecru::sleep(HOUR));
            assert_eq!(one.unwrap(), 1);
            assert!(slept.unwrap().is_err());
        });
    });
}

/// - given: locals that the expressions read, change and consume
/// - when: `join!` is used
/// - then: it compiles without `Arc`
#[test]
fn combine_36_join_macro_borrows() {
    each_run(|| {
        let (mut list, text, owned) = (vec![3, 1, 2], String::from("text"), String::from("owned"));
        let (sorted, length, again, consumed) =
            ecru::join!(list.sort_unstable(), text.len(), text.as_str(), owned.into_bytes());
        sorted.unwrap();
        assert_eq!((length.unwrap(), again.unwrap()), (4, "text"));
        assert_eq!(consumed.unwrap(), b"owned");
        assert_eq!(list, [1, 2, 3]);
    });
}
