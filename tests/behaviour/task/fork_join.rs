//! Fork-joins: trees of tasks that are started in place of their joiners.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use ecru::{JoinError, par};

use crate::common::resident_bytes;
use crate::support::{OnDrop, Watchdog, alone, ms, run_on};

const LEVELS: u32 = 15;
/// A depth that would take longer than the life of the universe, so something has to end it.
const ENDLESS: u32 = 100;

/// Joins the first task first, which is not the newest one.
fn by_spawn(levels: u32) -> u64 {
    if levels == 0 {
        return 1;
    }
    ecru::scope(|s| {
        let left = s.spawn(|| by_spawn(levels - 1));
        let right = s.spawn(|| by_spawn(levels - 1));
        left.join().unwrap() + right.join().unwrap()
    })
}

fn by_join(levels: u32) -> u64 {
    if levels == 0 {
        return 1;
    }
    let (left, right) = ecru::join!(by_join(levels - 1), by_join(levels - 1));
    left.unwrap() + right.unwrap()
}

fn by_join_all(levels: u32) -> u64 {
    if levels == 0 {
        return 1;
    }
    ecru::scope(|s| {
        let branches = [(); 2].map(|()| s.spawn(move || by_join_all(levels - 1)));
        ecru::join_all(branches).into_iter().map(Result::unwrap).sum()
    })
}

fn by_par_map(levels: u32) -> u64 {
    if levels == 0 { 1 } else { par::map([levels - 1; 2], by_par_map).into_iter().sum() }
}

fn by_scope_map(levels: u32) -> u64 {
    if levels == 0 {
        return 1;
    }
    ecru::scope(|s| s.map([levels - 1; 2], by_scope_map).map(Result::unwrap).sum())
}

/// Spawns four children, and joins them in the order of their spawning.
fn by_fours(levels: u32) -> u64 {
    if levels == 0 {
        return 1;
    }
    ecru::scope(|s| {
        let branches = [(); 4].map(|()| s.spawn(move || by_fours(levels - 1)));
        branches.map(|branch| branch.join().unwrap()).iter().sum()
    })
}

/// Returns how many megabytes a run adds.
fn megabytes(body: impl FnOnce()) -> usize {
    let before = resident_bytes();
    body();
    resident_bytes().saturating_sub(before) >> 20
}

/// - given: one worker, or two
/// - when: trees of 65,000 tasks are joined in spawn order, by `join!`, `join_all`,
///   `par::map`, `s.map`
/// - then: memory grows by less than 16 MB
#[cfg(not(ecru_baton))] // as many threads as tasks
#[test]
fn task_29_fork_join_memory_slow() {
    alone("task::fork_join::task_29_fork_join_memory_slow", || {
        for workers in [1, 2] {
            for (name, tree, levels) in [
                ("spawn", by_spawn as fn(u32) -> u64, LEVELS),
                ("join!", by_join, LEVELS),
                ("join_all", by_join_all, LEVELS),
                ("par::map", by_par_map, LEVELS),
                ("s.map", by_scope_map, LEVELS),
                ("fours", by_fours, LEVELS / 2),
            ] {
                let grown = megabytes(|| {
                    let leaves = run_on(workers, || tree(levels));
                    assert!(leaves.is_power_of_two());
                });
                assert!(grown < 16, "{name} on {workers} workers took {grown} MB");
            }
        }
    });
}

/// - given: a scope with a child that is not joined
/// - when: a hundred thousand pairs of younger children are spawned and joined in spawn order
/// - then: memory grows by less than 16 MB
#[cfg(not(ecru_baton))] // as many threads as tasks
#[test]
fn task_30_older_sibling_keeps_nothing_slow() {
    alone("task::fork_join::task_30_older_sibling_keeps_nothing_slow", || {
        let grown = megabytes(|| {
            run_on(1, || {
                ecru::scope(|s| {
                    let older = s.spawn(|| 0);
                    for round in 0..100_000 {
                        let (first, second) = (s.spawn(move || round), s.spawn(move || round));
                        assert_eq!(first.join().unwrap(), second.join().unwrap());
                    }
                    older.join().unwrap()
                })
            });
        });
        assert!(grown < 16, "{grown} MB");
    });
}

/// A fork-join that only a cancel request ends.
fn until_cancelled(levels: u32) -> Result<(), JoinError> {
    if levels == 0 {
        return Ok(());
    }
    ecru::scope(|s| {
        let left = s.spawn(|| until_cancelled(levels - 1));
        let right = s.spawn(|| until_cancelled(levels - 1));
        left.join()??;
        right.join()?
    })
}

/// - given: a `timeout` around an endless fork-join whose tasks never wait
/// - when: the deadline passes
/// - then: the joins are cancelled, and the result is `Elapsed`
#[test]
fn task_31_limit_around_a_fork_join() {
    let _watchdog = Watchdog::new();
    for workers in [1, 2] {
        let limited = run_on(workers, || ecru::timeout(ms(5), || until_cancelled(ENDLESS)));
        assert!(limited.is_err(), "{limited:?}");
    }
}

/// - given: one worker with an endless fork-join
/// - when: a task beside it sleeps
/// - then: the sleep ends at most 5 ms late
#[test]
fn task_32_sleep_beside_a_fork_join() {
    let _watchdog = Watchdog::new();
    run_on(1, || {
        ecru::scope(|s| {
            let busy = s.spawn_local(|| until_cancelled(ENDLESS));
            for _ in 0..5 {
                let before = processor_time();
                ecru::sleep(ms(1)).unwrap();
                let used = processor_time() - before;
                assert!(used < ms(1 + 5 * SLOWNESS), "a sleep of 1 ms took {used:?}");
            }
            busy.cancel();
            assert!(busy.join().unwrap().is_err());
        });
    });
}

/// Returns the processor time of this thread.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.try_into().unwrap(), time.tv_nsec.try_into().unwrap())
}

/// How many times slower a budget is in this build than in an optimized one.
const SLOWNESS: u64 = if cfg!(ecru_baton) {
    100
} else if cfg!(debug_assertions) {
    10
} else {
    1
};

/// - given: one worker with an endless fork-join
/// - when: a sibling is spawned
/// - then: it begins
///
/// A woken task continues, too.
#[test]
fn task_33_others_begin_beside_a_fork_join() {
    let _watchdog = Watchdog::new();
    run_on(1, || {
        let begun = &AtomicBool::new(false);
        ecru::cancel_scope(|c| {
            let _stop = OnDrop(|| c.cancel());
            ecru::scope(|s| {
                s.spawn_local(|| until_cancelled(ENDLESS));
                s.spawn(move || begun.store(true, SeqCst));
                while !begun.load(SeqCst) {
                    ecru::sleep(ms(1)).unwrap();
                }
                c.cancel();
            });
        });
    });
}

/// - given: a run, or a task in its first turn, that has spawned a child
/// - when: it yields once
/// - then: the child has begun
#[test]
fn task_34_first_yield_lets_a_child_begin() {
    for _ in 0..3 {
        run_on(1, || {
            let begun = &AtomicBool::new(false);
            ecru::scope(|s| {
                s.spawn(|| begun.store(true, SeqCst));
                ecru::yield_now().unwrap();
                assert!(begun.load(SeqCst));
                s.spawn(|| {
                    let begun = &AtomicBool::new(false);
                    ecru::scope(|s| {
                        s.spawn(|| begun.store(true, SeqCst));
                        ecru::yield_now().unwrap();
                        assert!(begun.load(SeqCst));
                    });
                });
            });
        });
    }
}
