//! The order in which tasks run, and their workers.

use std::cell::Cell;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::Duration;

use ecru::net::{TcpListener, TcpStream};

use crate::support::{HOUR, each_run, ms, now, panic_text, run_on, settle, since, until};

/// - given: tasks, one of them named
/// - when: each calls `task::current()`
/// - then: the ids differ, and the named task has its name
#[test]
fn task_01_current() {
    each_run(|| {
        let root = ecru::task::current();
        let tasks = ecru::scope(|s| {
            let plain: Vec<_> = (0..20).map(|_| s.spawn(ecru::task::current)).collect();
            let named = s.builder().name("indexer").spawn(|| {
                let before = ecru::task::current();
                ecru::sleep(ms(1)).unwrap();
                assert_eq!(ecru::task::current(), before);
                before
            });
            assert_eq!(named.join().unwrap().name(), Some("indexer"));
            plain.iter().map(|task| task.join().unwrap()).collect::<Vec<_>>()
        });
        let mut ids: HashSet<_> = tasks.iter().map(ecru::task::Task::id).collect();
        assert!(ids.insert(root.id()));
        assert_eq!(ids.len(), 21);
        assert!(tasks.iter().all(|task| task.name().is_none()));
    });
    assert!(panic_text(ecru::task::current).contains("outside a task"));
}

/// - given: two tasks on one worker
/// - when: each calls `yield_now` in a loop
/// - then: they alternate
#[test]
fn task_02_yields() {
    run_on(1, || {
        let (turns, started) = (Mutex::new(Vec::new()), AtomicU32::new(0));
        ecru::scope(|s| {
            for name in ['a', 'b'] {
                let (turns, started) = (&turns, &started);
                s.spawn(move || {
                    started.fetch_add(1, SeqCst);
                    until(|| started.load(SeqCst) == 2);
                    for _ in 0..4 {
                        turns.lock().unwrap().push(name);
                        ecru::yield_now().unwrap();
                    }
                });
            }
        });
        let turns = turns.into_inner().unwrap();
        assert_eq!(turns.len(), 8);
        assert!(turns.windows(2).all(|pair| pair[0] != pair[1]), "{turns:?}");
    });
}

/// - given: a cancelled task
/// - when: it calls `yield_now`
/// - then: it gets `Cancelled`
///
/// It still yields.
#[test]
fn task_03_yield_is_a_cancel_point() {
    run_on(1, || {
        let ran = AtomicBool::new(false);
        ecru::scope(|s| {
            s.spawn(|| ran.store(true, SeqCst));
            ecru::cancel_scope(|c| {
                c.cancel();
                for _ in 0..3 {
                    assert!(ecru::yield_now().is_err());
                }
            });
            assert!(ran.load(SeqCst));
        });
    });
}

/// - given: three tasks spawned on one worker
/// - when: the worker runs them
/// - then: they start in the order of spawning
#[test]
fn task_04_first_come_first_served() {
    run_on(1, || {
        let order = Mutex::new(Vec::new());
        ecru::scope(|s| {
            for number in 0..3 {
                let order = &order;
                s.spawn(move || order.lock().unwrap().push(number));
            }
        });
        assert_eq!(*order.lock().unwrap(), [0, 1, 2]);
    });
}

/// - given: a started task and an idle worker
/// - when: it waits again and again
/// - then: its thread and its thread-locals stay the same
#[test]
fn task_05_keeps_its_thread() {
    thread_local! {
        static MARK: Cell<u64> = const { Cell::new(0) };
    }
    run_on(2, || {
        let next = AtomicU32::new(1);
        ecru::scope(|s| {
            for _ in 0..20 {
                s.spawn(|| {
                    let (own, here) = (next.fetch_add(1, SeqCst), thread::current().id());
                    for round in 0..10 {
                        MARK.set(u64::from(own));
                        ecru::scope(|inner| {
                            drop(inner.spawn(|| ()).join());
                        });
                        // If nothing yielded, no other code would have run here since `set`. The
                        // rounds therefore separate setting and yielding.
                        if round % 2 == 0 {
                            ecru::yield_now().unwrap();
                        } else {
                            ecru::sleep(Duration::from_micros(100)).unwrap();
                        }
                        assert_eq!(thread::current().id(), here);
                        assert_ne!(MARK.get(), 0);
                    }
                });
            }
        });
    });
}

