//! Handles as sources.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use ecru::source::Either;
use ecru::{JoinError, Source, channel, source};

use crate::support::{begin, each_run, forever, ms, quiet_panic, run_on, settle, text_of, until};

/// - given: a task that has not ended
/// - when: its handle is waited on as a source, then once more
/// - then: the wait ends with the result when the task ends; the second wait returns `Taken` at
///   once
#[test]
fn handle_01_waits() {
    each_run(|| {
        ecru::scope(|s| {
            let (go, gone) = channel::bounded(0);
            let task = s.spawn(move || gone.recv().unwrap() + 1);
            assert!(task.try_take().is_none());
            s.spawn(move || {
                settle();
                go.send(41).unwrap();
            });
            assert_eq!(task.wait().unwrap().unwrap(), 42);
            assert!(matches!(task.wait(), Ok(Err(JoinError::Taken))));
            assert!(matches!(task.join(), Err(JoinError::Taken)));
        });
    });
}

/// - given: three tasks, one of which ends
/// - when: their handles are raced
/// - then: the race returns its result and position; the other tasks run on and can be joined
#[test]
fn handle_02_losers_keep_theirs() {
    each_run(|| {
        ecru::scope(|s| {
            let (go, gone) = channel::unbounded();
            let slow = |n| {
                let gone = gone.clone();
                s.spawn(move || gone.recv().map(|()| n))
            };
            let tasks =
                [slow(0), s.spawn(|| ecru::sleep(ms(1)).map_or(Ok(9), |()| Ok(1))), slow(2)];
            assert!(matches!(source::race_indexed(&tasks).wait(), Ok((1, Ok(Ok(1))))));
            assert!(!tasks[0].is_finished() && !tasks[2].is_finished());
            go.send(()).unwrap();
            go.send(()).unwrap();
            assert_eq!(tasks[0].join().unwrap(), Ok(0));
            assert!(matches!(tasks[2].wait(), Ok(Ok(Ok(2)))));
            assert!(matches!(tasks[1].join(), Err(JoinError::Taken)));
        });
    });
}

/// - given: a task that does not end, and a channel
/// - when: both are waited for
/// - then: the channel's value is returned, and the handle stays usable
#[test]
fn handle_03_beside_other_sources() {
    each_run(|| {
        ecru::scope(|s| {
            let (sender, letters) = channel::unbounded();
            let task = begin(s, forever);
            s.spawn(move || {
                settle();
                sender.send("letter").unwrap();
            });
            match source::either(&task, &letters).wait() {
                Ok(Either::Right(letter)) => assert_eq!(letter, Ok("letter")),
                other => panic!("{other:?}"),
            }
            task.cancel();
            assert_eq!(task.join().unwrap().reason(), ecru::CancelReason::Explicit);
        });
    });
}

/// - given: 10,000 tasks of which one ends
/// - when: their handles are raced
/// - then: its result is returned, and the other handles keep theirs
#[test]
fn handle_04_ten_thousand() {
    run_on(2, || {
        // On the baton backend each task has a thread of its own, and a simulation looks at all tasks
        // in each step.
        let few = cfg!(ecru_baton) || crate::simulated::is_on();
        let count = if few { 200 } else { 10_000 };
        let one = count / 2 + 1;
        let open = AtomicBool::new(false);
        ecru::scope(|s| {
            let (chosen, choose) = channel::bounded(0);
            let (go, gone) = channel::unbounded::<()>();
            let tasks: Vec<_> = (0..count)
                .map(|n| {
                    let (choose, gone, open) = (choose.clone(), gone.clone(), &open);
                    s.builder().stack_size(16 << 10).spawn(move || {
                        if n == one {
                            choose.recv().unwrap();
                        } else {
                            let _ = gone.recv();
                            assert!(open.load(SeqCst));
                        }
                        n
                    })
                })
                .collect();
            s.spawn(move || chosen.send(()).unwrap());
            let (at, result) = source::race_indexed(&tasks).wait().unwrap();
            assert_eq!((at, result.unwrap()), (one, one));
            open.store(true, SeqCst);
            drop(go);
            for (at, task) in tasks.iter().enumerate().filter(|(at, _)| *at != one) {
                assert_eq!(task.join().unwrap(), at);
            }
        });
    });
}

/// - given: a task that has not ended, with a shared handle
/// - when: several tasks wait on it as a source, repeatedly
/// - then: each wait returns a copy
#[test]
fn handle_05_shared() {
    each_run(|| {
        ecru::scope(|s| {
            let (go, gone) = channel::bounded(0);
            let task = s.spawn(move || gone.recv().map(|()| String::from("copy"))).shared();
            let waiting: Vec<_> = (0..3)
                .map(|_| {
                    let task = task.clone();
                    s.spawn(move || task.wait())
                })
                .collect();
            settle();
            go.send(()).unwrap();
            for one in &waiting {
                assert_eq!(one.join().unwrap().unwrap().unwrap().unwrap(), "copy");
            }
            assert_eq!(source::race([&task, &task]).wait().unwrap().unwrap().unwrap(), "copy");
            assert_eq!(task.join().unwrap().unwrap(), "copy");
        });
    });
}

