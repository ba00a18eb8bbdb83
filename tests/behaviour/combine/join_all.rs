//! All tasks of a list: every result, or the first failure.

use super::{Failure, ORDERS, bad, good, good_in, in_order, parked};
use crate::support::{each_run, forever, ms, quiet_panic, run_on, until};
use ecru::JoinError;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// - given: tasks that end in another order than that of listing
/// - when: `join_all` is called
/// - then: the results in the order of listing, with each failure at its own place
#[test]
fn combine_12_join_all() {
    for order in ORDERS {
        run_on(2, || {
            let results = in_order(
                order,
                |n| if n == 1 { quiet_panic("one") } else { Ok(n) },
                |h| ecru::join_all(h),
            );
            let [Ok(Ok(0)), Err(JoinError::Panicked(_)), Ok(Ok(2))] = results[..] else {
                panic!("{results:?}")
            };
        });
    }
    run_on(1, || {
        ecru::scope(|s| {
            // The tasks need not return a `Result`.
            let lengths = ecru::join_all(["a", "bb"].map(|word| s.spawn(|| word.len())));
            assert!(matches!(lengths[..], [Ok(1), Ok(2)]));
            let pair = ecru::join_all((s.spawn(|| 1), s.spawn(|| 2)));
            assert!(matches!(pair[..], [Ok(1), Ok(2)]));
        });
    });
}

/// - given: a task in `join_all`
/// - when: it is cancelled
/// - then: the results so far, and `CallerCancelled` for each other task
#[test]
fn combine_13_join_all_cancelled() {
    each_run(|| {
        ecru::scope(|s| {
            let handles = [good(s, 1), parked(s), good(s, 3)];
            until(|| handles[0].is_finished() && handles[2].is_finished());
            let in_time = ecru::timeout(ms(2), || {
                let results = ecru::join_all(&handles);
                assert!(matches!(
                    results[..],
                    [Ok(Ok(1)), Err(JoinError::CallerCancelled), Err(JoinError::CallerCancelled)]
                ));
            });
            assert!(in_time.is_err());
            assert_eq!(handles[2].join().unwrap(), Ok(3));
            assert!(!handles[1].is_finished());
            handles[1].cancel();
        });
    });
}

/// - given: tasks that succeed
/// - when: `try_join_all` is called
/// - then: their values in the order of listing
#[test]
fn combine_14_try_join_all_values() {
    for order in ORDERS {
        run_on(2, || assert_eq!(in_order(order, Ok, |h| ecru::try_join_all(h)), Ok(vec![0, 1, 2])));
    }
    each_run(|| {
        ecru::scope(|s| {
            assert_eq!(ecru::try_join_all((good(s, 1), good(s, 2))), Ok(vec![1, 2]));
            let many: Vec<_> = (0..100).map(good_in(s)).collect();
            assert_eq!(ecru::try_join_all(&many), Ok((0..100).collect::<Vec<_>>()));
        });
    });
}

/// - given: parked tasks, one with shielded remaining work, and a task that fails
/// - when: `try_join_all` is called
/// - then: the failure at once; the others are cancelled, and not awaited
#[test]
fn combine_15_try_join_all_failure() {
    each_run(|| {
        let (cancelled, go) = (AtomicUsize::new(0), AtomicBool::new(false));
        ecru::scope(|s| {
            let shielded = s.spawn(|| {
                forever();
                cancelled.fetch_add(1, SeqCst);
                until(|| go.load(SeqCst));
                Ok(1)
            });
            let failing = || bad(s, 5);
            assert_eq!(
                ecru::try_join_all([&parked(s), &shielded, &failing()]),
                Err(Failure::Number(5))
            );
            // If the task were awaited, this line would not be reached.
            assert!(!shielded.is_finished());
            go.store(true, SeqCst);
            assert_eq!(shielded.join().unwrap_or(Ok(1)), Ok(1));
        });
        // One of them may not have begun.
        assert!(cancelled.load(SeqCst) <= 1);
    });
}
