//! Many runs of one program: strategies, traces, and what is done with a failure.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use ecru::sim::{self, Explore, Failure, Simulation, Strategy, Trace, explore};
use ecru::sync::Mutex;

use crate::support::{alone_with, is_child, ms, panic_text};

/// Two tasks that read a number and then write the next one, among others that do nothing.
fn lost_update() {
    let number = AtomicU32::new(0);
    let noise = || (0..3).for_each(|_| sim::point());
    ecru::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                noise();
                let read = number.load(Relaxed);
                sim::point();
                number.store(read + 1, Relaxed);
                noise();
            });
            s.spawn(noise);
        }
    });
    assert_eq!(number.into_inner(), 2, "an update is lost");
}

/// The same, and the assertion fails in a task.
fn lost_update_in_a_task() {
    ecru::scope(|s| {
        s.spawn(lost_update);
    });
}

/// The same with a lock.
fn kept_update() {
    let number = Mutex::new(0);
    ecru::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| *number.lock() += 1);
        }
    });
    assert_eq!(number.into_inner(), 2);
}

/// Two tasks that take two locks in different orders.
fn lock_order() {
    let (one, two) = (Mutex::new(()), Mutex::new(()));
    ecru::scope(|s| {
        for (first, second) in [(&one, &two), (&two, &one)] {
            s.spawn(move || {
                let _first = first.lock_cancellable();
                let _second = second.lock_cancellable();
            });
        }
    });
}

fn seeds(seeds: u64, strategy: Strategy) -> Explore {
    Explore::Seeds { seeds: 0..seeds, strategy }
}

#[track_caller]
fn found(plan: Explore, f: impl Fn() + Send + Sync + 'static) -> sim::Found {
    *explore(plan, f).expect_err("no run has failed")
}

/// - given: a program with a bug that needs one preemption at the right place
/// - when: it is explored with 1,000 seeds, by `Random` and by `Pct`
/// - then: the bug is found, with the seed, the failure and a trace
#[test]
fn sim_300_seeds_find_a_lost_update() {
    for strategy in [Strategy::Random, Strategy::Pct { depth: 2 }] {
        let found = found(seeds(1_000, strategy), lost_update);
        assert!(matches!(found.failure, Failure::Panicked(_)), "{found}");
        let text = found.to_string();
        assert!(
            text.contains("an update is lost") && text.contains(&found.trace.to_string()),
            "{text}"
        );
        assert!(text.contains(&format!("with seed {}", found.seed)), "{text}");
    }
}

/// - given: a small program, without a bug or with one
/// - when: all its interleavings are run
/// - then: `Explored` says that they were all, or the bug is found
#[test]
fn sim_301_all_interleavings() {
    let plan = Explore::Exhaustive { max_runs: 20_000 };
    let explored = explore(plan.clone(), kept_update).unwrap_or_else(|found| panic!("{found}"));
    assert!(explored.is_complete() && explored.runs() > 10, "{explored}");
    let found = found(plan, lost_update);
    assert_eq!(found.seed, 0);
}

/// - given: a program with more interleavings than runs
/// - when: it is explored exhaustively
/// - then: the result is not complete, and says up to how many preemptions it is
#[test]
fn sim_302_some_interleavings() {
    let many = || {
        ecru::scope(|s| {
            (0..4).for_each(|_| drop(s.spawn(|| (0..4).for_each(|_| sim::point()))));
        });
    };
    let explored = explore(Explore::Exhaustive { max_runs: 50 }, many).unwrap();
    assert_eq!((explored.runs(), explored.is_complete()), (50, false));
}

/// - given: the seed and the trace of a run, as a text
/// - when: the run is repeated by `Strategy::Replay`
/// - then: it has the same trace, hash and result
#[test]
fn sim_303_a_trace_repeats_its_run() {
    for seed in 0..10 {
        for strategy in [Strategy::Random, Strategy::Pct { depth: 3 }] {
            let first = Simulation::new(seed).strategy(strategy).run(lost_update);
            let trace: Trace = first.trace.to_string().parse().unwrap();
            assert_eq!(trace, first.trace);
            let again = Simulation::new(seed).strategy(Strategy::Replay(trace)).run(lost_update);
            assert_eq!(again.trace_hash, first.trace_hash);
            assert_eq!(again.trace, first.trace);
            assert_eq!(again.result.is_ok(), first.result.is_ok());
        }
    }
}

