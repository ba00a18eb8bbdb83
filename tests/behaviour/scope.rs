//! `scope`, `try_scope`, children and joining.

use std::cell::Cell;
use std::hint::black_box;
use std::rc::Rc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Barrier, Mutex};
use std::thread;

use ecru::{CancelReason, JoinError};

use crate::support::{
    Counted, HOUR, OnDrop, each_run, forever, ms, panic_text, payload_of, quiet_panic, run_on,
    settle, text_of, until,
};

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
                    // Blocks its thread: the two get on only if there are two.
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

/// Off the workers there is nowhere to start a local child, nor any other; the scope is none the worse for it.
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

/// Without a runtime a scope says what to do.
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

/// The panic of a child that nobody joins is the scope's, but not its siblings' business.
#[test]
fn scope_07_child_panics() {
    each_run(|| {
        let (panicking, slept) = (AtomicBool::new(false), AtomicBool::new(false));
        let text = panic_text(|| {
            ecru::scope(|s| {
                s.spawn(|| {
                    until(|| panicking.load(SeqCst));
                    settle();
                    slept.store(ecru::sleep(ms(1)).is_ok() && !ecru::is_cancelled(), SeqCst);
                });
                s.spawn(|| {
                    panicking.store(true, SeqCst);
                    quiet_panic("oh dear");
                });
            });
        });
        assert!(text.contains("oh dear"), "{text}");
        assert!(slept.load(SeqCst));
    });
}

/// A joined panic has been dealt with.
#[test]
fn scope_08_joined_panic_is_an_error() {
    each_run(|| {
        let value = ecru::scope(|s| {
            let child = s.spawn(|| quiet_panic("oh dear"));
            let Err(JoinError::Panicked(payload)) = child.join() else { panic!("not panicked") };
            assert_eq!(payload.message(), Some("oh dear"));
            assert_eq!(text_of(&*payload.into_inner()), "oh dear");
            let number = s.spawn(|| std::panic::resume_unwind(Box::new(7_u8)));
            let Err(JoinError::Panicked(payload)) = number.join() else { panic!("not panicked") };
            assert_eq!(payload.message(), None);
            *payload.into_inner().downcast::<u8>().unwrap()
        });
        assert_eq!(value, 7);
    });
}

/// A panic of the body cancels the children, awaits them and goes on.
#[test]
fn scope_09_body_panics() {
    each_run(|| {
        let (parked, cancelled) = (AtomicBool::new(false), Mutex::new(None));
        let payload = payload_of(|| {
            ecru::scope(|s| -> () {
                s.spawn(|| {
                    parked.store(true, SeqCst);
                    let error = forever();
                    let _ = ecru::shield(|| ecru::sleep(ms(1)));
                    *cancelled.lock().unwrap() = Some(error.reason());
                });
                until(|| parked.load(SeqCst));
                std::panic::resume_unwind(Box::new(42_u64));
            })
        });
        assert_eq!(payload.downcast_ref(), Some(&42_u64));
        assert_eq!(cancelled.into_inner().unwrap(), Some(CancelReason::Sibling));
    });
}

/// Of two panics the body's is the one that goes on.
#[test]
fn scope_10_body_and_child_panic() {
    each_run(|| {
        let panicking = AtomicBool::new(false);
        let text = panic_text(|| {
            ecru::scope(|s| {
                s.spawn(|| {
                    panicking.store(true, SeqCst);
                    quiet_panic("the child's");
                });
                until(|| panicking.load(SeqCst));
                quiet_panic("the body's");
            })
        });
        assert_eq!(text, "the body's");
    });
}

