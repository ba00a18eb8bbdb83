//! Endless fork-joins in a time limit.

use std::time::Instant;

use super::support::{each_run, ms};

/// An endless fork-join of each kind ends, in a limit that expires while it runs and in a limit
/// that has expired before it began. Where a join is a cancellation point, the join returns the
/// cancellation.
#[test]
fn an_endless_fork_join_ends_with_its_limit() {
    // A round, which returns whether it was told to end.
    type Round = fn() -> bool;
    let told: [(&str, Round); 2] = [
        ("spawn and join", || ecru::scope(|s| s.spawn(|| 1).join().is_err())),
        ("join_all", || {
            let results = ecru::scope(|s| ecru::join_all([s.spawn(|| 1), s.spawn(|| 2)]));
            results.iter().any(Result::is_err)
        }),
    ];
    let not_told: [(&str, Round); 3] = [
        ("join!", || {
            _ = ecru::join!(1, 2);
            ecru::is_cancelled()
        }),
        ("par::map", || {
            _ = ecru::par::map(0..2, |n| n);
            ecru::is_cancelled()
        }),
        ("a scope's end", || {
            ecru::scope(|s| (0..2).for_each(|_| drop(s.spawn(|| ()))));
            ecru::is_cancelled()
        }),
    ];
    each_run(|| {
        for (rounds, is_told) in [(&told[..], true), (&not_told[..], false)] {
            for (name, round) in rounds {
                let until_told = || while !round() {};
                let past = ecru::timeout_at(Instant::now(), until_told);
                let soon = ecru::timeout(ms(2), until_told);
                if is_told {
                    assert!(past.is_err() && soon.is_err(), "{name}: {past:?} {soon:?}");
                }
            }
        }
    });
}