/// - given: a wait on a handle
/// - when: the waiter is cancelled
/// - then: `Cancelled`, and the handle stays usable
#[test]
fn handle_06_cancelled() {
    each_run(|| {
        let begun = &AtomicBool::new(false);
        ecru::scope(|s| {
            let (go, gone) = channel::bounded(0);
            let task = s.spawn(move || gone.recv());
            let waiting = s.spawn(move || {
                begun.store(true, SeqCst);
                (task.wait().map(drop), task)
            });
            // A task that has not begun would be dropped unrun.
            until(|| begun.load(SeqCst));
            settle();
            waiting.cancel();
            let (waited, task) = waiting.join().unwrap();
            assert!(waited.is_err());
            go.send(5).unwrap();
            assert_eq!(task.join().unwrap(), Ok(5));
        });
    });
}

/// - given: a task that panics
/// - when: its handle is waited on as a source
/// - then: it returns `JoinError::Panicked`, and the scope does not panic
#[test]
fn handle_07_panicked() {
    each_run(|| {
        ecru::scope(|s| {
            let task = s.spawn(|| -> u32 { quiet_panic("over") });
            match source::race([&task]).wait() {
                Ok(Err(JoinError::Panicked(payload))) => {
                    assert_eq!(text_of(&*payload.into_inner()), "over");
                }
                other => panic!("{other:?}"),
            }
        });
    });
}

/// - given: a task that is cancelled before it began
/// - when: its handle is waited on as a source
/// - then: `JoinError::Cancelled`
#[test]
fn handle_08_never_ran() {
    run_on(1, || {
        ecru::scope(|s| {
            let task = s.spawn(|| 1);
            task.cancel();
            assert!(matches!(task.wait(), Ok(Err(JoinError::Cancelled))));
        });
    });
}

/// - given: a plain thread, and tasks of a runtime
/// - when: it races their handles
/// - then: it gets the first result
#[test]
fn handle_09_on_a_thread() {
    run_on(2, || {
        let runtime = ecru::RuntimeHandle::current();
        let done = AtomicBool::new(false);
        thread::scope(|threads| {
            threads.spawn(|| {
                let slow = runtime.spawn(forever).unwrap();
                let quick = runtime.spawn(|| ecru::sleep(ms(1))).unwrap();
                let first = source::either(&slow, &quick).wait().unwrap();
                assert!(matches!(first, Either::Right(Ok(Ok(())))));
                slow.cancel();
                // On a busy machine it may not have begun yet.
                assert!(matches!(slow.join(), Ok(_) | Err(JoinError::Cancelled)));
                done.store(true, SeqCst);
            });
            until(|| done.load(SeqCst));
        });
    });
}

/// - given: a handle
/// - when: the source from its `map(f)` is waited on
/// - then: `f` gets the result, on the waiter's stack
#[test]
fn handle_10_mapped() {
    each_run(|| {
        ecru::scope(|s| {
            let me = ecru::task::current().id();
            let task = s.spawn(|| ecru::task::current().id());
            let (task, mapper) =
                task.map(|id| (id.unwrap(), ecru::task::current().id())).wait().unwrap();
            assert!(task != me && mapper == me);
        });
    });
}

/// - given: tasks and a channel
/// - when: a `select!` waits for them
/// - then: the arm of the first is taken, and the others lose nothing
#[test]
fn handle_11_select() {
    each_run(|| {
        ecru::scope(|s| {
            let (go, gone) = channel::bounded(0);
            let (sender, letters) = channel::unbounded();
            let first = s.spawn(move || gone.recv());
            let never = begin(s, forever);
            for round in 0..3 {
                let taken = ecru::select! {
                    recv(letters) -> letter => letter.unwrap(),
                    wait(first) -> end => end.unwrap().map_or("taken", |end| end.unwrap()),
                    wait(never) -> _ => unreachable!("nobody has cancelled it yet"),
                    default => { go.send("task").unwrap(); until(|| first.is_finished()); "none" },
                };
                match round {
                    0 => assert_eq!(taken, "none"),
                    1 => assert_eq!(taken, "task"),
                    _ => assert_eq!(taken, "taken"),
                }
            }
            s.spawn(move || sender.send("letter").unwrap());
            ecru::select! {
                recv(letters) -> letter => assert_eq!(letter, Ok("letter")),
                wait(never) -> _ => unreachable!("nobody has cancelled it yet"),
            }
            never.cancel();
            assert!(never.join().is_ok());
        });
    });
}
