//! `supervise`: tasks that are started again when they fail.

use crate::common::{HOUR, begin, forever, ms, panic_text, quiet_panic, until};
use crate::simulated::each_run;
use ecru::{Cancelled, sim, task, time};
use ecru_flow::{Failure, SuperviseError, Supervisor, supervise};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// - given: three children
/// - when: one fails twice, one panics once, and one is at work
/// - then: the first two are started again, the third is left alone; each runs in a task of its name;
///   `run` returns when all have returned `Ok`
#[test]
fn resilience_19_supervise() {
    each_run(|| {
        let starts = [const { AtomicUsize::new(0) }; 3];
        let start = |at: usize| {
            assert_eq!(task::current().name(), Some(["fails", "panics", "works"][at]));
            starts[at].fetch_add(1, SeqCst)
        };
        supervise(3, HOUR)
            .child("fails", || if start(0) < 2 { Err("broken") } else { Ok(()) })
            .child(String::from("panics"), || match start(1) {
                0 => quiet_panic("oh"),
                _ => Ok(()),
            })
            .child("works", || {
                start(2);
                until(|| starts[0].load(SeqCst) == 3 && starts[1].load(SeqCst) == 2);
                Ok(())
            })
            .run()
            .unwrap();
        assert_eq!(starts.map(AtomicUsize::into_inner), [3, 2, 1]);
    });
}

/// - given: at most two restarts, and a child that is at work
/// - when: others fail three times, by an error or a panic
/// - then: the third failure is the error; the child at work has been cancelled and has ended
#[test]
fn resilience_20_too_many_restarts_escalate() {
    each_run(|| {
        let (starts, working) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let fails = |panics: bool| -> Result<(), String> {
            until(|| working.load(SeqCst) == 1);
            starts.fetch_add(1, SeqCst);
            if panics {
                quiet_panic("oh");
            }
            Err(format!("failure {}", starts.load(SeqCst)))
        };
        let works = || {
            working.fetch_add(1, SeqCst);
            forever();
            working.fetch_sub(1, SeqCst);
            Err(String::from("cancelled"))
        };
        let outcome = supervise(2, HOUR).child("a", || fails(false)).child("b", works).run();
        let error = outcome.unwrap_err();
        assert_eq!(error.to_string(), "`a` failed after too many restarts: failure 3");
        let SuperviseError::Escalated { child, failure: Failure::Failed(text) } = error else {
            panic!("{error}");
        };
        assert_eq!((child.as_str(), text.as_str()), ("a", "failure 3"));

        let outcome = supervise(0, HOUR).child("a", || fails(true)).child("b", works);
        let error = outcome.run().unwrap_err();
        assert_eq!(error.to_string(), "`a` failed after too many restarts: it panicked: oh");
        assert_eq!(io::Error::from(error).kind(), io::ErrorKind::Other);
        assert_eq!((starts.into_inner(), working.into_inner()), (4, 0));
    });
}

/// - given: at most two restarts in a second
/// - when: a child fails every 500 ms
/// - then: it is started again each time, since a restart is forgotten after a second; when it fails
///   more often, it escalates
#[test]
fn resilience_21_restarts_are_forgotten() {
    sim::test(|| {
        let starts = AtomicUsize::new(0);
        let body = || {
            let often = starts.fetch_add(1, SeqCst) >= 20;
            time::sleep(ms(if often { 499 } else { 500 }))?;
            Err::<(), io::Error>(io::ErrorKind::ConnectionReset.into())
        };
        let error = supervise(2, ms(1000)).child("client", body).run().unwrap_err();
        assert!(matches!(error, SuperviseError::Escalated { failure: Failure::Failed(_), .. }));
        assert_eq!(starts.into_inner(), 21);
    });
}

/// - given: children at work
/// - when: the caller is cancelled
/// - then: they are cancelled and awaited, none is started again, and `run` returns `Cancelled`,
///   also as an `io::Error`
#[test]
fn resilience_22_supervisor_is_cancelled() {
    each_run(|| {
        let (starts, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        ecru::scope(|s| {
            let supervisor = begin(s, || {
                let body = || {
                    starts.fetch_add(1, SeqCst);
                    let cancelled = forever();
                    ended.fetch_add(1, SeqCst);
                    Err(io::Error::from(cancelled))
                };
                supervise(usize::MAX, HOUR).child("a", body).child("b", body).run()
            });
            until(|| starts.load(SeqCst) == 2);
            supervisor.cancel();
            let error = supervisor.join().unwrap().unwrap_err();
            assert!(matches!(error, SuperviseError::Cancelled(_)));
            assert!(Cancelled::find(&error.into()).is_some());
        });
        assert_eq!((starts.into_inner(), ended.into_inner()), (2, 2));
    });
}

/// - given: a supervisor that is a child of another
/// - when: its own child fails too often
/// - then: the outer one starts it again, with a fresh limit
#[test]
fn resilience_23_supervisors_nest() {
    each_run(|| {
        let starts = AtomicUsize::new(0);
        let body =
            || if starts.fetch_add(1, SeqCst) < 5 { Err(io::Error::other("no")) } else { Ok(()) };
        let inner = || Ok::<_, io::Error>(supervise(2, HOUR).child("worker", body).run()?);
        supervise(1, HOUR).child("inner", inner).run().unwrap();
        assert_eq!(starts.into_inner(), 6);
    });
}

/// - given: children that borrow, and share state
/// - when: one panics while it holds a lock of ecru
/// - then: its next start, and the others, get the lock
#[test]
fn resilience_24_panic_with_a_lock() {
    each_run(|| {
        let shared = ecru::sync::Mutex::new(0);
        let body = || {
            let mut count = shared.lock();
            *count += 1;
            if *count == 1 {
                quiet_panic("with the lock");
            }
            Ok::<_, ()>(())
        };
        supervise(1, HOUR).child("a", body).child("b", body).run().unwrap();
        assert_eq!(shared.into_inner(), 3);
    });
}

/// - given: no children; a child that panics when it is told to stop
/// - when: `run` is called
/// - then: it returns at once; the panic continues in the caller
#[test]
fn resilience_25_supervise_odd_children() {
    each_run(|| {
        let none: Supervisor<'_, ()> = supervise(0, HOUR);
        none.run().unwrap();
        let begun = Mutex::new(false);
        let text = panic_text(|| {
            supervise(0, HOUR)
                .child("fails", || {
                    until(|| *begun.lock().unwrap());
                    Err("broken")
                })
                .child("does not stop", || {
                    *begun.lock().unwrap() = true;
                    forever();
                    quiet_panic("no")
                })
                .run()
        });
        assert!(text.contains("does not stop"), "{text}");
    });
}
