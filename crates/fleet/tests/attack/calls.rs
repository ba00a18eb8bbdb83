//! Calls of functions that hang, panic, call each other and share keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ecru_fleet::{CallError, JobError, Run};

use crate::support::{
    LONG, RETRY, SECOND, SOON, both, local, panic_quietly, reaches, served, until,
};

#[test]
fn functions_that_call_each_other_slow() {
    both(|fleet| {
        let inner = fleet.function("inner", |n: u32, _: &Run| Ok(n + 1)).open()?;
        let caller = inner.clone();
        let outer = fleet.function("outer", move |n: u32, _: &Run| {
            Ok(caller.call(n)? + caller.call_keyed("k", 10)?)
        });
        let outer = outer.open()?;
        served(&inner, 1, || {
            served(&outer, 4, || {
                let results = ecru::par::map(0..8, |n| outer.call(n).unwrap());
                assert_eq!(results, (12..20).collect::<Vec<_>>());
            });
        });
        Ok(())
    });
}

#[test]
fn a_call_that_waits_for_its_own_key() {
    local(|fleet| {
        let other = fleet.clone();
        let own = fleet.function("own", move |n: u32, _: &Run| {
            let again = other.function("own", |n: u32, _: &Run| Ok(n)).open()?;
            Ok(ecru::timeout(100 * SECOND, || again.call_keyed("k", n))??)
        });
        let own = own.attempts(2).retry(RETRY).open()?;
        served(&own, 4, || {
            // It waits for itself, until it gives up.
            match own.call_keyed("k", 1) {
                Err(CallError::Failed { attempts: 2, .. }) => {}
                other => panic!("{other:?}"),
            }
        });
        Ok(())
    });
}

/// - given: functions that panic with a text, with something else, and with something that panics
///   when it is dropped
/// - when: they are called
/// - then: each caller gets an error with the text, and the functions are still served
#[test]
fn fleet_216_panics_of_every_kind() {
    both(|fleet| {
        let kinds = fleet.function("kinds", |n: u32, _: &Run| match n {
            0 => panic_quietly("a text"),
            1 => std::panic::resume_unwind(Box::new("an owned text".to_owned())),
            2 => std::panic::resume_unwind(Box::new(7)),
            3 => std::panic::resume_unwind(Box::new(DropsLoudly)),
            _ => Ok(n),
        });
        let kinds = kinds.attempts(1).open()?;
        served(&kinds, 2, || {
            for (n, text) in [(0, "a text"), (1, "an owned text"), (2, "panicked"), (3, "panicked")]
            {
                let error = kinds.call(n).unwrap_err();
                assert!(error.to_string().contains(text), "{error}");
            }
            assert_eq!(kinds.call(4).unwrap(), 4);
        });
        Ok(())
    });
}

/// A payload of a panic that panics again when it is dropped.
struct DropsLoudly;

impl Drop for DropsLoudly {
    fn drop(&mut self) {
        panic_quietly("once more");
    }
}

#[test]
fn a_key_whose_function_always_fails() {
    both(|fleet| {
        let begun = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&begun);
        let fails = fleet.function("fails", move |_: u32, _: &Run| -> Result<u32, JobError> {
            counter.fetch_add(1, Ordering::SeqCst);
            ecru::sleep(SOON)?;
            Err(JobError::Retry("never".into()))
        });
        let fails = fails.attempts(2).retry(RETRY).open()?;
        served(&fails, 4, || {
            let errors = ecru::par::map(0..6, |_| fails.call_keyed("k", 1).unwrap_err());
            for error in errors {
                match error {
                    CallError::Failed { reason, attempts: 2 } => assert_eq!(reason, "never"),
                    other => panic!("{other:?}"),
                }
            }
        });
        assert!(begun.load(Ordering::SeqCst) >= 2);
        Ok(())
    });
}

#[test]
fn the_first_caller_of_a_key_goes_away() {
    both(|fleet| {
        let (begun, open) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (counter, gate) = (Arc::clone(&begun), Arc::clone(&open));
        let slow = fleet.function("slow", move |n: u32, _: &Run| {
            counter.fetch_add(1, Ordering::SeqCst);
            reaches(&gate, 1);
            Ok(n)
        });
        let slow = slow.retry(RETRY).open()?;
        served(&slow, 4, || {
            ecru::scope(|s| {
                let first = s.spawn(|| slow.call_keyed("k", 7));
                reaches(&begun, 1);
                let second = s.spawn(|| slow.call_keyed("k", 8));
                first.cancel();
                let first = first.join().unwrap();
                assert!(matches!(first, Err(CallError::Cancelled(_))), "{first:?}");
                open.store(1, Ordering::SeqCst);
                assert_eq!(second.join().unwrap().unwrap(), 7);
            });
        });
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        Ok(())
    });
}

