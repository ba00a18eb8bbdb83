//! `Retry`: which failures are retried, and how often.

use super::{Calls, Failure};
use crate::support::{
    HOUR, each_run, ms, now, panic_text, payload_of, quiet_panic, run_on, since, text_of,
};
use ecru::schedule::{Delay, Jitter, RetryBudget};
use ecru::{CancelReason, Cancelled, Retry};
use std::cell::RefCell;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

/// - given: failures, then a success
/// - when: `Retry::until_ok` is called
/// - then: it returns the value
#[test]
fn schedule_23_retry() {
    each_run(|| {
        for delay in [
            Delay::None,
            Delay::Constant(ms(1)),
            Delay::Backoff { start: Duration::from_micros(100), max: ms(1), mult: 2 },
            Delay::Decorrelated { start: Duration::from_micros(100), max: ms(1), mult: 3 },
        ] {
            let calls = Calls::default();
            let value =
                Retry::new().delay(delay).jitter(Jitter::Equal).until_ok(|| match calls.next() {
                    4 => Ok("four"),
                    n => Err(Failure::Number(n)),
                });
            assert_eq!((value, calls.0.get()), (Ok("four"), 4));
        }
    });
}

/// - given: a `Retry` with `max_failures(k)`
/// - when: every attempt fails
/// - then: failure number k + 1 is returned; 0 means no second attempt; without the setting there
///   is no bound
#[test]
fn schedule_24_max_failures() {
    each_run(|| {
        for most in 0..5 {
            let calls = Calls::default();
            let failing = || Err::<(), _>(Failure::Number(calls.next()));
            let result = Retry::new().max_failures(most).until_ok(failing);
            assert_eq!(result, Err(Failure::Number(most + 1)));
            assert_eq!(calls.0.get(), most + 1);
            // This many failures are allowed.
            let calls = Calls::default();
            let result = Retry::new().max_failures(most).until_ok(|| match calls.next() {
                n if n > most => Ok(n),
                n => Err(Failure::Number(n)),
            });
            assert_eq!(result, Ok(most + 1));
        }
        let calls = Calls::default();
        let result = Retry::new().until_ok(|| match calls.next() {
            1000 => Ok(()),
            n => Err(Failure::Number(n)),
        });
        assert_eq!(result, Ok(()));
    });
}

/// - given: successes between failures
/// - when: `Retry::repeat` is called
/// - then: a success resets the count of failures and the pauses; the first failure beyond the
///   allowed number in a row is returned
#[test]
fn schedule_25_repeat() {
    run_on(1, || {
        // F is a failure, and S a success. Two failures in a row are allowed.
        let script = b"FFSFSSFFSFFFSF";
        let calls = Calls::default();
        let ended = Retry::new().max_failures(2).repeat(|| {
            let n = calls.next();
            if script[n as usize - 1] == b'S' { Ok(()) } else { Err(Failure::Number(n)) }
        });
        assert_eq!(ended, Failure::Number(12));
        // Runs until the first failure.
        let calls = Calls::default();
        let ended =
            Retry::new().max_failures(0).delay(Delay::Constant(ms(1))).repeat(|| {
                match calls.next() {
                    4 => Err(Failure::Number(4)),
                    n => Ok(n),
                }
            });
        assert_eq!(ended, Failure::Number(4));
        // The pause after a success is the one after no failure, not the one of an hour after the
        // second failure.
        let start = now();
        let calls = Calls::default();
        let delay = Delay::Backoff { start: ms(1), max: HOUR, mult: 3_600_000 };
        let ended = Retry::new().max_failures(1).delay(delay).repeat(|| match calls.next() {
            n @ (1 | 3 | 5) => Err(Failure::Number(n)),
            6 => Err(Failure::Number(6)),
            n => Ok(n),
        });
        assert!((ms(5)..HOUR / 100).contains(&since(start)));
        assert_eq!(ended, Failure::Number(6));
    });
}

/// - given: an attempt that panics
/// - when: it is retried
/// - then: the panic goes to the caller, and there is no further attempt
#[test]
fn schedule_26_retry_panic() {
    each_run(|| {
        let calls = Calls::default();
        let payload = payload_of(|| {
            Retry::new().until_ok(|| -> Result<(), Failure> {
                match calls.next() {
                    3 => quiet_panic("the third try"),
                    n => Err(Failure::Number(n)),
                }
            })
        });
        assert_eq!((text_of(&*payload), calls.0.get()), ("the third try", 3));
    });
}

