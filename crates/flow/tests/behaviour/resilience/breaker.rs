//! `CircuitBreaker`: calls that are refused while what they call is failing.

use crate::common::{HOUR, begin, ms, panic_text, quiet_panic};
use crate::simulated::each_run;
use ecru::{Cancelled, Retry, sim, time};
use ecru_flow::{CircuitBreaker, CircuitError, CircuitState};
use std::cell::Cell;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

type Outcome = Result<(), CircuitError<&'static str>>;

fn fail(breaker: &CircuitBreaker) -> Outcome {
    breaker.call(|| Err("broken"))
}

fn succeed(breaker: &CircuitBreaker) -> Outcome {
    breaker.call(|| Ok(()))
}

fn is_refused<T, E>(outcome: &Result<T, CircuitError<E>>) -> bool {
    matches!(outcome, Err(CircuitError::Open { .. }))
}

/// Opens a breaker whose minimum is one call.
fn open(breaker: &CircuitBreaker) {
    assert_eq!(fail(breaker), Err(CircuitError::Failed("broken")));
    assert_eq!(breaker.state(), CircuitState::Open);
}

/// - given: a breaker that opens when half of at least six calls fail
/// - when: calls fail
/// - then: it stays closed below the minimum and below the rate; it opens with the failure that
///   reaches both, and refuses calls without making them
#[test]
fn resilience_10_breaker_opens() {
    each_run(|| {
        let breaker = CircuitBreaker::new().window(HOUR).min_calls(6).open_for(HOUR);
        (0..4).for_each(|_| assert_eq!(fail(&breaker), Err(CircuitError::Failed("broken"))));
        (0..6).for_each(|_| succeed(&breaker).unwrap());
        // Four of ten, five of eleven.
        assert!(fail(&breaker).is_err());
        assert_eq!(breaker.state(), CircuitState::Closed);
        open(&breaker);
        let made = Cell::new(false);
        let refused: Outcome = breaker.call(|| {
            made.set(true);
            Ok(())
        });
        assert!(is_refused(&refused) && !made.get());
        assert!(refused.unwrap_err().to_string().starts_with("the circuit is open; try again"));
    });
}

/// - given: failures at different times
/// - when: time passes
/// - then: those that are older than the window no longer count
#[test]
fn resilience_11_old_failures_are_forgotten() {
    sim::test(|| {
        let breaker = CircuitBreaker::new().window(ms(1000)).min_calls(3);
        (0..10).for_each(|_| {
            _ = fail(&breaker);
            _ = succeed(&breaker);
            time::sleep(ms(1000)).unwrap();
        });
        assert_eq!(breaker.state(), CircuitState::Closed);
        (0..3).for_each(|_| _ = fail(&breaker));
        assert_eq!(breaker.state(), CircuitState::Open);
    });
}

/// - given: an open breaker with two probes
/// - when: its time has passed, and calls come
/// - then: two are made, and the others are refused while they run; if both succeed, the breaker
///   closes and has forgotten the old failures
#[test]
fn resilience_12_probes_close() {
    sim::test(|| {
        let breaker = CircuitBreaker::new().min_calls(1).open_for(ms(100)).probes(2);
        open(&breaker);
        time::sleep(ms(99)).unwrap();
        assert_eq!(succeed(&breaker), Err(CircuitError::Open { retry_after: ms(1) }));
        time::sleep(ms(1)).unwrap();
        assert_eq!(breaker.state(), CircuitState::HalfOpen);
        ecru::scope(|s| {
            let probes = [10, 20].map(|length| {
                let breaker = &breaker;
                begin(s, move || breaker.call(|| time::sleep(ms(length))))
            });
            let refused = succeed(&breaker);
            assert_eq!(refused, Err(CircuitError::Open { retry_after: Duration::ZERO }));
            assert!(refused.unwrap_err().to_string().contains("half open"));
            probes[0].join().unwrap().unwrap();
            assert!(is_refused(&succeed(&breaker)), "one success is not enough");
            probes[1].join().unwrap().unwrap();
        });
        assert_eq!(breaker.state(), CircuitState::Closed);
        succeed(&breaker).unwrap();
        // One of two.
        open(&breaker);
    });
}

/// - given: a half-open breaker with two probes
/// - when: the second fails while the first is running
/// - then: it opens again for the whole time; the first, which succeeds later, changes nothing, also
///   if other probes run by then
#[test]
fn resilience_13_probe_opens_again() {
    sim::test(|| {
        let breaker = CircuitBreaker::new().min_calls(1).open_for(ms(100)).probes(2);
        open(&breaker);
        time::sleep(ms(100)).unwrap();
        ecru::scope(|s| {
            let late = begin(s, || breaker.call(|| time::sleep(ms(150))));
            open(&breaker);
            assert_eq!(succeed(&breaker), Err(CircuitError::Open { retry_after: ms(100) }));
            time::sleep(ms(100)).unwrap();
            succeed(&breaker).unwrap();
            late.join().unwrap().unwrap();
            assert_eq!(breaker.state(), CircuitState::HalfOpen);
            succeed(&breaker).unwrap();
            assert_eq!(breaker.state(), CircuitState::Closed);
        });
    });
}