#[test]
fn a_running_call_whose_caller_goes_away() {
    both(|fleet| {
        let (begun, cancelled) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
        let (counter, ended) = (Arc::clone(&begun), Arc::clone(&cancelled));
        let hangs = fleet.function("hangs", move |n: u32, _: &Run| {
            counter.fetch_add(1, Ordering::SeqCst);
            let slept = ecru::sleep(Duration::MAX);
            ended.fetch_add(1, Ordering::SeqCst);
            slept?;
            Ok(n)
        });
        let hangs = hangs.retry(RETRY).open()?;
        served(&hangs, 4, || {
            ecru::scope(|s| {
                let call = s.spawn(|| hangs.call(7));
                reaches(&begun, 1);
                call.cancel();
                assert!(matches!(call.join().unwrap(), Err(CallError::Cancelled(_))));
            });
            // The waits inside the function were cancelled, too, and it is not tried again.
            reaches(&cancelled, 1);
            until(|| hangs.stats().unwrap() == ecru_fleet::Stats::default());
        });
        assert_eq!(begun.load(Ordering::SeqCst), 1);
        Ok(())
    });
}

#[test]
fn a_result_that_is_computed_when_no_one_serves_any_more_slow() {
    both(|fleet| {
        let echo = fleet.function("echo", |n: u32, _: &Run| Ok(n)).retry(RETRY).open()?;
        assert_eq!(served(&echo, 1, || echo.call_keyed("k", 1)).unwrap(), 1);
        // It is stored, so nothing has to be served.
        assert_eq!(ecru::timeout(LONG, || echo.call_keyed("k", 2))?.unwrap(), 1);
        let called = ecru::timeout(10 * SOON, || echo.call_keyed("other", 2));
        assert!(!matches!(called, Ok(Ok(_))), "{called:?}");
        assert_eq!(served(&echo, 1, || echo.call_keyed("other", 3)).unwrap(), 2);
        Ok(())
    });
}

#[test]
fn a_result_that_is_no_longer_kept() {
    local(|fleet| {
        let begun = Arc::new(AtomicU32::new(0));
        let counter = Arc::clone(&begun);
        let count = fleet
            .function("count", move |(): (), _: &Run| Ok(counter.fetch_add(1, Ordering::SeqCst)));
        let count = count.keep_results(10 * SECOND).open()?;
        served(&count, 2, || {
            assert_eq!(count.call_keyed("k", ()).unwrap(), 0);
            ecru::sleep(9 * SECOND).unwrap();
            assert_eq!(count.call_keyed("k", ()).unwrap(), 0);
            ecru::sleep(2 * SECOND).unwrap();
            assert_eq!(count.call_keyed("k", ()).unwrap(), 1);
        });
        Ok(())
    });
}

#[test]
fn a_job_error_that_tells_no_lies_slow() {
    both(|fleet| {
        let fails = fleet.function("fails", |n: u32, run: &Run| -> Result<u32, JobError> {
            match n {
                0 => Err(JobError::Fatal("".into())),
                1 => Err(JobError::RetryAfter(Duration::ZERO, format!("{}", run.attempt()).into())),
                2 => Err(std::io::Error::from(std::io::ErrorKind::NotConnected).into()),
                _ => Ok(n),
            }
        });
        let fails = fails.attempts(3).retry(RETRY).open()?;
        served(&fails, 2, || {
            match fails.call(0) {
                Err(CallError::Failed { attempts: 1, .. }) => {}
                other => panic!("{other:?}"),
            }
            match fails.call(1) {
                Err(CallError::Failed { attempts: 3, reason }) => assert_eq!(reason, "3"),
                other => panic!("{other:?}"),
            }
            // The error of the function is not taken for one of the fleet.
            match fails.call(2) {
                Err(CallError::Failed { attempts: 3, .. }) => {}
                other => panic!("{other:?}"),
            }
        });
        Ok(())
    });
}
