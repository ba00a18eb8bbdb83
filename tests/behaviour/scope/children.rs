//! Children: what they may borrow, where they run, and that their scope awaits them.

use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Barrier, Mutex};
use std::thread;

use ecru::{CancelReason, JoinError};

use crate::support::{Counted, HOUR, OnDrop, each_run, ms, panic_text, run_on, settle, until};

/// A scope returns after its last child, with its body's value.
#[test]
fn scope_01_waits_for_children() {
    each_run(|| {
        let ended = AtomicU32::new(0);
        let value = ecru::scope(|s| {
            for _ in 0..10 {
                s.spawn(|| {
                    ecru::sleep(ms(1)).unwrap();
                    ended.fetch_add(1, SeqCst);
                });
            }
            "value"
        });
        assert_eq!((value, ended.load(SeqCst)), ("value", 10));
    });
}

/// Children on two workers read and write the caller's locals.
#[test]
fn scope_02_children_borrow() {
    run_on(2, || {
        let words = [String::from("un"), String::from("dyed")];
        let mut lengths = [0; 2];
        let meet = Barrier::new(2);
        ecru::scope(|s| {
            for (word, length) in words.iter().zip(&mut lengths) {
                s.spawn(|| {
                    // This blocks its thread. Both children finish only if there are two threads.
                    meet.wait();
                    *length = word.len();
                });
            }
        });
        assert_eq!(lengths, [2, 4]);
        assert_eq!(words.len(), 2);
    });
}

/// A local child takes an `Rc`, and stays on the caller's thread.
#[cfg(not(any(ecru_baton, miri)))] // each task has a thread
#[test]
fn scope_03_local_child_need_not_be_send() {
    each_run(|| {
        let shared = Rc::new(Cell::new(1));
        let other = Rc::clone(&shared);
        let here = thread::current().id();
        let there = ecru::scope(|s| {
            let child = s.spawn_local(move || {
                ecru::sleep(ms(1)).unwrap();
                other.set(2);
                (thread::current().id(), other)
            });
            let (there, other) = child.join().unwrap();
            assert_eq!(Rc::strong_count(&other), 2);
            there
        });
        assert_eq!((shared.get(), there), (2, here));
    });
}

/// A thread that is not a worker cannot start a local child. The scope stays usable.
#[test]
fn scope_04_local_child_needs_a_worker() {
    each_run(|| {
        let dropped = AtomicUsize::new(0);
        ecru::scope(|s| {
            thread::scope(|threads| {
                threads.spawn(|| {
                    let counted = Counted(&dropped);
                    let text = panic_text(|| s.spawn_local(move || drop(counted)));
                    assert!(text.contains("no worker"), "{text}");
                    let text = panic_text(|| s.spawn(|| unreachable!()));
                    assert!(text.contains("runs no tasks"), "{text}");
                });
            });
            assert_eq!(dropped.load(SeqCst), 1);
            assert_eq!(s.spawn(|| 5).join().unwrap(), 5);
        });
    });
}

/// Without a runtime, the panic of a scope says what to do.
#[test]
fn scope_05_needs_a_runtime() {
    let text = panic_text(|| ecru::scope(|_| ()));
    assert!(text.contains("ecru::run"), "{text}");
    let text = panic_text(|| ecru::try_scope(|_| Ok::<_, ()>(())));
    assert!(text.contains("ecru::run"), "{text}");
}

/// A child may spawn siblings after the body's end.
#[test]
fn scope_06_child_spawns_siblings() {
    each_run(|| {
        let (body_ended, grandchildren) = (AtomicBool::new(false), AtomicU32::new(0));
        ecru::scope(|s| {
            s.spawn(|| {
                until(|| body_ended.load(SeqCst));
                settle();
                s.spawn(|| {
                    ecru::sleep(ms(1)).unwrap();
                    s.spawn(|| grandchildren.fetch_add(1, SeqCst));
                });
            });
            body_ended.store(true, SeqCst);
        });
        assert_eq!(grandchildren.load(SeqCst), 1);
    });
}

