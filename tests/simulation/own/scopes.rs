//! Scopes: a scope never returns before its children, and each result is handed over once.

use super::everywhere;
use ecru::JoinError;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// Counts a child while it exists: from its spawn until its closure has been dropped.
struct Child<'c>(&'c AtomicU32);

impl<'c> Child<'c> {
    fn new(children: &'c AtomicU32) -> Child<'c> {
        children.fetch_add(1, Relaxed);
        Child(children)
    }

    /// Runs for a few turns.
    fn work(&self) {
        for _ in 0..2 {
            let _ = ecru::yield_now();
        }
    }
}

impl Drop for Child<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

#[test]
fn a_scope_returns_after_its_children_and_theirs() {
    everywhere(|| {
        let children = AtomicU32::new(0);
        ecru::scope(|s| {
            for _ in 0..2 {
                let child = Child::new(&children);
                s.spawn(move || {
                    let inner = AtomicU32::new(0);
                    ecru::scope(|s| {
                        let child = Child::new(&inner);
                        s.spawn(move || child.work());
                    });
                    assert_eq!(inner.into_inner(), 0);
                    child.work();
                });
            }
        });
        assert_eq!(children.into_inner(), 0);
    });
}

#[test]
fn a_cancelled_scope_returns_after_its_children() {
    everywhere(|| {
        let children = AtomicU32::new(0);
        ecru::scope(|s| {
            for _ in 0..3 {
                let child = Child::new(&children);
                s.spawn(move || {
                    while ecru::yield_now().is_ok() {}
                    ecru::shield(|| child.work());
                });
            }
            let _ = ecru::yield_now();
            s.cancel();
        });
        assert_eq!(children.into_inner(), 0);
    });
}

#[test]
fn a_failed_child_ends_the_others() {
    everywhere(|| {
        let children = AtomicU32::new(0);
        let outcome = ecru::try_scope(|s| {
            for _ in 0..2 {
                let child = Child::new(&children);
                s.spawn(move || {
                    while ecru::yield_now().is_ok() {}
                    child.work();
                    Ok(())
                });
            }
            let child = Child::new(&children);
            s.spawn(move || {
                child.work();
                Err::<(), &str>("on purpose")
            });
            // If this task or the failing one is cancelled, there may be no failure.
            let _ = ecru::yield_now();
            s.cancel();
            Ok(())
        });
        assert!(outcome.is_ok() || outcome == Err("on purpose"));
        assert_eq!(children.into_inner(), 0);
    });
}

#[test]
fn a_panic_arrives_once_and_after_the_others_have_ended() {
    everywhere(|| {
        let children = AtomicU32::new(0);
        let scope = AssertUnwindSafe(|| {
            ecru::scope(|s| {
                let child = Child::new(&children);
                s.spawn(move || child.work());
                let child = Child::new(&children);
                s.spawn(move || {
                    child.work();
                    resume_unwind(Box::new("on purpose"));
                });
            });
        });
        let _ = catch_unwind(scope);
        assert_eq!(children.into_inner(), 0);
    });
}

#[test]
fn a_result_is_taken_once() {
    everywhere(|| {
        ecru::scope(|s| {
            let handle = s.spawn(|| {
                let _ = ecru::yield_now();
                7
            });
            let taken = AtomicU32::new(0);
            ecru::scope(|s| {
                for _ in 0..2 {
                    s.spawn(|| {
                        if let Ok(result) = handle.join() {
                            assert_eq!(result, 7);
                            taken.fetch_add(1, Relaxed);
                        }
                    });
                }
            });
            taken.fetch_add(u32::from(ecru::shield(|| handle.join()).is_ok()), Relaxed);
            assert!(taken.into_inner() <= 1, "a result was taken twice");
        });
    });
}

#[test]
fn a_cancelled_join_leaves_the_result() {
    everywhere(|| {
        ecru::scope(|s| {
            let handle = s.spawn(|| {
                // The handle's task is not touched below. What is joined may still be cancelled.
                let _ = ecru::yield_now();
                Outcome
            });
            let handle = &handle;
            let joined = ecru::scope(|s| {
                // A child that was cancelled before it began has a result, too, which is taken.
                let has_result = |result| !matches!(result, Err(JoinError::CallerCancelled));
                let joins = s.spawn(move || has_result(handle.join()));
                s.spawn(move || {
                    let _ = ecru::yield_now();
                });
                let _ = ecru::yield_now();
                joins.cancel();
                ecru::shield(|| joins.join()).unwrap_or(false)
            });
            let again = ecru::shield(|| handle.join());
            match again {
                Ok(Outcome) => assert!(!joined, "the result came twice"),
                Err(JoinError::Taken) => assert!(joined, "the result is lost"),
                Err(error) => assert!(matches!(error, JoinError::Cancelled) && !joined, "{error}"),
            }
        });
    });
}

/// The result of a child.
#[derive(Debug)]
struct Outcome;

#[test]
fn daemons_end_with_their_scope() {
    everywhere(|| {
        let children = AtomicU32::new(0);
        ecru::scope(|s| {
            let child = Child::new(&children);
            s.spawn_daemon(move || {
                while ecru::yield_now().is_ok() {}
                child.work();
            });
            let child = Child::new(&children);
            s.spawn(move || child.work());
        });
        assert_eq!(children.into_inner(), 0);
    });
}
