//! The start and end of runs: `run`, `Runtime`, `Handle`.

use std::io::{ErrorKind, Read, Write};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use ecru::net::{TcpListener, TcpStream};
use ecru::{CancelReason, Runtime, RuntimeHandle};

use crate::support::{
    Counted, Watchdog, each_run, forever, ms, now, panic_text, payload_of, quiet_panic, run_on,
    settle, since, until,
};

fn runtime(workers: usize) -> Runtime {
    Runtime::builder().workers(workers).build().unwrap()
}

/// - given: a thread
/// - when: it calls `ecru::run`
/// - then: the root task runs on that thread, may borrow its locals, and its value is returned
///
/// The root uses that thread's own stack.
#[test]
fn run_01_root_stays_on_the_thread() {
    let _watchdog = Watchdog::new();
    let mut local = vec![1];
    let here = thread::current().id();
    let value = ecru::run(|| {
        assert_eq!(thread::current().id(), here);
        ecru::sleep(ms(1)).unwrap();
        assert_eq!(thread::current().id(), here);
        local.push(2);
        local.len()
    });
    assert_eq!((value, local), (2, vec![1, 2]));
}

/// - given: tasks of `ecru::spawn` that are still parked
/// - when: the root's body ends
/// - then: `run` returns after the last of them has ended
#[test]
fn run_02_awaits_every_task() {
    let ended = Arc::new(AtomicU32::new(0));
    each_run(|| {
        for _ in 0..3 {
            let ended = Arc::clone(&ended);
            ecru::spawn(move || {
                ecru::sleep(ms(1)).unwrap();
                let late = Arc::clone(&ended);
                ecru::spawn(move || {
                    ecru::sleep(ms(1)).unwrap();
                    late.fetch_add(1, SeqCst);
                });
                ended.fetch_add(1, SeqCst);
            });
        }
    });
    assert_eq!(ended.load(SeqCst), 12);
}

/// - given: a parked child of the run
/// - when: the root panics
/// - then: the child is cancelled and awaited, then `run` resumes the panic with its payload
#[test]
fn run_03_root_panics() {
    for workers in [1, 2] {
        let (parked, reason) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
        let payload = payload_of(|| {
            run_on(workers, || -> () {
                let (child_parked, child_reason) = (Arc::clone(&parked), Arc::clone(&reason));
                ecru::spawn(move || {
                    child_parked.store(true, SeqCst);
                    let error = forever();
                    let _ = ecru::shield(|| ecru::sleep(ms(1)));
                    *child_reason.lock().unwrap() = Some(error.reason());
                });
                until(|| parked.load(SeqCst));
                std::panic::resume_unwind(Box::new(42_u64))
            })
        });
        assert_eq!(payload.downcast_ref(), Some(&42_u64));
        assert_eq!(*reason.lock().unwrap(), Some(CancelReason::Shutdown));
    }
}

/// - given: a task
/// - when: it calls `ecru::run`
/// - then: it panics, saying that `run` was called from inside a task
#[test]
fn run_04_inside_a_task_panics() {
    each_run(|| {
        let text = panic_text(|| ecru::run(|| ()));
        assert!(text.replace('`', "").contains("ecru::run called from inside a task"), "{text}");
        let other = runtime(1);
        let text = ecru::scope(|s| s.spawn(|| panic_text(|| other.run(|| ()))).join().unwrap());
        assert!(text.contains("called from inside a task"), "{text}");
        assert!(ecru::checkpoint().is_ok());
    });
}

