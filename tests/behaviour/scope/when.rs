//! Tasks that begin when a source has an item.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::thread;

use ecru::channel::{self, RecvError};
use ecru::{JoinError, Placement, Runtime, RuntimeHandle, Source, TaskTree, source};

use crate::common::resident_bytes;
use crate::support::{
    Counted, Watchdog, alone, each_run, ms, panic_text, run_on, run_placed, until,
};

/// - given: a hundred tasks of `spawn_when` over one channel
/// - when: a hundred values are sent
/// - then: each task has begun with one of them, and none began earlier
#[test]
fn when_01_begins_with_its_item() {
    each_run(|| {
        let (tx, rx) = channel::unbounded::<usize>();
        let got = [const { AtomicUsize::new(0) }; 100];
        ecru::scope(|s| {
            let tasks: Vec<_> = (0..100)
                .map(|_| {
                    s.spawn_when(&rx, |n| {
                        ecru::yield_now().unwrap();
                        got[n.unwrap()].fetch_add(1, SeqCst);
                        thread::current().id()
                    })
                })
                .collect();
            assert!(tasks.iter().all(|task| !task.is_finished()));
            (0..100).for_each(|n| tx.send(n).unwrap());
            tasks.iter().for_each(|task| _ = task.join().unwrap());
        });
        assert!(got.iter().all(|n| n.load(SeqCst) == 1));
    });
}

/// - given: an item that is there, a buffered value, a handle, a time, a closed channel
/// - when: `spawn_when` waits for it
/// - then: the task begins with it
#[test]
fn when_02_sources_of_each_kind() {
    each_run(|| {
        let (tx, rx) = channel::bounded::<u8>(1);
        ecru::scope(|s| {
            assert_eq!(s.spawn_when(source::ready(7), |n| n + 1).join().unwrap(), 8);
            tx.send(3).unwrap();
            assert_eq!(s.spawn_when(&rx, |n| n).join().unwrap(), Ok(3));
            let first = s.spawn(|| {
                ecru::yield_now().unwrap();
                5
            });
            let second = s.spawn_when(first, |result| result.unwrap() * 2);
            assert_eq!(second.join().unwrap(), 10);
            let later = s.spawn_when(channel::after(ms(1)), |at| at.is_ok());
            assert!(later.join().unwrap());
            let end = s.spawn_when(&rx, |n| n);
            tx.close();
            assert_eq!(end.join().unwrap(), Err(RecvError::Disconnected));
        });
    });
}

/// - given: tasks that wait for an item
/// - when: they are cancelled by their handle, or with their scope, before or after they were
///   spawned
/// - then: `join` returns `Cancelled`, the function is dropped unrun, and the item goes to another
///   task
#[test]
fn when_03_cancelled_before() {
    each_run(|| {
        let (tx, rx) = channel::bounded::<u8>(1);
        let dropped = AtomicUsize::new(0);
        ecru::scope(|s| {
            let counted = Counted(&dropped);
            let by_handle = s.spawn_when(&rx, move |_| {
                drop(counted);
                unreachable!()
            });
            by_handle.cancel();
            assert!(matches!(by_handle.join(), Err(JoinError::Cancelled)));
            assert_eq!(dropped.load(SeqCst), 1);
            let by_scope = s.spawn_when(&rx, |_| unreachable!());
            s.cancel();
            assert!(matches!(by_scope.join(), Err(JoinError::Cancelled)));
            let late = s.spawn_when(&rx, |_| unreachable!());
            assert!(matches!(late.join(), Err(JoinError::Cancelled)));
        });
        tx.send(7).unwrap();
        assert_eq!(rx.try_recv(), Ok(7));
    });
}

/// - given: a task that waits for an item
/// - when: a time limit passes, the scope's body panics, a sibling fails
/// - then: the task is cancelled and the scope ends
#[test]
fn when_04_cancelled_from_further_out() {
    each_run(|| {
        let (_tx, rx) = channel::bounded::<u8>(1);
        let limited = ecru::timeout(ms(1), || {
            ecru::scope(|s| {
                let task = s.spawn_when(&rx, |_| unreachable!());
                assert!(matches!(task.join(), Err(JoinError::CallerCancelled)));
            });
        });
        assert!(limited.is_err());
        let text = panic_text(|| {
            ecru::scope(|s| {
                s.spawn_when(&rx, |_| unreachable!());
                crate::support::quiet_panic("the body's");
            })
        });
        assert_eq!(text, "the body's");
        let failed = ecru::try_scope(|s| -> Result<(), u8> {
            s.spawn_when(&rx, |_| -> Result<(), u8> { unreachable!() });
            s.spawn_when(source::ready(3), Err::<(), u8>);
            Ok(())
        });
        assert_eq!(failed, Err(3));
    });
}