/// An `Err` of a child is a value like any other.
#[test]
fn scope_11_error_is_quiet() {
    each_run(|| {
        ecru::scope(|s| {
            let failed = AtomicBool::new(false);
            ecru::scope(|inner| {
                let failing = s.spawn(|| Err::<(), _>("no such host"));
                let sibling = inner.spawn(|| {
                    until(|| failed.load(SeqCst));
                    ecru::sleep(ms(1)).is_ok()
                });
                assert_eq!(failing.join().unwrap(), Err("no such host"));
                failed.store(true, SeqCst);
                assert!(sibling.join().unwrap());
            });
        });
    });
}

/// An `Err` of the body cancels nobody.
#[test]
fn scope_12_body_error_is_quiet() {
    each_run(|| {
        let slept = AtomicBool::new(false);
        let result = ecru::scope(|s| {
            s.spawn(|| slept.store(ecru::sleep(ms(2)).is_ok(), SeqCst));
            settle();
            Err::<(), _>("no such host")
        });
        assert_eq!(result, Err("no such host"));
        assert!(slept.load(SeqCst));
    });
}

/// Cancelled or not, a task that has begun returns what it returns.
#[test]
fn scope_13_join_after_cancel_gives_the_value() {
    each_run(|| {
        let started = AtomicBool::new(false);
        ecru::scope(|s| {
            let child = s.spawn(|| {
                started.store(true, SeqCst);
                forever().reason()
            });
            until(|| started.load(SeqCst));
            child.cancel();
            assert_eq!(child.join().unwrap(), CancelReason::Explicit);
        });
    });
}

/// A child that is cancelled before it runs never begins.
#[test]
fn scope_14_join_of_an_unstarted_child() {
    run_on(1, || {
        ecru::scope(|s| {
            let child = s.spawn(|| unreachable!());
            child.cancel();
            assert!(matches!(child.join(), Err::<(), _>(JoinError::Cancelled)));
        });
    });
}

/// A result is taken once.
#[test]
fn scope_15_join_takes_once() {
    each_run(|| {
        ecru::scope(|s| {
            let child = s.spawn(|| String::from("value"));
            assert_eq!(child.join().unwrap(), "value");
            assert!(matches!(child.join(), Err(JoinError::Taken)));
            assert!(matches!(child.join_timeout(HOUR), Some(Err(JoinError::Taken))));
        });
    });
}

/// A cancelled join loses nothing.
#[test]
fn scope_16_join_is_a_cancel_point() {
    each_run(|| {
        let (release, joining) = (AtomicBool::new(false), AtomicBool::new(false));
        ecru::scope(|s| {
            let slow = s.spawn(|| {
                until(|| release.load(SeqCst));
                5
            });
            ecru::scope(|inner| {
                let joiner = inner.spawn(|| {
                    joining.store(true, SeqCst);
                    slow.join()
                });
                until(|| joining.load(SeqCst));
                settle();
                joiner.cancel();
                assert!(matches!(joiner.join().unwrap(), Err(JoinError::CallerCancelled)));
            });
            release.store(true, SeqCst);
            assert_eq!(slow.join().unwrap(), 5);
        });
    });
}

/// The wait at a scope's end goes on though the task was cancelled.
#[test]
fn scope_17_end_is_no_cancel_point() {
    each_run(|| {
        let (release, shielded) = (AtomicBool::new(false), AtomicBool::new(false));
        let child_ended = AtomicBool::new(false);
        ecru::scope(|s| {
            let task = s.spawn(|| {
                ecru::scope(|inner| {
                    inner.spawn(|| {
                        ecru::shield(|| {
                            shielded.store(true, SeqCst);
                            until(|| release.load(SeqCst));
                        });
                        child_ended.store(true, SeqCst);
                    });
                    until(|| shielded.load(SeqCst));
                });
                child_ended.load(SeqCst)
            });
            until(|| shielded.load(SeqCst));
            settle();
            task.cancel();
            settle();
            assert!(!task.is_finished());
            release.store(true, SeqCst);
            assert!(task.join().unwrap());
        });
    });
}

