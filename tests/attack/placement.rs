//! Attacks on the placement of tasks: inboxes, blocked workers, and runs that begin and end.

use std::rc::Rc;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use ecru::channel::{self, Receiver, Sender};
use ecru::{Placement, Runtime, RuntimeHandle};

use crate::common::{OnDrop, Watchdog, ms};

fn runtime(workers: usize, placement: Placement) -> Runtime {
    Runtime::builder().workers(workers).placement(placement).build().unwrap()
}

const ALL: [Placement; 3] = [Placement::Auto, Placement::Together, Placement::Spread];

/// Tasks in an inbox are cancelled, joined and dropped before they start.
#[test]
fn requests_reach_tasks_in_an_inbox() {
    let _watchdog = Watchdog::new();
    for placement in ALL {
        for workers in [1, 3] {
            let dropped = AtomicUsize::new(0);
            runtime(workers, placement).run(|| {
                ecru::scope(|s| {
                    let tasks: Vec<_> = (0..60)
                        .map(|_| {
                            let counted = OnDrop(|| _ = dropped.fetch_add(1, SeqCst));
                            s.spawn(move || drop(counted))
                        })
                        .collect();
                    for (n, task) in tasks.into_iter().enumerate() {
                        match n % 4 {
                            0 => drop(task),
                            1 => task.cancel(),
                            2 => {
                                task.cancel();
                                let _ = task.join();
                            }
                            _ => task.join().unwrap(),
                        }
                    }
                    s.cancel();
                });
            });
            assert_eq!(dropped.load(SeqCst), 60);
        }
    }
}

/// A worker whose thread is blocked has all the tasks, and idle workers take them.
#[test]
fn tasks_are_not_stranded_behind_a_blocked_thread() {
    let _watchdog = Watchdog::new();
    for placement in ALL {
        runtime(3, placement).run(|| {
            let (tell, told) = mpsc::channel();
            ecru::scope(|s| {
                for n in 0..30_u32 {
                    let tell = tell.clone();
                    s.spawn(move || tell.send(n).unwrap());
                }
                // This blocks the thread, and not only the task.
                let sum: u32 = (0..30).map(|_| told.recv().unwrap()).sum();
                assert_eq!(sum, 435);
            });
        });
    }
}

/// A started task never moves, and neither do its thread-locals and its `Rc`s.
#[cfg(not(ecru_baton))] // there each task has a thread of its own
#[test]
fn a_started_task_stays() {
    let _watchdog = Watchdog::new();
    for placement in ALL {
        runtime(8, placement).run(|| {
            ecru::scope(|s| {
                for n in 0..64 {
                    s.spawn(move || {
                        let (home, kept) = (thread::current().id(), Rc::new(n));
                        for _ in 0..5 {
                            let _copy = Rc::clone(&kept);
                            if n % 2 == 0 {
                                ecru::yield_now().unwrap();
                            } else {
                                ecru::sleep(Duration::from_micros(50)).unwrap();
                            }
                            assert_eq!(thread::current().id(), home);
                        }
                        assert_eq!(Rc::strong_count(&kept), 1);
                    });
                }
            });
        });
    }
}

/// `near` and `spawn_local` start tasks where they are spawned, with every placement.
#[cfg(not(ecru_baton))] // there each task has a thread of its own
#[test]
fn near_is_near_in_every_placement() {
    let _watchdog = Watchdog::new();
    for placement in ALL {
        runtime(4, placement).run(|| {
            ecru::scope(|outer| {
                for _ in 0..8 {
                    outer.spawn(|| {
                        let home = thread::current().id();
                        ecru::scope(|s| {
                            for _ in 0..8 {
                                let is_here = move || assert_eq!(thread::current().id(), home);
                                s.builder().near().spawn(is_here);
                                let not_send = Rc::new(());
                                s.spawn_local(move || {
                                    is_here();
                                    drop(not_send);
                                });
                            }
                        });
                    });
                }
            });
        });
    }
}

/// Short runs on a runtime with many workers, one after another. Each ends without a task left in
/// an inbox.
#[test]
fn short_runs_on_many_workers() {
    let _watchdog = Watchdog::new();
    for placement in [Placement::Auto, Placement::Spread] {
        let runtime = runtime(64, placement);
        let handle = runtime.handle();
        for _ in 0..10 {
            let count = Arc::new(AtomicUsize::new(0));
            runtime.run(|| {
                for _ in 0..100 {
                    let count = Arc::clone(&count);
                    ecru::spawn(move || _ = count.fetch_add(1, SeqCst));
                }
            });
            assert_eq!(count.load(SeqCst), 100);
            assert_eq!(Arc::strong_count(&count), 1);
            assert!(handle.spawn(|| ()).is_err());
        }
    }
}

