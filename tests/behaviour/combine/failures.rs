//! The end of each combinator if it gets no tasks, fails, or is cancelled.

use super::{Failure, Outcome, bad, good, parked};
use crate::support::{each_run, ms, panic_text, quiet_panic, run_on, settle, until};
use ecru::{JoinError, JoinHandle, JoinSet};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// - given: no handles
/// - when: each combinator is called
/// - then: `JoinError::Empty`; `join_all` returns an empty `Vec`
#[test]
fn combine_05_none_given() {
    each_run(|| {
        let none = || Vec::<JoinHandle<'static, Outcome>>::new();
        let empty = Failure::None("empty");
        assert_eq!(ecru::zip(none()), Err(empty.clone()));
        assert!(matches!(ecru::zip(()), Err(JoinError::Empty)));
        assert_eq!(ecru::first_ok(none()), Err(empty.clone()));
        assert_eq!(ecru::first_ok_keep(none()), Err(empty.clone()));
        assert_eq!(ecru::try_join_all(none()), Err(empty));
        assert!(ecru::join_all(none()).is_empty());
    });
}

/// - given: a task that panics
/// - when: each combinator is called
/// - then: `Panicked`, converted to the error type; the scope ends normally
#[test]
fn combine_06_panics_are_failures() {
    each_run(|| {
        ecru::scope(|s| {
            let panics = || s.spawn(|| -> Outcome { quiet_panic("expected") });
            let panicked = Failure::None("panicked");
            assert_eq!(ecru::zip((panics(), good(s, 1))), Err(panicked.clone()));
            assert_eq!(ecru::zip(vec![panics()]), Err(panicked.clone()));
            assert_eq!(ecru::try_join_all([panics()]), Err(panicked.clone()));
            assert_eq!(ecru::first_ok([panics()]), Err(panicked.clone()));
            // If it had not ended by then, its panic would be its scope's.
            let over = panics();
            until(|| over.is_finished());
            assert_eq!(ecru::first_ok_keep((over, good(s, 2))), Ok(2));
            let mut all = ecru::join_all([good(s, 3), panics()]);
            let Err(JoinError::Panicked(payload)) = all.remove(1) else { panic!("{all:?}") };
            assert_eq!(payload.message(), Some("expected"));
        });
    });
}

/// - given: a task cancelled before it began
/// - when: each combinator is called
/// - then: `JoinError::Cancelled`, converted to the error type
#[test]
fn combine_07_never_began() {
    each_run(|| {
        ecru::scope(|s| {
            let (one, two) = (good(s, 1), good(s, 2));
            s.cancel();
            let late = || good(s, 3);
            let never = Failure::None("never began");
            assert_eq!(ecru::zip((late(), late())), Err(never.clone()));
            assert_eq!(ecru::try_join_all([late(), late()]), Err(never.clone()));
            assert_eq!(ecru::first_ok([late(), late()]), Err(never.clone()));
            assert_eq!(ecru::first_ok_keep([late(), late()]), Err(never));
            assert!(matches!(ecru::join_all([late()])[..], [Err(JoinError::Cancelled)]));
            drop((one, two));
        });
    });
}

