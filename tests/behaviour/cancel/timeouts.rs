//! Time limits, nested, and on plain threads.

use std::io::{self, Read};
use std::thread;
use std::time::Duration;

use ecru::{CancelReason, Elapsed};

use super::{pair, spin};
use crate::support::{HOUR, Watchdog, each_run, forever, ms, now, run_on, since};

/// - given: `timeout`
/// - when: the body ends in time
/// - then: it returns the body's value, and no later wait is cancelled
#[test]
fn cancel_22_timeout_in_time() {
    each_run(|| {
        assert_eq!(ecru::timeout(ms(1), || 7), Ok(7));
        assert_eq!(ecru::timeout_at(now() + HOUR, || ecru::sleep(ms(1))), Ok(Ok(())));
        ecru::sleep(ms(3)).unwrap();
        assert!(!ecru::is_cancelled());
    });
}

/// - given: a body that cleans up under `shield` after its cancellation
/// - when: the deadline passes
/// - then: `timeout` returns `Elapsed` after the clean-up has ended
#[test]
fn cancel_23_timeout_awaits() {
    each_run(|| {
        let mut cleaned = false;
        let result = ecru::timeout(ms(1), || {
            forever();
            ecru::shield(|| ecru::sleep(ms(2))).unwrap();
            cleaned = true;
        });
        assert!(result.is_err() && cleaned);
    });
}

/// - given: a body that never waits
/// - when: it ends after the deadline
/// - then: `timeout` returns its value
#[test]
fn cancel_24_timeout_not_noticed() {
    each_run(|| {
        let late = ecru::timeout(ms(1), || {
            spin(ms(3));
            7
        });
        assert_eq!(late, Ok(7));
        assert!(ecru::checkpoint().is_ok());
    });
}

/// - given: a body that ignores the `Cancelled` of a wait
/// - when: it returns a value
/// - then: `timeout` returns `Elapsed`
#[test]
fn cancel_25_timeout_swallowed() {
    each_run(|| {
        let result = ecru::timeout(ms(1), || {
            forever();
            7
        });
        assert!(result.is_err());
    });
}

/// - given: a body whose scope has a waiting child
/// - when: the deadline passes
/// - then: the child is cancelled, and `timeout` returns `Elapsed`
#[test]
fn cancel_26_timeout_through_a_child() {
    each_run(|| {
        let result = ecru::timeout(ms(2), || {
            ecru::scope(|s| {
                s.spawn(|| assert_eq!(forever().reason(), CancelReason::Deadline));
            });
            7
        });
        assert!(result.is_err());
        // So does the interruption of a child that has not begun.
        let result = ecru::timeout(Duration::ZERO, || {
            spin(ms(1));
            ecru::scope(|s| drop(s.spawn(forever)));
        });
        assert!(result.is_err());
        assert!(ecru::checkpoint().is_ok());
    });
}

/// - given: a timeout within a shorter one
/// - when: the outer one expires
/// - then: the inner body is cancelled; only the outer call returns `Elapsed`
#[test]
fn cancel_27_outer_deadline_first() {
    each_run(|| {
        let mut inner = None;
        let outer = ecru::timeout(ms(1), || {
            inner = Some(ecru::timeout(HOUR, || forever().reason()));
            assert!(ecru::checkpoint().is_err());
        });
        assert!(outer.is_err());
        assert_eq!(inner, Some(Ok(CancelReason::Deadline)));
    });
}

/// - given: a timeout within a longer one
/// - when: the inner one expires
/// - then: the inner call returns `Elapsed`, and waits after it work
#[test]
fn cancel_28_inner_deadline_first() {
    each_run(|| {
        let outer = ecru::timeout(HOUR, || {
            let inner = ecru::timeout(ms(1), forever);
            assert!(inner.is_err());
            ecru::sleep(ms(1)).unwrap();
            7
        });
        assert_eq!(outer, Ok(7));
    });
}

/// - given: `timeout` of zero, and `timeout_at` of a past instant
/// - when: the body waits
/// - then: it returns `Elapsed`; if the body does not wait, it returns the body's value
#[test]
fn cancel_29_timeout_of_nothing() {
    each_run(|| {
        let past = now().checked_sub(ms(5)).unwrap_or_else(now);
        assert!(ecru::timeout(Duration::ZERO, forever).is_err());
        assert!(ecru::timeout_at(past, forever).is_err());
        assert_eq!(ecru::timeout(Duration::ZERO, || 7), Ok(7));
        assert_eq!(ecru::timeout_at(past, || 7), Ok(7));
    });
}

/// - given: `timeout` of `Duration::MAX`
/// - when: the body ends
/// - then: it returns the body's value
#[test]
fn cancel_30_timeout_for_ever() {
    each_run(|| {
        assert_eq!(ecru::timeout(Duration::MAX, || ecru::sleep(ms(1))), Ok(Ok(())));
        assert_eq!(ecru::timeout(Duration::MAX / 2, || 7), Ok(7));
        let soon = ecru::timeout(ms(1), || ecru::sleep(Duration::MAX));
        assert!(soon.is_err());
    });
}

#[derive(Debug, PartialEq)]
enum Trouble {
    Late,
    Own,
}

impl From<Elapsed> for Trouble {
    fn from(_: Elapsed) -> Trouble {
        Trouble::Late
    }
}

/// - given: `try_timeout` with an error type that is `From<Elapsed>`
/// - when: the deadline passes; or the body itself fails
/// - then: the first is `Elapsed` converted; the second is the body's own error
#[test]
fn cancel_31_try_timeout() {
    each_run(|| {
        let late: Result<(), Trouble> = ecru::try_timeout(ms(1), || {
            forever();
            Err(Trouble::Own)
        });
        assert_eq!(late, Err(Trouble::Late));
        assert_eq!(ecru::try_timeout(HOUR, || Err::<(), _>(Trouble::Own)), Err(Trouble::Own));
        assert_eq!(ecru::try_timeout(HOUR, || Ok::<_, Trouble>(7)), Ok(7));
        let io: io::Result<()> = ecru::try_timeout(ms(1), || Ok(ecru::sleep(HOUR)?));
        assert_eq!(io.unwrap_err().kind(), io::ErrorKind::TimedOut);
    });
}

/// - given: a plain thread inside `timeout`
/// - when: it sleeps, joins or reads for longer
/// - then: the wait ends at the deadline, and `Elapsed` is returned
#[test]
fn cancel_43_thread_deadline() {
    let _watchdog = Watchdog::new();
    let before = now();
    assert!(ecru::timeout(ms(2), || forever().reason()).is_err());
    assert!(since(before) >= ms(2));
    let (mut client, _server) = pair();
    let read = ecru::timeout(ms(2), || client.read(&mut [0]));
    assert!(read.is_err());
    assert!(ecru::timeout(HOUR, || ecru::timeout(ms(1), forever)).unwrap().is_err());
    assert!(ecru::timeout(ms(1), || ecru::timeout(HOUR, forever).unwrap()).is_err());
    assert_eq!(ecru::timeout(HOUR, || ecru::sleep(ms(1))), Ok(Ok(())));
    assert!(ecru::checkpoint().is_ok());
    run_on(1, || {
        ecru::scope(|s| {
            let child = s.spawn(forever);
            thread::scope(|threads| {
                let joined = threads.spawn(|| ecru::timeout(ms(2), || child.join().map(drop)));
                assert!(joined.join().unwrap().is_err());
            });
            child.cancel();
        });
    });
}