/// - given: an attempt that fails because its task was cancelled
/// - when: it is retried
/// - then: that failure is returned, and there is no further attempt
#[test]
fn schedule_27_cancellation_is_not_retried() {
    each_run(|| {
        let tries = AtomicUsize::new(0);
        ecru::scope(|s| {
            let child = s.spawn(|| {
                // There is no delay, so a cancelled pause cannot hide the rule.
                Retry::new().until_ok(|| {
                    tries.fetch_add(1, SeqCst);
                    ecru::sleep(HOUR).map_err(|_| Failure::Number(7))
                })
            });
            crate::support::until(|| tries.load(SeqCst) == 1);
            child.cancel();
            // The result is the attempt's own failure, and not the conversion of `Cancelled`.
            assert_eq!(child.join().unwrap(), Err(Failure::Number(7)));
            assert_eq!(tries.load(SeqCst), 1);
        });
        ecru::cancel_scope(|c| {
            let calls = Calls::default();
            let ended = Retry::new().repeat(|| -> Result<(), _> {
                c.cancel();
                Err(Failure::Number(calls.next()))
            });
            assert_eq!(ended, Failure::Number(1));
        });
    });
}

/// - given: an attempt with its own time limit or cancel scope
/// - when: the limit or scope ends the attempt
/// - then: it is retried
#[test]
fn schedule_28_inner_limit_is_retried() {
    each_run(|| {
        let calls = Calls::default();
        let result = Retry::new().max_failures(5).until_ok(|| {
            let n = calls.next();
            match n {
                1 | 2 => ecru::try_timeout(ms(1), || Ok::<_, Failure>(ecru::sleep(HOUR)?))?,
                3 => ecru::cancel_scope(|c| {
                    c.cancel();
                    ecru::checkpoint()
                })?,
                _ => {}
            }
            Ok::<_, Failure>(n)
        });
        assert_eq!(result, Ok(4));
    });
}

/// - given: a retry in its pause
/// - when: its task is cancelled
/// - then: it returns the error type's conversion of `Cancelled`, at once
#[test]
fn schedule_29_cancelled_delay() {
    each_run(|| {
        let tries = AtomicUsize::new(0);
        let op = || {
            tries.fetch_add(1, SeqCst);
            Err::<(), _>(io::Error::from(io::ErrorKind::ConnectionRefused))
        };
        let hourly = Retry::new().delay(Delay::Constant(HOUR));
        ecru::scope(|s| {
            let ok = s.spawn(|| hourly.until_ok(op).unwrap_err());
            let repeat = s.spawn(|| hourly.repeat(op));
            crate::support::until(|| tries.load(SeqCst) == 2);
            for child in [ok, repeat] {
                child.cancel();
                let cancelled = Cancelled::find(&child.join().unwrap()).unwrap();
                assert_eq!(cancelled.reason(), CancelReason::Explicit);
            }
            assert_eq!(tries.load(SeqCst), 2);
        });
    });
}

/// - given: a cancelled task
/// - when: it retries in a shield
/// - then: failures are retried
#[test]
fn schedule_30_shielded() {
    each_run(|| {
        ecru::cancel_scope(|c| {
            c.cancel();
            let calls = Calls::default();
            let result = ecru::shield(|| {
                Retry::new().delay(Delay::Constant(ms(1))).until_ok(|| match calls.next() {
                    3 => Ok(()),
                    n => Err(Failure::Number(n)),
                })
            });
            assert_eq!(result, Ok(()));
        });
    });
}

/// - given: a retry with a delay
/// - when: it is run
/// - then: it pauses between attempts, and not after the last one
#[test]
fn schedule_38_retry_pauses() {
    each_run(|| {
        let begun = RefCell::new(Vec::new());
        // The third pause would take hours.
        let delay = Delay::Backoff { start: ms(1), max: 100 * HOUR, mult: 3 };
        let failing = || {
            begun.borrow_mut().push(now());
            Err::<(), _>(Failure::Number(0))
        };
        assert!(Retry::new().max_failures(2).delay(delay).until_ok(failing).is_err());
        let times = begun.into_inner();
        assert_eq!(times.len(), 3);
        assert!(times[1] - times[0] >= ms(1) && times[2] - times[1] >= ms(3));
        let start = now();
        let hourly = Retry::new().max_failures(0).delay(Delay::Constant(HOUR));
        assert!(hourly.until_ok(|| Err::<(), _>(Failure::Number(0))).is_err());
        assert!(since(start) < HOUR / 100);
    });
}