/// A join that runs out of time may be repeated.
#[test]
fn scope_18_join_timeout() {
    each_run(|| {
        let release = AtomicBool::new(false);
        ecru::scope(|s| {
            let child = s.spawn(|| {
                until(|| release.load(SeqCst));
                "value"
            });
            let before = std::time::Instant::now();
            assert!(child.join_timeout(ms(2)).is_none());
            assert!(before.elapsed() >= ms(2));
            release.store(true, SeqCst);
            assert_eq!(child.join_timeout(HOUR).unwrap().unwrap(), "value");
        });
    });
}

/// `is_finished` tells whether the task has ended.
#[test]
fn scope_19_is_finished() {
    each_run(|| {
        let (parked, release) = (AtomicBool::new(false), AtomicBool::new(false));
        ecru::scope(|s| {
            let child = s.spawn(|| {
                parked.store(true, SeqCst);
                until(|| release.load(SeqCst));
            });
            assert!(!child.is_finished());
            until(|| parked.load(SeqCst));
            assert!(!child.is_finished());
            release.store(true, SeqCst);
            until(|| child.is_finished());
            child.join().unwrap();
            assert!(child.is_finished());
        });
    });
}

/// A task's name is seen by itself and by its handle.
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

/// A large stack has room for what the default has not.
#[test]
fn scope_21_builder_stack_size() {
    each_run(|| {
        ecru::scope(|s| {
            // A kilobyte and more for each level: over 2 MiB.
            let deep = s.builder().stack_size(8 << 20).spawn(|| recurse(2000));
            assert_eq!(deep.join().unwrap(), 2000);
            let text = panic_text(|| s.builder().stack_size(16 * 1024 - 1));
            assert!(text.contains("16384"), "{text}");
        });
    });
}

/// Forgetting a handle does not matter to the task, and forgets the result along with it, as `std` does.
#[test]
#[expect(clippy::mem_forget, reason = "it is what this test is about")]
fn scope_22_forgotten_handle() {
    each_run(|| {
        let (ended, dropped) = (AtomicUsize::new(0), AtomicUsize::new(0));
        ecru::scope(|s| {
            for pause in [0, 1] {
                let (ended, dropped) = (&ended, &dropped);
                std::mem::forget(s.spawn(move || {
                    ecru::sleep(ms(pause)).unwrap();
                    ended.fetch_add(1, SeqCst);
                    Counted(dropped)
                }));
            }
        });
        assert_eq!((ended.load(SeqCst), dropped.load(SeqCst)), (2, 0));
    });
}

/// A plain thread may join.
#[test]
fn scope_23_handle_on_another_thread() {
    each_run(|| {
        let (release, thread_joins) = (AtomicBool::new(false), AtomicBool::new(false));
        ecru::scope(|s| {
            let child = s.spawn(|| {
                until(|| release.load(SeqCst));
                "value"
            });
            let value = thread::scope(|threads| {
                let joiner = threads.spawn(|| {
                    thread_joins.store(true, SeqCst);
                    child.join().unwrap()
                });
                until(|| thread_joins.load(SeqCst));
                ecru::sleep(ms(1)).unwrap();
                assert!(!joiner.is_finished());
                release.store(true, SeqCst);
                until(|| joiner.is_finished());
                joiner.join().unwrap()
            });
            assert_eq!(value, "value");
        });
    });
}

