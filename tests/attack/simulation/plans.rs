//! Plans, limits and traces that make no sense.

use super::{MS, SECOND, report};
use crate::common::{Watchdog, alone_with, panic_text, quiet_panic};
use ecru::sim::{self, Explore, Failure, Simulation, Strategy, Trace, explore};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

fn yields() {
    ecru::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| ecru::yield_now().is_ok());
        }
    });
}

#[test]
fn limits_of_zero() {
    let _watchdog = Watchdog::new();
    for (seed, strategy) in [(0, Strategy::Random), (1, Strategy::Pct { depth: 3 })] {
        let none = Simulation::new(seed).strategy(strategy.clone()).max_steps(0).run(yields);
        assert!(matches!(none.result, Err(Failure::OutOfSteps(_))), "{none}");
        let none = Simulation::new(seed).strategy(strategy).max_time(Duration::ZERO).run(|| {
            yields();
            let _ = ecru::sleep(Duration::from_nanos(1));
        });
        assert!(matches!(none.result, Err(Failure::OutOfTime(_))), "{none}");
    }
    let enough = Simulation::new(1).max_time(Duration::ZERO).run(yields);
    enough.unwrap();
    let most =
        Simulation::new(1).max_time(Duration::MAX).max_steps(u64::MAX).max_step_time(Duration::MAX);
    most.run(|| ecru::sleep(Duration::from_secs(1 << 33))).unwrap().unwrap();
    let never = Simulation::new(1).max_time(Duration::MAX).run(|| ecru::sleep(Duration::MAX));
    assert!(never.result.is_err(), "{never}");
}

#[test]
fn a_step_time_of_zero() {
    let _watchdog = Watchdog::new();
    let report = Simulation::new(1).max_step_time(Duration::ZERO).run(|| {
        yields();
        ecru::sleep(SECOND)
    });
    // Each step takes longer than nothing. The run fails, or it is over before anything is seen.
    assert!(matches!(report.result, Ok(_) | Err(Failure::Stuck { .. })), "{report}");
}

#[test]
fn depths_at_the_edge() {
    let _watchdog = Watchdog::new();
    for depth in [0, 1, 2, 1000, u32::MAX] {
        let report = Simulation::new(3).strategy(Strategy::Pct { depth }).run(yields);
        assert!(report.result.is_ok(), "{depth}: {report}");
    }
}

#[test]
fn explorations_of_nothing() {
    let _watchdog = Watchdog::new();
    let seeds = |seeds| Explore::Seeds { seeds, strategy: Strategy::Random };
    let explored = explore(seeds(0..0), || panic!("never runs")).unwrap();
    assert_eq!((explored.runs(), explored.is_complete()), (0, false));
    #[expect(clippy::reversed_empty_ranges, reason = "that is the attack")]
    let explored = explore(seeds(5..3), || panic!("never runs")).unwrap();
    assert_eq!(explored.runs(), 0);
    let last = explore(seeds(u64::MAX - 1..u64::MAX), yields).unwrap();
    assert_eq!(last.runs(), 1);
    let none = explore(Explore::Exhaustive { max_runs: 0 }, || panic!("never runs"));
    let none = none.unwrap();
    assert_eq!((none.runs(), none.is_complete()), (0, false));
    let _ = (none.to_string(), format!("{none:?}"), none.preemptions());
    let one = explore(Explore::Exhaustive { max_runs: 1 }, yields).unwrap();
    assert_eq!((one.runs(), one.is_complete()), (1, false));
}

#[test]
fn an_exhaustive_search_of_an_endless_program_slow() {
    let _watchdog = Watchdog::new();
    let outcome = explore(Explore::Exhaustive { max_runs: 3 }, || {
        ecru::scope(|s| {
            s.spawn(|| while ecru::sleep(SECOND).is_ok() {});
            s.spawn(|| while ecru::sleep(SECOND).is_ok() {});
        });
    });
    // After an hour.
    assert!(matches!(outcome.unwrap_err().failure, Failure::OutOfTime(_)));
}

