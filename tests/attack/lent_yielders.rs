//! A yielder that is used on a stack other than its coroutine's. It must not suspend, because
//! frames from which others borrow would stay open.

use std::cell::{Cell, OnceCell};
use std::panic::{self, AssertUnwindSafe};
use std::rc::Rc;

use ecru::coroutine::{Coroutine, CoroutineState, Yielder};

use crate::{OnDrop, run_on};

/// Returns whether the call panics with a text that contains `text`.
fn refused<T>(text: &str, f: impl FnOnce() -> T) -> bool {
    let Err(payload) = panic::catch_unwind(AssertUnwindSafe(f)) else { return false };
    let found = match (payload.downcast_ref::<&str>(), payload.downcast_ref::<String>()) {
        (Some(found), _) => found,
        (_, Some(found)) => found.as_str(),
        _ => "",
    };
    assert!(found.contains(text), "{found}");
    true
}

const OUTSIDE: &str = "outside";

/// Runs `body` in a root, inside the root's scope, and in a task without open frames.
fn in_tasks(body: fn()) {
    run_on(1, || {
        body();
        ecru::scope(|s| s.spawn(body).join().unwrap());
    });
}

/// - row: `coroutine_34_lent_yielder`
/// - given: a yielder that is lent to a task, a run or another coroutine
/// - when: it suspends there
/// - then: it panics, saying so
///
/// The child borrows the yielder. Suspending would leave the scope open with a running child.
#[test]
fn coroutine_34_lent_yielder_in_a_child() {
    in_tasks(|| {
        let coroutine = Coroutine::new(|yielder: &Yielder<(), ()>, ()| {
            ecru::scope(|s| {
                let child = s.spawn_local(|| refused(OUTSIDE, || yielder.suspend(())));
                let with = s.spawn_local(|| refused(OUTSIDE, || yielder.suspend_with((), || ())));
                child.join().unwrap() && with.join().unwrap()
            })
        });
        assert_eq!(coroutine.resume(()), CoroutineState::Complete(true));
    });
}

/// As above, with a child that has parked in between, and with a child that the scheduler starts.
#[test]
fn a_child_that_has_parked_cannot_suspend_the_coroutine() {
    in_tasks(|| {
        let coroutine = Coroutine::new(|yielder: &Yielder<(), ()>, ()| {
            ecru::scope(|s| {
                let child = s.spawn_local(|| {
                    ecru::yield_now().unwrap();
                    refused(OUTSIDE, || yielder.suspend(()))
                });
                // The coroutine is switched away from as well, and is the innermost again
                // afterwards.
                ecru::yield_now().unwrap();
                assert!(child.join().unwrap());
            });
            yielder.suspend(());
            ecru::yield_now().unwrap();
            yielder.suspend(());
        });
        for _ in 0..2 {
            assert_eq!(coroutine.resume(()), CoroutineState::Yielded(()));
        }
        assert_eq!(coroutine.resume(()), CoroutineState::Complete(()));
    });
}

/// A task of a run that the coroutine itself has started.
#[test]
fn coroutine_34_lent_yielder_in_a_run() {
    let coroutine = Coroutine::new(|yielder: &Yielder<(), ()>, ()| {
        run_on(1, || {
            ecru::scope(|s| {
                s.spawn_local(|| refused(OUTSIDE, || yielder.suspend(()))).join().unwrap()
            })
        })
    });
    assert_eq!(coroutine.resume(()), CoroutineState::Complete(true));
}

/// A task that gets no stack drops its closure on the scheduler's stack, without a current task.
/// There the code looks like a plain thread, and the coroutine was resumed on one.
#[test]
fn a_closure_that_got_no_stack_cannot_suspend() {
    // The destructor runs with the same number of open frames.
    for frames in 0..3 {
        let coroutine = Coroutine::new(|yielder: &Yielder<(), ()>, ()| {
            let seen = Cell::new(None);
            run_on(1, || {
                ecru::scope(|s| {
                    let capture =
                        OnDrop(|| seen.set(Some(refused(OUTSIDE, || yielder.suspend(())))));
                    let child = s.builder().stack_size(1 << 41).spawn_local(move || drop(capture));
                    assert!(child.join().is_err());
                });
            });
            seen.get()
        });
        let resume = || coroutine.resume(());
        let state = match frames {
            0 => resume(),
            1 => ecru::shield(resume),
            _ => ecru::shield(|| ecru::shield(resume)),
        };
        assert_eq!(state, CoroutineState::Complete(Some(true)));
    }
}

