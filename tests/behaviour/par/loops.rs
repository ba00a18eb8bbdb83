//! `for_each` and `par_for!`.

use super::dawdle;
use crate::support::{each_run, until};
use ecru::par;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// - given: items
/// - when: `par::for_each` is called
/// - then: each is seen exactly once
#[test]
fn par_23_for_each() {
    each_run(|| {
        let seen: Vec<AtomicUsize> = (0..500).map(|_| AtomicUsize::new(0)).collect();
        par::for_each(16, 0..500, |n| {
            dawdle(n % 3);
            seen[n].fetch_add(1, SeqCst);
        });
        assert!(seen.iter().all(|count| count.load(SeqCst) == 1));
    });
}

/// - given: `par_for!(x in xs, y in ys => ..)`
/// - when: it runs
/// - then: the results in the order of the nested loops
#[test]
fn par_24_par_for_nested() {
    each_run(|| {
        let pairs = ecru::par_for!(x in 0..5, y in 0..x => {
            dawdle((x * 31 + y * 17) % 11);
            (x, y)
        });
        let mut expected = Vec::new();
        for x in 0..5 {
            for y in 0..x {
                expected.push((x, y));
            }
        }
        assert_eq!(pairs, expected);
        let triples = ecru::par_for!(a in 0..3, b in 0..3, c in 0..3 => a * 9 + b * 3 + c);
        assert_eq!(triples, (0..27).collect::<Vec<_>>());
        assert_eq!(ecru::par_for!(only in [1, 2] => only + 1), [2, 3]);
        // All run at once.
        let here = AtomicUsize::new(0);
        ecru::par_for!(_x in 0..4, _y in 0..4 => {
            here.fetch_add(1, SeqCst);
            until(|| here.load(SeqCst) == 16);
        });
    });
}

#[test]
fn par_24_par_for_nested_in_itself_and_over_nothing() {
    each_run(|| {
        let table = ecru::par_for!(x in 1..4 => ecru::par_for!(y in 1..4 => x * y));
        assert_eq!(table, [[1, 2, 3], [2, 4, 6], [3, 6, 9]]);
        let no_more = 0;
        let none: Vec<u8> = ecru::par_for!(x in 0..no_more, _y in 0..3 => x);
        assert_eq!(none, []);
        let none: Vec<u8> = ecru::par_for!(_x in 0..3, y in 0..no_more => y);
        assert_eq!(none, []);
        let none: Vec<u8> = ecru::par_for!(x in 0..3, if x > 5 => x);
        assert_eq!(none, []);
    });
}

/// - given: `let`, `if` and tuples in `par_for!`
/// - when: it runs
/// - then: bindings are visible to their right, and items that `if` rejects are left out
#[test]
fn par_25_par_for_clauses() {
    each_run(|| {
        let names = [(1, "one"), (2, "two"), (3, "three"), (4, "four")];
        let odd = ecru::par_for!(
            (number, name) in names,
            if number % 2 == 1,
            let text = format!("{number}: {name}"),
            (position, letter) in text.chars().enumerate(),
            if letter.is_alphabetic(),
            let (twice, upper) = (position * 2, letter.to_ascii_uppercase()),
            => (number, twice, upper)
        );
        let mut expected = Vec::new();
        for (number, name) in names.into_iter().filter(|(number, _)| number % 2 == 1) {
            for (position, letter) in name.chars().enumerate() {
                expected.push((number, (position + 3) * 2, letter.to_ascii_uppercase()));
            }
        }
        assert_eq!(odd, expected);
    });
}

/// The values of the loops are cloned into each body, so they need not be `Copy`, and the body may
/// own them.
#[test]
fn par_25_par_for_clauses_over_owned_values() {
    each_run(|| {
        let prefix = String::from("<");
        let words = ecru::par_for!(
            a in [String::from("x"), String::from("y")],
            b in [vec![1], vec![2, 3]],
            let suffix = String::from(">")
            => {
                let owned: (String, Vec<i32>) = (a, b);
                format!("{prefix}{}{:?}{suffix}", owned.0, owned.1)
            }
        );
        assert_eq!(words, ["<x[1]>", "<x[2, 3]>", "<y[1]>", "<y[2, 3]>"]);
    });
}

/// - given: `while` after an inner loop
/// - when: its condition becomes false
/// - then: the loop to its left ends, and the outer loop continues; without a loop to its left it
///   acts as an `if`
#[test]
fn par_26_par_for_while() {
    each_run(|| {
        let below = ecru::par_for!(x in 1..=3, y in 1.., while x * y < 7, if y != 2 => (x, y));
        let expected = [(1, 1), (1, 3), (1, 4), (1, 5), (1, 6), (2, 1), (2, 3), (3, 1)];
        assert_eq!(below, expected);
        let first = ecru::par_for!(x in 1.., while x < 4, y in 0..2 => x * 10 + y);
        assert_eq!(first, [10, 11, 20, 21, 30, 31]);
        let bound = ecru::par_for!(x in 1.., let square = x * x, while square < 20 => square);
        assert_eq!(bound, [1, 4, 9, 16]);
    });
}

/// Without a loop to its left, `while` acts as an `if`, and does not affect the loops of its
/// caller.
#[test]
fn par_26_par_for_while_without_a_loop() {
    each_run(|| {
        let mut rounds = 0;
        for limit in 0..3 {
            let all = ecru::par_for!(while limit > 0, x in 0..4, while x < limit => x);
            assert_eq!(all, (0..limit).collect::<Vec<_>>());
            let bound =
                ecru::par_for!(let twice = 2 * limit, if true, while twice > 2, x in 0..twice => x);
            assert_eq!(bound.len(), if limit == 2 { 4 } else { 0 });
            rounds += 1;
        }
        assert_eq!(rounds, 3);
    });
}
