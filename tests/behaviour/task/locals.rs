//! Task-locals: bound for what runs below.

use super::DEPTH;
use crate::support::{each_run, panic_text, quiet_panic};

/// - given: `task_local!` without a final semicolon, from a macro, and empty
/// - when: it is compiled
/// - then: it declares what `thread_local!` would, and the keys work
///
/// Users' macros rely on the form without a semicolon.
#[test]
fn task_35_local_without_a_semicolon() {
    macro_rules! declare {
        ($($name:ident: $type:ty),*) => {
            ecru::task_local! { $(static $name: $type);* }
        };
    }
    declare!();
    declare!(ONE: u8);
    declare!(FIRST: u32, SECOND: &'static str);
    ecru::task_local! {
        /// This also works with attributes.
        static LAST: Vec<u8>;
    }
    each_run(|| {
        ONE.scope(1, || {
            FIRST.scope(2, || {
                SECOND.scope("three", || {
                    LAST.scope(vec![4], || {
                        assert_eq!((ONE.get(), FIRST.get(), SECOND.get()), (1, 2, "three"));
                        assert_eq!(LAST.with(Vec::clone), [4]);
                    });
                });
            });
        });
    });
}

/// - given: a `task_local!` that is bound
/// - when: a scope is opened and a child spawned
/// - then: the child sees the binding that was in force where the scope was opened
#[test]
fn task_18_local_in_a_child() {
    each_run(|| {
        assert_eq!(DEPTH.try_with(|_| ()), None);
        DEPTH.scope(1, || {
            ecru::scope(|s| {
                let outside = DEPTH.scope(2, || s.spawn(|| DEPTH.get()));
                assert_eq!(outside.join().unwrap(), 1);
                let deeper = s.spawn(|| {
                    DEPTH.scope(3, || {
                        ecru::yield_now().unwrap();
                        ecru::scope(|inner| inner.spawn(|| DEPTH.get()).join().unwrap())
                    })
                });
                assert_eq!((deeper.join().unwrap(), DEPTH.get()), (3, 1));
            });
        });
    });
}

/// - given: a `task_local!` bound inside a task
/// - when: it calls `ecru::spawn`
/// - then: the new task sees the binding around `run`, not this one
#[test]
fn task_19_local_in_the_run() {
    DEPTH.scope(1, || {
        each_run(|| {
            let seen = DEPTH.scope(2, || ecru::spawn(|| DEPTH.get()));
            assert_eq!(seen.join().unwrap(), 1);
        });
    });
    each_run(|| {
        let seen = DEPTH.scope(2, || ecru::spawn(|| DEPTH.try_with(|depth| *depth)));
        assert_eq!(seen.join().unwrap(), None);
    });
}

/// - given: a nested binding
/// - when: its body ends, or unwinds
/// - then: the outer binding is in force again
#[test]
fn task_20_local_is_given_back() {
    each_run(|| {
        DEPTH.scope(1, || {
            assert_eq!(DEPTH.scope(2, || DEPTH.get()), 2);
            assert_eq!(DEPTH.get(), 1);
            assert_eq!(panic_text(|| DEPTH.scope(3, || quiet_panic("out"))), "out");
            assert_eq!(DEPTH.get(), 1);
        });
        assert!(panic_text(|| DEPTH.get()).contains("no value is bound"));
    });
}