/// - given: a task whose item was taken and that has not begun
/// - when: it is cancelled
/// - then: it begins with the item, and its waits are cancelled
#[test]
fn when_05_an_item_that_was_taken_is_not_lost() {
    run_on(1, || {
        let (tx, rx) = channel::bounded::<u8>(1);
        ecru::scope(|s| {
            let task = s.spawn_when(&rx, |n| (n, ecru::checkpoint().is_err()));
            tx.send(7).unwrap();
            // The item is taken and the task has not begun: the only worker is running this code.
            assert_eq!(tx.len(), 0);
            task.cancel();
            assert_eq!(task.join().unwrap(), (Ok(7), true));
        });
    });
}

/// - given: a predicate, or a function, that panics
/// - when: there is an item
/// - then: `join` returns `Panicked` with that panic
#[test]
fn when_06_panics_are_the_tasks() {
    each_run(|| {
        let (tx, rx) = channel::bounded::<u8>(1);
        ecru::scope(|s| {
            let picky = (&rx).filter(|_| crate::support::quiet_panic("the predicate's"));
            let task = s.spawn_when(picky, |_| unreachable!());
            let _ = tx.try_send(1);
            let Err(JoinError::Panicked(payload)) = task.join() else { panic!("it returned") };
            assert_eq!(payload.message(), Some("the predicate's"));
            let task = s.spawn_when(source::ready(()), |()| crate::support::quiet_panic("its own"));
            let Err(JoinError::Panicked(payload)) = task.join() else { panic!("it returned") };
            assert_eq!(payload.message(), Some("its own"));
        });
    });
}

/// - given: a source that borrows from outside the scope
/// - when: the task begins, or is cancelled
/// - then: the source has been dropped before that
#[test]
fn when_07_the_source_is_dropped_first() {
    struct Noting<'a, S>(S, &'a AtomicUsize);

    impl<S> Drop for Noting<'_, S> {
        fn drop(&mut self) {
            self.1.fetch_add(1, SeqCst);
        }
    }

    impl<S: Source> Source for Noting<'_, S> {
        type Item = S::Item;

        fn try_take(&self) -> Option<S::Item> {
            self.0.try_take()
        }

        fn waiters<'a>(&'a self, each: &mut dyn FnMut(&'a source::WaitList)) {
            self.0.waiters(each);
        }
    }

    each_run(|| {
        let dropped = AtomicUsize::new(0);
        ecru::scope(|s| {
            let task = s.spawn_when(Noting(source::ready(1), &dropped), |_| dropped.load(SeqCst));
            assert_eq!(task.join().unwrap(), 1);
            let never = s.spawn_when(Noting(source::never::<u8>(), &dropped), |_| ());
            never.cancel();
            assert!(never.join().is_err());
            assert_eq!(dropped.load(SeqCst), 2);
        });
    });
}

/// - given: tasks that wait for an item
/// - when: it comes from a plain thread, or from a callback
/// - then: they begin
#[test]
fn when_08_from_outside() {
    each_run(|| {
        let (tx, rx) = channel::unbounded::<u8>();
        thread::scope(|threads| {
            ecru::scope(|s| {
                let tasks: Vec<_> = (0..8).map(|_| s.spawn_when(&rx, |n| n.unwrap())).collect();
                threads.spawn(|| (0..8).for_each(|n| tx.send(n).unwrap()));
                let sum: u8 = tasks.iter().map(|task| task.join().unwrap()).sum();
                assert_eq!(sum, 28);
            });
        });
        let (go, gone) = channel::oneshot::<u8>();
        let (next, rest) = channel::bounded::<u8>(1);
        ecru::scope(|s| {
            let task = s.spawn_when(&rest, |n| n.unwrap());
            gone.on_ready(move |n| next.try_send(n.unwrap()).unwrap()).detach();
            go.send(9).unwrap();
            assert_eq!(task.join().unwrap(), 9);
        });
    });
}