/// A result that nobody takes may borrow from outside the scope, so it goes before the scope returns.
#[test]
fn scope_24_result_is_dropped_inside() {
    each_run(|| {
        let dropped = AtomicUsize::new(0);
        ecru::scope(|s| {
            // Dropped before it has started, while it runs, after its end.
            drop(s.spawn(|| Counted(&dropped)));
            let parked = s.spawn(|| {
                ecru::sleep(ms(1)).unwrap();
                Counted(&dropped)
            });
            let ended = s.spawn(|| Counted(&dropped));
            until(|| ended.is_finished());
            drop(parked);
            drop(ended);
        });
        assert_eq!(dropped.load(SeqCst), 3);
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

/// `s.cancel()` is for the children.
#[test]
fn scope_26_cancel_children() {
    each_run(|| {
        let parked = AtomicU32::new(0);
        ecru::scope(|s| {
            let children: Vec<_> = (0..3)
                .map(|_| {
                    s.spawn(|| {
                        parked.fetch_add(1, SeqCst);
                        forever().reason()
                    })
                })
                .collect();
            until(|| parked.load(SeqCst) == 3);
            s.cancel();
            assert!(ecru::sleep(ms(1)).is_ok());
            assert!(!ecru::is_cancelled());
            for child in children {
                assert_eq!(child.join().unwrap(), CancelReason::Explicit);
            }
        });
        assert!(ecru::checkpoint().is_ok());
    });
}

/// What is spawned after `s.cancel()` never begins.
#[test]
fn scope_27_cancel_is_sticky() {
    each_run(|| {
        let dropped = AtomicUsize::new(0);
        ecru::scope(|s| {
            s.cancel();
            let counted = Counted(&dropped);
            let late = s.spawn(move || {
                let _counted = counted;
                unreachable!()
            });
            assert!(matches!(late.join(), Err::<(), _>(JoinError::Cancelled)));
            assert_eq!(dropped.load(SeqCst), 1);
            assert!(matches!(s.spawn_local(|| ()).join(), Err(JoinError::Cancelled)));
        });
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

/// A local closure is dropped where it was to run.
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
            // From elsewhere, while this worker is held up.
            thread::scope(|threads| drop(threads.spawn(|| s.cancel())));
            assert!(matches!(child.join(), Err::<(), _>(JoinError::Cancelled)));
        });
        assert_eq!(dropped_on.get(), Some(thread::current().id()));
    });
}

/// A handle cancels its own child only.
#[test]
fn scope_30_cancel_one() {
    each_run(|| {
        let (parked, release) = (AtomicU32::new(0), AtomicBool::new(false));
        ecru::scope(|s| {
            let sleeper = || {
                parked.fetch_add(1, SeqCst);
                while !release.load(SeqCst) {
                    ecru::sleep(ms(1))?;
                }
                Ok::<_, ecru::Cancelled>(())
            };
            let (one, other) = (s.spawn(sleeper), s.spawn(sleeper));
            until(|| parked.load(SeqCst) == 2);
            one.cancel();
            assert!(one.join().unwrap().is_err());
            assert!(!other.is_finished());
            release.store(true, SeqCst);
            assert!(other.join().unwrap().is_ok());
        });
    });
}

/// A daemon ends with its scope, which awaits it.
#[test]
fn scope_31_daemon_ends_with_the_scope() {
    each_run(|| {
        let (parked, reason) = (AtomicBool::new(false), Mutex::new(None));
        ecru::scope(|s| {
            s.spawn_daemon(|| {
                parked.store(true, SeqCst);
                let error = forever();
                let _ = ecru::shield(|| ecru::sleep(ms(1)));
                *reason.lock().unwrap() = Some(error.reason());
            });
            until(|| parked.load(SeqCst));
        });
        assert_eq!(reason.into_inner().unwrap(), Some(CancelReason::ScopeEnd));
    });
}

/// As long as one child needs it, a daemon serves.
#[test]
fn scope_32_daemon_serves_to_the_end() {
    each_run(|| {
        let (asked, answered) = (AtomicU32::new(0), AtomicU32::new(0));
        let interrupted = AtomicBool::new(false);
        let (asked, answered) = (&asked, &answered);
        ecru::scope(|s| {
            s.spawn_daemon(|| {
                while ecru::yield_now().is_ok() {
                    answered.store(asked.load(SeqCst), SeqCst);
                }
                interrupted.store(true, SeqCst);
            });
            s.spawn(|| {
                for question in 1..=5 {
                    ecru::sleep(ms(1)).unwrap();
                    asked.store(question, SeqCst);
                    until(|| answered.load(SeqCst) == question);
                    assert!(!interrupted.load(SeqCst));
                }
            });
        });
        assert_eq!(answered.load(SeqCst), 5);
        assert!(interrupted.load(SeqCst));
    });
}

/// A daemon begins in any case.
#[test]
fn scope_33_daemon_always_begins() {
    each_run(|| {
        let began = AtomicU32::new(0);
        ecru::scope(|s| s.spawn_daemon(|| began.fetch_add(1, SeqCst)));
        ecru::scope(|s| {
            s.cancel();
            s.spawn_daemon(|| {
                began.fetch_add(1, SeqCst);
                assert!(ecru::is_cancelled());
            });
        });
        assert_eq!(began.load(SeqCst), 2);
    });
}

/// Nobody fails: the body's value.
#[test]
fn scope_34_try_all_well() {
    each_run(|| {
        let result = ecru::try_scope(|s| {
            let one = s.spawn(|| Ok::<_, &str>(1));
            s.spawn(|| ecru::sleep(ms(1)).map_err(|_| "cancelled"));
            Ok(one.join().unwrap() + 1)
        });
        assert_eq!(result, Ok(2));
    });
}

/// The first failure stops body and siblings, and is returned when they have ended.
#[test]
fn scope_35_try_child_fails() {
    each_run(|| {
        let (parked, sibling_ended) = (AtomicBool::new(false), Mutex::new(None));
        let mut body_reason = None;
        let result: Result<(), &str> = ecru::try_scope(|s| {
            s.spawn(|| {
                parked.store(true, SeqCst);
                let error = forever();
                let _ = ecru::shield(|| ecru::sleep(ms(1)));
                *sibling_ended.lock().unwrap() = Some(error.reason());
                Ok(())
            });
            s.spawn(|| {
                until(|| parked.load(SeqCst));
                settle();
                Err::<(), _>("no such host")
            });
            body_reason = Some(forever().reason());
            Ok(())
        });
        assert_eq!(result, Err("no such host"));
        assert_eq!(sibling_ended.into_inner().unwrap(), Some(CancelReason::Sibling));
        assert_eq!(body_reason, Some(CancelReason::Sibling));
        assert!(ecru::checkpoint().is_ok());
    });
}

/// A failed child's error is the scope's; its join tells that it failed.
#[test]
fn scope_36_try_failed_join() {
    each_run(|| {
        let mut joined = None;
        let result: Result<(), String> = ecru::try_scope(|s| {
            let failing = s.spawn(|| Err::<(), _>(String::from("no such host")));
            // The failure cancels the body too, and join is a cancel point.
            joined = Some(ecru::shield(|| failing.join()));
            Ok(())
        });
        assert!(matches!(joined, Some(Err(JoinError::Failed))), "{joined:?}");
        assert_eq!(result, Err(String::from("no such host")));
    });
}

/// The body's failure stops the children.
#[test]
fn scope_37_try_body_fails() {
    each_run(|| {
        let (parked, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let result: Result<(), &str> = ecru::try_scope(|s| {
            s.spawn(|| {
                parked.store(true, SeqCst);
                assert_eq!(forever().reason(), CancelReason::Sibling);
                let _ = ecru::shield(|| ecru::sleep(ms(1)));
                ended.store(true, SeqCst);
                Ok(())
            });
            until(|| parked.load(SeqCst));
            Err("no such host")
        });
        assert_eq!(result, Err("no such host"));
        assert!(ended.load(SeqCst));
    });
}

/// A panic stops everybody too, and goes on with its payload.
#[test]
fn scope_38_try_child_panics() {
    each_run(|| {
        let (parked, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        let payload = payload_of(|| {
            ecru::try_scope(|s| {
                s.spawn(|| {
                    parked.store(true, SeqCst);
                    forever();
                    let _ = ecru::shield(|| ecru::sleep(ms(1)));
                    ended.store(true, SeqCst);
                    Ok::<_, ()>(())
                });
                s.spawn(|| -> Result<(), ()> {
                    until(|| parked.load(SeqCst));
                    std::panic::resume_unwind(Box::new(42_u64))
                });
                Ok(())
            })
        });
        assert_eq!(payload.downcast_ref(), Some(&42_u64));
        assert!(ended.load(SeqCst));
    });
}

/// What comes out is the cause, not one of its echoes.
#[test]
fn scope_39_try_real_error_beats_cancelled() {
    each_run(|| {
        for _ in 0..50 {
            let parked = AtomicU32::new(0);
            let result: Result<(), &str> = ecru::try_scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| {
                        parked.fetch_add(1, SeqCst);
                        forever();
                        Err::<(), _>("an echo")
                    });
                }
                s.spawn(|| {
                    until(|| parked.load(SeqCst) == 3);
                    Err::<(), _>("the cause")
                });
                forever();
                Err("an echo of the body's")
            });
            assert_eq!(result, Err("the cause"));
        }
    });
}