/// - given: a closure of `unblock`
/// - when: it runs its own runtime, or another one whose closure runs the first
/// - then: it panics, saying that `run` was called from inside a task; other runtimes run
#[test]
fn run_78_inside_its_own_unblock_panics() {
    fn refused(first: &Runtime) {
        let text = panic_text(|| first.run(|| ()));
        assert!(text.contains("called from inside a task"), "{text}");
    }
    let (first, second, third) = (runtime(2), runtime(1), runtime(1));
    let _watchdog = Watchdog::new();
    for _ in 0..2 {
        first.run(|| {
            ecru::unblock(|| refused(&first));
            ecru::unblock(|| ecru::unblock(|| ecru::shield(|| refused(&first))));
            ecru::scope(|s| s.spawn(|| ecru::unblock(|| refused(&first))).join().unwrap());
            ecru::unblock(|| {
                second.run(|| {
                    refused(&first);
                    ecru::unblock(|| {
                        refused(&first);
                        refused(&second);
                        assert_eq!(third.run(|| ecru::unblock(|| 3)), 3);
                        ecru::run(|| ecru::unblock(|| refused(&first)));
                    });
                });
            });
            assert_eq!(ecru::unblock(|| second.run(|| 2)), 2);
        });
    }
    // Nothing of it is left.
    assert_eq!(second.run(|| ecru::unblock(|| first.run(|| 1))), 1);
}

/// - given: a name with a NUL byte, at its start, in it or at its end
/// - when: a runtime is built
/// - then: `InvalidInput`, with a text that says what to do; a task may have such a name
#[test]
fn run_66_a_name_with_a_nul_byte() {
    for name in ["\0", "\0a", "a\0b", "a\0"] {
        let error = Runtime::builder().name(name).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("leave it out"), "{error}");
        each_run(|| {
            ecru::scope(|s| {
                let own = || ecru::task::current().name().map(str::to_owned);
                let said = s.builder().name(name).spawn(own).join().unwrap();
                assert_eq!(said.as_deref(), Some(name));
            });
        });
    }
}

/// - given: a `no_suspend` section on a plain thread
/// - when: it calls `ecru::run`, or runs a runtime
/// - then: it panics, naming `no_suspend`, because a run waits for its tasks
#[test]
fn run_77_inside_no_suspend_panics() {
    let _watchdog = Watchdog::new();
    let other = runtime(1);
    let runs: [&dyn Fn(); 2] = [&|| ecru::run(|| ()), &|| other.run(|| ())];
    for run in runs {
        let text = panic_text(|| ecru::no_suspend(run));
        assert!(text.contains("no_suspend"), "{text}");
        run();
    }
}

/// - given: several threads
/// - when: each calls `ecru::run`
/// - then: they run in parallel, and no task runs on a thread of another run
#[test]
fn run_05_several_at_once() {
    let _watchdog = Watchdog::new();
    let threads_seen = Mutex::new(Vec::new());
    let meet = Barrier::new(3);
    thread::scope(|threads| {
        for run in 0..3 {
            let (threads_seen, meet) = (&threads_seen, &meet);
            threads.spawn(move || {
                runtime(2).run(|| {
                    meet.wait();
                    ecru::scope(|s| {
                        for _ in 0..50 {
                            s.spawn(|| {
                                ecru::sleep(ms(1)).unwrap();
                                let id = thread::current().id();
                                threads_seen.lock().unwrap().push((run, id));
                            });
                        }
                    });
                    meet.wait();
                });
            });
        }
    });
    let seen = threads_seen.into_inner().unwrap();
    assert_eq!(seen.len(), 150);
    for (run, thread) in &seen {
        assert!(seen.iter().all(|(other, id)| other == run || id != thread));
    }
}

/// - given: one `Runtime` and two threads
/// - when: both call `run` on it
/// - then: the second begins when the first has ended
#[test]
fn run_06_second_run_waits() {
    let _watchdog = Watchdog::new();
    let runtime = runtime(1);
    let (running, most) = (AtomicU32::new(0), AtomicU32::new(0));
    thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                runtime.run(|| {
                    most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                    ecru::sleep(ms(2)).unwrap();
                    running.fetch_sub(1, SeqCst);
                });
            });
        }
    });
    assert_eq!(most.load(SeqCst), 1);
}

/// - given: a runtime with `workers(1)`
/// - when: tasks are spawned
/// - then: all of them run on the calling thread
#[cfg(not(ecru_baton))] // each task has a thread
#[test]
fn run_07_one_worker() {
    run_on(1, || {
        let here = thread::current().id();
        ecru::scope(|s| {
            let children: Vec<_> = (0..100)
                .map(|_| {
                    s.spawn(move || {
                        ecru::yield_now().unwrap();
                        thread::current().id()
                    })
                })
                .collect();
            assert!(children.iter().all(|child| child.join().unwrap() == here));
        });
    });
}