#[test]
fn replays_of_texts_that_do_not_fit_slow() {
    let _watchdog = Watchdog::new();
    let texts = [
        "v1",
        "v1 0",
        "v1 4294967295",
        "v1 4294967295+4294967295!",
        "v1 0+4294967295",
        "v1 0+4294967295!",
        "v1 0 1 2 3 0 1 2 3 9",
        "v1 0*1000000",
        "v1 (0 1)*400000",
        "v1 0! 0! 0! 0! 0!",
        "v1 cancel@0",
        "v1 cancel@1",
        "v1 cancel@18446744073709551615",
        "v1 fault@0",
        "v1 fault@18446744073709551615",
        "v1 0 cancel@3 fault@1",
        "v1 cancel@1 cancel@2",
        "v1 fault@1 0 1",
    ];
    for text in texts {
        let Ok(trace) = text.parse::<Trace>() else { continue };
        assert_eq!(trace.to_string().parse::<Trace>().unwrap(), trace, "{text}");
        let report = Simulation::new(1).strategy(Strategy::Replay(trace)).run(|| {
            ecru::scope(|s| {
                for _ in 0..3 {
                    s.spawn(|| {
                        let _ = ecru::yield_now();
                        let _ = ecru::fs::write("f", "x");
                    });
                }
            });
        });
        assert!(matches!(report.result, Ok(()) | Err(Failure::Diverged(_))), "{text}: {report}");
    }
}

#[test]
fn texts_that_are_no_traces() {
    let huge = "9".repeat(100_000);
    let texts = [
        String::new(),
        String::from(" "),
        String::from("v2 0"),
        String::from("v"),
        String::from("v10"),
        String::from("v1x"),
        String::from("v1 -1"),
        String::from("v1 0x1"),
        String::from("v1 ("),
        String::from("v1 ()*2"),
        String::from("v1 (0"),
        String::from("v1 (0)*"),
        String::from("v1 ((0)*2)*2"),
        String::from("v1 0*"),
        String::from("v1 0+"),
        String::from("v1 0+1!!"),
        String::from("v1 cancel@"),
        String::from("v1 cancel@-1"),
        String::from("v1 cancel@18446744073709551616"),
        String::from("v1 0*18446744073709551615"),
        String::from("v1 (0 1 2)*18446744073709551615"),
        String::from("v1 ٣"),
        String::from("v1 0\x001"),
        format!("v1 {huge}"),
        format!("v1 0*{huge}"),
        format!("v1 {}", "(".repeat(100_000)),
    ];
    for text in &texts {
        let parsed = text.parse::<Trace>();
        let shown: String = text.chars().take(40).collect();
        let error = parsed.expect_err(&shown);
        assert!(error.to_string().len() < 1000, "{shown}");
        let _ = format!("{error:?}");
    }
    let zero = "v1 0*0 (1 2)*0".parse::<Trace>();
    assert!(zero.is_err() || zero.unwrap().is_empty());
}

#[test]
fn a_trace_of_a_failed_run_with_another_seed() {
    let _watchdog = Watchdog::new();
    let program = || {
        ecru::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    if sim::chance(0.5) {
                        let _ = ecru::sleep(MS * u32::from(sim::random_u64() as u8));
                    }
                    let _ = ecru::yield_now();
                });
            }
        });
    };
    let first = Simulation::new(1).run(program);
    for seed in 2..20 {
        let strategy = Strategy::Replay(first.trace.clone());
        let other = Simulation::new(seed).strategy(strategy).run(program);
        assert!(matches!(other.result, Ok(()) | Err(Failure::Diverged(_))), "{other}");
    }
    let same = Simulation::new(1).strategy(Strategy::Replay(first.trace.clone())).run(program);
    assert_eq!(
        (same.trace_hash, same.steps, same.elapsed),
        (first.trace_hash, first.steps, first.elapsed)
    );
}

