//! Spawns from strange places, items from other runs, and what a run reports of waiting tasks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use ecru::channel::{self, Receiver};
use ecru::coroutine::{self, CoroutineState};
use ecru::source::{self};
use ecru::{Runtime, RuntimeHandle, Source};

use super::quiet;
use crate::common::{OnDrop, Watchdog, each_run, run_on, text_of};

/// Spawns from a destructor while the body unwinds, from a coroutine, under `no_suspend`, and from
/// a callback.
#[test]
fn spawned_from_strange_places() {
    each_run(|| {
        let ran = AtomicUsize::new(0);
        let count = |n: usize| _ = ran.fetch_add(n, SeqCst);
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            ecru::scope(|s| {
                let _on_drop = OnDrop(|| {
                    s.spawn_when(source::ready(1), count);
                    s.spawn_when(source::never(), count);
                });
                quiet("the body's");
            })
        }));
        assert_eq!(text_of(&*unwound.unwrap_err()), "the body's");
        let before = ran.load(SeqCst);
        ecru::scope(|s| {
            coroutine::scoped(
                |yielder: &coroutine::Yielder<(), ()>, ()| {
                    let task = s.spawn_when(source::ready(1), count);
                    yielder.suspend(());
                    task.join().unwrap();
                },
                |coroutine| {
                    assert!(matches!(coroutine.resume(()), CoroutineState::Yielded(())));
                    assert!(matches!(coroutine.resume(()), CoroutineState::Complete(())));
                },
            );
            ecru::no_suspend(|| s.spawn_when(source::ready(1), count)).join().unwrap();
        });
        assert_eq!(ran.load(SeqCst), before + 2);
    });
}

/// Spawns on a foreign thread, and on a worker of another run, are refused, and the source and the
/// function are dropped.
#[test]
fn spawned_from_where_it_cannot_be() {
    run_on(2, || {
        let drops = AtomicUsize::new(0);
        let counted = || OnDrop(|| _ = drops.fetch_add(1, SeqCst));
        ecru::scope(|s| {
            let attempt = || {
                let (source, f) = (counted(), counted());
                let source = source::ready(1).map(move |n| {
                    let _source = &source;
                    n
                });
                catch_unwind(AssertUnwindSafe(|| drop(s.spawn_when(source, move |_| drop(f)))))
                    .is_err()
            };
            thread::scope(|threads| {
                assert!(threads.spawn(attempt).join().unwrap());
                assert!(threads.spawn(|| run_on(1, attempt)).join().unwrap());
            });
        });
        assert_eq!(drops.load(SeqCst), 4);
    });
}

/// An item that comes from another run, on whose worker the wait ends.
#[test]
fn an_item_from_another_run() {
    each_run(|| {
        let (tx, rx) = channel::unbounded::<usize>();
        thread::scope(|threads| {
            ecru::scope(|s| {
                let home = thread::current().id();
                let tasks: Vec<_> = (0..20).map(|_| s.spawn_when(&rx, |n| n.unwrap())).collect();
                let tx = &tx;
                threads.spawn(move || {
                    run_on(2, || {
                        assert_ne!(thread::current().id(), home);
                        (0..20).for_each(|n| tx.send(n).unwrap());
                    });
                });
                assert_eq!(tasks.iter().map(|task| task.join().unwrap()).sum::<usize>(), 190);
            });
        });
    });
}

/// A run in which only tasks of `spawn_when` wait is stuck, and is reported.
#[test]
fn a_run_that_is_stuck_with_them_is_reported() {
    let _watchdog = Watchdog::new();
    for workers in [1, 2] {
        let runtime = Runtime::builder().workers(workers).detect_deadlock(true).build().unwrap();
        let stuck = catch_unwind(AssertUnwindSafe(|| {
            runtime.run(|| {
                let (_tx, rx) = channel::bounded::<u8>(1);
                ecru::scope(|s| {
                    (0..10).for_each(|_| drop(s.spawn_when(&rx, |_| ())));
                    // Two tasks that wait for each other.
                    let first = s.spawn_when(source::never::<u8>(), |_| ());
                    s.spawn_when(first, |_| ());
                });
            });
        }));
        let payload = stuck.unwrap_err();
        assert!(text_of(&*payload).starts_with("deadlock"), "{}", text_of(&*payload));
    }
}

/// A dump while tasks wait for items, and while their items come.
#[test]
fn a_dump_disturbs_none_of_them() {
    each_run(|| {
        let (tx, rx) = channel::unbounded::<usize>();
        let sum = AtomicUsize::new(0);
        ecru::scope(|s| {
            (0..50)
                .for_each(|_| drop(s.spawn_when(&rx, |n| _ = sum.fetch_add(n.unwrap(), SeqCst))));
            for n in 0..50 {
                tx.send(n).unwrap();
                if n % 10 == 0 {
                    assert!(!RuntimeHandle::current().dump().is_empty());
                }
            }
        });
        assert_eq!(sum.load(SeqCst), 50 * 49 / 2);
    });
}

/// Each task spawns its successor. No queue or memory grows, and the last task ends the scope.
#[test]
fn each_task_spawns_its_successor() {
    fn next<'scope>(
        s: &'scope ecru::Scope<'scope, '_>,
        rx: &'scope Receiver<usize>,
        sum: &'scope AtomicUsize,
    ) {
        s.spawn_when(rx, move |n| {
            if let Ok(n) = n {
                sum.fetch_add(n, SeqCst);
                next(s, rx, sum);
            }
        });
    }

    each_run(|| {
        let (tx, rx) = channel::bounded::<usize>(3);
        let sum = AtomicUsize::new(0);
        ecru::scope(|s| {
            next(s, &rx, &sum);
            (0..300).for_each(|n| tx.send(n).unwrap());
            drop(tx);
        });
        assert_eq!(sum.load(SeqCst), 300 * 299 / 2);
    });
}