/// - given: a trace, and a program that has been changed
/// - when: the trace is replayed
/// - then: the run fails as `Diverged`, with the turn and the task
#[test]
fn sim_304_a_trace_of_another_program() {
    let first = Simulation::new(1).run(lost_update);
    let again = Simulation::new(1).strategy(Strategy::Replay(first.trace)).run(kept_update);
    let failure = again.result.unwrap_err();
    assert!(matches!(failure, Failure::Diverged(_)), "{failure}");
    let text = failure.to_string();
    assert!(text.contains("diverged at turn ") && text.contains("task "), "{text}");
}

/// - given: a run that failed with many preemptions
/// - when: `explore` returns it
/// - then: its trace has only those that the failure needs, and fails in the same way
#[test]
fn sim_305_a_failure_is_made_simpler() {
    let found = found(seeds(1_000, Strategy::Random), lost_update);
    let text = found.trace.to_string();
    assert_eq!(text.matches('!').count(), 1, "{text}");
    let again =
        Simulation::new(found.seed).strategy(Strategy::Replay(found.trace)).run(lost_update);
    assert!(again.result.unwrap_err().to_string().contains("an update is lost"));
}

/// - given: two tasks that take two locks in different orders
/// - when: they are explored
/// - then: the deadlock is found in a trace with one preemption
#[test]
fn sim_306_a_deadlock_is_found() {
    for plan in [seeds(1_000, Strategy::Random), Explore::Exhaustive { max_runs: 1_000 }] {
        let found = found(plan, lock_order);
        assert!(matches!(found.failure, Failure::Deadlock(_)), "{found}");
        assert_eq!(found.trace.to_string().matches('!').count(), 1, "{found}");
    }
}

/// - given: a program that is another one in each run
/// - when: `explore` finds a failure in it
/// - then: the text says that it is not deterministic, and names the turn and the task
#[test]
fn sim_307_a_program_that_changes_by_itself() {
    static RUNS: AtomicU64 = AtomicU64::new(0);
    let found = found(seeds(100, Strategy::Random), || {
        let run = RUNS.fetch_add(1, Relaxed);
        ecru::scope(|s| {
            for _ in 0..=run {
                s.spawn(sim::point);
            }
        });
        panic!("on purpose");
    });
    let text = found.to_string();
    assert!(
        text.contains("not deterministic") && text.contains("at turn ") && text.contains("task "),
        "{text}"
    );
}

/// - given: a text that is no trace
/// - when: it is parsed
/// - then: the error names the place and what was expected
#[test]
fn sim_308_a_text_that_is_no_trace() {
    let error = |text: &str| text.parse::<Trace>().unwrap_err().to_string();
    assert!(error("v1 0+1! x").contains("byte 8: expected a step"), "{}", error("v1 0+1! x"));
    assert!(error("v7 0").contains("begins with `v1`"));
    assert!(error("v1 0*99999999999").contains("more than"));
}

/// - given: a test whose body fails with some seeds
/// - when: `sim::test` runs it
/// - then: it panics with the seed, the virtual time, the failure, a trace and a command
#[test]
fn sim_309_a_failed_test_says_how_to_repeat_it() {
    let text = panic_text(|| {
        sim::test(|| {
            ecru::sleep(ms(1500)).unwrap();
            panic!("on purpose");
        });
    });
    for part in
        ["seed ", "1.5s of virtual time", "on purpose", "Strategy::Replay(\"v1 ", "ECRU_SIM_SEED="]
    {
        assert!(text.contains(part), "{part:?} is not in {text}");
    }
    assert!(text.contains("-- --exact ") && text.contains("sim_309"), "{text}");
}