/// - given: a task in `zip`, `first_ok`, `first_ok_keep` or `try_join_all`, after some of the
///   listed tasks have succeeded
/// - when: it is cancelled, or its deadline passes
/// - then: `CallerCancelled`; none of the listed tasks is cancelled, and lent handles still have
///   every result, except failures that `first_ok` has taken
#[test]
fn combine_16_caller_cancelled() {
    each_run(|| {
        ecru::scope(|s| {
            let (done, slow) = (good(s, 1), parked(s));
            until(|| done.is_finished());
            let caller = Err(Failure::None("caller"));
            let soon = |body: &dyn Fn()| assert!(ecru::timeout(ms(1), body).is_err());
            soon(&|| {
                assert_eq!(ecru::zip((&done, &slow)).map(drop), caller.clone().map(drop::<u32>))
            });
            soon(&|| {
                assert_eq!(ecru::zip([&slow, &done]).map(drop), caller.clone().map(drop::<u32>))
            });
            soon(&|| {
                let all = ecru::try_join_all([&done, &slow]);
                assert_eq!(all.map(drop), caller.clone().map(drop::<u32>));
            });
            soon(&|| assert_eq!(ecru::first_ok([&slow]), caller));
            soon(&|| assert_eq!(ecru::first_ok_keep((&slow,)), caller));
            settle();
            assert!(!slow.is_finished());
            assert_eq!(done.join().unwrap(), Ok(1));
            // Cancelled through its handle.
            let waiting = AtomicBool::new(false);
            ecru::scope(|inner| {
                let combining = inner.spawn(|| {
                    waiting.store(true, SeqCst);
                    ecru::first_ok([&slow])
                });
                until(|| waiting.load(SeqCst));
                settle();
                combining.cancel();
                assert_eq!(combining.join().unwrap(), caller);
            });
            slow.cancel();
        });
    });
}

/// - given: a cancelled caller, and tasks that have ended
/// - when: each combinator is called
/// - then: `CallerCancelled`; nothing is consumed
#[test]
fn combine_17_cancelled_before() {
    each_run(|| {
        ecru::scope(|s| {
            let handles = [good(s, 0), good(s, 1)];
            until(|| handles.iter().all(JoinHandle::is_finished));
            ecru::cancel_scope(|c| {
                c.cancel();
                let caller = Failure::None("caller");
                assert_eq!(ecru::zip(&handles), Err(caller.clone()));
                assert_eq!(ecru::zip((&handles[0], &handles[1])), Err(caller.clone()));
                assert_eq!(ecru::try_join_all(&handles), Err(caller.clone()));
                assert_eq!(ecru::first_ok(&handles), Err(caller.clone()));
                assert_eq!(ecru::first_ok_keep(&handles), Err(caller));
                let all = ecru::join_all(&handles);
                assert!(all.iter().all(|one| matches!(one, Err(JoinError::CallerCancelled))));
            });
            assert_eq!(ecru::zip(handles), Ok(vec![0, 1]));
        });
    });
}

/// - given: a task that was not awaited
/// - when: it panics later, and is never joined
/// - then: its scope panics
#[test]
fn combine_23_a_later_panic() {
    each_run(|| {
        for keep in [false, true] {
            let go = AtomicBool::new(false);
            let text = panic_text(|| {
                ecru::scope(|s| {
                    let later = s.spawn(|| -> Outcome {
                        until(|| go.load(SeqCst));
                        quiet_panic("later")
                    });
                    if keep {
                        assert_eq!(ecru::first_ok_keep((good(s, 2), later)), Ok(2));
                    } else {
                        assert!(ecru::zip((bad(s, 3), later)).is_err());
                    }
                    go.store(true, SeqCst);
                });
            });
            assert!(text.contains("later"), "{text}");
        }
    });
}

/// - given: a `no_suspend` section
/// - when: each combinator is called
/// - then: it panics
#[test]
fn combine_38_no_suspend() {
    run_on(1, || {
        ecru::scope(|s| {
            let handles = [good(s, 1)];
            until(|| handles[0].is_finished());
            let refused = |call: &dyn Fn()| {
                let text = panic_text(|| ecru::no_suspend(call));
                assert!(text.contains("no_suspend"), "{text}");
            };
            refused(&|| drop(ecru::zip(&handles)));
            refused(&|| drop(ecru::zip((&handles[0],))));
            refused(&|| drop(ecru::first_ok(&handles)));
            refused(&|| drop(ecru::first_ok_keep(&handles)));
            refused(&|| drop(ecru::try_join_all(&handles)));
            refused(&|| drop(ecru::join_all(&handles)));
            refused(&|| drop(JoinSet::<u32>::new(s).join_next()));
            refused(&|| drop(ecru::join!(1)));
            assert_eq!(ecru::zip(handles), Ok(vec![1]));
        });
    });
}