/// - given: a task that waits for an item
/// - when: the item and a cancel request come at the same time
/// - then: either the task has the item, or the channel still has it
#[test]
fn when_09_request_against_item() {
    let rounds = if cfg!(debug_assertions) { 2_000 } else { 20_000 };
    run_placed(2, Placement::Auto, || {
        for round in 0..rounds {
            let (tx, rx) = channel::unbounded::<usize>();
            let ran = Cell::new(false);
            ecru::scope(|s| {
                let task = s.spawn_when(&rx, move |n| n.unwrap());
                thread::scope(|threads| {
                    threads.spawn(|| tx.send(round).unwrap());
                    task.cancel();
                });
                ran.set(match task.join() {
                    Ok(n) => n == round,
                    Err(JoinError::Cancelled) => false,
                    Err(error) => panic!("{error}"),
                });
            });
            assert_eq!(rx.try_recv().ok(), (!ran.get()).then_some(round));
        }
    });
}

/// - given: many tasks that wait for items
/// - when: their scope is cancelled while items are sent
/// - then: no item is lost, and none goes to two
#[test]
fn when_10_scope_against_items() {
    run_placed(2, Placement::Auto, || {
        for _ in 0..100 {
            let (tx, rx) = channel::unbounded::<usize>();
            let sum = Arc::new(AtomicUsize::new(0));
            ecru::scope(|s| {
                for _ in 0..50 {
                    let sum = Arc::clone(&sum);
                    s.spawn_when(&rx, move |n| _ = sum.fetch_add(n.unwrap(), SeqCst));
                }
                s.spawn_daemon(|| (1..=50).for_each(|n| tx.try_send(n).unwrap()));
                let _ = ecru::yield_now();
                s.cancel();
            });
            assert_eq!(sum.load(SeqCst) + rx.try_iter().sum::<usize>(), 50 * 51 / 2);
        }
    });
}

/// - given: a hundred thousand tasks that wait for an item
/// - when: they wait
/// - then: each takes less than 2 KiB
///
/// A waiting task has no stack.
#[test]
fn when_11_no_stack_until_then() {
    // This runs in a process of its own, because it measures memory.
    alone("scope::when::when_11_no_stack_until_then", || run_on(1, many_that_wait));
}

fn many_that_wait() {
    let (tx, rx) = channel::unbounded::<usize>();
    let sum = AtomicUsize::new(0);
    let before = resident_bytes();
    ecru::scope(|s| {
        for _ in 0..100_000 {
            s.spawn_when(&rx, |n| _ = sum.fetch_add(n.unwrap(), SeqCst));
        }
        let each = (resident_bytes() - before) / 100_000;
        assert!(each < 2_048, "{each} bytes for each task that waits");
        (0..100_000).for_each(|n| tx.send(n).unwrap());
    });
    assert_eq!(sum.load(SeqCst), 100_000 * 99_999 / 2);
}

/// - given: a plain thread; a source that never has an item
/// - when: `spawn_when` is called; the scope's body ends
/// - then: it panics as `spawn` does; the scope waits until it is cancelled
#[test]
fn when_12_refused() {
    run_on(1, || {
        ecru::scope(|s| {
            let on_a_thread = || panic_text(|| drop(s.spawn_when(source::ready(1), |n| n)));
            let text = thread::scope(|threads| threads.spawn(on_a_thread).join().unwrap());
            assert!(text.contains("spawn"), "{text}");
        });
    });
    let _watchdog = Watchdog::new();
    run_placed(2, Placement::Auto, || {
        let (begun, ended) = (AtomicBool::new(false), AtomicUsize::new(0));
        ecru::scope(|outer| {
            let holds = outer.spawn(|| {
                begun.store(true, SeqCst);
                ecru::scope(|s| drop(s.spawn_when(source::never::<u8>(), |_| ())));
                ended.fetch_add(1, SeqCst);
            });
            until(|| begun.load(SeqCst));
            assert!(holds.join_timeout(ms(5)).is_none());
            assert_eq!(ended.load(SeqCst), 0);
            holds.cancel();
            until(|| ended.load(SeqCst) == 1);
        });
    });
}