/// A dropped coroutine is unwound on its own stack, and cannot suspend the coroutine that drops it.
#[test]
fn a_destructor_cannot_suspend_the_one_who_drops() {
    let seen = Rc::new(Cell::new(None));
    let noted = Rc::clone(&seen);
    let outer = Coroutine::new(move |out: &Yielder<(), ()>, ()| {
        // It borrows the outer coroutine's yielder, so it must be scoped in its frame.
        ecru::coroutine::scoped(
            |inner: &Yielder<(), ()>, ()| {
                let _suspends = OnDrop(|| noted.set(Some(refused(OUTSIDE, || out.suspend(())))));
                inner.suspend(());
            },
            |coroutine| _ = coroutine.resume(()),
        );
    });
    assert_eq!(outer.resume(()), CoroutineState::Complete(()));
    assert_eq!(seen.get(), Some(true));
}

/// An inner coroutine that is running cannot suspend the outer one.
#[test]
fn coroutine_34_lent_yielder_in_another_coroutine() {
    let outer = Coroutine::new(|out: &Yielder<(), ()>, ()| {
        let refused = ecru::coroutine::scoped(
            |_: &Yielder<(), ()>, ()| {
                refused(OUTSIDE, || out.suspend(()))
                    && refused(OUTSIDE, || out.suspend_with((), || ()))
            },
            |inner| inner.resume(()),
        );
        // Afterwards the outer coroutine is the innermost again.
        out.suspend(());
        refused
    });
    assert_eq!(outer.resume(()), CoroutineState::Yielded(()));
    assert_eq!(outer.resume(()), CoroutineState::Complete(CoroutineState::Complete(true)));
}

/// After a coroutine has ended by a panic, its resumer is the innermost one.
#[test]
fn the_outer_one_suspends_after_a_panic_of_the_inner_one() {
    let outer = Coroutine::new(|out: &Yielder<(), ()>, ()| {
        for _ in 0..3 {
            let inner = Coroutine::new(|_: &Yielder<(), ()>, ()| panic::resume_unwind(Box::new(7)));
            let caught = panic::catch_unwind(AssertUnwindSafe(|| inner.resume(())));
            assert!(caught.is_err());
            out.suspend(());
            // This coroutine is dropped while suspended, and unwound.
            let dropped = Coroutine::new(|inner: &Yielder<(), ()>, ()| inner.suspend(()));
            assert_eq!(dropped.resume(()), CoroutineState::Yielded(()));
            drop(dropped);
            out.suspend(());
        }
    });
    for _ in 0..6 {
        assert_eq!(outer.resume(()), CoroutineState::Yielded(()));
    }
    assert_eq!(outer.resume(()), CoroutineState::Complete(()));
}

/// A coroutine that was suspended in one task and resumed in another suspends to the second task.
#[test]
fn a_coroutine_that_changes_tasks_returns_to_whoever_resumed_it() {
    run_on(1, || {
        let coroutine: Rc<OnceCell<Coroutine<(), u32, ()>>> = Rc::default();
        let body = |yielder: &Yielder<(), u32>, ()| {
            for number in 0.. {
                yielder.suspend(number);
                ecru::yield_now().unwrap();
            }
        };
        assert!(coroutine.set(Coroutine::new(body)).is_ok());
        ecru::scope(|s| {
            let turn = || {
                let coroutine = Rc::clone(&coroutine);
                s.spawn_local(move || coroutine.get().unwrap().resume(()))
            };
            for number in 0..5 {
                let state = turn().join().unwrap();
                assert_eq!(state, CoroutineState::Yielded(number));
            }
        });
    });
}