/// Tasks spawned from outside at the end of a run. Each is refused, or has ended when the run has.
#[test]
fn spawned_from_outside_at_the_end_of_a_run() {
    let _watchdog = Watchdog::new();
    for placement in ALL {
        for _ in 0..20 {
            let runtime = runtime(2, placement);
            let handle = runtime.handle();
            let (taken, ended) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            thread::scope(|threads| {
                let (begin, begun) = mpsc::channel();
                threads.spawn({
                    let (taken, ended) = (&taken, &ended);
                    move || {
                        begun.recv().unwrap();
                        // The loop is bounded, because the run continues while one of these tasks
                        // has not ended.
                        for _ in 0..200 {
                            let ended = Arc::clone(ended);
                            match handle.spawn(move || _ = ended.fetch_add(1, SeqCst)) {
                                Ok(_) => _ = taken.fetch_add(1, SeqCst),
                                Err(_) => break,
                            }
                        }
                    }
                });
                runtime.run(|| begin.send(()).unwrap());
            });
            assert_eq!(taken.load(SeqCst), ended.load(SeqCst));
        }
    }
}

/// A task that spawns itself for ever. Timers and limits still work.
#[test]
fn a_task_that_spawns_itself_for_ever() {
    fn again<'scope>(s: &'scope ecru::Scope<'scope, '_>, stop: &'scope AtomicBool) {
        if !stop.load(SeqCst) {
            s.spawn(move || again(s, stop));
        }
    }

    let _watchdog = Watchdog::new();
    for placement in ALL {
        for workers in [1, 2] {
            let stop = AtomicBool::new(false);
            runtime(workers, placement).run(|| {
                ecru::scope(|s| {
                    again(s, &stop);
                    ecru::sleep(ms(2)).unwrap();
                    stop.store(true, SeqCst);
                });
            });
        }
    }
}

/// One worker starts tasks in the order of their spawning, and in the order of their items.
#[test]
fn one_worker_keeps_the_order() {
    let _watchdog = Watchdog::new();
    for placement in ALL {
        runtime(1, placement).run(|| {
            let order = Mutex::new(Vec::new());
            let (tx, rx) = channel::unbounded::<usize>();
            ecru::scope(|s| {
                for n in 0..100 {
                    let order = &order;
                    s.spawn(move || order.lock().unwrap().push(n));
                    s.spawn_when(&rx, |n| order.lock().unwrap().push(n.unwrap()));
                }
                (100..200).for_each(|n| tx.send(n).unwrap());
            });
            assert_eq!(order.into_inner().unwrap(), Vec::from_iter(0..200));
        });
    }
}

/// Runs on several threads, each with tasks that wait for items of the next run. No run takes a
/// task of another.
#[test]
fn runs_side_by_side_keep_their_tasks() {
    let _watchdog = Watchdog::new();
    let ends: Vec<(Sender<usize>, Receiver<usize>)> =
        (0..4).map(|_| channel::unbounded()).collect();
    thread::scope(|threads| {
        for n in 0..4 {
            let (rx, tx) = (&ends[n].1, &ends[(n + 1) % 4].0);
            threads.spawn(move || {
                runtime(2, Placement::Auto).run(|| {
                    ecru::scope(|s| {
                        let run = std::ptr::from_ref(s).addr();
                        for _ in 0..50 {
                            s.spawn_when(rx, move |from| {
                                assert_eq!(from.unwrap(), (n + 3) % 4);
                                // A child of this run's scope would be refused on the worker of any
                                // other run.
                                s.spawn(move || assert_eq!(std::ptr::from_ref(s).addr(), run));
                            });
                        }
                        (0..50).for_each(|_| tx.send(n).unwrap());
                    });
                });
            });
        }
    });
}

/// A dump lists tasks that are in an inbox, and they begin afterwards.
#[test]
fn a_dump_shows_tasks_in_an_inbox() {
    let _watchdog = Watchdog::new();
    runtime(1, Placement::Spread).run(|| {
        let ran = AtomicUsize::new(0);
        ecru::scope(|s| {
            (0..10).for_each(|_| drop(s.spawn(|| ran.fetch_add(1, SeqCst))));
            let dump = RuntimeHandle::current().dump();
            // Those that begin meanwhile may be counted twice.
            assert!(dump.tasks().count() + ran.load(SeqCst) >= 11);
        });
        assert_eq!(ran.load(SeqCst), 10);
    });
}