/// - given: tasks that wait for their items, in a scope, below a shield, and more than 10,000 of
///   them
/// - when: a dump is made
/// - then: each is shown below its scope's task, with where it was spawned and the type of its
///   source, without worker and stack; those beyond 10,000 are counted; one that has its item is
///   shown as any other task
#[test]
fn when_13_shown_in_dumps() {
    each_run(|| {
        let (tx, rx) = channel::bounded::<u8>(1);
        let (go, gone) = channel::bounded::<()>(0);
        ecru::scope(|s| {
            let spawned_on = line!() + 1;
            let task = s.spawn_when(&rx, |n| {
                gone.recv().unwrap();
                n
            });
            let tree = RuntimeHandle::current().dump();
            let root = tree.tasks().find(|task| task.is_root()).unwrap();
            let [child] = root.children() else { panic!("one child:\n{tree}") };
            let info = tree.task(*child).unwrap();
            assert_eq!((info.spawned_at().line(), info.worker()), (spawned_on, None));
            assert_eq!(info.scope_opened_at().unwrap().line(), spawned_on - 2);
            assert!(info.stack_trace().is_none() && info.waits_on().unwrap().at().is_none());
            let text = tree.to_string();
            assert!(text.contains(": waits for its item (spawn_when) from "), "{text}");
            assert!(text.contains("Receiver<u8>"), "{text}");
            // The dump looks the same from outside the run and below a shield.
            let handle = RuntimeHandle::current();
            let from_outside = || {
                let tree = thread::scope(|threads| {
                    let asker = threads.spawn(|| handle.dump());
                    until(|| asker.is_finished());
                    asker.join().unwrap()
                });
                tree.to_string().matches("(spawn_when)").count()
            };
            assert_eq!(from_outside(), 1);
            ecru::shield(|| {
                ecru::scope(|inner| {
                    let never = inner.spawn_when(source::never::<u8>(), |_| ());
                    assert_eq!(from_outside(), 2);
                    never.cancel();
                });
            });
            tx.send(3).unwrap();
            let is_like_others = |tree: &TaskTree| {
                let info = tree.tasks().find(|task| task.spawned_at().line() == spawned_on);
                info.is_some_and(|info| info.worker().is_some())
            };
            until(|| is_like_others(&RuntimeHandle::current().dump()));
            assert_eq!(from_outside(), 0);
            go.send(()).unwrap();
            assert_eq!(task.join().unwrap(), Ok(3));
        });
    });
}

/// A dump leaves out tasks beyond a limit and reports their number.
#[test]
fn when_13_shown_in_dumps_up_to_a_number_slow() {
    run_on(1, || {
        let (_tx, rx) = channel::bounded::<u8>(1);
        ecru::scope(|s| {
            (0..12_345).for_each(|_| drop(s.spawn_when(&rx, |_| ())));
            let tree = RuntimeHandle::current().dump();
            assert_eq!((tree.tasks().count(), tree.left_out()), (10_001, 2_345));
            let head = tree.to_string().lines().next().unwrap().to_owned();
            assert!(head.contains("and 2345 more that wait for their items"), "{head}");
            s.cancel();
        });
    });
}

/// - given: a run in which nothing is left but tasks that wait for items that never come
/// - when: it is found to be stuck
/// - then: the report names each, with where it was spawned and for what it waits
#[test]
fn when_14_deadlock_names_them() {
    for workers in [1, 2] {
        let _watchdog = Watchdog::new();
        let spawned_on = line!() + 5;
        let text = panic_text(|| {
            Runtime::builder().workers(workers).detect_deadlock(true).build().unwrap().run(|| {
                let (_tx, rx) = channel::bounded::<u8>(1);
                ecru::scope(|s| {
                    let task = s.spawn_when(&rx, |_| ());
                    let error = task.join().unwrap_err();
                    assert!(matches!(error, JoinError::CallerCancelled), "{error}");
                });
            });
        });
        assert!(text.starts_with("deadlock: "), "{text}");
        let line = text.lines().find(|line| line.contains("(spawn_when)")).unwrap_or("");
        let place = format!("scope/when.rs:{spawned_on}:");
        assert!(line.contains(&place) && line.contains("Receiver<u8>"), "{text}");
    }
}