/// - given: a `Retry` of only some failures
/// - when: it is run or repeated, and others occur
/// - then: those are returned at once; the chosen ones are retried up to the limit
#[test]
fn schedule_39_retry_when() {
    each_run(|| {
        let calls = Calls::default();
        let small = |failure: &Failure| matches!(failure, Failure::Number(..4));
        let retry = Retry::new().when(small);
        let failing = || Err::<(), _>(Failure::Number(calls.next()));
        assert_eq!(retry.until_ok(failing), Err(Failure::Number(4)));
        calls.0.set(0);
        let outcome = Retry::new().max_failures(1).when(small).until_ok(failing);
        assert_eq!(outcome, Err(Failure::Number(2)));
        calls.0.set(0);
        let end = retry.repeat(|| match calls.next() {
            n @ 2..4 => Ok(n),
            n => Err(Failure::Number(n)),
        });
        assert_eq!(end, Failure::Number(4));
        calls.0.set(0);
        let outcome = retry.until_ok(|| match calls.next() {
            3 => Ok("three"),
            n => Err(Failure::Number(n)),
        });
        assert_eq!(outcome, Ok("three"));
        // A condition that panics ends it.
        let text = panic_text(|| {
            let panics = |_: &Failure| -> bool { quiet_panic("not so") };
            Retry::new().when(panics).until_ok(failing)
        });
        assert_eq!(text, "not so");
    });
}

/// - given: a budget of three retries, and one more for every two successes, that two policies share
/// - when: calls fail and succeed
/// - then: a failure without a retry left is returned, and takes nothing; successes fill the budget,
///   not beyond its size; a failure that is not retried anyhow takes nothing
#[test]
fn schedule_40_retry_budget() {
    each_run(|| {
        let budget = RetryBudget::new(3, 2);
        let retries = [Retry::new().budget(&budget), Retry::new().budget(&budget)];
        assert_eq!(retries[0], retries[1]);
        assert_ne!(retries[0], Retry::new().budget(&RetryBudget::new(3, 2)));
        let calls = Calls::default();
        let fail = |retry: &Retry| retry.until_ok(|| Err::<(), _>(Failure::Number(calls.next())));
        let succeed = |retry: &Retry| retry.until_ok(|| Ok::<_, Failure>(())).unwrap();
        succeed(&retries[0]);
        assert_eq!(budget.retries(), 3);
        assert_eq!(fail(&retries[0]), Err(Failure::Number(4)));
        assert_eq!(fail(&retries[1]), Err(Failure::Number(5)));
        succeed(&retries[0]);
        assert_eq!((budget.retries(), fail(&retries[0])), (0, Err(Failure::Number(6))));
        succeed(&retries[1]);
        assert_eq!((budget.retries(), fail(&retries[1])), (1, Err(Failure::Number(8))));
        (0..100).for_each(|_| succeed(&retries[0]));
        let none = retries[0].clone().max_failures(0);
        assert_eq!((fail(&none), budget.retries()), (Err(Failure::Number(9)), 3));
        let text = panic_text(|| RetryBudget::new(1, 0));
        assert!(text.contains("pass at least 1"), "{text}");
        assert_eq!(RetryBudget::new(u32::MAX, u32::MAX).retries(), u32::MAX);
    });
}

/// - given: a budget that four tasks share
/// - when: all of their calls fail
/// - then: together they make as many retries as it has
#[test]
fn schedule_41_shared_budget() {
    each_run(|| {
        let (budget, calls) = (RetryBudget::new(100, 1), AtomicUsize::new(0));
        let retry = Retry::new().budget(&budget);
        ecru::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    retry.until_ok(|| {
                        calls.fetch_add(1, SeqCst);
                        Err::<(), _>(Failure::Elapsed)
                    })
                });
            }
        });
        assert_eq!((calls.into_inner(), budget.retries()), (104, 0));
    });
}