/// - given: a worker busy with a task that never waits
/// - when: more tasks are waiting in its queue
/// - then: the idle worker takes them and runs them
#[test]
fn task_06_unstarted_work_spreads() {
    run_on(2, || {
        let ran = AtomicUsize::new(0);
        ecru::scope(|s| {
            let here = thread::current().id();
            let others: Vec<_> = (0..20)
                .map(|_| {
                    s.spawn(|| {
                        ran.fetch_add(1, SeqCst);
                        thread::current().id()
                    })
                })
                .collect();
            // This never waits, so this worker starts none of them.
            let start = now();
            while ran.load(SeqCst) < 20 {
                assert!(since(start) < Duration::from_secs(30), "nobody takes them");
                std::hint::spin_loop();
            }
            assert!(others.iter().all(|task| task.join().unwrap() != here));
        });
    });
}

/// - given: a worker whose tasks yield for ever
/// - when: another task sleeps for 10 ms
/// - then: it is still woken
#[test]
fn task_07_ready_tasks_starve_no_timer() {
    run_on(1, || {
        let stop = AtomicBool::new(false);
        ecru::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    while !stop.load(SeqCst) {
                        ecru::yield_now().unwrap();
                    }
                });
            }
            let before = now();
            ecru::sleep(ms(10)).unwrap();
            assert!(since(before) < Duration::from_secs(30));
            stop.store(true, SeqCst);
        });
    });
}

/// - given: a worker whose tasks yield for ever
/// - when: a socket becomes readable, for which another task waits
/// - then: that task reads
#[test]
fn task_08_ready_tasks_starve_no_socket() {
    run_on(1, || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut server = listener.accept().unwrap().0;
        let stop = AtomicBool::new(false);
        ecru::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    while !stop.load(SeqCst) {
                        ecru::yield_now().unwrap();
                    }
                });
            }
            s.spawn(|| {
                settle();
                server.write_all(b"ecru").unwrap();
            });
            let mut buffer = [0; 4];
            client.read_exact(&mut buffer).unwrap();
            assert_eq!(&buffer, b"ecru");
            stop.store(true, SeqCst);
        });
    });
}

/// - given: a task
/// - when: it waits inside `no_suspend`, ready or not
/// - then: it panics, naming `no_suspend`
#[test]
fn task_12_no_suspend() {
    each_run(|| {
        ecru::scope(|s| {
            let ended = s.spawn(|| 5);
            until(|| ended.is_finished());
            let waits: [&dyn Fn(); 8] = [
                &|| _ = ecru::sleep(Duration::ZERO),
                &|| _ = ecru::yield_now(),
                &|| _ = ecru::checkpoint(),
                &|| drop(ended.join()),
                &|| drop(ended.join_timeout(HOUR)),
                &|| ecru::scope(|_| ()),
                &|| ecru::unblock(|| ()),
                // It awaits a running hook.
                &|| ecru::on_cancel(|| (), || ()),
            ];
            for wait in waits {
                let text = panic_text(|| ecru::no_suspend(wait));
                assert!(text.contains("no_suspend"), "{text}");
            }
            assert!(ecru::no_suspend(|| ended.is_finished()));
            assert_eq!(ended.join().unwrap(), 5);
        });
    });
}

/// Two tasks on two workers meet at a barrier of the standard library, which blocks their threads.
#[test]
fn task_06_unstarted_work_spreads_past_a_blocked_worker() {
    run_on(2, || {
        let meet = Barrier::new(2);
        ecru::scope(|s| {
            s.spawn(|| meet.wait());
            meet.wait();
        });
    });
}
