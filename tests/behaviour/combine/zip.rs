//! Two tasks at once: both values, or the first failure.

use super::{Failure, ORDERS, bad, good, good_in, in_order, parked};
use crate::support::{Counted, each_run, run_on, settle, until};
use ecru::JoinError;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// - given: two to eight successful tasks of different types
/// - when: `zip` of a tuple, or of lists
/// - then: their values, in the order of the handles
#[test]
fn combine_01_zip_values() {
    each_run(|| {
        ecru::scope(|s| {
            let number = || s.spawn(|| Ok::<_, Failure>(1));
            let word = || s.spawn(|| Ok::<_, Failure>(String::from("one")));
            assert_eq!(ecru::zip((number(),)), Ok((1,)));
            assert_eq!(ecru::zip((number(), word())), Ok((1, String::from("one"))));
            let three = (word(), s.spawn(|| Ok('c')), number());
            assert_eq!(ecru::zip(three), Ok((String::from("one"), 'c', 1)));
            let four = (number(), number(), number(), s.spawn(|| Ok(())));
            assert_eq!(ecru::zip(four), Ok((1, 1, 1, ())));
            let n = |n| good(s, n);
            assert_eq!(ecru::zip((n(1), n(2), n(3), n(4), n(5))), Ok((1, 2, 3, 4, 5)));
            let six = (n(1), n(2), n(3), n(4), n(5), n(6));
            assert_eq!(ecru::zip(six), Ok((1, 2, 3, 4, 5, 6)));
            let seven = (n(1), n(2), n(3), n(4), n(5), n(6), n(7));
            assert_eq!(ecru::zip(seven), Ok((1, 2, 3, 4, 5, 6, 7)));
            let eight = (n(1), n(2), n(3), n(4), n(5), n(6), n(7), word());
            assert_eq!(ecru::zip(eight), Ok((1, 2, 3, 4, 5, 6, 7, String::from("one"))));
            let list: Vec<_> = (0..20).map(good_in(s)).collect();
            assert_eq!(ecru::zip(list), Ok((0..20).collect::<Vec<_>>()));
        });
    });
    for order in ORDERS {
        run_on(2, || assert_eq!(in_order(order, Ok, |h| ecru::zip(h)), Ok(vec![0, 1, 2])));
    }
}

/// - given: tasks of which several fail, in any order of listing
/// - when: `zip` is called
/// - then: the failure that came first in time
#[test]
fn combine_02_zip_first_failure() {
    for order in ORDERS {
        each_run(|| {
            let fails = |n| Err(Failure::Number(n));
            let first = Failure::Number(order[0]);
            assert_eq!(in_order(order, fails, |h| ecru::zip(h)).unwrap_err(), first);
            let tuple = in_order(order, fails, |[a, b, c]| ecru::zip((a, b, c)).unwrap_err());
            assert_eq!(tuple, first);
            assert_eq!(in_order(order, fails, |h| ecru::try_join_all(h)).unwrap_err(), first);
            // The first in time succeeds, so the second is the first failure.
            let second = move |n| if n == order[0] { Ok(n) } else { Err(Failure::Number(n)) };
            let failure = in_order(order, second, |h| ecru::zip(h)).unwrap_err();
            assert_eq!(failure, Failure::Number(order[1]));
        });
    }
}

/// - given: a parked task, and a task that fails
/// - when: `zip` is called
/// - then: it fails at once; the parked task is neither cancelled nor awaited
#[test]
fn combine_03_zip_leaves_the_others() {
    each_run(|| {
        ecru::scope(|s| {
            let slow = parked(s);
            for _ in 0..3 {
                assert_eq!(ecru::zip((&slow, bad(s, 1))), Err(Failure::Number(1)));
                assert_eq!(ecru::zip((bad(s, 2), &slow)), Err(Failure::Number(2)));
                assert_eq!(ecru::zip([&slow, &bad(s, 3)]), Err(Failure::Number(3)));
            }
            settle();
            assert!(!slow.is_finished());
            slow.cancel();
            assert_eq!(slow.join().unwrap(), Err(Failure::Number(99)));
        });
    });
}

/// - given: lent handles, some of successful tasks
/// - when: `zip` or `try_join_all` fails
/// - then: the successful tasks can still be joined
#[test]
fn combine_04_lent_results_stay() {
    each_run(|| {
        let drops = AtomicUsize::new(0);
        ecru::scope(|s| {
            for round in 0..3 {
                let one = s.spawn(|| Ok::<_, Failure>(Counted(&drops)));
                let two = s.spawn(|| Ok::<_, Failure>(Counted(&drops)));
                let fails = s.spawn(move || {
                    settle();
                    Err::<Counted<'_>, _>(Failure::Number(round))
                });
                until(|| one.is_finished() && two.is_finished());
                let error = match round {
                    0 => ecru::zip((&one, &fails, &two)).map(drop),
                    1 => ecru::zip([&one, &fails, &two]).map(drop),
                    _ => ecru::try_join_all([&one, &fails, &two]).map(drop),
                };
                assert_eq!(error, Err(Failure::Number(round)));
                assert_eq!(drops.load(SeqCst), 0);
                drop(one.join().unwrap().unwrap());
                assert_eq!(drops.load(SeqCst), 1);
                // The other is dropped with its handle.
                drop(two);
                assert_eq!(drops.swap(0, SeqCst), 2);
                assert!(matches!(one.join(), Err(JoinError::Taken)));
                assert!(matches!(fails.join(), Err(JoinError::Taken)));
            }
        });
    });
}