/// - given: a probe
/// - when: it panics, or its caller is cancelled
/// - then: the panic is a failure and passes on; the cancelled call says nothing, and another probe
///   may be made
#[test]
fn resilience_14_probe_panics_or_is_cancelled() {
    sim::test(|| {
        let breaker = CircuitBreaker::new().min_calls(1).open_for(ms(100));
        let text = panic_text(|| breaker.call(|| -> Result<(), ()> { quiet_panic("oh") }));
        assert_eq!((text.as_str(), breaker.state()), ("oh", CircuitState::Open));
        time::sleep(ms(100)).unwrap();
        ecru::scope(|s| {
            let probe = begin(s, || breaker.call(|| time::sleep(HOUR)));
            assert!(is_refused(&succeed(&breaker)));
            probe.cancel();
            assert!(matches!(probe.join().unwrap(), Err(CircuitError::Failed(_))));
            assert_eq!(breaker.state(), CircuitState::HalfOpen);
            // A limit inside the call is a failure of what was called.
            let limited = breaker.call(|| ecru::timeout(ms(10), || time::sleep(HOUR)));
            assert!(matches!(limited, Err(CircuitError::Failed(_))));
            assert_eq!(breaker.state(), CircuitState::Open);
        });
    });
}

/// - given: errors that are answers
/// - when: `call_when` is told so
/// - then: they count as successes, also for a probe
#[test]
fn resilience_15_errors_that_are_no_failures() {
    sim::test(|| {
        let breaker = CircuitBreaker::new().min_calls(1).open_for(ms(100));
        let ask = |answer| breaker.call_when(|error| *error == "broken", || Err::<(), _>(answer));
        assert_eq!(ask("not found"), Err(CircuitError::Failed("not found")));
        assert_eq!(breaker.state(), CircuitState::Closed);
        assert_eq!(ask("broken").unwrap_err().into_inner(), Some("broken"));
        assert_eq!(breaker.state(), CircuitState::Open);
        time::sleep(ms(100)).unwrap();
        assert!(ask("not found").is_err());
        assert_eq!(breaker.state(), CircuitState::Closed);
    });
}

/// - given: a breaker that several tasks share, and a server that fails for a while
/// - when: they call it with retries
/// - then: all succeed in the end, and the server has got few calls while it failed
#[test]
fn resilience_16_breaker_and_retry() {
    sim::test(|| {
        let breaker = CircuitBreaker::new().min_calls(4).open_for(ms(100));
        let (start, made) = (time::now(), AtomicUsize::new(0));
        let server = || {
            made.fetch_add(1, SeqCst);
            time::sleep(ms(1))?;
            if crate::common::since(start) < ms(350) {
                return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
            }
            Ok(())
        };
        ecru::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    let retry = Retry::new().delay(ecru::schedule::Delay::Constant(ms(10)));
                    retry.until_ok(|| breaker.call(server)).unwrap();
                });
            }
        });
        // The first four, three probes that failed, one that did not, and the last three.
        assert_eq!(made.into_inner(), 11);
        assert_eq!(breaker.state(), CircuitState::Closed);
    });
}

/// - given: the errors of a breaker
/// - when: they become other errors
/// - then: a failure is the error itself, and a cancellation remains one
#[test]
fn resilience_17_breaker_errors() {
    let refused = CircuitError::<io::Error>::Open { retry_after: ms(5) };
    assert_eq!(io::Error::from(refused).to_string(), "the circuit is open; try again after 5ms");
    let failed = CircuitError::Failed(io::Error::from(io::ErrorKind::NotFound));
    assert_eq!(io::Error::from(failed).kind(), io::ErrorKind::NotFound);
    each_run(|| {
        let cancelled = ecru::cancel_scope(|c| {
            c.cancel();
            let error = CircuitError::<io::Error>::from(ecru::checkpoint().unwrap_err());
            Cancelled::find(&io::Error::from(error)).is_some()
        });
        assert!(cancelled);
    });
}

/// - given: settings that make no sense
/// - when: a breaker gets them
/// - then: it panics and says why
#[test]
fn resilience_18_breaker_bad_settings() {
    for rate in [0.0, -1.0, 1.1, f64::NAN] {
        let text = panic_text(|| CircuitBreaker::new().failure_rate(rate));
        assert!(text.contains("is not a share"), "{text}");
    }
    let text = panic_text(|| CircuitBreaker::new().window(Duration::ZERO));
    assert!(text.contains("no length"), "{text}");
    let text = panic_text(|| CircuitBreaker::new().probes(0));
    assert!(text.contains("would never close"), "{text}");
    // Never is a time, too.
    let breaker = CircuitBreaker::default().min_calls(0).failure_rate(1.0).open_for(Duration::MAX);
    open(&breaker);
    assert!(is_refused(&succeed(&breaker)));
}
