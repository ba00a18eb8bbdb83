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

/// - given: a scope with parked children
/// - when: its body ends
/// - then: it returns after the last child has ended, with the body's value
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

/// - given: a worker with a ready task
/// - when: its running task opens and closes scopes that have no tasks, again and again
/// - then: the ready task gets its turn
#[test]
fn scope_62_without_children_lets_others_run() {
    fn repeat(scope: impl Fn() + Sync) {
        run_on(1, || {
            let had_its_turn = AtomicBool::new(false);
            ecru::scope(|s| {
                s.spawn_local(|| had_its_turn.store(true, SeqCst));
                while !had_its_turn.load(SeqCst) {
                    scope();
                }
            });
        });
    }
    repeat(|| ecru::scope(|_| ()));
    repeat(|| ecru::try_scope(|_| Ok::<_, ()>(())).unwrap());
}

/// - given: locals of the caller
/// - when: children on two workers read some and write others
/// - then: it compiles without `Arc`, and the caller sees what they wrote
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

/// - given: an `Rc` of the caller
/// - when: `spawn_local` moves it into a child
/// - then: the child runs on the caller's thread
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

/// - given: a scope lent to a plain thread
/// - when: it calls `spawn_local`
/// - then: it panics, saying that the thread is not a worker
///
/// The scope stays usable.
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

/// - given: a plain thread
/// - when: it opens a scope
/// - then: it panics, saying what to do
#[test]
fn scope_05_needs_a_runtime() {
    let text = panic_text(|| ecru::scope(|_| ()));
    assert!(text.contains("ecru::run"), "{text}");
    let text = panic_text(|| ecru::try_scope(|_| Ok::<_, ()>(())));
    assert!(text.contains("ecru::run"), "{text}");
}

/// - given: a child, after the body has ended
/// - when: it spawns another child into the same scope
/// - then: the scope waits for that child too
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

/// - given: a child of `builder().name(..)`
/// - when: its handle and `task::current()` are asked for the name
/// - then: both return it
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

/// - given: a child of `builder().stack_size(..)` with a large stack
/// - when: it recurses deeper than the default allows
/// - then: it returns
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

/// - given: a scope in a child of another scope
/// - when: the outer body ends
/// - then: the inner scope ends first
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

/// - given: a cancelled child that never ran, with a capture whose destructor waits
/// - when: the closure is dropped
/// - then: the destructor runs in a task, and its wait returns `Cancelled`
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

/// - given: a cancelled `spawn_local` child that never ran
/// - when: its closure is dropped
/// - then: that happens on its own worker
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

/// - given: a scope
/// - when: 100,000 children are spawned, some joined, some not
/// - then: all end, and each result is dropped exactly once
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
