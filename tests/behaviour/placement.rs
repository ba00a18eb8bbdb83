//! The workers on which tasks start.

use std::collections::HashSet;
use std::sync::Barrier;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::thread::{self, ThreadId};
use std::time::Duration;

use ecru::{JoinHandle, Placement, Runtime, Scope, channel};

use crate::support::{Watchdog, ms, run_placed, until};

fn runtime(workers: usize, placement: Placement) -> Runtime {
    Runtime::builder().workers(workers).placement(placement).build().unwrap()
}

/// Spawns `tasks` tasks, which all wait on a channel. Returns the threads on which they have begun.
/// `pause` is the time between two spawns.
fn threads_of_a_pool(tasks: usize, pause: Duration) -> HashSet<ThreadId> {
    let (tx, rx) = channel::bounded::<()>(0);
    let begun = AtomicUsize::new(0);
    let on_its_thread = |rx: channel::Receiver<()>, begun: &AtomicUsize| {
        begun.fetch_add(1, SeqCst);
        assert!(rx.recv().is_err(), "nothing is sent");
        thread::current().id()
    };
    ecru::scope(|s| {
        let spawn = || {
            let (rx, begun) = (rx.clone(), &begun);
            s.spawn(move || on_its_thread(rx, begun))
        };
        let pool: Vec<_> = (0..tasks)
            .map(|_| {
                let task = spawn();
                if !pause.is_zero() {
                    ecru::sleep(pause).unwrap();
                }
                task
            })
            .collect();
        while begun.load(SeqCst) < tasks {
            ecru::sleep(ms(1)).unwrap();
        }
        drop(tx);
        pool.iter().map(|task| task.join().unwrap()).collect()
    })
}

/// Repeats pools until one of them uses enough workers. A worker whose thread has no core is no
/// target, so a single pool on a loaded machine proves nothing.
#[track_caller]
fn some_pool_uses(workers: usize, least: usize, tasks: usize, pause: Duration) {
    run_placed(workers, Placement::Auto, || {
        until(|| threads_of_a_pool(tasks, pause).len() >= least)
    });
}

/// - given: two workers, or eight; a pool of tasks that wait on an empty channel
/// - when: they have begun
/// - then: they are spread over all workers
#[test]
fn place_01_pool_uses_every_worker() {
    some_pool_uses(2, 2, 8, Duration::ZERO);
}

#[test]
fn place_01_pool_uses_every_worker_of_eight() {
    some_pool_uses(8, 8, 64, Duration::ZERO);
}

/// - given: two workers
/// - when: waiting tasks are spawned one by one, each after the previous one has parked
/// - then: they are on both workers
#[test]
fn place_02_spawned_one_by_one() {
    some_pool_uses(2, 2, 4, ms(1));
}

/// - given: `Placement::Together` and two workers
/// - when: a pool of waiting tasks is spawned
/// - then: they are all on their spawner's worker
#[test]
fn place_03_together() {
    let _watchdog = Watchdog::new();
    runtime(2, Placement::Together)
        .run(|| until(|| threads_of_a_pool(8, Duration::ZERO).len() == 1));
}

/// - given: each placement and two workers
/// - when: tasks and daemons are spawned by `near()`, and wait
/// - then: they are on their spawner's worker
#[test]
fn place_04_near_starts_on_the_spawners_worker() {
    let _watchdog = Watchdog::new();
    for placement in [Placement::Auto, Placement::Together, Placement::Spread] {
        runtime(2, placement).run(|| {
            let here = thread::current().id();
            ecru::scope(|s| {
                let waits = || {
                    ecru::yield_now().unwrap();
                    thread::current().id()
                };
                let near: Vec<_> = (0..50).map(|_| s.builder().near().spawn(waits)).collect();
                assert!(near.iter().all(|task| task.join().unwrap() == here));
                s.builder().near().spawn_daemon(move || assert_eq!(thread::current().id(), here));
            });
            ecru::try_scope(|s| -> Result<(), ()> {
                let near = s.builder().near().spawn(|| Ok(thread::current().id()));
                assert_eq!(near.join().unwrap(), here);
                s.builder().near().spawn_daemon(move || {
                    assert_eq!(thread::current().id(), here);
                    Ok(())
                });
                Ok(())
            })
            .unwrap();
        });
    }
}

/// Occupies every worker but the caller's with a task that blocks its thread until `free` is waited
/// for.
fn block_the_others<'scope>(
    s: &'scope Scope<'scope, '_>,
    free: &'scope Barrier,
    blocked: &'scope AtomicUsize,
    others: usize,
) {
    let here = thread::current().id();
    until(|| {
        s.spawn(move || {
            // With more tasks than workers, some would wait for the barrier again.
            let is_one = |n: usize| (n < others).then_some(n + 1);
            if thread::current().id() != here
                && blocked.fetch_update(SeqCst, SeqCst, is_one).is_ok()
            {
                free.wait();
            }
        });
        // This worker takes no task meanwhile, so an idle one takes what has lain for long enough.
        thread::sleep(ms(1));
        blocked.load(SeqCst) == others
    });
}

/// - given: each placement; all workers but one are blocked by foreign code
/// - when: tasks are spawned from inside and outside the run
/// - then: all of them run
#[test]
fn place_05_nothing_is_stranded() {
    let _watchdog = Watchdog::new();
    for placement in [Placement::Auto, Placement::Together, Placement::Spread] {
        for workers in [2, 4] {
            let runtime = runtime(workers, placement);
            let handle = runtime.handle();
            runtime.run(|| {
                let (free, blocked) = (Barrier::new(workers), AtomicUsize::new(0));
                ecru::scope(|s| {
                    block_the_others(s, &free, &blocked, workers - 1);
                    let waits = || ecru::sleep(ms(1)).is_ok();
                    let inside: Vec<_> = (0..20).map(|_| s.spawn(waits)).collect();
                    let outside: Vec<JoinHandle<'static, bool>> =
                        (0..20).map(|_| handle.spawn(waits).unwrap()).collect();
                    assert!(inside.iter().all(|task| task.join().unwrap()));
                    assert!(outside.iter().all(|task| task.join().unwrap()));
                    free.wait();
                });
            });
        }
    }
}

/// - given: two workers, or four; a task that has spawned many tasks, each of which waits once
/// - when: the task blocks its worker by foreign code until they have ended
/// - then: the other workers run all of them, without waiting for the blocked one to take some
#[test]
fn place_06_tasks_of_a_blocked_spawner() {
    const TASKS: usize = 2_000;
    let _watchdog = Watchdog::new();
    for workers in [2, 4] {
        runtime(workers, Placement::Auto).run(|| {
            let ended = AtomicUsize::new(0);
            ecru::scope(|s| {
                for _ in 0..TASKS {
                    s.spawn(|| {
                        ecru::sleep(ms(1)).unwrap();
                        ended.fetch_add(1, SeqCst);
                    });
                }
                while ended.load(SeqCst) < TASKS {
                    thread::sleep(ms(1));
                }
            });
        });
    }
}