/// Of two errors the first in time is returned.
#[test]
fn scope_40_try_first_error_wins() {
    each_run(|| {
        let result: Result<(), u32> = ecru::try_scope(|s| {
            let first = s.spawn(|| Err::<(), _>(1));
            until(|| first.is_finished());
            // The body never looks whether it has been asked to stop.
            Err(2)
        });
        assert_eq!(result, Err(1));
        // At the same time on two workers, if there are two: it is one of them, and nothing is lost or doubled.
        let made = AtomicUsize::new(0);
        let result: Result<(), Counted<'_>> = ecru::try_scope(|s| {
            for _ in 0..10 {
                s.spawn(|| Err::<(), _>(Counted(&made)));
            }
            Ok(())
        });
        let before = made.load(SeqCst);
        drop(result);
        assert_eq!(made.load(SeqCst), before + 1);
    });
}

/// Who is cancelled on purpose does not fail the scope.
#[test]
fn scope_41_try_cancelled_on_purpose() {
    each_run(|| {
        let parked = AtomicBool::new(false);
        let result = ecru::try_scope(|s| {
            let child = s.spawn(|| {
                parked.store(true, SeqCst);
                forever();
                Err::<(), _>("stopped")
            });
            until(|| parked.load(SeqCst));
            child.cancel();
            assert!(matches!(child.join(), Err(JoinError::Failed)));
            assert!(ecru::sleep(ms(1)).is_ok());
            Ok("value")
        });
        assert_eq!(result, Ok("value"));
    });
}

