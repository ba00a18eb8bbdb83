//! The first success of several tasks, and what happens to the losers.

use super::{Failure, ORDERS, Outcome, bad, good, in_order};
use crate::support::{HOUR, begin, each_run, forever, ms, quiet_panic, settle, until};
use ecru::{JoinError, JoinHandle};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

/// - given: a success and failures, in any order of listing and of time
/// - when: `first_ok` and `first_ok_keep` are called
/// - then: the success; of several, the first in time
#[test]
fn combine_08_first_ok_value() {
    for order in ORDERS {
        each_run(|| {
            for winner in 0..3 {
                let one = move |n| if n == winner { Ok(n) } else { Err(Failure::Number(n)) };
                assert_eq!(in_order(order, one, |h| ecru::first_ok(h)), Ok(winner));
                let keep = in_order(order, one, |[a, b, c]| ecru::first_ok_keep((a, b, c)));
                assert_eq!(keep, Ok(winner));
            }
            assert_eq!(in_order(order, Ok, |h| ecru::first_ok_keep(h)), Ok(order[0]));
            let behind_gates = |[a, b, c]: [&JoinHandle<'_, Outcome>; 3]| ecru::first_ok((a, b, c));
            assert_eq!(in_order(order, Ok, behind_gates), Ok(order[0]));
        });
    }
}

/// - given: parked tasks, one with shielded remaining work
/// - when: another task succeeds
/// - then: they are cancelled, and have ended when `first_ok` returns
#[test]
fn combine_09_first_ok_awaits_the_losers() {
    each_run(|| {
        for by_value in [false, true] {
            let (ended, effects) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let asleep = AtomicUsize::new(0);
            ecru::scope(|s| {
                let loser = || {
                    s.spawn(|| {
                        asleep.fetch_add(1, SeqCst);
                        let slept = ecru::sleep(HOUR);
                        ecru::shield(|| ecru::sleep(ms(2))).unwrap();
                        ended.fetch_add(1, SeqCst);
                        slept.map_err(|_| Failure::Number(7))?;
                        effects.fetch_add(1, SeqCst);
                        Ok(7)
                    })
                };
                let winner = s.spawn(|| {
                    until(|| asleep.load(SeqCst) == 2);
                    Ok(1)
                });
                if by_value {
                    assert_eq!(ecru::first_ok(vec![loser(), winner, loser()]), Ok(1));
                    assert_eq!(ended.load(SeqCst), 2);
                } else {
                    let (one, two) = (loser(), loser());
                    assert_eq!(ecru::first_ok((&one, &winner, &two)), Ok(1));
                    assert_eq!(ended.load(SeqCst), 2);
                    // Their results are still in their handles.
                    assert_eq!(one.join().unwrap(), Err(Failure::Number(7)));
                    assert!(matches!(winner.join(), Err(JoinError::Taken)));
                }
            });
            assert_eq!(effects.load(SeqCst), 0);
        }
    });
}

/// - given: tasks that all fail, in any order of listing
/// - when: `first_ok` and `first_ok_keep` are called
/// - then: the failure that came last in time
#[test]
fn combine_10_last_failure() {
    for order in ORDERS {
        each_run(|| {
            let fails = |n| Err(Failure::Number(n));
            let last = Err(Failure::Number(order[2]));
            assert_eq!(in_order(order, fails, |h| ecru::first_ok(h)), last);
            assert_eq!(in_order(order, fails, |[a, b, c]| ecru::first_ok((a, b, c))), last);
            assert_eq!(in_order(order, fails, |h| ecru::first_ok_keep(h)), last);
        });
    }
}

/// - given: a success, and a task that is still working
/// - when: `first_ok_keep` is called
/// - then: the working task is not cancelled, runs to its end, and can be joined
#[test]
fn combine_11_first_ok_keep() {
    each_run(|| {
        let (go, effect) = (AtomicBool::new(false), AtomicBool::new(false));
        ecru::scope(|s| {
            let slow = s.spawn(|| {
                until(|| go.load(SeqCst));
                ecru::checkpoint().unwrap();
                effect.store(true, SeqCst);
                Ok(2)
            });
            assert_eq!(ecru::first_ok_keep((good(s, 1), &slow)), Ok(1));
            assert!(!slow.is_finished());
            go.store(true, SeqCst);
            assert_eq!(slow.join().unwrap(), Ok(2));
        });
        assert!(effect.load(SeqCst));
    });
}

/// - given: tasks that panic because they lost and were cancelled
/// - when: the scope ends
/// - then: it does not panic
#[test]
fn combine_22_a_loser_that_panics() {
    each_run(|| {
        for n in 0..4 {
            let asleep = AtomicBool::new(false);
            ecru::scope(|s| {
                let fragile = s.spawn(|| -> Outcome {
                    asleep.store(true, SeqCst);
                    if ecru::sleep(HOUR).is_err() {
                        quiet_panic("cancelled");
                    }
                    Ok(1)
                });
                until(|| asleep.load(SeqCst));
                match n {
                    0 => assert_eq!(ecru::first_ok((fragile, good(s, 2))), Ok(2)),
                    1 => assert!(ecru::try_join_all((fragile, bad(s, 3))).is_err()),
                    2 => {
                        assert_eq!(ecru::first_ok((&fragile, &good(s, 2))), Ok(2));
                        assert!(matches!(fragile.join(), Err(JoinError::Panicked(_))));
                    }
                    _ => {
                        assert!(ecru::try_join_all([&fragile, &bad(s, 3)]).is_err());
                        assert!(matches!(fragile.join(), Err(JoinError::Panicked(_))));
                    }
                }
            });
        }
    });
}

/// - given: a `first_ok` that waits for its losers
/// - when: the caller is cancelled
/// - then: the value is returned
#[test]
fn combine_37_success_stands() {
    each_run(|| {
        let (asked, go) = (AtomicBool::new(false), AtomicBool::new(false));
        ecru::scope(|s| {
            let caller = s.spawn(|| {
                ecru::scope(|inner| {
                    let stubborn = begin(inner, || {
                        forever();
                        asked.store(true, SeqCst);
                        until(|| go.load(SeqCst));
                        Err(Failure::Number(1))
                    });
                    ecru::first_ok((stubborn, good(inner, 2)))
                })
            });
            until(|| asked.load(SeqCst));
            caller.cancel();
            settle();
            assert!(!caller.is_finished());
            go.store(true, SeqCst);
            assert_eq!(caller.join().unwrap(), Ok(2));
        });
    });
}