#[test]
fn the_trace_of_each_kind_of_failure_repeats_it() {
    let _watchdog = Watchdog::new();
    type Program = fn();
    type Expected = fn(&Failure) -> bool;
    let programs: [(Program, Expected); 5] = [
        (
            || drop(ecru::sync::Notify::new().wait()),
            |failure| matches!(failure, Failure::Deadlock(_)),
        ),
        (
            || {
                yields();
                quiet_panic("p")
            },
            |failure| matches!(failure, Failure::Panicked(_)),
        ),
        (
            || {
                sim::invariant("i", || sim::elapsed() < SECOND);
                drop(ecru::sleep(60 * SECOND));
            },
            |failure| matches!(failure, Failure::Invariant { .. }),
        ),
        (
            || while ecru::yield_now().is_ok() {},
            |failure| matches!(failure, Failure::OutOfSteps(_)),
        ),
        (
            || while ecru::sleep(60 * SECOND).is_ok() {},
            |failure| matches!(failure, Failure::OutOfTime(_)),
        ),
    ];
    for (program, expected) in programs {
        let limited = |strategy| {
            Simulation::new(7)
                .strategy(strategy)
                .max_steps(2000)
                .max_time(600 * SECOND)
                .run(program)
        };
        let first = limited(Strategy::Random);
        assert!(expected(first.result.as_ref().unwrap_err()), "{first}");
        let again = limited(Strategy::Random);
        assert_eq!(again.trace_hash, first.trace_hash, "{first}");
        let text = first.trace.to_string();
        let replayed = limited(Strategy::Replay(text.parse().unwrap()));
        assert!(expected(replayed.result.as_ref().unwrap_err()), "{first}\n{replayed}");
        assert_eq!(replayed.trace_hash, first.trace_hash, "{first}\n{replayed}");
    }
}

#[test]
fn everywhere_with_nothing_and_with_programs_that_do_not_notice() {
    let _watchdog = Watchdog::new();
    sim::cancel_everywhere(|| ());
    sim::fault_everywhere(|| ());
    sim::cancel_everywhere(|| {
        ecru::shield(|| {
            let _ = ecru::sleep(SECOND);
        });
    });
    let count = AtomicU64::new(0);
    sim::fault_everywhere(|| {
        count.fetch_add(1, SeqCst);
        let (mut reader, mut writer) = match ecru::io::pipe() {
            Ok(ends) => ends,
            Err(_) => return,
        };
        use std::io::{Read, Write};
        let _ = writer.write_all(b"x");
        drop(writer);
        let _ = reader.read_to_end(&mut Vec::new());
    });
    assert!(count.load(SeqCst) > 4);
}

#[test]
fn everywhere_and_test_inside_of_a_task_and_of_a_simulation() {
    for text in [
        panic_text(|| ecru::run(|| sim::test(|| ()))),
        panic_text(|| ecru::run(|| sim::cancel_everywhere(|| ()))),
        panic_text(|| ecru::run(|| sim::fault_everywhere(|| ()))),
        panic_text(|| {
            drop(ecru::run(|| explore(Explore::Exhaustive { max_runs: 3 }, || ()).is_ok()))
        }),
    ] {
        assert!(text.contains("plain thread"), "{text}");
    }
    let report = report(1, || panic_text(|| sim::test(|| ())));
    assert!(report.unwrap().contains("plain thread"));
}

#[test]
fn a_program_that_behaves_otherwise_each_time_is_told_so() {
    let count = AtomicU64::new(0);
    let text = panic_text(|| {
        sim::test(|| {
            for _ in 0..count.fetch_add(1, SeqCst) {
                let _ = ecru::yield_now();
            }
        });
    });
    assert!(!text.is_empty());
}

#[test]
fn a_test_that_fails_while_it_unwinds_or_prints() {
    const NAME: &str = "simulation::plans::a_test_that_fails_while_it_unwinds_or_prints";
    alone_with(
        NAME,
        |_| {},
        || {
            let text = panic_text(|| {
                sim::test(|| {
                    struct Odd;
                    impl std::fmt::Display for Odd {
                        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                            let _ = ecru::sleep(SECOND);
                            f.write_str("odd")
                        }
                    }
                    panic!("{Odd}");
                });
            });
            assert!(text.contains("odd"), "{text}");
        },
    );
}