/// A task's name is visible to itself and through its handle.
#[test]
fn scope_20_builder_names() {
    each_run(|| {
        ecru::scope(|s| {
            let named = s
                .builder()
                .name("indexer")
                .spawn(|| ecru::task::current().name().map(String::from));
            assert_eq!(named.name(), Some("indexer"));
            assert_eq!(named.join().unwrap().as_deref(), Some("indexer"));
            let local = s
                .builder()
                .name(String::from("local"))
                .spawn_local(|| ecru::task::current().name().map(String::from));
            assert_eq!(local.join().unwrap().as_deref(), local.name());
            assert_eq!(s.spawn(|| ()).name(), None);
        });
    });
}

#[inline(never)]
fn recurse(depth: usize) -> usize {
    let frame = black_box([depth; 128]);
    if depth == 0 { 0 } else { recurse(depth - 1) + frame[7] / depth }
}

/// A large stack has room that the default stack lacks.
#[test]
fn scope_21_builder_stack_size() {
    each_run(|| {
        ecru::scope(|s| {
            // Each level takes more than a kilobyte, so they take over 2 MiB.
            let deep = s.builder().stack_size(8 << 20).spawn(|| recurse(2000));
            assert_eq!(deep.join().unwrap(), 2000);
            let text = panic_text(|| s.builder().stack_size(16 * 1024 - 1));
            assert!(text.contains("16384"), "{text}");
        });
    });
}

/// Scopes nest: inner ones end first.
#[test]
fn scope_25_nested() {
    each_run(|| {
        let notes = Mutex::new(Vec::new());
        let note = |text| notes.lock().unwrap().push(text);
        ecru::scope(|outer| {
            outer.spawn(|| {
                ecru::scope(|inner| {
                    inner.spawn(|| {
                        ecru::sleep(ms(1)).unwrap();
                        note("grandchild");
                    });
                });
                note("child");
            });
        });
        note("outer");
        assert_eq!(*notes.lock().unwrap(), ["grandchild", "child", "outer"]);
    });
}

/// A closure that never ran is dropped in a task, whose waits are cancelled.
#[test]
fn scope_28_unrun_closure_is_dropped_on_a_stack() {
    each_run(|| {
        let seen = Mutex::new(None);
        let own = ecru::task::current().id();
        ecru::scope(|s| {
            s.cancel();
            let capture = OnDrop(|| {
                let waited = ecru::sleep(HOUR).map_err(|error| error.reason());
                *seen.lock().unwrap() = Some((ecru::task::current().id(), waited));
            });
            s.spawn(move || {
                let _capture = &capture;
            });
        });
        let (dropper, waited) = seen.into_inner().unwrap().unwrap();
        assert_ne!(dropper, own);
        assert_eq!(waited, Err(CancelReason::Explicit));
    });
}

/// A local closure is dropped on its own worker.
#[cfg(not(ecru_baton))] // each task has a thread
#[test]
fn scope_29_unrun_local_closure_stays() {
    run_on(2, || {
        let dropped_on = Rc::new(Cell::new(None));
        ecru::scope(|s| {
            let noted = Rc::clone(&dropped_on);
            let capture = OnDrop(move || noted.set(Some(thread::current().id())));
            let child = s.spawn_local(move || {
                let _capture = &capture;
                unreachable!()
            });
            // The cancellation comes from another thread while this worker is blocked.
            thread::scope(|threads| drop(threads.spawn(|| s.cancel())));
            assert!(matches!(child.join(), Err::<(), _>(JoinError::Cancelled)));
        });
        assert_eq!(dropped_on.get(), Some(thread::current().id()));
    });
}

/// Many children, each of whose results is dropped once.
#[cfg(not(ecru_baton))] // as many threads as tasks
#[test]
fn scope_45_many_slow() {
    const CHILDREN: usize = 100_000;
    each_run(|| {
        let (dropped, ran) = (AtomicUsize::new(0), AtomicUsize::new(0));
        ecru::scope(|s| {
            let mut handles = Vec::new();
            for number in 0..CHILDREN {
                let (ran, dropped) = (&ran, &dropped);
                let child = s.spawn(move || {
                    ran.fetch_add(1, SeqCst);
                    (number, Counted(dropped))
                });
                match number % 3 {
                    0 => drop(child),
                    1 => handles.push((number, child)),
                    _ => assert_eq!(child.join().unwrap().0, number),
                }
            }
            for (number, child) in handles.iter().step_by(2) {
                assert_eq!(child.join().unwrap().0, *number);
            }
        });
        assert_eq!((ran.load(SeqCst), dropped.load(SeqCst)), (CHILDREN, CHILDREN));
    });
}