/// - given: `ECRU_SIM_SEED`, `ECRU_SIM_SEEDS` with a number or a range, or none of them
/// - when: `sim::test` runs a body
/// - then: it runs with that seed, with that many seeds, with the seeds of the range, or with 16
#[test]
fn sim_310_the_environment_picks_the_seeds() {
    let test = "sim::explore::sim_310_the_environment_picks_the_seeds";
    if is_child(test) {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        sim::test(|| {
            RUNS.fetch_add(1, Relaxed);
        });
        println!("{} runs of the body", RUNS.load(Relaxed));
        return;
    }
    // One run shows the length, and one in sixteen seeds is run twice.
    for (variable, value, runs) in [
        ("ECRU_SIM_SEED", "7", 3),
        ("ECRU_SIM_SEEDS", "40", 44),
        ("ECRU_SIM_SEEDS", "1000..1040", 44),
        ("ECRU_SIM_OTHER", "x", 18),
    ] {
        let output = alone_with(
            test,
            |command| {
                command
                    .env_remove("ECRU_SIM_SEED")
                    .env_remove("ECRU_SIM_SEEDS")
                    .env(variable, value);
            },
            || unreachable!("this is the parent"),
        );
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        assert!(text.contains(&format!("{runs} runs of the body")), "{variable}={value}: {text}");
    }
}

/// - given: `ECRU_SIM_SEEDS` or `ECRU_SIM_SEED` with a value that is no number
/// - when: `sim::test` is called
/// - then: it panics with the variable, the value and what to do
#[test]
fn sim_311_a_bad_value_in_the_environment() {
    let test = "sim::explore::sim_311_a_bad_value_in_the_environment";
    if is_child(test) {
        println!("it said: {}", panic_text(|| sim::test(|| {})));
        return;
    }
    for (variable, value) in [
        ("ECRU_SIM_SEED", "x7"),
        ("ECRU_SIM_SEEDS", "-1"),
        ("ECRU_SIM_SEEDS", "0"),
        ("ECRU_SIM_SEEDS", "20..10"),
    ] {
        let output = alone_with(
            test,
            |command| {
                command
                    .env_remove("ECRU_SIM_SEED")
                    .env_remove("ECRU_SIM_SEEDS")
                    .env(variable, value);
            },
            || unreachable!("this is the parent"),
        );
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        assert!(
            text.contains(&format!("it said: {variable} is "))
                && text.contains("set it to a number"),
            "{text}"
        );
    }
}

/// - given: one seed and one strategy
/// - when: a program is run twice
/// - then: the traces and the hashes are the same; those of other seeds differ
#[test]
fn sim_312_a_seed_decides_the_schedule() {
    for strategy in [Strategy::Random, Strategy::Pct { depth: 3 }] {
        let run = |seed| {
            let report = Simulation::new(seed).strategy(strategy.clone()).run(lost_update);
            (report.trace.to_string(), report.trace_hash)
        };
        let all: std::collections::BTreeSet<_> = (0..20).map(run).collect();
        assert!(all.len() > 5, "{} schedules", all.len());
        assert!((0..20).all(|seed| all.contains(&run(seed))));
    }
}

/// - given: a long program in which two tasks must come in the wrong order, late
/// - when: it is explored by `Pct` with a depth of 2
/// - then: the bug is found
#[test]
fn sim_313_pct_finds_an_order_late_in_a_run() {
    let program = || {
        let state = AtomicU32::new(0);
        ecru::scope(|s| {
            s.spawn(|| {
                (0..50).for_each(|_| sim::point());
                state.store(1, Relaxed);
                sim::point();
                state.store(2, Relaxed);
            });
            s.spawn(|| {
                (0..50).for_each(|_| sim::point());
                assert_ne!(state.load(Relaxed), 1, "seen between the two");
            });
        });
    };
    let found = found(seeds(1_000, Strategy::Pct { depth: 2 }), program);
    assert!(found.to_string().contains("seen between the two"), "{found}");
}

/// - given: a failure that needs virtual time
/// - when: it is explored
/// - then: the text says how much virtual time had passed
#[test]
fn sim_314_the_virtual_time_of_a_failure() {
    let found = found(seeds(10, Strategy::Random), || {
        let _ = ecru::sleep(Duration::from_secs(1800));
        panic!("late");
    });
    assert!(found.to_string().contains("after 1800s of virtual time"), "{found}");
}

/// - given: a program in which a task of a scope panics
/// - when: `explore` finds it
/// - then: the second run, which reports no panics, counts as the same, and the trace is made simpler
#[test]
fn sim_315_a_panic_of_a_task_is_repeated() {
    let plan = Explore::Seeds { seeds: 0..1000, strategy: Strategy::Random };
    let found = explore(plan, lost_update_in_a_task).unwrap_err();
    let text = found.to_string();
    assert!(text.contains("an update is lost"), "{text}");
    assert!(!text.contains("not deterministic") && text.contains(", shortened from "), "{text}");
}