/// - given: a runtime with `workers(2)`, and two tasks that each wait for the other without giving
///   up their thread
/// - when: they run
/// - then: both make progress, because they are on two threads
#[test]
fn run_08_uses_its_workers() {
    run_on(2, || {
        for _ in 0..5 {
            let meet = Barrier::new(2);
            ecru::scope(|s| {
                let meet = || {
                    meet.wait();
                    thread::current().id()
                };
                let (one, two) = (s.spawn(meet), s.spawn(meet));
                assert_ne!(one.join().unwrap(), two.join().unwrap());
            });
        }
    });
}

/// - given: a `RuntimeHandle` on a plain thread
/// - when: it spawns and joins
/// - then: the task runs on a worker and the thread gets its value
#[test]
fn run_09_spawn_from_outside() {
    each_run(|| {
        let handle = RuntimeHandle::current();
        let outside = thread::spawn(move || {
            let task = handle.spawn(|| {
                ecru::sleep(ms(1)).unwrap();
                (ecru::task::current().id(), thread::current().id())
            });
            let (_, worker) = task.unwrap().join().unwrap();
            worker != thread::current().id()
        });
        until(|| outside.is_finished());
        assert!(outside.join().unwrap());
    });
    // The run awaits such a task, too, and meanwhile its body may sleep without a limit.
    let runtime = runtime(1);
    let (handle, ended) = (runtime.handle(), Arc::new(AtomicBool::new(false)));
    let noted = Arc::clone(&ended);
    runtime.run(move || {
        let spawned = thread::spawn(move || {
            drop(handle.spawn(move || {
                ecru::sleep(ms(2)).unwrap();
                noted.store(true, SeqCst);
            }));
        });
        ecru::unblock(|| spawned.join().unwrap());
    });
    assert!(ended.load(SeqCst));
}

/// - given: a `RuntimeHandle` whose run has ended
/// - when: it spawns
/// - then: it gets `NotRunning`, and the closure is dropped
#[test]
fn run_10_not_running() {
    static DROPPED: AtomicUsize = AtomicUsize::new(0);
    let _watchdog = Watchdog::new();
    let runtime = runtime(1);
    let before = runtime.handle();
    assert!(before.spawn(|| ()).is_err());
    let during = runtime.run(RuntimeHandle::current);
    for handle in [before, during.clone()] {
        let counted = Counted(&DROPPED);
        let refused = handle.spawn(move || drop(counted));
        assert!(refused.unwrap_err().to_string().contains("no run"));
    }
    assert_eq!(DROPPED.load(SeqCst), 2);
    drop(runtime);
    assert!(during.spawn(|| ()).is_err());
}

/// - given: a builder
/// - when: it is built with `workers(0)`
/// - then: an `io::Error` names the setting and what to do
#[test]
fn run_11_no_workers() {
    let error = Runtime::builder().workers(0).build().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("workers(0)"), "{error}");
    assert!(error.to_string().contains("at least 1"), "{error}");
}

/// - given: a builder
/// - when: it is built with more workers than the documented limit
/// - then: an `io::Error` names the limit
#[test]
fn run_12_too_many_workers() {
    for workers in [1025, usize::MAX] {
        let error = Runtime::builder().workers(workers).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("1024"), "{error}");
    }
}

/// - given: a builder
/// - when: it is built with a stack size of 0, or one below the minimum
/// - then: an `io::Error` names the minimum
#[test]
fn run_13_stack_too_small() {
    for size in [0, 1, 16 * 1024 - 1] {
        let error = Runtime::builder().stack_size(size).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("16384"), "{error}");
    }
    let smallest = Runtime::builder().workers(1).stack_size(16 * 1024).build().unwrap();
    assert_eq!(smallest.run(|| ecru::scope(|s| s.spawn(|| 5).join())).unwrap(), 5);
}