/// Nor does who is cancelled by `s.cancel()`.
#[test]
fn scope_42_try_scope_cancelled_on_purpose() {
    each_run(|| {
        let parked = AtomicU32::new(0);
        let result = ecru::try_scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    parked.fetch_add(1, SeqCst);
                    forever();
                    Err::<(), _>("stopped")
                });
            }
            until(|| parked.load(SeqCst) == 3);
            s.cancel();
            Ok("value")
        });
        assert_eq!(result, Ok("value"));
    });
}

/// Nor does a daemon at the end.
#[test]
fn scope_43_try_daemon_at_the_end() {
    each_run(|| {
        let result = ecru::try_scope(|s| {
            s.spawn_daemon(|| Err(forever().to_string()));
            settle();
            Ok("value")
        });
        assert_eq!(result, Ok("value"));
    });
}

/// A daemon that fails before the end fails the scope.
#[test]
fn scope_44_try_daemon_fails() {
    each_run(|| {
        let mut body_reason = None;
        let result: Result<(), &str> = ecru::try_scope(|s| {
            s.spawn_daemon(|| Err("no such host"));
            body_reason = Some(forever().reason());
            Ok(())
        });
        assert_eq!((result, body_reason), (Err("no such host"), Some(CancelReason::Sibling)));
    });
}

/// Many children, and each result is dropped once.
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