/// - given: a builder
/// - when: it is built with a stack larger than the address space
/// - then: an `io::Error` says so; nothing is aborted
#[cfg(not(ecru_baton))] // threads map their own stacks
#[test]
fn run_14_stack_cannot_be_mapped() {
    for size in [usize::MAX, usize::MAX / 2, 1 << 50] {
        let error = Runtime::builder().stack_size(size).build().unwrap_err();
        assert!(error.to_string().contains("at most"), "{error}");
    }
    // A stack that is possible but has no room: the task cannot start, and its join says so.
    run_on(1, || {
        ecru::scope(|s| {
            let mut tasks = Vec::new();
            for _ in 0..1024 {
                tasks.push(s.builder().stack_size(1 << 40).spawn(settle));
            }
            let ends: Vec<_> = tasks.iter().map(|task| task.join()).collect();
            let refused = ends.iter().filter_map(|end| end.as_ref().err()).next();
            let text = refused.expect("a petabyte in stacks is too much").to_string();
            assert!(text.contains("cannot be mapped"), "{text}");
        });
    });
}

/// - given: a plain thread
/// - when: it calls `ecru::spawn`
/// - then: it panics, saying that a runtime is needed and how to get one
#[test]
fn run_15_spawn_needs_a_runtime() {
    let text = panic_text(|| ecru::spawn(|| ()));
    assert!(text.contains("ecru::spawn") && text.contains("ecru::run"), "{text}");
    let text = panic_text(RuntimeHandle::current);
    assert!(text.contains("Runtime::handle"), "{text}");
}

/// - given: a plain thread
/// - when: it sleeps, joins a handle and reads a socket
/// - then: each call blocks the thread until it is done
#[test]
fn run_16_waits_need_none() {
    let _watchdog = Watchdog::new();
    let before = now();
    ecru::sleep(ms(2)).unwrap();
    assert!(since(before) >= ms(2));
    ecru::yield_now().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut server = listener.accept().unwrap().0;
    let writer = thread::spawn(move || {
        thread::sleep(ms(1));
        server.write_all(b"ecru").unwrap();
    });
    let mut buffer = [0; 4];
    client.read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"ecru");
    writer.join().unwrap();
    run_on(1, || {
        ecru::scope(|s| {
            let child = s.spawn(|| {
                ecru::sleep(ms(2)).unwrap();
                5
            });
            thread::scope(|threads| {
                let joiner = threads.spawn(|| child.join().unwrap());
                until(|| joiner.is_finished());
                assert_eq!(joiner.join().unwrap(), 5);
            });
        });
    });
}

/// - given: a `Runtime` whose run has ended
/// - when: it runs again
/// - then: it works as the first time
///
/// A runtime may run again after a panic, too.
#[test]
fn run_17_runs_again() {
    let _watchdog = Watchdog::new();
    for workers in [1, 2] {
        let runtime = runtime(workers);
        for round in 0..5 {
            let sum = runtime.run(|| {
                ecru::spawn(|| ecru::sleep(ms(1)).unwrap());
                ecru::scope(|s| {
                    let tasks: Vec<_> = (0..10).map(|n| s.spawn(move || n * round)).collect();
                    tasks.iter().map(|task| task.join().unwrap()).sum::<u32>()
                })
            });
            assert_eq!(sum, 45 * round);
            assert_eq!(panic_text(|| runtime.run(|| quiet_panic("again"))), "again");
        }
    }
}

/// - given: `Placement::Spread` and two workers
/// - when: two tasks are spawned that wait for each other without giving up their threads
/// - then: they run on different workers
#[test]
fn run_19_spread_deals_out() {
    let _watchdog = Watchdog::new();
    let runtime = Runtime::builder().workers(2).placement(ecru::Placement::Spread).build().unwrap();
    runtime.run(|| {
        let meet = Barrier::new(2);
        let on_its_thread = || {
            meet.wait();
            thread::current().id()
        };
        ecru::scope(|s| {
            let two = [s.spawn(on_its_thread), s.spawn(on_its_thread)];
            let [one, other] = two.map(|task| task.join().unwrap());
            assert_ne!(one, other);
        });
    });
}
